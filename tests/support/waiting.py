"""Waiting for a condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.errors import Unavailable

PATIENCE_SECONDS = 60.0
"""Far more than anything takes on a busy machine: a test that waits longer has found something that does not
happen.
"""


def wait_until(
    condition: Callable[[], bool], timeout_seconds: float = PATIENCE_SECONDS, pause_seconds: float = 0.005
) -> None:
    """Return once a condition holds.

    Args:
        condition: Looked at again and again; what it raises is not caught.
        timeout_seconds: How long it may take.
        pause_seconds: Between two looks.

    Raises:
        AssertionError: It did not come about in time.
    """
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come about"
        time.sleep(pause_seconds)


def wait_until_served(condition: Callable[[], bool], timeout_seconds: float = PATIENCE_SECONDS) -> None:
    """As `wait_until`, for a condition that asks a host which may not have what it is asked for yet: no
    changelog, or not all of it. Unavailable means "not yet"; any other error is one.

    Args:
        condition: Looked at again and again.
        timeout_seconds: How long it may take.

    Raises:
        AssertionError: It did not come about in time; after what the host said last, if it refused.
    """
    refusal: Unavailable | None = None

    def holds() -> bool:
        nonlocal refusal
        try:
            return condition()
        except Unavailable as error:
            refusal = error
            return False

    try:
        wait_until(holds, timeout_seconds)
    except AssertionError as error:
        raise error from refusal
