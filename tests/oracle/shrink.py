"""Makes a query that shows a difference smaller, as long as it shows one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial

from sqlglot import exp, parse_one
from sqlglot.errors import ErrorLevel, SqlglotError

from engine.sql.engine_dialect import EngineDialect

SECONDS = 10.0
_CLAUSES = ("where", "having", "qualify", "order", "limit", "offset", "distinct", "with_")


def shrunk(sql: str, still_differs: Callable[[str], bool], seconds: float = SECONDS) -> str:
    """A smaller query that still differs.

    Args:
        sql: The query.
        still_differs: Whether a query has a determined answer that comes out wrong.
        seconds: How long to try.
    """
    deadline = time.monotonic() + seconds
    try:
        best = parse_one(sql, dialect=EngineDialect)
    except SqlglotError:
        return sql
    text = sql
    moved = True
    while moved:
        moved = False
        for candidate in _smaller(best):
            if time.monotonic() > deadline:
                return text
            smaller = _text(candidate)
            if smaller is not None and len(smaller) < len(text) and still_differs(smaller):
                best, text, moved = candidate, smaller, True
                break
    return text


def _text(tree: exp.Expr) -> str | None:
    try:
        return str(tree.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.IGNORE))
    except (SqlglotError, ValueError, AttributeError, TypeError):
        return None


def _smaller(tree: exp.Expr) -> Iterator[exp.Expr]:
    """Copies of a tree with something left out, the largest cuts first."""
    for place, node in enumerate(list(tree.walk())):
        yield from _cuts(tree, place, node)


def _cuts(tree: exp.Expr, place: int, node: exp.Expr) -> Iterator[exp.Expr]:
    """Copies of a tree with something left out at one of its nodes."""
    if isinstance(node, exp.SetOperation | exp.Connector | exp.Binary):
        yield _change_copy(tree, place, lambda target: target.this.copy())
        yield _change_copy(tree, place, lambda target: target.expression.copy())
    for clause in _CLAUSES:
        if node.args.get(clause):
            yield _change_copy(tree, place, partial(_drop_clause, clause))
    for name, fewest in (("expressions", 1 if isinstance(node, exp.Select) else 0), ("joins", 0)):
        count = len(node.args.get(name) or ())
        for item in range(count if count > fewest else 0):
            yield _change_copy(tree, place, partial(_drop_item, name, item))
    if isinstance(
        node, exp.Paren | exp.Not | exp.Alias | exp.Func | exp.Unary | exp.Filter | exp.Window
    ) and isinstance(node.this, exp.Expr):
        yield _change_copy(tree, place, lambda target: target.this.copy())


def _change_copy(tree: exp.Expr, place: int, change: Callable[[exp.Expr], exp.Expr | None]) -> exp.Expr:
    """A copy of a tree in which a node is changed, or replaced by what the change gives."""
    copy = tree.copy()
    target = list(copy.walk())[place]
    replacement = change(target)
    if replacement is None:
        return copy
    if target is copy:
        return replacement
    target.replace(replacement)
    return copy


def _drop_clause(clause: str, target: exp.Expr) -> None:
    target.set(clause, None)


def _drop_item(name: str, item: int, target: exp.Expr) -> None:
    target.set(name, [each for number, each in enumerate(target.args[name]) if number != item])
