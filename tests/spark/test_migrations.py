"""Jobs of old and new columns, and migrations of their store in between."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.migration import parse_changes
from engine.model.schema import GroupName, StoreName
from spark_pipeline import LiveStateSink, write_store
from tests.spark.streams import PATHS, FileStream, commits, contents, drain, sort_by_key, start

PLAYS = StoreName("plays")
GROUP = GroupName("plays")


@pytest.fixture
def plays(spark: SparkSession, tmp_path: Path) -> FileStream:
    """One batch of plays, to begin with."""
    stream = FileStream(spark, tmp_path / "plays", "song STRING, seconds INT, genre STRING")
    add(stream, 0)
    return stream


def add(stream: FileStream, batch: int) -> None:
    """Add a batch of two songs, of which one comes again and again."""
    stream.add([{"song": song, "seconds": batch, "genre": f"g{batch}"} for song in (f"s{batch}", "again")])


def migrate(uri: str, **changes: list[str]) -> None:
    Changelog.open(uri).migrate_store(PLAYS, parse_changes(**changes))


@pytest.mark.parametrize("path", PATHS)
def test_a_job_of_old_columns_goes_on(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    def sink() -> LiveStateSink:
        return LiveStateSink(changelog=uri, store="plays", key=["song"], partitions=2, path=path)

    checkpoint = tmp_path / "checkpoint"
    query = start(plays.frame(), sink(), checkpoint)
    try:
        query.processAllAvailable()
        migrate(uri, add=["rating DOUBLE DEFAULT 0.5"], widen=["seconds=BIGINT"])
        add(plays, 1)
        query.processAllAvailable()
        migrate(uri, rename=["song=title"], drop=["genre"])
        add(plays, 2)
        query.processAllAvailable()
    finally:
        query.stop()
    add(plays, 3)
    drain(plays.frame(), sink(), checkpoint)
    rows = [
        {"title": row["song"], "seconds": row["seconds"], "rating": 0.5}
        for batch in plays.added
        for row in batch
    ]
    assert contents(uri, "plays") == sort_by_key(rows, "title")
    assert [(commit.batch_id, commit.generation) for commit in commits(uri, "plays")] == [
        (0, 0),
        (1, 1),
        (2, 2),
        (3, 2),
    ]


@pytest.mark.parametrize("path", PATHS)
def test_a_job_gets_new_columns(plays: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    """Refused before its store is migrated, with the command that does it; then it goes on where the old one
    ended.
    """

    def sink() -> LiveStateSink:
        return LiveStateSink(changelog=uri, store="plays", key=["song"], partitions=2, path=path)

    def rated_frame() -> DataFrame:
        return plays.frame().select(
            "song", F.lit(4.0).alias("rating"), F.col("seconds").cast("bigint").alias("seconds"), "genre"
        )

    checkpoint = tmp_path / "checkpoint"
    drain(plays.frame(), sink(), checkpoint)
    add(plays, 1)
    with pytest.raises(StreamingQueryException) as refused:
        drain(rated_frame(), sink(), checkpoint)
    message = str(refused.value)
    assert "It is: plays (song VARCHAR, seconds INTEGER, genre VARCHAR) KEY (song)" in message
    assert (
        "Asked for: plays (song VARCHAR, rating DOUBLE, seconds BIGINT, genre VARCHAR) KEY (song)" in message
    )
    assert "`livestate migrate plays --widen seconds=BIGINT --add 'rating DOUBLE'`" in message
    migrate(uri, add=["rating DOUBLE"], widen=["seconds=BIGINT"])
    drain(rated_frame(), sink(), checkpoint)
    old, new = (
        [{**row, "rating": rating} for row in batch]
        for batch, rating in zip(plays.added, (None, 4.0), strict=True)
    )
    assert contents(uri, "plays") == sort_by_key([*old, *new], "song")
    assert [(commit.batch_id, commit.generation) for commit in commits(uri, "plays")] == [(0, 0), (1, 1)]


def test_a_job_goes_on_though_a_name_has_become_another_column_s(
    plays: FileStream, uri: str, tmp_path: Path
) -> None:
    def write(checkpoint: str) -> None:
        sink = LiveStateSink(changelog=uri, store="plays", key=["song"])
        drain(plays.frame(), sink, tmp_path / checkpoint)

    write("checkpoint")
    migrate(uri, rename=["genre=kind"])
    migrate(uri, add=["genre VARCHAR"])
    add(plays, 1)
    write("checkpoint")
    rows = [
        {"song": row["song"], "seconds": row["seconds"], "kind": row["genre"], "genre": None}
        for batch in plays.added
        for row in batch
    ]
    assert contents(uri, "plays") == sort_by_key(rows, "song")
    with pytest.raises(StreamingQueryException, match="genre is another column now: write the columns of"):
        write("another")
    with pytest.raises(InvalidInput, match="genre is another column now"):
        write_store(
            plays.spark.createDataFrame([("a", 1, "g")], plays.schema),
            changelog=uri,
            store="plays",
            key=["song"],
            take_over=True,
        )


def test_a_batch_write_of_old_and_of_strange_columns(spark: SparkSession, uri: str) -> None:
    old = spark.createDataFrame([("a", 1)], "song STRING, seconds INT")
    write_store(old, changelog=uri, store="plays", key=["song"])
    migrate(uri, add=["rating DOUBLE"])
    write_store(old.withColumn("seconds", F.lit(2)), changelog=uri, store="plays", key=["song"])
    write_store(
        old.select(F.lit("b").alias("song"), "seconds", F.lit(1.0).alias("rating")),
        changelog=uri,
        store="plays",
        key=["song"],
    )
    assert contents(uri, "plays") == sort_by_key(
        [{"song": "a", "seconds": 2, "rating": None}, {"song": "b", "seconds": 1, "rating": 1.0}], "song"
    )
    before = Changelog.open(uri).newest_epoch(GROUP)
    with pytest.raises(
        InvalidInput, match=r"It is: plays \(song VARCHAR, seconds INTEGER, rating DOUBLE\).* --drop seconds`"
    ):
        write_store(
            old.select("song", F.lit(1.0).alias("rating")), changelog=uri, store="plays", key=["song"]
        )
    assert Changelog.open(uri).newest_epoch(GROUP) == before, (
        "the job that fits must not be stopped by one that does not"
    )
