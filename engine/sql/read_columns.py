"""Which columns of a store a statement can touch at most.

Scopes are not resolved. A column is needed as soon as its name stands anywhere in the statement where it
could mean the column; a star, a natural join, or a table used as a row needs all. Too many columns cost time
and never change an answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp

from engine.model.names import fold
from engine.model.schema import StoreDefinition

ALL_COLUMNS: tuple[str, ...] = ("*",)

_NEED_ALL = (exp.Columns, exp.Pivot, exp.Summarize, exp.PositionalColumn)
_NAMED = (exp.Column, exp.Table, exp.TableAlias)
_ROW_CLAUSES = {"expressions", "from_", "joins", "where"}


def needed_columns(
    tree: exp.Expr, tables: Sequence[tuple[exp.Table, StoreDefinition]]
) -> list[tuple[str, ...]]:
    """The columns that a statement can touch of each store it reads.

    Args:
        tree: A checked statement.
        tables: Its references to stores.

    Returns:
        For each reference, column names in the store's order, or `ALL_COLUMNS`.
    """
    uses = _Uses(tree)
    return [uses.columns_of(table, definition) for table, definition in tables]


def has_columns_of_rows(tree: exp.Expr | None) -> bool:
    """Whether a statement turns values into columns without saying which values, so that its result's columns
    depend on its rows.
    """
    pivots = (
        (pivot for pivot in tree.find_all(exp.Pivot) if not pivot.args.get("unpivot"))
        if tree is not None
        else ()
    )
    return any(not _lists_values(pivot) for pivot in pivots)


def _lists_values(pivot: exp.Pivot) -> bool:
    turned = pivot.args.get("fields") or pivot.expressions
    return all(
        isinstance(each, exp.In) and each.expressions and not _is_operator(each.this) for each in turned
    )


def _is_operator(node: exp.Expr) -> bool:
    """Whether IN behind a node is a part of it, so that PIVOT has the columns true and false, as far as there
    are such rows.
    """
    return isinstance(node, exp.Binary | exp.Unary) and not isinstance(node, exp.Dot | exp.Paren)


def _only_asks_for_rows(select: exp.Select) -> bool:
    """Whether a SELECT stands in EXISTS and has no clause by which its outputs could decide how many rows it
    has.
    """
    return (
        isinstance(select.parent, exp.Exists)
        and not {name for name, value in select.args.items() if value} - _ROW_CLAUSES
    )


class _Uses:
    """All names of a statement that can mean columns."""

    def __init__(self, tree: exp.Expr) -> None:
        self._everywhere = False
        self._bare: set[str] = set()
        self._single: set[str] = set()
        self._qualified: set[tuple[str, str]] = set()
        self._starred: set[str] = set()
        self._star_selects: set[int] = set()
        # One walk: it takes longer than what is done with each node.
        for node in tree.walk():
            if isinstance(node, exp.Column):
                self._add_column(node)
            elif isinstance(node, exp.Identifier):
                if not isinstance(node.parent, _NAMED):
                    self._bare.add(fold(node.name))
            elif isinstance(node, exp.Star):
                self._add_star(node)
            elif isinstance(node, exp.Join):
                self._bare.update(fold(name.name) for name in node.args.get("using") or ())
                self._everywhere |= str(node.args.get("method") or "").upper() == "NATURAL"
            elif isinstance(node, _NEED_ALL):
                self._everywhere = True

    def _add_column(self, column: exp.Column) -> None:
        parts = [part for part in column.parts if not isinstance(part, exp.Star)]
        names = [fold(part.name) for part in parts]
        self._bare.update(names[:1])
        if len(names) == 1:
            self._single.update(names)
        self._qualified.update(pairwise(names))
        if isinstance(column.this, exp.Star):
            self._starred.update(names)

    def _add_star(self, star: exp.Star) -> None:
        if isinstance(star.parent, exp.Count | exp.Column):
            return
        select = star.find_ancestor(exp.Select)
        if select is not None and not (star.parent is select and _only_asks_for_rows(select)):
            self._star_selects.add(id(select))

    def columns_of(self, table: exp.Table, definition: StoreDefinition) -> tuple[str, ...]:
        alias = fold(table.alias_or_name)
        renamed = table.args.get("alias") is not None and table.args["alias"].args.get("columns")
        select = table.find_ancestor(exp.Select)
        names = {fold(name) for name in definition.schema.names}
        row = alias in self._single and alias not in names
        if (
            self._everywhere
            or renamed
            or row
            or alias in self._starred
            or select is None
            or id(select) in self._star_selects
        ):
            return ALL_COLUMNS
        return tuple(
            name
            for name in definition.schema.names
            if fold(name) in self._bare or (alias, fold(name)) in self._qualified
        )
