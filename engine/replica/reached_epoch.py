"""The epoch that all partitions of a group have reached on a host, noted in a file beside them.

A partition notes its own epoch when it gets rows, and else now and then. So after a kill partitions stand at
several epochs, though they all have what they are to have, and the commits between would be read again only
to find that out. The note says so, and the time of the commit, which a host cannot know while the changelog
is away.

It is not synced: after a loss of power it can be newer than the partitions. So it counts with the same boot
of the machine only, or where all partitions stand at its epoch anyway.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path

from engine.changelog.checksummed_json import seal, unseal
from engine.errors import LivestateError
from engine.model.schema import Epoch
from engine.state.partition import PartitionStore

REACHED_FORMAT = 2
_WITH_SUM = 1
"""The format of notes with a sum of epochs in place of a fingerprint: what was lost of one partition made up
for what others had noted since.
"""
FINGERPRINTS = 2**64
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_WRITTEN_BYTES = 512


@cache
def boot_of_machine() -> str:
    """What tells this boot of the machine from others; empty where nothing does."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class ReachedEpoch:
    """An epoch that all partitions of a group have reached.

    Attributes:
        epoch: The epoch.
        digest: As `Commit.digest` of it.
        committed_at: When it was committed, microseconds since 1970 UTC.
        boot: Of the machine.
        fingerprint: As `fingerprint_of` the partitions: one that was lost, or put back as it was before, has
            another. None where that is not known.
    """

    epoch: Epoch
    digest: str
    committed_at: int
    boot: str
    fingerprint: int | None

    def covers(self, stores: Collection[PartitionStore]) -> bool:
        """Whether all of some partitions, as they were opened, have come to the epoch."""
        if all((store.applied, store.digest) == (self.epoch, self.digest) for store in stores):
            return True
        return self.boot == boot_of_machine() != "" and self.fingerprint == fingerprint_of(stores)


def fingerprint_of(stores: Iterable[PartitionStore]) -> int:
    """A number of 64 bits for some partitions and the epochs that they have noted themselves, on the disk,
    that others hardly have. That of several is the sum of theirs, modulo 2^64: what changes in one partition
    changes it by as much.
    """
    return sum(_fingerprint(store) for store in stores) % FINGERPRINTS


def _fingerprint(store: PartitionStore) -> int:
    name, number = store.identity
    text = f"{name}/{number}@{store.written_epoch}"
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little")


def write_reached_epoch(path: Path, reached: ReachedEpoch) -> None:
    """Note an epoch in place of the one before. A disk that does not take it has none.

    Args:
        path: The file.
        reached: The epoch.
    """
    document = seal(json.dumps({"format": REACHED_FORMAT, **asdict(reached)}, indent=1).encode())
    try:
        try:
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            # Always as long: what a kill leaves is one note or the other.
            os.pwrite(file, document.rjust(_WRITTEN_BYTES), 0)
        finally:
            os.close(file)
    except OSError:
        forget_reached_epoch(path)


def forget_reached_epoch(path: Path) -> None:
    """Have no epoch noted. A note that the disk does not let go of counts only while all partitions stand as
    they did then.

    Args:
        path: The file.
    """
    with suppress(OSError):
        path.unlink(missing_ok=True)


def read_reached_epoch(path: Path) -> ReachedEpoch | None:
    """The epoch that was noted; None where none was, or by another version."""
    try:
        document = json.loads(unseal(path.read_bytes().lstrip(), "The note"))
        number = document.pop("format")
        if number == _WITH_SUM:
            del document["partitions"], document["applied"]
            return ReachedEpoch(**document, fingerprint=None)
        return ReachedEpoch(**document) if number == REACHED_FORMAT else None
    except (OSError, LivestateError, ValueError, KeyError, TypeError, AttributeError):
        return None
