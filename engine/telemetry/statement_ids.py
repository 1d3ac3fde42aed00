"""The id of a statement: what client, coordinator and peers name it by in their logs.

Whoever begins a statement sets it (`StatementScope`), and everything that is logged below, in this thread or
in one that was given the context (`run_in_context`), has it.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable
from contextvars import ContextVar, Token, copy_context
from typing import ParamSpec, TypeVar

ID_BYTES = 8
_WELL_FORMED = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{7,63}", re.ASCII)
"""Long enough that no two statements have it by accident, and short enough for a line of the log."""
_IDS_AT_ONCE = 256
_current: ContextVar[str] = ContextVar("livestate_statement", default="")

P = ParamSpec("P")
Made = TypeVar("Made")


_unused: deque[str] = deque()
"""Ids that nobody has got yet: to ask the system for each takes longer than all else that an id is about."""
# A process that is forked must not give out those of its parent.
os.register_at_fork(after_in_child=_unused.clear)


def new_statement_id() -> str:
    """A new id: 16 hexadecimal digits. From any thread."""
    try:
        return _unused.popleft()
    except IndexError:
        digits, length = os.urandom(ID_BYTES * _IDS_AT_ONCE).hex(), 2 * ID_BYTES
        _unused.extend(digits[at : at + length] for at in range(length, len(digits), length))
        return digits[:length]


def is_statement_id(text: str) -> bool:
    """Whether a text may be an id: 8 to 64 ASCII letters, digits, `.`, `_` and `-`, of which the first is a
    letter or a digit. So it can stand in a line of a log, a header and a URL.
    """
    return _WELL_FORMED.fullmatch(text) is not None


def statement_id() -> str:
    """The id of the statement that this thread works for; empty for none."""
    return _current.get()


class StatementScope:
    """A context in which this thread works for a statement.

    Args:
        statement: The statement's id; empty for none.
    """

    __slots__ = ("_before", "_statement")

    def __init__(self, statement: str) -> None:
        self._statement = statement
        self._before: Token[str] | None = None

    def __enter__(self) -> None:
        self._before = _current.set(self._statement)

    def __exit__(self, *unused: object) -> None:
        assert self._before is not None
        _current.reset(self._before)


def name_statement(statement: str) -> str:
    """Name the statement that this thread works for, unless it has a name: until the scope ends.

    Args:
        statement: Its id.

    Returns:
        The id that it has now.
    """
    known = _current.get()
    if known:
        return known
    _current.set(statement)
    return statement


def run_in_context(call: Callable[P, Made]) -> Callable[P, Made]:
    """A call for another thread, which works for the same statement there.

    Args:
        call: The call.
    """
    context = copy_context()

    def run(*args: P.args, **kwargs: P.kwargs) -> Made:
        return context.run(call, *args, **kwargs)

    return run
