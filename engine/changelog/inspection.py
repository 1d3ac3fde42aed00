"""Reads a changelog object by object, and says of each what is wrong with it. Nothing is written.

Jobs and hosts may go on meanwhile: what they drop before it is read is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

from engine.changelog.amendments import Skip
from engine.changelog.chain import Link, read_chain
from engine.changelog.changelog import Changelog
from engine.changelog.codec import describe
from engine.changelog.commit import BEFORE_FIRST, Commit
from engine.changelog.first_loads import groups_without_stores
from engine.changelog.snapshot import MIB, Snapshot, StorePartition
from engine.errors import Corrupt, NotFound
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName

REQUESTS = 8
"""Requests at once: an object store takes some 20 ms for each, however small."""
BYTES_AT_ONCE = 64 * MIB
"""Rows of an epoch are read this many stored bytes at once, unless one partition has more."""


@dataclass(frozen=True)
class Inspected:
    """Something that was read, with all that belongs to it.

    Attributes:
        name: What it is, for messages.
        nbytes: Stored bytes of its rows.
        faults: What is wrong with it, a sentence each; none where nothing is.
        note: What there is to say of it besides; empty where that is nothing.
    """

    name: str
    nbytes: int = 0
    faults: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True)
class InspectedEpoch(Inspected):
    """An epoch with its rows.

    Attributes:
        commit: Its commit; None where that cannot be read, or is gone.
    """

    commit: Commit | None = None


@dataclass(frozen=True)
class InspectedSnapshot(Inspected):
    """A snapshot with its rows.

    Attributes:
        snapshot: The snapshot; None where it cannot be read, or is gone.
    """

    snapshot: Snapshot | None = None


class Inspection:
    """Reads a changelog as it is when this is made. For one thread.

    Args:
        changelog: The changelog.

    Raises:
        NotFound: There is no changelog.
        LivestateError: It cannot be reached, or what its stores are cannot be read: without that nothing else
            can be.

    Attributes:
        epochs: The epochs of each store group that have a commit, in order.
        snapshots: The epochs of the snapshots of each, in order.
    """

    def __init__(self, changelog: Changelog) -> None:
        self._changelog = changelog
        if changelog.identity(is_fresh=True) is None:
            raise NotFound("There is no changelog: nothing was ever written there. Check the URI.")
        catalog = changelog.readable_catalog()
        self._damaged = {**catalog.damaged_stores, **catalog.damaged_names}
        groups = changelog.written_groups()
        self.snapshots: Mapping[GroupName, Sequence[Epoch]] = {
            group: changelog.snapshots(group).epochs() for group in groups
        }
        self.epochs: Mapping[GroupName, Sequence[Epoch]] = {
            group: changelog.committed_epochs(group) for group in groups
        }

    def __len__(self) -> int:
        """How many things there are to be read."""
        return sum(map(len, (*self.epochs.values(), *self.snapshots.values())))

    def read(self) -> Iterator[Inspected]:
        """Everything, group by group: whether epochs are missing, the epochs, the snapshots.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        for name, sentence in self._damaged.items():
            yield Inspected(f"The name {name}", faults=(sentence,))
        for directory, load in groups_without_stores(self._changelog):
            if load is None:
                yield Inspected(
                    f"Store group {directory}",
                    faults=("the definitions of its stores are missing or damaged.",),
                )
            elif load.files:
                yield Inspected(f"Store group {load.group}", note=load.describe())
        for group in self.epochs:
            try:
                self._changelog.exclusions(group)
            except Corrupt:
                continue  # said of its stores: it is not known what counts of its epochs
            yield from self.missing_epochs(group)
            yield from self.read_epochs(group)
            yield from self.read_snapshots(group)

    def missing_epochs(self, group: GroupName) -> Iterator[Inspected]:
        """What should be there of a group, and is not."""
        epochs, snapshots = self.epochs[group], self.snapshots[group]
        if not epochs and snapshots:
            yield Inspected(
                f"Store group {group}", faults=("it has snapshots and no epoch: its newest were lost.",)
            )
        for before, after in pairwise(epochs):
            for lost in range(before + 1, after):
                if not self._is_dropped(group, Epoch(lost)):
                    yield Inspected(_epoch_name(group, Epoch(lost)), faults=("it is missing.",))
        if epochs and epochs[0] > 1 and not any(epoch >= epochs[0] - 1 for epoch in snapshots):
            yield Inspected(
                f"Store group {group}",
                faults=(f"the epochs before {epochs[0]} are gone, and no snapshot has their rows.",),
            )
        fault = self._floor_fault(group)
        if fault:
            yield Inspected(f"Store group {group}", faults=(fault,))

    def _floor_fault(self, group: GroupName) -> str:
        """What is wrong with what the changelog says of epochs that were dropped; empty where nothing is."""
        try:
            floor = self._changelog.floor(group)
        except Corrupt as error:
            return error.message
        if floor <= 1 or self._changelog.holds(group, floor):
            return ""
        if self._changelog.floor(group) > floor:
            return ""  # raised while this was asked
        return (
            f"the epochs before {floor:,} count as dropped, and epoch {floor:,}, which should have stayed, "
            "is missing."
        )

    def read_epochs(self, group: GroupName) -> Iterator[InspectedEpoch]:
        """The epochs of a group with their rows, in order; each is compared with the one before it.

        Args:
            group: A store group.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        skips = {skip.epoch: skip for skip in self._changelog.skips(group)}
        with ThreadPoolExecutor(REQUESTS, "livestate-verify") as requests:
            for links in read_chain(self._changelog, group, self.epochs[group], requests):
                for link in links:
                    yield self._read_epoch(
                        group, link, skips.get(link.epoch), skips.get(Epoch(link.epoch - 1))
                    )

    def _read_epoch(
        self, group: GroupName, link: Link, skip: Skip | None, skip_before: Skip | None
    ) -> InspectedEpoch:
        name = _epoch_name(group, link.epoch)
        if skip is not None:
            # What is wrong with it does not matter any more, and not all of it may be known.
            return InspectedEpoch(name, note=skip.describe())
        if link.damage:
            return InspectedEpoch(name, 0, (link.damage,))
        commit = link.commit
        if commit is None:
            is_dropped = self._is_dropped(group, link.epoch)
            return InspectedEpoch(name, 0, () if is_dropped else ("it is missing.",))
        faults = _chain_faults(link) if skip_before is None else []
        faults += self._row_faults(commit)
        if faults and self._is_dropped(group, link.epoch):
            faults = []
        return InspectedEpoch(name, commit.nbytes, tuple(faults), commit=commit)

    def _row_faults(self, commit: Commit) -> list[str]:
        """As `row_faults`, without rows of stores that were dropped since the commit was read."""
        faults = row_faults(self._changelog, commit)
        if not faults:
            return []
        self._changelog.generation(commit.group)
        again = self._changelog.read_commit(commit.group, commit.epoch)
        return faults if again is None or again.files == commit.files else self._row_faults(again)

    def read_snapshots(self, group: GroupName) -> Iterator[InspectedSnapshot]:
        """The snapshots of a group with their rows, in order.

        Args:
            group: A store group.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        for epoch in self.snapshots[group]:
            yield self._read_snapshot(group, epoch)

    def _read_snapshot(self, group: GroupName, epoch: Epoch) -> InspectedSnapshot:
        name = f"The snapshot at {describe(group, epoch)}"
        snapshots = self._changelog.snapshots(group)
        try:
            snapshot = snapshots.read(epoch)
        except Corrupt as error:
            return InspectedSnapshot(name, 0, (error.message,))
        if snapshot is None:
            is_there = epoch in snapshots.epochs()
            return InspectedSnapshot(name, 0, ("it cannot be read.",) if is_there else ())
        faults = self._snapshot_faults(snapshot)
        if faults and epoch not in snapshots.epochs():
            faults = []
        return InspectedSnapshot(name, snapshot.nbytes, tuple(faults), snapshot=snapshot)

    def _snapshot_faults(self, snapshot: Snapshot) -> list[str]:
        """What is wrong with a snapshot, without rows of stores that were dropped since it was read."""
        faults = self._history_faults(snapshot)
        for place in sorted({place for part in snapshot.parts for place in part.covers}):
            faults += self._place_faults(snapshot, *place)
        faults += self._cover_faults(snapshot)
        if not faults:
            return []
        self._changelog.generation(snapshot.group)
        again = self._changelog.snapshots(snapshot.group).read(snapshot.epoch)
        return faults if again is None or again.parts == snapshot.parts else self._snapshot_faults(again)

    def _history_faults(self, snapshot: Snapshot) -> list[str]:
        """Whether a snapshot is one of the epochs that the changelog has."""
        try:
            commit = self._changelog.read_commit(snapshot.group, snapshot.epoch)
            following = self._changelog.read_commit(snapshot.group, Epoch(snapshot.epoch + 1))
        except Corrupt:
            return []  # said of the epoch
        digests = {
            commit.digest if commit is not None else "",
            (following.before or "") if following is not None else "",
        }
        if snapshot.digest and digests - {"", snapshot.digest}:
            return ["it is of another history than the epochs are: the changelog was put together of two."]
        return []

    def _place_faults(self, snapshot: Snapshot, store: StoreName, partition: PartitionId) -> list[str]:
        """Read all rows of a partition."""
        definition = self._changelog.definition_at(store, snapshot.generation)
        if definition is None:
            return [f"There is no definition of store {store}."]
        try:
            for _ in self._changelog.snapshots(snapshot.group).batches(snapshot, definition, partition):
                pass
        except Corrupt as error:
            return [error.message]
        return []

    def _cover_faults(self, snapshot: Snapshot) -> list[str]:
        """Whether a snapshot has all partitions of its stores."""
        covered = {place for part in snapshot.parts for place in part.covers}
        stores = {store for store, _ in covered}
        return [
            f"Partition {number} of store {store} is in no part of it."
            for store, definition in sorted(
                _definitions(self._changelog, stores, snapshot.generation).items()
            )
            for number in range(definition.partitions)
            if (store, PartitionId(number)) not in covered
        ]

    def _is_dropped(self, group: GroupName, epoch: Epoch) -> bool:
        """Whether an epoch has given way to a snapshot since this began: all before it have, too."""
        there = self._changelog.committed_epochs(group)
        newest_snapshot = max(self._changelog.snapshots(group).epochs(), default=BEFORE_FIRST)
        return bool(there) and epoch < there[0] and epoch <= newest_snapshot


