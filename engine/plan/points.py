"""From predicates to points: the values of a leading part of the key outside which no row is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np
import pyarrow as pa

from engine.cached_property import cached_property
from engine.model.schema import StoreDefinition
from engine.plan.predicates import (
    AllOf,
    AnyOf,
    Compare,
    CompareRow,
    Comparison,
    IsAmong,
    IsAnyOf,
    IsListed,
    Predicate,
)
from engine.plan.values import (
    UNKNOWN,
    Arguments,
    Constant,
    Operand,
    Parameter,
    Unknown,
    coerce_constants,
    constant_of,
    exact_value,
    stays_apart,
)

MAX_POINTS = 1 << 20
"""More points than this cost more to look up than a scan costs."""
MOST_DIGITS = 38
"""Of a DECIMAL."""
_INTEGER_DIGITS = 20
"""Of an integer of 64 bits, as a DECIMAL."""


@dataclass(frozen=True)
class Tuples:
    """Combinations of values that some columns must have.

    Attributes:
        rows: One column a key column concerned, in any order, typed like it and without nulls; rows may
            repeat.
        complete: A row of the store meets the predicate if and only if it equals one of `rows` in these
            columns; otherwise only "only if" holds.
    """

    rows: pa.RecordBatch
    complete: bool

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """The columns: names of `rows`."""
        return tuple(self.rows.schema.names)


@dataclass(frozen=True)
class Points:
    """Points for a leading part of a store's key.

    Attributes:
        rows: As `engine.scan.RowFilter.points`.
        rest: The conjuncts of the predicate that rows may not meet which equal one of `rows`.
    """

    rows: pa.RecordBatch
    rest: tuple[Predicate, ...]

    @property
    def complete(self) -> bool:
        """Whether the points are all that the predicate asks for."""
        return not self.rest


class PointFinder:
    """Finds points of one store for given arguments."""

    def __init__(self, definition: StoreDefinition, arguments: Arguments) -> None:
        self._schema = definition.schema
        self._key = definition.key
        self._arguments = arguments

    def find(self, predicate: Predicate) -> Points | None:
        """The points of a predicate.

        Every conjunct that pins key columns gives a set of tuples; a needed row is in each of them. The
        product of sets over distinct columns is a superset of the needed rows, so it stays right to leave any
        of the sets out.

        Args:
            predicate: What holds for every needed row.

        Returns:
            Points for the longest leading part of the key that the predicate pins; None when it does not pin
            the first key column.
        """
        parts = conjuncts_of(predicate)
        by_part = [self._conjuncts(part) for part in parts]
        found = [each for tuples, _ in by_part for each in tuples]
        used: list[Tuples] = []
        pinned: set[str] = set()
        for column in self._key:
            if column in pinned:
                continue
            chosen = self._choose(column, found, pinned)
            if chosen is None or _size([*used, chosen]) > MAX_POINTS:
                break
            used.append(chosen)
            pinned.update(chosen.columns)
        leading = self._leading_columns(pinned)
        if not leading:
            return None
        rows = reduce(_product, (each.rows for each in used))
        if rows.num_columns > 1:
            rows = pa.RecordBatch.from_arrays([rows.column(name) for name in leading], names=leading)
        met = {id(each) for each in used if each.complete and set(each.columns).issubset(leading)}
        rest = [
            part
            for part, (tuples, complete) in zip(parts, by_part, strict=True)
            if not complete or any(id(each) not in met for each in tuples)
        ]
        return Points(rows, tuple(rest))

    def _choose(self, column: str, found: Sequence[Tuples], pinned: set[str]) -> Tuples | None:
        """The smallest set that pins a column and no column that is pinned already."""
        fitting = [each for each in found if column in each.columns and pinned.isdisjoint(each.columns)]
        if not fitting:
            return None
        return min(fitting, key=lambda each: int(each.rows.num_rows))

    def _leading_columns(self, pinned: set[str]) -> list[str]:
        leading = []
        for column in self._key:
            if column not in pinned:
                break
            leading.append(column)
        return leading

    def _conjuncts(self, predicate: Predicate) -> tuple[list[Tuples], bool]:
        """Sets of tuples that needed rows are in, and whether they say all that the predicate says."""
        if isinstance(predicate, AllOf):
            parts = [self._conjuncts(part) for part in predicate.parts]
            return [each for found, _ in parts for each in found], all(complete for _, complete in parts)
        if isinstance(predicate, AnyOf):
            united = self._tuples_of_or(predicate)
            return ([united], united.complete) if united is not None else ([], False)
        tuples = self._tuples(predicate)
        return ([tuples], True) if tuples is not None else ([], False)

    def _tuples_of_or(self, predicate: AnyOf) -> Tuples | None:
        """Tuples of an OR: needed rows meet one of the parts, so the union over columns that every part pins
        holds them all.
        """
        parts: list[Tuples] = []
        for part in predicate.parts:
            found, complete = self._conjuncts(part)
            combined = _tuples_of_and(found)
            if combined is None:
                return None
            parts.append(Tuples(combined.rows, complete and combined.complete))
        columns = [name for name in parts[0].columns if all(name in part.columns for part in parts)]
        if not columns:
            return None
        complete = all(part.complete and len(columns) == part.rows.num_columns for part in parts)
        batches = [
            pa.RecordBatch.from_arrays([part.rows.column(name) for name in columns], names=columns)
            for part in parts
        ]
        rows = pa.Table.from_batches(batches).combine_chunks().to_batches()
        return Tuples(rows[0] if rows else batches[0], complete)

    def _tuples(self, predicate: Predicate) -> Tuples | None:
        if isinstance(predicate, Compare) and predicate.comparison is Comparison.EQUAL:
            return self._tuples_among(IsAmong((predicate.column,), ((predicate.operand,),)))
        if isinstance(predicate, IsAmong):
            return self._tuples_among(predicate)
        if isinstance(predicate, IsListed):
            return self._tuples_of_list(predicate.columns, listed_values(predicate, self._arguments))
        if isinstance(predicate, IsAnyOf):
            return self._any_of(predicate)
        return None

    def _tuples_among(self, predicate: IsAmong) -> Tuples | None:
        columns = predicate.columns
        if not all(column in self._key for column in columns):
            return None
        types = [self._schema.field(column).type for column in columns]
        found: list[Sequence[pa.Scalar | None]] = []
        for index, arrow_type in enumerate(types):
            values = exact_members(predicate, index, arrow_type, self._arguments)
            if values is UNKNOWN:
                return None
            found.append(values)
        # NULL equals nothing.
        kept = [row for row in zip(*found, strict=True) if all(value is not None for value in row)]
        arrays = [
            pa.array([row[index] for row in kept], arrow_type) for index, arrow_type in enumerate(types)
        ]
        return Tuples(pa.RecordBatch.from_arrays(arrays, names=list(columns)), complete=True)

    def _tuples_of_list(self, columns: tuple[str, ...], values: pa.RecordBatch) -> Tuples | None:
        if not all(column in self._key for column in columns):
            return None
        if any(array.null_count for array in values.columns):
            values = values.filter(_all_valid(values))
        arrays = [
            coerce_constants(array, self._schema.field(column).type)
            for column, array in zip(columns, values.columns, strict=True)
        ]
        known = [array for array in arrays if array is not UNKNOWN]
        if len(known) != len(arrays):
            return None
        return Tuples(pa.RecordBatch.from_arrays(known, names=list(columns)), complete=True)

    def _any_of(self, predicate: IsAnyOf) -> Tuples | None:
        value = self._arguments.parameters[predicate.parameter.index]
        if predicate.column not in self._key or not pa.types.is_list(value.type) or not value.is_valid:
            return None
        items = coerce_constants(value.values, self._schema.field(predicate.column).type)
        if items is UNKNOWN:
            return None
        return Tuples(pa.RecordBatch.from_arrays([items], names=[predicate.column]), complete=True)


def conjuncts_of(predicate: Predicate) -> tuple[Predicate, ...]:
    """The parts of a predicate that all hold together: those of an AND, or the predicate itself."""
    return predicate.parts if isinstance(predicate, AllOf) else (predicate,)


def listed_values(predicate: IsListed, arguments: Arguments) -> pa.RecordBatch:
    """The values of a long literal list that a predicate compares with.

    Args:
        predicate: Names the list and its columns.
        arguments: Hold the list.

    Returns:
        One column for each of the predicate's columns.
    """
    rows = arguments.lists[predicate.list_name]
    return rows.select(list(predicate.column_indexes))


def exact_operand(
    operand: Operand, arrow_type: pa.DataType, arguments: Arguments
) -> pa.Scalar | Unknown | None:
    """An operand as a value of a column's type.

    Args:
        operand: What the column is compared with.
        arrow_type: Canonical type of the column.
        arguments: What the statement is used with.

    Returns:
        As `engine.plan.values.exact_value`.
    """
    if not isinstance(operand, Constant):
        value = arguments.value_of(operand)
        if value is None:
            return UNKNOWN
        if value.type == arrow_type and _is_compared_here(arrow_type):
            return value if value.is_valid else None
        constant = constant_of(value)
        return UNKNOWN if constant is UNKNOWN else exact_value(constant, arrow_type)
    return exact_value(operand, arrow_type)


def exact_operands(
    operands: Sequence[Operand], arrow_type: pa.DataType, arguments: Arguments
) -> Sequence[pa.Scalar | None] | Unknown:
    """Operands that a column is compared with at once, as values of its type.

    The engine finds one type for all of them: beside a DOUBLE, integers are compared as DOUBLE.

    Args:
        operands: What the column is compared with.
        arrow_type: Canonical type of the column.
        arguments: What the statement is used with.

    Returns:
        A value for each, as `exact_value` gives it; UNKNOWN where one of them is.
    """
    if _is_compared_here(arrow_type) and all(isinstance(operand, Parameter) for operand in operands):
        given = [
            arguments.parameters[operand.index] for operand in operands if isinstance(operand, Parameter)
        ]
        if all(value.type == arrow_type for value in given):
            return [value if value.is_valid else None for value in given]
    values: list[pa.Scalar | None] = []
    for operand in operands:
        value = exact_operand(operand, arrow_type, arguments)
        if value is UNKNOWN:
            return UNKNOWN
        values.append(value)
    if len(values) > 1:
        for floating in filter(None, (floating_type(operand, arguments) for operand in operands)):
            if not all(value is None or stays_apart(value, floating) for value in values):
                return UNKNOWN
    return values


def exact_members(
    predicate: IsAmong, index: int, arrow_type: pa.DataType, arguments: Arguments
) -> Sequence[pa.Scalar | None] | Unknown:
    """What a column is among, as values of its type.

    Args:
        predicate: Names the column among others.
        index: Its place among these.
        arrow_type: Its canonical type.
        arguments: What the statement is used with.

    Returns:
        As `exact_operands`. UNKNOWN also for rows of several columns with a NULL, which equal rows that have
        NULL there, too.
    """
    operands = [row[index] for row in predicate.rows]
    values = exact_operands(operands, arrow_type, arguments)
    if values is UNKNOWN or (len(predicate.columns) > 1 and None in values):
        return UNKNOWN
    if predicate.by_column and not _keeps_digits(operands, arrow_type, arguments):
        return UNKNOWN
    return values


def column_comparisons(predicate: CompareRow, schema: pa.Schema, arguments: Arguments) -> Predicate | Unknown:
    """What a comparison of rows says of single columns: with x and y, `(a, b) > (x, y)` is `a >= x AND (a > x
    OR a = x AND b > y)`, as no column is NULL.

    Args:
        predicate: The comparison.
        schema: Columns of the store.
        arguments: What the statement is used with.

    Returns:
        The same in comparisons of single columns; UNKNOWN where an operand is NULL, or may be compared by
        another type than the column's.
    """
    columns, comparison, operands = predicate.columns, predicate.comparison, predicate.operands
    types = [schema.field(name).type for name in columns]
    row = IsAmong(columns, (operands,), by_column=True)
    if any(map(pa.types.is_floating, types)) or UNKNOWN in [
        exact_members(row, index, arrow_type, arguments) for index, arrow_type in enumerate(types)
    ]:
        return UNKNOWN
    is_above = comparison in (Comparison.GREATER, Comparison.GREATER_EQUAL)
    beyond, towards = (
        (Comparison.GREATER, Comparison.GREATER_EQUAL)
        if is_above
        else (Comparison.LESS, Comparison.LESS_EQUAL)
    )
    pairs = list(zip(columns, operands, strict=True))
    equal = [Compare(name, Comparison.EQUAL, operand) for name, operand in pairs]
    decided = [
        Compare(name, comparison if name == columns[-1] else beyond, operand) for name, operand in pairs
    ]
    ways = [AllOf((*equal[:place], each)) for place, each in enumerate(decided)]
    return AllOf((Compare(columns[0], towards, operands[0]), AnyOf(tuple(ways))))


def _keeps_digits(operands: Sequence[Operand], arrow_type: pa.DataType, arguments: Arguments) -> bool:
    """Whether the engine finds a type for numbers that has all digits of each: of DECIMALs that together need
    more than 38 it drops some behind the point.
    """
    types = [arrow_type, *(_type_of(operand, arguments) for operand in operands)]
    if not any(pa.types.is_decimal(each) for each in types):
        return True
    digits = [_digits_of(each) for each in types if not pa.types.is_null(each)]
    return max(whole for whole, _ in digits) + max(scale for _, scale in digits) <= MOST_DIGITS


def _type_of(operand: Operand, arguments: Arguments) -> pa.DataType:
    if isinstance(operand, Constant):
        is_huge = isinstance(operand.value, int) and not -(1 << 63) <= operand.value < 1 << 63
        return pa.decimal128(MOST_DIGITS) if is_huge else pa.scalar(operand.value).type
    value = arguments.value_of(operand)
    return pa.null() if value is None else value.type


def _digits_of(arrow_type: pa.DataType) -> tuple[int, int]:
    """Digits of a number before and behind the point, at the most."""
    if pa.types.is_decimal(arrow_type):
        return arrow_type.precision - arrow_type.scale, arrow_type.scale
    return (_INTEGER_DIGITS, 0) if pa.types.is_integer(arrow_type) else (MOST_DIGITS, 0)


def _is_compared_here(arrow_type: pa.DataType) -> bool:
    """Whether any two values of a type are compared here as the engine compares them: floating point numbers
    have a NaN and two zeros, and Arrow does not compare lists, structs and maps.
    """
    return not (pa.types.is_floating(arrow_type) or pa.types.is_nested(arrow_type))


def is_compared_alone(value: pa.Scalar, beside: Operand | Unknown | None, arguments: Arguments) -> bool:
    """Whether an operand is compared as if nothing stood beside it: the engine finds one type, and one
    collation of texts, for both bounds of a BETWEEN.

    Args:
        value: The operand, as `exact_value` gives it.
        beside: The other bound; None for a comparison without one.
        arguments: What the statement is used with.
    """
    if beside is None:
        return True
    if pa.types.is_string(value.type):
        return beside is not UNKNOWN
    floating = floating_type(beside, arguments)
    return floating is None or stays_apart(value, floating)


def floating_type(operand: Operand | Unknown, arguments: Arguments) -> pa.DataType | None:
    """The floating point type that an operand may bring into a comparison of several; None if it
    brings none.
    """
    if isinstance(operand, Constant):
        return None
    value = None if operand is UNKNOWN else arguments.value_of(operand)
    if value is None:
        return pa.float32()
    return value.type if pa.types.is_floating(value.type) else None


def _all_valid(values: pa.RecordBatch) -> pa.Array:
    valid = np.ones(values.num_rows, dtype=bool)
    for array in values.columns:
        valid &= array.is_valid().to_numpy(zero_copy_only=False)
    return pa.array(valid)


def _tuples_of_and(found: Sequence[Tuples]) -> Tuples | None:
    """One set for an AND: the product over sets of distinct columns; sets that overlap one already taken are
    left out.
    """
    if not found:
        return None
    taken: list[Tuples] = []
    pinned: set[str] = set()
    for each in sorted(found, key=lambda candidate: int(candidate.rows.num_rows)):
        if pinned.isdisjoint(each.columns) and _size(taken) * each.rows.num_rows <= MAX_POINTS:
            taken.append(each)
            pinned.update(each.columns)
    if not taken:
        return None
    rows = reduce(_product, (each.rows for each in taken))
    return Tuples(rows, len(taken) == len(found) and all(each.complete for each in taken))


def _size(sets: Sequence[Tuples]) -> int:
    size = 1
    for each in sets:
        size *= each.rows.num_rows
    return size


def _product(left: pa.RecordBatch, right: pa.RecordBatch) -> pa.RecordBatch:
    """Every row of one batch beside every row of the other."""
    if left.num_rows == 1 and right.num_rows == 1:
        return pa.RecordBatch.from_arrays(
            [*left.columns, *right.columns], names=[*left.schema.names, *right.schema.names]
        )
    lefts = left.take(pa.array(np.repeat(np.arange(left.num_rows), right.num_rows)))
    rights = right.take(pa.array(np.tile(np.arange(right.num_rows), left.num_rows)))
    return pa.RecordBatch.from_arrays(
        [*lefts.columns, *rights.columns], names=[*left.schema.names, *right.schema.names]
    )
