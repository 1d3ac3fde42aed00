"""Result types and batches: what every Arrow client can read.

The engine's types are made canonical as stored values are (`engine.model.sql_types`). Beyond those:

| engine type | result |
|---|---|
| HUGEINT, UHUGEINT (sums of integers) | decimal128(38, 0) |
| TIME, TIME_NS | time64[us], time64[ns] |
| INTERVAL | month_day_nano_interval |
| TIMESTAMP_S, TIMESTAMP_MS, TIMESTAMP_NS | timestamp[us] for the first two, timestamp[ns] |
| ENUM, UUID, JSON | string |
| ARRAY | list |
| the type of a bare NULL | int32 |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from duckdb.sqltypes import DuckDBPyType

from engine.errors import InvalidInput, LimitExceeded, Unsupported
from engine.model.result_width import check_width, width_of_types
from engine.model.sql_types import canonical_type, parse_sql_type

MAX_ROW_BYTES = (2 << 30) - (1 << 20)
"""Arrow Flight sends no batch of 2 GiB."""
_QUOTED = re.compile(r"'[^']*(?:''[^']*)*'|\"[^\"]*(?:\"\"[^\"]*)*\"")
_OPAQUE = re.compile(r"(?:^|[ (,])(BIT|TIME WITH TIME ZONE|GEOMETRY|VARIANT|BIGNUM)(?=$|[,)[])")
_CHANGED = re.compile(r"[ (,]UHUGEINT(?=[,)[])|^UHUGEINT\[")
"""A type of which Arrow does not have all values within others. It does not of intervals either, whose part
beside months and days has 292 years at the most; but statements give these to clients, who have no others.
"""
_UNSIGNED = "uhugeint"
"""A type whose larger half comes to Arrow as negative numbers."""
_NESTED = frozenset(["list", "array", "struct", "tuple", "map"])
"""Types that results can have and that have others within."""
_MOST_TICKS = (1 << 63) - 1
"""Infinity, as a moment of any unit."""


def result_schema(schema: pa.Schema, names: Sequence[str] | None = None) -> pa.Schema:
    """The schema that a client sees.

    Args:
        schema: Schema of the engine's result.
        names: What its columns are called; None for what the engine calls them.

    Returns:
        These names with canonical types, all nullable.

    Raises:
        Unsupported: A column has a type that Arrow clients cannot read.
    """
    fields = []
    for name, field in zip(names or schema.names, schema, strict=True):
        try:
            fields.append(pa.field(name, _result_type(field.type)))
        except InvalidInput as error:
            raise Unsupported(
                f"The result column {name} has a type that cannot be sent ({field.type}): cast it, to "
                "VARCHAR for example."
            ) from error
    return pa.schema(fields)


def check_types(names: Sequence[str], types: Sequence[str]) -> None:
    """Refuse result types whose Arrow form loses what they mean: an offset, a length of bits, a format of the
    engine's own. Likewise more of them than a schema may have.

    Args:
        names: Names of the result's columns.
        types: The engine's names of their types.

    Raises:
        Unsupported: A column has such a type.
        LimitExceeded: As `check_width`.
    """
    check_width(width_of_types(types))
    for name, type_name in zip(names, types, strict=True):
        if _OPAQUE.search(_QUOTED.sub("", type_name)) is not None:
            raise Unsupported(
                f"The result column {name} has the type {type_name}, which cannot be sent: cast it, to "
                "VARCHAR for example."
            )


@dataclass(frozen=True)
class UnsignedValues:
    """Values of UHUGEINT in a result.

    Attributes:
        name: The column that has them.
        place: Its place.
        path: Which child of which child they are, from the column's type on; empty for the column itself.
    """

    name: str
    place: int
    path: tuple[int, ...]


def unsigned_values(names: Sequence[str], types: Sequence[DuckDBPyType]) -> Sequence[UnsignedValues]:
    """What `check_unsigned` is about.

    Args:
        names: Names of a result's columns.
        types: The engine's types of them.
    """
    return [
        UnsignedValues(name, place, path)
        for place, (name, kind) in enumerate(zip(names, types, strict=True))
        for path in _unsigned_paths(kind)
    ]


def _unsigned_paths(kind: DuckDBPyType) -> Iterator[tuple[int, ...]]:
    if kind.id == _UNSIGNED:
        yield ()
    elif kind.id in _NESTED:
        for place, (_, child) in enumerate(kind.children):
            if isinstance(child, DuckDBPyType):  # the size of an array is none
                yield from ((place, *path) for path in _unsigned_paths(child))


def check_unsigned(batch: pa.RecordBatch, unsigned: Sequence[UnsignedValues]) -> None:
    """Refuse values of UHUGEINT that come to Arrow as other ones.

    Args:
        batch: Rows, as the engine gives them.
        unsigned: As `unsigned_values`.

    Raises:
        Unsupported: There is one.
    """
    for each in unsigned:
        values = batch.column(each.place)
        for child in each.path:
            if pa.types.is_map(values.type):
                values = values.cast(pa.list_(pa.struct([values.type.key_field, values.type.item_field])))
                values = values.flatten()
            values = values.flatten()[child] if pa.types.is_struct(values.type) else values.flatten()
        least = pc.min(values).as_py()
        if least is not None and least < 0:
            raise Unsupported(
                f"The result column {each.name} has a number of 2^127 or more, which cannot be sent: cast "
                "it, to VARCHAR for example."
            )


def check_travelling_types(types: Sequence[str]) -> None:
    """Refuse types of columns that other hosts could not read as they were.

    Args:
        types: The engine's names of the types.

    Raises:
        Unsupported: A value of one of them, or in them, comes back from Arrow as another one.
    """
    for type_name in types:
        plain = _QUOTED.sub("", type_name)
        if _OPAQUE.search(plain) is not None or _CHANGED.search(plain) is not None:
            raise Unsupported(f"Values of the type {type_name} cannot be sent from host to host.")


def known_type(type_name: str) -> pa.DataType | None:
    """The type that a client sees of a column, where the engine's name of its type tells.

    Args:
        type_name: The engine's name.

    Returns:
        The type; None where the engine has to be asked, as for nested types.
    """
    if type_name == "HUGEINT":
        return pa.decimal128(38, 0)
    try:
        return parse_sql_type(type_name)
    except InvalidInput:
        return None


def _result_type(arrow_type: pa.DataType) -> pa.DataType:
    if pa.types.is_null(arrow_type):
        return pa.int32()
    if pa.types.is_time64(arrow_type) or pa.types.is_interval(arrow_type):
        return arrow_type
    if pa.types.is_timestamp(arrow_type) and arrow_type.unit == "ns":
        return pa.timestamp("ns", "UTC" if arrow_type.tz else None)
    if pa.types.is_dictionary(arrow_type):
        return _result_type(arrow_type.value_type)
    if (
        pa.types.is_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
    ):
        return pa.list_(pa.field("item", _result_type(arrow_type.value_type)))
    if pa.types.is_struct(arrow_type):
        return pa.struct([pa.field(field.name, _result_type(field.type)) for field in arrow_type])
    if pa.types.is_map(arrow_type):
        return pa.map_(_result_type(arrow_type.key_type), _result_type(arrow_type.item_type))
    return canonical_type(arrow_type)


def conversion(source: pa.Schema, target: pa.Schema) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """How batches of the engine become batches of the result.

    Args:
        source: Schema of the engine's batches.
        target: `result_schema` of it.

    Returns:
        A function that copies only columns whose type changes.
    """
    if source.equals(target):
        return lambda batch: batch

    def convert(batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_cast(column, field.type) for column, field in zip(batch.columns, target, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=target) if columns else batch

    return convert


def _cast(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    if column.type.equals(arrow_type):
        return column
    if pa.types.is_timestamp(column.type) and column.type.unit == arrow_type.unit:
        return column.view(arrow_type)
    if pa.types.is_timestamp(column.type) and column.type.unit in ("s", "ms"):
        return _widen_moments(column, arrow_type)
    return column.cast(arrow_type)


def _widen_moments(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Moments in a finer unit; infinity stays what it is."""
    ticks = column.view(pa.int64())
    is_infinite = pc.greater_equal(pc.abs(ticks), _MOST_TICKS)
    finite = pc.if_else(is_infinite, None, column).cast(arrow_type).view(pa.int64())
    return pc.if_else(is_infinite, ticks, finite).view(arrow_type)


