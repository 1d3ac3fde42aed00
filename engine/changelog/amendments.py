"""The amendments of one store group as objects: what was decided of it beside its epochs. They are numbered
from 1 without gaps, each created once and never changed or dropped.

- A *migration* says what one store of the group becomes. It is in effect from the first commit on whose
  generation is its number or a later one: the writer of the group takes up what there is with its next
  commit. So all hosts change shapes at one epoch, and what was written before stays as it is.
- A *skip* passes an epoch by, whatever its commit says: a commit without rows stands in for it.
- A *drop* ends a store: rows that were written at an earlier generation than its number count for nothing
  from now on. A store of the same name may be created anew, and its rows are of this generation or a later
  one.

Whoever asks for the generation finds all of them, so that nobody asks for skips and drops in particular.
Versions that know of migrations only refuse the other two by their format.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.codec import DIGEST_LENGTH, batches_document, batches_of, decode_commit
from engine.changelog.commit import Commit
from engine.changelog.decisions import UNKNOWN_AUTHOR, Author, Decision, DecisionKind
from engine.changelog.frames import damage_error
from engine.changelog.layout import amendment_path
from engine.changelog.objects import Objects
from engine.changelog.snapshot import Snapshot, SnapshotPart
from engine.errors import Corrupt, Unavailable
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import MIGRATED_FORMAT, Epoch, GroupName, StoreDefinition, StoreName

SECONDS_BETWEEN_CHECKS = 10.0
"""How often it is seen whether the amendments that were read are those of the changelog still."""
AMENDMENT_FORMAT = MIGRATED_FORMAT + 1
"""Of amendments that are no migrations. Definitions and these share the numbers: each refuses the other's."""


@dataclass(frozen=True)
class Migration:
    """A change of a store.

    Attributes:
        number: Its number among the amendments of the store group.
        before: What the store was.
        after: What it is from the first commit on that takes the migration up.
    """

    number: int
    before: StoreDefinition
    after: StoreDefinition


@dataclass(frozen=True)
class Skip:
    """An epoch that is passed by.

    Attributes:
        number: Its number among the amendments of the store group.
        reason: Why, in the operator's words.
        who: Who said so.
        at: When, microseconds since 1970 UTC.
        digest: As `Commit.digest` of the commit that is passed by; empty where it could not be read, and no
            commit names it.
        content: Digest of the commit's bytes as they were.
        stand_in: The commit that hosts and writers take in its place: its epoch, and no rows.
        mark: What tells this skip from any other.
    """

    number: int
    reason: str
    who: str
    at: int
    digest: str
    content: str
    stand_in: Commit
    mark: str = field(default="", compare=False)

    @property
    def epoch(self) -> Epoch:
        """The epoch."""
        return self.stand_in.epoch

    def describe(self) -> str:
        """The skip in words: a sentence but for the point."""
        return (
            f"Epoch {self.epoch:,} of store group {self.stand_in.group} was passed by "
            f"{_moment_text(self.at)} by {self.who}: {self.reason.removesuffix('.')}"
        )

    def matches(self, data: pa.Buffer) -> bool:
        """Whether a stored commit of the epoch is the one that is passed by: a changelog that was restored
        from an older copy may have another one under the same number.

        Args:
            data: The commit's bytes.
        """
        if content_digest(data) == self.content:
            return True
        try:
            return bool(self.digest) and (
                decode_commit(self.stand_in.group, self.epoch, data).digest == self.digest
            )
        except Corrupt:
            return False


@dataclass(frozen=True)
class StoreDrop:
    """The end of a store.

    Attributes:
        number: Its number among the amendments of the store group.
        store: The store.
        incarnation: How many stores of this name there were before it.
        since: As `StoreDefinition.since` of it.
        who: Who said so.
        at: When, microseconds since 1970 UTC.
    """

    number: int
    store: StoreName
    incarnation: int
    since: int
    who: str
    at: int

    def describe(self) -> str:
        """The end of the store in words, behind its name."""
        return f"was dropped {_moment_text(self.at)} by {self.who}"


@dataclass(frozen=True)
class Void:
    """An amendment that says nothing, in place of one that means nothing in a copy of the changelog.

    Attributes:
        number: Its number among the amendments of the store group.
    """

    number: int


Amendment = StoreDefinition | Skip | StoreDrop | Void


