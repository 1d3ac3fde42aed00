"""What hosts log of how they stand: real ones, of which one goes away."""

from __future__ import annotations

import logging
from collections import Counter
from pathlib import Path

import pytest

from engine.cluster.reports import HostName
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
