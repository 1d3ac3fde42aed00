"""The commits of a store group one behind the other, read side by side: for whoever reads all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from engine.changelog.changelog import Changelog
from engine.changelog.commit import Commit
from engine.changelog.layout import commit_path
from engine.errors import Corrupt
from engine.model.schema import Epoch, GroupName

EPOCHS_AT_ONCE = 64


@dataclass(frozen=True)
class Link:
    """An epoch of the chain.

    Attributes:
        epoch: The epoch.
        data: Its commit as it is stored; None where that is missing.
        commit: Its commit; None where that is missing or damaged.
        damage: What is wrong with a damaged one, a sentence; empty where nothing is.
        before: The commit of the epoch before; None where that is not part of the chain, missing or damaged.
    """

    epoch: Epoch
    data: pa.Buffer | None
    commit: Commit | None
    damage: str = ""
    before: Commit | None = None

    @property
    def is_torn(self) -> bool:
        """Whether the commit was committed behind another one than is there."""
        commit, before = self.commit, self.before
        return commit is not None and before is not None and not commit.follows(before.digest)


def read_chain(
    changelog: Changelog, group: GroupName, epochs: Sequence[Epoch], requests: Executor
) -> Iterator[Sequence[Link]]:
    """Read commits.

    Args:
        changelog: The changelog.
        group: A store group.
        epochs: The epochs, in order.
        requests: Runs requests side by side.

    Yields:
        Some links at once, in order.

    Raises:
        Unavailable: The changelog cannot be reached.
    """
    before: Commit | None = None
    for start in range(0, len(epochs), EPOCHS_AT_ONCE):
        some = epochs[start : start + EPOCHS_AT_ONCE]
        links = []
        for link in requests.map(partial(_read_link, changelog, group), some):
            is_next = before is not None and before.epoch == link.epoch - 1
            links.append(Link(link.epoch, link.data, link.commit, link.damage, before if is_next else None))
            before = link.commit
        yield links


def _read_link(changelog: Changelog, group: GroupName, epoch: Epoch) -> Link:
    data = changelog.objects.get(commit_path(group, epoch))
    if data is None:
        return Link(epoch, None, None)
    try:
        return Link(epoch, data, changelog.decode_commit(group, epoch, data))
    except Corrupt as error:
        return Link(epoch, data, None, error.message)
