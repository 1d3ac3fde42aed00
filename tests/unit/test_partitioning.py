"""Partition numbers are for ever: values frozen from real Spark, and two implementations that must agree.

`tests/spark/test_partitioning.py` compares with a running Spark, value by value.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from engine.model.partitioning import partition_of, partitions_of, value_partitioner
from engine.model.schema import define_store
from tests.support.seeds import seeded_random

_LARGEST = 2**31 - 1
"""As many partitions as fit int32 tell almost all hashes apart."""

UTC = dt.UTC
DATE, TIME = pa.date32(), pa.timestamp("us", "UTC")
MUSIC = dt.datetime(2024, 2, 29, 12, 34, 56, 789012, tzinfo=UTC)
# What `SELECT hash(…)` returned in Spark 4.3.0.
GOLDEN = [
    (pa.int8(), [(0, 933211791), (1, -559580957), (-1, -1604776387), (127, 1135925485), (-128, 1110053733)]),
    (pa.int16(), [(32767, 1249274084), (-32768, -1871935946), (255, -673326395)]),
    (pa.uint8(), [(255, -673326395)]),
    (pa.uint16(), [(32767, 1249274084)]),
    (
        pa.int32(),
        [
            (0, 933211791),
            (1, -559580957),
            (-1, -1604776387),
            (2**31 - 1, 133916647),
            (-(2**31), 723455942),
            (1234567, 561627805),
        ],
    ),
    (
        pa.int64(),
        [
            (0, -1670924195),
            (1, -1712319331),
            (-1, -939490007),
            (2**63 - 1, -1604625029),
            (-(2**63), -853646085),
            (2**32 - 1, -1758433029),
        ],
    ),
    (pa.uint32(), [(2**32 - 1, -1758433029)]),
    (pa.uint64(), [(2**63, -853646085), (2**64 - 1, -939490007), (1, -1712319331)]),
    (pa.bool_(), [(True, -559580957), (False, 933211791)]),
    (
        DATE,
        [
            (dt.date(1970, 1, 1), 933211791),
            (dt.date(2024, 2, 29), 653915859),
            (dt.date(1969, 12, 31), -1604776387),
        ],
    ),
    (DATE, [(dt.date(1, 1, 1), -1147107224), (dt.date(9999, 12, 31), 1135886659)]),
    (TIME, [(dt.datetime(1970, 1, 1, tzinfo=UTC), -1670924195), (MUSIC, -1367554535)]),
    (TIME, [(dt.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), -939490007)]),
    (pa.timestamp("us"), [(MUSIC.replace(tzinfo=None), -1367554535)]),
    (
        pa.string(),
        [
            ("", 142593372),
            ("a", 1485273170),
            ("ab", -97053317),
            ("abc", 1322437556),
            ("abcd", -396302900),
            ("abcde", 814637928),
        ],
    ),
    (
        pa.string(),
        [
            ("é", 2119106806),
            ("日本語", -1143049834),
            ("🎵🎶", 1992206468),
            ("song-00000042", 848667039),
            ("x" * 1001, -1536256584),
        ],
    ),
    (
        pa.binary(),
        [(b"", 142593372), (b"\x00", -783713497), (b"\xff", 1398487324), (b"\x80\xff\x7f", 1911184379)],
    ),
    (
        pa.decimal128(10, 2),
        [(Decimal("1.23"), -46242105), (Decimal(-1), 904948192), (Decimal(0), -1670924195)],
    ),
    (
        pa.decimal128(38),
        [
            (Decimal(0), -783713497),
            (Decimal(-1), 1398487324),
            (Decimal(127), 1185089389),
            (Decimal(128), -544401882),
        ],
    ),
    (
        pa.decimal128(38),
        [(Decimal(-128), 775851899), (Decimal(-129), -771458971), (Decimal("9" * 38), -817514053)],
    ),
    (pa.binary(), [(b"\0\0\0\0\xff", 723935196), (bytes.fromhex("DEADBEEFDEADBEEF01"), 1691756147)]),
]
GOLDEN_ROWS = [
    ([(1, pa.int64()), ("a", pa.string())], 573093329),
    ([("a", pa.string()), (1, pa.int64())], 1838122449),
    ([(None, pa.int64()), ("a", pa.string())], 1485273170),
    ([(1, pa.int64()), (None, pa.string())], -1712319331),
    ([(None, pa.int64())], 42),
    ([(dt.date(2024, 2, 29), DATE), (7, pa.int32()), (True, pa.bool_()), ("x", pa.string())], -1159833709),
]


@pytest.mark.parametrize(
    ("kind", "values"), GOLDEN, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
@pytest.mark.parametrize("repeats", [1, 40], ids=["few rows", "many rows"])
def test_equals_spark(kind: pa.DataType, values: list[tuple[object, int]], repeats: int) -> None:
    column = pa.array([value for value, _ in values] * repeats, kind)
    if pa.types.is_integer(kind) or pa.types.is_string(kind):
        assert [
            value_partitioner(kind, _LARGEST)(value) for value, _ in values if isinstance(value, int | str)
        ] == [h % _LARGEST for _, h in values]
    assert partition_of([column], _LARGEST).tolist() == [h % _LARGEST for _, h in values] * repeats


@pytest.mark.parametrize(("row", "expected"), GOLDEN_ROWS)
@pytest.mark.parametrize("repeats", [1, 40], ids=["few rows", "many rows"])
def test_chains_columns_and_skips_nulls(
    row: list[tuple[object, pa.DataType]], expected: int, repeats: int
) -> None:
    columns = [pa.array([value] * repeats, kind) for value, kind in row]
    assert partition_of(columns, _LARGEST).tolist() == [expected % _LARGEST] * repeats


def _mixed_columns(rows: int) -> list[pa.Array]:
    rng = seeded_random(5)
    return [
        pa.array([rng.choice([None, rng.randrange(-(2**63), 2**63)]) for _ in range(rows)], pa.int64()),
        pa.array([rng.choice([None, True, False]) for _ in range(rows)]),
        pa.array(
            [
                rng.choice([None, "🎵é日a"[: rng.randrange(5)] * rng.choice([0, 1, 3, 60])])
                for _ in range(rows)
            ],
            pa.string(),
        ),
        pa.array([rng.randbytes(rng.randrange(20)) for _ in range(rows)], pa.binary()),
        pa.array([rng.randrange(-(2**15), 2**15) for _ in range(rows)], pa.int16()),
    ]


@pytest.mark.parametrize("partitions", [1, 7, 8, 4096])
def test_few_rows_and_many_rows_agree(partitions: int) -> None:
    columns = _mixed_columns(1000)
    together = partition_of(columns, partitions)
    one_by_one = [
        partition_of([column.slice(row, 1) for column in columns], partitions)[0] for row in range(1000)
    ]
    assert together.dtype == np.int32
    assert together.tolist() == one_by_one
    assert set(together.tolist()) <= set(range(partitions))


def test_slices_and_chunks_place_rows_like_whole_arrays() -> None:
    columns = _mixed_columns(100_000)
    whole = partition_of(columns, 8)
    for start, length in ((1, 99_998), (3, 40_000), (70_001, 29_999), (99_990, 10)):
        assert np.array_equal(
            partition_of([c.slice(start, length) for c in columns], 8), whole[start : start + length]
        )
    chunked = [pa.chunked_array([c.slice(0, 11), c.slice(11, 0), c.slice(11)]) for c in columns]
    assert np.array_equal(partition_of(chunked, 8), whole)


def test_a_few_long_strings_among_short_ones() -> None:
    values = ["é" * 50_001, *("ab" * (i % 9) for i in range(100)), "z" * 70_003]
    together = partition_of([pa.array(values)], _LARGEST).tolist()
    assert together == [int(partition_of([pa.array([value])], _LARGEST)[0]) for value in values]


@pytest.mark.parametrize("rows", [0, 100])
def test_no_rows_and_only_nulls(rows: int) -> None:
    for kind in (pa.int64(), pa.bool_(), pa.string(), pa.binary(), DATE):
        assert partition_of([pa.nulls(rows, kind)], _LARGEST).tolist() == [42] * rows


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64(), pa.list_(pa.int64())], ids=str)
@pytest.mark.parametrize("rows", [1, 100])
def test_types_that_cannot_place_rows_are_refused(kind: pa.DataType, rows: int) -> None:
    with pytest.raises(InvalidInput, match="cannot place rows"):
        partition_of([pa.nulls(rows, kind)], 8)


def test_partitions_of_points() -> None:
    schema = pa.schema([("user", pa.string()), ("day", DATE), ("song", pa.int64()), ("plays", pa.int64())])
    store = define_store(
        "plays", schema, ["user", "day", "song"], partition_by=["user", "day"], partitions=64
    )
    users, days = pa.array(["a", "b", "a"]), pa.array([1, 2, 1], DATE)
    covering = pa.RecordBatch.from_arrays([users, days, pa.array([7, 8, 9])], names=["user", "day", "song"])
    expected = frozenset(partition_of([users, days], 64).tolist())
    assert partitions_of(store, covering) == expected
    assert partitions_of(store, covering.select(["user", "day"])) == expected
    assert partitions_of(store, covering.slice(0, 0)) == frozenset()
    assert partitions_of(store, covering.select(["user"])) is None
    assert partitions_of(store, None) is None
