"""Predicates over one store's columns, as far as planning understands them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum

import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel, UnsupportedError

from engine.plan.logical.movable import has_columns, is_movable
from engine.plan.values import (
    UNKNOWN,
    Computed,
    Constant,
    Operand,
    Parameter,
    Unknown,
    parse_date,
    parse_timestamp,
)
from engine.sql.engine_dialect import EngineDialect


class Comparison(Enum):
    """How a column is compared: the column stands on the left."""

    EQUAL = "="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="


@dataclass(frozen=True)
class Compare:
    """`column <comparison> operand`.

    Attributes:
        column: The column.
        comparison: How it is compared.
        operand: What it is compared with.
        beside: The other bound of a BETWEEN, with which the engine finds one type for all three; None for a
            comparison of two.
    """

    column: str
    comparison: Comparison
    operand: Operand
    beside: Operand | Unknown | None = None


@dataclass(frozen=True)
class CompareRow:
    """`(columns) <comparison> (operands)`: the first column whose value is not its operand decides.

    Attributes:
        columns: Two columns or more, each once, none of which is NULL in any row.
        comparison: How they are compared; not for equality.
        operands: One a column. NULL is greater than all values, and a bare text is a VARCHAR.
    """

    columns: tuple[str, ...]
    comparison: Comparison
    operands: tuple[Operand, ...]


@dataclass(frozen=True)
class IsAmong:
    """`(columns) IN (rows)`; every row has one operand a column.

    Attributes:
        columns: The columns.
        rows: The rows.
        by_column: Whether the engine finds a type for each column of the rows, as it does for row values and
            VALUES: a bare text is a VARCHAR there, whatever it is compared with.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Operand, ...], ...]
    by_column: bool = False


@dataclass(frozen=True)
class IsListed:
    """`(columns)` equal a row of a long literal list, in those of its columns that `column_indexes` names."""

    columns: tuple[str, ...]
    list_name: str
    column_indexes: tuple[int, ...]


@dataclass(frozen=True)
class IsAnyOf:
    """`column = ANY(parameter)` where the parameter is a list."""

    column: str
    parameter: Parameter


@dataclass(frozen=True)
class StartsWith:
    """`column LIKE 'prefix%…'` or `starts_with(column, 'prefix')`: implies the prefix, and may
    ask for more.
    """

    column: str
    prefix: str


@dataclass(frozen=True)
class AllOf:
    """Parts joined by AND."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class AnyOf:
    """Parts joined by OR."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Opaque:
    """What planning does not understand: it may hold for any row."""


Predicate = Compare | CompareRow | IsAmong | IsListed | IsAnyOf | StartsWith | AllOf | AnyOf | Opaque

OPAQUE = Opaque()

ColumnResolver = Callable[[exp.Column], str | None]
"""The store's column that a column expression surely means; None if it means, or might mean,
something else.
"""

_COMPARISONS: dict[type[exp.Expr], tuple[Comparison, Comparison]] = {
    exp.EQ: (Comparison.EQUAL, Comparison.EQUAL),
    exp.LT: (Comparison.LESS, Comparison.GREATER),
    exp.LTE: (Comparison.LESS_EQUAL, Comparison.GREATER_EQUAL),
    exp.GT: (Comparison.GREATER, Comparison.LESS),
    exp.GTE: (Comparison.GREATER_EQUAL, Comparison.LESS_EQUAL),
}


_NO_SINGLE_VALUE = (exp.Tuple, exp.Array, exp.Struct, exp.Interval, exp.Any, exp.All, exp.Identifier)
"""Expressions that no column of a store is compared with as one value."""


def is_opaque(predicate: Predicate) -> bool:
    """Whether planning does not understand all of a predicate."""
    parts = getattr(predicate, "parts", None)
    return predicate == OPAQUE if parts is None else any(map(is_opaque, parts))


