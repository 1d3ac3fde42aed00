"""How a host has garbage collected."""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Iterator

import pytest
from sqlglot.expressions import Expr

from engine.service import QueryOptions, QueryService
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.tokens import dialect_of
from flight_server.host.process import SWITCH_INTERVAL_SECONDS, settle
from tests.support.memory_source import MemorySource


@pytest.fixture
def settled() -> Iterator[None]:
    before, callbacks = gc.get_threshold(), list(gc.callbacks)
    settle()
    settle()
    assert len(gc.callbacks) == len(callbacks) + 1
    yield
    gc.callbacks[:] = callbacks
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("settled")
def test_trees_die_young() -> None:
    """With Python's own thresholds, 38 collections of older objects look for them."""
    text = "SELECT " + ", ".join(f"a + {number}" for number in range(200))
    before = gc.get_stats()[1]["collections"]
    for _ in range(100):
        parse(lift(text, "duckdb"), "duckdb")
    assert gc.get_stats()[1]["collections"] - before < 15


@pytest.mark.usefixtures("settled")
def test_others_have_the_interpreter_while_a_text_is_cut_into_tokens() -> None:
    """Without turns at collections, the other thread has it once or never."""
    interval, turns, is_over = sys.getswitchinterval(), 0, False

    def take_turns() -> None:
        nonlocal turns
        while not is_over:
            turns += 1
            time.sleep(0)

    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    thread = threading.Thread(target=take_turns)
    dialect, text = dialect_of("duckdb"), "a + " * 200_000 + "a"
    thread.start()
    try:
        before = turns
        dialect.tokenize(text)
        turns_meanwhile = turns - before
    finally:
        is_over = True
        thread.join()
        sys.setswitchinterval(interval)
    assert turns_meanwhile > 10


@pytest.mark.usefixtures("settled")
def test_long_texts_do_not_wait_for_a_collection() -> None:
    """Trees are cycles, and those of some statements too few to be collected, but 1.5 MB each."""
    service = QueryService(MemorySource([]), QueryOptions(memory_limit_bytes=256 << 20, threads=1))
    for number in range(20):
        with service.execute(f"SELECT '{number}{'x' * 1_500_000}'") as result:
            result.read_all()
        # As a call does that is over.
        del result
    service.close()
    left = [each for each in gc.get_objects() if isinstance(each, Expr) and len(each.name) > 1_000_000]
    assert len(left) <= 4
