"""How late a thread gets its turn: it waits for the interpreter, and for a processor."""

from __future__ import annotations

import threading
import time

from engine.telemetry.histogram import Histogram

SECONDS_BETWEEN_LOOKS = 0.25
BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class SchedulingLag:
    """A thread that sleeps, and notes how much later than it wanted it goes on."""

    def __init__(self) -> None:
        self._lags = Histogram(BOUNDS)
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scheduling lag", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End. May be called again."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def lags(self) -> Histogram:
        """How late it was so far, in seconds."""
        with self._lock:
            return self._lags.copy()

    def _run(self) -> None:
        while True:
            due = time.monotonic() + SECONDS_BETWEEN_LOOKS
            if self._stopping.wait(SECONDS_BETWEEN_LOOKS):
                return
            lag = max(0.0, time.monotonic() - due)
            with self._lock:
                self._lags.add(lag)
