"""A planned statement on the engine: scans of its stores, then the engine over them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.deadline import Deadline
from engine.duckdb.binder import over_empty_stores
from engine.duckdb.engine import (
    Engine,
    EngineRows,
    Outputs,
    ScanStream,
    engine_table,
    hold_scan,
    named_columns,
    readable_schema,
    with_live_rows,
)
from engine.duckdb.engine_errors import BindingError, NotBoundError
from engine.duckdb.parameter_values import python_value
from engine.errors import InvalidInput, LivestateError
from engine.exec.joined_keys import narrow_by_joins
from engine.model.schema import StoreName
from engine.model.sql_types import sql_type
from engine.plan.explain import ReadExplained
from engine.plan.query_text import ReadColumn, StandIn, text_over_scans
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.plan.wanted_rows import wanted_rows
from engine.scan import EVERYTHING, RowFilter, Scan, StoreView
from engine.sql.bind import BoundStatement, StoreReference
from engine.sql.output_names import has_derived_names
from engine.statements.column_names import UNKNOWN_SAMPLES, null_value, sample_value

FEW_JOINED_ROWS = 10_000
"""Stores of so many rows that are joined reach the engine as a whole: it takes their number for how many
values the columns have that are joined, and orders joins by that.
"""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Read:
    """How one reference of a statement is read.

    Attributes:
        explained: The reference, and which of its rows can matter.
        scan: A scan of the rows that can matter.
    """

    explained: ReadExplained
    scan: Scan

    @property
    def nbytes(self) -> int:
        """Arrow bytes, about; whole keys, which are few in a small statement, count as none."""
        return 0 if self.explained.statistics is None else self.scan.nbytes


def _asks_for_whole_keys(reference: StoreReference, needed: RowFilter) -> bool:
    """Points of whole keys: there are no more rows than points, all of them live, so a lookup is cheaper than
    a scan.
    """
    return (
        needed.points is not None
        and needed.points.num_columns == len(reference.definition.key)
        and bool(reference.columns)
    )


def reads_of(
    statement: ReadyStatement, arguments: Arguments, views: Mapping[StoreName, StoreView]
) -> tuple[Read, ...]:
    """A scan or a lookup for each reference of a statement.

    Args:
        statement: The statement.
        arguments: What it is used with.
        views: The stores it reads.

    Returns:
        The reads, in the order of the references.
    """
    found = []
    references = statement.bound.references
    wanted: Mapping[str, RowFilter] = {
        reference.scan: wanted_rows(predicate, reference, arguments)
        for reference, predicate in zip(references, statement.predicates, strict=True)
    }
    if statement.key_joins:
        by_scan = {reference.scan: views[reference.definition.name] for reference in references}
        wanted = narrow_by_joins(wanted, by_scan, statement.key_joins)
    for reference in references:
        needed, view = wanted[reference.scan], views[reference.definition.name]
        is_whole = len(references) > 1 and needed.points is None and view.live_rows <= FEW_JOINED_ROWS
        scan = view.scan(reference.columns, EVERYTHING if is_whole else needed)
        statistics = None if _asks_for_whole_keys(reference, needed) else scan.statistics
        found.append(Read(ReadExplained(reference, needed, statistics), scan))
    return tuple(found)


@dataclass(frozen=True)
class RunningQuery:
    """A statement that the engine has begun.

    Attributes:
        rows: Its result.
        reads: What it reads.
        seconds: Time of the steps so far.
        resources: The result, and memory that counts as taken by what is read.
    """

    rows: EngineRows
    reads: tuple[Read, ...]
    seconds: Mapping[str, float]
    resources: ExitStack

    def close(self) -> None:
        """End the statement and free what it holds. May be called again."""
        self.resources.close()


def run(
    engine: Engine,
    statement: ReadyStatement,
    arguments: Arguments,
    views: Mapping[StoreName, StoreView],
    deadline: Deadline,
) -> RunningQuery:
    """Begin a statement on the engine.

    Args:
        engine: The engine.
        statement: The statement.
        arguments: What it is used with.
        views: The stores it reads.
        deadline: When it must end.

    Returns:
        The statement, to be closed by the caller.

    Raises:
        BindingError: The engine refuses the statement.
        LivestateError: It fails in another way.
    """
    begun = time.perf_counter()
    reads = reads_of(statement, arguments, views)
    sql = scan_sql(statement, arguments, reads)
    nbytes = sum(read.nbytes for read in reads)
    with engine.small_query_slot(sql, nbytes, deadline), ExitStack() as unless_begun:
        tables: dict[str, Any] = {}
        for read in reads:
            deadline.check()
            hold = hold_scan(read.scan)
            if hold is not None:
                unless_begun.callback(hold.release)
            tables[read.explained.reference.scan] = (
                ScanStream(read.scan) if hold is None else engine_table(read.scan)
            )
        tables |= {name: pa.Table.from_batches([rows]) for name, rows in arguments.lists.items()}
        filled = time.perf_counter()
        values, width = python_values(arguments), statement.bound.row_width
        rows = engine.run(sql, tables, values, deadline, statement.names, width)
        unless_begun.callback(rows.close)
        resources = unless_begun.pop_all()
    seconds = {"read": filled - begun, "start": time.perf_counter() - filled}
    return RunningQuery(rows, reads, seconds, resources)


def scan_sql(statement: ReadyStatement, arguments: Arguments, reads: tuple[Read, ...]) -> str:
    """What the engine runs: the statement over the live rows of its scans."""
    types = tuple(value.type for value in arguments.parameters)
    return with_live_rows(
        statement.engine_sql(types), {read.explained.reference.scan: read.scan.schema for read in reads}
    )


def python_values(arguments: Arguments) -> list[Any]:
    """Parameter values as the engine takes them; their types stand in the statement.

    Raises:
        InvalidInput: A value cannot be passed on.
    """
    try:
        return [python_value(value) for value in arguments.parameters]
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            "A parameter is a date or time outside the years 1 to 9999: write it as a literal."
        ) from error


def outputs_of_stored(schema: pa.Schema) -> Outputs:
    """Columns of a store, which the engine has not touched, as those of a result.

    Args:
        schema: Schema of the result.
    """
    return Outputs(tuple(ReadColumn(field.name, sql_type(field.type)) for field in schema), schema)


def outputs_of(
    engine: Engine,
    statement: ReadyStatement,
    types: tuple[pa.DataType | None, ...],
    values: Sequence[object],
    deadline: Deadline,
    *,
    by_values: bool = False,
) -> Outputs:
    """The columns of a statement's result, without running it.

    Args:
        engine: The engine.
        statement: The statement.
        types: Types of its parameters; None for one that the engine finds.
        values: Their values, which are looked at where the types do not tell the columns; none where they are
            not known.
        deadline: When the statement must end.
        by_values: Whether the values tell the columns, whatever the types do.

    Returns:
        The columns.

    Raises:
        BindingError: The engine refuses the statement.
        LivestateError: It fails in another way.
    """
    bound = statement.bound
    names: Sequence[str] | None = statement.names
    for sql in () if by_values else _bindable_texts(statement, types):
        try:
            columns = _bound_columns(engine, bound, sql, (), deadline)
            if names is None and types and has_derived_names(bound.tree):
                names = _shown_names(engine, statement, types, deadline)
            columns = named_columns(columns, names)
            return Outputs(columns, engine.binder.schema(columns, deadline))
        except (NotBoundError, LivestateError) as error:
            deadline.check()
            _log.debug("A statement is bound in another way: %s", error)
    # What is wrong, and where, only the engine says; and of some functions, what a value makes of them.
    tables = {
        reference.scan: readable_schema(
            pa.schema([reference.definition.schema.field(column) for column in reference.columns])
        )
        for reference in bound.references
    }
    sql, tables = statement.engine_sql(types), {**tables, **bound.list_schemas}
    names, width = statement.names, bound.row_width
    if len(values) == len(types):
        return engine.outputs(sql, tables, values, names, deadline, width)
    try:
        return engine.outputs(sql, tables, [None] * len(types), names, deadline, width)
    except BindingError:
        if not types:
            raise
    refusal: BindingError | None = None
    for unknown in UNKNOWN_SAMPLES if None in types else UNKNOWN_SAMPLES[:1]:
        samples = [unknown if each is None else sample_value(each) for each in types]
        try:
            return engine.outputs(sql, tables, samples, names, deadline, width)
        except BindingError as error:
            refusal = refusal or error
    assert refusal is not None
    raise refusal


def _bound_columns(
    engine: Engine, bound: BoundStatement, sql: str, values: Sequence[object], deadline: Deadline
) -> tuple[ReadColumn, ...]:
    """The columns of a query over a statement's scans."""
    text, stores = over_empty_stores(sql, bound.references)
    return engine.binder.columns(text, {**stores, **bound.list_schemas}, values, deadline)


def _shown_names(
    engine: Engine, statement: ReadyStatement, types: tuple[pa.DataType | None, ...], deadline: Deadline
) -> list[str]:
    """Names that show what stands for parameters in the text that runs."""
    sql = statement.engine_sql(types)
    try:
        columns = _bound_columns(engine, statement.bound, sql, list(map(null_value, types)), deadline)
    except NotBoundError:
        columns = _bound_columns(engine, statement.bound, sql, list(map(sample_value, types)), deadline)
    return [column.name for column in columns]


def _bindable_texts(statement: ReadyStatement, types: tuple[pa.DataType | None, ...]) -> Iterator[str]:
    """Texts over scans by which a statement's columns can be told, the surest first."""
    tree = statement.bound.tree
    if not types or tree is None:
        yield statement.sql
        return
    for stand_in in StandIn:
        yield text_over_scans(tree, types, stand_in)