def predicate_of(
    node: exp.Expr, resolve: ColumnResolver, lists: Mapping[str, pa.Schema], never_null: Collection[str] = ()
) -> Predicate:
    """What a condition says about one store's columns.

    A node with arguments that this module does not know (a negation flag, an ESCAPE) is opaque as a whole, so
    a new form of the syntax tree is never half understood.

    Args:
        node: A condition.
        resolve: Tells the store's columns.
        lists: Columns of the long literal lists that the statement reads.
        never_null: Columns that are not NULL in any row that the condition meets, an outer join's included.

    Returns:
        A predicate that holds for every row for which the condition holds. It is equivalent unless it has
        `Opaque` or `StartsWith` in it.
    """
    if isinstance(node, exp.Paren):
        return predicate_of(node.this, resolve, lists, never_null)
    if isinstance(node, exp.And | exp.Or):
        parts = tuple(predicate_of(part, resolve, lists, never_null) for part in node.flatten())
        return AllOf(parts) if isinstance(node, exp.And) else AnyOf(parts)
    arguments = {name for name, value in node.args.items() if value}
    if type(node) in _COMPARISONS and arguments == {"this", "expression"}:
        return _comparison(node, resolve, never_null)
    if isinstance(node, exp.Between) and arguments == {"this", "low", "high"}:
        return _between_predicate(node, resolve)
    if isinstance(node, exp.In):
        return _membership(node, arguments, resolve, lists)
    if isinstance(node, exp.Like | exp.StartsWith) and arguments == {"this", "expression"}:
        return _prefix(node, resolve)
    return OPAQUE


def _column(node: exp.Expr | None, resolve: ColumnResolver) -> str | None:
    while isinstance(node, exp.Paren):
        node = node.this
    return resolve(node) if isinstance(node, exp.Column) else None


def _comparison(node: exp.Expr, resolve: ColumnResolver, never_null: Collection[str]) -> Predicate:
    straight, mirrored = _COMPARISONS[type(node)]
    left, right = node.this, node.args["expression"]
    if isinstance(left, exp.Tuple) and isinstance(right, exp.Tuple):
        if straight is Comparison.EQUAL:
            return _row(left, [right], resolve)
        found = _row_comparison(left, straight, right, resolve, never_null)
        return found or _row_comparison(right, mirrored, left, resolve, never_null) or OPAQUE
    column, other, comparison = _column(left, resolve), right, straight
    if column is None:
        column, other, comparison = _column(right, resolve), left, mirrored
    if column is None:
        return OPAQUE
    if isinstance(other, exp.Any):
        return _any_predicate(column, other) if straight is Comparison.EQUAL else OPAQUE
    operand = operand_of(other)
    return OPAQUE if operand is UNKNOWN else Compare(column, comparison, operand)


def _any_predicate(column: str, node: exp.Any) -> Predicate:
    operand = operand_of(node.this)
    return IsAnyOf(column, operand) if isinstance(operand, Parameter) else OPAQUE


def _between_predicate(node: exp.Between, resolve: ColumnResolver) -> Predicate:
    column = _column(node.this, resolve)
    low, high = operand_of(node.args["low"]), operand_of(node.args["high"])
    if column is None:
        return OPAQUE
    bounds = ((low, Comparison.GREATER_EQUAL, high), (high, Comparison.LESS_EQUAL, low))
    return AllOf(
        tuple(
            OPAQUE if operand is UNKNOWN else Compare(column, comparison, operand, beside)
            for operand, comparison, beside in bounds
        )
    )


def _membership(
    node: exp.In, arguments: set[str], resolve: ColumnResolver, lists: Mapping[str, pa.Schema]
) -> Predicate:
    if arguments == {"this", "query"}:
        return _list_predicate(node, resolve, lists)
    if arguments == {"this", "field"}:
        column, operand = _column(node.this, resolve), operand_of(node.args["field"])
        return IsAnyOf(column, operand) if column is not None and isinstance(operand, Parameter) else OPAQUE
    if arguments != {"this", "expressions"}:
        return OPAQUE
    members = node.expressions
    if len(members) == 1 and isinstance(members[0], exp.Values):
        return _row(node.this, members[0].expressions, resolve)
    if isinstance(node.this, exp.Tuple):
        return _row(node.this, members, resolve)
    column = _column(node.this, resolve)
    operands = _operands(members)
    if column is None or operands is None:
        return OPAQUE
    return IsAmong((column,), tuple((operand,) for operand in operands))


