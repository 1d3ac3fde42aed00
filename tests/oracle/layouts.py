"""The rows of a dataset on other numbers of hosts, in other numbers of partitions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from random import Random
from types import TracebackType

from tests.oracle.datasets import Dataset, spread
from tests.oracle.systems import System

LAYOUTS = ((1, 1), (1, 5), (1, 64), (3, 1), (3, 5), (3, 64))
"""Hosts, and partitions of each store."""


class Layouts:
    """Systems over the same rows, each made when it is first asked.

    Args:
        dataset: The rows.
        system_of: Makes a system.
    """

    def __init__(
        self, dataset: Dataset, system_of: Callable[[Dataset], AbstractContextManager[System]]
    ) -> None:
        self._dataset = dataset
        self._system_of = system_of
        self._resources = ExitStack()
        self._made: dict[tuple[int, int], tuple[Dataset, System]] = {}

    def __enter__(self) -> Layouts:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def any(self, seed: int) -> tuple[Dataset, System]:
        """Some layout, as a seed says, with its dataset."""
        layout = Random(f"layout {seed}").choice(LAYOUTS)
        if layout not in self._made:
            dataset = spread(self._dataset, *layout)
            self._made[layout] = dataset, self._resources.enter_context(self._system_of(dataset))
        return self._made[layout]
