"""Batch writes: the same code, one epoch a call."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.kinds import Behaviour, Retention, Session, Versioned
from engine.model.schema import StoreName, define_store
from spark_pipeline import StoreOutput, merged, write_store
from spark_pipeline.transfer import PathChooser, TransferPath, planned_bytes
from tests.spark.streams import PATHS, FileStream, commits, contents, drain, sort_by_key


@pytest.mark.parametrize("path", PATHS)
def test_each_write_is_an_epoch(spark: SparkSession, uri: str, path: str) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr("id % 7 AS shard", "id", "cast(id AS STRING) AS text")
    first = write_store(
        frame,
        changelog=uri,
        store="numbers",
        key=["shard", "id"],
        partition_by=["shard"],
        partitions=4,
        path=path,
    )
    changed = frame.where("id < 10").selectExpr("shard", "id", "'changed' AS text")
    second = write_store(
        changed,
        changelog=uri,
        store="numbers",
        key=["shard", "id"],
        partition_by=["shard"],
        partitions=4,
        path=path,
    )
    assert first < second
    assert [commit.epoch for commit in commits(uri, "numbers")] == [first, second]
    rows = [{"shard": i % 7, "id": i, "text": "changed" if i < 10 else str(i)} for i in range(1000)]
    assert contents(uri, "numbers") == sort_by_key(rows, "shard", "id")


def test_complete_replaces_and_tombstones_remove(spark: SparkSession, uri: str) -> None:
    write_store(spark.range(10), changelog=uri, store="numbers", key=["id"])
    write_store(spark.range(5), changelog=uri, store="numbers", key=["id"], mode="complete")
    gone = spark.range(4).selectExpr("id", "id % 2 = 0 AS gone")
    write_store(gone, changelog=uri, store="numbers", key=["id"], tombstone_column="gone")
    assert set(contents(uri, "numbers")) == {(1,), (3,), (4,)}


def test_many_rows_through_the_driver_are_written_in_pieces(spark: SparkSession, uri: str) -> None:
    frame = spark.range(600_000).selectExpr("id", "id DIV 2 AS half")
    write_store(frame, changelog=uri, store="numbers", key=["half"], path="driver")
    (commit,) = commits(uri, "numbers")
    assert len(commit.files) == 3
    # Of the two rows with one key the later one wins, wherever the pieces were cut.
    assert contents(uri, "numbers") == {(i,): {"half": i, "id": 2 * i + 1} for i in range(300_000)}


@pytest.mark.parametrize("path", PATHS)
def test_a_thousand_columns_and_values_of_a_megabyte(spark: SparkSession, uri: str, path: str) -> None:
    wide = spark.range(20).select(
        "id", *((F.col("id") * number).alias(f"c{number}") for number in range(999))
    )
    write_store(wide, changelog=uri, store="wide", key=["id"], path=path)
    assert contents(uri, "wide") == {
        (i,): {"id": i, **{f"c{number}": i * number for number in range(999)}} for i in range(20)
    }
    large = spark.range(6).selectExpr(
        "id",
        f"repeat(cast(id AS STRING), {1 << 20}) AS text",
        f"cast(repeat('b', {1 << 20}) AS BINARY) AS bytes",
    )
    write_store(large, changelog=uri, store="large", key=["id"], path=path)
    assert contents(uri, "large") == {
        (i,): {"id": i, "text": str(i) * (1 << 20), "bytes": b"b" * (1 << 20)} for i in range(6)
    }


@pytest.mark.parametrize("path", PATHS)
def test_a_struct_is_null_whose_fields_are_not(spark: SparkSession, uri: str, path: str) -> None:
    some = "if(id = 1, named_struct('x', 1, 'names', array('a')), NULL)"
    frame = spark.range(2).selectExpr(
        "id", f"{some} AS `a.b`", f"array({some}) AS listed", f"map('k', struct(id, {some} AS s)) AS mapped"
    )
    write_store(frame, changelog=uri, store="structs", key=["id"], path=path)
    found = {"x": 1, "names": ["a"]}
    assert contents(uri, "structs") == {
        (i,): {"id": i, "a.b": value, "listed": [value], "mapped": [("k", {"id": i, "s": value})]}
        for i, value in enumerate([None, found])
    }


def test_executors_find_a_changelog_with_a_relative_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_store(spark.range(3), changelog="here", store="numbers", key=["id"], path="executors")
    assert len(contents((tmp_path / "here").as_uri(), "numbers")) == 3


def test_executors_that_see_another_directory_are_told_so(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where a path leads to a disk of each machine's own."""
    elsewhere = Changelog.open(str(tmp_path / "elsewhere"))
    for there in ("no changelog", "another changelog"):
        monkeypatch.setattr(Changelog, "__reduce__", lambda _: (Changelog.open, (elsewhere.uri,)))
        with pytest.raises(InvalidInput, match=f"An executor finds {there} at .*elsewhere: driver and exec"):
            write_store(
                spark.range(3),
                changelog=str(tmp_path / "here"),
                store="numbers",
                key=["id"],
                path="executors",
            )
        assert commits(str(tmp_path / "here"), "numbers") == []
        elsewhere.create_store(define_store("numbers", pa.schema([("id", pa.int64())]), ["id"]))


