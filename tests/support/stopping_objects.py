"""The objects of a changelog, as a process uses them that dies at a given place."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from engine.changelog.objects import Objects


class Stopped(Exception):
    """The process died here."""


class StoppingObjects:
    """Implements `Objects` over others. All that is written or deleted before the process dies is there, and
    nothing after.

    Args:
        objects: The objects.
        changes: How many of its writes and deletes the process lives through; None for all.
    """

    requests_at_once = 1

    def __init__(self, objects: Objects, changes: int | None = None) -> None:
        self.changes = changes
        self._objects = objects

    def _change(self) -> None:
        if self.changes is None:
            return
        if self.changes == 0:
            raise Stopped
        self.changes -= 1

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        return self._objects.get(path)

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`."""
        return self._objects.get_ranges(path, size, ranges)

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        return self._objects.exists(path)

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        self._change()
        self._objects.put(path, chunks)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        self._change()
        return self._objects.create(path, chunks)

    def settle(self, path: str) -> None:
        """See `Objects.settle`."""
        self._objects.settle(path)

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        return self._objects.list(directory, behind)

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        return self._objects.dated_objects(directory)

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`."""
        return self._objects.unfinished_objects(directory)

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        for path in paths:
            self._change()
            self._objects.delete([path])

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        return self._objects.current_time()
