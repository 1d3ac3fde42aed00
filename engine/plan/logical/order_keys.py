"""Keys of ORDER BY that stand for outputs of a query: by ordinal, by name, or all of them."""

from __future__ import annotations

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.outputs import output_at
from engine.plan.logical.scopes import Uncertain, is_bare
from engine.plan.logical.trees import output_column, text, unwrap


def outputs_by_ordinal(ordered: exp.Expr, names: list[str]) -> list[exp.Expr]:
    """What ORDER BY has in place of ALL, or of an ordinal; nothing for other keys."""
    key = unwrap(ordered.this)
    if isinstance(key, exp.Var) and key.name.upper() == "ALL":
        return [order_key_like(ordered, output_column(name)) for name in names]
    if isinstance(key, exp.Literal) and not key.is_string:
        return [order_key_like(ordered, output_column(output_at(names, key)))]
    return []


def value_by_ordinal(ordered: exp.Expr, values: list[exp.Expr]) -> exp.Expr:
    """The same key of ORDER BY; for a collation of an ordinal, that of the output's value."""
    key = unwrap(ordered.this)
    ordinal = unwrap(key.this) if isinstance(key, exp.Collate) else None
    if key is None or not isinstance(ordinal, exp.Literal) or ordinal.is_string:
        return ordered
    value = exp.Paren(this=output_at(values, ordinal).copy())
    return order_key_like(ordered, exp.Collate(this=value, expression=key.expression.copy()))


def output_by_name(ordered: exp.Expr, names: list[str]) -> exp.Expr:
    """A key of ORDER BY that has to be an output's name."""
    key = unwrap(ordered.this)
    same = (
        [name for name in names if fold(name) == fold(key.name)] if is_bare(key) and key is not None else []
    )
    if not same:
        raise Uncertain("ORDER BY")
    return order_key_like(ordered, output_column(same[0]))


def order_key_like(ordered: exp.Expr, key: exp.Expr) -> exp.Ordered:
    """A key of ORDER BY with the direction and the place of NULL that another one has."""
    copied = ordered.copy()
    copied.set("this", key)
    assert isinstance(copied, exp.Ordered)
    return copied


def named_text(name: str, value: exp.Expr) -> str:
    """An output, with its name."""
    return f"{text(value)} AS {fold(name)}"
