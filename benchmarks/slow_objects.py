"""Objects of a directory or of memory, each request of which takes as long as one to an object store."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from typing import cast

import pyarrow as pa

from engine.changelog import Changelog
from engine.changelog.objects import Objects, open_objects
from engine.changelog.requests import REQUESTS_AT_ONCE

REQUEST_SECONDS = 0.02
ENTRIES_A_REQUEST = 1000
"""Objects that one request lists or deletes, as with S3."""


class SlowObjects:
    """Implements `Objects` over others, with a pause before each request.

    Args:
        objects: The objects.
        seconds: How long a request takes.
    """

    requests_at_once = REQUESTS_AT_ONCE

    def __init__(self, objects: Objects, seconds: float = REQUEST_SECONDS) -> None:
        self._objects = objects
        self._seconds = seconds

    def _wait(self, entries: int = 1) -> None:
        time.sleep(self._seconds * -(-max(entries, 1) // ENTRIES_A_REQUEST))

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        self._wait()
        return self._objects.get(path)

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`."""
        self._wait()
        return self._objects.get_ranges(path, size, ranges)

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        self._wait()
        return self._objects.exists(path)

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        self._wait()
        self._objects.put(path, chunks)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        self._wait()
        return self._objects.create(path, chunks)

    def settle(self, path: str) -> None:
        """See `Objects.settle`. An object store shows only what is durable."""

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`. That there is nothing takes a request, too."""
        self._wait()
        for place, path in enumerate(self._objects.list(directory, behind), start=1):
            yield path
            if place % ENTRIES_A_REQUEST == 0:
                self._wait()

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        self._wait()
        return self._objects.dated_objects(directory)

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`. An object store shows none."""
        return iter(())

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        self._wait(len(paths))
        self._objects.delete(paths)

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        self._wait()
        return self._objects.current_time()


def slow_changelog(uri: str) -> Changelog:
    """A changelog whose requests take 20 ms.

    Args:
        uri: Where it is.
    """
    return Changelog(uri, {}, cast("Objects", SlowObjects(open_objects(uri, {}))))
