"""The commits that follow an epoch, read ahead: as many as may be taken together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from engine.changelog import Changelog, Commit, Exclusions
from engine.model.schema import Epoch, GroupName
from engine.replica.history import check_follows, is_first_behind
from engine.replica.partition_keys import PartitionKey
from engine.replica.patience import Backlog, Patience

MOST_EPOCHS_TOGETHER = 64
ENOUGH_ROWS_TOGETHER = 500_000
"""Partitions that are behind take epochs together until they have this many rows."""
ENOUGH_BYTES_TOGETHER = 128 << 20
"""Or this many stored bytes of them: rows can be large, and all of these are in memory."""
LARGE_EPOCH_BYTES = ENOUGH_BYTES_TOGETHER
"""An epoch with this many stored bytes is taken alone, and its rows are read while they are applied."""


def stopping_point(first: Epoch, last: Epoch) -> Epoch:
    """Where to stop among epochs that could be taken together: at the one that the highest power of two
    divides.

    Hosts that are behind by different amounts skip different epochs, and a query needs one that none of them
    has skipped. An epoch is skipped only on the way to one with a higher power, so all hosts stop at the
    epochs of a power that is as high as any of them has taken epochs together.

    Args:
        first: The next epoch, at least 1.
        last: The last one within reach.

    Returns:
        An epoch from `first` to `last`. Of more epochs with the same `first` it is never an earlier one.
    """
    stop = int(last)
    while (higher := stop & (stop - 1)) >= first:
        stop = higher
    return Epoch(stop)


@dataclass(frozen=True)
class _Load:
    """How much commits bring together.

    Attributes:
        rows: Rows.
        nbytes: Their bytes in the changelog.
    """

    rows: int = 0
    nbytes: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether more would gain nothing, or take too much memory."""
        return self.rows >= ENOUGH_ROWS_TOGETHER or self.nbytes >= ENOUGH_BYTES_TOGETHER

    def __add__(self, other: _Load) -> _Load:
        return _Load(self.rows + other.rows, self.nbytes + other.nbytes)


def _load(commit: Commit, partitions: Collection[PartitionKey]) -> _Load:
    """What a commit has for some partitions."""
    parts = [
        part for file in commit.files for part in file.slices if (part.store, part.partition) in partitions
    ]
    return _Load(sum(part.rows for part in parts), sum(part.length for part in parts))


def is_large(commit: Commit, partitions: Collection[PartitionKey]) -> bool:
    """Whether a commit has so many rows for some partitions that they are not to be in memory together."""
    return own_bytes(commit, partitions) >= LARGE_EPOCH_BYTES


def own_bytes(commit: Commit, partitions: Collection[PartitionKey]) -> int:
    """The stored bytes of the rows that a commit has for some partitions."""
    return _load(commit, partitions).nbytes


def never_stop(commit: Commit) -> bool:
    """No epoch is one to stop at."""
    return False


class CommitQueue:
    """The commits behind an epoch, in order and without gaps. One thread at a time uses it.

    A commit is read without what counts for nothing, as far as is known then. So all are read again where
    anything else was decided of the group since, or a changelog that was restored has other decisions: a
    store that had been dropped may be back.

    Args:
        group: Their group.
        changelog: Where they are.
        stops_at: Says at which epochs all partitions must stop, however many follow.
    """

    def __init__(
        self, group: GroupName, changelog: Changelog, stops_at: Callable[[Commit], bool] = never_stop
    ) -> None:
        self._group = group
        self._changelog = changelog
        self._stops_at = stops_at
        self._commits: deque[Commit] = deque()
        self._stop: Epoch | None = None
        self._patience = Patience()
        self._exclusions: Exclusions | None = None
        """What had been decided of the group before they were read."""

    @property
    def first(self) -> Commit | None:
        """The next commit, if it is read already."""
        return self._commits[0] if self._commits else None

    def nbytes(self, partitions: Collection[PartitionKey]) -> int:
        """Stored bytes that the commits have for some partitions."""
        return sum(_load(commit, partitions).nbytes for commit in self._commits)

    def fill(
        self, epoch: Epoch, digest: str, partitions: Collection[PartitionKey], last: Epoch | None = None
    ) -> Sequence[Commit] | None:
        """Read ahead, as far as commits may be taken together.

        Args:
            epoch: The epoch that the partitions have reached.
            digest: As `Commit.digest` of that epoch; empty where it is not known.
            partitions: Whose rows count.
            last: The last epoch to look at; None for no such.

        Returns:
            The commits; none where nothing is new. None where what follows was dropped: what is found there
            may not be what was first committed.

        Raises:
            LivestateError: The very next commit cannot be read.
            DivergedError: It was committed behind another epoch than the partitions have reached.
        """
        exclusions = self._changelog.exclusions(self._group)
        if exclusions is not self._exclusions:
            self.clear()
            self._exclusions = exclusions
        found: list[Commit] = []
        load = sum((_load(commit, partitions) for commit in self._commits), _Load())
        stop = self._stop
        digest = self._commits[-1].digest if self._commits else digest
        before = Epoch(epoch + len(self._commits))
        most = MOST_EPOCHS_TOGETHER - len(self._commits)
        following = self._changelog.read_following(
            self._group, before, most if last is None else min(most, last - before)
        )
        while len(found) < most and not load.is_enough and stop is None:
            try:
                commit = next(following, None)
                if commit is not None:
                    check_follows(self._changelog, commit, digest)
                    if self._stops_at(commit):
                        stop = commit.epoch
            except Exception:
                if not self._commits and not found:
                    raise
                break  # the commits before it are fine; the next look meets this one first
            if commit is None:
                break
            found.append(commit)
            digest = commit.digest
            load += _load(commit, partitions)
        if found and not is_first_behind(self._changelog, self._group, before):
            self.clear()
            return None
        # Not before it is known that they are the ones that were first committed: what fails until then is
        # done again as a whole.
        self._commits += found
        self._stop = stop
        return tuple(self._commits)

    def next_commits(
        self, partitions: Collection[PartitionKey], *, is_single: bool, is_readable: bool = False
    ) -> Sequence[Commit]:
        """The commits up to a good one to stop at; the first one alone where `Patience` says so.

        Args:
            partitions: Whose rows count.
            is_single: Whether the first one is to be met by itself in any case.
            is_readable: Whether somebody can read what the partitions come to: for nobody else the host has
                patience.
        """
        first, last = self._commits[0], self._commits[-1]
        backlog = Backlog(
            len(self._commits),
            sum(_load(commit, partitions).rows for commit in self._commits),
            _load(first, partitions).rows,
            (last.committed_at - first.committed_at) / 1e6,
            is_cut=not is_readable or len(self._commits) >= MOST_EPOCHS_TOGETHER,
        )
        is_alone = is_single or self._patience.takes_one(backlog)
        self._patience = self._patience.patience_left(backlog)
        stop = first.epoch if is_alone else stopping_point(first.epoch, last.epoch)
        return [commit for commit in self._commits if commit.epoch <= stop]

    def drop(self, epoch: Epoch) -> None:
        """Forget the commits up to an epoch."""
        while self._commits and self._commits[0].epoch <= epoch:
            self._commits.popleft()
        if self._stop is not None and self._stop <= epoch:
            self._stop = None

    def clear(self) -> None:
        """Forget all commits; they are read again."""
        self._commits.clear()
        self._stop = None
