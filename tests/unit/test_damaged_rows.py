"""Rows that came from elsewhere are looked through before they are read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.model.damaged_rows import check_rows

HUGEINT = Decimal(2**127 - 1)
"""39 digits in 16 bytes."""


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
    "column", nested_columns(decimal_of(HUGEINT)).values(), ids=lambda column: column.type.id
)
def test_a_hugeint_is_no_damage(column: Any) -> None:
    rows = pa.record_batch({"v": column})
    with pytest.raises(pa.ArrowInvalid, match="does not fit in precision"):
        rows.validate(full=True)
    check_rows(rows)
    check_rows(pa.table(rows))


def test_damage_is_found() -> None:
    text = pa.Array.from_buffers(
        pa.string(), 1, [None, pa.array([0, 1], pa.int32()).buffers()[1], pa.py_buffer(b"\xff")]
    )
    for column in nested_columns(text).values():
        with pytest.raises(pa.ArrowInvalid):
            check_rows(pa.record_batch({"v": column}))
