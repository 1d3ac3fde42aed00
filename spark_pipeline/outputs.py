"""What a job keeps up to date: its stores, and how each one's rows follow from the batch."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypedDict

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import StringType

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.durations import microseconds_of_duration
from engine.model.kinds import (
    KEY_VALUE,
    RESERVED_PREFIX,
    Behaviour,
    KeyValue,
    Kind,
    Merge,
    Retention,
    Session,
    check_numbers,
    end_of_rows,
)
from engine.model.schema import StoreDefinition, define_store
from engine.model.sql_types import canonical_type, sql_type
from spark_pipeline.preaggregation import BINARY_COLLATION, event_columns, partial_rows
from spark_pipeline.type_mapping import arrow_schema
from spark_pipeline.window_columns import flatten_window, named_column, unused_name, window_columns

_IS_NULL = RESERVED_PREFIX + "is_null"


class OutputMode(StrEnum):
    """What a batch's rows do to a store, named as Spark's output modes are."""

    APPEND = "append"
    """Rows replace those with the same key; a row with a new key is added."""
    UPDATE = "update"
    """The same as append: the store is keyed."""
    COMPLETE = "complete"
    """The batch's rows are all that the store has from now on."""


class StoreSettings(TypedDict, total=False):
    """What a `StoreOutput` has beside its name and key, for those who take it as keyword arguments."""

    query: Callable[[DataFrame], DataFrame] | None
    partition_by: Sequence[str] | None
    partitions: int
    mode: str
    tombstone_column: str | None
    kind: Kind
    time: str
    is_partial: bool
    window: str
    retention: str | dt.timedelta | None
    retention_column: str
    is_global: bool
    in_memory: bool
    tombstone_when_null: str
    aggregate_first: bool


