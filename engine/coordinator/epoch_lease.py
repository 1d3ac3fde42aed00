"""Keeping the epochs of a route readable on its hosts, while a statement has still to begin there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.host_threads import HostThreads
from engine.errors import LivestateError
from engine.model.schema import Epoch, GroupName

LEASE_AFTER_SECONDS = 0.5
"""A statement that has waited for so long has its epochs kept. Most have begun everywhere by then."""
LEASE_SECONDS = 15.0
"""For how long hosts keep an epoch for a statement that says nothing more."""
RENEWAL_SECONDS = 5.0
LEASE_THREADS = 2
"""Threads that ask one host to keep epochs, for all statements together."""


class EpochKeepers(Protocol):
    """Who keeps epochs. Safe for threads."""

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Have a host keep epochs readable, as `Peers.hold`; this one, too."""


class EpochLease:
    """The epochs of one try of a statement. Not safe for several threads.

    A fragment pins its epochs when it begins. One that waits for the rows of another may begin when they
    would have been let go everywhere, again and again.

    Args:
        keepers: Who keeps them.
        route: The epochs, and who reads them.
        threads: Ask the hosts.
    """

    def __init__(self, keepers: EpochKeepers, route: Route, threads: HostThreads) -> None:
        self._keepers = keepers
        self._route = route
        self._threads = threads
        self._due_at: float | None = time.monotonic() + LEASE_AFTER_SECONDS

    @property
    def seconds_left(self) -> float | None:
        """How long it is until the next renewal; None where there is none."""
        return None if self._due_at is None else max(0.0, self._due_at - time.monotonic())

    def end(self) -> None:
        """Renew no more: everything has begun, and has its epochs pinned."""
        self._due_at = None

    def renew(self) -> None:
        """Ask all hosts that read something to keep the epochs; waits for none of them."""
        self._due_at = time.monotonic() + RENEWAL_SECONDS
        for host, partitions in self._route.partitions.items():
            if any(partitions.values()):
                # The threads take nothing any more when the host is stopping.
                with suppress(RuntimeError):
                    self._threads.executor(host).submit(self._hold, host)

    def _hold(self, host: HostName) -> None:
        for group, epoch in self._route.epochs.items():
            # Who cannot keep it says so to the fragment, if it is gone by then.
            with suppress(LivestateError):
                self._keepers.hold(host, {group: epoch}, LEASE_SECONDS)