@dataclass(frozen=True)
class Exclusions:
    """What of the epochs of a group counts for nothing.

    Attributes:
        skips: By epoch.
        drops: The newest of each store.
        all_drops: Those of stores that were dropped several times included, in order.
    """

    skips: Mapping[Epoch, Skip] = field(default_factory=dict)
    drops: Mapping[StoreName, StoreDrop] = field(default_factory=dict)
    all_drops: tuple[StoreDrop, ...] = ()

    def is_dropped(self, store: StoreName, generation: int) -> bool:
        """Whether what was written for a store at a generation is of one that was dropped since."""
        drop = self.drops.get(store)
        return drop is not None and drop.number > generation

    def keep_rows(self, commit: Commit) -> Commit:
        """A commit without what it has of stores that were dropped."""
        if not self.drops:
            return commit
        return replace(
            commit,
            replaced=tuple(name for name in commit.replaced if not self.is_dropped(name, commit.generation)),
            cutoffs={
                name: cutoff
                for name, cutoff in commit.cutoffs.items()
                if not self.is_dropped(name, commit.generation)
            },
            files=tuple(
                replace(
                    file,
                    slices=tuple(
                        part for part in file.slices if not self.is_dropped(part.store, file.generation)
                    ),
                )
                for file in commit.files
            ),
        )

    def keep_partitions(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot without what it has of stores that were dropped."""
        gone = {name for name in self.drops if self.is_dropped(name, snapshot.generation)}
        if not gone:
            return snapshot
        return replace(
            snapshot,
            cutoffs={name: cutoff for name, cutoff in snapshot.cutoffs.items() if name not in gone},
            parts=tuple(_part_without(part, gone) for part in snapshot.parts),
        )


def _part_without(part: SnapshotPart, gone: Collection[StoreName]) -> SnapshotPart:
    return replace(
        part,
        stores={name: columns for name, columns in part.stores.items() if name not in gone},
        covers=frozenset(place for place in part.covers if place[0] not in gone),
        files=tuple(
            replace(file, slices=tuple(entry for entry in file.slices if entry.store not in gone))
            for file in part.files
        ),
        checksums={place: checksum for place, checksum in part.checksums.items() if place[0] not in gone},
    )


class Amendments:
    """The amendments of one store group. Safe to use from several threads and processes.

    Args:
        objects: The changelog's objects.
        group: The store group.

    Attributes:
        times_forgotten: How often all were forgotten, and what relies on their numbers with them.
        times_checked: How often it was asked whether the changelog was restored from an older copy.
        newest_ends: The newest end of a store of each name that this process has heard of, as
            `StoreDrop.number`; also of those that a changelog that was restored has no more.
    """

    def __init__(self, objects: Objects, group: GroupName) -> None:
        self.group = group
        self.times_forgotten = 0
        self.times_checked = 0
        self.newest_ends: Mapping[StoreName, int] = {}
        self._objects = objects
        self._newest: int | None = None
        self._known: dict[int, Amendment] = {}
        # Of migrations, which do not say it themselves: they are definitions.
        self._authors: dict[int, Author] = {}
        self._exclusions: tuple[int, Exclusions] = (0, Exclusions())
        self._checked_at = time.monotonic()
        # What is read before something is forgotten must not be noted after it.
        self._reading = Lock()

    def newest_number(self, known: int = 0, *, is_fresh: bool = False) -> int:
        """The number of the newest amendment there is; 0 before the first. One request where nothing is new,
        and now and then another one: the changelog may have been restored from an older copy.

        Args:
            known: A number that some amendment is known to have.
            is_fresh: Whether to make the other request in any case.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        number = self._last_number_from(max(known, self._newest or 0))
        read = max(self._known, default=0)
        is_due = is_fresh or time.monotonic() - self._checked_at >= SECONDS_BETWEEN_CHECKS
        if read and (is_due or number > read):
            self._checked_at = time.monotonic()
            self.times_checked += 1
            if not self._is_current(read):
                self.forget()
                number = self._last_number_from(known)
        self._newest = number
        return number

    def _last_number_from(self, number: int) -> int:
        """The end of the amendments that begin at a known one."""
        while self._objects.exists(amendment_path(self.group, number + 1)):
            number += 1
            # A commit will rely on it, and must not outlive it.
            self._objects.settle(amendment_path(self.group, number))
        return number

    def forget(self) -> None:
        """Read all amendments again: they may be others."""
        with self._reading:
            self.times_forgotten += 1
            self._newest, self._known = None, {}
            self._exclusions = 0, Exclusions()

    def _is_current(self, number: int) -> bool:
        """Whether the newest amendment that was read is that of the changelog still."""
        known = self._known.get(number)  # another thread may forget it meanwhile
        try:
            return known is None or self._read(number) == known
        except Corrupt:
            return True  # who reads it is told

    def read(self, number: int) -> Amendment:
        """The amendment of a number. What was read once is not read again.

        Raises:
            Corrupt: It is missing or damaged.
            Unavailable: The changelog cannot be reached.
        """
        found = self._known.get(number)
        if found is None:
            found = self._read(number)
            if found is None:
                self._newest = None  # a changelog that was restored from an older copy may have none
                raise Corrupt(f"{self._name(number)} is missing: restore the changelog from a backup.")
            self._known[number] = found
        return found

    def definitions_of(self, store: StoreName, generation: int, since: int = 0) -> list[StoreDefinition]:
        """What migrations up to a generation have made of a store, oldest first; empty if none is of it.

        Args:
            store: The store.
            generation: The generation.
            since: As `StoreDefinition.since` of the store.
        """
        return [
            replace(shape, since=since)
            for shape in map(self.read, range(since + 1, generation + 1))
            if isinstance(shape, StoreDefinition) and shape.name == store
        ]

    def exclusions(self, generation: int = 0) -> Exclusions:
        """What of the group's epochs counts for nothing, as far as this process has heard: it hears of it
        whenever it asks for the newest number.

        Args:
            generation: A number that some amendment is known to have.

        Raises:
            Corrupt: An amendment is damaged; what it says may matter to any epoch.
            Unavailable: The changelog cannot be reached.
        """
        known = self._newest
        newest = self.newest_number(generation) if known is None or generation > known else known
        read, exclusions = self._exclusions
        if newest <= read:
            return exclusions
        with self._reading:
            found = [self.read(number) for number in range(1, newest + 1)]
            drops = tuple(each for each in found if isinstance(each, StoreDrop))
            exclusions = Exclusions(
                {each.epoch: each for each in found if isinstance(each, Skip)},
                {each.store: each for each in drops},
                drops,
            )
            self._exclusions = newest, exclusions
            ends = dict(self.newest_ends)
            for each in drops:
                ends[each.store] = max(each.number, ends.get(each.store, 0))
            self.newest_ends = ends
        return exclusions

    def decisions(self) -> Sequence[Decision]:
        """What was decided of the group, as far as it was read. No request."""
        found = []
        for number, each in list(self._known.items()):
            match each:
                case StoreDefinition():
                    author = self._authors.get(number, UNKNOWN_AUTHOR)
                    kind, what = DecisionKind.MIGRATION, each.describe()
                case Skip():
                    author = Author(each.who, each.at)
                    kind, what = DecisionKind.SKIP, f"epoch {each.epoch}: {each.reason}"
                case StoreDrop():
                    author, kind, what = Author(each.who, each.at), DecisionKind.DROP, each.store
                case Void():
                    continue
            found.append(Decision(kind, self.group, number, author, what))
        return found

    def create(self, amendment: Amendment, author: Author = UNKNOWN_AUTHOR) -> bool:
        """Write an amendment unless its number is taken.

        Args:
            amendment: What is decided; a migration is what its store becomes, and its number the generation.
            author: Who decides a migration; the others say it themselves.

        Returns:
            Whether the amendment of this number is now the one given: so also if somebody else did the very
            same.

        Raises:
            Unavailable: That is not known.
            LimitExceeded: The disk is full.
        """
        if isinstance(amendment, StoreDefinition):
            amendment = replace(amendment, since=0)
            number, document = amendment.generation, encode_migration(amendment, author)
        else:
            number, document = amendment.number, encode_amendment(self.group, amendment)
        path = amendment_path(self.group, number)
        try:
            if self._objects.create(path, [pa.py_buffer(seal(document))]):
                return True
        except Unavailable:
            if self._read(number) is None:
                raise
        return self.read(number) == amendment

    def _read(self, number: int) -> Amendment | None:
        data = self._objects.get(amendment_path(self.group, number))
        if data is None:
            return None
        document = unseal(data.to_pybytes(), self._name(number))
        found = decode_amendment(self.group, number, document)
        if found is not None:
            return found
        shape = StoreDefinition.from_json(document)
        self._authors[number] = migration_author(document)
        if (shape.group, shape.generation) != (self.group, number):
            raise Corrupt(
                f"{self._name(number)} is that of {shape.generation} of store group {shape.group}: restore "
                "the changelog from a backup."
            )
        return shape

    def _name(self, number: int) -> str:
        return f"Amendment {number} of store group {self.group}"


def _moment_text(at: int) -> str:
    moment = dt.datetime.fromtimestamp(at / MICROSECONDS_PER_SECOND, dt.UTC)
    return f"on {moment:%Y-%m-%d} at {moment:%H:%M} UTC"


def content_digest(data: pa.Buffer) -> str:
    """What tells the bytes of an object from any others."""
    return hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH]


