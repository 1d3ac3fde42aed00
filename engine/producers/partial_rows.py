"""Partial rows of raw events, for Python producers of stores that merge: what a Spark job has Spark compute.

```python
columns = (MergedColumn("plays", Function.COUNT), MergedColumn("seconds", Function.SUM, of="seconds"))
rows = partial_rows(events, ["song_id"], columns)
plays = define_store("plays", rows.schema, ["song_id"], behaviour=Behaviour(Merge(columns)))
with open_appender(changelog, [plays]) as appender:
    appender.append({"plays": rows})
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from datasketches import hll_sketch, kll_doubles_sketch, tgt_hll_type

from engine.errors import InvalidInput
from engine.model.columns import cast_exactly
from engine.model.kinds import EMPTY_IN_SKETCHES, SKETCHES, TIMED, Function, MergedColumn, Session
from engine.model.sql_types import MAX_DECIMAL_DIGITS, canonical_type, sql_type
from engine.state.folds.fold_aggregates import Aggregates
from engine.state.keys import KeyCodec, Rows, groups_of

LG_REGISTERS = 12
"""Binary logarithm of a distinct count's registers, as Spark's `hll_sketch_agg` has it by default."""
QUANTILE_SIZE = 200
"""Size of a quantile sketch, as Spark's `kll_sketch_agg_double` has it by default."""
_ORDERED = TIMED | {Function.MIN, Function.MAX}
_DIGITS_FOR_SUMS = 10
"""So many more digits the sum of decimals has, as in Spark."""


def partial_rows(
    events: pa.Table | pa.RecordBatch, key: Sequence[str], columns: Sequence[MergedColumn]
) -> pa.Table:
    """Aggregate events by key.

    Args:
        events: Rows with the key columns and those that the merged columns are of, in the order in which they
            came.
        key: The key columns; no null in them.
        columns: The store's merged columns.

    Returns:
        One row for each key, in key order: the key columns, then the columns that the merged ones are folded
        from (`MergedColumn.partials`). Sums have the types that Spark gives them: BIGINT, DOUBLE, or ten more
        digits of a decimal.

    Raises:
        InvalidInput: A column is missing, of a type that does not do, or has values between two of a store;
            the key is no list of names, or null in an event.
    """
    if isinstance(key, str) or not key:
        raise InvalidInput("The key must be a list of at least one column name.")
    arrays = {name: _column(events, name) for name in dict.fromkeys([*key, *_source_columns(columns)])}
    _check_types({name: values.type for name, values in arrays.items()}, key, columns)
    for name in key:
        if arrays[name].null_count:
            raise InvalidInput(
                f"The key column {name} is null in {arrays[name].null_count} of {len(arrays[name])} events; "
                "a key must not be null."
            )
    fields = [pa.field(name, arrays[name].type, nullable=False) for name in key]
    if not events.num_rows:
        return _table(
            fields, [arrays[name] for name in key], _partial_columns(columns, arrays, np.empty(0, np.intp), 0)
        )
    some_row, groups = groups_of(
        KeyCodec([field.type for field in fields]).encode([arrays[name] for name in key])
    )
    return _table(
        fields,
        [arrays[name].take(pa.array(some_row)) for name in key],
        _partial_columns(columns, arrays, groups, len(some_row)),
    )


def session_fragments(events: pa.Table, key: Sequence[str], kind: Session, time: str) -> pa.Table:
    """Session fragments of events. Those of one moment are aggregated, and the store joins the moments.

    Args:
        events: Rows with the key columns, the time, and the columns that the merged ones are of, in the order
            in which they came.
        key: The key columns, without the session's start; no null in them.
        kind: The store's kind.
        time: Timestamp column with the time of the events; no null in it.

    Returns:
        The key columns, start and end, then the columns that the merged ones are folded from.

    Raises:
        InvalidInput: As `partial_rows`.
    """
    at = _column(events, time)
    others = events.drop_columns([name for name in (kind.start,) if name in events.schema.names])
    rows = partial_rows(others.append_column(kind.start, at), [*key, kind.start], kind.columns)
    return rows.add_column(len(key) + 1, kind.end, rows[kind.start])


def _check_types(
    types: Mapping[str, pa.DataType], key: Sequence[str], columns: Sequence[MergedColumn]
) -> None:
    """Refuse what no store could have; sums and sketches look at theirs themselves."""
    for name in key:
        if pa.types.is_floating(types[name]) or pa.types.is_nested(types[name]):
            raise InvalidInput(
                f"{name} is {sql_type(types[name])}, which cannot be a key; use integers, VARCHAR, BLOB, "
                "BOOLEAN, DATE, TIMESTAMP or DECIMAL."
            )
    for column in columns:
        ordered = column.by if column.function in TIMED else column.of
        if column.function in _ORDERED and pa.types.is_nested(types[ordered]):
            raise InvalidInput(
                f"{ordered} is {sql_type(types[ordered])}, which has no order for {column.function}."
            )


def _source_columns(columns: Sequence[MergedColumn]) -> Iterator[str]:
    for column in columns:
        if not column.of and column.function is not Function.COUNT:
            raise InvalidInput(
                f"The merged column {column.name} does not say which column of the events it is of."
            )
        yield from (name for name in (column.of, column.by) if name)


