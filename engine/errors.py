"""Every error that livestate raises on purpose: one root and few kinds.

A kind says what the caller should do, so that callers decide on the class and never on a message's text.
Messages are one clear sentence or two: what was wrong, and what to do. They carry no path, address of memory,
secret or traceback, because they travel to clients as they are.
"""

from __future__ import annotations

from dataclasses import dataclass


class LivestateError(Exception):
    """The root of all errors raised on purpose.

    Args:
        message: What was wrong and what to do, in plain words that may be shown to any client.

    Attributes:
        statement: At a client, the id under which the logs of hosts have the statement that failed; empty
            where that is not known.
    """

    statement = ""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


@dataclass(frozen=True)
class Position:
    """A place in an SQL text.

    Attributes:
        offset: Characters before the place, from 0.
        line: Line of the place, from 1.
        column: Column of the place, from 1.
    """

    offset: int
    line: int
    column: int


class InvalidInput(LivestateError):
    """The request is wrong and stays wrong: change it. SQL errors carry their place in the text."""

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.position = position


class NotFound(LivestateError):
    """What the request names does not exist: a store, a column, a group, an epoch. SQL errors carry its place
    in the text.
    """

    def __init__(self, message: str, position: Position | None = None) -> None:
        super().__init__(message)
        self.position = position


class Unsupported(LivestateError):
    """The request is well formed, and livestate does not do it."""


class Unauthenticated(LivestateError):
    """The caller did not prove who it is."""


class Forbidden(LivestateError):
    """The caller proved who it is, and may not do this."""


class Fenced(LivestateError):
    """A newer writer owns the store group: this writer must stop, and nothing it held back was committed."""


class Unavailable(LivestateError):
    """Something needed is not there now (a partition, an epoch, the changelog): try again later."""


class DeadlineExceeded(LivestateError):
    """The time allowed ran out: ask for less, or allow more."""


class Cancelled(LivestateError):
    """The caller took the request back."""


class LimitExceeded(LivestateError):
    """A limit of memory, disk or size was met: ask for less, or raise the limit that the message names."""


class Defect(LivestateError):
    """livestate, or a library under it, broke on something that it should have answered or refused: report
    it.
    """


class Corrupt(LivestateError):
    """Stored bytes are not what was written: restore them, or rebuild from the changelog."""


MISTAKES_OF_CALLER = (InvalidInput, NotFound, Unsupported, Unauthenticated, Forbidden)
"""Kinds that only the caller can do something about: no other host, and no later time, would answer."""
