"""What hosts log of how they stand: real ones, of which one goes away."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from engine.cluster.reports import HostName
from engine.errors import LivestateError
from flight_server.client.client import Client
from tests.support.many_hosts import three_hosts
from tests.support.waiting import wait_until

GONE = "Host c does not answer any more: statements go on without it."


def _count(caplog: pytest.LogCaptureFixture) -> Counter[str]:
    """How often each line is there; that a host is ready, of those alone that hear of others: one of another
    test may become ready meanwhile.
    """
    records = list(caplog.records)
    watching = {record.thread for record in records if record.getMessage().endswith(" answers.")}
    return Counter(
        record.getMessage().partition(", after")[0]
        for record in records
        if record.thread in watching or not record.getMessage().startswith("The host is ready")
    )


def test_hosts_say_once_that_they_start_are_ready_and_lose_another_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "flight_server.host"), three_hosts(tmp_path) as hosts:
        ready = "The host is ready: it has caught up with the changelog"
        wait_until(lambda: _count(caplog)[ready] == 3, 60)
        wait_until(lambda: _count(caplog)["Host c answers."] == 2, 60)
        hosts[HostName("c")].stop()
        # On a busy machine hosts may lose each other for a moment before.
        wait_until(lambda: _count(caplog)[GONE] >= 2, 60)
    found = _count(caplog)
    assert (found[ready], found["Host c answers."]) == (3, 2)
    assert sum(message.startswith("The host starts: livestate") for message in found.elements()) == 3


MARKED: tuple[tuple[str, list[object] | None], ...] = (
    ("SELECT genre, count(*) AS n FROM plays GROUP BY genre HAVING count(*) < 41114111", None),
    ("SELECT count(*) FROM plays WHERE now() > now() - INTERVAL '41114111 days'", None),
    ("SELECT count(*) FROM plays WHERE JSON '{\"a\": 41114111}' IS NOT NULL AND song <> 41114111", None),
    ("SELECT 'secret'::INT, genre FROM plays ORDER BY genre", None),
    ("SELECT genre, ?::INT FROM plays ORDER BY genre", ["secret"]),
    ("SELECT genre, ?::VARCHAR AS a, count(*) FROM plays WHERE song > ? GROUP BY ALL", ["secret", 41114111]),
    ("SELECT (repeat('w', 7) || song)::INT FROM plays", None),
)
"""Statements, with parameters, that name or make values of which no log may tell."""
MARKS = ("secret", "41114111", "wwwwwww")


def test_no_line_has_values(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    failed = 0
    with caplog.at_level(logging.INFO), three_hosts(tmp_path, slow_seconds=1e-9) as hosts:
        caplog.set_level(logging.INFO, "engine")
        with Client(hosts[HostName("a")].uri) as client:
            for sql, parameters in MARKED:
                try:
                    client.query(sql, parameters).read_all()
                except LivestateError:
                    failed += 1
        wait_until(
            lambda: sum("Slow statement" in each.getMessage() for each in caplog.records) >= len(MARKED)
        )
    assert failed == 3
    told = [f"{each.getMessage()} {getattr(each, 'facts', '')} {each.exc_text}" for each in caplog.records]
    assert any("falls back to" in line for line in told) and any("| merge: " in line for line in told)
    assert not [line for line in told if any(mark in line for mark in MARKS)]
