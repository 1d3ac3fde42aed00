"""The commits of a store group as hosts apply them: without what counts for nothing, and under digests that
say so.

A digest stands for all that was committed up to an epoch. From an epoch on that is passed by, it stands for
the skip as well: who has applied the epoch and who has passed it by have other digests from there on, so that
their rows are never read together, and each finds out by itself which of the two the changelog has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.changelog.amendments import Amendments, Skip
from engine.changelog.codec import DIGEST_LENGTH
from engine.changelog.commit import Commit
from engine.changelog.epochs import Epochs
from engine.changelog.layout import commit_path
from engine.changelog.objects import Objects
from engine.changelog.requests import ask_each
from engine.changelog.snapshot import Snapshot
from engine.errors import Corrupt
from engine.model.schema import Epoch


class History:
    """The commits of one store group as hosts apply them. Safe to use from several threads.

    Args:
        objects: The changelog's objects.
        epochs: The epochs of the group as they were written.
        amendments: The amendments of the group.
    """

    def __init__(self, objects: Objects, epochs: Epochs, amendments: Amendments) -> None:
        self._objects = objects
        self._epochs = epochs
        self._amendments = amendments
        self._effective: dict[str, bool] = {}

    def read_commit(self, epoch: Epoch) -> Commit | None:
        """The commit of an epoch; None while there is none.

        Raises:
            Corrupt: It is damaged, or of a format that this version does not know; or an amendment is.
            Unavailable: The changelog cannot be reached.
        """
        commit = self._epochs.read(epoch)
        return None if commit is None else self._applied_commit(commit)

    def read_following(self, epoch: Epoch, most: int) -> Iterator[Commit]:
        """The commits that follow an epoch, in order; several are read at once where there are many.

        Args:
            epoch: The epoch.
            most: How many at most.

        Yields:
            Commits, up to the one before the first that is not there.

        Raises:
            LivestateError: As `read_commit`.
        """
        following, width, last = epoch + 1, 1, epoch + most
        while following <= last:
            numbers = [Epoch(number) for number in range(following, min(following + width, last + 1))]
            for commit in ask_each(self._read_or_fail, numbers, width):
                if isinstance(commit, Exception):
                    raise commit
                if commit is None:
                    return
                yield commit
            following, width = following + width, min(2 * width, self._objects.requests_at_once)

    def _read_or_fail(self, epoch: Epoch) -> Commit | Exception | None:
        """As `read_commit`; what it raises counts when it is this epoch's turn."""
        try:
            return self.read_commit(epoch)
        except Exception as error:  # noqa: BLE001 - raised by whoever comes to the epoch
            return error

    def decode_commit(self, epoch: Epoch, data: pa.Buffer) -> Commit:
        """The commit that `read_commit` gives, of its bytes."""
        return self._applied_commit(self._epochs.decode(epoch, data))

    def _applied_commit(self, commit: Commit) -> Commit:
        epoch = commit.epoch
        exclusions = self._amendments.exclusions(commit.generation)
        skip = exclusions.skips.get(epoch)
        if skip is not None and commit is skip.stand_in:
            self._effective[skip.mark] = True
        elif skip is not None:
            self._effective.pop(skip.mark, None)  # what is there now is another one: why, is to be seen
        commit = exclusions.keep_rows(commit)
        skips = [skip for skip in self.skips() if skip.epoch <= epoch]
        if not skips:
            return commit
        earlier = [skip for skip in skips if skip.epoch < epoch]
        # What follows a commit that could not be read may name that, or what stands in for it.
        blind = next((skip for skip in earlier if skip.epoch == epoch - 1 and not skip.digest), None)
        before = commit.before if blind is None else blind.stand_in.digest
        return replace(
            commit,
            digest=_fold(commit.digest, skips),
            before=None if before is None else _fold(before, earlier),
        )

    def skips(self) -> Sequence[Skip]:
        """The skips that this process has heard of, of epochs that are those of this changelog: one that was
        restored from an older copy may have others under the same numbers. In order.

        Raises:
            LivestateError: As `read_commit`.
        """
        found = sorted(self._amendments.exclusions().skips.values(), key=lambda skip: skip.number)
        return [skip for skip in found if self._is_effective(skip)]

    def forget(self) -> None:
        """Look again what was decided, and which skips are of epochs of this changelog."""
        self._effective.clear()
        self._amendments.forget()

    def _is_effective(self, skip: Skip) -> bool:
        known = self._effective.get(skip.mark)
        if known is None:
            data = self._objects.get(commit_path(self._epochs.group, skip.epoch))
            # One that has given way to a snapshot was passed by before that. What is there under its number
            # then is of a writer that comes too late, and takes it back.
            known = data is None or skip.matches(data) or self._epochs.floor() > skip.epoch
            if data is not None or any(epoch >= skip.epoch for epoch in self._epochs.snapshots.epochs()):
                self._effective[skip.mark] = known
        return known

    def usable_snapshots(self) -> list[Snapshot]:
        """All snapshots that can be read, in order of epoch, but those of other epochs than the changelog
        has: of before an epoch was passed by that they have the rows of, or of before an older copy of the
        changelog was put back.

        Raises:
            Unavailable: The changelog cannot be reached.
        """
        return [
            snapshot for snapshot in self._epochs.snapshots.readable_snapshots() if self._has_made(snapshot)
        ]

    def _has_made(self, snapshot: Snapshot) -> bool:
        try:
            commit = self.read_commit(snapshot.epoch)
            has_skips = any(skip.epoch <= snapshot.epoch for skip in self.skips())
        except Corrupt:
            return True  # whoever reads the epochs is told
        if commit is None or commit.digest == snapshot.digest:
            return True
        return not snapshot.digest and not has_skips  # an older version has written it


def _fold(digest: str, skips: Sequence[Skip]) -> str:
    """The digest of a history in which epochs are passed by; empty where it is not known."""
    if not digest or not skips:
        return digest
    text = " ".join([digest, *(skip.mark for skip in skips)])
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_LENGTH]
