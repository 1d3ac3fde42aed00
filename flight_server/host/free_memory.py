"""What becomes of memory that this process has freed."""

from __future__ import annotations

import ctypes

KEPT_BYTES = 1 << 20
"""What a heap keeps for what comes next."""
_LARGE_BYTES = 4 << 20
"""A piece of memory from that size on is none of a heap, and goes back by itself."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's `mallopt`."""


def return_free_memory() -> None:
    """Have the heaps of this process give back what is free at their end. Before it starts threads.

    glibc has eight heaps for each processor. By itself it lets each keep twice the largest piece that was
    ever freed, up to 64 MiB, so that one large statement makes all heaps keep what they have had at their
    most.
    Other C libraries do as they please.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
