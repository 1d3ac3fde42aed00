"""The sink end to end: real queries, and what is in the changelog afterwards."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import cast

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.partitioning import partition_of
from engine.model.schema import GroupName, StoreName
from spark_pipeline import LiveStateSink, StoreOutput, merged
from spark_pipeline.outputs import StoreSettings
from tests.spark.streams import PATHS, FileStream, Row, commits, contents, drain, sort_by_key, start

PLAYS = "song STRING, genre STRING, user BIGINT, seconds INT"


@pytest.fixture
def plays(spark: SparkSession, tmp_path: Path) -> FileStream:
    """Three batches of plays: 60 rows, some songs in all of them."""
    stream = FileStream(spark, tmp_path / "plays", PLAYS)
    for batch in range(3):
        stream.add(
            [
                {
                    "song": f"song-{(7 * i + batch) % 11}",
                    "genre": f"g{i % 2}",
                    "user": 100 * batch + i,
                    "seconds": i,
                }
                for i in range(20)
            ]
        )
    return stream


def _all(stream: FileStream) -> list[Row]:
    return [row for batch in stream.added for row in batch]


@pytest.mark.parametrize("path", PATHS)
def test_append_upserts_by_key(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    sink = LiveStateSink(changelog=uri, store="plays", key=["song"], partitions=3, mode="append", path=path)
    drain(plays.frame(), sink, tmp_path / "checkpoint", "append")
    assert contents(uri, "plays") == sort_by_key(_all(plays), "song")
    assert [(commit.batch_id, commit.rows) for commit in commits(uri, "plays")] == [(0, 20), (1, 20), (2, 20)]


@pytest.mark.parametrize("path", PATHS)
def test_update_keeps_the_newest_aggregate(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    counts = plays.frame().groupBy("song").agg(F.count("*").alias("count"), F.sum("seconds").alias("seconds"))
    drain(
        counts, LiveStateSink(changelog=uri, store="counts", key=["song"], path=path), tmp_path / "checkpoint"
    )
    expected = Counter(row["song"] for row in _all(plays))
    seconds = Counter[str]()
    for row in _all(plays):
        seconds[row["song"]] += row["seconds"]
    assert contents(uri, "counts") == sort_by_key(
        [{"song": s, "count": n, "seconds": seconds[s]} for s, n in expected.items()], "song"
    )


@pytest.mark.parametrize("path", PATHS)
def test_complete_replaces_everything(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    # A song that falls out of the result falls out of the store.
    rare = plays.frame().groupBy("song").count().where("count < 6")
    drain(
        rare,
        LiveStateSink(changelog=uri, store="rare", key=["song"], mode="complete", path=path),
        tmp_path / "checkpoint",
        "complete",
    )
    counts = Counter(row["song"] for row in _all(plays))
    expected = {song: n for song, n in counts.items() if n < 6}
    assert 0 < len(expected) < len(counts)
    assert contents(uri, "rare") == sort_by_key(
        [{"song": s, "count": n} for s, n in expected.items()], "song"
    )
    assert all(commit.replaced == ("rare",) for commit in commits(uri, "rare"))


@pytest.mark.parametrize("path", PATHS)
def test_several_stores_share_their_epochs(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    def group_by_genre(batch: DataFrame) -> DataFrame:
        return batch.groupBy("genre", "song").agg(F.max("seconds").alias("longest"))

    stores = [
        StoreOutput("plays", key=["user"]),
        StoreOutput(
            "longest",
            key=["genre", "song"],
            partition_by=["genre"],
            partitions=2,
            query=group_by_genre,
            mode="complete",
        ),
    ]
    computed = plays.spark.sparkContext.accumulator(0)

    def count_call(user: int) -> int:
        computed.add(1)
        return user

    frame = plays.frame().withColumn("user", F.udf(count_call, "bigint", useArrow=False)("user"))
    drain(
        frame,
        LiveStateSink(changelog=uri, group="charts", stores=stores, path=path),
        tmp_path / "checkpoint",
        "append",
    )
    assert contents(uri, "plays") == sort_by_key(_all(plays), "user")
    longest: dict[tuple[str, str], int] = {}
    for row in plays.added[-1]:
        place = (row["genre"], row["song"])
        longest[place] = max(longest.get(place, 0), row["seconds"])
    assert contents(uri, "longest") == sort_by_key(
        [{"genre": g, "song": s, "longest": n} for (g, s), n in longest.items()], "genre", "song"
    )
    assert [commit.stores for commit in commits(uri, "charts")] == [{"plays", "longest"}] * 3
    assert computed.value == len(_all(plays)), "a batch was computed more than once"


@pytest.mark.parametrize("stores", [["plays"], ["plays", "s.1"]])
@pytest.mark.parametrize("names", [("song", "genre", "user", "seconds"), ("a.b", "a`b", "*", " ")])
def test_both_paths_store_the_same_bytes(
    plays: FileStream, tmp_path: Path, names: Sequence[str], stores: Sequence[str]
) -> None:
    frame = (
        plays.frame()
        .withColumn("at", F.timestamp_seconds("seconds"))
        .withColumn("tags", F.array("genre", F.lit(None)))
        .toDF(*names, "at", "tags")
    )
    outputs = [StoreOutput(store, key=[names[2]]) for store in stores]
    found = {}
    for path in PATHS:
        uri = (tmp_path / path).as_uri()
        drain(
            frame,
            LiveStateSink(changelog=uri, group="plays", stores=outputs, path=path),
            tmp_path / f"checkpoint-{path}",
            "append",
        )
        changelog = Changelog.open(uri)
        found[path] = [
            changelog.read_rows(commit, changelog.definitions()) for commit in commits(uri, "plays")
        ]
    for driver, executors in zip(*found.values(), strict=True):
        assert {store for store, _ in driver} == {*stores}
        assert driver.keys() == executors.keys()
        assert all(batch.equals(executors[place]) for place, batch in driver.items())


def test_partition_by_places_rows_by_a_part_of_the_key(plays: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(
        changelog=uri, store="plays", key=["genre", "user"], partition_by=["genre"], partitions=64
    )
    drain(plays.frame(), sink, tmp_path / "checkpoint", "append")
    definition = Changelog.open(uri).definition(StoreName("plays"))
    assert definition is not None
    assert definition.partition_by == ("genre",)
    used = {
        part.partition for commit in commits(uri, "plays") for file in commit.files for part in file.slices
    }
    genres = plays.spark.createDataFrame([("g0",), ("g1",)], "genre STRING").toArrow().column("genre")
    assert used == set(partition_of([genres], 64).tolist())
    assert contents(uri, "plays") == sort_by_key(_all(plays), "genre", "user")


@pytest.mark.parametrize("path", PATHS)
def test_tombstones_remove_rows(spark: SparkSession, uri: str, tmp_path: Path, path: str) -> None:
    stream = FileStream(spark, tmp_path / "songs", "gone BOOLEAN, song BIGINT, title STRING")
    stream.add([{"song": i, "title": f"t{i}"} for i in range(5)])
    stream.add(
        [{"song": 1, "gone": True}, {"song": 2, "title": "new", "gone": False}, {"song": 9, "gone": True}]
    )
    sink = LiveStateSink(changelog=uri, store="songs", key=["song"], tombstone_column="gone", path=path)
    drain(stream.frame(), sink, tmp_path / "checkpoint", "append")
    titles = {0: "t0", 2: "new", 3: "t3", 4: "t4"}
    assert contents(uri, "songs") == sort_by_key([{"song": s, "title": t} for s, t in titles.items()], "song")


def test_window_columns_stay_structs(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path / "events", "at TIMESTAMP, genre STRING")
    stream.add([{"at": "2024-01-01T10:00:01Z", "genre": "a"}, {"at": "2024-01-01T10:07:00Z", "genre": "a"}])
    counts = (
        stream.frame()
        .groupBy(F.window("at", "5 minutes"), "genre")
        .count()
        .withColumn("start", F.col("window.start"))
    )
    drain(
        counts, LiveStateSink(changelog=uri, store="windows", key=["genre", "start"]), tmp_path / "checkpoint"
    )
    rows = contents(uri, "windows")
    assert len(rows) == 2
    assert all(row["window"]["start"] == row["start"] < row["window"]["end"] for row in rows.values())


@pytest.mark.parametrize("path", PATHS)
def test_an_empty_batch_is_an_epoch_without_rows(
    spark: SparkSession, uri: str, tmp_path: Path, path: str
) -> None:
    stream = FileStream(spark, tmp_path / "plays", PLAYS)
    stream.add([])
    stream.add([{"song": "a", "user": 1}])
    stream.add([])
    drain(
        stream.frame(),
        LiveStateSink(changelog=uri, store="plays", key=["song"], path=path),
        tmp_path / "checkpoint",
        "append",
    )
    assert [commit.rows for commit in commits(uri, "plays")] == [0, 1, 0]
    assert len(contents(uri, "plays")) == 1


def test_a_batch_too_big_for_the_driver_goes_from_the_executors(
    spark: SparkSession, uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = FileStream(spark, tmp_path / "numbers", "number BIGINT")
    stream.add([{"number": i} for i in range(1000)])
    # 50 MB, more than maxResultSize, of which the plan says nothing.
    many = (
        stream.frame()
        .withColumn("copy", F.explode(F.sequence(F.lit(0), F.lit(499))))
        .withColumn("text", F.repeat(F.lit("x"), 100))
    )
    sink = LiveStateSink(changelog=uri, store="numbers", key=["number", "copy"])
    with caplog.at_level(logging.WARNING, "spark_pipeline"):
        drain(many, sink, tmp_path / "checkpoint", "append")
    assert [commit.rows for commit in commits(uri, "numbers")] == [500_000]
    assert "from the executors instead" in caplog.text


class TestRefusals:
    """Errors reach the user whole, and nothing of the batch is committed."""

    @staticmethod
    def _failure(frame: DataFrame, sink: LiveStateSink, checkpoint: Path) -> str:
        with pytest.raises(StreamingQueryException) as caught:
            drain(frame, sink, checkpoint, "append")
        return str(caught.value)

    @pytest.mark.parametrize("path", PATHS)
    def test_null_key(self, plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
        plays.add([{"song": "a", "user": 1}, {"song": None, "user": 2}])
        sink = LiveStateSink(changelog=uri, store="plays", key=["song"], path=path)
        failure = self._failure(plays.frame(), sink, tmp_path / "checkpoint")
        assert "engine.errors.InvalidInput: Store plays, batch 3: the key column song is null" in failure
        assert "Nothing of the batch was committed." in failure
        assert [commit.batch_id for commit in commits(uri, "plays")] == [0, 1, 2]
        assert contents(uri, "plays") == sort_by_key(
            [row for batch in plays.added[:3] for row in batch], "song"
        )

    @pytest.mark.parametrize("path", PATHS)
    def test_null_key_in_one_of_several_stores(
        self, plays: FileStream, uri: str, tmp_path: Path, path: str
    ) -> None:
        stores = [
            StoreOutput("plays", key=["user"]),
            StoreOutput("songs", key=["song"], query=lambda batch: batch.select("song", "genre")),
        ]
        plays.add([{"song": None, "user": 1000}])
        sink = LiveStateSink(changelog=uri, group="charts", stores=stores, path=path)
        failure = self._failure(plays.frame(), sink, tmp_path / "checkpoint")
        assert "Store songs, batch 3: the key column song is null in 1 of 1 rows" in failure
        assert (1000,) not in contents(uri, "plays")
        assert [commit.batch_id for commit in commits(uri, "charts")] == [0, 1, 2]

    def test_schema_mismatch_shows_both(self, plays: FileStream, uri: str, tmp_path: Path) -> None:
        drain(
            plays.frame(),
            LiveStateSink(changelog=uri, store="plays", key=["song"]),
            tmp_path / "checkpoint",
            "append",
        )
        before = Changelog.open(uri).newest_epoch(GroupName("plays"))
        other = plays.frame().withColumn("user", F.col("user").cast("string"))
        failure = self._failure(
            other, LiveStateSink(changelog=uri, store="plays", key=["song"]), tmp_path / "other"
        )
        assert "engine.errors.InvalidInput: Store plays exists and differs." in failure
        assert "user BIGINT" in failure
        assert "user VARCHAR" in failure
        # Not even a fence: the query that fits the store would be stopped by it.
        assert Changelog.open(uri).newest_epoch(GroupName("plays")) == before

    def test_types_that_stores_do_not_hold(self, plays: FileStream, uri: str, tmp_path: Path) -> None:
        frame = plays.frame().withColumn("late", F.expr("make_dt_interval(1)"))
        failure = self._failure(
            frame, LiveStateSink(changelog=uri, store="plays", key=["song"]), tmp_path / "checkpoint"
        )
        assert (
            "InvalidInput: Store plays, column late: Spark's type interval day to second is not a value type "
            "of a store" in failure
        )

    def test_a_key_that_is_not_told_apart_by_its_bytes(
        self, plays: FileStream, uri: str, tmp_path: Path
    ) -> None:
        frame = plays.frame().withColumn("song", F.collate("song", "UTF8_LCASE"))
        failure = self._failure(
            frame, LiveStateSink(changelog=uri, store="plays", key=["song"]), tmp_path / "checkpoint"
        )
        assert "InvalidInput: Store plays: the key column song has the collation UTF8_LCASE" in failure

    def test_duplicate_column(self, plays: FileStream, uri: str, tmp_path: Path) -> None:
        frame = plays.frame().select("song", "user", F.col("seconds").alias("USER"))
        failure = self._failure(
            frame, LiveStateSink(changelog=uri, store="plays", key=["song"]), tmp_path / "checkpoint"
        )
        assert "InvalidInput: Store plays: the column USER is there twice" in failure

    def test_missing_tombstone_column(self, plays: FileStream, uri: str, tmp_path: Path) -> None:
        sink = LiveStateSink(changelog=uri, store="plays", key=["song"], tombstone_column="gone")
        failure = self._failure(plays.frame(), sink, tmp_path / "checkpoint")
        assert (
            "the tombstone column gone is not exactly one of the columns song, genre, user, seconds"
            in failure
        )

    def test_the_querys_own_failure(self, plays: FileStream, uri: str, tmp_path: Path) -> None:
        broken = plays.frame().withColumn(
            "seconds", F.expr("assert_true(user < 0, 'users are negative')").cast("int")
        )
        failure = self._failure(
            broken, LiveStateSink(changelog=uri, store="plays", key=["song"]), tmp_path / "checkpoint"
        )
        assert "users are negative" in failure
        assert commits(uri, "plays") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "needs either a store with its key, or stores"),
        (
            {"store": "a", "key": ["k"], "stores": [StoreOutput("b", ["k"])]},
            "needs either a store with its key, or stores",
        ),
        ({"stores": [StoreOutput("a", ["k"]), StoreOutput("b", ["k"])]}, "name their group"),
        ({"stores": [StoreOutput("a", ["k"])] * 2, "group": "g"}, "writes a store twice"),
        (
            {"stores": [StoreOutput("a", ["k"])], "key": ["k"], "partitions": 3},
            "give key, partitions to its StoreOutput",
        ),
        (
            {"store": "a", "key": "id", "kind": merged.columns(n=merged.count())},
            "Store a: the key must be a list of at least one column name",
        ),
        ({"store": "a", "key": "id", "window": "w"}, "Store a: the key must be a list of at least one"),
        ({"store": "a", "key": ["k"], "mode": "upsert"}, "mode 'upsert' is none of append, update, complete"),
        ({"store": "a", "key": ["k"], "path": "fast"}, "The path 'fast' is none of auto, driver, executors"),
        (
            {"store": "a", "key": ["k"], "driver_bytes": "128MB"},
            "driver_bytes must be a whole number of bytes",
        ),
        ({"store": "a", "key": ["k"], "driver_bytes": -1}, "driver_bytes must be a whole number of bytes"),
        ({"store": "a", "key": None}, "Store a: the key must be a list of at least one column name"),
        ({"stores": StoreOutput("a", ["k"])}, r"write stores=\[StoreOutput"),
        ({"stores": ["a"]}, r"write stores=\[StoreOutput"),
        ({"store": "a", "key": ["k"], "changelog": "ftp://host/x"}, "ftp"),
    ],
)
def test_arguments_are_checked_before_the_query_starts(
    uri: str, arguments: dict[str, object], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        LiveStateSink(**{"changelog": uri, **arguments})  # type: ignore[arg-type]


def test_a_sink_is_for_streams(plays: FileStream, uri: str) -> None:
    frame = plays.spark.createDataFrame([("a", 1)], "song STRING, user BIGINT")
    with pytest.raises(InvalidInput, match="use write_store"):
        LiveStateSink(changelog=uri, store="plays", key=["song"])(frame, 0)


def test_spark_connect_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput, match="does not run with Spark Connect"):
        LiveStateSink(changelog=uri, store="plays", key=["song"])(cast("DataFrame", object()), 0)


def test_a_sink_belongs_to_the_query_that_started_last(plays: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(changelog=uri, store="plays", key=["song"])
    first = start(plays.frame(), sink, tmp_path / "first", "append")
    try:
        first.processAllAvailable()
        drain(plays.frame(), sink, tmp_path / "second", "append")
        plays.add([{"song": "late", "user": 1}])
        with pytest.raises(
            StreamingQueryException, match="Another streaming query uses the sink of store group plays"
        ):
            first.processAllAvailable()
    finally:
        first.stop()
    drain(plays.frame(), sink, tmp_path / "second", "append")
    assert [commit.batch_id for commit in commits(uri, "plays")] == [0, 1, 2, 0, 1, 2, 3]


def test_settings_are_the_attributes_of_an_output() -> None:
    assert [*StoreSettings.__annotations__] == [
        each.name for each in fields(StoreOutput) if each.name not in ("store", "key")
    ]
