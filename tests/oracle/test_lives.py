"""Answers stay what they are when hosts compact, restart, rebuild and migrate."""

from __future__ import annotations

import pytest

from tests.oracle.lives import live

QUERIES = 8
STAGES = ["as written", "restarted", "compacted", "migrated", "rebuilt"]


@pytest.mark.parametrize("dataset", [790104, 790101])
def test_answers_are_the_same_at_each_stage(dataset: int) -> None:
    lived = live(dataset, QUERIES)
    assert not lived.findings, "\n" + lived.findings[0].describe()
    assert not lived.key_faults
    assert list(lived.asked) == STAGES
    assert all(answered > QUERIES // 2 for _, answered in lived.asked.values())
    assert lived.segments["compacted"] < lived.segments["restarted"] == lived.segments["as written"]
