"""Ties what the engine says about a statement back to the place in the user's text."""

from __future__ import annotations

import re

from sqlglot import exp

from engine.errors import LivestateError
from engine.model.names import fold
from engine.sql.bind import BoundStatement
from engine.sql.functions import function_name
from engine.sql.text import did_you_mean, offset_of

_ADVICE = re.compile(r"(?<! ) *Use \"?SET .*")
"""Settings are locked, so advice to change one helps nobody."""


def diagnose(bound: BoundStatement, message: str, name: str, near: str, subtype: str) -> LivestateError:
    """The error for a statement that the engine refuses.

    Args:
        bound: The statement.
        message: What the engine says.
        name: What it names: a column, a function; empty if nothing.
        near: The part of the engine's statement that it is about; may be empty.
        subtype: Its `error_subtype`, such as `COLUMN_NOT_FOUND`.

    Returns:
        An error that points at the first place in the text that has the name.
    """
    for reference in bound.references:
        message = message.replace(f'"{reference.scan}"', reference.alias).replace(
            reference.scan, reference.alias
        )
    message = _ADVICE.sub("", message.split("\n", 1)[0]).strip()
    offset = (
        None
        if bound.tree is None
        else _find_name(bound.tree, name) or _find_name(bound.tree, near.strip("\"'"))
    )
    unknown = _unknown_column(bound)
    if unknown is not None:
        column, names = unknown
        return bound.source.not_found_error(
            f"There is no column {column.name} in {column.table}.{did_you_mean(column.name, names)}",
            offset_of(column.this),
        )
    if subtype == "COLUMN_NOT_FOUND":
        known = [column for reference in bound.references for column in reference.definition.schema.names]
        if fold(name) in map(fold, known):
            return _misplaced_column(bound, name)
        return bound.source.not_found_error(f"There is no column {name}.{did_you_mean(name, known)}", offset)
    if subtype == "MISSING_ENTRY" and _is_function(bound.tree, name):
        return bound.source.not_found_error(f"There is no function {name}.", offset)
    return bound.source.error(message if message.endswith((".", "!", "?")) else f"{message}.", offset)


def _misplaced_column(bound: BoundStatement, name: str) -> LivestateError:
    """The error for a column that there is, but not where it is used."""
    for clause in bound.tree.find_all(exp.Limit, exp.Offset) if bound.tree is not None else ():
        offset = _find_name(clause, name)
        if offset is not None:
            return bound.source.error(
                f"LIMIT and OFFSET are the same for all rows: {name} is a column.", offset
            )
    # Without a place, `NotFound` is a host that lacks something.
    return bound.source.error(
        f"There is no column {name} in one of the places where it is used: a query sees the columns of its "
        "own FROM and of the queries around it.",
        None,
    )


def _unknown_column(bound: BoundStatement) -> tuple[exp.Column, list[str]] | None:
    """A column that is qualified by a store which does not have it, and that store's columns."""
    known = {fold(reference.alias): reference.definition.schema.names for reference in bound.references}
    aliases = [fold(reference.alias) for reference in bound.references]
    for column in bound.tree.find_all(exp.Column) if bound.tree is not None else ():
        names = known.get(fold(column.table), [])
        plain = (
            not column.db and not isinstance(column.this, exp.Star) and aliases.count(fold(column.table)) == 1
        )
        if names and plain and fold(column.name) not in {fold(name) for name in names}:
            return column, names
    return None


def _find_name(tree: exp.Expr, name: str) -> int | None:
    """The first place of a name: of a column before that of anything else."""
    lowered = fold(name)
    if not lowered:
        return None
    columns = [offset_of(node.this) for node in tree.find_all(exp.Column) if fold(node.name) == lowered]
    others = [offset_of(node) for node in tree.find_all(exp.Identifier) if fold(node.name) == lowered]
    calls = _offsets_of_calls(tree, lowered)
    literals = [offset_of(node) for node in tree.find_all(exp.Literal) if node.name == name]
    for offsets in (columns, others, calls, literals):
        found = [offset for offset in offsets if offset is not None]
        if found:
            return min(found)
    return None


def _offsets_of_calls(tree: exp.Expr, name: str) -> list[int | None]:
    """Where the calls of a function start, without those inside of others: each would be walked anew."""

    def is_call(node: exp.Expr) -> bool:
        return isinstance(node, exp.Func) and function_name(node) == name

    return [offset_of(node) for node in tree.walk(prune=is_call) if is_call(node)]


def _is_function(tree: exp.Expr | None, name: str) -> bool:
    return tree is not None and any(function_name(node) == fold(name) for node in tree.find_all(exp.Func))
