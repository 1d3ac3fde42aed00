"""How far the partitions of a group are, and how much there is to read."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.changelog import Changelog
from engine.cluster.reports import Progress
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName
from engine.replica.catch_up import CatchUpState, Source, Stage, Track
from engine.replica.cohort import Cohort
from engine.replica.group_definitions import GroupDefinitions
from engine.replica.group_partitions import GroupPartitions

_log = logging.getLogger(__name__)

SECONDS_BETWEEN_AIMS = 5.0
"""How often at most it is asked how many bytes are left up to a target that moves on."""


class GroupProgress:
    """Any thread may ask how far the partitions are; one at a time measures.

    Args:
        group: The group.
        changelog: Where its commits are.
        definitions: Its stores.
        partitions: Its partitions.
        clock: Gives the time in seconds that never go back.
    """

    def __init__(
        self,
        group: GroupName,
        changelog: Changelog,
        definitions: GroupDefinitions,
        partitions: GroupPartitions,
        clock: Callable[[], float],
    ) -> None:
        self._group = group
        self._changelog = changelog
        self._definitions = definitions
        self._partitions = partitions
        self._clock = clock

    def building_progress(self, state: CatchUpState) -> Progress | None:
        """How far the partitions are that cannot be read yet; None where all can."""
        main, late = self._partitions.main, self._partitions.late
        if state.stage is Stage.BUILDING:
            return self._progress(main, state.target, state.snapshot)
        return None if state.late is None else self._progress(late, main.epoch, state.snapshot)

    def catch_up_progress(self, state: CatchUpState, newest: Epoch) -> Progress | None:
        """How far the partitions are that can be read; None where no newer commit is known.

        Args:
            state: The state of the group.
            newest: The newest epoch that is known to be committed.
        """
        main = self._partitions.main
        if state.stage is not Stage.READABLE or main.epoch >= newest:
            return None
        return self._progress(main, newest, state.snapshot if state.main is Source.SNAPSHOT else None)

    def _progress(self, cohort: Cohort, target: Epoch, snapshot: Epoch | None) -> Progress:
        partitions = sum(each.partitions for each in list(self._definitions.found.values()))
        share = len(cohort.partitions) / max(1, partitions)
        return cohort.meter.progress(cohort.epoch, target, snapshot, share)

    def measure_rest(self, track: Track, target: Epoch) -> None:
        """Find out how many bytes there are up to where partitions are to come; now and then, as that moves
        on.

        Args:
            track: Which partitions.
            target: Where they are to come.
        """
        meter = self._partitions.cohort(track).meter
        if target == meter.target:
            return
        if self._clock() - meter.aimed_at < SECONDS_BETWEEN_AIMS and not meter.is_past_target:
            return
        try:
            commit = self._changelog.read_commit(self._group, target)
        except LivestateError as error:
            _log.debug("How much there is to read is not known: %s", error.message)
            commit = None
        meter.aim(target, None if commit is None else commit.written)
