"""Windows and retention, end to end: Spark's windows become keys, and its watermark lets go of old rows."""

from __future__ import annotations

import datetime as dt
import time
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.kinds import KEY_VALUE, Kind, Versioned
from engine.model.schema import StoreName
from spark_pipeline import LiveStateSink, StoreOutput, merged
from tests.spark.served import rows_of, serve_group
from tests.spark.streams import FileStream, commits, drain

TRADES = "symbol STRING, at TIMESTAMP, price BIGINT"
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
WINDOWS = [("10 minutes", None), ("10 minutes", "5 minutes")]


def time_at(minute: int) -> str:
    return (START + dt.timedelta(minutes=minute)).strftime("%Y-%m-%d %H:%M:%S")


@pytest.fixture
def trades(spark: SparkSession, tmp_path: Path) -> FileStream:
    """Five batches of an hour each; each also has trades of up to 20 minutes before it."""
    stream = FileStream(spark, tmp_path / "trades", TRADES)
    for batch in range(5):
        minutes = [60 * batch + 3 * i - 20 * (i % 3 == 0 and batch > 0) for i in range(20)]
        stream.add(
            [
                {"symbol": f"S{i % 3}", "at": time_at(minute), "price": 100 * batch + i}
                for i, minute in enumerate(minutes)
            ]
        )
    return stream


def recompute(stream: FileStream, length: str, slide: str | None) -> list[dict[str, Any]]:
    """Spark's own windows over all trades at once."""
    windows = (
        stream.spark.read.schema(TRADES)
        .json(str(stream.directory))
        .groupBy("symbol", F.window("at", length, slide))
        .agg(F.count(F.lit(1)).alias("trades"), F.avg("price").alias("average"))
    )
    rows = windows.select(
        "symbol",
        F.col("window.start").alias("window_start"),
        F.col("window.end").alias("window_end"),
        "trades",
        "average",
    )
    found: list[dict[str, Any]] = rows.orderBy("symbol", "window_start").toArrow().to_pylist()
    return found


def windowed_frame(stream: FileStream, length: str, slide: str | None) -> DataFrame:
    trades = stream.frame().withWatermark("at", "30 minutes")
    return trades.groupBy("symbol", F.window("at", length, slide)).agg(
        F.count(F.lit(1)).alias("trades"), F.avg("price").alias("average")
    )


@pytest.mark.parametrize(("length", "slide"), WINDOWS)
def test_windows_in_update_mode(
    trades: FileStream, uri: str, tmp_path: Path, length: str, slide: str | None
) -> None:
    sink = LiveStateSink(changelog=uri, store="windows", key=["symbol"], window="window", partitions=2)
    drain(windowed_frame(trades, length, slide), sink, tmp_path / "checkpoint")
    definition = Changelog.open(uri).definition(StoreName("windows"))
    assert definition is not None
    assert (definition.key, definition.partition_by) == (
        ("symbol", "window_start", "window_end"),
        ("symbol",),
    )
    with serve_group(uri, tmp_path / "data", "windows") as service:
        assert rows_of(service, "SELECT * FROM windows ORDER BY symbol, window_start") == recompute(
            trades, length, slide
        )
        slice_of_one = (
            "SELECT trades FROM windows WHERE symbol = 'S1' AND window_start >= TIMESTAMPTZ "
            "'2026-01-01 03:00:00+00'"
        )
        expected = [
            row
            for row in recompute(trades, length, slide)
            if row["symbol"] == "S1" and row["window_start"] >= START + dt.timedelta(hours=3)
        ]
        assert len(rows_of(service, slice_of_one)) == len(expected) > 0


def test_windows_in_append_mode_come_when_they_are_closed(
    trades: FileStream, uri: str, tmp_path: Path
) -> None:
    sink = LiveStateSink(changelog=uri, store="windows", key=["symbol"], window="window", path="executors")
    drain(windowed_frame(trades, "10 minutes", None), sink, tmp_path / "checkpoint", "append")
    newest = max(dt.datetime.fromisoformat(row["at"] + "+00:00") for batch in trades.added for row in batch)
    closed = [
        row
        for row in recompute(trades, "10 minutes", None)
        if row["window_end"] <= newest - dt.timedelta(minutes=30)
    ]
    with serve_group(uri, tmp_path / "data", "windows") as service:
        assert rows_of(service, "SELECT * FROM windows ORDER BY symbol, window_start") == closed


@pytest.mark.parametrize(("length", "slide"), WINDOWS)
def test_windows_that_the_store_merges(
    trades: FileStream, uri: str, tmp_path: Path, length: str, slide: str | None
) -> None:
    def place_in_windows(batch: DataFrame) -> DataFrame:
        return batch.withColumn("window", F.window("at", length, slide))

    kind = merged.columns(trades=merged.count(), average=merged.avg("price"))
    output = StoreOutput("windows", key=["symbol"], window="window", kind=kind, query=place_in_windows)
    drain(trades.frame(), LiveStateSink(changelog=uri, stores=[output]), tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "windows") as service:
        assert rows_of(service, "SELECT * FROM windows ORDER BY symbol, window_start") == recompute(
            trades, length, slide
        )


