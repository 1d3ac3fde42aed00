"""The files of a machine that can lose its power: what was not synced is lost or torn.

What `engine.changelog.local_objects` uses of `os` and of `Path` is here, over memory.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from types import SimpleNamespace
from typing import Any

from tests.simulation.disk import Life


@dataclass
class File:
    """A file.

    Attributes:
        content: Its bytes, as everybody sees them.
        is_synced: Whether a loss of power leaves them.
        written_at: Nanoseconds since 1970 UTC.
    """

    content: bytes = b""
    is_synced: bool = False
    written_at: int = 0


@dataclass
class Directory:
    """A directory.

    Attributes:
        entries: What is in it, as everybody sees it.
        changes: Names that have changed since it was synced, in order, and what each was before.
    """

    entries: dict[str, File | Directory] = field(default_factory=dict)
    changes: list[tuple[str, File | Directory | None]] = field(default_factory=list)

    def change(self, name: str, node: File | Directory | None) -> None:
        """Give a name to something; None takes the name away."""
        self.changes.append((name, self.entries.get(name)))
        self._set(name, node)

    def _set(self, name: str, node: File | Directory | None) -> None:
        if node is None:
            self.entries.pop(name, None)
        else:
            self.entries[name] = node

    def sync(self) -> None:
        """Have all of it on the disk."""
        self.changes.clear()
        for node in self.entries.values():
            if isinstance(node, Directory):
                node.sync()
            else:
                node.is_synced = True

    def lose_power(self, draw: Random) -> int:
        """Take back changes of names that are not synced, the last ones first, and tear what files have; how
        much of both there was.
        """
        lost = draw.randint(0, len(self.changes))
        for name, before in reversed(self.changes[len(self.changes) - lost :]):
            self._set(name, before)
        self.changes.clear()
        for node in self.entries.values():
            if isinstance(node, Directory):
                lost += node.lose_power(draw)
            elif not node.is_synced:
                size = len(node.content)
                kept = draw.randint(0, size)
                node.content = node.content[:kept] + bytes(draw.choice([0, size - kept]))
                node.is_synced, lost = True, lost + 1
        return lost


class Machine:
    """A machine with files, and its power.

    Args:
        now: Gives the time, microseconds since 1970 UTC.

    Attributes:
        life: Each call of the system is a step of it. When it has none left, the power is gone.
        is_watched: Whether calls only look at it, and do nothing to it.
        root: All its files.
        os: What there is of `os`.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self.life = Life()
        self.is_watched = False
        self.root = Directory()
        self.now = now
        self._open: dict[int, File | Directory] = {}
        self._numbers = count(3)
        self.os = SimpleNamespace(
            O_RDONLY=os.O_RDONLY,
            O_DIRECTORY=os.O_DIRECTORY,
            strerror=os.strerror,
            fspath=os.fspath,
            open=self._open_directory,
            close=self.close,
            fsync=self._sync,
            stat=self._find_by_text,
            fstat=lambda number: self.status(self._open[number]),
            preadv=self._read,
            link=self._link,
            scandir=self._list,
        )

    @property
    def has_power(self) -> bool:
        """Whether it has."""
        return self.life.steps is None or self.life.steps > 0

    def lose_power(self, draw: Random) -> int:
        """Lose what is not synced, and start again; how much that was."""
        self.life.steps = None
        self._open.clear()
        return self.root.lose_power(draw)

    def step(self) -> None:
        """Do one thing more; or the power is gone."""
        if not self.is_watched:
            self.life.step()

    def find(self, parts: tuple[str, ...]) -> File | Directory:
        """What has a name."""
        node: File | Directory = self.root
        for part in parts:
            if not isinstance(node, Directory):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if part not in node.entries:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
            node = node.entries[part]
        return node

    def directory(self, parts: tuple[str, ...]) -> Directory:
        """The directory that has a name."""
        node = self.find(parts)
        if not isinstance(node, Directory):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        return node

    def open(self, node: File | Directory) -> int:
        """A number for something that is open."""
        number = next(self._numbers)
        self._open[number] = node
        return number

    def _open_directory(self, path: SimulatedPath, flags: int) -> int:
        self.step()
        return self.open(self.directory(path.parts))

    def close(self, number: int) -> None:
        """Close what is open."""
        self._open.pop(number, None)

    def _sync(self, number: int) -> None:
        self.step()
        node = self._open[number]
        if self.is_watched:
            return
        if isinstance(node, File):
            node.is_synced = True
        else:
            node.changes.clear()

    @staticmethod
    def status(node: File | Directory) -> SimpleNamespace:
        """What `os.stat` says of something."""
        content, at = (node.content, node.written_at) if isinstance(node, File) else (b"", 0)
        return SimpleNamespace(st_size=len(content), st_mtime_ns=at)

    def _find_by_text(self, path: str) -> object:
        self.step()
        return self.find(tuple(path.strip("/").split("/")))

    def _read(self, number: int, views: list[memoryview], start: int) -> int:
        node = self._open[number]
        assert isinstance(node, File)
        found = node.content[start : start + len(views[0])]
        views[0].cast("B")[: len(found)] = found
        return len(found)

    def _link(self, source: SimulatedPath, target: SimulatedPath) -> None:
        self.step()
        node, directory = self.find(source.parts), self.directory(target.parts[:-1])
        if target.name in directory.entries:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
        directory.change(target.name, node)

    @contextmanager
    def _list(self, path: SimulatedPath) -> Iterator[Iterator[Any]]:
        self.step()
        entries = list(self.directory(path.parts).entries.items())
        yield (
            SimpleNamespace(
                name=name, is_dir=lambda node=node, follow_symlinks=False: isinstance(node, Directory)
            )
            for name, node in entries
        )


