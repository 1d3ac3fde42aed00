"""The partition stores of a group on a host, and which of them move on together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial

from engine.changelog import Changelog, Commit
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreDefinitions, StoreName
from engine.replica.catch_up import Track
from engine.replica.cohort import Cohort, late_partitions
from engine.replica.commit_queue import never_stop
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_setup import GroupSetup
from engine.replica.history import check_has_epochs, check_same_changelog, diverged_partitions
from engine.replica.open_partitions import OpenPartitions
from engine.replica.partition_keys import PartitionKey, partition_names
from engine.replica.reached_epoch import ReachedEpoch
from engine.replica.recovery import stores_with_rows
from engine.state.partition import PartitionStore

_log = logging.getLogger(__name__)

FAR_BEHIND = 512
"""Epochs that a partition may be behind the others and still hold them up after a restart. Without rows it
notes its epoch more often than that.
"""


class GroupPartitions:
    """Two cohorts: the partitions that are read at the group's epoch, and those that are far behind, because
    they were lost or came to this host later. These are rebuilt beside the others, which go on, and take them
    in when they have caught up. One thread at a time changes them; any may list those that are open.

    Args:
        group: The group.
        changelog: Where its commits are.
        setup: What it shares with other groups.
        definitions: Its stores.
        stops_at: Says at which epochs all partitions must stop, however many follow.

    Attributes:
        opened: All that are open, of either cohort or of none yet.
        main: Those that are read at the group's epoch.
        late: Those that are rebuilt beside them.
        rebuild_reason: Why partitions are, or were last, built again that this host had before, in one
            sentence.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        setup: GroupSetup,
        definitions: GroupDefinitions,
        stops_at: Callable[[Commit], bool],
    ) -> None:
        self._group = group
        self._changelog = changelog
        self._setup = setup
        self._definitions = definitions
        self._stops_at = stops_at
        self._damage: dict[PartitionKey, str] = {}
        """What is damaged of partitions that are to be built again."""
        self._emptied: set[PartitionKey] = set()
        """Partitions that had rows of this changelog, and were opened without any because what they or their
        neighbours had was put aside.
        """
        self.opened = OpenPartitions(group, setup, changelog, definitions.definition_at)
        self.main = self._new_cohort(Epoch(0), stops_at)
        self.late = self._new_cohort(Epoch(0))
        self.rebuild_reason = ""
        self._began_at = Epoch(0)
        """The epoch of the first partitions at first: commits up to it were not read here."""

    def cohort(self, track: Track) -> Cohort:
        """The partitions of a track."""
        return self.main if track is Track.MAIN else self.late

    @property
    def is_damaged(self) -> bool:
        """Whether partitions are damaged and not put aside yet."""
        return bool(self._damage)

    def open(self, definitions: Iterable[StoreDefinition]) -> None:
        """Open the partitions of some stores that this host holds. What is damaged of them is put aside, and
        is there without any rows.

        Raises:
            LivestateError: One cannot be opened; call it again with the same stores.
        """
        try:
            self.opened.open_all(
                [
                    (definition, number)
                    for definition in definitions
                    for number in self._definitions.held_partitions(definition)
                ]
            )
        finally:
            damage = self.opened.damage
            if damage:
                self._note_damage(damage)
                self._emptied.update(damage)
                damage.clear()

    def begin(
        self,
        opened: Mapping[PartitionKey, PartitionStore],
        newest: Epoch,
        reached: ReachedEpoch | None,
    ) -> None:
        """Begin with the first partitions, at whatever epochs they are.

        Args:
            opened: The partitions.
            newest: The newest epoch in the changelog.
            reached: The epoch that all have reached, if that was noted.

        Raises:
            LivestateError: The commit of the newest epoch cannot be read.
        """
        is_even = reached is not None and reached.epoch <= newest and reached.covers(opened.values())
        late = frozenset() if is_even else late_partitions(opened, FAR_BEHIND)
        others = {key: store for key, store in opened.items() if key not in late}
        self.late = self._new_cohort(Epoch(0))
        self.main = main = self._cohort_of(others, self._stops_at)
        if is_even and reached is not None and reached.epoch > main.epoch:
            main.epoch, main.digest = reached.epoch, reached.digest
        if not main.partitions:
            commit = self._changelog.read_commit(self._group, newest) if newest else None
            main.epoch = newest
            if commit is not None:
                main.generation, main.digest = commit.generation, commit.digest
        self._began_at = main.epoch
        self._emptied.clear()
        if late:
            self.rebuild_later({key: opened[key] for key in late})

    def begin_at(self, opened: Mapping[PartitionKey, PartitionStore], reached: ReachedEpoch) -> None:
        """Begin with the first partitions, all of which have reached an epoch."""
        self.main = self._cohort_of(opened, self._stops_at)
        self._began_at = self.main.epoch = reached.epoch
        self.main.digest = reached.digest

    def place(self, opened: Mapping[PartitionKey, PartitionStore], definitions: StoreDefinitions) -> bool:
        """Give partitions of new stores their place among the others.

        Args:
            opened: The partitions.
            definitions: Their stores, at the generation of the others.

        Returns:
            Whether some of them are to be rebuilt beside the others.

        Raises:
            LivestateError: As `put_diverged_aside`, `stores_with_rows` and `Cohort.join`.
        """
        # What the disk has may be of another store of the name, which a restored changelog lacks.
        opened = self.put_diverged_aside(opened)
        # Without others here nothing was read up to this epoch that could have had rows for these.
        read_to = self.main.epoch if not self.main.partitions else self._began_at
        # A store that was listed too late need not be a new one.
        names = {name for (name, _), store in opened.items() if not store.applied}
        written = stores_with_rows(self._changelog, self._group, names, self.main.epoch, read_to)
        late = {
            key: store
            for key, store in opened.items()
            if store.applied or key in self._emptied or key[0] in written or self._definitions.is_back(key[0])
        }
        self.main.join({key: store for key, store in opened.items() if key not in late}, definitions)
        if late:
            self.rebuild_later(late)
        self._emptied.difference_update(opened)
        return bool(late)

    def rebuild_later(self, partitions: Mapping[PartitionKey, PartitionStore]) -> None:
        """Have partitions rebuilt beside those that can be read, together with others that are."""
        self.late = self._cohort_of({**self.late.partitions, **partitions})

    def join_late(self) -> None:
        """Have the late partitions, which have caught up, move on with the others.

        Raises:
            LivestateError: As `Cohort.join`, or their stores cannot be read.
        """
        self.main.join(self.late.partitions, self._definitions.open_stores(self.main.generation))
        self.late = self._new_cohort(Epoch(0))

    def remove(self, stores: Collection[StoreName]) -> None:
        """Close the partitions of stores that are no more."""
        for cohort in (self.main, self.late):
            cohort.remove([key for key in cohort.partitions if key[0] in stores])
        self.opened.forget(stores)
        self._damage = {key: what for key, what in self._damage.items() if key[0] not in stores}

    def put_diverged_aside(
        self, partitions: Mapping[PartitionKey, PartitionStore]
    ) -> Mapping[PartitionKey, PartitionStore]:
        """Put aside those of some open partitions that have applied other commits than the changelog has, and
        with them all that share their places.

        Args:
            partitions: The partitions.

        Returns:
            All of them, as they are now: without rows where they were put aside.

        Raises:
            Unavailable: Another changelog is in the place of the one that was followed, or it has no epochs.
            LivestateError: It cannot be read, or a partition cannot be put aside; the next call tries again.
        """
        if not any(store.applied for store in partitions.values()):
            return partitions
        differing = diverged_partitions(self._changelog, self._group, partitions.values())
        if differing:
            check_same_changelog(self._changelog)
            check_has_epochs(self._changelog, self._group)
        diverged = {store.identity for store in differing}
        reopened: set[PartitionKey] = set()
        for store in differing:
            name, number = store.identity
            if store.identity not in reopened:
                neighbours = self.opened.neighbours(store.identity)
                self._emptied.update(key for key in neighbours if key not in diverged)
                definition = self._definitions.found[name]
                reopened.update(self.opened.reopen_empty(definition, number, is_lost=True))
            _log.warning(
                "Partition %d of store %s was put aside at epoch %d, and is built again.",
                number,
                name,
                store.applied,
            )
        return self.opened.partitions_of_keys(partitions)

    def add_damage(self, damage: Mapping[PartitionKey, str]) -> None:
        """Take note of partitions that are to be built again.

        Args:
            damage: What is damaged of each.
        """
        self._damage.update(damage)

    def note_damaged(self) -> Collection[PartitionKey]:
        """Say which partitions `replace_damaged` puts aside: those that are damaged, and all that share their
        places. They are returned.
        """
        damage = self.opened.with_neighbours(self._known_damage())
        if damage:
            self._note_damage(damage)
        return damage.keys()

    def replace_damaged(self) -> None:
        """Put aside what is damaged, and have it rebuilt beside the others.

        Raises:
            LivestateError: A partition cannot be put aside; the next call tries again.
        """
        for name, number in self._known_damage():
            if (name, number) not in self._damage:
                continue  # it was put aside with another one that shares its place
            neighbours = self.opened.neighbours((name, number))
            for cohort in (self.main, self.late):
                cohort.remove(neighbours)
            reopened = self.opened.reopen_empty(self._definitions.found[name], number, is_lost=False)
            self.rebuild_later(self.opened.partitions_of_keys(reopened))
            for each in reopened:
                self._damage.pop(each, None)

    def close(self) -> None:
        """Close all partitions and note their epoch."""
        self.main.close()
        self.late.close()
        self.opened.close_others({*self.main.partitions, *self.late.partitions})

    def _known_damage(self) -> Mapping[PartitionKey, str]:
        return {key: what for key, what in self._damage.items() if key[0] in self._definitions.found}

    def _note_damage(self, damage: Mapping[PartitionKey, str]) -> None:
        """Say that partitions are built again.

        Args:
            damage: What is damaged of each.
        """
        names, parts = partition_names(sorted(damage)), ", ".join(sorted(set(damage.values())))
        self.rebuild_reason = (
            f"What the disk of this host had of {names} is damaged ({parts}): it was put aside, and is built "
            "again."
        )
        _log.error("%s", self.rebuild_reason)

    def _new_cohort(self, epoch: Epoch, stops_at: Callable[[Commit], bool] = never_stop) -> Cohort:
        setup = self._setup
        return Cohort(
            self._group,
            self._changelog,
            setup.workers,
            partial(setup.request_compaction, self._group),
            epoch,
            stops_at,
            setup.build_workers,
            setup.large_workers,
            setup.stopping,
            setup.clock,
        )

    def _cohort_of(
        self,
        partitions: Mapping[PartitionKey, PartitionStore],
        stops_at: Callable[[Commit], bool] = never_stop,
    ) -> Cohort:
        """A cohort of partitions that are at several epochs: it begins at the first of these, and the others
        wait for it.
        """
        first = min((store.applied for store in partitions.values()), default=Epoch(0))
        cohort = self._new_cohort(first, stops_at)
        cohort.generation = min((store.generation for store in partitions.values()), default=0)
        cohort.digest = next((store.digest for store in partitions.values() if store.applied == first), "")
        cohort.add(partitions)
        return cohort
