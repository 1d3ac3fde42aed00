"""What a query gives back: metadata at once, batches as they come."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from engine.schema import Epoch, GroupName


@dataclass(frozen=True)
class QueryMetadata:
    """What a query read, and how long the steps before its first batch took.

    Attributes:
        plan: Kind of its plan: `lookup`, `rows`, `count`, `engine` or `catalog`.
        epochs: The epoch of each store group it read.
        age_seconds: Age of the oldest of these epochs; 0 when it read no store.
        partitions_read: Partitions of the stores that were read, and of how many.
        partitions: Partitions of the stores in all.
        segments_read: Likewise segments. Lookups do not count theirs.
        segments: Segments of the stores in all.
        blocks_read: Likewise blocks.
        blocks: Blocks of the stores in all.
        rows_read: Stored rows read.
        rows: Stored rows in all.
        seconds: Time of each step.
    """

    plan: str
    epochs: Mapping[GroupName, Epoch] = field(default_factory=dict)
    age_seconds: float = 0.0
    partitions_read: int = 0
    partitions: int = 0
    segments_read: int = 0
    segments: int = 0
    blocks_read: int = 0
    blocks: int = 0
    rows_read: int = 0
    rows: int = 0
    seconds: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> str:
        """The metadata as a JSON object of the attributes."""
        return json.dumps({**vars(self), "epochs": dict(self.epochs), "seconds": dict(self.seconds)})


class QueryResult:
    """A result that is read once, batch by batch.

    What it holds (pinned versions, the engine's statement) is freed when the last batch was read, at an error, on `close`,
    and at the latest when the object is forgotten.

    Args:
        schema: Schema of the batches.
        metadata: What was read.
        batches: The batches; a tuple where all of them are there already.
        release: Frees what the result holds; None if it holds nothing.
        interrupt: Makes a batch that another thread waits for end soon; None if batches never take long.
    """

    def __init__(
        self,
        schema: pa.Schema,
        metadata: QueryMetadata,
        batches: Iterator[pa.RecordBatch] | tuple[pa.RecordBatch, ...],
        release: Callable[[], None] | None = None,
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        self.schema = schema
        self.metadata = metadata
        self.ready = batches if isinstance(batches, tuple) else None
        self._batches = iter(batches)
        self._interrupt = interrupt
        self._busy = threading.RLock()
        self._closed = False
        self._release = None if release is None else weakref.finalize(self, release)
        if self._release is not None:
            # When the process ends, its memory goes with it.
            self._release.atexit = False

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._busy:
            if self._closed:
                raise StopIteration
            try:
                return next(self._batches)
            except BaseException:
                self._finish()
                raise

    def close(self) -> None:
        """Free what the result holds; batches not read yet are lost. May be called again, and from another thread."""
        if self._interrupt is not None and not self._closed:
            self._interrupt()
        with self._busy:
            self._finish()

    def _finish(self) -> None:
        if not self._closed:
            self._closed = True
            if self._release is not None:
                self._release()

    def read_all(self) -> pa.Table:
        """All batches that are left, as one table."""
        return pa.Table.from_batches(list(self), self.schema)

    def __enter__(self) -> QueryResult:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()
