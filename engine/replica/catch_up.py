"""How a store group comes to what can be read on a host: one value, and its transitions. Nothing here reads a
changelog, starts a thread or has a clock.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import Enum

from engine.model.schema import Epoch

SECONDS_BETWEEN_DOUBTS = 10.0
"""A group without news looks this often whether it is so far behind that its epoch has left the changelog."""

_NO_EPOCH = Epoch(0)


class Stage(Enum):
    """What of a group can be read."""

    WAITING = "no partition is open"
    BUILDING = "partitions are open, and nothing can be read before they are at the target"
    READABLE = "an epoch can be read, and newer ones follow"


class Source(Enum):
    """What leads partitions on."""

    UNSURE = "a snapshot may be the better way, or the only one"
    SNAPSHOT = "a snapshot is being read"
    COMMITS = "the commits that follow lead on"
    BLOCKED = "the next commit is damaged, or was lost"


class Track(Enum):
    """Which partitions of a group."""

    MAIN = "those that are read at the group's epoch"
    LATE = "those that are far behind, and are rebuilt beside the others"


class TransitionError(RuntimeError):
    """A transition that is impossible from a state: a defect."""


@dataclass(frozen=True)
class CatchUpState:
    """The state of a group that catches up with its changelog.

    What fails changes nothing here: the next try begins in the same state. When that is, and what there is to
    say of the failure, is kept for each task (`engine.replica.failures`).

    Attributes:
        stage: What can be read.
        target: The epoch that was newest in the changelog when the partitions were opened. Nothing older is
            shown.
        main: What leads the partitions on.
        late: What leads the partitions on that are far behind; None where there are none.
        snapshot: The epoch of the snapshot that is being read; None while none is.
        has_caught_up: Whether all partitions could be read once.
        doubted_at: When it was last looked whether commits still lead on, by the clock.
    """

    stage: Stage = Stage.WAITING
    target: Epoch = _NO_EPOCH
    main: Source = Source.UNSURE
    late: Source | None = None
    snapshot: Epoch | None = None
    has_caught_up: bool = False
    doubted_at: float = 0.0

    def source(self, track: Track) -> Source | None:
        """What leads the partitions of a track on; None where there are none."""
        return self.main if track is Track.MAIN else self.late

    def begin(self, target: Epoch) -> CatchUpState:
        """The first partitions are open.

        Args:
            target: The newest epoch in the changelog.
        """
        self._check_stage("begin", [Stage.WAITING])
        return replace(self, stage=Stage.BUILDING, target=target)

    def lower_target(self, target: Epoch) -> CatchUpState:
        """The changelog was restored from an older copy, or has lost its end, and ends before the target.

        Args:
            target: The newest epoch in the changelog.
        """
        self._check_stage("lower its target", [Stage.BUILDING])
        return replace(self, target=target)

    def publish(self) -> CatchUpState:
        """The partitions are at the target, or behind it, and can be read."""
        self._check_stage("publish", [Stage.BUILDING, Stage.READABLE])
        return replace(self, stage=Stage.READABLE, has_caught_up=self.has_caught_up or self.late is None)

    def start_over(self, clock: float) -> CatchUpState:
        """What can be read, or was to be, is not what the changelog has; the partitions are opened again.

        Args:
            clock: The time, in seconds that never go back.
        """
        self._check_stage("start over", [Stage.BUILDING, Stage.READABLE])
        return CatchUpState(has_caught_up=self.has_caught_up, doubted_at=clock)

    def rebuild_late(self) -> CatchUpState:
        """There are partitions far behind the others, or more of them."""
        self._check_stage("rebuild late partitions", [Stage.BUILDING, Stage.READABLE])
        return replace(self, late=Source.UNSURE)

    def give_up_late(self) -> CatchUpState:
        """The late partitions are not to be here any more."""
        return replace(self, late=None)

    def join_late(self) -> CatchUpState:
        """The late partitions have caught up with the others, and go on with them."""
        self._check_source("join late partitions", Track.LATE, [Source.COMMITS])
        return replace(self, late=None)

    def read_snapshot(self, track: Track, epoch: Epoch) -> CatchUpState:
        """A snapshot is read; or an older one, where the first is damaged.

        Args:
            track: For which partitions.
            epoch: The epoch of the snapshot.
        """
        self._check_source("read a snapshot", track, [Source.UNSURE, Source.BLOCKED, Source.SNAPSHOT])
        return replace(self._replace_source(track, Source.SNAPSHOT), snapshot=epoch)

    def abandon_snapshot(self, track: Track) -> CatchUpState:
        """The search for a snapshot, or the reading of one, has failed.

        Args:
            track: For which partitions.
        """
        self._check_source("abandon a snapshot", track, [Source.UNSURE, Source.BLOCKED, Source.SNAPSHOT])
        return replace(self._replace_source(track, Source.UNSURE), snapshot=None)

    def follow_commits(self, track: Track) -> CatchUpState:
        """A snapshot was read, or commits are the better way.

        Args:
            track: For which partitions.
        """
        self._check_source("follow commits", track, [Source.UNSURE, Source.BLOCKED, Source.SNAPSHOT])
        return replace(self._replace_source(track, Source.COMMITS), snapshot=None)

    def doubt_commits(self, track: Track) -> CatchUpState:
        """What follows was dropped, or may be.

        Args:
            track: For which partitions.
        """
        self._check_source("doubt commits", track, [Source.COMMITS, Source.UNSURE])
        return self._replace_source(track, Source.UNSURE)

    def block(self, track: Track) -> CatchUpState:
        """The next commit is damaged, or was lost.

        Args:
            track: For which partitions.
        """
        self._check_source("block", track, [Source.COMMITS, Source.UNSURE])
        return self._replace_source(track, Source.BLOCKED)

    def await_news(self, clock: float, *, is_doubted: bool = False) -> CatchUpState:
        """Nothing follows. For long, that may be because it was dropped long ago.

        Args:
            clock: The time, in seconds that never go back.
            is_doubted: Whether there is a sign that the changelog is another one.
        """
        if not self.is_in_doubt(clock, is_doubted=is_doubted):
            return self
        return replace(self.doubt_commits(Track.MAIN), doubted_at=clock)

    def is_in_doubt(self, clock: float, *, is_doubted: bool = False) -> bool:
        """Whether it is to be looked what there is, where nothing follows; the arguments are those of
        `await_news`.
        """
        return is_doubted or clock - self.doubted_at >= SECONDS_BETWEEN_DOUBTS

    def _replace_source(self, track: Track, source: Source) -> CatchUpState:
        return replace(self, main=source) if track is Track.MAIN else replace(self, late=source)

    def _check_stage(self, transition: str, stages: Collection[Stage]) -> None:
        if self.stage not in stages:
            raise TransitionError(f"A group cannot {transition} where {self.stage.value}.")

    def _check_source(self, transition: str, track: Track, sources: Collection[Source]) -> None:
        self._check_stage(transition, [Stage.BUILDING, Stage.READABLE])
        source = self.source(track)
        if source not in sources:
            found = "there are none" if source is None else source.value
            raise TransitionError(f"A group cannot {transition} for {track.value}: {found}.")
