"""Ports that nobody listens on."""

from __future__ import annotations

import random
import socket
from collections.abc import Sequence
from contextlib import ExitStack

from engine.errors import Unavailable

_HIGHEST = 65535
_TRIES = 50
_DRAWN = range(20_000, 32_000)
"""Any port is drawn from these: they are below those that systems give to connections that go out, of which
one could take it before somebody listens.
"""


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
    draw = random.SystemRandom()  # two processes do not try the same ones
    for _ in range(_TRIES):
        found = _bind_ports(address, preferred or draw.choice(_DRAWN), count)
        if found is not None:
            return found
        preferred = 0
    raise Unavailable(f"There are no {count} free ports in a row on {address}.")


def _bind_ports(address: str, first: int, count: int) -> Sequence[int] | None:
    """The ports from `first` if all of them can be bound."""
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
    return range(first, first + count)
