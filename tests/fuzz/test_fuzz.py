"""Hostile inputs with fixed seeds: a host neither ends nor swells, and another client gets its rows.
`python -m tests.fuzz` sends more, with new seeds.
"""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.host import fuzzed_host
from tests.fuzz.run import KINDS, Plan, run

INPUTS = 1000
LONGEST = 20_000
"""Characters of a text, for a test that takes little time."""


def test_no_input_ends_or_swells_a_host(tmp_path: Path) -> None:
    with fuzzed_host(tmp_path) as host:
        results = run(Plan(first=0, inputs=INPUTS, longest=LONGEST, threads=4), host)
    print(results.summary())
    assert not results.findings, "\n".join(each.describe() for each in results.findings)
    assert results.inputs == INPUTS
    assert {kind for kind, _ in results.outcomes} == set(KINDS)
    before, meanwhile = results.lookups
    assert meanwhile["lookups"] > 0
    assert before["failures"] == meanwhile["failures"] == []
