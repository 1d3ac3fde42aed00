"""What each principal has taken of a host lately, against the limits of its roles."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TypeVar

from engine.access.principal import Limit, LimitName, Principal
from engine.errors import LimitExceeded
from engine.model.schema import Epoch, GroupName

MOST_ACCOUNTS = 10_000
"""Principals of whom something is known; of more, those who took something longest ago begin anew."""
BURST_SECONDS = 1.0
"""What was not taken for so long may be taken at once."""

Kept = TypeVar("Kept")


class Pace:
    """So much a second, and what a second has at once. Safe for threads.

    Args:
        rate: How much.
        clock: A monotonic clock.
    """

    def __init__(self, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = rate
        self._clock = clock
        self._lock = threading.Lock()
        self._paid_until = clock() - BURST_SECONDS

    def take(self, amount: float) -> float:
        """Take an amount.

        Returns:
            Seconds to wait first.
        """
        with self._lock:
            now = self._clock()
            before = max(self._paid_until, now - BURST_SECONDS)
            self._paid_until = before + amount / self.rate
            return max(0.0, before - now)

    def give_back(self, amount: float) -> None:
        """Take note that an amount that was taken is not wanted any more. Who waits already waits on."""
        with self._lock:
            self._paid_until -= amount / self.rate

    def try_take(self, amount: float) -> bool:
        """Take an amount, if there is no need to wait; whether there was none."""
        with self._lock:
            now = self._clock()
            before = max(self._paid_until, now - BURST_SECONDS)
            if before + amount / self.rate > now:
                return False
            self._paid_until = before + amount / self.rate
            return True


class Ledger:
    """The accounts of all principals. Safe for threads.

    Args:
        clock: A monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._paces: OrderedDict[tuple[str, LimitName, int], Pace] = OrderedDict()
        self._held: OrderedDict[str, dict[tuple[GroupName, Epoch], float]] = OrderedDict()

    def result_pace(self, principal: Principal) -> Pace | None:
        """How quickly somebody gets results, in bytes; None for no limit."""
        limit = principal.limits.get(LimitName.RESULT_BYTES)
        return None if limit is None else self._pace(principal, LimitName.RESULT_BYTES, limit)

    def note_notification(self, principal: Principal) -> None:
        """Take note that somebody tells of a new epoch.

        Raises:
            LimitExceeded: More often than its roles allow.
        """
        limit = principal.limits.get(LimitName.NOTIFICATIONS)
        if limit is not None and not self._pace(principal, LimitName.NOTIFICATIONS, limit).try_take(1):
            raise LimitExceeded(
                f"{principal.name} tells of new epochs more often than {limit.most} times a second, as often "
                f"as the role {limit.role} may ({LimitName.NOTIFICATIONS.value}): hosts look by themselves, "
                "too."
            )

    def note_hold(
        self, principal: Principal, epochs: Mapping[GroupName, Epoch], seconds: float
    ) -> frozenset[GroupName]:
        """Take note that somebody holds epochs, maybe for longer than before.

        Args:
            principal: Who.
            epochs: By store group.
            seconds: How long from now on.

        Returns:
            Groups of which it did not hold this epoch before.

        Raises:
            LimitExceeded: They are more than its roles allow together with those that it holds.
        """
        limit = principal.limits.get(LimitName.HELD_EPOCHS)
        if limit is None:
            return frozenset()
        now = self._clock()
        with self._lock:
            own = _find(self._held, principal.name, {})
            held = {each: until for each, until in own.items() if until > now}
            new = frozenset(group for group, epoch in epochs.items() if (group, epoch) not in held)
            held |= {each: max(held.get(each, 0.0), now + seconds) for each in epochs.items()}
            if len(held) > limit.most:
                raise LimitExceeded(
                    f"{principal.name} would hold {len(held)} epochs, more than the {limit.most} of the role "
                    f"{limit.role} ({LimitName.HELD_EPOCHS.value}): wait until some are let go."
                )
            self._held[principal.name] = held
        return new

    def forget_hold(self, principal: Principal, group: GroupName, epoch: Epoch) -> None:
        """Take a note of `note_hold` back: the epoch could not be held."""
        with self._lock:
            self._held.get(principal.name, {}).pop((group, epoch), None)

    def _pace(self, principal: Principal, name: LimitName, limit: Limit) -> Pace:
        with self._lock:
            return _find(self._paces, (principal.name, name, limit.most), Pace(limit.most, self._clock))


Name = TypeVar("Name")


def _find(known: OrderedDict[Name, Kept], name: Name, first: Kept) -> Kept:
    """What is known of a name, from now on the newest."""
    found = known.setdefault(name, first)
    known.move_to_end(name)
    if len(known) > MOST_ACCOUNTS:
        known.popitem(last=False)
    return found
