"""Addresses of processes that a job has beside it: which are free, and which answer."""

from __future__ import annotations

import re
import socket
from contextlib import suppress

from engine.errors import InvalidInput

LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?P<host>\[[^\]]+\]|[^:\s]+):(?P<port>\d{1,5})")


def free_port() -> int:
    """A port of the loopback address that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def answers(places: str, seconds: float) -> bool:
    """Whether somebody takes connections at one of some places.

    Args:
        places: `host:port`, or several with commas.
        seconds: How long to try, over all of them.

    Raises:
        InvalidInput: They are written otherwise.
    """
    found = [_PLACE.fullmatch(place.strip()) for place in places.split(",")]
    known = [(place["host"].strip("[]"), int(place["port"])) for place in found if place is not None]
    if len(known) < len(found):
        raise InvalidInput(f"{places!r} is no address; write it as host:port, or several with commas.")
    for place in known:
        # Of a name that no host can have, Python says so by an error of another kind.
        with suppress(OSError, UnicodeError), socket.create_connection(place, seconds / len(known)):
            return True
    return False
