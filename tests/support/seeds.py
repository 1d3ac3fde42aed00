"""Random numbers that are the same each time; a test that fails names the seeds that it has used."""

from __future__ import annotations

from collections import deque
from random import Random

import numpy as np

_SEEDS_SHOWN = 20
_used: deque[int | str] = deque(maxlen=_SEEDS_SHOWN)


def seeded_random(seed: int | str) -> Random:
    """Random numbers.

    Args:
        seed: Which ones.
    """
    _note(seed)
    return Random(seed)


def seeded_generator(seed: int) -> np.random.Generator:
    """Random numbers for whole arrays.

    Args:
        seed: Which ones.
    """
    _note(seed)
    return np.random.default_rng(seed)


def used_seeds() -> list[int | str]:
    """The seeds that the running test has used, the last ones of many."""
    return list(_used)


def forget_seeds() -> None:
    """Begin with another test."""
    _used.clear()


def _note(seed: int | str) -> None:
    if seed not in _used:
        _used.append(seed)
