"""Values that are nested deeply end no host: what overflows the stack runs where it ends a worker."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest

from engine.errors import LimitExceeded
from engine.service import QueryOptions, QueryService
from tests.support.memory_source import MemorySource
from tests.unit.exec import deep_values
from tests.unit.exec.deep_values import statements

DEPTH = 400_000


def test_all_functions_that_overflow_the_stack_are_known() -> None:
    number, known = 0, statements()
    ended: list[str] = []
    assert len(known) > 3000
    while number < len(known):
        found = subprocess.run(
            [sys.executable, "-m", deep_values.__name__, str(number)],
            check=False,
            capture_output=True,
            text=True,
        )
        reached = int(found.stdout.split()[-1])
        if found.returncode != 0:
            ended.append(known[reached])
        number = reached + 1
    assert ended == []


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT len(($1::JSON::VARIANT)::VARCHAR) AS v",
        'SELECT len((s::JSON::"variant")::VARCHAR) AS v FROM (VALUES ($1)) t(s)',
        "SELECT json_contains($1, '1') AS v FROM range(3)",
    ],
)
def test_a_deep_value_ends_no_host(sql: str) -> None:
    service = QueryService(MemorySource([]), QueryOptions(memory_limit_bytes=1 << 30, threads=2))
    try:
        for before, after in (("[", "]"), ('{"a":', "}")):
            text = before * DEPTH + "1" + after * DEPTH
            with pytest.raises(LimitExceeded):
                service.execute(sql, parameters=pa.record_batch({"1": [text]})).read_all()
        assert service.execute("SELECT 1 AS v").read_all().to_pylist() == [{"v": 1}]
    finally:
        service.close()
