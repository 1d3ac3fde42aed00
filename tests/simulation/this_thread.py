"""What is simulated for the thread that simulates. Hosts that other tests have left running in the process do
with what is real.
"""

from __future__ import annotations

from threading import get_ident
from typing import Any


class ForThisThread:
    """A module, of which the thread that makes this has another one.

    Args:
        simulated: What that thread has; as much of it as it uses.
        real: The module.
    """

    def __init__(self, simulated: object, real: object) -> None:
        self._simulated = simulated
        self._real = real
        self._thread = get_ident()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._simulated if get_ident() == self._thread else self._real, name)
