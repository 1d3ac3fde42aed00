"""A changelog of which a host reads a group's epochs up to one, and waits there until it may go on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Event
from typing import Any, cast

import pyarrow as pa

from engine.changelog import Changelog
from engine.changelog.layout import commit_path, snapshots_path
from engine.changelog.objects import Objects, open_objects
from engine.model.schema import Epoch, GroupName


class Gate:
    """Where a reader waits.

    Args:
        group: Whose epochs are behind it.
        epoch: The first of them.

    Attributes:
        reached: Set once somebody waits.
    """

    def __init__(self, group: GroupName, epoch: Epoch) -> None:
        self.reached, self._open = Event(), Event()
        self._path = commit_path(group, epoch)

    def open(self) -> None:
        """Let everybody pass from now on."""
        self._open.set()

    def is_behind(self, path: str) -> bool:
        """Whether this is the way to the epochs behind it."""
        return path == self._path

    def pass_through(self, path: str) -> None:
        """Wait, if this is the way to what is behind it."""
        if self.is_behind(path):
            self.reached.set()
            assert self._open.wait(60), "the gate was never opened"


class SnapshotGate(Gate):
    """Where a reader of the rows of snapshots waits.

    Args:
        group: Whose snapshots.

    Attributes:
        files: The files that were asked for, in order.
    """

    def __init__(self, group: GroupName) -> None:
        super().__init__(group, Epoch(1))
        self.files: list[str] = []
        self._directory = snapshots_path(group)

    def is_behind(self, path: str) -> bool:
        """Whether these are rows of a snapshot."""
        return path.startswith(self._directory) and path.endswith(".arrow")

    def pass_through(self, path: str) -> None:
        """Wait, if these are rows of a snapshot."""
        if self.is_behind(path):
            self.files.append(path)
        super().pass_through(path)


class _GatedObjects:
    """Objects of which some are behind a gate."""

    def __init__(self, objects: Objects, gate: Gate) -> None:
        self._objects = objects
        self._gate = gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._objects, name)

    def get(self, path: str) -> pa.Buffer | None:
        found = self._objects.get(path)
        if found is not None:
            self._gate.pass_through(path)
        return found

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        self._gate.pass_through(path)
        return self._objects.get_ranges(path, size, ranges)


@contextmanager
def gate_changelog(uri: str, gate: Gate) -> Iterator[Changelog]:
    """A changelog whose reader waits at a gate, which is open behind the block at the latest.

    Args:
        uri: The changelog.
        gate: Where.
    """
    try:
        yield Changelog(uri, {}, cast("Objects", _GatedObjects(open_objects(uri, {}), gate)))
    finally:
        gate.open()
