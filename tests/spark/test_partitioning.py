"""Partition numbers against a running Spark, value by value."""

from __future__ import annotations

import datetime as dt
import decimal
import random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from engine.model.partitioning import partition_of

_ROWS = 2000
_RANDOM = random.Random(7)


def _integers(bits: int) -> list[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [low, high, -1, 0, 1, *(_RANDOM.randint(low, high) for _ in range(_ROWS - 5))]


def _texts() -> list[str]:
    letters = "aZ09 \0\x7fé߿ह\uffff日🎵"
    return [
        "",
        "日本語" * 400,
        *("".join(_RANDOM.choices(letters, k=_RANDOM.randrange(30))) for _ in range(_ROWS - 2)),
    ]


_EPOCH_START = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_TIMES = [_EPOCH_START + dt.timedelta(microseconds=_RANDOM.randint(-(10**16), 10**17)) for _ in range(_ROWS)]
_EXACT = decimal.Context(prec=38)
_COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), _integers(8)),
    "int16": (pa.int16(), _integers(16)),
    "int32": (pa.int32(), _integers(32)),
    "int64": (pa.int64(), _integers(64)),
    "bool": (pa.bool_(), [_RANDOM.random() < 0.5 for _ in range(_ROWS)]),
    "date": (pa.date32(), [time.date() for time in _TIMES]),
    "timestamp": (pa.timestamp("us", "UTC"), _TIMES),
    "timestamp_ntz": (pa.timestamp("us"), [time.replace(tzinfo=None) for time in _TIMES]),
    "string": (pa.string(), _texts()),
    "decimal": (pa.decimal128(18, 3), [decimal.Decimal(value).scaleb(-3) for value in _integers(60)]),
    "long_decimal": (
        pa.decimal128(38, 5),
        [decimal.Decimal(value).scaleb(-5, _EXACT) for bits in (126, 70, 9) for value in _integers(bits)][
            ::3
        ],
    ),
    "binary": (
        pa.binary(),
        [b"", b"\xff" * 5000, *(_RANDOM.randbytes(_RANDOM.randrange(40)) for _ in range(_ROWS - 2))],
    ),
}


@pytest.fixture(scope="module")
def table() -> pa.Table:
    nulls = {
        f"{name}_or_null": pa.array([v if _RANDOM.random() < 0.7 else None for v in values], kind)
        for name, (kind, values) in _COLUMNS.items()
    }
    return pa.table({**{name: pa.array(values, kind) for name, (kind, values) in _COLUMNS.items()}, **nulls})


def test_every_type_alone_and_together(spark: SparkSession, table: pa.Table) -> None:
    frame = spark.createDataFrame(table)
    together = [name for name in table.schema.names if name.endswith("_or_null")]
    keys = [*([name] for name in table.schema.names), together, together[::-1], ["string", "int64_or_null"]]
    for partitions in (1, 8, 13, 4096, 2**31 - 1):
        found = frame.selectExpr(
            *(f"pmod(hash({', '.join(key)}), {partitions}) AS p{i}" for i, key in enumerate(keys))
        ).toArrow()
        for i, key in enumerate(keys):
            ours = partition_of([table.column(name) for name in key], partitions)
            assert np.array_equal(ours, found.column(f"p{i}").to_numpy()), f"{key} on {partitions} partitions"