def _row(columns: exp.Expr, rows: list[exp.Expr], resolve: ColumnResolver) -> Predicate:
    names = [
        _column(part, resolve)
        for part in (columns.expressions if isinstance(columns, exp.Tuple) else [columns])
    ]
    found = []
    for row in rows:
        operands = _operands(row.expressions) if isinstance(row, exp.Tuple) else None
        if operands is None or len(operands) != len(names):
            return OPAQUE
        found.append(tuple(map(_operand_of_row, operands)))
    if any(name is None for name in names) or len(set(names)) != len(names):
        return OPAQUE
    return IsAmong(tuple(name for name in names if name is not None), tuple(found), by_column=True)


def _row_comparison(
    columns: exp.Tuple,
    comparison: Comparison,
    row: exp.Tuple,
    resolve: ColumnResolver,
    never_null: Collection[str],
) -> CompareRow | None:
    """Columns that are compared with a row; None where not all of them are, or where one may be NULL."""
    names = [_column(part, resolve) for part in columns.expressions]
    known = tuple(name for name in names if name is not None and name in never_null)
    operands = _operands(row.expressions)
    if operands is None or not len(names) == len(set(known)) == len(operands) > 1:
        return None
    return CompareRow(known, comparison, tuple(map(_operand_of_row, operands)))


def _operand_of_row(operand: Operand) -> Operand:
    if isinstance(operand, Constant) and isinstance(operand.value, str):
        return Constant(operand.value, literal=False)
    return operand


def _list_predicate(node: exp.In, resolve: ColumnResolver, lists: Mapping[str, pa.Schema]) -> Predicate:
    """`x IN (SELECT col0 FROM "__list_0")`, and with `*` for rows of several columns."""
    query = node.args["query"]
    listed = listed_rows(query, lists)
    parts = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
    names = tuple(name for name in (_column(part, resolve) for part in parts) if name is not None)
    if (
        listed is None
        or len(names) != len(parts)
        or len(set(names)) != len(names)
        or len(names) != len(listed.column_indexes)
    ):
        return OPAQUE
    return IsListed(names, listed.name, listed.column_indexes)


@dataclass(frozen=True)
class ListedRows:
    """Columns of a list, as a query gives them.

    Attributes:
        name: The list.
        column_indexes: Places of the columns in the list.
        labels: What the query calls them.
    """

    name: str
    column_indexes: tuple[int, ...]
    labels: tuple[str, ...]


def listed_rows(query: exp.Expr | None, lists: Mapping[str, pa.Schema]) -> ListedRows | None:
    """The rows of a long literal list, or of a fragment, that a query gives as they are.

    Args:
        query: Any query.
        lists: Columns of the lists by name.

    Returns:
        Its rows, if the query is `SELECT * FROM list`, or gives columns of the list; None otherwise.
    """
    if isinstance(query, exp.Subquery) and {name for name, value in query.args.items() if value} == {"this"}:
        query = query.this
    if not isinstance(query, exp.Select) or {name for name, value in query.args.items() if value} != {
        "expressions",
        "from_",
    }:
        return None
    table, outputs = query.args["from_"].this, query.expressions
    if not isinstance(table, exp.Table) or table.name not in lists:
        return None
    names = lists[table.name].names
    if len(outputs) == 1 and isinstance(outputs[0], exp.Star):
        return ListedRows(str(table.name), tuple(range(len(names))), tuple(names))
    columns = [output.this if isinstance(output, exp.Alias) else output for output in outputs]
    if not all(isinstance(found, exp.Column) and isinstance(found.this, exp.Identifier) for found in columns):
        return None
    if any(
        found.db or found.name not in names or found.table not in ("", table.alias_or_name)
        for found in columns
    ):
        return None
    return ListedRows(
        str(table.name),
        tuple(names.index(found.name) for found in columns),
        tuple(output.alias_or_name for output in outputs),
    )


def _prefix(node: exp.Expr, resolve: ColumnResolver) -> Predicate:
    column, pattern = _column(node.this, resolve), node.args["expression"]
    if column is None or not isinstance(pattern, exp.Literal) or not pattern.is_string:
        return OPAQUE
    text = str(pattern.this)
    if isinstance(node, exp.Like):
        text = text[: min((text.find(mark) for mark in "%_" if mark in text), default=len(text))]
    return StartsWith(column, text)


