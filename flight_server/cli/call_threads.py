"""Threads that ask hosts beside the main one, which hears Ctrl-C meanwhile."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress


class CallThread(threading.Thread):
    """A thread that asks a host; a command need not wait for its end.

    Args:
        name: Its name.
        target: What it does; None where a subclass says it in `run`.
    """

    def __init__(self, name: str, target: Callable[[], None] | None = None) -> None:
        super().__init__(target=target, name=name, daemon=True)


def exit_during_calls(end: SystemExit) -> None:
    """End the process at once where a thread still asks a host. Flight calls Python when the host answers,
    and a thread that comes back from a call takes the interpreter: the process dies of a signal where that is
    in parts already.

    Args:
        end: With which code, and whose message is to be printed.
    """
    if any(isinstance(thread, CallThread) for thread in threading.enumerate()):
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        for stream in (sys.stdout, sys.stderr):
            with suppress(BrokenPipeError):
                # A reader that has gone away is no failure.
                stream.flush()
        os._exit(1 if isinstance(end.code, str) else end.code or 0)
