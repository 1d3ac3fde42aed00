"""Lengths of time as people write them: "7 days", "1 hour 30 minutes"."""

from __future__ import annotations

import datetime as dt
import re

from engine.errors import InvalidInput

_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SHORT = {"s": "second", "min": "minute", "h": "hour", "d": "day"}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?", re.IGNORECASE)


def microseconds_of_duration(duration: str | dt.timedelta) -> int:
    """A length of time in microseconds.

    Args:
        duration: A `timedelta`, or one or more numbers each with a unit: seconds, minutes, hours, days, weeks, or s, min, h, d.

    Raises:
        InvalidInput: The text is no length of time.
    """
    if isinstance(duration, dt.timedelta):
        return duration // dt.timedelta(microseconds=1)
    total, place = dt.timedelta(), 0
    while place < len(duration.rstrip()):
        part = _PART.match(duration, place)
        if part is None:
            raise _unknown(duration)
        total += _length(part[1], part[2].lower(), duration)
        place = part.end()
    if not place:
        raise _unknown(duration)
    return total // dt.timedelta(microseconds=1)


def _length(number: str, unit: str, duration: str) -> dt.timedelta:
    name = _SHORT.get(unit, unit.removesuffix("s"))
    if name not in _SECONDS:
        raise _unknown(duration)
    try:
        return dt.timedelta(seconds=float(number) * _SECONDS[name])
    except OverflowError as error:
        raise InvalidInput(f"{duration!r} is too long a time.") from error


def _unknown(duration: str) -> InvalidInput:
    return InvalidInput(f"{duration!r} is no length of time; write it as '7 days' or '1 hour 30 minutes'.")
