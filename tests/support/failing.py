"""Things that fail once, at any of their calls and in any way, and go on as if nothing had been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from engine.errors import LimitExceeded, Unavailable


class Panic(BaseException):
    """What a panic in Rust looks like: no `Exception`, as pyo3's PanicException is none."""


FAILURES: tuple[Callable[[], BaseException], ...] = (
    lambda: RuntimeError("a defect in /a/path"),
    MemoryError,
    lambda: pa.ArrowInvalid("offset overflow while concatenating arrays"),
    lambda: KeyError("a defect"),
    lambda: OSError(5, "Input/output error"),
    lambda: Panic("a defect of a library"),
    lambda: Unavailable("It does not answer."),
    lambda: LimitExceeded("It is full."),
)
"""Makes errors: those that nobody expects, and those that are raised on purpose."""


class Faults:
    """Says which call fails, of all things that share it.

    Attributes:
        raised: What was raised; None before that.
    """

    def __init__(self) -> None:
        self.raised: BaseException | None = None
        self._left = 0
        self._failure: Callable[[], BaseException] | None = None

    def arm(self, calls: int, failure: Callable[[], BaseException]) -> None:
        """Have a call fail.

        Args:
            calls: How many calls go well before.
            failure: Makes what it raises.
        """
        self.raised, self._left, self._failure = None, calls, failure

    def disarm(self) -> None:
        """Have no call fail."""
        self._failure = None

    def pass_or_raise(self) -> None:
        """Count a call, and fail it if it is the one."""
        if self._failure is None:
            return
        if self._left:
            self._left -= 1
            return
        self.raised, self._failure = self._failure(), None
        raise self.raised


class Failing:
    """Something whose calls may fail before they do anything.

    Args:
        target: What it stands for.
        faults: Says which of them.
    """

    def __init__(self, target: Any, faults: Faults) -> None:
        self._target = target
        self._faults = faults

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        if not callable(found) or name == "close":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._faults.pass_or_raise()
            return found(*args, **kwargs)

        return call
