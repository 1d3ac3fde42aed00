"""What it is called when the disk has something else of a partition than was written."""

from __future__ import annotations

from engine.errors import Corrupt


class DamagedError(Corrupt):
    """What the disk has of a partition is not what was written there. It is of no use to anybody, and the
    changelog has its rows.

    Args:
        message: As for every error.
        what: What of it is damaged, in a word or two.
    """

    def __init__(self, message: str, what: str = "data") -> None:
        super().__init__(message)
        self.what = what


def damage_error(what: str) -> DamagedError:
    """The error for something of a partition that is damaged.

    Args:
        what: What it is, in a word or two.
    """
    return DamagedError(
        f"A partition's {what} is damaged: a running host puts the partition aside and builds it again from "
        "the changelog.",
        what,
    )
