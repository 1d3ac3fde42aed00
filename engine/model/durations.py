"""Lengths of time as people write them: "7 days", "1 hour 30 minutes"."""

from __future__ import annotations

import datetime as dt
import re

from engine.errors import InvalidInput

MICROSECONDS_PER_SECOND = 1_000_000
_SECONDS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_SHORT = {"s": "second", "min": "minute", "h": "hour", "d": "day"}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*,?", re.IGNORECASE)


def microseconds_of_duration(duration: str | dt.timedelta) -> int:
    """A length of time in microseconds.

    Args:
        duration: A `timedelta`, or one or more numbers each with a unit: seconds, minutes, hours, days,
            weeks, or s, min, h, d.

    Raises:
        InvalidInput: The text is no length of time.
    """
    if isinstance(duration, dt.timedelta):
        return duration // dt.timedelta(microseconds=1)
    # A plain number, say, is told what it lacks.
    text = str(duration)
    parts, offset = [], 0
    while offset < len(text.rstrip()):
        part = _PART.match(text, offset)
        if part is None:
            raise _unknown_duration(text)
        parts.append(float(part[1]) * _seconds(part[2].lower(), text))
        offset = part.end()
    if not parts:
        raise _unknown_duration(text)
    try:
        return sum((dt.timedelta(seconds=part) for part in parts), dt.timedelta()) // dt.timedelta(
            microseconds=1
        )
    except OverflowError as error:
        raise InvalidInput(f"{text!r} is too long a time: the longest is 999999999 days.") from error


def duration_in_words(microseconds: int) -> str:
    """A length of time as people write it, such as "1 hour 30 minutes"; `microseconds_of_duration` reads it
    back.

    Args:
        microseconds: The length, not negative.
    """
    parts, left = [], microseconds
    for unit in ("day", "hour", "minute"):
        count, left = divmod(left, _SECONDS[unit] * MICROSECONDS_PER_SECOND)
        if count:
            parts.append(f"{count} {unit}{'' if count == 1 else 's'}")
    if left or not parts:
        whole, fraction = divmod(left, MICROSECONDS_PER_SECOND)
        seconds = f"{whole}.{fraction:06}".rstrip("0").rstrip(".")
        parts.append(f"{seconds} second{'' if seconds == '1' else 's'}")
    return " ".join(parts)


def _seconds(unit: str, duration: str) -> int:
    name = _SHORT.get(unit, unit.removesuffix("s"))
    if name not in _SECONDS:
        raise _unknown_duration(duration)
    return _SECONDS[name]


def _unknown_duration(duration: str) -> InvalidInput:
    return InvalidInput(f"{duration!r} is no length of time; write it as '7 days' or '1 hour 30 minutes'.")
