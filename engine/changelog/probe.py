"""Whether the place of a changelog keeps what writers and hosts rely on, tried out with objects that are
removed again.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa

from engine.changelog.layout import CLOCK_PATH
from engine.changelog.objects import Objects

WRITERS = 8
"""How many try to create the same object at once."""


@dataclass(frozen=True)
class ChangelogProbe:
    """What was found out.

    Attributes:
        faults: What is not as it must be, a sentence each.
        create_seconds: How long it took to create an object.
        clock: The time by the clock of whoever keeps the objects, microseconds since 1970 UTC.
        asked_at: The time here at that moment, likewise.
    """

    faults: Sequence[str]
    create_seconds: float
    clock: int
    asked_at: int


def probe_objects(objects: Objects) -> ChangelogProbe:
    """Try a place of objects out.

    Args:
        objects: The place. It gets a few small objects, which are removed again.

    Raises:
        Unavailable: It cannot be reached, or refuses.
        LimitExceeded: It is full.
    """
    directory = f"{CLOCK_PATH}/{secrets.token_hex(8)}"
    first, contended = f"{directory}/first", f"{directory}/contended"
    faults: list[str] = []
    try:
        begun = time.perf_counter()
        if not objects.create(first, [pa.py_buffer(b"one")]):
            faults.append("An object that did not exist could not be created.")
        create_seconds = time.perf_counter() - begun
        faults += _conditional_create_faults(objects, first, contended)
        if first not in set(objects.list(directory)):
            faults.append("A listing lacks an object that has just been created: hosts would miss epochs.")
    finally:
        objects.delete([first, contended])
    if set(objects.list(directory)) or objects.exists(first):
        faults.append("An object is still there after it was deleted.")
    clock = objects.current_time()
    return ChangelogProbe(faults, create_seconds, clock, time.time_ns() // 1000)


def _conditional_create_faults(objects: Objects, first: str, contended: str) -> list[str]:
    faults = []
    created_again = objects.create(first, [pa.py_buffer(b"two")])
    found = objects.get(first)
    if created_again or found is None or found.to_pybytes() != b"one":
        faults.append(
            "An object that exists can be created once more: two writers could both commit the same epoch."
        )
    with ThreadPoolExecutor(WRITERS) as pool:
        chunks = [[pa.py_buffer(bytes([number]))] for number in range(WRITERS)]
        winners = sum(pool.map(lambda chunk: objects.create(contended, chunk), chunks))
    if winners != 1:
        faults.append(
            f"Of {WRITERS} who created the same object at once, {winners} were told that they had, and not "
            "one."
        )
    return faults
