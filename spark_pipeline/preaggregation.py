"""Partial rows of a batch's events: what is left for Spark to do for stores that merge. Stateless, as the
state is the store's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    IntegerType,
    IntegralType,
    LongType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from engine.errors import InvalidInput
from engine.model.kinds import EMPTY_IN_SKETCHES, SKETCHES, TIMED, Function, Merge, MergedColumn, Session
from spark_pipeline.window_columns import named_column, unused_name

BINARY_COLLATION = "UTF8_BINARY"
"""Spark's collation of texts that are equal where their bytes are."""

_LG_REGISTERS = 12
_KLL_SIZE = 200
_FLAGS = "__flags"
_WINDOW = "__window"
_PLACE = "__place"
"""Where an event stands in its batch: of equal times the first, or the last, is meant, which Spark's own
functions do not know after a shuffle.
"""
_MOST_BIGINT, _LEAST_BIGINT = Decimal(2**63 - 1), Decimal(-(2**63))
_OF_NUMBERS = (Function.SUM, Function.AVG, Function.QUANTILES)
_HASHED = (IntegralType, StringType, BinaryType, BooleanType, DateType, TimestampType, TimestampNTZType)


def partial_rows(
    events: DataFrame,
    store: str,
    key: Sequence[str],
    kind: Merge | Session,
    *,
    time: str = "",
    tombstones: str | None = None,
) -> DataFrame:
    """One partial row for each key of a batch, or for each session fragment.

    A key that has tombstones among its events is removed before its other events of the batch count, whatever
    their order in the batch: Spark promises none.

    Args:
        events: Rows of a batch.
        store: Name of the store, for messages.
        key: The key, without a session's start.
        kind: The store's kind.
        time: Column with the time of the events, for sessions.
        tombstones: Boolean column that says which rows remove their key.

    Returns:
        The key columns, for sessions start and end, and the columns that `kind.columns` are folded from; the
        tombstone column behind if there is one.

    Raises:
        InvalidInput: A column is missing, or of a type that does not do.
    """
    _check(events.columns, store, [*key, *([time] if isinstance(kind, Session) else [])], kind.columns)
    _check_types({field.name: field.dataType for field in events.schema}, store, kind.columns)
    if tombstones is not None and isinstance(kind, Session):
        raise InvalidInput(
            f"Store {store}: events of sessions cannot carry tombstones; write session fragments, and say so "
            "with is_partial."
        )
    place = unused_name(_PLACE, events.columns)
    if any(column.function in TIMED for column in kind.columns):
        events = events.withColumn(place, F.monotonically_increasing_id())
    if isinstance(kind, Session):
        return _fragments(events, store, key, kind, time, place)
    aggregates = [
        aggregate for column in kind.columns for aggregate in _aggregates(events, column, tombstones, place)
    ]
    grouped = events.groupBy(*(named_column(name) for name in key))
    if tombstones is None:
        return grouped.agg(*aggregates)
    flags = unused_name(_FLAGS, [*key, *_partials(kind), tombstones])
    rows = grouped.agg(*aggregates, _flags(tombstones).alias(flags))
    return rows.select("*", F.explode(flags).alias(tombstones)).drop(flags)


def event_columns(
    batch: DataFrame,
    events: Mapping[str, Column],
    store: str,
    key: Sequence[str],
    kind: Merge | Session,
    *,
    time: str = "",
) -> list[Column]:
    """Each event as a partial row of its own, or as a fragment: a projection, without a shuffle. The store
    does all of the work.

    Args:
        batch: A batch.
        events: What the columns of its events are over it, by name.
        store: Name of the store, for messages.
        key: The key, without a session's start.
        kind: The store's kind; without sketches, which only an aggregation makes.
        time: Column with the time of the events, for sessions.

    Returns:
        Columns over the batch, with the names and types that `partial_rows` gives.

    Raises:
        InvalidInput: A column is missing, or one is a sketch.
    """
    _check([*events], store, [*key, *([time] if isinstance(kind, Session) else [])], kind.columns)
    schema = batch.select(*events.values()).schema
    _check_types(dict(zip(events, (field.dataType for field in schema), strict=True)), store, kind.columns)
    ends = [events[time].alias(kind.start), events[time].alias(kind.end)] if isinstance(kind, Session) else []
    partials = [
        value.alias(name)
        for c in kind.columns
        for name, value in zip(c.partials, _values(batch, events, store, c), strict=True)
    ]
    return [*(events[name].alias(name) for name in key), *ends, *partials]


