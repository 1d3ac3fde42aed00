"""Conditions on single rows that Arrow's kernels decide as the engine does.

A condition is a test only where the engine surely compares the very values that are stored with the very
value that is given: `engine.plan.values` tells. The engine sorts NaN above all numbers and takes it to equal
itself; a test says for each comparison whether NaN passes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.schema import StoreDefinition
from engine.plan.points import (
    column_comparisons,
    exact_members,
    exact_operand,
    is_compared_alone,
    listed_values,
)
from engine.plan.predicates import (
    AllOf,
    AnyOf,
    ColumnResolver,
    Compare,
    CompareRow,
    Comparison,
    IsAmong,
    IsAnyOf,
    IsListed,
    Predicate,
)
from engine.plan.values import UNKNOWN, Arguments, coerce_constants

MOST_FLOATS = 16
"""Members of a list that a floating point column is compared with one by one, since Arrow's sets tell both
zeros apart.
"""


@dataclass(frozen=True)
class NullTest:
    """`column IS NULL`.

    Attributes:
        column: The column.
        passes_null: Whether rows with NULL pass, or all others.
    """

    column: str
    passes_null: bool


@dataclass(frozen=True)
class ValueTest:
    """A comparison with a value of the column's type. NULL does not pass.

    Attributes:
        column: The column.
        comparison: How it is compared.
        value: Not null.
        passes_nan: Whether NaN passes.
    """

    column: str
    comparison: Comparison
    value: pa.Scalar
    passes_nan: bool = False

    @cached_property
    def number(self) -> int | None:
        """The value, where it is a whole number."""
        return int(self.value.as_py()) if pa.types.is_integer(self.value.type) else None


@dataclass(frozen=True)
class MemberTest:
    """Equality to one of some values of the column's type, none of them null. NULL does not pass.

    Attributes:
        column: The column.
        values: The values.
        is_negated: Whether it is equality to none of them.
    """

    column: str
    values: pa.Array
    is_negated: bool = False


class Containment(Enum):
    """Where in a text another one stands."""

    WHOLE = "whole"
    BEGIN = "begin"
    END = "end"
    ANYWHERE = "anywhere"


@dataclass(frozen=True)
class TextTest:
    """Whether a text holds another one, byte by byte. NULL does not pass.

    Attributes:
        column: The column, of texts.
        containment: Where.
        text: What it holds.
        is_negated: Whether it is not to.
    """

    column: str
    containment: Containment
    text: str
    is_negated: bool = False


@dataclass(frozen=True)
class AllTests:
    """Rows pass that pass all parts."""

    parts: tuple[RowTest, ...]


@dataclass(frozen=True)
class AnyTest:
    """Rows pass that pass a part."""

    parts: tuple[RowTest, ...]


RowTest = NullTest | ValueTest | MemberTest | TextTest | AllTests | AnyTest
NO_ROW = AnyTest(())
EVERY_ROW = AllTests(())
_OPPOSITES = {
    Comparison.LESS: Comparison.GREATER_EQUAL,
    Comparison.LESS_EQUAL: Comparison.GREATER,
    Comparison.GREATER: Comparison.LESS_EQUAL,
    Comparison.GREATER_EQUAL: Comparison.LESS,
}


def opposite_test(test: RowTest) -> RowTest | None:
    """The test that rows pass which surely fail another one; rows for which that is NULL pass neither.

    Args:
        test: Of a condition without NULL as a value.

    Returns:
        The test; None for what all rows pass, or none, as that may stand for a condition that is NULL.
    """
    match test:
        case NullTest(column, passes_null):
            return NullTest(column, not passes_null)
        case ValueTest(column, Comparison.EQUAL, value):
            is_floating = pa.types.is_floating(value.type)
            return AnyTest(
                (
                    ValueTest(column, Comparison.LESS, value),
                    ValueTest(column, Comparison.GREATER, value, is_floating),
                )
            )
        case ValueTest(column, comparison, value, passes_nan):
            passes_nan = pa.types.is_floating(value.type) and not passes_nan
            return ValueTest(column, _OPPOSITES[comparison], value, passes_nan)
        case MemberTest(column, values, is_negated):
            return MemberTest(column, values, not is_negated) if len(values) else None
        case TextTest():
            return replace(test, is_negated=not test.is_negated)
        case _:
            parts = [opposite_test(part) for part in test.parts]
            known = tuple(part for part in parts if part is not None)
            if not known or len(known) < len(parts):
                return None
            return AnyTest(known) if isinstance(test, AllTests) else AllTests(known)


def null_test(node: exp.Expr, resolve: ColumnResolver) -> NullTest | None:
    """A condition that asks whether a column is NULL.

    Args:
        node: A condition.
        resolve: Tells the store's columns.

    Returns:
        The test; None for any other condition.
    """
    is_negated = False
    while isinstance(node, exp.Paren | exp.Not):
        is_negated ^= isinstance(node, exp.Not)
        node = node.this
    arguments = {name for name, value in node.args.items() if value}
    if not isinstance(node, exp.Is) or arguments != {"this", "expression"}:
        return None
    column = resolve(node.this) if isinstance(node.this, exp.Column) else None
    if column is None or not isinstance(node.args["expression"], exp.Null):
        return None
    return NullTest(column, not is_negated)


def columns_of(test: RowTest) -> frozenset[str]:
    """The columns that a test looks at."""
    if isinstance(test, AllTests | AnyTest):
        return frozenset().union(*(columns_of(part) for part in test.parts))
    return frozenset((test.column,))


def count_tests(test: RowTest) -> int:
    """Of how many comparisons a test is made."""
    return sum(map(count_tests, test.parts)) if isinstance(test, AllTests | AnyTest) else 1


class RowTests:
    """Makes tests for one store and given arguments."""

    def __init__(self, definition: StoreDefinition, arguments: Arguments) -> None:
        self._schema = definition.schema
        self._arguments = arguments

    def row_test(self, predicate: Predicate) -> RowTest | None:
        """The test that a predicate is.

        Args:
            predicate: The predicate.

        Returns:
            The test, which rows pass for which the engine finds the predicate true; None where only the
            engine can tell.
        """
        match predicate:
            case AllOf(parts) | AnyOf(parts):
                tests = [self.row_test(part) for part in parts]
                known = tuple(test for test in tests if test is not None)
                if len(known) != len(tests):
                    return None
                return AllTests(known) if isinstance(predicate, AllOf) else AnyTest(known)
            case Compare():
                return self._comparison(predicate)
            case CompareRow():
                known_parts = column_comparisons(predicate, self._schema, self._arguments)
                return None if known_parts is UNKNOWN else self.row_test(known_parts)
            case IsAmong((column,), _):
                return self._members_of_operands(column, predicate)
            case IsListed((column,), _, _):
                return self._members(column, listed_values(predicate, self._arguments).column(0))
            case IsAnyOf(column, parameter):
                value = self._arguments.parameters[parameter.index]
                is_list = pa.types.is_list(value.type) and value.is_valid
                return self._members(column, value.values) if is_list else None
            case _:
                return None

    def _comparison(self, predicate: Compare) -> RowTest | None:
        arrow_type = self._schema.field(predicate.column).type
        value = exact_operand(predicate.operand, arrow_type, self._arguments)
        if value is UNKNOWN:
            return None
        if value is None:
            return NO_ROW
        if not is_compared_alone(value, predicate.beside, self._arguments):
            return None
        is_above = predicate.comparison in (Comparison.GREATER, Comparison.GREATER_EQUAL)
        return ValueTest(
            predicate.column, predicate.comparison, value, is_above and pa.types.is_floating(arrow_type)
        )

    def _members_of_operands(self, column: str, predicate: IsAmong) -> RowTest | None:
        arrow_type = self._schema.field(column).type
        values = exact_members(predicate, 0, arrow_type, self._arguments)
        if values is UNKNOWN:
            return None
        known = [value for value in values if value is not None]
        if not known:
            return NO_ROW  # also of types that Arrow does not compare
        if pa.types.is_floating(arrow_type):
            return self._equal_to_any(column, known)
        return MemberTest(column, pa.array(known, arrow_type))

    def _equal_to_any(self, column: str, values: Sequence[pa.Scalar]) -> RowTest | None:
        if len(values) > MOST_FLOATS:
            return None
        return AnyTest(tuple(ValueTest(column, Comparison.EQUAL, value) for value in values))

    def _members(self, column: str, values: pa.Array) -> RowTest | None:
        members = coerce_constants(values, self._schema.field(column).type)
        return None if members is UNKNOWN else MemberTest(column, members)
