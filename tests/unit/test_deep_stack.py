"""Texts that are read on threads of their own: places, turns, and work that nobody waits for any more."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import FrameType, FunctionType
from typing import Any

import pytest

from engine.deadline import NO_DEADLINE, Deadline
from engine.errors import Cancelled, DeadlineExceeded, InvalidInput, LivestateError
from engine.sql.literals import lift
from engine.statements import deep_stack
from engine.statements.deep_stack import (
    LONGEST_BESIDE_OTHERS,
    MAX_LONG_TEXTS,
    SHORT_TEXT,
    ready_statement,
    work_on_text,
)
from tests.support.seeds import seeded_random
from tests.support.waiting import PATIENCE_SECONDS, wait_until


def test_who_waits_for_a_long_text_goes_away_in_time() -> None:
    is_over = threading.Event()
    text = "x" * (SHORT_TEXT + 1)
    for _ in range(MAX_LONG_TEXTS):
        with pytest.raises(DeadlineExceeded):
            work_on_text(text, is_over.wait, Deadline(0.01))
    # All places are taken by what nobody waits for any more, and takes no step at which it could be ended.
    with pytest.raises(DeadlineExceeded):
        work_on_text(text, lambda: 1, Deadline(0.01))
    assert work_on_text("short", lambda: 1, Deadline(0.01)) == 1
    is_over.set()
    assert work_on_text(text, lambda: 1, NO_DEADLINE) == 1


def test_short_texts_are_read_one_after_the_other_beside_long_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_stack, "MOST_TURN_SECONDS", 30.0)
    begun, may_end, order = threading.Event(), threading.Event(), list[int]()

    def work() -> None:
        begun.set()
        may_end.wait(10.0)
        order.append(1)

    with ThreadPoolExecutor(2) as others:
        first = others.submit(work_on_text, "x" * SHORT_TEXT, work, NO_DEADLINE)
        assert begun.wait(10.0)
        second = others.submit(work_on_text, "short", lambda: order.append(2), NO_DEADLINE)
        assert work_on_text("x" * (SHORT_TEXT + 1), lambda: 3, NO_DEADLINE) == 3
        may_end.set()
        first.result()
        second.result()
    assert order == [1, 2]


def test_a_short_text_that_takes_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deep_stack, "MOST_TURN_SECONDS", 0.01)
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10.0)

    with ThreadPoolExecutor(1) as others:
        running = others.submit(work_on_text, "short", work, NO_DEADLINE)
        assert begun.wait(10.0)
        assert work_on_text("short", lambda: 1, NO_DEADLINE) == 1
        with pytest.raises(DeadlineExceeded):
            work_on_text("short", lambda: 1, Deadline(0.0))
        may_end.set()
        running.result()
    with pytest.raises(ZeroDivisionError):
        work_on_text("short", lambda: 1 // 0, NO_DEADLINE)
    assert work_on_text("short", lambda: 2, NO_DEADLINE) == 2


def test_a_failed_long_text_leaves_its_place_to_others() -> None:
    for _ in range(MAX_LONG_TEXTS + 1):
        with pytest.raises(ZeroDivisionError):
            work_on_text("x" * (SHORT_TEXT + 1), lambda: 1 // 0, NO_DEADLINE)


@pytest.mark.parametrize("first", [True, False])
def test_the_longest_texts_are_read_alone(first: bool) -> None:
    """Two of 90,000 tokens at once take 200 MiB."""
    texts = ["x" * (LONGEST_BESIDE_OTHERS + 1), "x" * (SHORT_TEXT + 1)]
    begun, may_end = threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        may_end.wait(10.0)

    with ThreadPoolExecutor(1) as others:
        running = others.submit(work_on_text, texts[0 if first else 1], work, NO_DEADLINE)
        assert begun.wait(10.0)
        with pytest.raises(DeadlineExceeded):
            work_on_text(texts[1 if first else 0], lambda: 1, Deadline(0.05))
        may_end.set()
        running.result()
    assert work_on_text(texts[0], lambda: 1, NO_DEADLINE) == 1


class _Held:
    """Something that can be referred to weakly."""


def test_a_refused_long_text_leaves_nothing_behind() -> None:
    """Its tokens and trees would wait for a full collection, which holds the host for 0.25 s."""
    left: list[weakref.ref[_Held]] = []

    def refuse() -> None:
        held = _Held()
        left.append(weakref.ref(held))
        raise InvalidInput("It is wrong.")

    gc.disable()
    try:
        for _ in range(MAX_LONG_TEXTS):
            with suppress(InvalidInput):
                work_on_text("x" * (SHORT_TEXT + 1), refuse, NO_DEADLINE)
        wait_until(lambda: all(each() is None for each in left), 10.0)
    finally:
        gc.enable()


# ---- work that nobody waits for

LONG_TEXT = "x" * (LONGEST_BESIDE_OTHERS + 1)


def _long_threads() -> int:
    return sum(thread.name == "livestate-long-text" for thread in threading.enumerate())


@pytest.fixture
def thread_errors(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Errors that ended a thread, or were lost, as they are in functions of Python that garbage collection
    calls.
    """
    assert not [each for each in gc.callbacks if isinstance(each, FunctionType)]
    found: list[object] = []
    monkeypatch.setattr(threading, "excepthook", found.append)
    monkeypatch.setattr(sys, "unraisablehook", found.append)
    return found


def test_work_ends_when_nobody_waits_for_it_any_more(thread_errors: list[object]) -> None:
    may_end = threading.Event()

    def work() -> None:
        while not may_end.is_set():
            pass

    try:
        for deadline, error in (
            (Deadline(0.01), DeadlineExceeded),
            (Deadline(None, lambda: True), Cancelled),
        ):
            with pytest.raises(error):
                work_on_text(LONG_TEXT, work, deadline)
            assert work_on_text(LONG_TEXT, lambda: 1, Deadline(PATIENCE_SECONDS)) == 1
    finally:
        may_end.set()
    wait_until(lambda: not _long_threads())
    assert not thread_errors


