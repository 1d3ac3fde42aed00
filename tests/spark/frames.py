"""Frames that Spark reads from hosts."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from engine.replica.follower_options import FollowerOptions
from flight_server.host.host import Host, HostOptions
from tests.support.started_host import start_host
from tests.support.typed_rows import FIELDS, NOON, VALUES


@contextmanager
def serve_directory(directory: Path, follower: FollowerOptions | None = None) -> Iterator[Host]:
    """A host alone, with all that the changelog in a directory has."""
    options = HostOptions(
        str(directory / "changelog"),
        directory / "data",
        port=0,
        follower=follower or FollowerOptions(poll_seconds=0.01),
        grace_seconds=0.2,
    )
    with start_host(options) as host:
        yield host


def load(spark: SparkSession, uri: str, schema: str | StructType | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("livestate").options(uri=uri, **options)
    return (reader if schema is None else reader.schema(schema)).load()


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


TYPED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("tiny", pa.int8()),
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        *FIELDS,
        ("sizes", pa.list_(pa.uint16())),
        ("point", pa.struct([("x", pa.uint8()), ("y", pa.string())])),
    ]
)
TYPED_ROWS: list[dict[str, Any]] = [
    {
        **VALUES,
        "id": 1,
        "tiny": -5,
        "u8": 255,
        "u16": 65535,
        "u32": 2**32 - 1,
        "u64": 2**64 - 1,
        "single": 0.1,
        "double": 0.1,
        "name": "Ærø's 100% \\ 🎵",
        "sizes": [1, 65535],
        "point": {"x": 200, "y": None},
    },
    {"id": 2},
    {
        "id": 3,
        "single": math.nan,
        "double": math.nan,
        "name": "",
        "raw": b"",
        "flag": False,
        "amount": Decimal("-0.001"),
        "tiny": 0,
    },
    {
        "id": 4,
        "single": -0.0,
        "double": -0.0,
        "name": "aé",
        "tiny": 127,
        "u8": 0,
        "u64": 0,
        "day": dt.date(1, 1, 1),
        "moment": NOON.replace(1, 1, 1),
    },
    {
        "id": 5,
        "single": math.inf,
        "double": -math.inf,
        "name": "b",
        "day": dt.date(9999, 12, 31),
        "amount": Decimal("999999999.999"),
    },
    {
        "id": 6,
        "single": 16777216.0,
        "double": 5e-324,
        "name": "B",
        "moment": NOON.replace(1969, 12, 31),
        "u32": 0,
    },
]