def is_small(rows: pa.RecordBatch | pa.Table, limit_bytes: int) -> bool:
    """Whether rows take no more than so many bytes where they are sent: memory that columns share counts for
    each of them.

    Args:
        rows: The rows.
        limit_bytes: Arrow bytes.
    """
    # An upper bound that takes a hundredth of the time of the exact size: it spares point lookups that.
    return bool(rows.get_total_buffer_size() * rows.num_columns <= limit_bytes or rows.nbytes <= limit_bytes)


def slice_batches(batches: Iterator[pa.RecordBatch], batch_bytes: int) -> Iterator[pa.RecordBatch]:
    """Cut batches that are too big to send at once.

    Args:
        batches: Batches of any size; those without rows are left out.
        batch_bytes: Arrow bytes that a batch should not exceed; a single row may.

    Returns:
        The same rows in smaller batches, not copied.

    Raises:
        LimitExceeded: A row is larger than Arrow sends at once.
    """
    for batch in batches:
        if not batch.num_rows:
            continue
        if is_small(batch, batch_bytes):
            yield batch
            continue
        rows = max(1, batch.num_rows * batch_bytes // batch.nbytes)
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            if rows == 1 and part.nbytes > MAX_ROW_BYTES:
                raise LimitExceeded(
                    f"A row of the result has {part.nbytes >> 20:,} MiB, and no more than "
                    f"{MAX_ROW_BYTES >> 20:,} can be sent: read fewer columns, or parts of long values."
                )
            yield part