def _values(
    batch: DataFrame, events: Mapping[str, Column], store: str, column: MergedColumn
) -> Sequence[Column]:
    """What an event says of a merged column, in the order of `MergedColumn.partials`."""
    if column.function in SKETCHES:
        raise InvalidInput(
            f"Store {store}: {column.name} is a sketch, which Spark has to aggregate; leave aggregate_first "
            "on."
        )
    if not column.of:
        return [F.lit(1).cast("bigint")]
    of, counted = events[column.of], events[column.of].isNotNull().cast("bigint")
    if column.function is Function.COUNT:
        return [counted]
    if column.function in TIMED:
        return [of, events[column.by]]
    if column.function in (Function.MIN, Function.MAX):
        return [of]
    summed = of.cast(batch.select(F.sum(of)).schema[0].dataType)
    return [summed, counted] if column.function is Function.AVG else [summed]


def _check(events: Sequence[str], store: str, plain: Sequence[str], columns: Sequence[MergedColumn]) -> None:
    wanted = [*plain, *(name for column in columns for name in (column.of, column.by) if name)]
    missing = [name for name in wanted if name not in events]
    if missing:
        raise InvalidInput(
            f"Store {store}: the events have no column {', '.join(missing)} among {', '.join(events)}."
        )
    for column in columns:
        if not column.of and column.function is not Function.COUNT:
            raise InvalidInput(
                f"Store {store}: the merged column {column.name} does not say which column of the events it "
                "is of."
            )


def _fragments(
    events: DataFrame, store: str, key: Sequence[str], kind: Session, time: str, place: str
) -> DataFrame:
    """Events of a key that are no further apart than the gap, in one row. Spark would leave out those without
    a time.
    """
    missing = F.raise_error(
        F.lit(f"Store {store}: the time {time} of an event is null; a key must not be null.")
    )
    events = events.withColumn(time, F.coalesce(named_column(time), missing))
    aggregates = [
        aggregate for column in kind.columns for aggregate in _aggregates(events, column, None, place)
    ]
    at = named_column(time)
    ends = [F.min(at).alias(kind.start), F.max(at).alias(kind.end)]
    # Under a name of its own: a column of the key may be called as Spark calls it.
    name = unused_name(_WINDOW, [*key, kind.start, kind.end, *_partials(kind)])
    window = F.session_window(at, f"{kind.gap_microseconds} microseconds").alias(name)
    grouped = events.groupBy(*(named_column(each) for each in key), window)
    return grouped.agg(*ends, *aggregates).drop(name)


def _partials(kind: Merge | Session) -> Sequence[str]:
    return [name for column in kind.columns for name in column.partials]


def _flags(tombstones: str) -> Column:
    """Which rows a key has: a tombstone in front of its partial row if it has been removed, and alone where
    there is nothing else.
    """
    removed = F.coalesce(F.max(named_column(tombstones)), F.lit(False))
    has_events = F.count_if(_is_event(tombstones)) > 0
    both, removal, events = (
        F.array(*(F.lit(flag) for flag in flags)) for flags in ((True, False), (True,), (False,))
    )
    return F.when(removed & has_events, both).when(removed, removal).otherwise(events)


def _is_event(tombstones: str) -> Column:
    return ~F.coalesce(named_column(tombstones), F.lit(False))


def _aggregates(
    events: DataFrame, column: MergedColumn, tombstones: str | None, place: str
) -> Iterator[Column]:
    """The columns that a merged column is folded from, in the order of `MergedColumn.partials`."""

    def events_only(name: str) -> Column:
        value = named_column(name)
        return value if tombstones is None else F.when(_is_event(tombstones), value)

    data_type = events.schema[column.of].dataType if column.of else None
    of = _compared_by_bytes(events_only(column.of), data_type) if column.of else None
    by = events_only(column.by) if column.by else None
    for name, aggregate in zip(
        column.partials, _functions(column, data_type, of, by, tombstones, place), strict=True
    ):
        yield aggregate.alias(name)


