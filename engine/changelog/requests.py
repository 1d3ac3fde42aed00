"""Requests to an object store, several at once: each waits for the network, and for nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")

REQUESTS_AT_ONCE = 16
"""Requests that one caller makes at once, where that gains anything."""
_POOL = ThreadPoolExecutor(4 * REQUESTS_AT_ONCE, "request")


def ask_each(
    request: Callable[[_Argument], _Result], arguments: Sequence[_Argument], at_once: int
) -> list[_Result]:
    """Make a request for each argument. A single one is made by this thread: it waits for no other.

    Args:
        request: Makes one; must not call this function itself.
        arguments: What to make them for.
        at_once: How many are made at once, as `Objects.requests_at_once`.

    Returns:
        Their results, in order.

    Raises:
        BaseException: What the first of them raised, once those with it have ended.
    """
    if at_once == 1 or len(arguments) == 1:
        return [request(argument) for argument in arguments]
    found: list[_Result] = []
    for start in range(0, len(arguments), at_once):
        begun = [_POOL.submit(request, argument) for argument in arguments[start : start + at_once]]
        failures = [error for error in (each.exception() for each in begun) if error is not None]
        if failures:
            raise failures[0]
        found += [each.result() for each in begun]
    return found


def last_number(is_there: Callable[[int], bool], low: int, at_once: int) -> int:
    """The last one of numbers that are there without gaps. One request where there is none behind `low`.

    Args:
        is_there: Asks for one.
        low: A number that is there, or the one before the first.
        at_once: As in `ask_each`.
    """
    if not is_there(low + 1):
        return low
    low, step = low + 1, 2
    while True:
        steps = [step << place for place in range(at_once)]
        found = ask_each(is_there, [low + each for each in steps], at_once)
        if not all(found):
            place = found.index(False)
            high = low + steps[place]
            return last_before(is_there, low + steps[place - 1] if place else low, high, at_once)
        low, step = low + steps[-1], 2 * steps[-1]


def last_before(is_so: Callable[[int], bool], low: int, high: int, at_once: int) -> int:
    """The last of the first numbers, of which something is so, while it is not so of all later ones.

    Args:
        is_so: Asks for one.
        low: A number of which it is so.
        high: A later one of which it is not.
        at_once: As in `ask_each`.
    """
    while high - low > 1:
        parts = {low + (high - low) * part // (at_once + 1) for part in range(1, at_once + 1)}
        places = sorted(parts - {low})
        for place, found in zip(places, ask_each(is_so, places, at_once), strict=True):
            if not found:
                high = place
                break
            low = place
    return low
