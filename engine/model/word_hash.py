"""A hash of 64-bit words."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]
FIRST_FACTOR, SECOND_FACTOR = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(words: Words) -> Words:
    """Words spread evenly, different ones to different ones (Steele and others, "Fast splittable pseudorandom
    number generators", 2014).
    """
    mixed = words >> np.uint64(30)
    mixed ^= words
    mixed *= FIRST_FACTOR
    mixed ^= mixed >> np.uint64(27)
    mixed *= SECOND_FACTOR
    mixed ^= mixed >> np.uint64(31)
    return mixed
