"""Reads all that a host has stored, beside the threads that serve it, and finds what is damaged before a
statement does.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread

from engine.errors import LivestateError
from engine.model.schema import GroupName
from engine.replica.failures import log_failure
from engine.replica.partition_keys import PartitionKey, partition_names
from engine.state.damage import DamagedError
from engine.state.partition import PartitionStore

_log = logging.getLogger(__name__)

MIB = 1 << 20
NONE_UNOPENED: Mapping[GroupName, Collection[PartitionKey]] = {}


@dataclass(frozen=True)
class ScrubOptions:
    """How a host reads what it has stored.

    Attributes:
        rate_bytes: Arrow bytes a second at most.
        every_seconds: How long after one scrub the next begins; 0: only on demand.
    """

    rate_bytes: float = 32.0 * MIB
    every_seconds: float = 0.0


@dataclass(frozen=True)
class ScrubStatus:
    """How far a scrub is.

    Attributes:
        number: Which scrub of this host it is, from 1; 0 before the first.
        is_running: Whether it goes on.
        is_cancelled: Whether it was ended before its time.
        partitions: How many partitions there are to read.
        partitions_done: How many are read, or cannot be.
        bytes: Arrow bytes of their segments when it began.
        bytes_done: Arrow bytes that are read.
        damaged: What was found, a sentence each.
        unread: Partitions that could not be read for another reason, a sentence each.
    """

    number: int = 0
    is_running: bool = False
    is_cancelled: bool = False
    partitions: int = 0
    partitions_done: int = 0
    bytes: int = 0
    bytes_done: int = 0
    damaged: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


class Scrubber:
    """Runs one scrub at a time, in a thread of its own. Its methods are for any thread.

    Args:
        options: How.
    """

    def __init__(self, options: ScrubOptions) -> None:
        self._options = options
        self._lock = Lock()
        self._ending = Event()
        self._is_stopped = False
        self._thread: Thread | None = None
        self._status = ScrubStatus()
        self._ended_at = time.monotonic()

    @property
    def status(self) -> ScrubStatus:
        """How far the scrub is that runs, or how the last one went."""
        return self._status

    @property
    def is_due(self) -> bool:
        """Whether it is time for a scrub that nobody has asked for."""
        every = self._options.every_seconds
        return bool(every) and not self._status.is_running and time.monotonic() - self._ended_at >= every

    def begin(
        self,
        partitions: Mapping[GroupName, Sequence[PartitionStore]],
        rate_bytes: float | None = None,
        unopened: Mapping[GroupName, Collection[PartitionKey]] = NONE_UNOPENED,
    ) -> ScrubStatus:
        """Begin a scrub, unless one runs.

        Args:
            partitions: What is to be read, by store group.
            rate_bytes: Arrow bytes a second at most; None for the host's option.
            unopened: Partitions of the host that are not open, so that they cannot be read.

        Returns:
            How far the one that runs is.
        """
        with self._lock:
            if self._status.is_running or self._is_stopped:
                return self._status
            stores = [(group, store) for group, held in partitions.items() for store in held]
            unread = tuple(
                f"{partition_names([key])} of group {group}: it is not open; see the host's problems."
                for group, keys in unopened.items()
                for key in sorted(keys)
            )
            self._ending.clear()
            self._status = ScrubStatus(
                self._status.number + 1,
                is_running=True,
                partitions=len(stores) + len(unread),
                partitions_done=len(unread),
                bytes=sum(store.version.nbytes for _, store in stores),
                unread=unread,
            )
            rate = self._options.rate_bytes if rate_bytes is None else rate_bytes
            self._thread = Thread(target=self._run, args=(stores, rate), name="scrub", daemon=True)
            self._thread.start()
            return self._status

    def cancel(self) -> ScrubStatus:
        """End the scrub that runs, if any does; how far it is."""
        self._ending.set()
        return self._status

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        with self._lock:
            self._is_stopped = True
            self._ending.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self, stores: Sequence[tuple[GroupName, PartitionStore]], rate_bytes: float) -> None:
        begun = time.monotonic()
        try:
            for group, store in stores:
                self._read(group, store, begun, rate_bytes)
                if self._ending.is_set():
                    break
                self._note(partitions_done=self._status.partitions_done + 1)
        except BaseException as error:  # noqa: BLE001 - the top of the thread
            log_failure(_log, "Reading all that is stored", error)
        finally:
            self._ended_at = time.monotonic()
            is_cancelled = self._status.partitions_done < self._status.partitions
            self._note(is_running=False, is_cancelled=is_cancelled)
        status = self._status
        _log.info(
            "A scrub %s: of %d partitions %d were done, of which %d are damaged and %d could not be read.",
            "was ended before its time" if status.is_cancelled else "has ended",
            status.partitions,
            status.partitions_done,
            len(status.damaged),
            len(status.unread),
        )

    def _read(self, group: GroupName, store: PartitionStore, begun: float, rate_bytes: float) -> None:
        """Read one partition, no faster than it may be."""
        name = partition_names([store.identity])
        try:
            for nbytes in _pieces(store):
                self._note(bytes_done=self._status.bytes_done + nbytes)
                ahead = self._status.bytes_done / rate_bytes - (time.monotonic() - begun)
                if self._ending.wait(max(0.0, ahead)):
                    return
        except DamagedError as error:
            _log.error("Partition %s of group %s is damaged: %s", name, group, error.message)
            store.note_damage(error.what)
            self._note(damaged=(*self._status.damaged, f"{name} of group {group} is damaged: {error.what}"))
        except LivestateError as error:
            # It was put aside meanwhile, or the disk does not answer.
            _log.warning("Partition %s of group %s could not be read: %s", name, group, error.message)
            self._note(unread=(*self._status.unread, f"{name} of group {group}: {error.message}"))

    def _note(self, **changes: object) -> None:
        self._status = replace(self._status, **changes)  # type: ignore[arg-type]


def _pieces(store: PartitionStore) -> Iterator[int]:
    """Arrow bytes of each block of a partition, once it is read and found right."""
    store.check_records()
    for entry in store.version.all_segments:
        for block in range(entry.segment.blocks):
            yield entry.segment.stored.check_block(block)
