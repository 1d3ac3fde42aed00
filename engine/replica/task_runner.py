"""What a host does for its groups, in tasks of which each can fail by itself."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection
from enum import Enum
from typing import NamedTuple

from engine.errors import Cancelled
from engine.model.schema import GroupName
from engine.replica.failures import Failures, log_failure
from engine.replica.partition_keys import PartitionKey, partition_names

_log = logging.getLogger(__name__)


class Work(Enum):
    """What can fail, the worst first."""

    TURN = "The turn"
    LISTENER = "Telling of changes"
    SEARCH = "The search for stores"
    OPEN = "Opening partitions"
    AMEND = "Heeding what was decided"
    FOLLOW = "Following the changelog"
    REBUILD = "Rebuilding partitions"
    REFRESH = "Showing merged segments"
    EXPIRE = "Letting go of epochs"
    WRITE = "Writing what is in memory"
    RELEASE = "Giving back space"
    COMPACT = "Merging segments"


class Task(NamedTuple):
    """One thing that can fail: what fails stops nothing else.

    Attributes:
        work: What is done.
        group: With which group; None for none.
        partition: With which of its partitions; None for none.
    """

    work: Work
    group: GroupName | None = None
    partition: PartitionKey | None = None

    def __str__(self) -> str:
        """For messages."""
        if self.group is None:
            return self.work.value
        partition = "" if self.partition is None else f", partition {partition_names([self.partition])}"
        return f"{self.work.value} of group {self.group}{partition}"


class TaskRunner:
    """Runs tasks that may fail in whatever way: says so, and has them tried again with growing pauses. For
    any thread; each task belongs to one at a time.

    Args:
        retry_seconds: The pause after the first failure.
    """

    def __init__(self, retry_seconds: float) -> None:
        self._failures: Failures[Task] = Failures(retry_seconds)

    def run(self, task: Task, action: Callable[[], bool | None]) -> bool:
        """Run a task; whether it did anything. Everything else goes on, queries at the epochs there are."""
        try:
            result = bool(action())
        except (KeyboardInterrupt, SystemExit):
            raise
        except Cancelled:
            return False  # the host stops
        except BaseException as error:  # noqa: BLE001 - the top of all work for a group; a panic of RocksDB or obstore is no Exception
            if self._failures.note(task, error, time.monotonic()):
                log_failure(_log, task, error)
            return False
        self._failures.clear(task)
        return result

    def run_if_due(self, task: Task, action: Callable[[], bool | None]) -> bool:
        """Run a task unless it failed a moment ago; whether it did anything."""
        return self._failures.is_due(task, time.monotonic()) and self.run(task, action)

    def forget_failures(self, group: GroupName) -> None:
        """Have everything of a group tried again at once."""
        for task in self._failures.problems():
            if task.group == group:
                self._failures.clear(task)

    def is_failing(self, task: Task) -> bool:
        """Whether a task has failed, and has not gone on since."""
        return bool(self._failures.problem(task))

    def seconds_left(self, task: Task) -> float:
        """How long until a task may be tried again."""
        return self._failures.seconds_left(task, time.monotonic())

    def due_failures(self, work: Work) -> Collection[Task]:
        """The tasks of one kind of work that have failed, and may be tried again now."""
        clock = time.monotonic()
        return {
            task
            for task in self._failures.problems()
            if task.work is work and self._failures.is_due(task, clock)
        }

    def problem(self, group: GroupName | None) -> str:
        """What keeps a group from getting on, the worst first; empty if nothing does. None: what is done for
        the whole host.
        """
        found = {
            task.work: problem for task, problem in self._failures.problems().items() if task.group == group
        }
        return next((found[work] for work in Work if work in found), "")
