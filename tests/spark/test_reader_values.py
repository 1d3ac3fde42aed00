"""Frames of stores and queries: Spark's types, and conditions on them."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flight_server.client.client import Client
from spark_pipeline import register
from tests.spark.frames import TYPED, TYPED_ROWS, load, values
from tests.support.plays import PARTITIONS, ROWS
from tests.support.typed_rows import NOON


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


def test_types(spark: SparkSession, typed: str) -> None:
    frame = load(spark, typed, store="typed")
    assert frame.rdd.getNumPartitions() == 3
    assert frame.schema.simpleString() == (
        "struct<id:bigint,tiny:tinyint,u8:smallint,u16:int,u32:bigint,u64:decimal(20,0),single:float,double:double,amount:decimal(12,3),name:string,"
        "raw:binary,flag:boolean,day:date,moment:timestamp_ntz,instant:timestamp,tags:array<string>,"
        "counts:map<string,bigint>,sizes:array<int>,point:struct<x:smallint,y:string>>"
    )
    found = frame.where("id = 1").collect()[0].asDict(recursive=True)
    single = found.pop("single")
    assert single == pytest.approx(0.1)
    # Spark hands instants to Python without their zone, as the clock of this machine shows them.
    assert found.pop("instant") == NOON.replace(tzinfo=dt.UTC).astimezone().replace(tzinfo=None)
    assert found == {
        name: value for name, value in TYPED_ROWS[0].items() if name not in ("single", "instant")
    } | {
        "counts": {"k": 7},
        "raw": bytearray(b"\x00\xff"),
    }
    empty = frame.where("id = 2").collect()[0].asDict()
    assert empty == {name: 2 if name == "id" else None for name in TYPED.names}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT INTERVAL 1 DAY AS wait FROM typed", "Column wait: Spark has no type for "),
        ("SELECT TIME '12:00:00' AS at FROM typed", "Column at: Spark has no type for time64"),
        (
            "SELECT CAST('2024-05-17 12:30:15.123456789' AS TIMESTAMP_NS) AS at FROM typed",
            r"Column at: Spark has no type for timestamp\[ns\]; cast it",
        ),
        (
            "SELECT CAST('2024-05-17 12:30:15.123456789+00' AS TIMESTAMPTZ_NS) AS at FROM typed",
            r"Column at: Spark has no type for timestamp\[ns, tz=UTC\]; cast it",
        ),
        ("SELECT id, name AS id FROM typed", "Two columns are called id"),
    ],
)
def test_types_that_spark_lacks(spark: SparkSession, typed: str, sql: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, typed, query=sql)


# ---- conditions

_CONDITIONS = [
    "id = 4",
    "id in (1, 3, 99)",
    "id > 2 and id <= 4",
    "not id in (1, 3)",
    "tiny is null",
    "tiny is not null",
    "tiny <=> 0",
    "tiny <=> null",
    "not tiny <=> 0",
    "tiny <> 0",
    "tiny in (0, null)",
    "not tiny in (0, null)",
    "u8 = 255",
    "u8 < 300",
    "u32 = 4294967295",
    "u64 = 18446744073709551615",
    "u64 > 9223372036854775807",
    "single = cast(0.1 as float)",
    "single > cast(1 as float)",
    "single = cast('NaN' as float)",
    "double = 0.0D",
    "double <= 0.0D",
    "double > 0.05D",
    "double = double('NaN')",
    "double < double('NaN')",
    "double = double('-Infinity')",
    "double <> 0.1D",
    "double = 5e-324D",
    "amount = 12345.678",
    "amount > 0",
    "amount < -0.0005BD",
    "amount in (12345.678BD, 999999999.999BD)",
    "amount = 123456789012345678901234567890.5BD",
    "amount > 0.000001BD",
    "amount < 10000000000000000000000000000000000000BD",
    "name = 'b'",
    "name = ''",
    "name < 'a'",
    "name >= 'B'",
    r"name = 'Ærø\'s 100% \\ 🎵'",
    "name like 'Ærø%'",
    "name like '%é'",
    "name like '%ø%'",
    "startswith(name, 'Ærø\\'s 100%')",
    "not startswith(name, 'a')",
    "raw = x'00ff'",
    "flag",
    "not flag",
    "flag = false",
    "day = date'2024-05-17'",
    "day < date'1000-01-01'",
    "day >= date'9999-12-31'",
    "moment = timestamp_ntz'2024-05-17 12:30:15.123456'",
    "moment < timestamp_ntz'1970-01-01 00:00:00'",
    "instant = timestamp'2024-05-17 12:30:15.123456+00:00'",
    "instant > timestamp'2024-05-17 13:30:15.123455+01:00'",
    "point.x = 200",
    "size(tags) = 3",
    "id > 2 and (name = 'b' or double > 1)",
]


_IN_A_QUERY = {
    "tiny <=> 0": "tiny IS NOT DISTINCT FROM 0",
    "tiny <=> null": "tiny IS NOT DISTINCT FROM NULL",
    "not tiny <=> 0": "tiny IS DISTINCT FROM 0",
    "double = 0.0D": "double = 0.0",
    "double <= 0.0D": "double <= 0.0",
    "double > 0.05D": "double > 0.05",
    "double = double('NaN')": "double = CAST('NaN' AS DOUBLE)",
    "double < double('NaN')": "double < CAST('NaN' AS DOUBLE)",
    "double = double('-Infinity')": "double = CAST('-Infinity' AS DOUBLE)",
    "double <> 0.1D": "double <> 0.1",
    "double = 5e-324D": "double = 5e-324",
    "amount < -0.0005BD": "amount < -0.0005",
    "amount in (12345.678BD, 999999999.999BD)": "amount IN (12345.678, 999999999.999)",
    "amount = 123456789012345678901234567890.5BD": "amount = 123456789012345678901234567890.5",
    "amount > 0.000001BD": "amount > 0.000001",
    "amount < 10000000000000000000000000000000000000BD": "CAST(amount AS DOUBLE) < 1e37",
    r"name = 'Ærø\'s 100% \\ 🎵'": r"name = 'Ærø''s 100% \ 🎵'",
    "startswith(name, 'Ærø\\'s 100%')": "starts_with(name, 'Ærø''s 100%')",
    "not startswith(name, 'a')": "NOT starts_with(name, 'a')",
    "raw = x'00ff'": r"raw = '\x00\xFF'::BLOB",
    "moment = timestamp_ntz'2024-05-17 12:30:15.123456'": "moment = TIMESTAMP '2024-05-17 12:30:15.123456'",
    "moment < timestamp_ntz'1970-01-01 00:00:00'": "moment < TIMESTAMP '1970-01-01 00:00:00'",
    "instant = timestamp'2024-05-17 12:30:15.123456+00:00'": (
        "instant = TIMESTAMPTZ '2024-05-17 12:30:15.123456+00:00'"
    ),
    "instant > timestamp'2024-05-17 13:30:15.123455+01:00'": (
        "instant > TIMESTAMPTZ '2024-05-17 13:30:15.123455+01:00'"
    ),
    "size(tags) = 3": "len(tags) = 3",
}
"""Conditions that hosts write in another way."""


def test_conditions_in_a_query_keep_the_rows_that_spark_keeps(spark: SparkSession, typed: str) -> None:
    assert _IN_A_QUERY.keys() <= set(_CONDITIONS)
    frame = load(spark, typed, store="typed")
    for condition in _CONDITIONS:
        query = f"SELECT id FROM typed WHERE {_IN_A_QUERY.get(condition, condition)}"
        assert values(load(spark, typed, query=query)) == values(frame.where(condition).select("id")), (
            condition
        )


def test_a_frame_is_used_with_several_conditions(spark: SparkSession, three: str) -> None:
    """Spark keeps one plan for all uses of a frame: none may leave rows out that another one needs."""
    frame = load(spark, three, store="plays")
    assert frame.where("genre = 3").count() == ROWS // 10
    assert frame.count() == ROWS
    assert values(frame.where("song = 17").union(frame.where("song = 18")).select("song")) == [(17,), (18,)]
    assert frame.where("song = 17").count() == 1
    assert values(
        frame.alias("a")
        .join(frame.where("genre = 8").alias("b"), on="song")
        .selectExpr("count(*)", "min(song)")
    ) == [(ROWS // 10, 8)]


def test_a_condition_on_the_key_leaves_partitions_out(spark: SparkSession, three: str) -> None:
    assert load(spark, three, store="plays").where("song = 17").rdd.getNumPartitions() == PARTITIONS
    assert load(spark, three, query="SELECT * FROM plays WHERE song = 17").rdd.getNumPartitions() == 1
    frame = load(spark, three, query="SELECT * FROM plays WHERE song IN (17, 18) AND genre % 2 = 1")
    assert frame.rdd.getNumPartitions() == 2
    assert values(frame) == [(17, 7, 2)]


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("id = 4", 1),
        ("id IN (4, 5)", 2),
        ("id > 6", 0),
        ("amount <= -0.001", 1),
        ("day = DATE '0001-01-01'", 1),
        ("moment < TIMESTAMP '0001-01-02 12:30:15.123456'", 1),
        ("name = 'B'", 1),
        ("name IS NOT NULL", 3),
    ],
)
def test_hosts_read_only_what_a_condition_needs(typed: str, condition: str, read: int) -> None:
    """Each of the three partitions has one segment of two rows, or nearly so."""
    with Client(typed) as client:
        metadata = client.query(f"SELECT * FROM typed WHERE {condition}").metadata
    assert metadata["segments_read"] <= read < 3 or read == 3
