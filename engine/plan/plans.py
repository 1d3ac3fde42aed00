"""How a statement is answered: three kinds of plan (`engine.plan.plan_choice` says which a statement gets).

A plan is made once for a statement and used for any parameters; what depends on parameters is computed in
`engine.plan.wanted_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import pyarrow as pa

from engine.cached_property import cached_property
from engine.plan.logical.plan import LogicalPlan
from engine.plan.predicates import Predicate
from engine.plan.row_joins import RowJoin
from engine.plan.row_tests import NullTest
from engine.plan.row_widths import RowWidths
from engine.plan.values import Constant, Parameter
from engine.sql.bind import BoundStatement, StoreReference

MOST_ROWS = (1 << 63) - 1
"""The largest LIMIT or OFFSET that the engine takes."""


@dataclass(frozen=True)
class Output:
    """One column of a result that is a column of a store.

    Attributes:
        column: Name in the store.
        name: Name in the result.
    """

    column: str
    name: str


@dataclass(frozen=True)
class KeyOrder:
    """An ORDER BY along the key of a store.

    Attributes:
        columns: Key columns that follow each other.
        pinned: The key columns before them, each of which WHERE compares with one value.
        descending: Whether the greatest comes first.
    """

    columns: tuple[str, ...]
    pinned: tuple[str, ...]
    descending: bool


@dataclass(frozen=True)
class RowsPlan:
    """Plain columns of one store, without an engine.

    Attributes:
        reference: The store.
        outputs: Columns of the result.
        predicate: The WHERE clause but for `null_tests`; None if there is nothing else in it.
        limit: How many rows at most; None for all.
        offset: How many rows are passed over; None for none.
        null_tests: Conjuncts of WHERE that ask for NULL.
        order: The order of the rows; None for any.
    """

    reference: StoreReference
    outputs: tuple[Output, ...]
    predicate: Predicate | None
    limit: Constant | Parameter | None
    offset: Constant | Parameter | None = None
    null_tests: tuple[NullTest, ...] = ()
    order: KeyOrder | None = None

    @property
    def takes_any_rows(self) -> bool:
        """Whether rows can be taken as they are found, on any host, until there are enough."""
        return self.order is None and self.offset is None

    @property
    def is_unconditional(self) -> bool:
        """Whether there is no WHERE clause."""
        return self.predicate is None and not self.null_tests

    @property
    def takes_all_of_predicate(self) -> bool:
        """Whether the result is all rows for which `predicate` holds."""
        return self.limit is None and self.offset is None and not self.null_tests

    @property
    def takes_first_of_predicate(self) -> bool:
        """Whether the result has a row for which `predicate` holds, if there is one."""
        limit = 1 if self.limit is None else self.limit.value if isinstance(self.limit, Constant) else None
        is_enough = type(limit) is int and 1 <= limit <= MOST_ROWS
        return is_enough and self.offset is None and not self.null_tests

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        stored = self.reference.definition.schema
        return pa.schema([pa.field(output.name, stored.field(output.column).type) for output in self.outputs])

    @cached_property
    def widths(self) -> RowWidths:
        """What rows of the result take."""
        return RowWidths(self.schema)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns of the store to read, each once."""
        return tuple(dict.fromkeys(output.column for output in self.outputs))

    @cached_property
    def column_indexes(self) -> tuple[int, ...]:
        """For each column of the result, its place in `columns`."""
        columns = self.columns
        return tuple(columns.index(output.column) for output in self.outputs)


@dataclass(frozen=True)
class CountPlan:
    """`SELECT count(*) FROM store`: stores know how many rows they have.

    Attributes:
        reference: The store.
        name: Name of the result's only column.
    """

    reference: StoreReference
    name: str

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the result."""
        return pa.schema([pa.field(self.name, pa.int64())])


@dataclass(frozen=True)
class EnginePlan:
    """Anything else: the engine runs the statement over scans.

    Attributes:
        bound: The statement.
        predicates: For each reference, what holds for every row that can matter.
        logical: The logical plan; None where there is none, or where nothing is to be learned from it, as the
            statement is one SELECT from one table.
    """

    bound: BoundStatement
    predicates: tuple[Predicate, ...]
    logical: LogicalPlan | None


class Summary(Enum):
    """An aggregate that kernels compute as the engine does."""

    COUNT = "count"
    SUM = "sum"
    MIN = "min"
    MAX = "max"


@dataclass(frozen=True)
class SummaryColumn:
    """One column of a `SummaryPlan`'s result.

    Attributes:
        summary: The aggregate.
        column: Of which column of the store; None for `count(*)`.
        name: Name in the result; None where the text gives none.
    """

    summary: Summary
    column: str | None
    name: str | None


@dataclass(frozen=True)
class SummaryPlan(EnginePlan):
    """Aggregates of all rows of one store that pass a condition. Over many rows, and over several hosts, it
    is an `EnginePlan` like any other.

    Attributes:
        rows: The rows; its outputs are the columns that are aggregated.
        summaries: Columns of the result.
    """

    rows: RowsPlan
    summaries: tuple[SummaryColumn, ...]


@dataclass(frozen=True)
class RowJoinPlan(EnginePlan):
    """A few rows of one store, with the rows of another one whose key they have. For more rows, and over
    several hosts, it is an `EnginePlan` like any other.

    Attributes:
        rows: The rows of the first store.
        join: The join.
    """

    rows: RowsPlan
    join: RowJoin


Plan = RowsPlan | CountPlan | EnginePlan
