"""What a query gives back: metadata at once, batches as they come."""

from __future__ import annotations

import json
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol

import pyarrow as pa

from engine.model.schema import Epoch, GroupName


@lru_cache(maxsize=4096)
def _json_text(text: str) -> str:
    """A text in JSON. Groups and digests are the same in each answer until the next epoch."""
    return json.dumps(text)


@lru_cache(maxsize=1024)
def _counts_in_json(
    partitions_read: int,
    partitions: int,
    segments_read: int,
    segments: int,
    blocks_read: int,
    blocks: int,
    rows_read: int,
    rows: int,
) -> str:
    """Attributes of `QueryMetadata` in JSON. They are the same for each row that is looked up."""
    return (
        f'"partitions_read": {partitions_read}, "partitions": {partitions}, '
        f'"segments_read": {segments_read}, "segments": {segments}, '
        f'"blocks_read": {blocks_read}, "blocks": {blocks}, "rows_read": {rows_read}, "rows": {rows}'
    )


@dataclass(frozen=True)
class QueryMetadata:
    """What a query read, and how long the steps before its first batch took.

    Attributes:
        plan: Kind of its plan: `lookup`, `rows`, `count`, `summary`, `engine`, `catalog`, or `distributed`
            where several hosts took part. `hidden` where it would tell of rows that the client may not read.
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
        hosts: The hosts that read stores, in order of name; none where the host belongs to no deployment.
        fragments: How many fragments they ran.
        rules: Names of the rules by which the statement was split.
        bytes_moved: Arrow bytes that went between hosts up to the first batch.
        fallbacks: How often each fall-back was taken (`engine.exec.fallbacks.Fallback`), here and on other
            hosts.
        digests: Digests of the epochs' commits, by store group, as far as they are known: `epoch@digest` as
            `as_of` reads this epoch, and none that has its number in another history of the changelog.
        stale_seconds: How long ago, at most, the first commit was made that the answer lacks, as far as the
            hosts know; None where that is not known, as of a fragment, or no store was read.
        kept: Whether the answer was kept from when somebody asked the same of the same epochs. What was read
            is what was read then.
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
    hosts: tuple[str, ...] = ()
    fragments: int = 0
    rules: tuple[str, ...] = ()
    bytes_moved: int = 0
    fallbacks: Mapping[str, int] = field(default_factory=dict)
    digests: Mapping[GroupName, str] = field(default_factory=dict)
    stale_seconds: float | None = None
    kept: bool = False

    def replace_quickly(self, **changes: Any) -> QueryMetadata:
        """The same with other values of some attributes, for what is done thousands of times a second.

        Args:
            changes: The attributes.
        """
        # `dataclasses.replace` takes ten times as long, for every attribute.
        made = object.__new__(QueryMetadata)
        made.__dict__.update(self.__dict__, **changes)
        return made

    def to_json(self, statement: str = "") -> str:
        """The metadata as a JSON object of the attributes.

        Args:
            statement: The statement's id, which becomes the field `statement`; empty for none.
        """
        # Every lookup makes one: a template takes a fifth of the time of `json.dumps` for all.
        epochs = ", ".join([f"{_json_text(group)}: {epoch}" for group, epoch in self.epochs.items()])
        digests = ", ".join([f'{_json_text(group)}: "{digest}"' for group, digest in self.digests.items()])
        seconds = ", ".join([f'"{step}": {taken}' for step, taken in self.seconds.items()])
        stale = "null" if self.stale_seconds is None else self.stale_seconds
        counts = _counts_in_json(
            self.partitions_read,
            self.partitions,
            self.segments_read,
            self.segments,
            self.blocks_read,
            self.blocks,
            self.rows_read,
            self.rows,
        )
        return (
            f'{{"plan": "{self.plan}", "epochs": {{{epochs}}}, "age_seconds": {self.age_seconds}, '
            f'"digests": {{{digests}}}, "stale_seconds": {stale}, {counts}, "seconds": {{{seconds}}}, '
            f'"hosts": {json.dumps(self.hosts) if self.hosts else "[]"}, "fragments": {self.fragments}, '
            f'"rules": {json.dumps(self.rules) if self.rules else "[]"}, "bytes_moved": {self.bytes_moved}, '
            f'"fallbacks": {json.dumps(self.fallbacks) if self.fallbacks else "{}"}, '
            f'"kept": {"true" if self.kept else "false"}, "statement": "{statement}"}}'
        )


class Held(Protocol):
    """What is held for a result until it was read."""

    def close(self) -> None:
        """Let go of it."""


class Work(Protocol):
    """What makes the batches of a result."""

    def interrupt(self) -> None:
        """End it from another thread: its next batch is an error."""


class QueryResult:
    """A result that is read once, batch by batch.

    What it holds (pinned versions, the engine's statement) is freed when the last batch was read, at an
    error, on `close`, and at the latest when the object is forgotten.

    Args:
        schema: Schema of the batches.
        metadata: What was read.
        batches: The batches; a table where all of them are there already.
        held: What the result holds; None for nothing.
        work: What makes the batches, where they may take long.
        table_bytes: Arrow bytes of the table, where they are known.

    Attributes:
        metadata: What its client is told of what was read.
        table: All rows, where they are there already; else None.
        explain: Gives the lines of EXPLAIN for the plan that made it; None where nobody noted it.
        moved_bytes: Gives the Arrow bytes that went between hosts for it by now; None where none did.
    """

    def __init__(
        self,
        schema: pa.Schema,
        metadata: QueryMetadata,
        batches: Iterator[pa.RecordBatch] | pa.Table,
        held: Held | None = None,
        work: Sequence[Work] = (),
        *,
        table_bytes: int | None = None,
    ) -> None:
        self.schema = schema
        self.metadata = metadata
        self._whole_metadata: QueryMetadata | None = None
        self.explain: Callable[[], Sequence[str]] | None = None
        self.moved_bytes: Callable[[], int] | None = None
        self.table = batches if isinstance(batches, pa.Table) else None
        self._batches = _batches_of(self.table) if self.table is not None else batches
        self._table_bytes = table_bytes
        self._work = work
        self._busy = threading.RLock()
        self._closed = False
        self._release = None if held is None else weakref.finalize(self, held.close)
        if self._release is not None:
            # When the process ends, its memory goes with it.
            self._release.atexit = False

    @property
    def whole_metadata(self) -> QueryMetadata:
        """What was read, for the figures of the host, and for other hosts: also what its client may not
        know.
        """
        return self._whole_metadata or self.metadata

    def tell(self, metadata: QueryMetadata) -> None:
        """Have its client told something else than what was read.

        Args:
            metadata: What it may know.
        """
        self._whole_metadata = self.whole_metadata
        self.metadata = metadata

    @property
    def table_bytes(self) -> int:
        """Arrow bytes of the table; 0 where there is none. They are added up once."""
        if self._table_bytes is None:
            self._table_bytes = 0 if self.table is None else int(self.table.nbytes)
        return self._table_bytes

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        with self._busy:
            if self._closed:
                raise StopIteration
            batch = None
            try:
                batch = next(self._batches)
            finally:
                if batch is None:
                    self._finish()
            return batch

    def close(self) -> None:
        """Free what the result holds; batches not read yet are lost. May be called again, and from another
        thread.
        """
        self.interrupt()
        with self._busy:
            self._finish()

    def interrupt(self) -> None:
        """Make a batch that another thread waits for end soon. It is an error for that thread."""
        if not self._closed:
            for each in self._work:
                each.interrupt()

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


def _batches_of(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """The batches of a table, cut only when somebody asks."""
    yield from table.to_batches()
