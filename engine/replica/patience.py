"""Whether a host that is behind takes epochs one by one, so that each can be read, or together, so that it
catches up: decisions on values.

Short of time for a moment, a host that takes its epochs together skips some for good, and would have been
level with the job a moment later anyway. One that takes them one by one, and is no faster than the job, never
is. What tells these two is not known before. So a host has patience: it takes small epochs one by one while
the backlog is young, each of them uses some patience up, and epochs that come alone give some back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

FEW_EPOCHS, FEW_ROWS = 4, 20_000
"""With no more than these the host keeps up, and takes one epoch after the other in any case."""
SMALL_ROWS = FEW_ROWS // FEW_EPOCHS
"""An epoch with so many rows uses as much patience for them as for itself."""
YOUNG_SECONDS = 1.0
"""How far apart the first and the last epoch of a young backlog were committed, at most. Who is further
behind was not just held up.
"""
MOST_PATIENCE = 64.0
"""Small epochs that are taken one by one in one go, so that the newest is seen that much later at most."""
REGAINED = 0.25
"""Patience that an epoch gives back behind which there is none yet: for long, no more than a quarter as many
are taken alone of a larger backlog.
"""


@dataclass(frozen=True)
class Backlog:
    """Epochs that are known, and not applied yet.

    Attributes:
        epochs: How many, at least one.
        rows: Their rows.
        first_rows: Those of the next one.
        seconds: Between the commits of the first and of the last, by the clock of the writer.
        is_cut: Whether there may be more that were not looked at.
    """

    epochs: int
    rows: int
    first_rows: int
    seconds: float = 0.0
    is_cut: bool = False

    @property
    def is_little(self) -> bool:
        """Whether who has it keeps up."""
        return self.epochs == 1 or (self.epochs <= FEW_EPOCHS and self.rows <= FEW_ROWS)

    @property
    def is_young(self) -> bool:
        """Whether all of it has come just now."""
        return not self.is_cut and 0.0 <= self.seconds <= YOUNG_SECONDS

    @property
    def price(self) -> float:
        """The patience that its first epoch takes."""
        return 1.0 + self.first_rows / SMALL_ROWS


@dataclass(frozen=True)
class Patience:
    """How much of a backlog may still be taken one by one.

    Attributes:
        left: In small epochs.
    """

    left: float = MOST_PATIENCE

    def takes_one(self, backlog: Backlog) -> bool:
        """Whether the first epoch is taken alone."""
        return backlog.is_little or self.is_enough_for(backlog)

    def is_enough_for(self, backlog: Backlog) -> bool:
        """Whether the first epoch of more than a little is taken alone."""
        return backlog.first_rows <= FEW_ROWS and backlog.is_young and self.left >= backlog.price

    def patience_left(self, backlog: Backlog) -> Patience:
        """The patience that is left when what `takes_one` says was done."""
        if backlog.epochs == 1:
            return replace(self, left=min(MOST_PATIENCE, self.left + REGAINED))
        if backlog.is_little:
            return self
        return replace(self, left=self.left - backlog.price) if self.is_enough_for(backlog) else self
