"""A partition's storage, and in front of it the blocks of small segments that are not written yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa

from engine.state.damage import DamagedError
from engine.state.formats import SegmentId, encode_block, segment_of_block, segments_of_blocks
from engine.state.storage import Pair, Range, Storage


class BufferedStorage:
    """Implements `engine.state.storage.Storage`. `get` and `get_all` find a buffered block as if it were
    written; all else is as the storage has it.

    A buffered block is encoded when it is written, or when somebody reads it that the cache has let go of.
    Most never are: a merge takes their segment in before.

    Args:
        storage: Where bytes are stored.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._buffered: dict[SegmentId, Mapping[bytes, pa.Array]] = {}

    @property
    def damage(self) -> str:
        """As `Storage.damage`."""
        return self._storage.damage

    @damage.setter
    def damage(self, what: str) -> None:
        self._storage.damage = what

    def add(self, segment: SegmentId, blocks: Mapping[bytes, pa.Array]) -> None:
        """Have blocks found here from now on.

        Args:
            segment: Of which segment they are.
            blocks: Each block by its key; all of the segment.
        """
        self._buffered[segment] = blocks

    def has(self, segment: SegmentId) -> bool:
        """Whether the blocks of a segment are here, and were never written."""
        return segment in self._buffered

    def encode_buffered(self, segments: Iterable[SegmentId]) -> Iterator[Pair]:
        """What is to be written of the blocks of some segments; nothing of those that are not here."""
        for segment in segments:
            for key, block in self._buffered.get(segment, {}).items():
                yield key, encode_block(block)

    def release(self, segments: Iterable[SegmentId]) -> None:
        """Drop the blocks of some segments: they are written, or nobody reads them any more."""
        for segment in segments:
            self._buffered.pop(segment, None)

    def _buffered_block(self, key: bytes) -> pa.Array | None:
        blocks = self._buffered.get(segment_of_block(key))
        return None if blocks is None else blocks.get(key)

    def get(self, key: bytes) -> bytes | None:
        """As `Storage.get`."""
        block = self._buffered_block(key) if self._buffered else None
        return self._storage.get(key) if block is None else encode_block(block)

    def get_all(self, keys: Sequence[bytes]) -> list[bytes | None]:
        """As `Storage.get_all`."""
        if not self._buffered or self._buffered.keys().isdisjoint(segments_of_blocks(keys)):
            return self._storage.get_all(keys)
        return [self.get(key) for key in keys]

    @contextmanager
    def _note_damage(self) -> Iterator[None]:
        """Note what is damaged: whoever writes, an epoch or a merge, can do nothing about it."""
        try:
            yield
        except DamagedError as error:
            self.damage = error.what
            raise

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """As `Storage.write`."""
        with self._note_damage():
            self._storage.write(pairs, logged=logged)

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """As `Storage.write_atomically`."""
        with self._note_damage():
            self._storage.write_atomically(pairs, removed)

    def flush(self) -> None:
        """As `Storage.flush`."""
        with self._note_damage():
            self._storage.flush()

    def reclaim(self, *, is_whole: bool = False, within: Range | None = None) -> None:
        """As `Storage.reclaim`."""
        with self._note_damage():
            self._storage.reclaim(is_whole=is_whole, within=within)

    def pairs(self, prefix: bytes) -> Iterator[Pair]:
        """As `Storage.pairs`."""
        return self._storage.pairs(prefix)

    def beginnings(self, length: int, within: Range | None = None) -> Sequence[bytes]:
        """As `Storage.beginnings`."""
        return self._storage.beginnings(length, within)

    def figures(self) -> Mapping[str, int]:
        """As `Storage.figures`."""
        return self._storage.figures()

    def close(self) -> None:
        """As `Storage.close`. What is held can be read still."""
        self._storage.close()
