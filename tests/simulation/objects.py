"""An object store as a network and its maker leave it: requests fail, or take effect and nobody hears of it,
or are made twice, or take effect long after they were given up; lists lag behind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Protocol

import pyarrow as pa

from engine.changelog.layout import MARKS_PATH, amendment_path, is_amendment
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects, open_objects
from engine.errors import Unavailable
from tests.simulation.disk import Life
from tests.simulation.files import Machine, SimulatedPath
from tests.simulation.kinds import GROUP

MOST_LAG = 40
"""Changes of the store that a list may not know of."""
LATE_ONE_IN = 8
"""Of the requests of others, that which one that was given up comes before."""


class Reader(Protocol):
    """Reads commits as soon as they are there."""

    def read_commits(self) -> None:
        """Read those that are new."""


@dataclass
class ObjectStore:
    """What is stored, and what was lately. It can be copied, and put back as it was in a copy.

    Attributes:
        machine: Where the objects are files of a directory, the machine that has it; None where they are in
            an object store.
        objects: The objects.
        now: Gives the time, microseconds since 1970 UTC.
        counts: How often what went wrong.
        reader: Reads all commits.
        has_news: Whether there may be commits that it has not read.
        lost_amendments: What the amendments were that there are no more, by path, at each time that all was
            restored.
    """

    machine: Machine | None
    now: Callable[[], int]
    reader: Reader
    counts: Counter[str] = field(default_factory=Counter)
    has_news: bool = False
    objects: Objects = field(init=False)
    lost_amendments: list[dict[str, pa.Buffer]] = field(default_factory=list)
    _changes: list[tuple[str, bool]] = field(default_factory=list)
    _late: list[Callable[[], object]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.objects = (
            open_objects("memory://", {})
            if self.machine is None
            else LocalObjects(SimulatedPath(self.machine) / "changelog")  # type: ignore[arg-type]
        )

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """Write an object."""
        self.objects.put(path, chunks)
        self._changes.append((path, True))

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """Write an object unless there is one."""
        if is_amendment(path):
            self.reader.read_commits()  # they may be others afterwards
        self.has_news |= path.endswith(".commit") or is_amendment(path)
        won = self.objects.create(path, chunks)
        if won:
            self._changes.append((path, True))
        return won

    def delete(self, path: str) -> None:
        """Remove an object."""
        if path.endswith((".commit", ".arrow")):
            self.reader.read_commits()
        if self.objects.exists(path):
            self.objects.delete([path])
            self._changes.append((path, False))

    def paths(self, directory: str, lag: int) -> list[str]:
        """What a list says that does not know of the last changes."""
        found = set(self.objects.list(directory))
        for path, is_there in reversed(self._changes[len(self._changes) - lag :] if lag else []):
            if path.startswith(directory + "/"):
                (found.discard if is_there else found.add)(path)
        return sorted(found)

    @property
    def can_lag(self) -> bool:
        """Whether lists do so."""
        return self.machine is None

    def send_late(self, request: Callable[[], object]) -> None:
        """Have a request take effect at some later time, or never."""
        self._late.append(request)

    def receive_late(self, draw: Random) -> None:
        """Have one of the late requests take effect, at times."""
        if self._late and not draw.randrange(LATE_ONE_IN):
            self.counts["late request"] += 1
            self._late.pop(draw.randrange(len(self._late)))()

    def forget_late(self) -> None:
        """Have no request take effect any more."""
        self._late.clear()

    def copy(self) -> dict[str, pa.Buffer]:
        """All objects."""
        paths = [path.lstrip("/") for path in self.objects.list("")]
        found = {path: self.objects.get(path) for path in paths}
        return {path: data for path, data in found.items() if data is not None}

    def restore(self, copy: dict[str, pa.Buffer]) -> None:
        """Have exactly the objects of a copy. Their names do not lag, and nothing from before comes late:
        that is long ago for everybody.
        """
        self.reader.read_commits()
        self.has_news = True
        self._changes.clear()
        self.forget_late()
        before = self.copy()
        amendments = {path: data for path, data in before.items() if is_amendment(path)}
        if any(path not in copy or not copy[path].equals(data) for path, data in amendments.items()):
            self.lost_amendments.append(amendments)
        self.objects.delete(list(before))
        for path, data in copy.items():
            self.objects.create(path, [data])


class HeardObjects:
    """The objects of a store as who remembers or lacks some amendments takes them; of `Objects` what readers
    use.

    Args:
        objects: The objects.
        remembered: Amendments that may be others by now, by path.
        most: The number of the last amendment of the group that was heard of; None where all were.
    """

    requests_at_once = 1

    def __init__(
        self, objects: Objects, remembered: Mapping[str, pa.Buffer], most: int | None = None
    ) -> None:
        self._objects = objects
        self._remembered = remembered
        self._first_unheard = None if most is None else amendment_path(GROUP, most + 1)

    def _is_unheard(self, path: str) -> bool:
        return self._first_unheard is not None and is_amendment(path) and path >= self._first_unheard

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        if self._is_unheard(path):
            return None
        return self._remembered.get(path) or self._objects.get(path)

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        return path in self._remembered or (not self._is_unheard(path) and self._objects.exists(path))

    def settle(self, path: str) -> None:
        """See `Objects.settle`; what is remembered may not be there."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)


