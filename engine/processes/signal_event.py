"""An event for signal handlers."""

from __future__ import annotations

from queue import Empty, SimpleQueue


class SignalEvent:
    """An event that a signal handler may set.

    Python runs a handler within whatever the main thread does, which may be a wait for this very event:
    `threading.Event` takes a lock for both, and its thread would wait for itself. The queue here is made to
    be put to from within its own calls.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._wakes: SimpleQueue[None] = SimpleQueue()

    def set(self) -> None:
        """Set it, for good. From any thread, and within any call."""
        self._is_set = True
        self._wakes.put(None)

    def is_set(self) -> bool:
        """Whether it is set."""
        return self._is_set

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set.

        Args:
            seconds: How long at most; None for as long as it takes.

        Returns:
            Whether it is set.
        """
        if not self._is_set:
            try:
                self._wakes.get(timeout=seconds)
            except Empty:
                return self._is_set
            self._wakes.put(None)  # for another one who waits
        return self._is_set
