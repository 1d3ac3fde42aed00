"""The disk of a host, as a crash, a loss of power or an old copy of it leave it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Protocol

from engine.errors import LimitExceeded
from engine.model.schema import GroupName
from engine.replica.reached_epoch import ReachedEpoch
from engine.state.memory_storage import MemoryStorage
from engine.state.storage import Pair, Range


@dataclass(frozen=True)
class Write:
    """One write of a partition.

    Attributes:
        pairs: What was written.
        removed: Ranges that were removed before.
        is_logged: Whether a crash of the process leaves it.
    """

    pairs: tuple[Pair, ...]
    removed: tuple[Range, ...] = ()
    is_logged: bool = True


class Died(BaseException):
    """The process ends here."""


class Moments(Protocol):
    """Has others do something between two steps of a process."""

    def come(self) -> None:
        """A moment in which others may do something."""


@dataclass
class Life:
    """How long a process lives.

    Attributes:
        steps: How many writes and requests it has left; None: it has no end in sight.
        moments: What there is between two of them.
    """

    steps: int | None = None
    moments: Moments | None = None

    def step(self) -> None:
        """Take one of them; or be gone."""
        if self.steps is not None:
            if not self.steps:
                raise Died
            self.steps -= 1
        if self.moments is not None:
            self.moments.come()


@dataclass
class Content:
    """What a disk has of one partition.

    Attributes:
        durable: Pairs that nothing takes away.
        writes: What was written since, in order.
    """

    durable: dict[bytes, bytes] = field(default_factory=dict)
    writes: list[Write] = field(default_factory=list)

    def settle(self, writes: Iterable[Write]) -> None:
        """Have some of the writes last, and none else."""
        storage = MemoryStorage()
        storage.write(self.durable.items())
        for write in writes:
            storage.write_atomically(write.pairs, write.removed)
        self.durable, self.writes = dict(storage.pairs(b"")), []


class SimulatedStorage(MemoryStorage):
    """An open partition, as RocksDB is: what is written through its log outlives the process, and a loss of
    power takes the end of it; all else is there after a flush only.

    Args:
        content: What the disk has of it.
        life: That of the process.
        disk: The disk.
    """

    def __init__(self, content: Content, life: Life, disk: Disk) -> None:
        super().__init__()
        self._content = content
        self._life = life
        self._disk = disk
        super().write(content.durable.items())

    def write(self, pairs: Iterable[Pair], *, logged: bool = True) -> None:
        """As `Storage.write`."""
        for pair in pairs:
            self._life.step()
            self._disk.take_write()
            self._content.writes.append(Write((pair,), is_logged=logged))
            super().write([pair])

    def write_atomically(self, pairs: Iterable[Pair], removed: Sequence[Range] = ()) -> None:
        """As `Storage.write_atomically`."""
        written = tuple(pairs)
        self._life.step()
        self._disk.take_write()
        self._content.writes.append(Write(written, tuple(removed)))
        super().write_atomically(written, removed)

    def flush(self) -> None:
        """As `Storage.flush`."""
        self._life.step()
        self._content.settle(self._content.writes)


@dataclass(frozen=True)
class Note:
    """A note of the epoch that a group has reached.

    Attributes:
        reached: The note.
        boot: In which boot of the machine it was written.
    """

    reached: ReachedEpoch
    boot: int


@dataclass(frozen=True)
class DiskCopy:
    """A copy of a disk.

    Attributes:
        contents: What it has of each partition.
        notes: The notes of groups.
    """

    contents: dict[Path, dict[bytes, bytes]]
    notes: dict[GroupName, Note]


@dataclass
class Disk:
    """What a host has on its disk.

    Attributes:
        contents: What there is of each partition, by their paths.
        notes: Notes of the epochs that groups have reached: a loss of power leaves them, though they may be
            newer than the partitions then.
        boot: How often the machine has lost its power.
        room: How many more writes there is room for; None: for all that come.
    """

    contents: dict[Path, Content] = field(default_factory=dict)
    notes: dict[GroupName, Note] = field(default_factory=dict)
    boot: int = 0
    room: int | None = None

    def take_write(self) -> None:
        """Take one write more; or be full."""
        if self.room is not None:
            if not self.room:
                raise LimitExceeded("The disk is full.")
            self.room -= 1

    def open(self, path: Path, life: Life) -> SimulatedStorage:
        """Open a partition, after its process has ended in one way or another."""
        content = self.contents.setdefault(path, Content())
        content.settle(write for write in content.writes if write.is_logged)
        return SimulatedStorage(content, life, self)

    def move(self, path: Path, target: Path) -> None:
        """Give what there is of a partition another place."""
        if path in self.contents:
            self.contents[target] = self.contents.pop(path)

    def delete(self, directory: Path, life: Life) -> bool:
        """Delete the partitions below a directory, one after the other; whether there were any."""
        found = [path for path in self.contents if directory in path.parents]
        for path in found:
            life.step()
            del self.contents[path]
        return bool(found)

    def lose_power(self, draw: Random) -> None:
        """Of each partition, lose what was written last and is not safe yet."""
        self.boot += 1
        for content in self.contents.values():
            kept = content.writes[: draw.randint(0, len(content.writes))]
            content.settle(write for write in kept if write.is_logged)

    def lose_partition(self, draw: Random) -> None:
        """Lose all that there is of one partition, or of all that share its place."""
        if self.contents:
            del self.contents[draw.choice(sorted(self.contents))]

    def flip_bit(self, draw: Random) -> None:
        """Have something else in one place than was written, once no process has it open."""
        for content in self.contents.values():
            content.settle(write for write in content.writes if write.is_logged)
        found = [
            (path, key)
            for path, content in self.contents.items()
            for key in content.durable
            if content.durable[key]
        ]
        if found:
            path, key = draw.choice(sorted(found))
            data = bytearray(self.contents[path].durable[key])
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
            self.contents[path].durable[key] = bytes(data)

    def clear(self) -> None:
        """Have nothing any more."""
        self.contents.clear()
        self.notes.clear()

    def copy(self) -> DiskCopy:
        """What would be found after a crash."""
        found = {}
        for path, content in self.contents.items():
            copied = Content(dict(content.durable), list(content.writes))
            copied.settle(write for write in copied.writes if write.is_logged)
            found[path] = copied.durable
        return DiskCopy(found, dict(self.notes))

    def restore(self, copy: DiskCopy) -> None:
        """Have what a copy has."""
        self.contents = {path: Content(dict(pairs)) for path, pairs in copy.contents.items()}
        self.notes = dict(copy.notes)
