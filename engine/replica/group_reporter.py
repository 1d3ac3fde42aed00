"""What a store group has to say to other hosts: what can be read here, and how it gets on."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from threading import Lock

from engine.cluster.reports import ColumnReport, GroupReport, Progress, StoreReport
from engine.model.schema import Epoch, StoreName
from engine.replica.catch_up import CatchUpState
from engine.replica.column_reporter import ColumnReporter
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_partitions import GroupPartitions
from engine.replica.group_progress import GroupProgress
from engine.replica.group_views import GroupView
from engine.replica.partition_keys import PartitionKey
from engine.replica.readable_epochs import ReadableEpochs
from engine.replica.sightings import Sightings
from engine.state.state_view import StateView


class GroupReporter:
    """Keeps the report of a group. One thread at a time changes it, and another one what it says of progress;
    any may read `reported`.

    Args:
        definitions: The stores of the group.
        partitions: Its partitions.
        readable: The epochs that can be read.
        progress: Says how far the partitions are.

    Attributes:
        reported: What can be read here, for the reports of hosts; replaced as a whole.
        newest_known: The newest epoch that is known to be committed.
        unread_since: As `GroupReport.unread_since`; comes with the next report.
    """

    def __init__(
        self,
        definitions: GroupDefinitions,
        partitions: GroupPartitions,
        readable: ReadableEpochs,
        progress: GroupProgress,
    ) -> None:
        self.reported: tuple[GroupReport, Mapping[StoreName, StoreReport]] = (GroupReport((), Epoch(0)), {})
        self.newest_known = Epoch(0)
        self.unread_since: int | None = None
        self._definitions = definitions
        self._partitions = partitions
        self._readable = readable
        self._progress = progress
        self._columns = ColumnReporter()
        self._sightings = Sightings()
        self._looked_at = 0
        self._problem = ""
        self._changing = Lock()

    def note_epoch(self, epoch: Epoch, seen_at: int) -> None:
        """Take note of a committed epoch; it comes with the next report.

        Args:
            epoch: The epoch.
            seen_at: When it was seen to be there, microseconds since 1970 UTC by the host's clock.
        """
        self.newest_known = max(self.newest_known, epoch)
        self._sightings.note(epoch, seen_at)

    def lower_newest(self, epoch: Epoch) -> None:
        """Take note that the changelog has lost what was committed behind an epoch; it comes with the next
        report.
        """
        self.newest_known = min(self.newest_known, epoch)
        self._sightings.lower(epoch)

    def time_of_unread(self, epoch: Epoch, committed_at: int) -> int:
        """As `GroupReport.unread_since`, of the first epoch that cannot be read yet.

        Args:
            epoch: The epoch.
            committed_at: What its commit says, or that of one before it.
        """
        return self._sightings.unread_since(epoch, committed_at)

    def note_look(self, looked_at: int, unread_since: int | None) -> None:
        """Report a look at the changelog.

        Args:
            looked_at: When it began, as `GroupReport.looked_at`.
            unread_since: As `GroupReport.unread_since`.
        """
        self._looked_at, self.unread_since = looked_at, unread_since
        with self._changing:
            group, stores = self.reported
            noted = replace(
                group, newest_known=self.newest_known, unread_since=unread_since, looked_at=looked_at
            )
            self.reported = (noted, stores)

    def note_progress(self, building: Progress | None, catching_up: Progress | None) -> None:
        """Report how far partitions are.

        Args:
            building: As `GroupReport.building`.
            catching_up: As `GroupReport.catching_up`.
        """
        with self._changing:
            group, stores = self.reported
            building, catching_up = self._outlook(building), self._outlook(catching_up)
            if (building, catching_up) != (group.building, group.catching_up):
                self.reported = (replace(group, building=building, catching_up=catching_up), stores)

    def note_problem(self, problem: str) -> None:
        """Report what keeps the group from getting on; empty when nothing is wrong."""
        if problem != self._problem:
            self._problem = problem
            with self._changing:
                group, stores = self.reported
                building, catching_up = self._outlook(group.building), self._outlook(group.catching_up)
                group = replace(group, problem=problem, building=building, catching_up=catching_up)
                self.reported = (group, stores)

    def _outlook(self, progress: Progress | None) -> Progress | None:
        """Progress as it is reported: what does not get on has no rate, and so no time left."""
        if progress is None or not self._problem:
            return progress
        return replace(progress, bytes_per_second=None)

    def refresh_progress(self, state: CatchUpState) -> GroupReport:
        """Report how far the partitions are by now, for any thread; what is reported then.

        Args:
            state: The state of the group.
        """
        catching_up = self._progress.catch_up_progress(state, self.newest_known)
        self.note_progress(self._progress.building_progress(state), catching_up)
        return self.reported[0]

    def report(self, state: CatchUpState) -> None:
        """Report what can be read.

        Args:
            state: The state of the group.
        """
        view = self._readable.newest
        if view is None:
            stores = _building_reports(self._definitions)
        else:
            late = sorted(self._partitions.late.partitions)
            stores = _store_reports(view, self._readable.since, late, self._columns)
        readable, past = self._readable.listed, self._readable.listed_past
        building = self._progress.building_progress(state)
        catching_up = self._progress.catch_up_progress(state, self.newest_known)
        with self._changing:
            group = GroupReport(
                readable,
                self.newest_known,
                self.unread_since,
                self._looked_at,
                self._outlook(building),
                self._problem,
                self._outlook(catching_up),
                past,
            )
            self.reported = (group, stores)


def _building_reports(definitions: GroupDefinitions) -> Mapping[StoreName, StoreReport]:
    """The reports of stores of which nothing can be read yet.

    Args:
        definitions: The stores.
    """
    return {
        name: StoreReport((), rebuilding=tuple(sorted(definitions.held_partitions(store))))
        for name, store in definitions.found.items()
    }


def _store_reports(
    view: GroupView,
    since: Mapping[StoreName, Epoch],
    late: Collection[PartitionKey],
    columns: ColumnReporter,
) -> Mapping[StoreName, StoreReport]:
    """The reports of stores that can be read.

    Args:
        view: The newest epoch that can be read.
        since: The oldest epoch of each store from which on its partitions can be read.
        late: The partitions that are being rebuilt, in order.
        columns: Says what columns are like.
    """
    return {
        name: _store_report(store, since[name], late, columns.columns(store))
        for name, store in view.stores.items()
    }


def _store_report(
    store: StateView,
    since: Epoch,
    late: Collection[PartitionKey],
    columns: Mapping[str, ColumnReport],
) -> StoreReport:
    versions = store.versions.values()
    return StoreReport(
        partitions=tuple(sorted(store.versions)),
        rows=sum(version.live_rows for version in versions),
        bytes=sum(version.nbytes for version in versions),
        segments=sum(len(version.segments) for version in versions),
        stored_rows=sum(version.stored_rows for version in versions),
        since=since,
        rebuilding=tuple(number for name, number in late if name == store.definition.name),
        columns=columns,
    )
