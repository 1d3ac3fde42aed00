"""Bytes of rows that are gathered, or answer keys: what one statement may hold, and all together, in memory
and on disk.
"""

from __future__ import annotations

import threading

from engine.access.principal import Limit, LimitName
from engine.duckdb.spill import SpillDirectory
from engine.errors import LimitExceeded


class MemoryPool:
    """Rows that this host has and that somebody is still to take: those that statements have gathered and not
    merged yet, or answers to keys. Safe for threads.

    Args:
        limit_bytes: What one statement may hold.
        total_limit_bytes: What all statements may hold together.
        spill: Where rows go that they may not hold; None: nowhere.
    """

    def __init__(self, limit_bytes: int, total_limit_bytes: int, spill: SpillDirectory | None = None) -> None:
        self.limit_bytes = limit_bytes
        self.total_limit_bytes = total_limit_bytes
        self.spill = spill
        self._lock = threading.Lock()
        self._held = 0
        self._on_disk = 0

    @property
    def held_bytes(self) -> int:
        """What all statements hold now."""
        return self._held

    @property
    def disk_bytes(self) -> int:
        """What all statements have in files now."""
        return self._on_disk

    def reservation(self, limit: Limit | None = None) -> MemoryReservation:
        """The share of one statement.

        Args:
            limit: What it may hold by the roles of whoever asks, in memory and on disk; None for no limit.
        """
        return MemoryReservation(self, limit)

    def take(self, nbytes: int) -> bool:
        """Hold more, or less where negative; False if that would be too much."""
        with self._lock:
            if nbytes > 0 and self._held + nbytes > self.total_limit_bytes:
                return False
            self._held += nbytes
            return True

    def take_on_disk(self, nbytes: int) -> bool:
        """As `take`, of what the directory may hold."""
        with self._lock:
            if nbytes > 0 and (self.spill is None or self._on_disk + nbytes > self.spill.limit_bytes):
                return False
            self._on_disk += nbytes
            return True


class MemoryReservation:
    """What one statement holds. Safe for threads.

    Args:
        memory: What all hold.
        limit: What it may hold by the roles of whoever asks; None for no limit.
    """

    def __init__(self, memory: MemoryPool, limit: Limit | None = None) -> None:
        self._memory = memory
        self._limit = limit
        self._lock = threading.Lock()
        self._held = 0
        self._on_disk = 0
        self._freed = False

    @property
    def spill(self) -> SpillDirectory | None:
        """Where files of rows may be; None: nowhere."""
        return self._memory.spill

    def fits(self, nbytes: int) -> bool:
        """Hold more, if that is not too much; whether it was not.

        Raises:
            LimitExceeded: It is more than a role allows, in memory or elsewhere.
        """
        with self._lock:
            if self._freed:
                return True
            self._check_role(nbytes)
            if self._held + nbytes > self._memory.limit_bytes or not self._memory.take(nbytes):
                return False
            self._held += nbytes
            return True

    def take_on_disk(self, nbytes: int) -> None:
        """Put more into files.

        Raises:
            LimitExceeded: That would be too much.
        """
        with self._lock:
            if self._freed:
                return
            self._check_role(nbytes)
            if not self._memory.take_on_disk(nbytes):
                raise LimitExceeded(
                    "The statement gathers more rows of other hosts than gather_limit_bytes allows in memory "
                    f"({self._memory.limit_bytes} bytes), and spill_limit_bytes on disk: ask for fewer rows "
                    "or columns, or raise a limit."
                )
            self._on_disk += nbytes

    def _check_role(self, nbytes: int) -> None:
        limit = self._limit
        if limit is not None and self._held + self._on_disk + nbytes > limit.most:
            raise LimitExceeded(
                f"The statement gathers more rows of other hosts than the {limit.most} bytes of the role "
                f"{limit.role} ({LimitName.GATHERED_BYTES.value}): ask for fewer rows or columns."
            )

    def take(self, nbytes: int) -> None:
        """Hold more.

        Raises:
            LimitExceeded: That would be too much.
        """
        if self.fits(nbytes):
            return
        limit, total = self._memory.limit_bytes, self._memory.total_limit_bytes
        if self._held + nbytes > limit:
            raise LimitExceeded(
                "The statement gathers more rows of other hosts than gather_limit_bytes allows "
                f"({limit} bytes): ask for fewer rows or columns, or raise the limit."
            )
        raise LimitExceeded(
            "All statements together gather more rows of other hosts than total_gather_limit_bytes "
            f"allows ({total} bytes): "
            "try again later, or raise the limit."
        )

    def give(self, nbytes: int) -> None:
        """Hold less: rows went on."""
        with self._lock:
            if not self._freed:
                self._held -= nbytes
                self._memory.take(-nbytes)

    def free(self) -> None:
        """Hold nothing any more. May be called again."""
        with self._lock:
            self._freed = True
            held, self._held = self._held, 0
            self._memory.take(-held)
            on_disk, self._on_disk = self._on_disk, 0
            self._memory.take_on_disk(-on_disk)
