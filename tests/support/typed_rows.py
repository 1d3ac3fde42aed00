"""Columns of the types that stores have, and a value of each."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa

NOON = dt.datetime(2024, 5, 17, 12, 30, 15, 123456)  # noqa: DTZ001 - the TIMESTAMP type has no zone
FIELDS = (
    pa.field("amount", pa.decimal128(12, 3)),
    pa.field("name", pa.string()),
    pa.field("raw", pa.binary()),
    pa.field("flag", pa.bool_()),
    pa.field("day", pa.date32()),
    pa.field("moment", pa.timestamp("us")),
    pa.field("instant", pa.timestamp("us", "UTC")),
    pa.field("tags", pa.list_(pa.string())),
    pa.field("counts", pa.map_(pa.string(), pa.int64())),
)
VALUES: dict[str, Any] = {
    "amount": Decimal("12345.678"),
    "name": "Ærø 🎵",
    "raw": b"\x00\xff",
    "flag": True,
    "day": NOON.date(),
    "moment": NOON,
    "instant": NOON.replace(tzinfo=dt.UTC),
    "tags": ["a", None, "b"],
    "counts": [("k", 7)],
}
"""Of each of the fields."""
