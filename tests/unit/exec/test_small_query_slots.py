"""Turns of small statements: only so many at once, none for large ones, and no wait beyond a statement's own
time.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from engine.deadline import Deadline
from engine.duckdb.small_query_slots import SMALL_BYTES, SmallQuerySlots
from engine.errors import DeadlineExceeded

FOREVER = 3600.0
WAIT_SECONDS = 60.0


def test_the_next_turn_begins_when_one_ends() -> None:
    turns, asks, entered = SmallQuerySlots(1, patience_seconds=FOREVER), threading.Event(), threading.Event()

    def wait_for_turn() -> None:
        asks.set()
        with turns.occupy(0, Deadline(WAIT_SECONDS)):
            entered.set()

    waiting = threading.Thread(target=wait_for_turn)
    with turns.occupy(0, Deadline(WAIT_SECONDS)):
        waiting.start()
        assert asks.wait(WAIT_SECONDS)
        assert not entered.wait(0.05)
    assert entered.wait(WAIT_SECONDS)
    waiting.join()


def test_large_statements_wait_for_no_turn() -> None:
    turns = SmallQuerySlots(1, patience_seconds=FOREVER)
    # Who waits for the turn fails: it is not given back before this one's time is over.
    with turns.occupy(0, Deadline(None)), turns.occupy(SMALL_BYTES + 1, Deadline(WAIT_SECONDS)):
        pass


def test_patience_ends_the_wait_and_takes_no_turn_from_others() -> None:
    turns = SmallQuerySlots(1, patience_seconds=0.1)
    with ExitStack() as held:
        held.enter_context(turns.occupy(0, Deadline(None)))
        begun = time.monotonic()
        with turns.occupy(0, Deadline(None)):
            assert time.monotonic() - begun >= 0.1
    assert turns._free.acquire(blocking=False), "the turn is free again"
    assert not turns._free.acquire(blocking=False), "and there is but one"


def test_a_statement_whose_time_ends_in_the_queue_fails() -> None:
    turns = SmallQuerySlots(1, patience_seconds=FOREVER)
    with turns.occupy(0, Deadline(None)), pytest.raises(DeadlineExceeded), turns.occupy(0, Deadline(0.01)):
        pass
