"""Joins of a few rows of one store with the row of another store that has their key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.names import fold
from engine.model.schema import StoreDefinition
from engine.sql.bind import BoundStatement, StoreReference

_CLAUSES = {"expressions", "from_", "joins", "where"}


@dataclass(frozen=True)
class JoinedOutput:
    """One column of a result.

    Attributes:
        column: Name in its store.
        is_other: Whether it is of the store whose key is looked up.
        name: Name in the result.
    """

    column: str
    is_other: bool
    name: str


@dataclass(frozen=True)
class RowJoin:
    """`SELECT columns FROM one JOIN other ON one.column = other.key WHERE …`, with conditions on one store.

    Attributes:
        one: The store with conditions.
        other: The store whose key is looked up: one column of integers or strings.
        column: The column of `one` that has the key, of the same type.
        condition: The condition of WHERE.
        outputs: The columns of the result.
    """

    one: StoreReference
    other: StoreReference
    column: str
    condition: exp.Expr
    outputs: tuple[JoinedOutput, ...]

    @cached_property
    def names(self) -> Sequence[str]:
        """Names of the outputs; none where two are the same, which the engine tells apart."""
        names = [output.name for output in self.outputs]
        return names if len({fold(name) for name in names}) == len(names) else ()


def row_join(bound: BoundStatement) -> RowJoin | None:
    """The join that a query is.

    Every column must belong to one of the two stores for certain: a name that both have, or that is also the
    name of a table, is left to the engine. Integers and strings of one type are equal where their values are;
    NULL equals nothing, and no row of a store lacks a key.

    Args:
        bound: A query.

    Returns:
        The join; None for any other query.
    """
    select = bound.tree
    if (
        not isinstance(select, exp.Select)
        or {name for name, value in select.args.items() if value} != _CLAUSES
        or len(bound.references) != 2
    ):
        return None
    condition, joins = select.args["where"].this, select.args["joins"]
    scans = [select.args["from_"].this, joins[0].this]
    by_scan = {reference.scan: reference for reference in bound.references}
    if (
        len(joins) != 1
        or not _is_inner(joins[0])
        or not all(_is_plain_table(scan) and scan.name in by_scan for scan in scans)
    ):
        return None
    sides = _Sides([by_scan[scan.name] for scan in scans])
    equal = sides.equality(joins[0].args.get("on"))
    if equal is None or not sides.are_apart:
        return None
    for one, other in (equal, equal[::-1]):
        if other[0].definition.key == (other[1],) and sides.reads_only(condition, one[0]):
            outputs = sides.outputs(select.expressions, other[0])
            return None if outputs is None else RowJoin(one[0], other[0], one[1], condition, outputs)
    return None


def _is_inner(join: exp.Join) -> bool:
    in_use = {name for name, value in join.args.items() if value}
    return in_use <= {"this", "on", "kind"} and join.kind in ("", "INNER")


def _is_plain_table(table: exp.Expr) -> bool:
    if not isinstance(table, exp.Table) or not isinstance(table.args.get("alias"), exp.TableAlias):
        return False
    return {name for name, value in table.args.items() if value} <= {"this", "alias"} and {
        name for name, value in table.args["alias"].args.items() if value
    } == {"this"}


_Place = tuple[StoreReference, str]
"""A store, and a column of it."""


class _Sides:
    """The two stores of a join, and which of their columns names mean.

    Args:
        references: The stores, in the order in which the statement names them.
    """

    def __init__(self, references: Sequence[StoreReference]) -> None:
        self._references = references
        self._columns = [_columns_by_name(reference.definition) for reference in references]
        self._aliases = [fold(reference.alias) for reference in references]

    @property
    def are_apart(self) -> bool:
        """Whether no name of a table is that of another one or of a column."""
        one, other = self._aliases
        return one != other and not any(
            alias in columns for alias in self._aliases for columns in self._columns
        )

    def place(self, column: exp.Expr) -> _Place | None:
        """The store and the column that an expression means; None where it is not certain."""
        if (
            not isinstance(column, exp.Column)
            or not isinstance(column.this, exp.Identifier)
            or column.db
            or column.catalog
        ):
            return None
        name, qualifier = fold(column.name), fold(column.table)
        found = [
            (reference, columns[name])
            for reference, columns, alias in zip(self._references, self._columns, self._aliases, strict=True)
            if name in columns and qualifier in ("", alias)
        ]
        return found[0] if len(found) == 1 else None

    def equality(self, on: exp.Expr | None) -> tuple[_Place, _Place] | None:
        """The two columns of one type that a condition compares, one of each store."""
        if not isinstance(on, exp.EQ):
            return None
        left, right = self.place(on.this), self.place(on.expression)
        if left is None or right is None or left[0] is right[0]:
            return None
        types = [reference.definition.schema.field(column).type for reference, column in (left, right)]
        is_exact = pa.types.is_integer(types[0]) or pa.types.is_string(types[0])
        return (left, right) if types[0] == types[1] and is_exact else None

    def reads_only(self, condition: exp.Expr, reference: StoreReference) -> bool:
        """Whether all columns of a condition are of one store."""
        places = [self.place(column) for column in condition.find_all(exp.Column)]
        return all(place is not None and place[0] is reference for place in places)

    def outputs(
        self, expressions: Sequence[exp.Expr], other: StoreReference
    ) -> tuple[JoinedOutput, ...] | None:
        """The columns of a result; None where one is anything but a column of a store."""
        found: list[JoinedOutput] = []
        for expression in expressions:
            whole = self._whole(expression)
            if whole:
                found += [
                    JoinedOutput(column, reference is other, column)
                    for reference in whole
                    for column in reference.definition.schema.names
                ]
                continue
            place = self.place(expression.this if isinstance(expression, exp.Alias) else expression)
            if place is None:
                return None
            name = expression.alias if isinstance(expression, exp.Alias) else place[1]
            if fold(name) != fold(place[1]) and any(fold(name) in columns for columns in self._columns):
                # It could be what WHERE means.
                return None
            found.append(JoinedOutput(place[1], place[0] is other, name))
        return tuple(found)

    def _whole(self, expression: exp.Expr) -> Sequence[StoreReference]:
        """The stores of which `*`, or `*` behind the name of a table, gives all columns."""
        star = expression.this if isinstance(expression, exp.Column) else expression
        if not isinstance(star, exp.Star) or any(star.args.values()):
            return ()
        if star is expression:
            return self._references
        if expression.args.get("db"):
            return ()
        qualifier = fold(expression.text("table"))
        return [
            reference
            for reference, alias in zip(self._references, self._aliases, strict=True)
            if alias == qualifier
        ]


def _columns_by_name(definition: StoreDefinition) -> Mapping[str, str]:
    return {fold(name): name for name in definition.schema.names}
