"""The ready-made pipelines: what their stores answer is what a plain recomputation over all events gives."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.errors import InvalidInput, Unavailable
from engine.model.schema import GroupName
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.feeding import FileFeed
from spark_pipeline.pipelines.music_charts import counted_plays
from spark_pipeline.pipelines.pipeline import Job, Pipeline, start_pipeline
from spark_pipeline.pipelines.running import failure_reason
from spark_pipeline.pipelines.sources import FileSource, RateSource
from spark_pipeline.pipelines.text_lookup import text_lookup
from tests.spark.recomputed import RECOMPUTED, check_answers
from tests.spark.streams import commits
from tests.support.answers import hosts_of, plain_rows, rows_of
from tests.support.waiting import wait_until

EVENTS = 20_000
BATCHES = 3


def run_to_the_end(spark: SparkSession, pipeline: Pipeline, job: Job) -> None:
    query = start_pipeline(spark, pipeline, job)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


@pytest.mark.parametrize("name", PIPELINES)
def test_answers_are_those_of_a_recomputation(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline, form = PIPELINES[name], ("parquet", "json")[len(name) % 2]
    feed = FileFeed(tmp_path / "events", form)
    events = {topic.name: topic.events(0, round(EVENTS * topic.share)) for topic in pipeline.topics}
    for topic in pipeline.topics:
        piece = -(-events[topic.name].num_rows // BATCHES)
        for start in range(0, events[topic.name].num_rows, piece):
            feed.write(topic, events[topic.name].slice(start, piece))
    uri = (tmp_path / "changelog").as_uri()
    source = FileSource(tmp_path / "events", form, files_per_batch=1)
    run_to_the_end(spark, pipeline, Job(source, uri, str(tmp_path / "checkpoint")))
    check_answers(pipeline, uri, events, tmp_path / "hosts")


@pytest.mark.parametrize("name", ["ev[1]{a,b}*?", "back\\slash", "blank %20#ü,^-!]"])
def test_a_directory_of_events_has_any_name(spark: SparkSession, tmp_path: Path, name: str) -> None:
    pipeline = PIPELINES["event_counts"]
    (topic,) = pipeline.topics
    FileFeed(tmp_path / name).write(topic, topic.events(0, 500))
    uri = (tmp_path / "changelog").as_uri()
    run_to_the_end(spark, pipeline, Job(FileSource(tmp_path / name), uri, str(tmp_path / "checkpoint")))
    with hosts_of(uri, tmp_path / "hosts") as cluster:
        assert rows_of(cluster, "SELECT sum(readings) AS n FROM sensor_readings") == [{"n": 500}]


def test_a_backlog_is_taken_in_batches_of_a_bounded_size(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = PIPELINES["event_counts"]
    (topic,) = pipeline.topics
    padded = topic.events(0, 20_000).append_column("padding", pa.array(["x" * 1_000] * 20_000))
    feed = FileFeed(tmp_path / "events")
    for start in (0, 10_000):
        # Uncompressed: 10 MB each.
        feed.write(topic, padded.slice(start, 10_000))
    uri = (tmp_path / "changelog").as_uri()
    source = FileSource(tmp_path / "events")
    run_to_the_end(spark, pipeline, Job(source, uri, str(tmp_path / "checkpoint")))
    assert [commit.batch_id for commit in commits(uri, pipeline.name)] == [0, 1]


def test_a_trade_without_an_account_is_no_quote(spark: SparkSession, tmp_path: Path) -> None:
    pipeline = PIPELINES["risk"]
    trades, quotes = pipeline.topics
    feed = FileFeed(tmp_path / "events")
    feed.write(quotes, quotes.events(0, 80))
    events = trades.events(0, 10)
    place = events.schema.get_field_index("account_id")
    feed.write(trades, events.set_column(place, "account_id", pa.nulls(10, pa.int64())))
    job = Job(FileSource(tmp_path / "events"), (tmp_path / "log").as_uri(), str(tmp_path / "checkpoint"))
    with pytest.raises(StreamingQueryException) as failed:
        run_to_the_end(spark, pipeline, job)
    assert failure_reason(failed.value).startswith(
        "Store positions, batch 0: the key column account_id is null"
    )


def test_why_a_job_fails_is_said_without_lines_of_java(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, uri = PIPELINES["event_counts"], (tmp_path / "changelog").as_uri()
    (tmp_path / "events" / "readings").mkdir(parents=True)
    damaged = tmp_path / "events" / "readings" / "damaged.parquet"
    damaged.write_text("damaged")
    source = FileSource(tmp_path / "events")
    with pytest.raises(StreamingQueryException) as failed:
        run_to_the_end(spark, pipeline, Job(source, uri, str(tmp_path / "checkpoint")))
    assert failure_reason(failed.value) == f"file:{damaged} is not a Parquet file (length is too low: 7)"
    with pytest.raises(Py4JJavaError) as refused:
        start_pipeline(spark, pipeline, Job(source, uri, str(damaged)))
    assert failure_reason(refused.value) == f"Destination exists and is not a directory: {damaged}"
    with pytest.raises(Unavailable, match="where events appear, cannot be made: Not a directory"):
        start_pipeline(spark, pipeline, Job(FileSource(damaged), uri, str(tmp_path / "other")))


def test_tables_that_are_damaged_are_named(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "players.parquet").write_text("damaged")
    job = Job(RateSource(), (tmp_path / "log").as_uri(), str(tmp_path / "checkpoint"), tables=tmp_path)
    with pytest.raises(InvalidInput, match=r"The file players\.parquet in the directory of tables cannot be"):
        start_pipeline(spark, PIPELINES["leaderboard"], job)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        (
            {"name": None},
            "needs the columns player_id BIGINT, name VARCHAR, country VARCHAR: name is not there",
        ),
        ({"player_id": pa.array(["1", "2"])}, "country VARCHAR: player_id is VARCHAR."),
        ({"name": pa.array([1, 2], pa.time64("us"))}, "country VARCHAR: name is TIME."),
        ({"player_id": [7, 7]}, "has a player_id twice: leave one row of each in it."),
    ],
)
def test_tables_of_other_columns_are_refused(
    spark: SparkSession, tmp_path: Path, columns: dict[str, Any], words: str
) -> None:
    table = {
        "player_id": [1, 2],
        "name": ["a", "b"],
        "country": ["Norway", "Kenya"],
        "age": [30, 40],
    } | columns
    kept = {name: values for name, values in table.items() if values is not None}
    pq.write_table(pa.table(kept), tmp_path / "players.parquet")
    uri = (tmp_path / "log").as_uri()
    job = Job(RateSource(), uri, str(tmp_path / "checkpoint"), tables=tmp_path)
    with pytest.raises(InvalidInput, match=re.escape(words)):
        start_pipeline(spark, PIPELINES["leaderboard"], job)
    assert not Changelog.open(uri).definitions()


def test_every_question_has_an_answer() -> None:
    """A comparison of nothing with nothing proves nothing."""
    for name, pipeline in PIPELINES.items():
        tables = {topic.name: topic.events(0, round(EVENTS * topic.share)) for topic in pipeline.topics}
        tables |= {reference.output.store: reference.make(1) for reference in pipeline.references}
        assert all(plain_rows(tables, sql) for sql in RECOMPUTED[name])


@pytest.mark.parametrize(
    "songs",
    [{1: "Rock", -7: 'Rhythm "n" \\ Blues', 300: "Fünk", 4: "Rock"}, {1: "Rock", 10**15: "Fünk"}],
    ids=["close together", "far apart"],
)
def test_plays_get_to_the_charts_without_a_shuffle(spark: SparkSession, songs: dict[int, str]) -> None:
    columns = "song_id bigint, user_id bigint, duration_seconds int, event_time timestamp"
    catalogue = spark.createDataFrame([*songs.items()], "song_id bigint, genre string")
    at = dt.datetime(2026, 1, 2, 3, 4, 5, 678901)  # noqa: DTZ001  the session's zone
    asked: list[tuple[int | None, int | None]]
    asked = [(song, seconds) for song in songs for seconds in (30, 29, 300)]
    asked += [(song, 40) for song in (5, 0, -8, 301, 2**63 - 1, -(2**63), None)] + [(1, None)]
    plays = spark.createDataFrame([(song, 1, seconds, at) for song, seconds in asked], columns)
    counted = counted_plays(plays, catalogue)
    expected = [(song, genre, at) for song, genre in songs.items() for _ in range(2)]
    assert sorted(map(tuple, counted.collect())) == sorted(expected)
    for frame in [counted, *(store.frame(counted) for store in PIPELINES["music_charts"].stores)]:
        plan = frame._jdf.queryExecution().executedPlan().toString()
        # The songs come to the plays, which stay where they are read.
        assert not re.search("(?<!Broadcast)Exchange|Aggregate|Sort|State", plan), plan
        assert ("Broadcast" in plan) == (max(songs) > 10**6), plan
    nobody = counted_plays(plays, catalogue.where("song_id = 0"))
    assert nobody.count() == 0


@pytest.mark.parametrize(
    "songs",
    [
        {"song_id": [1, 2], "genre": ["Rock", None]},
        {"song_id": [1, None], "genre": ["Rock", "Pop"]},
        {"song_id": [1, 1], "genre": ["Rock", "Pop"]},
        {"song_id": [0, 1 << 17], "genre": ["Rock", "Pop"]},
        {"song_id": [-(2**63), 2**63 - 1], "genre": ["Rock", "Pop"]},
        {"song_id": [*range(128)], "genre": [f"genre {i}" for i in range(128)]},
        {"song_id": [], "genre": []},
    ],
)
def test_what_bytes_cannot_say_is_joined(spark: SparkSession, songs: dict[str, list[Any]]) -> None:
    table = pa.table(songs, schema=pa.schema([("song_id", pa.int64()), ("genre", pa.string())]))
    assert text_lookup(F.col("song_id"), table["song_id"], table["genre"]) is None


def test_a_lookup_has_as_many_texts_as_it_takes(spark: SparkSession) -> None:
    numbers = [*range(1000, 1127), (1 << 17) + 999]
    table = pa.table({"number": numbers, "text": [f"text {i % 127}" for i in range(128)]})
    found = text_lookup(F.col("number"), table["number"], table["text"])
    assert found is not None
    assert spark.createDataFrame(table).select("number", found.alias("text")).toArrow().equals(table)


def test_a_question_about_one_key_goes_to_the_host_that_holds_it(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, uri = PIPELINES["event_counts"], (tmp_path / "changelog").as_uri()
    (topic,) = pipeline.topics
    FileFeed(tmp_path / "events").write(topic, topic.events(0, 2_000))
    run_to_the_end(spark, pipeline, Job(FileSource(tmp_path / "events"), uri, str(tmp_path / "checkpoint")))
    holders = set()
    with hosts_of(uri, tmp_path / "hosts", 3) as cluster:
        for sensor in range(40):
            before = cluster.asked.copy()
            rows_of(cluster, f"SELECT readings FROM sensor_readings WHERE sensor_id = {sensor}")
            # All three were asked the question; the two that lack the key asked the third, and nobody asked
            # anyone else.
            ((holder, times),) = (cluster.asked - before).items()
            assert times == 2
            holders.add(holder)
    assert holders == set(cluster.hosts)


def test_the_rate_source_makes_the_same_events(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, uri = PIPELINES["event_counts"], (tmp_path / "changelog").as_uri()
    query = start_pipeline(spark, pipeline, Job(RateSource(2000), uri, str(tmp_path / "checkpoint")))
    try:
        # A fence, the empty batch that the source begins with, and one with events.
        wait_until(
            lambda: not query.isActive or Changelog.open(uri).newest_epoch(GroupName(pipeline.name)) >= 3
        )
        assert query.exception() is None
    finally:
        query.stop()
    with hosts_of(uri, tmp_path / "counted", 1) as cluster:
        made = rows_of(cluster, "SELECT CAST(sum(readings) AS BIGINT) AS made FROM sensor_readings")[0][
            "made"
        ]
    assert isinstance(made, int)
    check_answers(pipeline, uri, {"readings": pipeline.topics[0].events(0, made)}, tmp_path / "hosts")
