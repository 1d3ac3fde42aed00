"""Turns of small statements: only so many at once, none for large ones, and no wait beyond a statement's own time."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack

import pytest

from engine.errors import DeadlineExceeded
from engine.exec.deadline import Deadline
from engine.exec.turns import PATIENCE_SECONDS, SMALL_BYTES, Turns


def test_the_next_turn_begins_when_one_ends() -> None:
    turns, entered = Turns(1), threading.Event()

    def wait_for_turn() -> None:
        with turns.taken(0, Deadline(30)):
            entered.set()

    waiting = threading.Thread(target=wait_for_turn)
    with turns.taken(0, Deadline(30)):
        waiting.start()
        assert not entered.wait(PATIENCE_SECONDS / 10)
    assert entered.wait(30)
    waiting.join()


def test_large_statements_wait_for_no_turn() -> None:
    turns = Turns(1)
    begun = time.monotonic()
    with turns.taken(0, Deadline(30)), turns.taken(SMALL_BYTES + 1, Deadline(30)):
        assert time.monotonic() - begun < PATIENCE_SECONDS


def test_patience_ends_the_wait_and_takes_no_turn_from_others() -> None:
    turns = Turns(1)
    with ExitStack() as held:
        held.enter_context(turns.taken(0, Deadline(30)))
        begun = time.monotonic()
        with turns.taken(0, Deadline(30)):
            assert time.monotonic() - begun >= PATIENCE_SECONDS
    with turns.taken(0, Deadline(30)):
        pass


def test_a_statement_whose_time_ends_in_the_queue_fails() -> None:
    turns = Turns(1)
    with turns.taken(0, Deadline(30)), pytest.raises(DeadlineExceeded), turns.taken(0, Deadline(0.01)):
        pass
