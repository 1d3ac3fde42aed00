"""The signals that end a host in order, or have it read files again, kept back until it asks for them.
Imports nothing that starts a thread.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD_SIGNAL = signal.SIGHUP
"""Has a host read again by what callers prove who they are."""
KEPT_SIGNALS = (*STOP_SIGNALS, RELOAD_SIGNAL)


def is_stop(received: int, *, has_files: bool) -> bool:
    """Whether a signal ends the process. A terminal that is closed sends SIGHUP, too: it does where there is
    nothing to read again, unless who started the process has it ignored, as `nohup` does.

    Args:
        received: One of `KEPT_SIGNALS`.
        has_files: Whether there are files to read again.
    """
    if received != RELOAD_SIGNAL:
        return True
    return not has_files and signal.getsignal(RELOAD_SIGNAL) is not signal.SIG_IGN


@contextmanager
def block_stop_signals() -> Iterator[None]:
    """A context in which signals that end a process wait until they are asked for. For the main thread.

    A handler could run in the midst of anything, and one that sets an Event waits for ever if it interrupts
    that very Event's `wait`. Threads inherit the mask of the one that starts them, and the system gives a
    signal to any thread that takes it: one that is older than the mask, such as those that numpy starts when
    it is imported, ends the process at once.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, KEPT_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
