"""The line of a slow statement, whatever became of its plan."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from engine.errors import Unavailable
from flight_server.server.slow_statements import LONGEST_PLAN, LONGEST_SQL, RunStatement, log_if_slow

RUN = RunStatement("statement", "SELECT 'secret' FROM plays", "", "ann", 2.0, 3, 24, "ok")


def _plan_of(explain: Callable[[], Sequence[str]] | None, caplog: pytest.LogCaptureFixture) -> list[str]:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        log_if_slow(replace(RUN, explain=explain), 1.0)
    (record,) = (each for each in caplog.records if hasattr(each, "facts"))
    found: list[str] = record.facts["plan"]
    return found


def _gone() -> Sequence[str]:
    raise Unavailable("Epoch 7 is gone, and so is 'secret'.")


def _broken() -> Sequence[str]:
    raise KeyError("a defect")


def test_what_is_quicker_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_if_slow(RUN, 2.1)
    assert not caplog.records
    log_if_slow(RUN, 2.0)
    (record,) = caplog.records
    assert record.getMessage() == ("Slow statement: 2.000 s, 3 rows, ok, by ann: SELECT ? FROM plays"), (
        "and no plan, where none is known"
    )


def test_a_plan_that_cannot_be_told_harms_no_statement(caplog: pytest.LogCaptureFixture) -> None:
    assert _plan_of(None, caplog) == []
    assert _plan_of(_gone, caplog) == ["not known any more (Unavailable)"]
    assert _plan_of(_broken, caplog) == []
    assert "cannot be told" in caplog.text


def test_long_ones_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    plan = _plan_of(lambda: ["x" * 100] * 1000, caplog)
    assert sum(map(len, plan)) <= LONGEST_PLAN + 1 and plan[-1] == "…"
    caplog.clear()
    log_if_slow(replace(RUN, sql="SELECT " + "a, " * 10_000 + "b FROM plays"), 1.0)
    (record,) = caplog.records
    assert len(record.facts["sql"]) == LONGEST_SQL  # type: ignore[attr-defined] # what the line adds to it
    assert len(record.facts["sql_sha256"]) == 64  # type: ignore[attr-defined] # likewise


def test_a_text_that_is_not_unicode_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    log_if_slow(replace(RUN, sql="SELECT 1 AS \ud800"), 1.0)
    assert len(caplog.records) == 1
