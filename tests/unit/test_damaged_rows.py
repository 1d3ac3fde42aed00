"""Rows that came from elsewhere are looked through before they are read."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from engine.model.damaged_rows import check_rows
from engine.model.sql_types import canonical_type

HUGEINT = Decimal(2**127 - 1)
"""39 digits in 16 bytes."""
END_OF_DAY = pa.array([24 * 60 * 60 * 1_000_000]).cast(pa.time64("us"))
"""24:00:00."""


def decimal_of(value: Decimal) -> pa.Array:
    """A DECIMAL(38, 0), whatever its digits."""
    data = int(value).to_bytes(16, "little", signed=True)
    return pa.Array.from_buffers(pa.decimal128(38, 0), 1, [None, pa.py_buffer(data)])


def nested_columns(value: pa.Array) -> dict[str, pa.Array]:
    offsets = pa.array([0, 1], pa.int32())
    one = pa.array([1], pa.int32())
    return {
        "plain": value,
        "list": pa.ListArray.from_arrays(offsets, value),
        "large_list": pa.LargeListArray.from_arrays(pa.array([0, 1], pa.int64()), value),
        "fixed_size_list": pa.FixedSizeListArray.from_arrays(value, 1),
        "struct": pa.StructArray.from_arrays([value], ["v"]),
        "map": pa.MapArray.from_arrays(offsets, one, pa.ListArray.from_arrays(offsets, value)),
    }


@pytest.mark.parametrize(
    "value", [decimal_of(HUGEINT), END_OF_DAY, END_OF_DAY.cast(pa.time64("ns"))], ids=str
)
@pytest.mark.parametrize("kind", ["plain", "list", "large_list", "fixed_size_list", "struct", "map"])
def test_values_of_the_engine_beyond_their_types_are_no_damage(value: pa.Array, kind: str) -> None:
    rows = pa.record_batch({"v": nested_columns(value)[kind]})
    with pytest.raises(pa.ArrowInvalid, match=r"does not fit in precision|not within the acceptable range"):
        rows.validate(full=True)
    check_rows(rows)
    check_rows(pa.table(rows))


def test_no_value_of_the_engine_is_damage() -> None:
    """`test_all_types` has the least and the greatest value of each of its types."""
    with duckdb.connect() as engine:
        check_rows(engine.sql("FROM test_all_types()").to_arrow_table())


def test_damage_is_found() -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    for column in nested_columns(text).values():
        with pytest.raises(pa.ArrowInvalid):
            check_rows(pa.record_batch({"v": column}))


def test_a_time_zone_that_is_no_text_is_refused() -> None:
    sent = pa.schema([("v", pa.timestamp("us", "ABCDEFG"))]).serialize().to_pybytes()
    damaged = pa.ipc.read_schema(pa.py_buffer(sent.replace(b"ABCDEFG", b"A\x80CDEFG")))
    with pytest.raises(InvalidInput, match="time zone of a timestamp"):
        canonical_type(damaged.field("v").type)
