"""Stores that merge, end to end: Spark aggregates each batch, the host folds, SQL sees what a plain
recomputation gives.
"""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog, append_table
from engine.errors import InvalidInput
from engine.model.kinds import SKETCHES, Behaviour, Merge, MergedColumn, Session
from engine.model.schema import TOMBSTONE_COLUMN, StoreName, define_store
from engine.producers.partial_rows import partial_rows
from spark_pipeline import LiveStateSink, StoreOutput, merged, write_store
from tests.spark.served import rows_of, serve_group
from tests.spark.streams import PATHS, FileStream, commits, drain
from tests.support.seeds import seeded_generator

EVENTS = (
    "song STRING, at TIMESTAMP, user BIGINT, seconds INT, rating DOUBLE, price DECIMAL(8,2), title "
    "STRING, gone BOOLEAN"
)

KIND: Merge = merged.columns(
    plays=merged.count(),
    rated=merged.count("rating"),
    seconds=merged.sum("seconds"),
    spent=merged.sum("price"),
    shortest=merged.min("seconds"),
    best=merged.max("rating"),
    rating=merged.avg("rating"),
    opening=merged.first("title", by="at"),
    title=merged.last("title", by="at"),
    listeners=merged.count_distinct("user"),
    middle=merged.quantiles("seconds", 0.5),
    spread=merged.quantiles("seconds", 0.0, 1.0),
)


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path) -> FileStream:
    """Four batches; times go back and forth between them, and some values are null."""
    stream = FileStream(spark, tmp_path / "events", EVENTS)
    for batch in range(4):
        stream.add(
            [
                {
                    "song": f"song-{(5 * i + batch) % 9}",
                    "at": f"2026-01-0{1 + (batch * 2) % 5} 10:00:{i:02}",
                    "user": (i * 7 + batch) % 23,
                    "seconds": None if i % 8 == 0 else 10 * batch + i,
                    "rating": None if i % 3 else i / 8,
                    "price": f"{i}.{batch}5",
                    "title": f"title {batch}/{i}",
                    "gone": False,
                }
                for i in range(40)
            ]
        )
    return stream


def recompute(spark: SparkSession, stream: FileStream) -> list[dict[str, Any]]:
    """Spark's own aggregation of all events at once."""
    rows = (
        spark.read.schema(EVENTS)
        .json(str(stream.directory))
        .groupBy("song")
        .agg(
            F.count(F.lit(1)).alias("plays"),
            F.count("rating").alias("rated"),
            F.sum("seconds").alias("seconds"),
            F.sum("price").alias("spent"),
            F.min("seconds").alias("shortest"),
            F.max("rating").alias("best"),
            F.avg("rating").alias("rating"),
            F.min_by("title", "at").alias("opening"),
            F.max_by("title", "at").alias("title"),
            F.countDistinct("user").alias("listeners"),
            F.expr("CAST(percentile_disc(0.5) WITHIN GROUP (ORDER BY seconds) AS DOUBLE)").alias("middle"),
            F.array(F.min("seconds").cast("double"), F.max("seconds").cast("double")).alias("spread"),
        )
        .orderBy("song")
        .toArrow()
    )
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


@pytest.mark.parametrize("path", PATHS)
def test_merged_columns_equal_an_aggregation_of_all_events(
    events: FileStream, uri: str, tmp_path: Path, path: str
) -> None:
    sink = LiveStateSink(changelog=uri, store="plays", key=["song"], kind=KIND, partitions=3, path=path)
    drain(events.frame().drop("gone"), sink, tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "plays") as service:
        assert rows_of(service, "SELECT * FROM plays ORDER BY song") == recompute(events.spark, events)
        assert rows_of(service, "SELECT song, plays FROM plays WHERE song = 'song-3'") == [
            {"song": "song-3", "plays": 18}
        ]


def test_events_may_be_partial_rows_of_their_own(events: FileStream, uri: str, tmp_path: Path) -> None:
    plain = Merge(tuple(column for column in KIND.columns if column.function not in SKETCHES))
    stores = [
        StoreOutput("aggregated", key=["song"], kind=plain),
        StoreOutput("events", key=["song"], kind=plain, aggregate_first=False),
    ]
    drain(
        events.frame(),
        LiveStateSink(changelog=uri, group="plays", stores=stores),
        tmp_path / "checkpoint",
        "append",
    )
    definitions = Changelog.open(uri).definitions()
    assert definitions[StoreName("events")].row_schema == definitions[StoreName("aggregated")].row_schema
    with serve_group(uri, tmp_path / "data", "plays") as service:
        found = rows_of(service, "SELECT * FROM events ORDER BY song")
        assert found == rows_of(service, "SELECT * FROM aggregated ORDER BY song")
    assert sum(row["plays"] for row in found) == 160


