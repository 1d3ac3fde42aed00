"""What rows take, beside what Arrow adds up."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from engine.plan.row_widths import RowWidths

_ROWS = pa.table(
    {
        "number": pa.array([1, 2, 3], pa.int16()),
        "flag": [True, False, True],
        "text": ["", "größe", "x" * 40],
        "bytes": [b"a", b"", b"abc"],
        "large": pa.array(["a", "bc", "def"], pa.large_string()),
        "price": [Decimal("1.50"), Decimal("2.25"), Decimal("3.75")],
        "at": [dt.date(2026, 1, day) for day in (1, 2, 3)],
        "list": [[1, 2], [], [3]],
        "struct": [{"a": 1}, {"a": 2}, {"a": 3}],
    }
)


@pytest.mark.parametrize("start", range(3))
@pytest.mark.parametrize("rows", range(4))
def test_rows_take_what_arrow_says(start: int, rows: int) -> None:
    rows_of_more = _ROWS.slice(start, rows)
    assert RowWidths(_ROWS.schema).table_bytes(rows_of_more) == rows_of_more.nbytes


def test_a_text_that_is_null_takes_no_bytes_of_its_own() -> None:
    row = pa.table({"text": ["abc", None]}).slice(1)
    assert RowWidths(row.schema).table_bytes(row) == 4
