"""Arrays and maps: their elements, by places and keys, and comparisons with them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from engine.errors import Unsupported
from engine.model.names import fold
from engine.sql.dialects.expressions import (
    Rewrite,
    bracket,
    call,
    choice,
    copy_of,
    number_literal,
    typed_call,
    whole_number,
)
from engine.sql.dialects.families import OTHERS, POSTGRES, SPARK, TRINO

_FIRST = "first index"
_ARRAYS = (exp.Array, exp.Split, exp.ArrayAgg, exp.ArrayUniqueAgg, exp.Filter)
"""What is known to give an array, and no map."""
_INDEXED_TYPES = (exp.DType.UNKNOWN, exp.DType.ARRAY)


def note_first_index(element: exp.Bracket, dialect: str) -> None:
    """Note from which number on an index counts, as it stands in the tree: once it is another expression,
    nobody can tell.

    Args:
        element: An element by its place.
        dialect: sqlglot's name of the statement's dialect.
    """
    element.meta[_FIRST] = _first_index(element, dialect)


def _first_index(element: exp.Bracket, dialect: str) -> int:
    offset = element.args.get("offset")
    if offset is not None:
        return int(offset)
    if Dialect.get_or_raise(dialect).INDEX_OFFSET == 0:
        return 0
    index, kind = element.expressions[0], element.this.type
    # What sqlglot knows to be a whole number it has made count from 0, and left it without a type.
    return int((kind is not None and kind.this not in _INDEXED_TYPES) or index.type is not None)


def _element(node: exp.Expr, dialect: str) -> exp.Expr:
    """What an array has at a place, or a map at a key. The engine counts from 1."""
    if (
        len(node.expressions) != 1
        or isinstance(node.expressions[0], exp.Slice)
        or node.args.get("json_access")
    ):
        return node
    (index,) = node.expressions
    number = whole_number(index)
    node.set("offset", None)
    if isinstance(index, exp.Literal) and number is None:
        return node
    if Dialect.get_or_raise(dialect).INDEX_OFFSET == 1:
        if node.meta[_FIRST] == 0:
            index = (
                exp.Add(this=bracket(index), expression=number_literal(1))
                if number is None
                else number_literal(number + 1)
            )
            is_before = number is not None and number < 0 and dialect in POSTGRES
            node.set("expressions", [exp.null() if is_before else index])
        return node
    if node.meta[_FIRST] == 1:
        return node
    if number is None or not isinstance(node.this, _ARRAYS):
        return typed_call("at_index", node.this, index)
    node.set("expressions", [number_literal(number + 1) if number >= 0 else exp.null()])
    return node


def _comparison(node: exp.Expr, _: str) -> exp.Expr:
    """A value and all elements of an array: where there is no array, it is not known."""
    compared = node.expression
    is_array = isinstance(compared, exp.Any | exp.All) and not isinstance(compared.this.unnest(), exp.Query)
    if not is_array or compared.find(exp.Column) is None:
        return node
    is_null = exp.Is(this=bracket(copy_of(compared.this, "ANY")), expression=exp.null())
    return bracket(choice(is_null, exp.null(), node))


def _place_in_array(node: exp.Expr, _: str) -> exp.Expr:
    """0 where the value is not in it."""
    what = "The place in an array"
    is_null = exp.Or(
        this=exp.Is(this=bracket(copy_of(node.this, what)), expression=exp.null()),
        expression=exp.Is(this=bracket(copy_of(node.expression, what)), expression=exp.null()),
    )
    found = exp.Coalesce(this=node, expressions=[number_literal(0)])
    return choice(is_null, exp.null(), found)


def _array_without(node: exp.Expr, _: str) -> exp.Expr:
    """Other values are kept, and so are NULLs."""
    name = exp.to_identifier("_value")
    is_other = exp.NullSafeNEQ(this=name.copy(), expression=bracket(node.expression))
    return call("list_filter", node.this, exp.Lambda(this=is_other, expressions=[name]))


def _indexed_lambda(node: exp.Expr, _: str) -> exp.Expr:
    """The places of elements, the second parameter of a lambda, count from 0."""
    found = node.expression
    if not isinstance(found, exp.Lambda) or len(found.expressions) != 2:
        return node
    place = found.expressions[1].name
    for part in list(found.this.find_all(exp.Identifier)):
        if part.name == place and not isinstance(part.parent, exp.Column | exp.Dot):
            from_0 = exp.Sub(this=exp.to_identifier(place), expression=number_literal(1))
            part.replace(bracket(from_0))
    return node


def _sequence(node: exp.Expr, _: str) -> exp.Expr:
    """Numbers fall where the end is below the beginning."""
    if node.args.get("step") is not None:
        return node
    return typed_call("sequence_between", node.args["start"], node.args["end"])


def _reduce(node: exp.Expr, _: str) -> exp.Expr:
    """The last lambda is applied to what comes of the others."""
    finish = node.args.get("finish")
    if finish is None:
        return node
    node.set("finish", None)
    mapped = call("list_transform", exp.Array(expressions=[node]), finish)
    return exp.Bracket(this=mapped, expressions=[number_literal(1)])


def _member(node: exp.Expr, _: str) -> exp.Expr:
    if isinstance(node.expression, exp.Literal) and node.expression.is_string:
        return node
    raise Unsupported("GET is not supported for elements of an array: write a[0].")


def _array_length(node: exp.Expr, _: str) -> exp.Expr:
    """An empty array has no dimension that could be long."""
    if node.expression is None or not _is_one([node.expression]):
        return node
    node.set("expression", None)
    return exp.Nullif(this=node, expression=number_literal(0))


def _is_one(arguments: list[exp.Expr]) -> bool:
    return len(arguments) == 1 and whole_number(arguments[0]) == 1


def _cardinality(node: exp.Expr, _: str) -> exp.Expr:
    (values,) = node.expressions
    return exp.ArraySize(this=values)


def _last_place(node: exp.Expr, _: str) -> exp.Expr:
    """In the first dimension."""
    values, dimension = node.expressions
    if not _is_one([dimension]):
        return node
    return exp.Nullif(this=exp.ArraySize(this=values), expression=number_literal(0))


def _any_element(node: exp.Expr, _: str) -> exp.Expr:
    """Whether a condition is true of any element; EXISTS of a query is another thing."""
    array, condition = node.this, node.args.get("expression")
    if not isinstance(condition, exp.Lambda):
        return node
    return call("any_of", call("list_transform", array, condition))


def _quantified_match(node: exp.Expr, _: str) -> exp.Expr:
    """Whether a condition is true of any, all or none of the elements."""
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Lambda):
        return node
    name, answers = fold(node.name), call("list_transform", *node.expressions)
    if name == "none_match":
        return bracket(exp.Not(this=call("any_of", answers)))
    return call("any_of" if name == "any_match" else "all_of", answers)


REWRITES: Sequence[Rewrite] = (
    ((exp.Exists,), SPARK, _any_element),
    (("any_match", "all_match", "none_match", "forall"), SPARK | TRINO, _quantified_match),
    ((exp.Bracket,), OTHERS, _element),
    ((exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE), POSTGRES, _comparison),
    ((exp.ArrayPosition,), SPARK | TRINO, _place_in_array),
    ((exp.ArrayRemove,), SPARK | POSTGRES | TRINO, _array_without),
    ((exp.Transform, exp.ArrayFilter), SPARK, _indexed_lambda),
    ((exp.GenerateSeries,), SPARK | TRINO, _sequence),
    ((exp.Reduce,), SPARK | TRINO, _reduce),
    ((exp.GetExtract,), frozenset({"snowflake"}), _member),
    ((exp.ArraySize,), POSTGRES, _array_length),
    (("cardinality",), POSTGRES, _cardinality),
    (("array_upper",), POSTGRES, _last_place),
)