def test_mismatch_shows_both_definitions(spark: SparkSession, uri: str) -> None:
    write_store(spark.range(5), changelog=uri, store="numbers", key=["id"])
    with pytest.raises(
        InvalidInput, match=r"numbers \(id BIGINT\) .* PARTITIONS 8 .*numbers \(id BIGINT\) .* PARTITIONS 16 "
    ):
        write_store(spark.range(5), changelog=uri, store="numbers", key=["id"], partitions=16)


def test_every_kind_of_store_is_written(spark: SparkSession, uri: str) -> None:
    events = spark.sql(
        "SELECT * FROM VALUES ('a', TIMESTAMP'2026-01-01 00:00:00Z', 1), ('a', TIMESTAMP'2026-01-01 "
        "00:05:00Z', 2) AS t(k, at, n)"
    )
    merge = merged.columns(total=merged.sum("n"))
    write_store(
        events, changelog=uri, store="totals", key=["k"], kind=merge, in_memory=True, retention="1 day"
    )
    assert contents(uri, "totals") == {("a",): {"k": "a", "total": 3}}
    write_store(
        events,
        changelog=uri,
        store="sessions",
        key=["k"],
        kind=Session(600_000_000, merge.columns),
        time="at",
        is_global=True,
    )
    (session,) = contents(uri, "sessions").values()
    assert session["total"] == 3
    write_store(events, changelog=uri, store="history", key=["k"], kind=Versioned("at"))
    assert len(contents(uri, "history")) == 2
    windows = events.withColumn("window", F.window("at", "1 minute"))
    passed = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)
    write_store(
        windows,
        changelog=uri,
        store="windows",
        key=["k"],
        window="window",
        retention="1 day",
        watermark=passed,
    )
    (commit,) = commits(uri, "windows")
    assert commit.cutoffs == {"windows": int(dt.datetime(2026, 1, 1, tzinfo=dt.UTC).timestamp()) * 1_000_000}
    stores = Changelog.open(uri).definitions()
    day = 86_400_000_000
    assert stores[StoreName("totals")].behaviour == Behaviour(merge, Retention(day), in_memory=True)
    assert stores[StoreName("sessions")].behaviour.is_global
    assert stores[StoreName("windows")].behaviour == Behaviour(retention=Retention(day, "window_end"))


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ({"retention": "0 days"}, "a retention must be longer than nothing"),
        ({"retention": dt.timedelta(days=-1)}, "a retention must be longer than nothing"),
        ({"retention": "-1 days"}, "'-1 days' is no length of time"),
        ({"retention": dt.timedelta.max}, "a retention must not be longer than 1,000 years"),
        ({"kind": Session(0), "time": "at"}, "the gap between sessions must be longer than nothing"),
        ({"kind": Session(1.8e9), "time": "at"}, "is a whole number of microseconds, not 1800000000.0"),  # type: ignore[arg-type]
        ({"kind": Session(1)}, "say with time= which column has the time of the events"),
        ({"kind": merged.columns()}, "a merge store needs at least one merged column"),
        ({"kind": {"n": merged.count()}}, "the kind must be a KeyValue, Merge, Session or Versioned"),
        ({"is_global": "false"}, "is_global must be True or False, and not 'false'"),
        ({"in_memory": "no"}, "in_memory must be True or False"),
        ({"is_partial": 1, "kind": merged.columns(n=merged.count())}, "is_partial must be True or False"),
        ({"aggregate_first": None, "kind": merged.columns(n=merged.count())}, "aggregate_first must be True"),
        ({"query": "SELECT 1"}, "the query must be a function that takes a batch"),
        ({"time": "at"}, "time would have no effect, being for session stores"),
        ({"time": "at", "kind": Versioned("at")}, "time would have no effect, being for session stores"),
        ({"is_partial": True}, "is_partial would have no effect, being for stores that merge"),
        ({"aggregate_first": False, "kind": Versioned("at")}, "aggregate_first would have no effect"),
        ({"partition_by": "k"}, "partition_by must be a list of column names"),
        ({"kind": merged.columns(q=merged.quantiles("n", 1.5))}, "the quantiles of q need ranks from 0 to 1"),
        (
            {"kind": merged.columns(q=merged.quantiles("n", -0.5))},
            "the quantiles of q need ranks from 0 to 1",
        ),
        (
            {"kind": merged.columns(q=merged.quantiles("n", float("nan")))},
            "the quantiles of q need ranks from 0 to 1",
        ),
        ({"kind": merged.columns(q=merged.quantiles("n"))}, "the quantiles of q need ranks from 0 to 1"),
    ],
)
def test_settings_that_make_no_sense_are_refused_where_they_are_given(
    output: dict[str, Any], words: str
) -> None:
    with pytest.raises(InvalidInput, match=words):
        StoreOutput("numbers", ["k"], **output)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("count", "The merged column n must be made by one of the functions of merged"),
        (merged.count, "The merged column n must be made by one of the functions of merged"),
        (merged.sum(F.col), "The merged column n takes the name of a column"),  # type: ignore[arg-type]
        (merged.last("v", by=1), "The merged column n takes the name of a column"),  # type: ignore[arg-type]
        (merged.quantiles("v", [0.5, 0.9]), "The ranks of the merged column n are numbers"),  # type: ignore[arg-type]
    ],
)
def test_merged_columns_that_make_no_sense_are_refused(column: Any, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        merged.columns(n=column)


def test_a_stream_is_no_batch_and_leaves_no_store(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInput, match="this one is a stream: write it with foreachBatch"):
        write_store(spark.readStream.format("rate").load(), changelog=uri, store="rate", key=["value"])
    assert Changelog.open(uri).definitions() == {}


def test_a_store_that_merges_is_written_by_a_sink_in_a_stream(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path / "numbers", "id BIGINT")
    stream.add([{"id": 1}])

    def write(batch: DataFrame, _: int) -> None:
        write_store(batch, changelog=uri, store="plain", key=["id"])
        write_store(
            batch, changelog=uri, store="counts", key=["id"], kind=merged.columns(times=merged.count())
        )

    with pytest.raises(StreamingQueryException, match="Store counts merges what comes"):
        drain(stream.frame(), write, tmp_path / "checkpoint", "append")
    assert contents(uri, "plain") == {(1,): {"id": 1}}
    assert [*Changelog.open(uri).definitions()] == ["plain"]


def test_whether_to_take_over_is_no_text(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInput, match="take_over must be True or False, and not 'no'"):
        write_store(spark.range(3), changelog=uri, store="numbers", key=["id"], take_over="no")  # type: ignore[arg-type]


def test_a_watermark_that_would_have_no_effect_is_refused(spark: SparkSession, uri: str) -> None:
    for retention in (None, "1 day"):
        with pytest.raises(InvalidInput, match="store numbers lets no rows go by the time of an event"):
            write_store(
                spark.range(3),
                changelog=uri,
                store="numbers",
                key=["id"],
                retention=retention,
                watermark=dt.datetime(2026, 1, 2, tzinfo=dt.UTC),
            )
    assert not Changelog.open(uri).definitions()


def test_a_query_returns_a_frame(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInput, match="the query must return a frame, and it returned 3"):
        write_store(
            spark.range(3),
            changelog=uri,
            store="numbers",
            key=["id"],
            query=lambda batch: batch.count(),  # type: ignore[arg-type,return-value]
        )


def test_a_tombstone_column_of_another_type_leaves_no_store(spark: SparkSession, uri: str) -> None:
    with pytest.raises(InvalidInput, match="the tombstone column id must be BOOLEAN, not BIGINT"):
        write_store(
            spark.range(3).withColumn("k", F.col("id")),
            changelog=uri,
            store="numbers",
            key=["k"],
            tombstone_column="id",
        )
    assert Changelog.open(uri).definition(StoreName("numbers")) is None


@pytest.mark.parametrize("path", PATHS)
def test_null_key(spark: SparkSession, uri: str, path: str) -> None:
    frame = spark.range(5).selectExpr("nullif(id, 3) AS id")
    with pytest.raises(InvalidInput, match="Store numbers, the batch: the key column id is null in 1 of "):
        write_store(frame, changelog=uri, store="numbers", key=["id"], path=path)
    assert commits(uri, "numbers") == []


class TestPathChooser:
    def test_a_plan_of_known_size_decides_at_first(self, spark: SparkSession) -> None:
        small, large = spark.range(1000), spark.range(10**9)
        chooser = PathChooser("auto", 1 << 20, TransferPath.DRIVER)
        assert chooser.choose([small]) is TransferPath.DRIVER
        assert chooser.choose([small, large]) is TransferPath.EXECUTORS

    def test_the_batch_before_decides_afterwards(self, spark: SparkSession) -> None:
        chooser = PathChooser("auto", 1 << 20, TransferPath.DRIVER)
        chooser.note_size(2 << 20)
        assert chooser.choose([spark.range(10)]) is TransferPath.EXECUTORS
        chooser.note_size(1 << 20)
        assert chooser.choose([spark.range(10**9)]) is TransferPath.DRIVER

    def test_a_frame_of_spark_connect_tells_no_size(self) -> None:
        assert planned_bytes(cast("DataFrame", object())) is None

    def test_an_asked_for_path_stays(self, spark: SparkSession) -> None:
        chooser = PathChooser("executors", 1 << 40, TransferPath.DRIVER)
        chooser.note_size(1)
        assert chooser.choose([spark.range(1)]) is TransferPath.EXECUTORS
        assert not chooser.may_change

    @pytest.mark.parametrize("unknown", [TransferPath.DRIVER, TransferPath.EXECUTORS])
    def test_what_nothing_is_known_of(self, spark: SparkSession, unknown: TransferPath) -> None:
        frame = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id BIGINT")
        assert planned_bytes(frame) is None
        assert PathChooser("auto", 1 << 20, unknown).choose([frame]) is unknown
