"""A process that appends epochs at a steady pace while something else is measured."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from multiprocessing.synchronize import Event

from benchmarks.workload import EPOCH_ROWS, STORE, Expected, KeyType, check, definition, random_upserts
from engine.changelog import Changelog, open_appender


@dataclass(frozen=True)
class Epochs:
    """Epochs of random upserts.

    Attributes:
        keys: How many keys there are.
        count: How many epochs.
        rows: Rows of each.
        each_second: How many land in a second.
        seed: Where the rows come from.
    """

    keys: int
    count: int
    rows: int = EPOCH_ROWS
    each_second: float = 3.0
    seed: int = 9

    @property
    def seconds(self) -> float:
        """How long they take to land."""
        return self.count / self.each_second

    def upsert_into(self, expected: Expected) -> None:
        """Take all their rows over into what the store must contain."""
        for rows in random_upserts(self.keys, self.count, self.rows, self.seed):
            expected.upsert(rows)


@contextmanager
def writer_process(changelog: str, epochs: Epochs) -> Iterator[BaseProcess]:
    """Append epochs in another process, from the beginning of the block on; its end waits until all have been
    appended.

    Args:
        changelog: URI of the changelog.
        epochs: The epochs.

    Yields:
        The process, which ends with the last epoch.
    """
    spawning = multiprocessing.get_context("spawn")
    begun = spawning.Event()
    writer = spawning.Process(target=_write, args=(changelog, epochs, begun))
    writer.start()
    begun.wait()
    yield writer
    writer.join()
    check("exit code of the writer", writer.exitcode, 0)


def _write(changelog: str, epochs: Epochs, begun: Event) -> None:
    appender = open_appender(Changelog.open(changelog), [definition()])
    upserts = random_upserts(epochs.keys, epochs.count, epochs.rows, epochs.seed)
    batches = [rows.to_arrow(KeyType.INT64) for rows in upserts]
    begun.set()
    start = time.monotonic()
    for number, batch in enumerate(batches):
        time.sleep(max(0.0, start + number / epochs.each_second - time.monotonic()))
        appender.append({STORE: batch})
