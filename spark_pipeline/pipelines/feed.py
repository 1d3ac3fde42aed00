"""Makes a pipeline's events as they happen, for a job that runs elsewhere: `python -m
spark_pipeline.pipelines.feed --help`.

An event's time is the moment at which it was made. Waiting for its file or message to be written is part of
its way to the reader.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from engine.errors import LivestateError
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.feeding import EventWriter, Feed, FileFeed


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_pipeline.pipelines.feed",
        description="Write a pipeline's events to files or topics as they happen, until SIGTERM.",
    )
    parser.add_argument("pipeline", choices=list(PIPELINES), metavar="PIPELINE", help="whose events")
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--directory", type=Path, metavar="DIR", help="files go to DIR/TOPIC")
    place.add_argument("--bootstrap", metavar="HOST:PORT", help="Kafka brokers, which have the topics")
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second; 1000 by default")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds make equal events, but for times")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Write events until SIGTERM.

    Args:
        arguments: The command line, without the program.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    topics = PIPELINES[options.pipeline].topics
    try:
        feed = _feed(options.directory, options.bootstrap)
        EventWriter(feed, topics, options.rate, options.seed, is_live=True).run(stopping)
    except LivestateError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1
    return 0


def _feed(directory: Path | None, bootstrap: str | None) -> Feed:
    if directory is not None:
        return FileFeed(directory)
    from spark_pipeline.pipelines.kafka_feed import KafkaFeed  # noqa: PLC0415  only this way needs Kafka's client

    assert bootstrap is not None, "one of the two is required"
    return KafkaFeed(bootstrap)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
