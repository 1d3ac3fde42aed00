"""The process that makes play events: `python -m flight_server.cli.demo.generator DIRECTORY`, or `--kafka
HOST:PORT`.

It writes a small Parquet file several times a second, under a hidden name that it then renames, so that
Spark's file source never sees half a file; or it sends messages to a Kafka broker as often. An event's time
is the moment at which it was made; waiting for its file to be written is part of its way to the reader, and
of the freshness that the demo shows.
"""

from __future__ import annotations

import argparse
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flight_server.cli.demo.songs import SONGS

FILE_SECONDS = 0.1
USERS = 100_000
LONGEST_PLAY_SECONDS = 360
EXPONENT = 0.9
"""Of Zipf's law. Over 10,000 songs the first gets about 6 % of all plays, the first hundred 40 %."""
BLOCK = 4096
"""Events are drawn in blocks of this many, so that their order depends on the seed alone and not on the
files' sizes.
"""
HIT_BLOCKS = 8
HIT_SHARE = 0.02
"""Every `HIT_BLOCKS` blocks another song is the hit, with this share of all plays, so that the
charts move.
"""


class Plays:
    """Draws play events.

    Args:
        songs: How many songs there are; their ids count from 1.
        seed: Equal seeds draw equal events, but for their times.
    """

    def __init__(self, songs: int = SONGS, seed: int = 1) -> None:
        self._random = np.random.default_rng(seed)
        weights = np.arange(1, songs + 1, dtype=np.float64) ** -EXPONENT
        self._reach = np.cumsum(weights) / weights.sum()
        self._ranked = self._random.permutation(songs) + 1
        self._blocks = 0
        self._drawn = pa.table(
            {
                "song_id": np.empty(0, np.int64),
                "user_id": np.empty(0, np.int64),
                "duration_seconds": np.empty(0, np.int32),
            }
        )

    def draw(self, count: int, since: float, until: float) -> pa.Table:
        """The next events.

        Args:
            count: How many.
            since: When the first was made, seconds since 1970 UTC.
            until: When the last was made.

        Returns:
            `song_id`, `user_id` (int64), `duration_seconds` (int32), `event_time` (timestamp[us, UTC],
            ascending).
        """
        while self._drawn.num_rows < count:
            self._drawn = pa.concat_tables([self._drawn, self._block()])
        events, self._drawn = self._drawn.slice(0, count), self._drawn.slice(count)
        times = pa.array((np.linspace(since, until, count) * 1e6).astype(np.int64))
        return events.append_column("event_time", times.cast(pa.timestamp("us", "UTC")))

    def _block(self) -> pa.Table:
        ranks = np.minimum(np.searchsorted(self._reach, self._random.random(BLOCK)), len(self._ranked) - 1)
        ranks[self._random.random(BLOCK) < HIT_SHARE] = self._blocks // HIT_BLOCKS * 7919 % len(self._ranked)
        self._blocks += 1
        return pa.table(
            {
                "song_id": self._ranked[ranks].astype(np.int64),
                "user_id": self._random.integers(1, USERS + 1, BLOCK),
                "duration_seconds": self._random.integers(1, LONGEST_PLAY_SECONDS + 1, BLOCK, dtype=np.int32),
            }
        )


@dataclass(frozen=True)
class Schedule:
    """When to make how many events.

    Attributes:
        rate: Events a second.
        file_seconds: Time between two files.
    """

    rate: float
    file_seconds: float = FILE_SECONDS

    def due(self, elapsed: float, made: int) -> int:
        """How many events are due, so that a late file catches up and the rate holds.

        Args:
            elapsed: Seconds since the start.
            made: Events made so far.
        """
        return max(0, int(elapsed * self.rate) - made)


def generate(
    write: Callable[[int, pa.Table], None], plays: Plays, schedule: Schedule, stop: threading.Event
) -> int:
    """Make events until told to stop.

    Args:
        write: Takes events, with the number of the call, from 1.
        plays: What draws the events.
        schedule: How many, and how often.
        stop: Ends the loop; what is underway is finished.

    Returns:
        How many events were written.
    """
    start = previous = time.time()
    made = number = 0
    while not stop.wait(max(0.0, start + (number + 1) * schedule.file_seconds - time.time())):
        number += 1
        now = time.time()
        count = schedule.due(now - start, made)
        if not count:
            continue
        write(number, plays.draw(count, previous, now))
        made += count
        previous = now
    return made


def write_file(directory: Path, number: int, events: pa.Table) -> None:
    """Write one file of events so that it appears whole.

    Args:
        directory: Where it goes.
        number: Its place in the order of files.
        events: Its rows.
    """
    hidden = directory / f".plays-{number:08d}"
    # A few hundred rows are written and read faster plain than compressed.
    pq.write_table(events, hidden, compression="none", use_dictionary=False)
    hidden.rename(directory / f"plays-{number:08d}.parquet")


def main(arguments: list[str]) -> int:
    """Run the generator until SIGTERM.

    Args:
        arguments: The command line, without the program.

    Returns:
        The exit code.
    """
    parser = argparse.ArgumentParser(
        prog="python -m flight_server.cli.demo.generator",
        description="Write play events for the music charts.",
    )
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("directory", type=Path, nargs="?", help="where the files go")
    place.add_argument("--kafka", metavar="HOST:PORT", help="a broker, for messages instead of files")
    parser.add_argument("--rate", type=float, default=6000.0, help="events a second")
    parser.add_argument("--songs", type=int, default=SONGS, help="how many songs there are")
    parser.add_argument("--seed", type=int, default=1, help="equal seeds draw equal events")
    options = parser.parse_args(arguments)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stop.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    generate(
        _writer(options.directory, options.kafka),
        Plays(options.songs, options.seed),
        Schedule(options.rate),
        stop,
    )
    return 0


def _writer(directory: Path, bootstrap: str | None) -> Callable[[int, pa.Table], None]:
    if bootstrap is None:
        return partial(write_file, directory)
    from flight_server.cli.demo.topic import PlaysProducer  # noqa: PLC0415  only this way needs Kafka's client

    return PlaysProducer(bootstrap)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
