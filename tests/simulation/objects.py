"""An object store as a network and its maker leave it: requests fail, or take effect and nobody hears of it,
or are made twice; lists lag behind.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa

from engine.changelog.layout import STORES_PATH
from engine.changelog.objects import Objects, open_objects
from engine.errors import Unavailable
from tests.simulation.disk import Life

MOST_LAG = 40
"""Changes of the store that a list may not know of."""


@dataclass
class ObjectStore:
    """What is stored, and what was lately. It can be copied, and put back as it was in a copy.

    Attributes:
        objects: The objects.
    """

    objects: Objects = field(default_factory=lambda: open_objects("memory://", {}))
    _changes: list[tuple[str, bool]] = field(default_factory=list)

    def note_change(self, path: str, *, is_there: bool) -> None:
        """Take note of an object that was made or deleted."""
        self._changes.append((path, is_there))

    def paths(self, directory: str, lag: int) -> list[str]:
        """What a list says that does not know of the last changes."""
        found = set(self.objects.list(directory))
        for path, is_there in reversed(self._changes[len(self._changes) - lag :] if lag else []):
            if path.startswith(directory + "/"):
                (found.discard if is_there else found.add)(path)
        return sorted(found)

    def copy(self) -> dict[str, pa.Buffer]:
        """All objects."""
        found = {path: self.objects.get(path) for path in self.objects.list("")}
        return {path: data for path, data in found.items() if data is not None}

    def restore(self, copy: dict[str, pa.Buffer]) -> None:
        """Have exactly the objects of a copy. Their names do not lag: that is long ago for everybody."""
        self._changes.clear()
        self.objects.delete(list(self.objects.list("")))
        for path, data in copy.items():
            self.objects.create(path, [data])


class UnreliableObjects:
    """The objects of a store as one process gets at them; implements `Objects`.

    Args:
        store: The store.
        draw: Says what happens.
        life: That of the process.

    Attributes:
        trouble: How many of a hundred requests go wrong in one way or another.
    """

    def __init__(self, store: ObjectStore, draw: Random, life: Life) -> None:
        self.trouble = 0
        self._life = life
        self._store = store
        self._draw = draw

    def _has_trouble(self) -> bool:
        return self._draw.randrange(100) < self.trouble

    def _send(self) -> None:
        self._life.step()
        if self._has_trouble():
            raise Unavailable("The request did not arrive.")

    def _hear(self) -> None:
        self._life.step()
        if self._has_trouble():
            raise Unavailable("The answer did not arrive.")

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        self._send()
        return self._store.objects.get(path)

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`."""
        self._send()
        return self._store.objects.get_ranges(path, size, ranges)

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        self._send()
        return self._store.objects.exists(path)

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        self._send()
        self._store.objects.put(path, chunks)
        self._store.note_change(path, is_there=True)
        self._hear()

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`. A request that is made twice meets its own object."""
        self._send()
        won = self._store.objects.create(path, chunks)
        if won:
            self._store.note_change(path, is_there=True)
        self._hear()
        return won and not self._has_trouble()

    def settle(self, path: str) -> None:
        """See `Objects.settle`."""

    def list(self, directory: str) -> Iterator[str]:
        """See `Objects.list`."""
        self._send()
        lags = directory != STORES_PATH and self._has_trouble()
        yield from self._store.paths(directory, self._draw.randrange(MOST_LAG) if lags else 0)

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        for path in paths:
            self._send()
            if self._store.objects.exists(path):
                self._store.objects.delete([path])
                self._store.note_change(path, is_there=False)
            self._hear()

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        self._send()
        return self._store.objects.current_time()
