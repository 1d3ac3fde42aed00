"""What is shown again and again, until an interrupt."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from engine.processes.signal_event import SignalEvent

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


@contextmanager
def interrupt_event() -> Iterator[SignalEvent]:
    """An event for the first Ctrl-C, instead of an exception, which can get lost when it is raised within a
    call of Flight.
    """
    interrupted = SignalEvent()
    before = signal.signal(signal.SIGINT, lambda *_: interrupted.set())
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def show_again(
    console: Console, shown: Iterable[RenderableType], seconds: float, interrupted: SignalEvent
) -> None:
    """Show one thing after the other: in the same place of a terminal, below each other elsewhere.

    Args:
        console: Where to.
        shown: What to show; each is asked for when its turn comes.
        seconds: How long each stays.
        interrupted: Ends it.
    """
    if not console.is_terminal:
        for each in shown:
            console.print(each)
            console.file.flush()
            if interrupted.wait(seconds):
                return
        return
    from rich.live import Live  # noqa: PLC0415  rich is imported when something is shown

    with Live(console=console, auto_refresh=False) as live:
        for each in shown:
            live.update(each, refresh=True)
            if interrupted.wait(seconds):
                return