@dataclass(frozen=True)
class StoreOutput:
    """One store that a job keeps up to date.

    Attributes:
        store: Name of the store.
        key: Columns that identify a row.
        query: Makes the store's rows of the batch; None for the batch as it is.
        partition_by: Leading part of the key that places a row; by default the whole of `key`.
        partitions: How many partitions the store has.
        mode: What the rows do to the store: "append", "update" or "complete".
        tombstone_column: Boolean column that says which rows remove their key; it is not a column of the
            store.
        kind: How rows become rows of the store; of a store that merges, the batch's rows are events, which
            Spark aggregates first.
        time: Column with the time of the events, for a session store.
        is_partial: Whether the rows for a store that merges are partial rows already, with the columns of
            `MergedColumn.partials`.
        aggregate_first: Whether Spark aggregates the events of a batch by key before they are written.
            Without, each event is a partial row of its own, which spares Spark a shuffle: worth it where most
            keys are only once in a batch.
        window: Column that Spark's `window()` made, a struct of start and end. It becomes two columns,
            `window_start` and `window_end` where it is called `window`; both are in the key behind `key`,
            which alone places a row.
        retention: How long rows stay: a `timedelta`, or a text such as "7 days"; None for ever.
        retention_column: Timestamp or date column that is a row's time: a row goes when its time is further
            behind the query's watermark than `retention`. By default the end of its window or session, or of
            a version's validity; in stores without these, the time of the commit that wrote the row last,
            which needs no watermark.
        is_global: Whether every host holds all of the store.
        in_memory: Whether hosts keep the store in memory only, and rebuild it from the changelog when they
            start.
        tombstone_when_null: Column of the store; rows where it is null remove their key, as in a compacted
            Kafka topic.
    """

    store: str
    key: Sequence[str]
    query: Callable[[DataFrame], DataFrame] | None = None
    partition_by: Sequence[str] | None = None
    partitions: int = 8
    mode: str = OutputMode.UPDATE
    tombstone_column: str | None = None
    kind: Kind = KEY_VALUE
    time: str = ""
    is_partial: bool = False
    window: str = ""
    retention: str | dt.timedelta | None = None
    retention_column: str = ""
    is_global: bool = False
    in_memory: bool = False
    tombstone_when_null: str = ""
    aggregate_first: bool = True

    def __post_init__(self) -> None:
        self._check_types()
        if isinstance(self.key, str) or not isinstance(self.key, Sequence):
            raise InvalidInput(f"Store {self.store}: the key must be a list of at least one column name.")
        if isinstance(self.partition_by, str):
            raise InvalidInput(f"Store {self.store}: partition_by must be a list of column names.")
        self._check_kind()
        if self.tombstone_when_null and self.tombstone_column is not None:
            raise InvalidInput(f"Store {self.store}: give either tombstone_column or tombstone_when_null.")
        if self.retention_column and self.retention is None:
            raise InvalidInput(
                f"Store {self.store}: retention_column says what the retention goes by; say how long it is, "
                "too."
            )
        if not self.aggregate_first and self.tombstones is not None and not self.is_partial:
            raise InvalidInput(
                f"Store {self.store}: Spark promises no order of events, so those with tombstones are "
                "aggregated first."
            )
        if self.mode not in tuple(OutputMode):
            raise InvalidInput(
                f"Store {self.store}: the mode {self.mode!r} is none of {', '.join(OutputMode)}."
            )
        check_numbers(self.store, self.behaviour)

    def _check_types(self) -> None:
        """Refuse what would be taken for something else, as any text is for true."""
        for name in ("is_partial", "is_global", "in_memory", "aggregate_first"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise InvalidInput(f"Store {self.store}: {name} must be True or False, and not {value!r}.")
        if self.query is not None and not callable(self.query):
            raise InvalidInput(
                f"Store {self.store}: the query must be a function that takes a batch as a frame and returns "
                f"one, and not {self.query!r}."
            )

    def _check_effect(self) -> None:
        """Refuse settings that the kind of the store has no use for."""
        is_merged = isinstance(self.kind, Merge | Session)
        unused = [
            *(["time"] if self.time and not isinstance(self.kind, Session) else []),
            *(["is_partial"] if self.is_partial and not is_merged else []),
            *(["aggregate_first"] if not self.aggregate_first and not is_merged else []),
        ]
        if unused:
            kinds = "session stores" if unused == ["time"] else "stores that merge"
            raise InvalidInput(
                f"Store {self.store}: {' and '.join(unused)} would have no effect, being for {kinds}: leave "
                "that out, or say kind=."
            )

    def _check_kind(self) -> None:
        if not isinstance(self.kind, Kind):
            raise InvalidInput(
                f"Store {self.store}: the kind must be a KeyValue, Merge, Session or Versioned, such as "
                f"merged.columns(…) makes, and not {self.kind!r}."
            )
        if isinstance(self.kind, Merge) and not self.kind.columns:
            raise InvalidInput(f"Store {self.store}: a merge store needs at least one merged column.")
        if isinstance(self.kind, Session) and not (self.time or self.is_partial):
            raise InvalidInput(
                f"Store {self.store}: say with time= which column has the time of the events of sessions."
            )
        if self.window and not isinstance(self.kind, KeyValue | Merge):
            raise InvalidInput(
                f"Store {self.store}: windows are for key-value and merge stores; other kinds have times of "
                "their own."
            )
        self._check_effect()

    @property
    def tombstones(self) -> str | None:
        """The boolean column of `frame` that says which rows remove their key; None where none does."""
        return _IS_NULL if self.tombstone_when_null else self.tombstone_column

    @property
    def whole_key(self) -> tuple[str, ...]:
        """The columns of the key that come from the job, those of a window among them."""
        return (*self.key, *(window_columns(self.window) if self.window else ()))

    @property
    def behaviour(self) -> Behaviour:
        """What the store is besides its columns, key and partitions.

        Raises:
            InvalidInput: The retention is no length of time.
        """
        retention = None
        if self.retention is not None:
            retention = Retention(
                microseconds_of_duration(self.retention), self.retention_column or self._time_of_rows()
            )
        return Behaviour(self.kind, retention, self.is_global, self.in_memory)

    @property
    def goes_by_watermark(self) -> bool:
        """Whether rows go when their time is too far behind the query's watermark."""
        retention = self.behaviour.retention
        return retention is not None and bool(retention.column)

    def _time_of_rows(self) -> str:
        """The column with the time at which a row has come to its end; empty where there is none."""
        return window_columns(self.window)[1] if self.window else end_of_rows(self.kind)

    def frame(self, batch: DataFrame) -> DataFrame:
        """The store's rows of a batch, a tombstone column among them.

        Raises:
            InvalidInput: The rows lack a column that the store's window or kind needs.
        """
        rows = self.query(batch) if self.query is not None else batch
        if not isinstance(rows, DataFrame):
            raise InvalidInput(
                f"Store {self.store}: the query must return a frame, and it returned {rows!r}."
            )
        if self._merged_kind is not None and self.aggregate_first:
            # A column of events may be called as the mark is.
            mark = unused_name(_IS_NULL, rows.columns)
            partials = partial_rows(
                rows.select(self._columns_of_rows(rows, mark)),
                self.store,
                self.whole_key,
                self._merged_kind,
                time=self.time,
                tombstones=mark if self.tombstone_when_null else self.tombstone_column,
            )
            return partials.withColumnRenamed(mark, _IS_NULL)
        return rows.select(self._projection(rows))

    def columns(self, batch: DataFrame) -> list[Column] | None:
        """The store's rows as columns over a batch, with the names and types that `frame` gives.

        Args:
            batch: Any batch of the job; only its schema matters.

        Returns:
            The columns; None where a query or an aggregation of its own makes the rows.

        Raises:
            InvalidInput: As `frame`.
        """
        is_aggregated = self._merged_kind is not None and self.aggregate_first
        return None if self.query is not None or is_aggregated else self._projection(batch)

    @property
    def _merged_kind(self) -> Merge | Session | None:
        """The kind, where what comes are events that it merges."""
        return self.kind if isinstance(self.kind, Merge | Session) and not self.is_partial else None

    def _projection(self, rows: DataFrame) -> list[Column]:
        if self._merged_kind is None:
            return self._columns_of_rows(rows)
        return event_columns(
            rows, self._named_columns(rows), self.store, self.whole_key, self._merged_kind, time=self.time
        )

    def _columns_of_rows(self, rows: DataFrame, mark: str = _IS_NULL) -> list[Column]:
        """Rows as they are, but for a window that is flattened, and nulls that are marked in a column."""
        columns = (
            [column.alias(name) for name, column in self._named_columns(rows).items()]
            if self.window
            # As one, since names that are there twice are found, and told, where the store is defined.
            else [F.col("*")]
        )
        return [*columns, self._null_mark(rows).alias(mark)] if self.tombstone_when_null else columns

    def _named_columns(self, rows: DataFrame) -> dict[str, Column]:
        if self.window:
            return flatten_window(rows, self.store, self.window)
        return {name: named_column(name) for name in rows.columns}

    def _null_mark(self, rows: DataFrame) -> Column:
        name, columns = self.tombstone_when_null, self._named_columns(rows)
        if name not in columns or rows.columns.count(name) > 1:
            cause = (
                f"the column {name} of tombstone_when_null is not exactly one of the columns "
                f"{', '.join(columns)}"
            )
            raise InvalidInput(f"Store {self.store}: {cause}.")
        return columns[name].isNull()

    def definition(self, frame: DataFrame, group: str) -> StoreDefinition:
        """What the store has to be for a frame; nothing is computed.

        Args:
            frame: The store's rows of some batch.
            group: The store group.

        Returns:
            The definition.

        Raises:
            InvalidInput: A name, column, key or type is not acceptable.
        """
        self._check_collations(frame)
        schema = arrow_schema(frame.schema, store=self.store)
        if self.tombstones is not None:
            if schema.names.count(self.tombstones) != 1:
                columns = ", ".join(schema.names)
                raise InvalidInput(
                    f"Store {self.store}: the tombstone column {self.tombstones} is not exactly one of the "
                    f"columns {columns}."
                )
            found = schema.field(self.tombstones).type
            if not pa.types.is_boolean(found):
                raise InvalidInput(
                    f"Store {self.store}: the tombstone column {self.tombstones} must be BOOLEAN, not "
                    f"{sql_type(canonical_type(found))}."
                )
            schema = schema.remove(schema.get_field_index(self.tombstones))
        placed = self.key if self.window and self.partition_by is None else self.partition_by
        return define_store(
            self.store,
            schema,
            self._named_key(),
            partition_by=placed,
            partitions=self.partitions,
            group=group,
            behaviour=self.behaviour,
        )

    def _named_key(self) -> Sequence[str]:
        """The key as the user wrote it where that is all of it, so that mistakes in it are found where all
        definitions are checked.
        """
        return self.whole_key if self.window else self.key

    def _check_collations(self, frame: DataFrame) -> None:
        """A store tells keys apart by their bytes, and such a column's values may be equal without being the
        same bytes.
        """
        for field in frame.schema.fields:
            data_type = field.dataType
            if (
                field.name in self.key
                and isinstance(data_type, StringType)
                and data_type.collation != BINARY_COLLATION
            ):
                cause = (
                    f"the key column {field.name} has the collation {data_type.collation}; cast it to STRING "
                    f"COLLATE {BINARY_COLLATION}"
                )
                raise InvalidInput(f"Store {self.store}: {cause}.")


def create_stores(
    changelog: Changelog,
    outputs: Sequence[StoreOutput],
    batch: DataFrame,
    group: str,
    *,
    has_watermark: bool = True,
    goes_on: bool = False,
) -> dict[str, StoreDefinition]:
    """Create the stores of a job, or find that those there are the same.

    Args:
        changelog: Where they are.
        outputs: The stores, by distinct names.
        batch: Any batch of the job; only its schema matters.
        group: Their group.
        has_watermark: Whether rows will ever be let go of by their time; a store that asks for it is refused
            otherwise.
        goes_on: Whether the job has written the group before.

    Returns:
        Definition by name of the store.

    Raises:
        InvalidInput: A definition is not acceptable, or a store exists and differs; the message shows both.
    """
    # All are checked before the first is created.
    wanted = [output.definition(output.frame(batch), group) for output in outputs]
    waiting = [] if has_watermark else [output.store for output in outputs if output.goes_by_watermark]
    if waiting:
        cause = "rows go when their time is too far behind the query's watermark, and the query has none"
        raise InvalidInput(
            f"Store {', '.join(waiting)}: {cause}; declare one with withWatermark(…), as long as events may "
            "be late."
        )
    return {definition.name: changelog.create_store(definition, goes_on=goes_on) for definition in wanted}
