"""Hostile inputs with fixed seeds: a host neither ends nor swells, and another client gets its rows.
`python -m tests.fuzz` sends more, with new seeds.
"""

from __future__ import annotations

from pathlib import Path

from flight_server.client.client import Client
from tests.fuzz.access import guarded_hosts
from tests.fuzz.host import fuzzed_host
from tests.fuzz.run import KINDS, Plan, run
from tests.fuzz.statements import FUZZED_EPOCH

INPUTS = 1000
LONGEST = 20_000
"""Characters of a text, for a test that takes little time."""


def test_no_input_ends_or_swells_a_host(tmp_path: Path) -> None:
    with fuzzed_host(tmp_path) as host:
        with Client(host.uri) as client:
            # Else all fragments would be refused before anybody reads them.
            for store in ("t", "u", "w", "l"):
                client.query(f"SELECT k FROM {store} AS OF EPOCH {FUZZED_EPOCH} LIMIT 1").read_all()
        results = run(Plan(first=0, inputs=INPUTS, longest=LONGEST, threads=4), host)
    print(results.summary())
    assert not results.findings, "\n".join(each.describe() for each in results.findings)
    assert results.inputs == INPUTS
    assert {kind for kind, _ in results.outcomes} == set(KINDS)
    before, meanwhile = results.lookups
    assert meanwhile["lookups"] > 0
    assert before["failures"] == meanwhile["failures"] == []


def test_strangers_and_roles_learn_nothing_of_what_is_not_for_them(tmp_path: Path) -> None:
    kinds = ("wire", "texts", "sql")
    with guarded_hosts(tmp_path) as guarded:
        for is_stranger in (True, False):
            plan = Plan(first=0, inputs=400, kinds=kinds, longest=LONGEST, threads=4, is_stranger=is_stranger)
            results = run(plan, guarded.host, guarded=guarded)
            assert not results.findings, "\n".join(each.describe() for each in results.findings)
            assert results.inputs == plan.inputs
            assert not results.lookups[1]["failures"]
