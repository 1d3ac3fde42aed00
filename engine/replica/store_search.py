"""The search for stores: what the changelog has by now, and what a host has kept of that for a start without
the changelog.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from engine.changelog import Catalog, Changelog
from engine.changelog.kept_catalog import KeptCatalog
from engine.errors import Unavailable
from engine.replica.data_directory import claim, is_data_directory, keep_catalog, kept_catalog
from engine.replica.history import replaced_error

SECONDS_BETWEEN_SEARCHES = 1.0
"""How often stores without a first epoch are looked for."""


class StoreSearch:
    """Looks for stores in a changelog. One thread at a time looks; any may ask for a look.

    Args:
        changelog: The changelog.
        directory: The data directory of the host, which the first look claims for the changelog.
        stopping: Is set when the host stops.

    Attributes:
        has_changelog: Whether the changelog is known to be there.
        is_away: Whether it cannot be asked: what is known was kept from before.
        is_replaced: Whether another one, or none, was in its place at the last look.
    """

    def __init__(self, changelog: Changelog, directory: Path, stopping: Event) -> None:
        self.has_changelog = False
        self.is_away = False
        self.is_replaced = False
        self._changelog = changelog
        self._directory = directory
        self._stopping = stopping
        self._searched_at = 0.0
        self._kept: KeptCatalog | None = None
        # Set when stores are to be looked for now, however short ago that was.
        self._is_due = Event()

    def request(self) -> None:
        """Have stores looked for now."""
        self._is_due.set()

    def wait(self, *, is_failing: bool) -> None:
        """Wait until the next look is due, or the host stops.

        Args:
            is_failing: Whether the last look has failed: then it does not matter who asks for one.
        """
        pause = self._searched_at + SECONDS_BETWEEN_SEARCHES - time.monotonic()
        if pause > 0:
            (self._stopping if is_failing else self._is_due).wait(pause)

    @contextmanager
    def look(self) -> Iterator[Catalog]:
        """What the changelog has now. It is kept once it is taken up, in the block of this; where that fails,
        the next look is due at once.

        Raises:
            NotKeptError: It was taken up, and the disk does not take it.
            Unavailable: The changelog cannot be reached, or is not there any more.
            LivestateError: It cannot be read, or the data directory belongs to another one.
        """
        # Before the look: what is announced meanwhile may have come behind it, and makes another one due.
        self._is_due.clear()
        try:
            identity = self._claim_directory()
            self._changelog.note_return()
            self.is_away = False
            yield self._changelog.readable_catalog()
            self.has_changelog = identity is not None
            self._keep()
        except BaseException:
            self._is_due.set()
            raise
        finally:
            self._searched_at = time.monotonic()

    def recall(self) -> Catalog | None:
        """What this host has kept, while the changelog is away; None where there is nothing."""
        kept = kept_catalog(self._directory)
        if kept is None:
            return None
        self._changelog.recall(kept)
        self.is_away = self.has_changelog = True
        return self._changelog.readable_catalog()

    def _claim_directory(self) -> str | None:
        """Have the data directory belong to the changelog; its identity, None where it is not there."""
        identity = self._changelog.identity(is_fresh=True)
        self.is_replaced = self.has_changelog and identity != self._changelog.identity()
        if identity is None and is_data_directory(self._directory):
            raise Unavailable(
                "The changelog that this host's data directory belongs to is not there: make it available to "
                "the host again, or correct the host's --changelog."
            )
        if self.is_replaced:
            raise replaced_error()
        claim(self._directory, identity)
        return identity

    def _keep(self) -> None:
        """Keep what is known of stores, for a start without the changelog."""
        catalog = self._changelog.kept_catalog()
        if catalog is not None and catalog != self._kept:
            keep_catalog(self._directory, catalog)
            self._kept = catalog
