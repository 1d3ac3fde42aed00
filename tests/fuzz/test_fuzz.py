"""Hostile inputs with fixed seeds: a host neither ends nor swells, and another client gets its rows.
`python -m tests.fuzz` sends more, with new seeds.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.fuzz.host import fuzzed_host
from tests.fuzz.run import KINDS, Plan, run
from tests.support.host_processes import HostProcess

INPUTS = {"sql": 300, "functions": 40, "wire": 700}
LONGEST = 20_000
"""Characters of a text, for a test that takes little time."""


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcess]:
    with fuzzed_host(tmp_path_factory.mktemp("fuzz")) as host:
        yield host


@pytest.mark.parametrize("kind", KINDS)
def test_no_input_ends_or_swells_a_host(host: HostProcess, kind: str) -> None:
    results = run(Plan(first=0, inputs=INPUTS[kind], kinds=(kind,), longest=LONGEST, threads=4), host)
    print(results.summary())
    assert not results.findings, "\n".join(each.describe() for each in results.findings)
    assert results.inputs == INPUTS[kind]
    before, meanwhile = results.lookups
    assert meanwhile["lookups"] > 0
    assert before["failures"] == meanwhile["failures"] == []
