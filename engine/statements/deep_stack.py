"""Room and time for long texts: parsers and planners recurse on the native stack, which must not run out, and
look at no clock.

sqlglot's compiled parser takes up to 650 bytes of stack for each token that nests the next one (measured on
all productions that were found to do so). What is known to nest is limited (`engine.sql.tokens`); the room is
for what is not known.

A long text takes up to some seconds of the interpreter, which statements of others need, too, and memory. So
few are read at once, the longest alone, and who waits for one goes away when its time is over: an error is
raised in its thread then, wherever that is.

Short texts are read one after the other, beside the long ones, unless one takes long. Threads take turns with
the interpreter every 0.1 ms: eight that parse together take as long as one after the other, and a lookup,
which wants it a dozen times, waits for all of them each time.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Generic, TypeVar

from engine.deadline import POLL_SECONDS, Deadline
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.statement import ReadyStatement, make_ready
from engine.sql.literals import LiftedText
from engine.sql.tokens import MAX_TOKENS, dialect_of
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
for name in (
    "dateutil.relativedelta",
    "sqlglot.optimizer.annotate_types",
    "sqlglot.optimizer.normalize_identifiers",
    "sqlglot.optimizer.simplify",
    "sqlglot.serde",
):
    # sqlglot imports it when it is needed first. An import that is ended halfway may keep its lock.
    import_module(name)

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


class _AbandonedError(BaseException):
    """Nobody waits any more for what is being made."""


class _Making(Generic[Made]):
    """What is made on another thread, until it is made or nobody waits for it any more. It holds that only
    until somebody has it.

    An error knows by its traceback who has raised it, and by that this object: as a `Future`, which keeps its
    error, each refused text would be a cycle with all its tokens and trees, and stay until a full collection
    finds it.

    Args:
        work: Makes it. An error may end it at any step: it changes nothing, and holds no lock but by `with`.

    Attributes:
        ended: Set at the end of the work.
    """

    def __init__(self, work: Callable[[], Made]) -> None:
        self.ended = threading.Event()
        self._work = work
        self._lock = threading.Lock()
        self._thread_id: int | None = None
        self._is_wanted = True
        self._made: list[Made] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        """Do the work, on this thread.

        Raises:
            _AbandonedError: Nobody waits for it, which came to light at its very end. Interrupts may not have
                been refused by then.
        """
        try:
            with self._lock:
                if not self._is_wanted:
                    return
                self._thread_id = threading.get_ident()
            self._put(self._work())
        except BaseException as error:  # noqa: BLE001 - it is raised where the result is waited for
            self._fail(error)
        finally:
            self.refuse_interrupts()

    def _put(self, made: Made) -> None:
        with self._lock:
            if self._is_wanted:
                self._made.append(made)

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            if self._is_wanted:
                self._error = error

    def refuse_interrupts(self) -> None:
        """From now on nothing is raised in this thread from outside.

        Raises:
            _AbandonedError: It was raised before.
        """
        with self._lock:
            self._thread_id = None
        # Python looks for such errors in loops and at calls: what is on its way arrives here, if not before.
        for _ in range(2):
            pass

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

    def abandon(self) -> None:
        """Nobody waits any more: the work ends at its next step of Python code."""
        # The first may be lost, as where a finaliser of Python is at work. `_do_work` is made for two.
        for _ in range(2):
            with self._lock:
                self._is_wanted, self._error = False, None
                self._made.clear()
                if self._thread_id is None:
                    return
                _raise_abandoned(self._thread_id)
            if self.ended.wait(POLL_SECONDS):
                return


def ignore_lost_interrupts() -> None:
    """Have this process say nothing of such an error that came up in a finaliser, and was lost there. Python
    would print where that was.
    """
    before = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if not issubclass(unraisable.exc_type, _AbandonedError):
            before(unraisable)

    sys.unraisablehook = hook


def _raise_abandoned(thread_id: int) -> None:
    """Have a thread raise an `_AbandonedError` at its next step of Python code.

    It cannot be taken back: Python would go on looking for it at each step, in all threads.
    """
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread_id), ctypes.py_object(_AbandonedError))


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
    # A dialect that is not known yet is imported, which nothing may end halfway.
    dialect_of(dialect)
    work = partial(make_ready, lifted, dialect, tables, all_columns=all_columns, moments=moments)
    return work_on_text(lifted.source.text, work, deadline)


def work_on_text(text: str, work: Callable[[], Made], deadline: Deadline) -> Made:
    """What is made of a text: on a thread with a stack of its own if it is long, and in turn if it is short.

    Args:
        text: The text.
        work: Makes it. An error may end it at any step: it changes nothing, and holds no lock but by `with`.
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
    making = _Making(work)
    try:
        _start(run_in_context(partial(_do_work, making, count)))
    except BaseException:
        _places.give(count)
        raise
    try:
        while not making.ended.wait(POLL_SECONDS):
            deadline.check()
        return making.take()
    finally:
        making.abandon()


def _start(work: Callable[[], None]) -> None:
    with _starting:
        # The size holds for all threads that start meanwhile, too.
        threading.stack_size(STACK_BYTES)
        try:
            threading.Thread(target=work, name="livestate-long-text", daemon=True).start()
        finally:
            threading.stack_size(0)


def _do_work(making: _Making[Made], places: int) -> None:
    try:
        making.run()
    except _AbandonedError:
        # One more may come.
        try:  # noqa: SIM105 - `suppress` would be more steps, at which it could come
            making.refuse_interrupts()
        except _AbandonedError:
            pass
    finally:
        _places.give(places)
        making.ended.set()
