"""Batch writes: the same code, one epoch a call."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import InvalidInput
from spark_pipeline import write_store
from spark_pipeline.transfer import PathChooser, TransferPath, planned_bytes
from tests.spark.streams import PATHS, by_key, commits, contents


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return (tmp_path / "changelog").as_uri()


@pytest.mark.parametrize("path", PATHS)
def test_each_write_is_an_epoch(spark: SparkSession, uri: str, path: str) -> None:
    frame = spark.range(0, 1000, 1, 3).selectExpr("id % 7 AS shard", "id", "cast(id AS STRING) AS text")
    first = write_store(frame, changelog=uri, store="numbers", key=["shard", "id"], partition_by=["shard"], partitions=4, path=path)
    changed = frame.where("id < 10").selectExpr("shard", "id", "'changed' AS text")
    second = write_store(changed, changelog=uri, store="numbers", key=["shard", "id"], partition_by=["shard"], partitions=4, path=path)
    assert first < second
    assert [commit.epoch for commit in commits(uri, "numbers")] == [first, second]
    rows = [{"shard": i % 7, "id": i, "text": "changed" if i < 10 else str(i)} for i in range(1000)]
    assert contents(uri, "numbers") == by_key(rows, "shard", "id")


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


def test_mismatch_shows_both_definitions(spark: SparkSession, uri: str) -> None:
    write_store(spark.range(5), changelog=uri, store="numbers", key=["id"])
    with pytest.raises(InvalidInput, match=r"numbers \(id BIGINT\) .* PARTITIONS 8 .*numbers \(id BIGINT\) .* PARTITIONS 16 "):
        write_store(spark.range(5), changelog=uri, store="numbers", key=["id"], partitions=16)


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
        chooser.saw(2 << 20)
        assert chooser.choose([spark.range(10)]) is TransferPath.EXECUTORS
        chooser.saw(1 << 20)
        assert chooser.choose([spark.range(10**9)]) is TransferPath.DRIVER

    def test_an_asked_for_path_stays(self, spark: SparkSession) -> None:
        chooser = PathChooser("executors", 1 << 40, TransferPath.DRIVER)
        chooser.saw(1)
        assert chooser.choose([spark.range(1)]) is TransferPath.EXECUTORS
        assert not chooser.may_change

    @pytest.mark.parametrize("unknown", [TransferPath.DRIVER, TransferPath.EXECUTORS])
    def test_what_nothing_is_known_of(self, spark: SparkSession, unknown: TransferPath) -> None:
        frame = spark.createDataFrame(spark.sparkContext.parallelize([(1,)]), "id BIGINT")
        assert planned_bytes(frame) is None
        assert PathChooser("auto", 1 << 20, unknown).choose([frame]) is unknown