AGGREGATED = """
    SELECT k, count(*) AS n, count(v) AS counted,
           greatest(least(sum(v), 9223372036854775807), -9223372036854775808)::BIGINT AS total,
           min(v) AS least, max(w) AS most, avg(d) AS mean,
           (list(w ORDER BY t, place) FILTER (t IS NOT NULL))[1] AS opening,
           (list(v ORDER BY t, place) FILTER (t IS NOT NULL))[1] AS opening_number,
           (list(w ORDER BY t, place) FILTER (t IS NOT NULL))[-1] AS closing
    FROM events GROUP BY k ORDER BY k
"""
RANDOM_KIND = merged.columns(
    n=merged.count(),
    counted=merged.count("v"),
    total=merged.sum("v"),
    least=merged.min("v"),
    most=merged.max("w"),
    mean=merged.avg("d"),
    opening=merged.first("w", by="t"),
    opening_number=merged.first("v", by="t"),
    closing=merged.last("w", by="t"),
)


def random_events(rows: int, seed: int) -> pa.Table:
    """Few keys and times, so that many are equal; values near the limits, empty texts and nulls."""
    random = seeded_generator(seed)
    k = random.integers(0, 5, rows)
    large = np.where(k % 2, 1, -1) * (2**63 - 1 - random.integers(0, 3, rows))
    v = np.where(k < 2, large, random.integers(-9, 9, rows))
    w = np.array(["", "a", "b", "\u00e9", "ab"])[random.integers(0, 5, rows)]
    return pa.table(
        {
            "k": k,
            "t": pa.array(random.integers(0, 4, rows), mask=random.random(rows) < 0.1),
            "v": pa.array(v, mask=random.random(rows) < 0.2),
            "w": pa.array(w.tolist(), mask=random.random(rows) < 0.2),
            "d": pa.array(random.integers(0, 40, rows) / 8, mask=random.random(rows) < 0.3),
            "place": np.arange(rows),
        }
    )


@pytest.mark.parametrize("seed", range(2))
def test_all_who_aggregate_events_say_the_same(
    spark: SparkSession, uri: str, tmp_path: Path, seed: int
) -> None:
    """Spark, the store, producers in Python and DuckDB."""
    events = random_events(200, seed)
    frame = spark.createDataFrame(events).repartitionByRange(3, "place").sortWithinPartitions("place")
    for name, first in (("aggregated", True), ("projected", False)):
        write_store(frame, changelog=uri, store=name, key=["k"], kind=RANDOM_KIND, aggregate_first=first)
    rows = partial_rows(events, ["k"], RANDOM_KIND.columns)
    made = define_store("made", rows.schema, ["k"], behaviour=Behaviour(RANDOM_KIND))
    append_table(Changelog.open(uri), made, rows)
    with duckdb.connect() as connection:
        connection.register("events", events)
        expected = connection.sql(AGGREGATED).to_arrow_table().to_pylist()
    for name in ("aggregated", "projected", "made"):
        with serve_group(uri, tmp_path / name, name) as service:
            assert rows_of(service, f"SELECT * FROM {name} ORDER BY k") == expected, name


