"""Which tests of a run in several processes go together, and in which order."""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

SPARK = "tests/spark/"
OWN_PROCESSES = ("tests/spark/test_demo.py", "tests/spark/test_pipeline_processes.py")
"""Start Spark in processes of their own, and need no session here."""
FIRST = (
    SPARK,
    *OWN_PROCESSES,
    "tests/oracle/test_under_commits.py",
    "tests/sql/test_fixtures.py",
    "tests/oracle/test_oracle.py",
    "tests/unit/sql/test_budgets.py",
    "tests/chaos/test_host_crash.py",
    "tests/unit/exec/test_growth.py",
    "tests/chaos/test_partition_crash.py",
)
"""What takes longest: begun late, it would keep one worker when the others have nothing left."""


def scope_of(test: str) -> str:
    """What a test shares a process with: the tests of its module, and those of one Spark session.

    Args:
        test: Its node id.
    """
    module = test.partition("::")[0]
    return SPARK if module.startswith(SPARK) and module not in OWN_PROCESSES else module


class ModuleScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist is not typed
    """Hands out whole modules, so that what they share is made once; all tests of the Spark session are
    one unit of work, and the first, for nothing else takes as long.
    """

    def _split_scope(self, nodeid: str) -> str:
        return scope_of(nodeid)


def sort_by_scope(tests: list[pytest.Item]) -> None:
    """Put what takes longest first, and leave the others as they are.

    Args:
        tests: Of a run; changed in place.
    """
    ranks = {scope: rank for rank, scope in enumerate(FIRST)}
    tests.sort(key=lambda test: ranks.get(scope_of(test.nodeid), len(FIRST)))
