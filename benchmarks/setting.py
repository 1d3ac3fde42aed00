"""What a benchmark is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from benchmarks.report import Figure


@dataclass(frozen=True)
class Setting:
    """What a benchmark is given.

    Attributes:
        directory: An empty directory for all that it writes; removed afterwards.
        scale: How large it is to be; 1 is the size that the targets are for.
    """

    directory: Path
    scale: float = 1.0

    def scale_number(self, full: int, least: int = 1) -> int:
        """A number of rows or repetitions at this scale.

        Args:
            full: The number at scale 1.
            least: What it does not fall below.

        Returns:
            The number.
        """
        return max(least, round(full * self.scale))

    def subdirectory(self, name: str) -> Path:
        """A new directory."""
        path = self.directory / name
        path.mkdir()
        return path


Benchmark: TypeAlias = Callable[[Setting], Iterator[Figure]]
"""Yields its figures as it gets them."""