# ---- stored forms


def encode_migration(shape: StoreDefinition, author: Author) -> bytes:
    """The stored form of a migration, before it is sealed: a definition with two more fields, which readers
    of definitions pass by, older versions among them.

    Args:
        shape: What the store becomes.
        author: Who decided it.
    """
    if author == UNKNOWN_AUTHOR:
        return shape.to_json()
    return json.dumps({**json.loads(shape.to_json()), **author.to_document()}, indent=1).encode()


def migration_author(data: bytes) -> Author:
    """Who decided a migration, by its stored form; nobody where that does not say."""
    try:
        return Author.from_document(json.loads(data))
    except (ValueError, TypeError):
        # What the store became counts, whoever decided it.
        return UNKNOWN_AUTHOR


def encode_amendment(group: GroupName, amendment: Skip | StoreDrop | Void) -> bytes:
    """The stored form of an amendment that is no migration, before it is sealed."""
    document: dict[str, Any] = {"format": AMENDMENT_FORMAT, "group": group, "number": amendment.number}
    match amendment:
        case Skip(_, reason, who, at, digest, content, stand_in):
            document |= {
                "amendment": "skip",
                "epoch": stand_in.epoch,
                "reason": reason,
                "who": who,
                "at": at,
                "digest": digest,
                "content": content,
                "stand_in": _stand_in_document(stand_in),
            }
        case StoreDrop(_, store, incarnation, since, who, at):
            document |= {
                "amendment": "drop",
                "store": store,
                "incarnation": incarnation,
                "since": since,
                "who": who,
                "at": at,
            }
        case Void():
            document["amendment"] = "void"
    return json.dumps(document, indent=1).encode()