def _column(events: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    if events.schema.names.count(name) != 1:
        raise InvalidInput(
            f"The events must have the column {name} once; they have {', '.join(events.schema.names)}."
        )
    column = events.column(name)
    target = canonical_type(column.type)
    try:
        column = cast_exactly(column, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"The column {name} of the events is of Arrow's type {column.type} and holds values that "
            f"{sql_type(target)} cannot hold exactly; convert them first."
        ) from error
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _table(fields: Sequence[pa.Field], keys: Sequence[pa.Array], partials: dict[str, pa.Array]) -> pa.Table:
    made = [pa.field(name, values.type) for name, values in partials.items()]
    return pa.Table.from_arrays([*keys, *partials.values()], schema=pa.schema([*fields, *made]))


def _partial_columns(
    columns: Sequence[MergedColumn], events: dict[str, pa.Array], groups: Rows, count: int
) -> dict[str, pa.Array]:
    plain = [column for column in columns if column.function not in SKETCHES]
    each: dict[str, pa.Array] = {}
    for column in plain:
        each |= zip(column.partials, _partials(column, events, len(groups)), strict=True)
    reduced = Aggregates(plain).reduce(each, groups, count)
    for column in columns:
        if column.function in SKETCHES:
            sketch = _distinct if column.function is Function.COUNT_DISTINCT else _quantiles
            reduced[column.partials[0]] = _sketches(column, events[column.of], groups, count, sketch)
    return {name: reduced[name] for column in columns for name in column.partials}


def _partials(column: MergedColumn, events: dict[str, pa.Array], rows: int) -> Sequence[pa.Array]:
    """Each event as a partial row of its own."""
    if column.function is Function.COUNT and not column.of:
        return [pa.array(np.ones(rows, np.int64))]
    of = events[column.of]
    counted = of.is_valid().cast(pa.int64())
    if column.function is Function.COUNT:
        return [counted]
    if column.function in TIMED:
        return [of, events[column.by]]
    if column.function in (Function.MIN, Function.MAX):
        return [of]
    summed = of.cast(_sum_type(column, of.type))
    return [summed, counted] if column.function is Function.AVG else [summed]


def _sum_type(column: MergedColumn, arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(arrow_type):
        return pa.decimal128(
            min(arrow_type.precision + _DIGITS_FOR_SUMS, MAX_DECIMAL_DIGITS), arrow_type.scale
        )
    if pa.types.is_uint64(arrow_type):
        return pa.decimal128(MAX_DECIMAL_DIGITS, 0)
    if pa.types.is_integer(arrow_type):
        return pa.int64()
    if pa.types.is_floating(arrow_type):
        return pa.float64()
    raise InvalidInput(f"{column.of} is {sql_type(arrow_type)}, which has no sum.")


def _sketches(
    column: MergedColumn,
    values: pa.Array,
    groups: Rows,
    count: int,
    sketch: Callable[[MergedColumn, pa.Array], bytes],
) -> pa.Array:
    """A sketch of each group's values; null for a group without any."""
    kept = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
    order = kept[np.argsort(groups[kept], kind="stable")]
    bounds = np.searchsorted(groups[order], np.arange(count + 1)).tolist()
    ordered = values.take(pa.array(order))
    return pa.array(
        [sketch(column, ordered[start:stop]) if start < stop else None for start, stop in pairwise(bounds)],
        pa.binary(),
    )


def _distinct(column: MergedColumn, values: pa.Array) -> bytes:
    """A HyperLogLog sketch. Integers, dates, timestamps and booleans count as integers, as the sink has Spark
    take them.
    """
    arrow_type = values.type
    if pa.types.is_date(arrow_type):
        values = values.cast(pa.int32())
    elif pa.types.is_temporal(arrow_type):
        values = values.cast(pa.int64())
    elif pa.types.is_uint64(arrow_type):
        values = values.view(
            pa.int64()
        )  # sketches take no larger integers, and tell the same values apart by the same bits
    elif pa.types.is_boolean(arrow_type):
        values = values.cast(pa.int8())
    elif not (pa.types.is_integer(arrow_type) or pa.types.is_string(arrow_type)):
        raise InvalidInput(
            f"{column.of} is {sql_type(arrow_type)}, whose distinct values are not counted; cast it to "
            "VARCHAR."
        )
    made = hll_sketch(LG_REGISTERS, tgt_hll_type.HLL_8)
    for value in pc.unique(values).to_pylist():
        made.update(EMPTY_IN_SKETCHES if value == "" else value)
    data: bytes = made.serialize_compact()
    return data


def _quantiles(column: MergedColumn, values: pa.Array) -> bytes:
    if not (
        pa.types.is_integer(values.type)
        or pa.types.is_floating(values.type)
        or pa.types.is_decimal(values.type)
    ):
        raise InvalidInput(
            f"{column.of} is {sql_type(values.type)}, which has no quantiles; they are of numbers."
        )
    made = kll_doubles_sketch(QUANTILE_SIZE)
    made.update(values.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False, writable=True))
    data: bytes = made.serialize()
    return data
