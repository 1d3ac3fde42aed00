"""`livestate scrub`: a host reads all that it has stored, and says what is damaged."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from engine.model.quantities import quantity
from flight_server.client.client import Client

_LOOK_SECONDS = 0.5
_MIB = 1 << 20


def scrub(client: Client, rate: float | None, say: Callable[[str], None]) -> bool:
    """Have a host read all that it has stored, and wait until it is done. An interrupt ends it.

    Args:
        client: The host.
        rate: MiB a second at most; None for the host's option.
        say: Gets lines for the user: how far it is, and what was found.

    Returns:
        Whether everything could be read, and nothing is damaged.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    status = client.scrub("begin", None if rate is None else rate * _MIB)
    number, said, shown = status["number"], 0, ""
    try:
        while True:
            found = [*status["damaged"], *(f"{each} (could not be read)" for each in status["unread"])]
            for line in found[said:]:
                say(line)
            said = len(found)
            progress = progress_text(status)
            if progress != shown:
                say(progress)
                shown = progress
            if not status["is_running"] or status["number"] != number:
                break
            time.sleep(_LOOK_SECONDS)
            status = client.scrub("status")
    except KeyboardInterrupt:
        client.scrub("cancel")
        raise
    if status["damaged"]:
        say("The host puts aside what is damaged and builds it again: livestate stores shows how far it is.")
    return not found and not status["is_cancelled"]


def progress_text(status: Mapping[str, Any]) -> str:
    """How far a scrub is, in words.

    Args:
        status: As `Client.scrub` gives it.
    """
    if not status["number"]:
        return "No scrub has run."
    done, total = status["bytes_done"], max(status["bytes"], status["bytes_done"])
    is_whole = status["partitions_done"] == status["partitions"]
    percent = 100 if is_whole else min(99, 100 * done // total) if total else 0
    end = "" if status["is_running"] else ", cancelled" if status["is_cancelled"] else ", all that there is"
    return (
        f"{percent} %: {done / _MIB:,.1f} of {total / _MIB:,.1f} MiB, {status['partitions_done']:,} of "
        f"{quantity(status['partitions'], 'partition')}{end}"
    )