def _operands(nodes: list[exp.Expr]) -> tuple[Operand, ...] | None:
    found = [operand_of(node) for node in nodes]
    known = tuple(operand for operand in found if operand is not UNKNOWN)
    return known if len(known) == len(found) else None


def operand_of(node: exp.Expr | None) -> Operand | Unknown:
    """What an expression is that does not depend on rows.

    Args:
        node: Any expression.

    Returns:
        The operand; UNKNOWN for an expression that may have another value for another row, or of which no
        value is known that columns are compared with.
    """
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Placeholder):
        return Parameter(int(node.name) - 1)
    if isinstance(node, exp.Null):
        return Constant(None, literal=True)
    if isinstance(node, exp.Boolean):
        return Constant(bool(node.this), literal=True)
    if isinstance(node, exp.Literal):
        return _literal(node, "")
    if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal) and not node.this.is_string:
        return _literal(node.this, "-")
    if isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast):
        constant = _cast(node)
        if constant is not UNKNOWN:
            return constant
    return _computed_operand(node)


def _computed_operand(node: exp.Expr | None) -> Computed | Unknown:
    """What the engine can make a value of without any row."""
    if node is None or isinstance(node, _NO_SINGLE_VALUE) or not is_movable(node) or has_columns(node):
        return UNKNOWN
    if node.find(exp.Lambda) is not None:
        return UNKNOWN
    try:
        return Computed(node.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE), node)
    except (UnsupportedError, ValueError, RecursionError):
        return UNKNOWN


def _literal(node: exp.Literal, sign: str) -> Operand | Unknown:
    text = str(node.this)
    if node.is_string:
        return Constant(text, literal=True)
    if text.isascii() and text.isdigit():
        # A literal of more digits than HUGEINT has is a DOUBLE.
        return Constant(int(sign + text), literal=True) if len(text) <= 38 else UNKNOWN
    whole, point, fraction = text.partition(".")
    if (
        point
        and (whole + fraction).isascii()
        and (whole + fraction).isdigit()
        and len(whole + fraction) <= 38
    ):
        return Constant(Decimal(sign + text), literal=True)
    return UNKNOWN


def _cast(node: exp.Cast) -> Operand | Unknown:
    """Casts of plain literals to a type that keeps them; a parameter is cast to its own type by
    the engine.
    """
    if {name for name, value in node.args.items() if value} - {"this", "to", "_type"}:
        return UNKNOWN
    type_name, inner = node.args["to"].sql(dialect=EngineDialect), node.this
    if not isinstance(inner, exp.Literal) or not inner.is_string:
        return UNKNOWN
    text = str(inner.this)
    value: dt.date | dt.datetime | str | Unknown = UNKNOWN
    if type_name == "DATE":
        value = parse_date(text)
    elif type_name in {"TIMESTAMP", "TIMESTAMPTZ"}:
        value = parse_timestamp(text, zoned=type_name == "TIMESTAMPTZ")
    elif type_name in {"TEXT", "VARCHAR"}:
        value = text
    return UNKNOWN if value is UNKNOWN else Constant(value, literal=False)


def computed_operands(predicates: Iterable[Predicate]) -> tuple[Computed, ...]:
    """The operands of predicates that the engine computes, each once.

    Args:
        predicates: Predicates of one statement.
    """
    found: dict[str, Computed] = {}
    for predicate in predicates:
        for operand in _operands_of(predicate):
            if isinstance(operand, Computed):
                found.setdefault(operand.text, operand)
    return tuple(found.values())


def _operands_of(predicate: Predicate) -> Iterator[Operand]:
    if isinstance(predicate, AllOf | AnyOf):
        for part in predicate.parts:
            yield from _operands_of(part)
    elif isinstance(predicate, Compare):
        # What is beside it is the operand of another comparison.
        yield predicate.operand
    elif isinstance(predicate, CompareRow):
        yield from predicate.operands
    elif isinstance(predicate, IsAmong):
        for row in predicate.rows:
            yield from row
