"""Sessions that Spark makes: closed ones by `session_window`, and live ones by a stateful processor that
takes back what has changed its start.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from spark_pipeline import LiveStateSink, StoreOutput
from tests.spark.served import rows_of, serve_group
from tests.spark.streams import FileStream, drain

EVENTS = "user BIGINT, at TIMESTAMP"
LIVE = "user BIGINT, first BIGINT, last BIGINT, events BIGINT, gone BOOLEAN"
STATE = "first BIGINT, last BIGINT, events BIGINT"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
GAP = 30 * 60 * 1_000_000
SESSIONS = (
    "SELECT user, strftime(session_start, '%H:%M') AS first, strftime(session_end, '%H:%M') AS last, "
    "events FROM sessions ORDER BY ALL"
)


def event(user: int, at: str) -> dict[str, Any]:
    return {"user": user, "at": f"2026-01-01 {at}:00"}


def test_closed_sessions(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """Append mode gives a session when the watermark has passed its end, which for Spark is the last event
    plus the gap.
    """
    stream = FileStream(spark, tmp_path / "events", EVENTS)
    for batch in (
        [event(1, "10:00"), event(2, "10:05")],
        [event(1, "10:20")],
        [event(3, "12:00")],
        [event(3, "14:00")],
    ):
        stream.add(batch)
    session = f.session_window("at", "30 minutes")
    closed = (
        stream.frame()
        .withWatermark("at", "10 minutes")
        .groupBy("user", session)
        .agg(f.count("*").alias("events"))
    )
    rows = closed.select(
        "user",
        closed["session_window.start"].alias("session_start"),
        closed["session_window.end"].alias("session_end"),
        "events",
    )
    output = StoreOutput("sessions", key=["user", "session_start"], partition_by=["user"], mode="append")
    drain(rows, LiveStateSink(changelog=uri, stores=[output], group="g"), tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "g") as service:
        assert [tuple(row.values()) for row in rows_of(service, SESSIONS)] == [
            (1, "10:00", "10:50", 2),
            (2, "10:05", "10:35", 1),
            (3, "12:00", "12:30", 1),
        ]


class LiveSessions(StatefulProcessor):
    """The newest session of each user, its times in microseconds since 1970 UTC.

    An event before its start moves the start, which is in the key: the row of before is taken back.
    """

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._session = handle.getValueState("session", STATE)

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: TimerValues) -> Iterator[Row]:  # noqa: N802, N803  Spark's names
        for at in sorted(row["at"] for row in rows):
            known = self._session.get()
            if known is None or at > known[1] + GAP:
                session = (at, at, 1)
            else:
                session = (min(known[0], at), max(known[1], at), known[2] + 1)
                if session[0] < known[0]:
                    yield Row(user=key[0], first=known[0], last=None, events=None, gone=True)
            self._session.update(session)
            yield Row(user=key[0], first=session[0], last=session[1], events=session[2], gone=False)

    def close(self) -> None:
        """Nothing is held."""


@pytest.fixture
def stateful(spark: SparkSession) -> Iterator[SparkSession]:
    """A session whose queries may have stateful processors."""
    spark.conf.set(PROVIDER, "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
    yield spark
    spark.conf.unset(PROVIDER)


@pytest.mark.parametrize("path", ["driver", "executors"])
def test_live_sessions_of_a_stateful_processor(
    stateful: SparkSession, uri: str, tmp_path: Path, path: str
) -> None:
    stream = FileStream(stateful, tmp_path / "events", EVENTS)
    for batch in (
        [event(1, "10:00"), event(2, "10:05")],
        [event(1, "09:45"), event(1, "10:20")],
        [event(2, "12:00"), event(2, "11:40")],
    ):
        stream.add(batch)
    events = stream.frame().select("user", f.unix_micros("at").alias("at"))
    live = events.groupBy("user").transformWithState(LiveSessions(), LIVE, "Update", "None")
    times = (
        f.timestamp_micros("first").alias("session_start"),
        f.timestamp_micros("last").alias("session_end"),
    )
    output = StoreOutput(
        "sessions", key=["user", "session_start"], partition_by=["user"], tombstone_column="gone"
    )
    drain(
        live.select("user", *times, "events", "gone"),
        LiveStateSink(changelog=uri, stores=[output], group="g", path=path),
        tmp_path / "checkpoint",
    )
    with serve_group(uri, tmp_path / "data", "g") as service:
        assert [tuple(row.values()) for row in rows_of(service, SESSIONS)] == [
            (1, "09:45", "10:20", 3),
            (2, "10:05", "10:05", 1),
            (2, "11:40", "12:00", 2),
        ]
        active = rows_of(
            service, "SELECT user FROM sessions WHERE session_end > TIMESTAMPTZ '2026-01-01 11:30:00+00'"
        )
        assert active == [{"user": 2}]
