"""Makes a pipeline's events as they happen, for a job that runs elsewhere: `livestate feed --help`.

An event's time is the moment at which it was made. Waiting for its file or message to be written is part of
its way to the reader.
"""

from __future__ import annotations

import signal
from pathlib import Path

from engine.processes.signal_event import SignalEvent
from spark_pipeline.pipelines.feeding import EventWriter, Feed, FileFeed
from spark_pipeline.pipelines.pipeline import Pipeline


def run_feed(
    pipeline: Pipeline, directory: Path | None, bootstrap: str | None, rate: float, seed: int
) -> None:
    """Write events until SIGTERM.

    Args:
        pipeline: Whose events.
        directory: Where files go; None: messages go to topics.
        bootstrap: Kafka brokers, which have the topics; needed without a directory.
        rate: Events a second.
        seed: Equal seeds make equal events, but for their times.

    Raises:
        Unavailable: They cannot be written.
    """
    stopping = SignalEvent()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    feed = _feed(directory, bootstrap)
    EventWriter(feed, pipeline.topics, rate, seed, is_live=True).run(stopping)


def _feed(directory: Path | None, bootstrap: str | None) -> Feed:
    if directory is not None:
        return FileFeed(directory)
    from spark_pipeline.pipelines.kafka_feed import KafkaFeed  # noqa: PLC0415  only this way needs Kafka's client

    assert bootstrap is not None, "one of the two is required"
    return KafkaFeed(bootstrap)
