"""Which rows are past their retention: pure functions of definitions, watermarks and clocks.

Expiry travels in the changelog: a commit says, for each store with retention, the cutoff before which rows
are gone, so that all replicas let go of the same rows at the same epoch. The cutoff of an epoch holds before
its rows are applied, and rows that come later and are older are dropped.

What a cutoff takes is gone for ever, and cutoffs never fall. So no single clock is believed: a commit is
refused before it is written where the clock of whoever commits is far from that of the changelog's storage,
or a cutoff goes by an event of the future (`check_clock`, `check_cutoffs`). A clock that is ahead
lets go of rows too soon; one that is behind stamps rows with a time at which they are gone as soon as it is
set right. It has to be refused there: a host must not judge by a clock of its own, as replicas that judge at
different moments would keep different rows. The times of commits never fall, either, and hosts tell by them
how old answers are: so a clock that is wrong is refused where no store has a retention, too.

Why not the time of the commit before: a job that comes back after a week is a week behind it, and rightly so.
The storage's clock is read from an object that is written for it, as any other object tells only when it was
written. Where the storage is a directory of the machine that commits, both clocks are one: then a clock that
is wrong from the start is not noticed.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping

from engine.errors import InvalidInput
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import StoreDefinition, StoreName

Cutoffs = Mapping[StoreName, int]
"""Stores with the time before which rows are gone, microseconds since 1970 UTC."""

STEPS = 64
"""A cutoff moves in steps of this part of the retention: hosts take no epochs together across a step, and
each looks through the store.
"""

MOST_APART = 5 * 60 * MICROSECONDS_PER_SECOND
"""How far the clock of a writer may be from that of the changelog's storage, and a cutoff ahead of it,
microseconds: clocks that are kept right are nearer by far, and object stores refuse requests of clocks that
are off by a quarter of an hour.
"""

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def microseconds_of_moment(watermark: dt.datetime) -> int:
    """A watermark as commits have it, in microseconds since 1970 UTC.

    Raises:
        InvalidInput: It is no datetime, or has no time zone.
    """
    if not isinstance(watermark, dt.datetime):
        raise InvalidInput(f"A watermark is a datetime with a time zone, and not {watermark!r}.")
    if watermark.tzinfo is None:
        raise InvalidInput("A watermark needs a time zone, such as datetime.now(UTC).")
    return (watermark - _EPOCH) // dt.timedelta(microseconds=1)


def cutoffs_of(
    definitions: Iterable[StoreDefinition], watermark: int | None, now: int
) -> dict[StoreName, int]:
    """The cutoffs that a commit is to bring.

    Args:
        definitions: The stores of the group.
        watermark: No event before it is waited for, microseconds since 1970 UTC; None if the job has none
            (yet).
        now: The time, in the same.

    Returns:
        The cutoffs of the stores with retention, as far as they are known; a store whose rows' time is the
        time of their commits needs no watermark.
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


def advance_cutoffs(before: Cutoffs, given: Cutoffs) -> Cutoffs:
    """Cutoffs after a commit: those of before, and those that it brings where they are later.

    Args:
        before: Of the commit before.
        given: What the new one brings.
    """
    return {
        **before,
        **{store: cutoff for store, cutoff in given.items() if cutoff > before.get(store, cutoff - 1)},
    }


def check_clock(now: int, storage_now: int) -> None:
    """See that the clock of whoever commits can be believed.

    Args:
        now: What it says, microseconds since 1970 UTC.
        storage_now: What that of the changelog's storage says at the same moment.

    Raises:
        InvalidInput: They are too far apart: rows that are within their retention would be let go of, now or
            when the clock is set right, and hosts could not tell how old their answers are.
    """
    if abs(now - storage_now) > MOST_APART:
        raise InvalidInput(
            f"The clock of this machine says {_moment_text(now)}, and that of the changelog's storage "
            f"{_moment_text(storage_now)}: with such a clock, nobody can tell how old an answer is, and "
            "rows that are within their retention are gone for ever. Nothing was committed: set the clock "
            "that is wrong, and try again."
        )


def check_cutoffs(before: Cutoffs, after: Cutoffs, storage_now: int) -> None:
    """See that cutoffs leave rows of the present where they are.

    Args:
        before: Of the commit before. Those that stay are not judged: they cannot be taken back.
        after: Of the new one.
        storage_now: What the clock of the changelog's storage says, microseconds since 1970 UTC.

    Raises:
        InvalidInput: One rises beyond the present: all rows up to now would be let go of.
    """
    for store, cutoff in after.items():
        if cutoff != before.get(store) and cutoff > storage_now + MOST_APART:
            raise InvalidInput(
                f"All rows of store {store} of before {_moment_text(cutoff)} would be gone for ever, and the "
                "clock of the changelog's storage says "
                f"{_moment_text(storage_now)}: the watermark lies in the future by more than the retention. "
                "Nothing was committed: leave events of the "
                "future out before the watermark is taken. Spark keeps the one that it has in the query's "
                "checkpoint: begin with a new checkpoint."
            )


def _moment_text(microseconds: int) -> str:
    try:
        return f"{(_EPOCH + dt.timedelta(microseconds=microseconds)).isoformat(' ', 'seconds')[:19]} UTC"
    except OverflowError:
        return f"{microseconds} microseconds after 1970 UTC"
