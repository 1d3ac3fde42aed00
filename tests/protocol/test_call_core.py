"""Where many clients look keys up at once, all else goes on on all processors."""

from __future__ import annotations

import math
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from pyarrow import flight

from engine.processes import right_of_way
from engine.processes.right_of_way import RIGHT_OF_WAY
from flight_server.server.statements import StatementCalls

CLIENTS = 6
CALL_THREADS = "grpc"
"""How the names of threads begin that answer calls."""
USABLE = os.sched_getaffinity(0) if sys.platform == "linux" else set()

pytestmark = pytest.mark.skipif(len(USABLE) < 2, reason="there is nothing to choose")


def restricted_threads() -> list[str]:
    """Names of the threads of this process that may not use all processors."""
    found = []
    for thread in Path("/proc/self/task").iterdir():
        try:
            if os.sched_getaffinity(int(thread.name)) != USABLE:
                found.append((thread / "comm").read_text().strip())
        except OSError:
            pass  # it has ended
    return found


def ask_at_once(uri: str, text: str, times: int) -> None:
    """Ask a statement as several clients at once, some times."""
    together = Barrier(CLIENTS)

    def ask() -> None:
        with flight.connect(uri) as plain:
            for _ in range(times):
                together.wait()
                plain.do_get(flight.Ticket(text.encode())).read_all()

    with ThreadPoolExecutor(CLIENTS) as threads:
        for call in [threads.submit(ask) for _ in range(CLIENTS)]:
            call.result()


def test_what_is_not_short_leaves(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RIGHT_OF_WAY, "_crowded_until", math.inf)
    # Calls at once set it anew.
    monkeypatch.setattr(right_of_way, "CROWDED_SECONDS", math.inf)
    answered_on: list[set[int]] = []
    answer = StatementCalls._answer

    def answer_and_note(self: StatementCalls, *arguments: Any) -> flight.FlightDataStream:
        answered_on.append(os.sched_getaffinity(0))
        return answer(self, *arguments)

    monkeypatch.setattr(StatementCalls, "_answer", answer_and_note)
    ask_at_once(uri, "SELECT * FROM songs WHERE song_id = 1", 20)
    restricted = restricted_threads()
    assert restricted
    assert all(name.startswith(CALL_THREADS) for name in restricted)
    answered_on.clear()
    # Not kept: each time another text.
    for number in range(5):
        ask_at_once(uri, f"SELECT count(*) FROM songs WHERE plays % 7 > {number}", 1)
    assert answered_on
    assert all(cores == USABLE for cores in answered_on)
