"""Processor time, on machines of any speed."""

from __future__ import annotations

import time

_COUNTED = 500_000
_USUAL_SECONDS = 0.02
"""What counting so far takes on a usual machine."""


def is_longer(spent: float, most: float) -> bool:
    """Whether work took longer than it may. It has longer on a machine that is slow, or busy, and so takes
    longer for all that it does.

    Args:
        spent: Processor time that the work took just now, seconds.
        most: How much it may take on a usual machine, seconds.
    """
    return spent > most and spent > most * _counting_seconds() / _USUAL_SECONDS


def _counting_seconds() -> float:
    begun = time.thread_time()
    counted = 0
    for number in range(_COUNTED):
        counted += number
    return time.thread_time() - begun
