"""Outputs of a query: their names, those included that nobody can ask for, and their ordinals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.scopes import Uncertain
from engine.plan.logical.trees import output_column, output_names, unwrap, used_arguments

T = TypeVar("T")
UNNAMED = "__unnamed"
REPEATED = "__repeated"
"""Outputs without a name, and with one that another output has; nobody can ask for them by these."""


def name_of(value: exp.Expr) -> str:
    """The name of an output without an alias."""
    value = unwrap(value) or value
    if isinstance(value, exp.Column | exp.Dot):
        return value.name
    return UNNAMED


def rename_outputs(query: exp.Query, names: list[str]) -> None:
    """Give a resolved query's first outputs other names, and ORDER BY the new ones.

    Those of a set operation are the ones of its first SELECT.
    """
    written = output_names(query)
    if len(names) > len(written):
        raise Uncertain(names[0])
    renamed = dict(zip(written, names, strict=False))
    first: exp.Expr = query
    while not isinstance(first, exp.Select):
        _rename_order_keys(first, renamed)
        first = first.this
    _rename_order_keys(first, renamed)
    for output, name in zip(first.expressions, names, strict=False):
        output.set("alias", exp.to_identifier(name, quoted=True))


def _rename_order_keys(query: exp.Expr, renamed: Mapping[str, str]) -> None:
    order = query.args.get("order")
    for ordered in order.expressions if order is not None else ():
        key = ordered.this
        if isinstance(key, exp.Column) and not key.table and key.name in renamed:
            ordered.set("this", output_column(renamed[key.name]))


def check_outputs(query: exp.Query) -> None:
    """Columns that others may name have names that nobody had to make up."""
    names = [fold(name) for name in output_names(query)]
    if len(set(names)) != len(names) or any(name.startswith(REPEATED) for name in names):
        raise Uncertain("SELECT")


def output_at(outputs: list[T], ordinal: exp.Literal) -> T:
    """The one of some outputs, or of their names, that an ordinal stands for."""
    number = str(ordinal.this)
    if not number.isdigit() or not 1 <= int(number) <= len(outputs):
        raise Uncertain(number)
    return outputs[int(number) - 1]


def names_left_out(star: exp.Expr) -> set[str]:
    """The names behind EXCLUDE."""
    hidden = star.args.get("except_") or ()
    if any(isinstance(each, exp.Column) and each.table for each in hidden):
        raise Uncertain("EXCLUDE")
    return {fold(each.name) for each in hidden}


def has_made_up_names(query: exp.Expr) -> bool:
    """Whether an output of a resolved query has a name that the statement does not give it."""
    return any(name.startswith((UNNAMED, REPEATED)) for name in output_names(query))


def asks_only_for_rows(node: exp.Select) -> bool:
    """Whether only the number of rows of a SELECT of a star matters: its columns need not be there."""
    plain = used_arguments(node) <= {"expressions", "from_", "joins", "where"}
    return (
        isinstance(node.parent, exp.Exists)
        and plain
        and len(node.expressions) == 1
        and isinstance(node.expressions[0], exp.Star)
    )
