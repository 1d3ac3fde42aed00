"""Before which epoch a store group's epochs are being dropped, as objects: numbered from 1 without gaps, each
created once, above the ones before, and never changed or dropped.

Epochs are deleted many at once, so that for a while a later one can be gone while an earlier one is there.
The floor is raised before that: whoever relies on what follows an epoch sees that it is below the floor.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.layout import floor_path
from engine.changelog.objects import MAX_RACES, Objects
from engine.changelog.requests import last_number
from engine.errors import Corrupt, Unavailable
from engine.model.schema import Epoch, GroupName

FLOOR_FORMAT = 1


class Floors:
    """The floors of one store group. Safe to use from several threads and processes.

    Args:
        objects: The changelog's objects.
        group: The store group.
    """

    def __init__(self, objects: Objects, group: GroupName) -> None:
        self._objects = objects
        self._group = group
        self._known = (0, Epoch(0))

    def paths_to_read(self) -> Sequence[str]:
        """The objects that `newest_by` wants: the newest floor that is known, and the next one."""
        number, _ = self._known
        return [floor_path(self._group, each) for each in (number, number + 1) if each]

    def newest_by(self, found: Sequence[pa.Buffer | None]) -> Epoch:
        """The first epoch that is not being dropped, nor was; 0 where none was.

        Args:
            found: What is there of `paths_to_read`, in this order.

        Raises:
            Corrupt: A floor is damaged, or of a format that this version does not know.
            Unavailable: The changelog cannot be reached.
        """
        if found[-1] is None and all(data is not None for data in found[:-1]):
            number, _ = self._known
            for known in found[:-1]:
                assert known is not None
                # One that was restored from an older copy may have another one of this number.
                self._known = number, self._decode(known.to_pybytes())
            return self._known[1]
        # There is a newer one; or the changelog was restored from an older copy, and has others.
        number = last_number(self._exists, 0, self._objects.requests_at_once)
        data = self._objects.get(floor_path(self._group, number)) if number else None
        self._known = (0, Epoch(0)) if data is None else (number, self._decode(data.to_pybytes()))
        return self._known[1]

    def _exists(self, number: int) -> bool:
        return self._objects.exists(floor_path(self._group, number))

    def newest(self) -> Epoch:
        """As `newest_by`, and asks for what that wants."""
        return self.newest_by([self._objects.get(path) for path in self.paths_to_read()])

    def raise_to(self, epoch: Epoch) -> None:
        """Have all epochs before one count as dropped from now on.

        Args:
            epoch: The first one that stays.

        Raises:
            Unavailable: The changelog cannot be reached.
            LimitExceeded: The disk is full.
        """
        for _ in range(MAX_RACES):
            if self.newest() >= epoch:
                return
            path = floor_path(self._group, self._known[0] + 1)
            self._objects.create(path, [pa.py_buffer(_encode(epoch))])
        raise Unavailable(f"Others keep dropping epochs of store group {self._group}: try again later.")

    def _decode(self, data: bytes) -> Epoch:
        what = f"A floor of store group {self._group}"
        try:
            fields = json.loads(unseal(data, what))
            version, epoch = fields["format"], Epoch(int(fields["before"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{what} lacks a field; restore it from a backup.") from error
        if version != FLOOR_FORMAT:
            raise Corrupt(
                f"{what} has format {version!r}; this version reads format {FLOOR_FORMAT}: upgrade livestate."
            )
        return epoch


def _encode(epoch: Epoch) -> bytes:
    return seal(json.dumps({"format": FLOOR_FORMAT, "before": epoch}, indent=1).encode())
