"""Each epoch that can be read has its own answers."""

from __future__ import annotations

import pytest

from engine.service import Session
from tests.oracle.past_epochs import ASKED, ask_past_epochs
from tests.oracle.systems import ClusterSystem

QUERIES = 6


@pytest.mark.parametrize("dataset", [790112, 790117])
def test_every_epoch_is_answered_right(dataset: int) -> None:
    found = ask_past_epochs(dataset, QUERIES)
    assert not found.findings, "\n" + found.findings[0].describe()
    assert not found.key_faults
    assert found.answered > found.asked // 2 == QUERIES * ASKED // 2


def test_every_epoch_is_answered_right_when_columns_have_other_names_and_types() -> None:
    found = ask_past_epochs(790115, 10, migrates=True)
    assert not found.findings, "\n" + found.findings[0].describe()
    assert found.answered > found.asked // 2 == 5 * ASKED


def test_an_answer_of_another_epoch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_session(system: ClusterSystem, _: Session) -> ClusterSystem:
        return system

    monkeypatch.setattr(ClusterSystem, "within", forget_session)
    found = ask_past_epochs(790112, QUERIES, shrink=False)
    assert found.findings