def decode_amendment(group: GroupName, number: int, data: bytes) -> Skip | StoreDrop | Void | None:
    """Read what `encode_amendment` made.

    Returns:
        The amendment; None where the document is another kind of amendment, a migration.

    Raises:
        Corrupt: It lacks a field, belongs elsewhere, or is of a newer format.
    """
    what = f"Amendment {number} of store group {group}"
    try:
        document = json.loads(data)
        if "amendment" not in document:
            return None
        if document["format"] != AMENDMENT_FORMAT:
            raise Corrupt(
                f"{what} has format {document['format']!r}; this version reads up to {AMENDMENT_FORMAT}: "
                "upgrade livestate."
            )
        if (document["group"], document["number"]) != (group, number):
            raise Corrupt(
                f"{what} is that of {document['number']} of store group {document['group']}: restore the "
                "changelog from a backup."
            )
        match document["amendment"]:
            case "skip":
                return _skip_of(group, document, hashlib.sha256(data).hexdigest()[:DIGEST_LENGTH])
            case "drop":
                return StoreDrop(
                    number,
                    StoreName(document["store"]),
                    int(document["incarnation"]),
                    int(document["since"]),
                    str(document["who"]),
                    int(document["at"]),
                )
            case "void":
                return Void(number)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise damage_error(what) from error
    raise Corrupt(
        f"{what} is a {document['amendment']!r}, which this version does not know: upgrade livestate."
    )


def _skip_of(group: GroupName, document: Mapping[str, Any], mark: str) -> Skip:
    return Skip(
        int(document["number"]),
        str(document["reason"]),
        str(document["who"]),
        int(document["at"]),
        str(document["digest"]),
        str(document["content"]),
        # Writers name it, so it needs a digest also where the commit's is not known.
        _stand_in_of(group, document, str(document["digest"]) or mark),
        mark,
    )


def _stand_in_document(commit: Commit) -> dict[str, Any]:
    return {
        "token": commit.token,
        "writer": commit.writer,
        "committed_at": commit.committed_at,
        "written": commit.written,
        "generation": commit.generation,
        "cutoffs": dict(commit.cutoffs),
        **batches_document(commit.batches),
        "before": commit.before,
    }


def _stand_in_of(group: GroupName, document: Mapping[str, Any], digest: str) -> Commit:
    fields = document["stand_in"]
    return Commit(
        group=group,
        epoch=Epoch(int(document["epoch"])),
        token=int(fields["token"]),
        writer=str(fields["writer"]),
        nonce="",
        query_id=None,
        batch_id=None,
        committed_at=int(fields["committed_at"]),
        batches=batches_of(fields),
        cutoffs={StoreName(name): int(cutoff) for name, cutoff in fields["cutoffs"].items()},
        written=int(fields["written"]),
        generation=int(fields["generation"]),
        before=fields["before"],
        digest=digest,
    )
