"""Who uses the command line, for what is recorded of it."""

from __future__ import annotations

import getpass
import socket
import time

from engine.changelog.decisions import Author


def operator() -> Author:
    """Whoever runs this command, now."""
    return Author(operator_name(), time.time_ns() // 1000)


def operator_name() -> str:
    """The user and the machine, such as `ann@ops-1`; text that can be printed."""
    try:
        user = getpass.getuser()
    except (OSError, KeyError):
        user = "somebody"
    name = f"{user}@{socket.gethostname()}"
    return name if name.isprintable() else ascii(name)
