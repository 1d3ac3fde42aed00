"""What becomes of memory that this process has freed."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

KEPT_BYTES = 1 << 20
"""What a heap keeps for what comes next."""
_LARGE_BYTES = 4 << 20
"""A piece of memory from that size on is none of a heap, and goes back by itself."""
GROWN_BYTES = 16 << 20
"""Heaps that have grown less are let be."""
_MEMORY = Path("/proc/self/statm")
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


class Heaps:
    """The heaps of this process, whose free memory amid what is in use goes back now and then.

    A message of some megabytes lies in a heap in pieces. When they are freed, one small object at the end
    keeps the heap as large as it is. Where the system is another one, this does nothing.
    """

    def __init__(self) -> None:
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._least = 0

    def trim_if_grown(self) -> None:
        """Give back what is free, if this process has more memory of its own than it had at some look since
        the last time.
        """
        if self._trim is None or not _MEMORY.exists():
            return
        now = _own_bytes()
        self._least = min(self._least, now)
        if now > self._least + GROWN_BYTES:
            self._trim(0)
            self._least = _own_bytes()


def _own_bytes() -> int:
    """Memory that this process has in use and that is no file's."""
    resident, shared = map(int, _MEMORY.read_text().split()[1:3])
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
