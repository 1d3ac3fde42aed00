"""The signals that end a host in order, kept back until it asks for them. Imports nothing that starts a
thread.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def block_stop_signals() -> Iterator[None]:
    """A context in which signals that end a process wait until they are asked for. For the main thread.

    A handler could run in the midst of anything, and one that sets an Event waits for ever if it interrupts
    that very Event's `wait`. Threads inherit the mask of the one that starts them, and the system gives a
    signal to any thread that takes it: one that is older than the mask, such as those that numpy starts when
    it is imported, ends the process at once.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
