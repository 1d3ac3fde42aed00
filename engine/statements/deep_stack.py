"""Room and time for long texts: parsers and planners recurse on the native stack, which must not run out, and
nothing interrupts them.

sqlglot's compiled parser takes up to 650 bytes of stack for each token that nests the next one (measured on
all productions that were found to do so). What is known to nest is limited (`engine.sql.tokens`); the room is
for what is not known.

A long text takes up to some seconds of the interpreter, which statements of others need, too, and memory. So
few are read at once, the longest alone, and who waits for one goes away when its time is over: it comes to
its end by itself then, in vain.

Short texts are read one after the other, beside the long ones, unless one takes long. Threads take turns with
the interpreter every 0.1 ms: eight that parse together take as long as one after the other, and a lookup,
which wants it a dozen times, waits for all of them each time.
"""

from __future__ import annotations

import gc
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Generic, TypeVar

from engine.duckdb.deadline import POLL_SECONDS, Deadline
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.statement import ReadyStatement, make_ready
from engine.sql.literals import LiftedText
from engine.sql.tokens import MAX_TOKENS
from engine.sql.versions import NO_MOMENTS, Moments
from engine.telemetry.statement_ids import run_in_context

Made = TypeVar("Made")

SHORT_TEXT = 2000
"""Characters of a text that any thread has stack enough for."""
STACK_BYTES = MAX_TOKENS * 2600
"""Address space; memory is only what is used of it."""
MAX_LONG_TEXTS = 2
"""Long texts that are read at once."""
LONGEST_BESIDE_OTHERS = 50_000
"""Characters of a text that is read beside another long one. One of 90,000 tokens takes 100 MiB meanwhile."""
MOST_TURN_SECONDS = 0.1
"""How long a short text waits for its turn: one that takes long must not hold up all others."""
_starting = threading.Lock()
_reading_short_text = threading.Lock()


class _Places:
    """Places for long texts, in the order in which they came. Safe for threads."""

    def __init__(self) -> None:
        self._free = MAX_LONG_TEXTS
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    def take(self, count: int, deadline: Deadline) -> None:
        """Wait for some of them.

        Args:
            count: How many.
            deadline: When the statement must end.

        Raises:
            LivestateError: The statement must end before.
        """
        me = object()
        with self._changed:
            self._waiting.append(me)
            try:
                while self._waiting[0] is not me or self._free < count:
                    self._changed.wait(POLL_SECONDS)
                    deadline.check()
                self._free -= count
            finally:
                self._waiting.remove(me)
                self._changed.notify_all()

    def give(self, count: int) -> None:
        """Give some back."""
        with self._changed:
            self._free += count
            self._changed.notify_all()


class _Outcome(Generic[Made]):
    """What comes of work on another thread. It holds that only until somebody has it, or has gone away.

    An error knows by its traceback who has raised it, and by that this object: as a `Future`, which keeps its
    error, each refused text would be a cycle with all its tokens and trees, and stay until a full collection
    finds it.

    Attributes:
        ended: Set at the end of the work.
    """

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._lock = threading.Lock()
        self._is_wanted = True
        self._made: list[Made] = []
        self._error: BaseException | None = None

    def put(self, made: Made) -> None:
        """Take note of what was made."""
        with self._lock:
            if self._is_wanted:
                self._made.append(made)

    def fail(self, error: BaseException) -> None:
        """Take note that the work has failed."""
        with self._lock:
            if self._is_wanted:
                self._error = error

    def take(self) -> Made:
        """What was made; once, when the work has ended.

        Raises:
            BaseException: The work has raised it.
        """
        error, self._error = self._error, None
        if error is None:
            return self._made.pop()
        try:
            raise error
        finally:
            del error

    def forget(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_wanted, self._error = False, None
            self._made.clear()


_places = _Places()


def ready_statement(
    lifted: LiftedText,
    dialect: str,
    tables: Mapping[StoreName, StoreDefinition],
    deadline: Deadline,
    *,
    all_columns: bool = False,
    moments: Moments = NO_MOMENTS,
) -> ReadyStatement:
    """Make a statement ready, on a thread with a stack of its own if its text is long.

    Args:
        lifted: As for `engine.plan.statement.make_ready`, and so are all others but `deadline`.
        dialect: Dialect of the text.
        tables: The store that each name means.
        deadline: When the statement must end.
        all_columns: Read all columns of every store.
        moments: For which moments versioned stores are to be read.

    Returns:
        The statement.

    Raises:
        LivestateError: As `make_ready`, or the statement must end before.
    """
    work = partial(make_ready, lifted, dialect, tables, all_columns=all_columns, moments=moments)
    return work_on_text(lifted.source.text, work, deadline)


def work_on_text(text: str, work: Callable[[], Made], deadline: Deadline) -> Made:
    """What is made of a text: on a thread with a stack of its own if it is long, and in turn if it is short.

    Args:
        text: The text.
        work: Makes it, and changes nothing.
        deadline: When the statement must end.

    Returns:
        What `work` returns.

    Raises:
        LivestateError: The statement must end before.
        BaseException: What `work` raises.
    """
    if len(text) <= SHORT_TEXT:
        is_its_turn = _reading_short_text.acquire(timeout=MOST_TURN_SECONDS)
        try:
            deadline.check()
            return work()
        finally:
            if is_its_turn:
                _reading_short_text.release()
    count = 1 if len(text) <= LONGEST_BESIDE_OTHERS else MAX_LONG_TEXTS
    _places.take(count, deadline)
    if count > 1:
        # What the last long text has left are cycles, which hold much and are too few to be collected soon.
        gc.collect(1)
    outcome = _Outcome[Made]()
    try:
        _start(run_in_context(partial(_fulfil, outcome, work, count)))
    except BaseException:
        _places.give(count)
        raise
    try:
        while not outcome.ended.wait(POLL_SECONDS):
            deadline.check()
        return outcome.take()
    finally:
        outcome.forget()


def _start(work: Callable[[], None]) -> None:
    with _starting:
        # The size holds for all threads that start meanwhile, too.
        threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=work, name="livestate-long-text", daemon=True).start()
        finally:
            threading.stack_size(0)


def _fulfil(outcome: _Outcome[Made], work: Callable[[], Made], places: int) -> None:
    try:
        outcome.put(work())
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
        outcome.fail(error)
    finally:
        _places.give(places)
        outcome.ended.set()
