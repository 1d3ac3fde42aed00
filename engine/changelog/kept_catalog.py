"""What a host keeps of a changelog's catalogue beside its state, so that it can start while the changelog is
away: the small objects that say what stores there are, what became of them, and which names were switched.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.layout import STORES_PATH, is_amendment
from engine.changelog.objects import Objects
from engine.errors import Corrupt

CATALOG_FORMAT = 1


@dataclass(frozen=True)
class KeptCatalog:
    """A catalogue as a host has read it.

    Attributes:
        identity: Of the changelog.
        objects: The objects by path, which are JSON.
    """

    identity: str
    objects: Mapping[str, str]

    def to_bytes(self) -> bytes:
        """The stored form."""
        document = {
            "format": CATALOG_FORMAT,
            "changelog": self.identity,
            "objects": dict(sorted(self.objects.items())),
        }
        return seal(json.dumps(document, indent=1).encode())

    @staticmethod
    def from_bytes(data: bytes) -> KeptCatalog:
        """Read the stored form.

        Raises:
            Corrupt: It is damaged, or of a format that this version does not know.
        """
        what = "The catalogue that this host kept"
        try:
            text = unseal(data, what)
        except Corrupt as error:
            # The changelog has nothing to do with it.
            raise Corrupt(f"{what} is damaged: make the changelog available to this host.") from error
        try:
            document = json.loads(text)
            if document["format"] != CATALOG_FORMAT:
                raise Corrupt(
                    f"{what} has format {document['format']!r}; this version reads format {CATALOG_FORMAT}: "
                    "upgrade livestate."
                )
            objects = {str(path): str(text) for path, text in document["objects"].items()}
            return KeptCatalog(str(document["changelog"]), objects)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise Corrupt(f"{what} lacks a field: make the changelog available to this host.") from error


class CatalogObjects:
    """The objects of a changelog, as those use them that read its catalogue: what they read is noted. While
    the changelog is away, the catalogue is what was kept of it. Implements `Objects`.

    Args:
        objects: The changelog's objects.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._noted: dict[str, str] = {}
        self._is_away = False

    @property
    def requests_at_once(self) -> int:
        """See `Objects.requests_at_once`."""
        return self._objects.requests_at_once

    @property
    def noted(self) -> Mapping[str, str]:
        """What was read, by path."""
        return self._noted.copy()

    def recall(self, noted: Mapping[str, str]) -> None:
        """Have what was kept read, and nothing else, until `note_return`."""
        self._noted, self._is_away = dict(noted), True

    def note_return(self) -> None:
        """The changelog can be reached again."""
        self._is_away = False

    def get(self, path: str) -> pa.Buffer | None:
        """See `Objects.get`."""
        if self._is_away:
            text = self._noted.get(path)
            return None if text is None else pa.py_buffer(text.encode())
        data = self._objects.get(path)
        if data is None:
            self._noted.pop(path, None)
        elif path.startswith(f"{STORES_PATH}/") or is_amendment(path):
            self._noted[path] = data.to_pybytes().decode(errors="replace")
        return data

    def exists(self, path: str) -> bool:
        """See `Objects.exists`."""
        return path in self._noted if self._is_away else self._objects.exists(path)

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        """See `Objects.get_ranges`."""
        return self._objects.get_ranges(path, size, ranges)

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        """See `Objects.list`."""
        if not self._is_away:
            return self._objects.list(directory, behind)
        noted = sorted(path for path in self._noted if path.startswith(f"{directory}/"))
        return (path for path in noted if path > behind)

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.dated_objects`."""
        return self._objects.dated_objects(directory)

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        """See `Objects.unfinished_objects`."""
        return self._objects.unfinished_objects(directory)

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        """See `Objects.put`."""
        self._objects.put(path, chunks)

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        """See `Objects.create`."""
        return self._objects.create(path, chunks)

    def settle(self, path: str) -> None:
        """See `Objects.settle`."""
        if not self._is_away:
            self._objects.settle(path)

    def delete(self, paths: Collection[str]) -> None:
        """See `Objects.delete`."""
        self._objects.delete(paths)

    def current_time(self) -> int:
        """See `Objects.current_time`."""
        return self._objects.current_time()
