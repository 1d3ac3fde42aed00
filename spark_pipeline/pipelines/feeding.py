"""Makes events at a steady rate, and writes them to where a job reads them."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.errors import Unavailable
from engine.processes.signal_event import SignalEvent
from spark_pipeline.pipelines.json_rows import json_rows
from spark_pipeline.pipelines.pipeline import EVENT_TIME, Topic

FEED_SECONDS = 0.1


class Feed(Protocol):
    """Takes events."""

    def write(self, topic: Topic, events: pa.Table) -> None:
        """Take some, all or none of them.

        Raises:
            Unavailable: They cannot be taken.
        """


class FileFeed:
    """A file for each piece of events; it appears whole.

    Args:
        directory: Where the directories of the topics are.
        form: "parquet" or "json".
    """

    def __init__(self, directory: Path, form: str = "parquet") -> None:
        self._directory = directory
        self._form = form

    def write(self, topic: Topic, events: pa.Table) -> None:
        """See `Feed`.

        Raises:
            Unavailable: The file cannot be written.
        """
        try:
            self._write(topic, events)
        except OSError as error:
            raise Unavailable(
                f"Events of {topic.name} cannot be written: {error.strerror or 'the disk refuses'}."
            ) from error

    def _write(self, topic: Topic, events: pa.Table) -> None:
        directory = self._directory / topic.name
        directory.mkdir(parents=True, exist_ok=True)
        # A name is used once: a job reads nothing under one that it has read, and others may write here.
        name = f"{time.time_ns()}-{os.getpid()}"
        # Spark overlooks names that start with a dot, so it sees whole files only.
        hidden = directory / f".{name}"
        if self._form == "json":
            hidden.write_text("\n".join([*json_rows(events).to_pylist(), ""]), encoding="utf-8")
        else:
            pq.write_table(events, hidden, compression="none", use_dictionary=False)
        hidden.rename(directory / f"{name}.{self._form}")


class EventWriter:
    """Makes the events of some topics at a steady rate, and writes them.

    Args:
        feed: Where they go.
        topics: What to make.
        rate: Events a second, of a topic with a share of 1.
        seed: Equal seeds make equal events.
        is_live: Whether an event's time is the moment at which it is made, spread evenly over the time since
            the last were written; otherwise it is a function of the event's number.

    Attributes:
        made: How many events of each topic were written.
    """

    def __init__(
        self, feed: Feed, topics: Sequence[Topic], rate: float, seed: int, *, is_live: bool = False
    ) -> None:
        self._feed = feed
        self._topics = topics
        self._rates = {topic.name: rate * topic.share for topic in topics}
        self._seed = seed
        self._is_live = is_live
        self._written_at: dict[str, float] = {}
        self.made = dict.fromkeys(self._rates, 0)

    def run(self, stopping: SignalEvent) -> None:
        """Write events, several times a second.

        Args:
            stopping: Ends it; what is under way is finished.

        Raises:
            Unavailable: They cannot be written.
        """
        start = time.monotonic()
        self._written_at = dict.fromkeys(self._rates, time.time())
        while not stopping.wait(FEED_SECONDS):
            for topic in self._topics:
                self._write_due(topic, time.monotonic() - start)

    def _write_due(self, topic: Topic, seconds: float) -> None:
        made = self.made[topic.name]
        # All that should be there by now: a late piece catches up, and the rate holds.
        due = int(seconds * self._rates[topic.name]) - made
        if due <= 0:
            return
        events = topic.events(made, due, self._seed)
        if self._is_live:
            since, self._written_at[topic.name] = self._written_at[topic.name], time.time()
            events = _with_times(events, since, self._written_at[topic.name])
        self._feed.write(topic, events)
        self.made[topic.name] += due


def _with_times(events: pa.Table, since: float, until: float) -> pa.Table:
    """Events with times between two moments, seconds since 1970 UTC; the last has the second of them."""
    moments = np.linspace(since, until, events.num_rows + 1)[1:]
    times = pa.array((moments * 1e6).astype(np.int64)).cast(pa.timestamp("us", "UTC"))
    return events.set_column(events.schema.get_field_index(EVENT_TIME), EVENT_TIME, times)


class Feeder:
    """A thread that makes events at a steady rate; a context that starts and stops it.

    Args:
        writer: Makes them.
        failed: Told of an error that ended the thread.
    """

    def __init__(self, writer: EventWriter, failed: Callable[[Unavailable], None]) -> None:
        self._writer = writer
        self._failed = failed
        self._stopping = SignalEvent()
        self._thread = threading.Thread(target=self._run, name="livestate-feeder", daemon=True)

    def _run(self) -> None:
        try:
            self._writer.run(self._stopping)
        except Unavailable as error:
            self._failed(error)

    def __enter__(self) -> Feeder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopping.set()
        self._thread.join()
