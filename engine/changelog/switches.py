"""Switches as objects: which store SQL means by a name, where that is not the store of that name.

A store that was built anew beside another one takes its place so: from the newest switch of a name on, the
name means the store that the switch says, of whatever group and key. Switches of a name are numbered from 1,
each created once and never changed; one to the name itself goes back. They are not followed any further: of
two stores that were switched to each other each has the other one's name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.decisions import UNKNOWN_AUTHOR, Author, Decision, DecisionKind
from engine.changelog.layout import switch_number, switch_path, switches_path
from engine.changelog.objects import MAX_RACES, Objects
from engine.errors import Corrupt, Unavailable
from engine.model.schema import StoreName

SWITCH_FORMAT = 1


class _OtherFormatError(Corrupt):
    """A newer version has written a switch: it is whole."""


@dataclass(frozen=True)
class Switch:
    """What SQL means by a name.

    Attributes:
        name: The name: that of a store, or any other.
        store: The store that it means.
        number: Number among the switches of the name; 0 where there is none, so that the name means the store
            of that name.
        author: Who decided it.
    """

    name: StoreName
    store: StoreName
    number: int = 0
    author: Author = field(default=UNKNOWN_AUTHOR, compare=False)


class Switches:
    """The switches of a changelog. Each is read once. Safe to use from several threads and processes.

    All methods raise Corrupt where an object is damaged, and Unavailable when the changelog cannot be
    reached.

    Args:
        objects: The changelog's objects.
    """

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._known: dict[str, Switch] = {}

    def switched_names(
        self, paths: Iterable[str], faults: dict[str, Corrupt] | None = None
    ) -> dict[StoreName, StoreName]:
        """What names mean, of those that mean another store than that of the name.

        Args:
            paths: A listing of all that is below `STORES_PATH`, or a part of it.
            faults: Gets what is wrong with names whose newest switch is damaged, by its path; they are left
                out. None: nothing may be.
        """
        newest: dict[str, str] = {}
        for path in sorted(path for path in paths if switch_number(path)):
            newest[path.rpartition("/")[0]] = path
        names = {}
        for path in newest.values():
            try:
                switch = self._read(path)
            except Corrupt as error:
                if faults is None:
                    raise
                faults[path] = error
            else:
                if switch is not None and switch.store != switch.name:
                    names[switch.name] = switch.store
        return names

    def has_switch(self, name: StoreName) -> bool:
        """Whether a name was ever switched."""
        return self._newest_number(name) > 0

    def newest_switch(self, name: StoreName) -> Switch:
        """What a name means now."""
        number = self._newest_number(name)
        found = self._read(switch_path(name, number)) if number else None
        return found or Switch(name, name)

    def _newest_number(self, name: StoreName) -> int:
        numbers = filter(None, map(switch_number, self._objects.list(switches_path(name))))
        return max(numbers, default=0)

    def decisions(self) -> Sequence[Decision]:
        """The switches that were read so far. No request."""
        return [
            Decision(
                DecisionKind.SWITCH, each.name, each.number, each.author, f"{each.name} means {each.store}"
            )
            for each in list(self._known.values())
        ]

    def create(self, name: StoreName, store: StoreName, author: Author = UNKNOWN_AUTHOR) -> Switch:
        """Make a name mean a store from now on; nothing is written if it does. A damaged switch is
        followed by another one, as by any.

        Args:
            name: The name.
            store: The store; that there is one is the caller's to see.
            author: Who decides it.

        Returns:
            What the name means now.

        Raises:
            LimitExceeded: The disk is full.
            Corrupt: A newer version has written the newest switch.
        """
        for _ in range(MAX_RACES):
            before = self._switch_before(name)
            if before is not None and before.store == store:
                return before
            number = self._newest_number(name) if before is None else before.number
            switch = Switch(name, store, number + 1, author)
            fields = {"format": SWITCH_FORMAT, "name": name, "store": store, **author.to_document()}
            document = json.dumps(fields, indent=1).encode()
            if self._objects.create(switch_path(name, switch.number), [pa.py_buffer(seal(document))]):
                return switch
        raise Unavailable(f"Others keep switching {name}: try again later.")

    def _switch_before(self, name: StoreName) -> Switch | None:
        """The newest switch of a name; None where it is damaged."""
        try:
            return self.newest_switch(name)
        except _OtherFormatError:
            raise
        except Corrupt:
            return None

    def _read(self, path: str) -> Switch | None:
        if path not in self._known:
            data = self._objects.get(path)
            if data is None:
                return None
            self._known[path] = _switch_of(data.to_pybytes(), path)
        return self._known[path]


def _switch_of(data: bytes, path: str) -> Switch:
    document = unseal(data, "A switch in the changelog")
    try:
        fields = json.loads(document)
        version, name, store = fields["format"], StoreName(fields["name"]), StoreName(fields["store"])
        author = Author.from_document(fields)
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt("A switch in the changelog lacks a field; restore it from a backup.") from error
    if version != SWITCH_FORMAT:
        raise _OtherFormatError(
            f"The switch of {name} has format {version!r}; this version reads format {SWITCH_FORMAT}: "
            "upgrade livestate."
        )
    switch = Switch(name, store, switch_number(path), author)
    if switch_path(name, switch.number) != path:
        raise Corrupt(
            f"The switch of {name} lies where another one should be: restore the changelog from a backup."
        )
    return switch
