"""How many files a host may have open, and how many its partitions take."""

from __future__ import annotations

import resource
from collections.abc import Iterable
from dataclasses import dataclass

from engine.errors import LimitExceeded
from engine.replica.partition_places import Place

FILES_A_PARTITION = 8
"""Of a partition's RocksDB: its log, lock, manifest, write-ahead log and directories, and a table or two."""
FILES_TOGETHER = 24
"""Of a RocksDB that partitions share: as many, and more tables."""
OTHER_FILES = 512
"""Of connections, of the object store and of the process itself."""


def raise_open_files_limit() -> int:
    """Have as many files as the system lets this process have; how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (OSError, ValueError):
            return soft
    return hard


@dataclass(frozen=True)
class FileNeed:
    """The files that partitions take.

    Attributes:
        partitions: How many partitions.
        files: How many files, an estimate.
    """

    partitions: int = 0
    files: int = 0

    def __add__(self, other: FileNeed) -> FileNeed:
        return FileNeed(self.partitions + other.partitions, self.files + other.files)


def file_need(places: Iterable[Place]) -> FileNeed:
    """The files that partitions take.

    Args:
        places: Where they are, one for each.
    """
    found = list(places)
    return FileNeed(
        len(found), sum(FILES_TOGETHER if each.is_shared else FILES_A_PARTITION for each in set(found))
    )


def check_open_files(need: FileNeed, limit: int) -> None:
    """Refuse more partitions than the limit of open files lets a host have.

    Args:
        need: What the host would have open.
        limit: The limit; negative for none.

    Raises:
        LimitExceeded: They are too many.
    """
    needed = need.files + OTHER_FILES
    if 0 <= limit < needed:
        raise LimitExceeded(
            f"{need.partitions:,} partitions on this host take some {needed:,} open files, and the system "
            f"allows {limit:,}: raise the limit (ulimit -n, or LimitNOFILE of a systemd unit), or spread the "
            "partitions over more hosts."
        )
