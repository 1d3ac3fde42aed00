"""A thread that keeps what hosts say of their progress up to date, and has it in the log now and then."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, Thread

from engine.cluster.progress import LoggedProgress, is_line_due, progress_in_words, time_in_words
from engine.cluster.reports import GroupReport, Progress
from engine.model.schema import GroupName
from engine.replica.group import FollowedGroup

_log = logging.getLogger(__name__)

LOOK_SECONDS = 1.0
QUIET_SECONDS = 2.0
"""What takes no longer is not worth a line."""


@dataclass
class _Watched:
    """A build or a catching-up that goes on.

    Attributes:
        since: When it was first seen, by the clock.
        logged: What was logged of it last.
    """

    since: float
    logged: LoggedProgress | None = None


class ProgressWatch:
    """Watches the progress of groups.

    Args:
        groups: The groups; more may come.
        clock: Gives the time in seconds that never go back.
    """

    def __init__(
        self, groups: Mapping[GroupName, FollowedGroup], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._groups = groups
        self._clock = clock
        self._watched: dict[GroupName, _Watched] = {}
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def stop(self) -> None:
        """Watch no longer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(LOOK_SECONDS):
            try:
                self.look()
            except Exception:  # noqa: BLE001 - the top of all that this thread does
                _log.exception("The progress of a group cannot be told")

    def look(self) -> None:
        """Have all groups say how far they are, and log what is due."""
        for name, group in list(self._groups.items()):
            report = group.refresh_progress()
            progress = report.building or report.catching_up
            if progress is not None:
                self._log_progress(name, report, progress)
            elif (watched := self._watched.pop(name, None)) is not None and watched.logged is not None:
                taken = time_in_words(self._clock() - watched.since)
                _log.info("Group %s is up to date at epoch %d, after %s.", name, report.newest, taken)

    def _log_progress(self, name: GroupName, report: GroupReport, progress: Progress) -> None:
        clock = self._clock()
        watched = self._watched.setdefault(name, _Watched(clock))
        if clock - watched.since < QUIET_SECONDS or not is_line_due(watched.logged, progress, clock):
            return
        watched.logged = LoggedProgress(clock, progress.percent)
        what = "is being built" if report.building is not None else "is behind"
        _log.info("Group %s %s: %s.", name, what, progress_in_words(progress))
