"""Sort keys of every type: read as numbers without a copy, and searched one by one."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from engine.state import keys as sort_keys

BEGINNING = dt.datetime(1, 1, 1, tzinfo=dt.UTC)
NOON = dt.datetime(2024, 2, 29, 12, tzinfo=dt.UTC)
COLUMNS: list[pa.Array] = [
    pa.array([-(2**7), -1, 0, 5, 2**7 - 1], pa.int8()),
    pa.array([-(2**15), -1, 0, 5, 2**15 - 1], pa.int16()),
    pa.array([-(2**31), -1, 0, 5, 2**31 - 1], pa.int32()),
    pa.array([-(2**63), -1, 0, 5, 2**63 - 1], pa.int64()),
    pa.array([0, 1, 5, 2**8 - 1], pa.uint8()),
    pa.array([0, 1, 5, 2**16 - 1], pa.uint16()),
    pa.array([0, 1, 5, 2**32 - 1], pa.uint32()),
    pa.array([0, 1, 5, 2**64 - 1], pa.uint64()),
    pa.array([False, True]),
    pa.array([dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)], pa.date32()),
    pa.array([BEGINNING.replace(tzinfo=None), NOON.replace(tzinfo=None)], pa.timestamp("us")),
    pa.array([BEGINNING, NOON], pa.timestamp("us", "UTC")),
    pa.array(["", "a", "ab", "é"]),
    pa.array([b"", b"\x00", b"\xff"], pa.binary()),
]


def _ids(value: pa.Array) -> str:
    return str(value.type)


@pytest.mark.parametrize("column", COLUMNS, ids=_ids)
def test_each_key_is_found_alone_and_no_other(column: pa.Array) -> None:
    all_keys = sort_keys.KeyCodec([column.type]).encode([column])
    needles = sort_keys.to_needles(all_keys)
    for kept in range(len(column) + 1):
        keys = all_keys[:kept]
        for place, needle in enumerate(needles):
            assert sort_keys.find_one(keys, needle) == (place if place < kept else None)
            assert sort_keys.count_up_to(keys, needle) == min(place + 1, kept)


@pytest.mark.parametrize("column", COLUMNS, ids=_ids)
def test_a_part_of_a_column_has_its_own_keys(column: pa.Array) -> None:
    codec = sort_keys.KeyCodec([column.type])
    whole = sort_keys.to_needles(codec.encode([column]))
    for start in range(len(column) + 1):
        assert sort_keys.to_needles(codec.encode([column[start:]])) == whole[start:]


def test_numbers_are_not_copied() -> None:
    column: Any = pa.array([1, 2, 3], pa.int64())
    assert sort_keys.numbers(column[1:]).ctypes.data == column.buffers()[1].address + np.int64().nbytes