def _epoch_name(group: GroupName, epoch: Epoch) -> str:
    return f"Epoch {epoch} of store group {group}"


def _chain_faults(link: Link) -> list[str]:
    """What of a commit does not fit the one before it, where that could be read."""
    commit, before = link.commit, link.before
    if commit is None or before is None:
        return []
    faults = []
    if link.is_torn:
        faults.append(f"it was committed behind another epoch {before.epoch} than the changelog has.")
    if commit.before is None and before.before is not None:
        faults.append(f"it does not name the epoch before it, as epoch {before.epoch} does.")
    written = before.written + commit.nbytes
    if commit.written != written:
        faults.append(f"it counts {commit.written:,} bytes of all epochs, and there are {written:,}.")
    faults += [
        f"its {what} is less than that of the epoch before it."
        for what in ("token", "committed_at", "generation")
        if getattr(commit, what) < getattr(before, what)
    ]
    return faults


def row_faults(changelog: Changelog, commit: Commit) -> list[str]:
    """Read all rows of an epoch, some partitions at once.

    Args:
        changelog: The changelog.
        commit: The commit of the epoch.

    Returns:
        What is wrong with them, a sentence each.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    faults = []
    for places in _pieces(commit):
        try:
            changelog.read_rows(
                commit,
                _definitions(changelog, {store for store, _ in places}, commit.generation),
                lambda store, partition, places=places: (store, partition) in places,  # type: ignore[misc]
            )
        except (Corrupt, NotFound) as error:
            faults.append(error.message)
    return faults


def _definitions(
    changelog: Changelog, stores: set[StoreName], generation: int
) -> dict[StoreName, StoreDefinition]:
    """What stores are at a generation; those that have no definition are left out."""
    found = {store: changelog.definition_at(store, generation) for store in stores}
    return {store: definition for store, definition in found.items() if definition is not None}


def _pieces(commit: Commit) -> Iterator[set[StorePartition]]:
    """The partitions that an epoch has rows of, as many at once as are to be in memory."""
    sizes: dict[StorePartition, int] = {}
    for file in commit.files:
        for part in file.slices:
            place = (part.store, part.partition)
            sizes[place] = sizes.get(place, 0) + part.length
    piece, total = set[StorePartition](), 0
    for place, size in sizes.items():
        if piece and total + size > BYTES_AT_ONCE:
            yield piece
            piece, total = set(), 0
        piece.add(place)
        total += size
    if piece:
        yield piece
