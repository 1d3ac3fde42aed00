"""Which epochs a client wants to read: the options `min_epoch`, `max_staleness`, `as_of` and `allow_stale`,
from text or JSON to `ReadPoint`, and back.

| option | value |
|---|---|
| `min_epoch` | a whole number: this epoch or a newer one, of every store group that is read |
| `max_staleness` | seconds: no commit that is older than this may be missing |
| `as_of` | an epoch number, or a time in ISO 8601 (UTC where it names no zone); or JSON, an object of these by store group; `number@digest` is the epoch of one history of the changelog |
| `allow_stale` | true or false: whether a host may answer that is further behind than its `--max-lag` |
"""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Mapping
from functools import lru_cache

from engine.errors import InvalidInput
from engine.model.read_point import NEWEST, AsOf, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName

READ_POINT_OPTIONS = ("min_epoch", "max_staleness", "as_of", "allow_stale")
MAX_EPOCH = (1 << 63) - 1
_EPOCH_TIME = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND = dt.timedelta(microseconds=1)
_AS_OF = (
    'as_of must be an epoch number, a time such as 2026-11-20T12:00:00Z, or {"store group": one of these}.'
)
_EPOCH_OF_HISTORY = re.compile(r"\s*(\d{1,39})@([0-9a-f]{1,128})\s*")
_FLAGS = {"true": True, "false": False, "": False}


def parse_read_point(
    min_epoch: object = None,
    max_staleness: object = None,
    as_of: object = None,
    allow_stale: object = None,
) -> ReadPoint:
    """The read point that a client asks for.

    Args:
        min_epoch: A number, or its text; None or an empty text: none.
        max_staleness: A number of seconds, or its text; likewise.
        as_of: A number, a text, or a mapping of group names to these; likewise.
        allow_stale: A truth value, or `true` or `false` as a text; likewise.

    Returns:
        The read point.

    Raises:
        InvalidInput: A value is none of these.
    """
    is_stale_allowed = parse_flag("allow_stale", allow_stale)
    if _is_absent(min_epoch) and _is_absent(max_staleness) and _is_absent(as_of) and not is_stale_allowed:
        return NEWEST
    groups, default = ({}, None) if _is_absent(as_of) else _parse_as_of(as_of)
    return ReadPoint(
        min_epoch=None
        if _is_absent(min_epoch)
        else _parse_epoch(min_epoch, "min_epoch must be an epoch number."),
        max_staleness_seconds=None if _is_absent(max_staleness) else _parse_seconds(max_staleness),
        as_of=groups,
        as_of_default=default,
        allow_stale=is_stale_allowed,
    )


def parse_flag(name: str, value: object) -> bool:
    """Whether an option is on.

    Args:
        name: The option.
        value: What somebody sent; drivers whose connection properties are texts send `true` and `false`. None
            and an empty text: it is off.

    Raises:
        InvalidInput: It is none of these.
    """
    flag = _FLAGS.get(value.strip().lower()) if isinstance(value, str) else bool(value)
    if flag is None or not isinstance(value, str | bool | None):
        raise InvalidInput(f"The option {name} must be true or false.")
    return flag


def read_point_values(read_point: ReadPoint) -> dict[str, object]:
    """The options of a read point.

    Args:
        read_point: What `parse_read_point` made.

    Returns:
        What `parse_read_point` takes to make it again, by the names in `READ_POINT_OPTIONS`.
    """
    return {
        "min_epoch": read_point.min_epoch,
        "max_staleness": read_point.max_staleness_seconds,
        "as_of": as_of_text(read_point),
        "allow_stale": read_point.allow_stale,
    }


def as_of_text(read_point: ReadPoint) -> str:
    """The `as_of` of a read point as text.

    Args:
        read_point: What `parse_read_point` made.

    Returns:
        What `parse_read_point` reads back; empty for none.
    """
    if read_point.as_of:
        return _groups_text(read_point.as_of)
    return "" if read_point.as_of_default is None else _moment_text(read_point.as_of_default)


def pinned_text(read_point: ReadPoint) -> str:
    """The `pinned` of a read point as text.

    Args:
        read_point: Any.

    Returns:
        What `parse_pinned` reads back; empty for none.
    """
    return _groups_text(read_point.pinned) if read_point.pinned else ""


def parse_pinned(text: str) -> Mapping[GroupName, AsOfEpoch]:
    """What `pinned_text` wrote.

    Raises:
        InvalidInput: The text is nothing of the kind.
    """
    groups, default = _parse_as_of_text(text)
    pinned = {group: epoch for group, epoch in groups.items() if isinstance(epoch, AsOfEpoch)}
    if default is not None or len(pinned) < len(groups):
        raise InvalidInput("The statement handle is damaged: plan the statement again.")
    return pinned


def _groups_text(moments: Mapping[GroupName, AsOf | None] | Mapping[GroupName, AsOfEpoch]) -> str:
    return json.dumps(
        {group: _moment_text(moment) for group, moment in moments.items() if moment is not None}
    )


def _moment_text(moment: AsOf) -> str:
    if isinstance(moment, AsOfEpoch):
        return f"{moment.epoch}@{moment.digest}" if moment.digest else str(moment.epoch)
    return (_EPOCH_TIME + moment.microseconds * _MICROSECOND).isoformat()


def _is_absent(value: object) -> bool:
    return value is None or value == ""


def _parse_as_of(value: object) -> tuple[Mapping[GroupName, AsOf], AsOf | None]:
    if isinstance(value, str):
        return _parse_as_of_text(value)
    if isinstance(value, Mapping):
        return _parse_groups(value), None
    return {}, _parse_moment(value)


@lru_cache(maxsize=256)
def _parse_as_of_text(text: str) -> tuple[Mapping[GroupName, AsOf], AsOf | None]:
    if not text.lstrip().startswith("{"):
        return {}, _parse_moment(text)
    try:
        return _parse_groups(json.loads(text)), None
    except (ValueError, RecursionError) as error:
        raise InvalidInput(_AS_OF) from error


def _parse_groups(values: Mapping[object, object]) -> Mapping[GroupName, AsOf]:
    return {GroupName(str(group)): _parse_moment(value) for group, value in values.items()}


def _parse_moment(value: object) -> AsOf:
    if isinstance(value, str) and (found := _EPOCH_OF_HISTORY.fullmatch(value)) is not None:
        return AsOfEpoch(_parse_epoch(found[1], _AS_OF), found[2])
    if isinstance(value, str) and not value.strip().isdecimal():
        return AsOfTimestamp(_parse_timestamp(value))
    return AsOfEpoch(_parse_epoch(value, _AS_OF))


def _parse_timestamp(text: str) -> int:
    try:
        moment = dt.datetime.fromisoformat(text.strip())
        zoned = moment if moment.tzinfo is not None else moment.replace(tzinfo=dt.UTC)
        return (zoned - _EPOCH_TIME) // _MICROSECOND
    except (ValueError, OverflowError) as error:
        raise InvalidInput(_AS_OF) from error


def _parse_epoch(value: object, complaint: str) -> Epoch:
    # Drivers whose connection properties are texts send numbers as such.
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 40:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MAX_EPOCH:
        raise InvalidInput(complaint)
    return Epoch(value)


def _parse_seconds(value: object) -> float:
    complaint = "max_staleness must be a number of seconds, 0 or more."
    try:
        seconds = (
            float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else math.nan
        )
    except (ValueError, OverflowError) as error:
        raise InvalidInput(complaint) from error
    if not 0 <= seconds < math.inf:
        raise InvalidInput(complaint)
    return seconds
