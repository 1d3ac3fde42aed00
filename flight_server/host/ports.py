"""Ports that nobody listens on."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from contextlib import ExitStack

from engine.errors import Unavailable

_HIGHEST = 65535
_TRIES = 50


def free_ports(address: str, preferred: int, count: int) -> Sequence[int]:
    """Consecutive ports to listen on.

    Args:
        address: The address to listen on.
        preferred: The first port to take, if it and those behind it are free; 0 for any.
        count: How many.

    Returns:
        The preferred ports, or others that are free now.

    Raises:
        Unavailable: There are none.
    """
    first = preferred
    for _ in range(_TRIES):
        found = _bind_ports(address, first, count)
        if found is not None:
            return found
        first = 0
    raise Unavailable(f"There are no {count} free ports in a row on {address}.")


def _bind_ports(address: str, first: int, count: int) -> Sequence[int] | None:
    """The ports from `first`, 0 for any, if all of them can be bound."""
    with ExitStack() as probes:
        for offset in range(count):
            probe = probes.enter_context(socket.socket())
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if first + offset > _HIGHEST:
                return None
            try:
                probe.bind((address, first + offset))
            except OSError:
                return None
            first = first or int(probe.getsockname()[1])
    return range(first, first + count)
