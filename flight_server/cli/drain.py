"""`livestate drain`: a host takes no new statements, and ends what runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from flight_server.client.client import Client

_LOOK_SECONDS = 0.2


def wait_until_drained(client: Client, timeout_seconds: float | None, say: Callable[[str], None]) -> bool:
    """Have a host take no new statements, and wait until nothing runs on it.

    Args:
        client: The host.
        timeout_seconds: How long to wait; None: without end.
        say: Gets a line for the user when there is something new.

    Returns:
        Whether nothing runs.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    status, shown = client.drain("begin"), ""
    until = None if timeout_seconds is None else time.monotonic() + timeout_seconds
    while True:
        text = drain_text(status)
        if text != shown:
            say(text)
            shown = text
        if not status["running"] or not status["draining"]:
            return not status["running"]
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(_LOOK_SECONDS)
        status = client.drain("status")


def drain_text(status: Mapping[str, Any]) -> str:
    """How a host is, in words.

    Args:
        status: As `Client.drain` gives it.
    """
    running = status["running"]
    words = "nothing runs" if not running else "one statement runs" if running == 1 else f"{running:,} run"
    if not status["draining"]:
        return f"The host takes statements; {words}."
    return f"The host takes no new statements; {words}." + ("" if running else " It can be stopped.")
