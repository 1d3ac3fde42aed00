"""A changelog and a follower in this process, moved forward when the benchmark says so."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.workload import STORE, Expected, KeyType, append_all, fill_store, random_upserts
from engine.changelog import Changelog, StoreAppender
from engine.model.schema import Epoch, GroupName
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.state.state_options import StateOptions
from flight_server.host.process import SWITCH_INTERVAL_SECONDS, settle

_NEVER_POLL = 3600.0
_TIMEOUT_SECONDS = 900.0


@contextmanager
def host_like_interpreter() -> Iterator[None]:
    """Let threads take turns as often as they do in a host process, and garbage collection pass over what its
    start has left.
    """
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    settle()
    try:
        yield
    finally:
        sys.setswitchinterval(before)
        gc.unfreeze()


@dataclass(frozen=True)
class LocalStore:
    """The store, with its changelog and a follower that moves only when told.

    Attributes:
        appender: Appends epochs.
        follower: Applies them.
        expected: What the store contains once all is applied.
        key_type: Its key.
    """

    appender: StoreAppender
    follower: Follower
    expected: Expected
    key_type: KeyType

    def append_upserts(self, epochs: int, rows: int, seed: int) -> Epoch:
        """Append epochs of rows with random keys to the changelog; they stay there until `apply`."""
        append_all(
            self.appender,
            random_upserts(self.expected.keys, epochs, rows, seed),
            self.key_type,
            self.expected.upsert,
        )
        return self.appender.epoch

    def apply(self) -> None:
        """Have the follower apply what the changelog has; returns when it can be read."""
        self.follower.notify()
        if not self.follower.wait_for(GroupName(STORE), self.appender.epoch, _TIMEOUT_SECONDS):
            raise SystemExit(
                "The follower did not catch up: "
                + "; ".join(status.problem for status in self.follower.status())
            )

    def compact(self) -> None:
        """Wait until compaction has come to rest."""
        if not self.follower.wait_until_compact(_TIMEOUT_SECONDS):
            raise SystemExit("Compaction does not come to rest.")


@contextmanager
def local_store(
    directory: Path, keys: int, key_type: KeyType = KeyType.INT64, state: StateOptions | None = None
) -> Iterator[LocalStore]:
    """The store with a row for each key, applied and compact.

    Args:
        directory: An empty directory.
        keys: How many rows.
        key_type: Their key.
        state: Settings of partition state; the defaults if not given.

    Yields:
        The store, until its follower is stopped.
    """
    changelog = Changelog.open(str(directory / "changelog"))
    appender, expected = fill_store(changelog, keys, key_type)
    with opened_store(directory, appender, expected, key_type, state) as store:
        yield store


@contextmanager
def opened_store(
    directory: Path,
    appender: StoreAppender,
    expected: Expected,
    key_type: KeyType = KeyType.INT64,
    state: StateOptions | None = None,
) -> Iterator[LocalStore]:
    """The store of a directory that has a changelog, and may have state from before; as `local_store`."""
    changelog = Changelog.open(str(directory / "changelog"))
    options = FollowerOptions(poll_seconds=_NEVER_POLL, state=state or StateOptions())
    follower = Follower(changelog, directory / "data", options)
    with host_like_interpreter():
        follower.start()
        store = LocalStore(appender, follower, expected, key_type)
        try:
            store.apply()
            store.compact()
            yield store
        finally:
            follower.stop()
