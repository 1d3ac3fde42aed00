"""Expressions that say what another dialect means, and what is known of those that are there."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import TypeAlias

from sqlglot import exp

from engine.errors import Unsupported
from engine.model.names import fold

Kind: TypeAlias = type[exp.Expr] | str
"""Of nodes; of calls that sqlglot has no kind for, the name in small letters."""
Rewrite: TypeAlias = tuple[Sequence[Kind], Set[str], Callable[[exp.Expr, str], exp.Expr]]
"""Kinds of nodes, the dialects in which they mean something else than in the engine, and what gives what
says it, for a node and its dialect.
"""
MAX_REPEATED_NODES = 50
"""Of an expression that has to be written twice; what nests would become twice as long at each level."""
_NAMES_AGGREGATE = "names an aggregate"


def call(name: str, *arguments: exp.Expr) -> exp.Expr:
    """A call.

    Args:
        name: Of one of the engine's functions.
        arguments: In their order.
    """
    return exp.Anonymous(this=name, expressions=list(arguments))


def number_literal(value: int) -> exp.Expr:
    """A whole number as it is written.

    Args:
        value: The number.
    """
    return exp.Literal.number(value) if value >= 0 else exp.Neg(this=exp.Literal.number(-value))


def bracket(node: exp.Expr) -> exp.Expr:
    """An expression in brackets, as an operand is.

    Args:
        node: The expression; it moves.
    """
    return exp.Paren(this=node)


def choice(condition: exp.Expr, chosen: exp.Expr, otherwise: exp.Expr) -> exp.Expr:
    """One of two values.

    Args:
        condition: Says which.
        chosen: Where it is true.
        otherwise: Where it is not.
    """
    return exp.Case(ifs=[exp.If(this=condition, true=chosen)], default=otherwise)


def copy_of(node: exp.Expr, what: str) -> exp.Expr:
    """An expression once more.

    Args:
        node: The expression; it stays where it is.
        what: What it is, for an error.

    Raises:
        Unsupported: It is too long to be there twice, or another one each time.
    """
    for size, part in enumerate(node.walk(), 1):
        if size > MAX_REPEATED_NODES or _is_made_once(part):
            raise Unsupported(
                f"{what} of this dialect is given something too long, a nameless parameter or a subquery: "
                "work it out in a subquery of its own, or ask in DuckDB's dialect."
            )
    return node.copy()


def _is_made_once(node: exp.Expr) -> bool:
    """Whether an expression written twice would be another one: a `?` without a number is the next one."""
    return isinstance(node, exp.Query) or (isinstance(node, exp.Placeholder) and not node.name)


def whole_number(node: exp.Expr | None) -> int | None:
    """The value of a whole number that is written as such.

    Args:
        node: An expression.

    Returns:
        The value; None for any other expression.
    """
    sign = 1
    while isinstance(node, exp.Neg | exp.Paren):
        sign, node = -sign if isinstance(node, exp.Neg) else sign, node.this
    return sign * int(node.this) if isinstance(node, exp.Literal) and node.is_int else None


def is_aggregated(*nodes: exp.Expr) -> bool:
    """Whether there is an aggregate or a window in expressions, or the name of one.

    Args:
        nodes: The expressions; queries within them are others'.
    """
    return any(
        isinstance(part, exp.AggFunc | exp.AnonymousAggFunc | exp.Window) or _NAMES_AGGREGATE in part.meta
        for node in nodes
        for part in node.walk(prune=lambda each: isinstance(each, exp.Query))
    )


def mark_names_of_aggregates(tree: exp.Expr) -> None:
    """Note which columns may be outputs that have an aggregate or a window in them.

    Args:
        tree: A statement.
    """
    aliases = {
        fold(str(alias.alias))
        for alias in tree.find_all(exp.Alias)
        if isinstance(alias.parent, exp.Select) and is_aggregated(alias.this)
    }
    for column in tree.find_all(exp.Column) if aliases else ():
        if not column.table and fold(column.name) in aliases:
            column.meta[_NAMES_AGGREGATE] = True


def typed_call(name: str, *operands: exp.Expr, before: Sequence[exp.Expr] = ()) -> exp.Expr:
    """A call of one of `engine.sql.dialects.functions`, which is chosen by the types of its operands.

    Args:
        name: Of the function.
        operands: Its last arguments; they move.
        before: Its first arguments, whose types are the same in each of its forms.
    """
    if not is_aggregated(*operands):
        return call(name, *before, *operands)
    # Within a lambda the engine knows the types of aggregates, too.
    fields = [f"_{number}" for number in range(len(operands))]
    values = exp.Struct(
        expressions=[
            exp.PropertyEQ(this=exp.to_identifier(field, quoted=True), expression=operand)
            for field, operand in zip(fields, operands, strict=True)
        ]
    )
    parts = [
        call("struct_extract", exp.to_identifier("_values"), exp.Literal.string(field)) for field in fields
    ]
    called = exp.Lambda(this=call(name, *before, *parts), expressions=[exp.to_identifier("_values")])
    mapped = call("list_transform", exp.Array(expressions=[values]), called)
    return exp.Bracket(this=mapped, expressions=[number_literal(1)])
