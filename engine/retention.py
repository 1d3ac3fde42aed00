"""Which rows are past their retention: pure functions of definitions, watermarks and clocks.

Expiry travels in the changelog: a commit says, for each store with retention, the cutoff before which rows are gone, so that all replicas let go of
the same rows at the same epoch. The cutoff of an epoch holds before its rows are applied, and rows that come later and are older are dropped.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from engine.errors import InvalidInput
from engine.schema import StoreDefinition, StoreName

Cutoffs = Mapping[StoreName, int]
"""Stores with the time before which rows are gone, microseconds since 1970 UTC."""

STEPS = 64
"""A cutoff moves in steps of this part of the retention: hosts take no epochs together across a step, and each looks through the store."""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def microseconds_of_moment(watermark: dt.datetime) -> int:
    """A watermark as commits have it, in microseconds since 1970 UTC.

    Raises:
        InvalidInput: It has no time zone.
    """
    if watermark.tzinfo is None:
        raise InvalidInput("A watermark needs a time zone, such as datetime.now(UTC).")
    return (watermark - _EPOCH) // dt.timedelta(microseconds=1)


def cutoffs_of(definitions: Iterable[StoreDefinition], watermark: int | None, now: int) -> dict[StoreName, int]:
    """The cutoffs that a commit is to bring.

    Args:
        definitions: The stores of the group.
        watermark: No event before it is waited for, microseconds since 1970 UTC; None if the job has none (yet).
        now: The time, in the same.

    Returns:
        The cutoffs of the stores with retention, as far as they are known; a store whose rows' time is the time of their commits needs no watermark.
    """
    found: dict[StoreName, int] = {}
    for definition in definitions:
        retention = definition.behaviour.retention
        if retention is None:
            continue
        newest = watermark if retention.column else now
        if newest is not None:
            step = max(retention.microseconds // STEPS, 1)
            found[definition.name] = (newest - retention.microseconds) // step * step
    return found


def risen(before: Cutoffs, given: Cutoffs) -> Cutoffs:
    """Cutoffs after a commit: those of before, and those that it brings where they are later.

    Args:
        before: Of the commit before.
        given: What the new one brings.
    """
    return {**before, **{store: cutoff for store, cutoff in given.items() if cutoff > before.get(store, cutoff - 1)}}