def _compared_by_bytes(of: Column, data_type: DataType | None) -> Column:
    """A value as stores compare it: texts by their bytes, whatever their collation in Spark."""
    is_collated = isinstance(data_type, StringType) and data_type.collation != BINARY_COLLATION
    return F.collate(of, BINARY_COLLATION) if is_collated else of


def _functions(
    column: MergedColumn,
    kind: DataType | None,
    of: Column | None,
    by: Column | None,
    tombstones: str | None,
    place: str,
) -> Sequence[Column]:
    function = column.function
    if of is None or kind is None:
        return [F.count(F.lit(1)) if tombstones is None else F.count_if(_is_event(tombstones))]
    if by is not None:
        when = F.when(by.isNotNull(), F.struct(by, named_column(place)))
        is_last = function is Function.LAST
        return [F.max_by(of, when), F.max(by)] if is_last else [F.min_by(of, when), F.min(by)]
    if function is Function.COUNT_DISTINCT:
        return [F.hll_sketch_agg(_hash_input(of, kind), F.lit(_LG_REGISTERS))]
    if function is Function.QUANTILES:
        return [F.kll_sketch_agg_double(of.cast("double"), F.lit(_KLL_SIZE))]
    plain = {
        Function.SUM: [_sum_at_limits(of, kind)],
        Function.COUNT: [F.count(of)],
        Function.MIN: [F.min(of)],
        Function.MAX: [F.max(of)],
        Function.AVG: [_sum_at_limits(of, kind), F.count(of)],
    }
    return plain[function]


def _sum_at_limits(of: Column, data_type: DataType) -> Column:
    """A sum that stays at the limits of its type, as that of the store does: Spark's own ends the query, or
    begins anew at the other limit. One of decimals that has no room ends it in any case.
    """
    if isinstance(data_type, LongType):
        exact = F.sum(of.cast("decimal(38,0)"))
        limited = F.greatest(F.least(exact, F.lit(_MOST_BIGINT)), F.lit(_LEAST_BIGINT)).cast("bigint")
        # Of no value the sum is null, which Spark's own two functions pass over.
        return F.when(exact.isNotNull(), limited)
    if isinstance(data_type, DecimalType):
        overflow = F.raise_error(F.lit("A sum of decimals has more than 38 digits: cast them to DOUBLE."))
        return F.when((F.count(of) > 0) & F.sum(of).isNull(), overflow).otherwise(F.sum(of))
    return F.sum(of)


def _hash_input(of: Column, data_type: DataType) -> Column:
    """A value as sketches take it, the same as `engine.producers.partial_rows` gives it to them: integers, or
    text and bytes as they are, but for empty ones.
    """
    if isinstance(data_type, IntegerType | LongType):
        return of
    if isinstance(data_type, StringType | BinaryType):
        empty = F.lit(EMPTY_IN_SKETCHES).cast(data_type)
        return F.when(F.length(of) == 0, empty).otherwise(of)
    if isinstance(data_type, IntegralType | BooleanType):
        return of.cast("int")
    if isinstance(data_type, DateType):
        return F.unix_date(of)
    if isinstance(data_type, TimestampType):
        return F.unix_micros(of)
    return F.timestamp_diff("MICROSECOND", F.expr("TIMESTAMP_NTZ'1970-01-01 00:00:00'"), of)


def _check_types(types: Mapping[str, DataType], store: str, columns: Sequence[MergedColumn]) -> None:
    """Refuse columns of events whose type a function does not take; Spark would fail at the first value."""
    for column in columns:
        if column.function is Function.COUNT_DISTINCT and not isinstance(types[column.of], _HASHED):
            raise InvalidInput(
                f"Store {store}: {column.of} is {types[column.of].simpleString()}, whose distinct values are "
                "not counted; cast it to a string."
            )
        if column.function in _OF_NUMBERS and not isinstance(types[column.of], NumericType):
            raise InvalidInput(
                f"Store {store}: {column.of} is {types[column.of].simpleString()}, and "
                f"merged.{column.function.value} takes numbers: cast it to one."
            )
