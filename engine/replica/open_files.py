"""How many files a host may have open, and how many its partitions take."""

from __future__ import annotations

import resource

from engine.errors import LimitExceeded

FILES_A_PARTITION = 8
"""Of a partition's RocksDB: its log, lock, manifest, write-ahead log and directories, and a table or two."""
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


def check_open_files(partitions: int, limit: int) -> None:
    """Refuse more partitions than the limit of open files lets a host have.

    Args:
        partitions: How many the host would have open.
        limit: The limit; negative for none.

    Raises:
        LimitExceeded: They are too many.
    """
    needed = partitions * FILES_A_PARTITION + OTHER_FILES
    if 0 <= limit < needed:
        raise LimitExceeded(
            f"{partitions:,} partitions on this host take some {needed:,} open files, and the system allows "
            f"{limit:,}: raise the limit (ulimit -n, or LimitNOFILE of a systemd unit), or spread the "
            "partitions over more hosts."
        )