@dataclass(frozen=True)
class SimulatedPath:
    """A path of a machine; of `Path` what is used.

    Attributes:
        machine: The machine.
        parts: The names on the way.
    """

    machine: Machine
    parts: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"/{'/'.join(self.parts)}"

    def __truediv__(self, path: str) -> SimulatedPath:
        return SimulatedPath(self.machine, (*self.parts, *(part for part in path.split("/") if part)))

    @property
    def name(self) -> str:
        """The last part."""
        return self.parts[-1]

    @property
    def parent(self) -> SimulatedPath:
        """The directory that it is in."""
        return SimulatedPath(self.machine, self.parts[:-1])

    def with_name(self, name: str) -> SimulatedPath:
        """Another one in its directory."""
        return self.parent / name

    def stat(self) -> SimpleNamespace:
        """What the system says of it."""
        self.machine.step()
        return self.machine.status(self.machine.find(self.parts))

    def exists(self) -> bool:
        """Whether it is there."""
        try:
            self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def is_dir(self) -> bool:
        """Whether it is a directory."""
        return self.exists() and isinstance(self.machine.find(self.parts), Directory)

    def mkdir(self, *, exist_ok: bool = False) -> None:
        """Make the directory."""
        self.machine.step()
        directory = self.machine.directory(self.parts[:-1])
        if self.name not in directory.entries:
            directory.change(self.name, Directory())
        elif not exist_ok:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))

    def rmdir(self) -> None:
        """Remove the directory, if there is nothing in it."""
        self.machine.step()
        if self.machine.directory(self.parts).entries:
            raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY))
        self.machine.directory(self.parts[:-1]).change(self.name, None)

    def unlink(self, *, missing_ok: bool = False) -> None:
        """Take the name away."""
        self.machine.step()
        try:
            self.machine.find(self.parts)
        except (FileNotFoundError, NotADirectoryError):
            if not missing_ok:
                raise
        else:
            self.machine.directory(self.parts[:-1]).change(self.name, None)

    @contextmanager
    def open(self, mode: str, buffering: int = -1) -> Iterator[OpenFile]:
        """Open the file: "rb", or "xb", which makes it."""
        self.machine.step()
        if mode == "xb":
            directory = self.machine.directory(self.parts[:-1])
            if self.name in directory.entries:
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            directory.change(self.name, File(written_at=self.machine.now() * 1000))
        node = self.machine.find(self.parts)
        if isinstance(node, Directory):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        file = OpenFile(self.machine, node)
        yield file
        self.machine.close(file.fileno())


class OpenFile:
    """An open file."""

    def __init__(self, machine: Machine, file: File) -> None:
        self._file = file
        self._machine = machine
        self._number = machine.open(file)

    def fileno(self) -> int:
        """Its number."""
        return self._number

    def write(self, data: Any) -> int:
        """Write behind what is there."""
        self._machine.step()
        self._file.content += bytes(data)
        return len(bytes(data))

    def flush(self) -> None:
        """Everybody sees it at once."""
