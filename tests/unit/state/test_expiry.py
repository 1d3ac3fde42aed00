"""Which rows that come are past their retention."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.model.schema import TOMBSTONE_COLUMN
from engine.state.expiry import drop_old_rows, replace_old_by_tombstones

DAY = 86_400_000_000
LAST_DAY = (1 << 31) - 1
"""The last date of Arrow: its microseconds have no place in 64 bits."""


@pytest.mark.parametrize(
    ("cutoff", "kept"),
    [
        (0, [0, 1, LAST_DAY, None]),
        (1, [1, LAST_DAY, None]),
        (DAY, [1, LAST_DAY, None]),
        (DAY + 1, [LAST_DAY, None]),
        (-DAY - 1, [-1, 0, 1, LAST_DAY, None]),
    ],
)
def test_dates(cutoff: int, kept: list[int | None]) -> None:
    rows = pa.record_batch({"day": pa.array([-1, 0, 1, LAST_DAY, None], pa.int32()).cast(pa.date32())})
    assert drop_old_rows(rows, "day", cutoff)["day"].cast(pa.int32()).to_pylist() == kept


def test_tombstones_are_never_too_late() -> None:
    times = pa.array([5, 5, None], pa.int64()).cast(pa.timestamp("us"))
    rows = pa.record_batch({"k": [1, 2, 3], "at": times, TOMBSTONE_COLUMN: [True, False, True]})
    assert drop_old_rows(rows, "at", 10)["k"].to_pylist() == [1, 3]


def test_folded_rows_that_are_old_remove_their_key() -> None:
    rows = pa.record_batch({"k": [1, 2], "at": pa.array([5, 15]).cast(pa.timestamp("us"))})
    assert replace_old_by_tombstones(rows, "at", 10)[TOMBSTONE_COLUMN].to_pylist() == [True, False]
    assert replace_old_by_tombstones(rows, "at", 5) is rows
