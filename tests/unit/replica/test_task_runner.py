"""What fails stops nothing else, and is named, the worst first."""

from __future__ import annotations

import logging

import pytest

from engine.errors import Unavailable
from engine.model.schema import GroupName, PartitionId, StoreName
from engine.replica.task_runner import Task, TaskRunner, Work

GROUP, OTHER = GroupName("bank"), GroupName("shop")
LONG, NONE = 3600.0, 0.0
FOLLOW, REBUILD = Task(Work.FOLLOW, GROUP), Task(Work.REBUILD, GROUP)
COMPACT = Task(Work.COMPACT, GROUP, (StoreName("debit"), PartitionId(3)))


def fail() -> bool:
    raise Unavailable("The disk does not answer.")


def crash() -> bool:
    raise RuntimeError("/a/path")


def succeed() -> bool:
    return True


def test_what_failed_a_moment_ago_is_not_tried() -> None:
    tasks = TaskRunner(LONG)
    assert not tasks.run_if_due(FOLLOW, fail)
    assert tasks.is_failing(FOLLOW)
    assert tasks.seconds_left(FOLLOW) > 0
    assert not tasks.run_if_due(FOLLOW, succeed)
    assert tasks.is_failing(FOLLOW)
    assert tasks.run_if_due(REBUILD, succeed)
    assert tasks.run(FOLLOW, succeed)
    assert not tasks.is_failing(FOLLOW)


def test_the_worst_of_a_group_is_named() -> None:
    tasks = TaskRunner(NONE)
    tasks.run(REBUILD, crash)
    assert "nobody expected (RuntimeError)" in tasks.problem(GROUP)
    assert "/a/path" not in tasks.problem(GROUP)
    tasks.run(FOLLOW, fail)
    assert tasks.problem(GROUP) == "The disk does not answer."
    assert tasks.problem(OTHER) == ""
    tasks.run(Task(Work.TURN, OTHER), crash)
    assert tasks.problem(OTHER).startswith(f"The turn of group {OTHER} failed")


def test_what_may_be_tried_again_is_listed() -> None:
    tasks = TaskRunner(NONE)
    tasks.run(COMPACT, fail)
    tasks.run(FOLLOW, fail)
    assert set(tasks.due_failures(Work.COMPACT)) == {COMPACT}
    later = TaskRunner(LONG)
    later.run(COMPACT, fail)
    assert not later.due_failures(Work.COMPACT)


def test_the_log_names_the_task(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        TaskRunner(NONE).run(COMPACT, fail)
    (record,) = caplog.records
    assert record.getMessage().startswith(
        "Merging segments of group bank, partition debit/3 is not getting on"
    )


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_end_of_the_process_is_no_failure(error: type[BaseException]) -> None:
    def end() -> bool:
        raise error

    with pytest.raises(error):
        TaskRunner(NONE).run(FOLLOW, end)