@pytest.mark.parametrize("kind", [KEY_VALUE, merged.columns(trades=merged.count())])
def test_rows_go_when_the_watermark_passes_their_retention(
    trades: FileStream, uri: str, tmp_path: Path, kind: Kind
) -> None:
    def place_in_windows(batch: DataFrame) -> DataFrame:
        windows = batch.withColumn("window", F.window("at", "10 minutes"))
        return (
            windows.select("symbol", "window")
            if kind is not KEY_VALUE
            else windows.dropDuplicates(["symbol", "window"])
        )

    output = StoreOutput(
        "windows", key=["symbol"], window="window", kind=kind, query=place_in_windows, retention="64 minutes"
    )
    stream = trades.frame().withWatermark("at", "30 minutes")
    drain(stream, LiveStateSink(changelog=uri, stores=[output]), tmp_path / "checkpoint", "append")
    # The last batch's watermark is 30 minutes behind the newest event of the batch before it, which is at
    # minute 3 * 60 + 51 or 57.
    newest = max(
        dt.datetime.fromisoformat(row["at"] + "+00:00") for batch in trades.added[:4] for row in batch
    )
    oldest = newest - dt.timedelta(minutes=30 + 64)
    expected = [row for row in recompute(trades, "10 minutes", None) if row["window_end"] >= oldest]
    assert 0 < len(expected) < len(recompute(trades, "10 minutes", None))
    assert commits(uri, "windows")[-1].cutoffs == {"windows": int(oldest.timestamp() * 1_000_000)}
    with serve_group(uri, tmp_path / "data", "windows") as service:
        found = rows_of(service, "SELECT symbol, window_start FROM windows ORDER BY symbol, window_start")
    assert found == [{"symbol": row["symbol"], "window_start": row["window_start"]} for row in expected]


def test_batches_without_rows_let_go_of_rows_too(trades: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(
        changelog=uri, store="windows", key=["symbol"], window="window", retention="10 minutes"
    )
    drain(windowed_frame(trades, "10 minutes", None), sink, tmp_path / "checkpoint")
    last = commits(uri, "windows")[-1]
    assert last.rows == 0
    # By then the watermark is that of all events.
    newest = max(dt.datetime.fromisoformat(row["at"] + "+00:00") for batch in trades.added for row in batch)
    oldest = newest - dt.timedelta(minutes=40)
    assert int(oldest.timestamp() * 1_000_000) - last.cutoffs[StoreName("windows")] < 600_000_000 // 64
    expected = [row for row in recompute(trades, "10 minutes", None) if row["window_end"] >= oldest]
    with serve_group(uri, tmp_path / "data", "windows") as service:
        assert rows_of(service, "SELECT * FROM windows ORDER BY symbol, window_start") == expected


def test_retention_by_commit_needs_no_watermark(trades: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(changelog=uri, store="prices", key=["symbol"], retention=dt.timedelta(hours=1))
    drain(trades.frame(), sink, tmp_path / "checkpoint", "append")
    last = commits(uri, "prices")[-1]
    assert (
        0
        <= last.committed_at - 3_600_000_000 - last.cutoffs[StoreName("prices")]
        < 3_600_000_000 // 64 + 10_000_000
    )
    with serve_group(uri, tmp_path / "data", "prices") as service:
        assert rows_of(service, "SELECT count(*) AS symbols FROM prices") == [{"symbols": 3}]


def test_an_event_of_the_future_takes_nothing_with_it(trades: FileStream, uri: str, tmp_path: Path) -> None:
    stream = trades.frame().withWatermark("at", "30 minutes")
    sink = LiveStateSink(
        changelog=uri, store="prices", key=["symbol"], retention="1 day", retention_column="at"
    )
    trades.add([{"symbol": "S1", "at": "2999-01-01 00:00:00", "price": 1.0}])
    trades.add([{"symbol": "S2", "at": "2026-01-01 09:00:00", "price": 2.0}])
    with pytest.raises(
        StreamingQueryException,
        match=r"All rows of store prices of before 2998-12-.* the watermark lies in the future",
    ):
        drain(stream, sink, tmp_path / "checkpoint", "append")
    assert all(
        commit.cutoffs.get(StoreName("prices"), 0) < time.time_ns() // 1000
        for commit in commits(uri, "prices")
    )
    with serve_group(uri, tmp_path / "data", "prices") as service:
        assert rows_of(service, "SELECT count(*) AS symbols FROM prices") == [{"symbols": 3}]


def test_retention_by_event_time_needs_a_watermark(trades: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(
        changelog=uri, store="prices", key=["symbol"], retention="1 day", retention_column="at"
    )
    with pytest.raises(StreamingQueryException, match="the query's watermark, and the query has none"):
        drain(trades.frame(), sink, tmp_path / "checkpoint", "append")
    assert Changelog.open(uri).definition(StoreName("prices")) is None


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    batch = spark.createDataFrame([("a", START)], "symbol STRING, at TIMESTAMP")
    with pytest.raises(
        InvalidInput, match="the window column window is not exactly one of the columns symbol, at"
    ):
        StoreOutput("windows", key=["symbol"], window="window").frame(batch)
    with pytest.raises(
        InvalidInput, match=r"the window column at is timestamp, and not what Spark's window\(\) makes"
    ):
        StoreOutput("windows", key=["symbol"], window="at").frame(batch)
    both = batch.select("symbol", F.window("at", "1 minute").alias("w"), F.lit(2).alias("w_end"))
    with pytest.raises(InvalidInput, match="becomes w_start and w_end, and there is a column w_end already"):
        StoreOutput("windows", key=["symbol"], window="w").frame(both)
    # Spark tells no upper from lower case, and neither does SQL.
    cased = both.withColumnRenamed("w_end", "W_End")
    with pytest.raises(InvalidInput, match="becomes w_start and w_end, and there is a column W_End already"):
        StoreOutput("windows", key=["symbol"], window="w").frame(cased)
    with pytest.raises(InvalidInput, match="windows are for key-value and merge stores"):
        StoreOutput("windows", key=["symbol"], window="window", kind=Versioned("at"))
    with pytest.raises(InvalidInput, match="say how long it is"):
        StoreOutput("windows", key=["symbol"], retention_column="at")
    with pytest.raises(InvalidInput, match="'a while' is no length of time"):
        _ = StoreOutput("windows", key=["symbol"], retention="a while").behaviour