class RestoredObjects:
    """The objects of a store as a restore writes them, which others see come to be, and which may die; of
    `Objects` what it uses. Before its first mark nobody can know of it.

    Args:
        objects: The objects.
        life: That of the restore.
    """

    requests_at_once = 1

    def __init__(self, objects: Objects, life: Life) -> None:
        self._objects = objects
        self._life = life

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        if not path.startswith(MARKS_PATH):
            self._life.step()
        return self._objects.create(path, chunks)

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        for path in paths:
            self._life.step()
            self._objects.delete([path])

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)


class UnreliableObjects:
    """The objects of a store as one process gets at them; implements `Objects`.

    Args:
        store: The store.
        draw: Says what happens.
        life: That of the process.

    Attributes:
        trouble: How many of a hundred requests go wrong in one way or another.
    """

    requests_at_once = 1

    def __init__(self, store: ObjectStore, draw: Random, life: Life) -> None:
        self.trouble = 0
        self._life = life
        self._store = store
        self._draw = draw

    def _has_trouble(self) -> bool:
        return self._draw.randrange(100) < self.trouble

    def _send(self, late: Callable[[], object] | None = None) -> None:
        """Send a request.

        Args:
            late: What it does, if it changes something.
        """
        self._life.step()
        self._store.receive_late(self._draw)
        if self._has_trouble():
            self._store.counts["lost request"] += 1
            if late is not None and self._draw.randrange(2):
                self._store.send_late(late)
            raise Unavailable("The request did not arrive.")

    def _hear(self) -> None:
        self._life.step()
        if self._has_trouble():
            self._store.counts["lost answer"] += 1
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
        self._send(partial(self._store.create, path, chunks))
        self._store.put(path, chunks)
        self._hear()

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`. A request that is made twice meets its own object."""
        self._send(partial(self._store.create, path, chunks))
        won = self._store.create(path, chunks)
        self._hear()
        if won and self._has_trouble():
            self._store.counts["request made twice"] += 1
            return False
        return won

    def settle(self, path: str) -> None:
        """See `Objects.settle`."""
        self._store.objects.settle(path)

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        self._send()
        lags = self._store.can_lag and self._has_trouble()
        self._store.counts["lagging list"] += lags
        found = self._store.paths(directory, self._draw.randrange(MOST_LAG) if lags else 0)
        yield from (path for path in found if path > behind)

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        self._send()
        return self._store.objects.dated_objects(directory)

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`. An object store shows none."""
        return iter(())

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`. Those that are deleted together go in any order."""
        for path in self._draw.sample(list(paths), len(paths)):
            self._send(partial(self._store.delete, path))
            self._store.delete(path)
            self._hear()

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        self._send()
        return self._store.now()

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"The simulation has no {name} of objects.")