def test_an_empty_value_is_a_distinct_one(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """And the same one, whoever counts it."""
    frame = spark.sql(
        "SELECT 1 AS k, v, CAST(v AS BINARY) AS b, CAST(v AS STRING COLLATE UTF8_LCASE) AS c "
        "FROM VALUES (''), ('x'), (''), (NULL) AS e(v)"
    )
    kind = merged.columns(
        texts=merged.count_distinct("v"), bytes=merged.count_distinct("b"), words=merged.count_distinct("c")
    )
    write_store(frame, changelog=uri, store="counted", key=["k"], kind=kind)
    write_store(frame.where("v = ''"), changelog=uri, store="counted", key=["k"], kind=kind)
    [texts, *_] = kind.columns
    write_store(frame, changelog=uri, store="shared", key=["k"], kind=Merge((texts,)))
    definition = Changelog.open(uri).definition(StoreName("shared"))
    assert definition is not None
    events = pa.table({"k": pa.array([1, 1, 1], pa.int32()), "v": ["", "y", None]})
    append_table(Changelog.open(uri), definition, partial_rows(events, ["k"], [texts]))
    with serve_group(uri, tmp_path / "counted", "counted") as service:
        assert rows_of(service, "SELECT * FROM counted") == [{"k": 1, "texts": 2, "bytes": 2, "words": 2}]
    with serve_group(uri, tmp_path / "shared", "shared") as service:
        assert rows_of(service, "SELECT texts FROM shared") == [{"texts": 3}]


def test_the_first_of_equal_times_is_the_one_that_came_first(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT * FROM VALUES (1, 'a', 1), (1, 'b', 1), (1, 'c', NULL) AS e(k, v, t)")
    timed = frame.withColumn("at", F.timestamp_seconds(F.lit(0)))
    kind = merged.columns(first=merged.first("v", by="t"), last=merged.last("v", by="t"))
    write_store(timed, changelog=uri, store="merged", key=["k"], kind=kind)
    sessions = Session(60_000_000, kind.columns)
    write_store(timed, changelog=uri, store="sessions", key=["k"], kind=sessions, time="at")
    for store in ("merged", "sessions"):
        [row] = stored_rows(uri, store)
        assert (row["first"], row["last"], row["__first_at"]) == ("a", "b", 1)


def test_a_batch_that_spark_runs_again_counts_once(events: FileStream, uri: str, tmp_path: Path) -> None:
    def sink() -> LiveStateSink:
        return LiveStateSink(
            changelog=uri, store="plays", key=["song"], kind=merged.columns(plays=merged.count())
        )

    drain(events.frame(), sink(), tmp_path / "checkpoint", "append")
    # Without its last commit the checkpoint has Spark run that batch again, as after a crash between the two
    # commits.
    (tmp_path / "checkpoint" / "commits" / "3").unlink()
    (tmp_path / "checkpoint" / "commits" / ".3.crc").unlink(missing_ok=True)
    drain(events.frame(), sink(), tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "plays") as service:
        assert rows_of(service, "SELECT sum(plays) AS plays FROM plays") == [{"plays": 160}]


def test_partial_rows_and_several_stores(events: FileStream, uri: str, tmp_path: Path) -> None:
    def group_by_user(batch: DataFrame) -> DataFrame:
        return batch.groupBy("user").agg(F.sum("seconds").alias("seconds"))

    stores = [
        StoreOutput("songs", key=["song"], kind=merged.columns(seconds=merged.sum("seconds"))),
        StoreOutput(
            "users",
            key=["user"],
            kind=merged.columns(seconds=merged.sum("seconds")),
            query=group_by_user,
            is_partial=True,
        ),
    ]
    drain(
        events.frame(),
        LiveStateSink(changelog=uri, group="listening", stores=stores),
        tmp_path / "checkpoint",
        "append",
    )
    expected = sum(row["seconds"] or 0 for batch in events.added for row in batch)
    with serve_group(uri, tmp_path / "data", "listening") as service:
        totals = rows_of(
            service,
            "SELECT (SELECT sum(seconds) FROM songs) AS songs, (SELECT sum(seconds) FROM users) AS users",
        )
    assert totals == [{"songs": expected, "users": expected}]


def test_a_tombstone_removes_what_was_before_the_batch(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path / "events", "song STRING, seconds BIGINT, gone BOOLEAN")
    stream.add([{"song": song, "seconds": 5, "gone": False} for song in "aabc"])
    stream.add(
        [
            {"song": "a", "seconds": 1},
            {"song": "a", "gone": True},
            {"song": "b", "gone": True},
            {"song": "c", "seconds": 2},
        ]
    )
    kind = merged.columns(plays=merged.count(), seconds=merged.sum("seconds"))
    sink = LiveStateSink(changelog=uri, store="plays", key=["song"], kind=kind, tombstone_column="gone")
    drain(stream.frame(), sink, tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "plays") as service:
        found = rows_of(service, "SELECT * FROM plays ORDER BY song")
    assert found == [{"song": "a", "plays": 1, "seconds": 1}, {"song": "c", "plays": 2, "seconds": 7}]


@pytest.mark.parametrize("is_ansi", ["true", "false"])
def test_sums_within_a_batch_stay_at_their_limits(
    spark: SparkSession, uri: str, tmp_path: Path, is_ansi: str
) -> None:
    rows: list[tuple[str, int | None]] = [("most", 2**62), ("least", -(2**62))] * 2
    rows += [(key, sign * 2**62) for key, sign in (("most", 1), ("least", -1))] + [("few", 3), ("few", None)]
    frame = spark.createDataFrame(rows, "k STRING, v BIGINT")
    kind = merged.columns(total=merged.sum("v"), mean=merged.avg("v"))
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", is_ansi)
    try:
        write_store(frame, changelog=uri, store="sums", key=["k"], kind=kind)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")
    with serve_group(uri, tmp_path / "data", "sums") as service:
        found = rows_of(service, "SELECT k, total FROM sums")
    assert {row["k"]: row["total"] for row in found} == {"most": 2**63 - 1, "least": -(2**63), "few": 3}


@pytest.mark.parametrize("aggregate_first", [True, False])
def test_of_no_value_nothing_is_known(
    spark: SparkSession, uri: str, tmp_path: Path, aggregate_first: bool
) -> None:
    """Whatever the type: a batch without a value of a key says nothing of it, before and after those with."""
    types = ["tinyint", "smallint", "int", "bigint", "float", "double", "decimal(9,2)", "decimal(38,4)"]
    columns = [f"CAST(v AS {data_type}) AS v{place}" for place, data_type in enumerate(types)]
    aggregates = (merged.sum, merged.min, merged.max, merged.avg)
    kind = merged.columns(
        **{f"{make.__name__}{place}": make(f"v{place}") for make in aggregates for place in range(len(types))}
    )
    for rows in (
        "('none', NULL), ('some', NULL), ('early', 3)",
        "('some', 3), ('some', NULL), ('early', NULL)",
    ):
        frame = spark.sql(f"SELECT k, {', '.join(columns)} FROM VALUES {rows} AS t(k, v)")
        write_store(
            frame, changelog=uri, store="known", key=["k"], kind=kind, aggregate_first=aggregate_first
        )
    with serve_group(uri, tmp_path / "data", "known") as service:
        found = {row.pop("k"): set(row.values()) for row in rows_of(service, "SELECT * FROM known")}
    assert found == {"none": {None}, "some": {3}, "early": {3}}


def test_texts_are_compared_by_their_bytes_whatever_their_collation(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    frame = spark.sql(
        "SELECT 1 AS k, collate(v, 'UTF8_LCASE') AS v, t FROM VALUES ('a', 1), ('B', 2), ('b', 3) AS t(v, t)"
    )
    kind = merged.columns(
        least=merged.min("v"),
        most=merged.max("v"),
        latest=merged.last("v", by="t"),
        different=merged.count_distinct("v"),
    )
    write_store(frame, changelog=uri, store="texts", key=["k"], kind=kind)
    with serve_group(uri, tmp_path / "data", "texts") as service:
        found = rows_of(service, "SELECT * FROM texts")
    assert found == [{"k": 1, "least": "B", "most": "b", "latest": "b", "different": 3}]


def test_a_sum_of_decimals_without_room_is_refused(spark: SparkSession, uri: str) -> None:
    large = spark.sql("SELECT 'k' AS k, CAST('9e37' AS DECIMAL(38, 0)) AS v FROM range(2)")
    kind = merged.columns(total=merged.sum("v"))
    before = spark.conf.get("spark.sql.ansi.enabled")
    # Spark's own error in the other mode has PySpark change the format of all logs.
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises((Py4JJavaError, PySparkException), match="more than 38 digits"):
            write_store(large, changelog=uri, store="decimals", key=["k"], kind=kind)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before or "true")


@pytest.mark.parametrize("aggregate_first", [True, False])
@pytest.mark.parametrize("key", ["k.x", "session_window", "a`b"])
def test_names_of_events_are_no_expressions(
    spark: SparkSession, uri: str, key: str, aggregate_first: bool
) -> None:
    quoted = key.replace("`", "``")
    frame = spark.sql(
        f"SELECT 1 AS `{quoted}`, TIMESTAMP '2026-01-01 10:00:00Z' AS `t.z`, v AS `a.b`, v > 9 AS `gone.x`, "
        "named_struct('b', 100) AS a FROM VALUES (5), (7) AS t(v)"
    )
    kind = merged.columns(**{"sum.a": merged.sum("a.b"), "last.a": merged.last("a.b", by="t.z")})
    output: dict[str, Any] = {"key": [key], "aggregate_first": aggregate_first}
    write_store(frame, changelog=uri, store="merged", kind=kind, **output)
    if aggregate_first:
        write_store(frame, changelog=uri, store="removed", kind=kind, tombstone_column="gone.x", **output)
    sessions = Session(60_000_000, kind.columns)
    write_store(frame, changelog=uri, store="sessions", kind=sessions, time="t.z", **output)
    rows = [row for store in ("merged", "sessions") for row in stored_rows(uri, store)]
    assert sum(row["sum.a"] for row in rows) == 24
    assert {row[key] for row in rows} == {1}


@pytest.mark.parametrize("name", ["__place", "__PLACE"])
def test_events_may_have_a_column_that_is_called_as_their_places_are(
    spark: SparkSession, uri: str, name: str
) -> None:
    frame = spark.createDataFrame(
        [(1, 0, "new", 10), (1, 0, "old", 9), (1, 0, "older", 9)],
        f"k BIGINT, t BIGINT, title STRING, {name} BIGINT",
    ).coalesce(1)
    kind = merged.columns(
        total=merged.sum(name), title=merged.last("title", by=name), first=merged.first("title", by=name)
    )
    write_store(frame, changelog=uri, store="merged", key=["k"], kind=kind)
    timed = frame.withColumn("t", F.timestamp_seconds("t"))
    write_store(
        timed, changelog=uri, store="sessions", key=["k"], kind=Session(1_000_000, kind.columns), time="t"
    )
    for store in ("merged", "sessions"):
        (row,) = stored_rows(uri, store)
        assert (row["total"], row["title"], row["first"]) == (28, "new", "old")


@pytest.mark.parametrize("name", ["__removed", "__events", "__flags", "__FLAGS", "__place"])
def test_a_tombstone_column_may_be_called_anything(spark: SparkSession, uri: str, name: str) -> None:
    frame = spark.createDataFrame(
        [(1, "a", False), (2, "b", True), (3, "c", None), (3, "d", True)],
        f"k BIGINT, title STRING, {name} BOOLEAN",
    )
    kind = merged.columns(plays=merged.count(), title=merged.last("title", by="k"))
    write_store(frame, changelog=uri, store="merged", key=["k"], kind=kind, tombstone_column=name)
    rows = [(row["k"], row["title"], row.get(TOMBSTONE_COLUMN, False)) for row in stored_rows(uri, "merged")]
    assert sorted(row for row in rows if not row[2]) == [(1, "a", False), (3, "c", False)]
    assert sorted(row[0] for row in rows if row[2]) == [2, 3]


@pytest.mark.parametrize("name", ["__is_null", "__IS_NULL"])
def test_events_may_have_a_column_that_is_called_as_the_mark_of_nulls_is(
    spark: SparkSession, uri: str, name: str
) -> None:
    frame = spark.createDataFrame([(1, "a", 5), (2, None, 6)], f"k BIGINT, title STRING, {name} BIGINT")
    kind = merged.columns(total=merged.sum(name))
    write_store(frame, changelog=uri, store="merged", key=["k"], kind=kind, tombstone_when_null="title")
    rows = stored_rows(uri, "merged")
    assert sorted((row["k"], row["total"], row.get(TOMBSTONE_COLUMN, False)) for row in rows) == [
        (1, 5, False),
        (2, None, True),
    ]


def test_names_of_keys_that_are_reserved_are_refused_by_the_store(spark: SparkSession, uri: str) -> None:
    frame = spark.sql("SELECT 1 AS __window, TIMESTAMP '2026-01-01 10:00:00Z' AS t")
    kind = Session(60_000_000, merged.columns(plays=merged.count()).columns)
    with pytest.raises(InvalidInput, match="names that start with __ are reserved; rename __window"):
        write_store(frame, changelog=uri, store="sessions", key=["__window"], kind=kind, time="t")


def stored_rows(uri: str, store: str) -> list[dict[str, Any]]:
    """The rows that were committed, not folded."""
    changelog = Changelog.open(uri)
    return [
        row
        for commit in commits(uri, store)
        for table in changelog.read_rows(commit, changelog.definitions()).values()
        for row in table.to_pylist()
    ]


@pytest.mark.parametrize("aggregate_first", [True, False])
@pytest.mark.parametrize("column", [merged.sum("song"), merged.avg("song"), merged.quantiles("song", 0.5)])
def test_functions_of_numbers_refuse_texts_before_a_value_comes(
    spark: SparkSession, column: MergedColumn, aggregate_first: bool
) -> None:
    batch = spark.createDataFrame([("a", 0.5)], "song STRING, rating DOUBLE")
    output = StoreOutput(
        "plays", key=["rating"], kind=merged.columns(made=column), aggregate_first=aggregate_first
    )
    words = f"Store plays: song is string, and merged.{column.function.value} takes numbers: cast it to one."
    with pytest.raises(InvalidInput) as refused:
        output.frame(batch)
    assert refused.value.message == words


@pytest.mark.parametrize("aggregate_first", [True, False])
def test_an_event_without_a_time_is_refused(spark: SparkSession, uri: str, aggregate_first: bool) -> None:
    """Spark's windows pass over it."""
    frame = spark.sql("SELECT 'a' AS user, TIMESTAMP '2026-01-01 10:00:00' AS at UNION ALL SELECT 'a', NULL")
    kind = Session(30 * 60 * 1_000_000, merged.named_columns(n=merged.count()))
    output: dict[str, Any] = {"key": ["user"], "time": "at", "kind": kind, "aggregate_first": aggregate_first}
    with pytest.raises((InvalidInput, Py4JJavaError, PySparkException), match="is null"):
        write_store(frame, changelog=uri, store="visits", **output)


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    batch = spark.createDataFrame([("a", 0.5)], "song STRING, rating DOUBLE")
    with pytest.raises(InvalidInput, match="no column user among song, rating"):
        StoreOutput("plays", key=["song"], kind=merged.columns(users=merged.count_distinct("user"))).frame(
            batch
        )
    with pytest.raises(InvalidInput, match="rating is double, whose distinct values are not counted"):
        StoreOutput(
            "plays", key=["song"], kind=merged.columns(ratings=merged.count_distinct("rating"))
        ).frame(batch)
    with pytest.raises(InvalidInput, match="users is a sketch, which Spark has to aggregate"):
        StoreOutput(
            "plays",
            key=["song"],
            kind=merged.columns(users=merged.count_distinct("song")),
            aggregate_first=False,
        ).frame(batch)
    with pytest.raises(InvalidInput, match="no order of events"):
        StoreOutput(
            "plays",
            key=["song"],
            kind=merged.columns(plays=merged.count()),
            aggregate_first=False,
            tombstone_column="gone",
        )
    with pytest.raises(InvalidInput, match="does not say which column"):
        StoreOutput("plays", key=["song"], kind=merged.columns(rating=merged.sum(""))).frame(batch)


def test_events_become_sessions(events: FileStream, uri: str, tmp_path: Path) -> None:
    """The last batch is late: its events lie between those of the first and of the second, a day
    from both.
    """
    gap = dt.timedelta(days=1, seconds=10)
    kind = Session(
        gap // dt.timedelta(microseconds=1),
        merged.named_columns(events=merged.count(), seconds=merged.sum("seconds")),
    )
    sink = LiveStateSink(changelog=uri, store="sessions", key=["user"], kind=kind, time="at", partitions=3)
    drain(events.frame().drop("gone"), sink, tmp_path / "checkpoint", "append")
    expected: dict[tuple[int, dt.datetime], list[int]] = {}
    last: dict[int, tuple[dt.datetime, dt.datetime]] = {}
    for row in sorted((row for batch in events.added for row in batch), key=lambda row: str(row["at"])):
        user, at = row["user"], dt.datetime.fromisoformat(row["at"]).replace(tzinfo=dt.UTC)
        start, end = last.get(user, (at, at))
        if at - end > gap:
            start = at
        last[user] = (start, at)
        session = expected.setdefault((user, start), [0, 0])
        session[0] += 1
        session[1] += row["seconds"] or 0
    assert 46 <= len(expected) < 100
    with serve_group(uri, tmp_path / "data", "sessions") as service:
        found = rows_of(
            service, "SELECT user, session_start, events, coalesce(seconds, 0) AS seconds FROM sessions"
        )
    assert {(row["user"], row["session_start"]): [row["events"], row["seconds"]] for row in found} == expected
