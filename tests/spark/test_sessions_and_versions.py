"""Versioned stores and sessions with tombstones, end to end: what a Spark job writes is what SQL reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from engine.model.kinds import Session, Versioned
from spark_pipeline import LiveStateSink, StoreOutput, merged
from tests.spark.served import rows_of, serve_group
from tests.spark.streams import FileStream, drain

MINUTE = 60_000_000
PRICES = "symbol STRING, at TIMESTAMP, price DOUBLE, gone BOOLEAN"
VISITS = "user BIGINT, session_start TIMESTAMP, session_end TIMESTAMP, events BIGINT, gone BOOLEAN"


def price(hour: int, value: float | None) -> dict[str, Any]:
    return {"symbol": "X", "at": f"2026-01-01 {hour}:00:00", "price": value, "gone": value is None}


def test_versions(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path / "prices", PRICES)
    for batch in ([price(10, 1.0), price(12, 3.0)], [price(11, 2.0)], [price(13, None)]):
        stream.add(batch)
    output = StoreOutput("prices", key=["symbol"], kind=Versioned("at"), tombstone_column="gone")
    drain(stream.frame(), LiveStateSink(changelog=uri, stores=[output], group="g"), tmp_path / "checkpoint")
    with serve_group(uri, tmp_path / "data", "g") as service:

        def prices(sql: str) -> list[float | None]:
            return [row["price"] for row in rows_of(service, sql)]

        assert prices("SELECT price FROM prices WHERE symbol = 'X'") == []
        assert prices(
            "SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 11:30:00' WHERE symbol = 'X'"
        ) == [2.0]
        assert prices("SELECT price FROM history.prices WHERE symbol = 'X' ORDER BY at") == [
            1.0,
            2.0,
            3.0,
            None,
        ]


def visit(start: int, end: int, events: int, *, gone: bool = False) -> dict[str, Any]:
    return {
        "user": 1,
        "session_start": f"2026-01-01 {start}:00:00",
        "session_end": f"2026-01-01 {end}:00:00",
        "events": events,
        "gone": gone,
    }


def test_fragments_and_tombstones_of_sessions(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """A job that keeps sessions by itself writes them as fragments; what it takes back is a tombstone."""
    stream = FileStream(spark, tmp_path / "visits", VISITS)
    for batch in (
        [visit(10, 11, 2), visit(14, 14, 1)],
        [visit(12, 12, 1)],
        [visit(14, 14, 0, gone=True), visit(20, 20, 1)],
    ):
        stream.add(batch)
    kind = Session(60 * MINUTE, merged.named_columns(events=merged.count()))
    output = StoreOutput("visits", key=["user"], kind=kind, is_partial=True, tombstone_column="gone")
    drain(stream.frame(), LiveStateSink(changelog=uri, stores=[output], group="g"), tmp_path / "checkpoint")
    with serve_group(uri, tmp_path / "data", "g") as service:
        rows = rows_of(
            service, "SELECT hour(session_start), hour(session_end), events FROM visits ORDER BY 1"
        )
    assert [tuple(row.values()) for row in rows] == [(10, 12, 3), (20, 20, 1)]