HOSTILE = {
    "rows": "SELECT * FROM (VALUES " + ", ".join(f"({n}, abs({n}))" for n in range(1000)) + ") v",
    "sums": "SELECT " + ", ".join(f"a.b{n % 50} + {n} AS c{n}" for n in range(1500)) + " FROM t a",
    "types": "SELECT " + ", ".join(f"CAST({n} AS STRUCT(a INT, b INT))" for n in range(700)),
}


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "bigquery"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_long_text_is_left_wherever_its_reader_is(
    name: str, dialect: str, thread_errors: list[object]
) -> None:
    """And is read as before afterwards."""
    lifted = lift(HOSTILE[name], dialect)

    def read(deadline: Deadline) -> str:
        try:
            return ready_statement(lifted, dialect, {}, deadline).sql
        except LivestateError as error:
            return error.message

    begun = time.monotonic()
    expected = read(NO_DEADLINE)
    whole = time.monotonic() - begun
    random = seeded_random(31)
    late = 0
    for _ in range(4):
        late += "time-out" in read(Deadline(random.random() * whole))
        # Its place is free: the next reader begins.
        assert read(Deadline(PATIENCE_SECONDS)) == expected
    wait_until(lambda: not _long_threads())
    assert not thread_errors


def test_places_are_free_wherever_the_work_is_interrupted(thread_errors: list[object]) -> None:
    """Two errors from outside arrive at any two lines of what the thread does before, with and behind it."""
    making = deep_stack._Making
    steps = (making.run, making._put, making._fail, making.refuse_interrupts, deep_stack._do_work)
    lines = {line for step in steps for _, _, line in step.__code__.co_lines() if line is not None}
    arrived = 0
    for first in lines:
        for second in lines:
            places = [first, second]
            _interrupt(places)
            arrived += not places
            assert work_on_text(LONG_TEXT, lambda: 1, Deadline(PATIENCE_SECONDS)) == 1
    assert arrived > 5
    assert not thread_errors


def _interrupt(places: list[int]) -> None:
    """Do work that is abandoned at some of its lines.

    Args:
        places: The lines, in the order in which they are reached; those are taken away.
    """
    making: deep_stack._Making[int] = deep_stack._Making(lambda: 1)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code.co_filename != deep_stack.__file__:
            return None
        # As `abandon` does: not while the thread itself has the lock, and not before or after its work.
        is_there = event == "line" and places[:1] == [frame.f_lineno]
        if is_there and making._lock.acquire(blocking=False):
            try:
                if making._thread_id is not None:
                    del places[0]
                    deep_stack._raise_abandoned(making._thread_id)
            finally:
                making._lock.release()
        return trace

    def trace_again(frame: FrameType, event: str, _: Any) -> None:
        """An error that arrives in `trace` ends it."""
        if event == "call" and frame.f_code is not trace.__code__ and sys.gettrace() is None:
            sys.settrace(trace)
            around: FrameType | None = frame
            while around is not None:
                around.f_trace = trace
                around = around.f_back

    def work() -> None:
        sys.setprofile(trace_again)
        sys.settrace(trace)
        try:
            deep_stack._do_work(making, 1)
        finally:
            sys.setprofile(None)
            sys.settrace(None)

    deep_stack._places.take(1, NO_DEADLINE)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join(PATIENCE_SECONDS)
    assert making.ended.is_set()
    assert deep_stack._places._free == MAX_LONG_TEXTS


_IMPORTS_WHILE_READING = """
import sys
from engine.deadline import NO_DEADLINE
from engine.errors import LivestateError
from engine.sql.literals import lift
from engine.sql.tokens import dialect_of
from engine.statements.deep_stack import ready_statement

dialects, texts = sys.argv[1].split(), sys.argv[2:]
for dialect in dialects:
    dialect_of(dialect)
tried = set()
class Finder:
    def find_spec(name, path=None, target=None):
        tried.add(name)
sys.meta_path.insert(0, Finder)
for dialect in dialects:
    for text in texts:
        try:
            ready_statement(lift(text, dialect), dialect, {}, NO_DEADLINE).logical
        except LivestateError:
            pass
print(*sorted(tried))
"""


def test_nothing_is_imported_while_a_text_is_read() -> None:
    """An import that is ended halfway would keep its lock for good, even that of a module that is away."""
    dialects = "duckdb spark bigquery snowflake oracle postgres mysql tsql clickhouse presto"
    texts = [
        "SELECT x, count(*) FROM (SELECT 1 AS x) AS a GROUP BY x HAVING count(*) > 1 ORDER BY 1 LIMIT 3",
        "SELECT json_extract('{}', '$.a'), CAST('2024-01-01' AS DATE) + INTERVAL '1' DAY, current_timestamp",
        "WITH c AS (SELECT 1 AS q) SELECT * FROM c JOIN c AS b ON c.q = b.q WHERE b.q IN (SELECT q FROM c)",
        "SELECT ARRAY[1, 2][1], date_trunc('day', now()), 'a' || 'b', 7 / 2, x.y FROM (SELECT 1 AS y) AS x",
        "SELECT a[date_diff('day', DATE '2024-01-01', DATE '2024-01-02' + INTERVAL '1' DAY)] FROM t",
        "SELECT a.b.c FROM a.b.c",
        "SELECT (",
    ]
    command = [sys.executable, "-c", _IMPORTS_WHILE_READING, dialects, *texts]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.split() == []
