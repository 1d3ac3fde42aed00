"""How many statements a host works on at once.

Flight answers every call in a thread of its own, however many there are (600 calls that wait are 600
threads), so the limit is made here. A slot is held while the host computes: from the beginning of a statement
to its first rows. It is held neither while the statement waits for an epoch that is to come, such as that of
a store which is being built, nor while a client or a coordinator takes its time to read rows. Statements of
clients, fragments of coordinators and endpoints of divided results have slots of their own. A statement that
waits for fragments holds a slot of its host's clients, a fragment one of its host's peers, and a fragment
waits for nobody but for the inputs that its coordinator has at hand: so there is no cycle in which hosts
could wait for each other, however many clients there are. A statement that waits long for other hosts lends
its slot, so that a slow host does not stop what does not need it; of its owner's it still counts as one. What
comes with a call takes its slot first, so that no more of it is under way than there are slots, and has a
time to arrive in.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from engine.access.principal import EngineLimit, Limit, LimitName, Principal
from engine.errors import Cancelled, LimitExceeded
from flight_server.server.running_calls import SECONDS_BETWEEN_QUESTIONS, stopping_error
from flight_server.server.server_figures import SlotFigures


@dataclass(frozen=True)
class ServerLimits:
    """What a host takes on at once.

    Attributes:
        max_statements: Statements of clients that are computed at once; more wait, and principals take turns.
        max_fragments: Fragments for other hosts that are computed at once; likewise.
        max_endpoints: Endpoints of divided results, as Spark's tasks read them, that are computed at once;
            likewise.
        max_waiting: How many of each may wait for their turn, and how many for an epoch that is to come; more
            are refused, but those of principals who have less than their share of them.
        max_wait_seconds: How long one waits that has no time-out of its own.
        max_upload_seconds: How long parameters and inputs may take to arrive, where the time-out of their
            statement is not shorter.
        max_input_bytes: Memory for the input tables that coordinators send along with fragments, for all
            together.
        max_key_streams: Streams of keys that are open at once, each of which takes a thread; more are
            refused, likewise.
        max_idle_seconds: How long such a stream keeps its place without a message where others need one.
        max_results: Results of more than `TABLE_BYTES` that are on their way to clients at once, and four
            times as many to other hosts; more are refused, but those of principals who have less than their
            share of them.
        max_calls: Calls of those who prove themselves by a header that are under way at once, each of which
            takes a thread; more are refused, likewise.
        max_threads: Threads of the host, those of its own work among them, from which on calls are refused.
    """

    max_statements: int = 64
    max_fragments: int = 64
    max_endpoints: int = 64
    max_waiting: int = 1000
    max_wait_seconds: float = 300.0
    max_upload_seconds: float = 300.0
    max_input_bytes: int = 1 << 30
    max_key_streams: int = 256
    max_idle_seconds: float = 300.0
    max_results: int = 128
    max_calls: int = 1200
    max_threads: int = 1500

    def slots(self, name: str, limit: int) -> Slots:
        """As many slots as one of the limits says.

        Args:
            name: Which limit, for messages.
            limit: Its value.
        """
        return Slots(name, limit, self.max_waiting, self.max_wait_seconds)

    def upload_seconds(self, timeout_seconds: float | None) -> float:
        """How long what comes with a call may take to arrive.

        Args:
            timeout_seconds: Time-out of its statement; None for none.
        """
        return (
            self.max_upload_seconds
            if timeout_seconds is None
            else min(timeout_seconds, self.max_upload_seconds)
        )


@dataclass(frozen=True)
class Share:
    """Who wants slots, and how many of them at once.

    Attributes:
        owner: Its name: slots are shared evenly between owners.
        limit: How many it may hold; None for as many as there are.
        waiting: How many of its requests may wait for one; None for as many as anybody's.
        gathered: Bytes of other hosts' rows that each of its statements may hold; None for as many as any.
        engine: What the engine may take for all of its statements; None for as much as for anybody's.
    """

    owner: str = ""
    limit: Limit | None = None
    waiting: Limit | None = None
    gathered: Limit | None = None
    engine: EngineLimit | None = None


NO_SHARE = Share()
"""Of those who are not told apart."""


def share_of(principal: Principal) -> Share:
    """The share of somebody who calls.

    Args:
        principal: Who.
    """
    limits = principal.limits
    if not limits:
        return Share(principal.name)
    return Share(
        principal.name,
        limits.get(LimitName.STATEMENTS),
        limits.get(LimitName.WAITING),
        limits.get(LimitName.GATHERED_BYTES),
        principal.engine_limit,
    )


@dataclass(eq=False)
class _Waiter:
    """Somebody who waits for a slot.

    Attributes:
        share: Who.
        is_back: Whether it has lent its slot, and wants it again: it counts as one of its owner's anyway.
        turn: Set when it gets one.
    """

    share: Share
    is_back: bool = False
    turn: threading.Event = field(default_factory=threading.Event)


def next_in_line(waiting: Iterable[Share], held: Mapping[str, int]) -> int | None:
    """Whose turn it is when a slot is free: of those who hold the fewest the one who waits longest, so that
    somebody with a thousand statements leaves others their share.

    Args:
        waiting: Those who wait, the longest first.
        held: How many slots each owner holds.

    Returns:
        The index among those who wait; None where nobody may have one more.
    """
    entitled = [
        (held.get(share.owner, 0), index)
        for index, share in enumerate(waiting)
        if share.limit is None or held.get(share.owner, 0) < share.limit.most
    ]
    return min(entitled)[1] if entitled else None


def has_room(taken: Counter[str], owner: str, most: int) -> bool:
    """Whether one more place may be taken: where all are, still by an owner that has less than its share of
    them, so that nobody is kept out by somebody who comes a thousand times.

    Args:
        taken: How many each owner has; no owner without one.
        owner: Who wants one.
        most: How many there are.
    """
    return taken.total() < most or taken[owner] < most // len({*taken, owner})


def count_down(counts: Counter[str], owner: str) -> None:
    """Count one less of an owner, who is forgotten with the last.

    Args:
        counts: How many each owner has.
        owner: One that has some.
    """
    counts[owner] -= 1
    if not counts[owner]:
        del counts[owner]


class Slots:
    """A number of slots, given in turns to those who ask for them. Safe for threads.

    Args:
        name: The limit's name, for messages.
        limit: How many slots there are.
        max_waiting: How many callers may wait for one.
        max_wait_seconds: How long one waits that does not say.
    """

    def __init__(self, name: str, limit: int, max_waiting: int, max_wait_seconds: float) -> None:
        self._name = name
        self._limit = limit
        self._max_waiting = max_waiting
        self._max_wait_seconds = max_wait_seconds
        self._free = limit
        self._idle: Counter[str] = Counter()
        self._closed = False
        self._lock = threading.Lock()
        self._held: Counter[str] = Counter()
        self._waiting: list[_Waiter] = []

    @contextmanager
    def waiting_for_news(self, share: Share = NO_SHARE) -> Iterator[None]:
        """For a block in which somebody waits, without a slot, for what is to come.

        Args:
            share: Who.

        Raises:
            LimitExceeded: Too many do so.
        """
        with self._lock:
            if not has_room(self._idle, share.owner, self._max_waiting):
                raise LimitExceeded(
                    f"{self._max_waiting} requests of this kind wait for epochs that are to come "
                    f"({self._name}): ask again later."
                )
            self._idle[share.owner] += 1
        try:
            yield
        finally:
            with self._lock:
                count_down(self._idle, share.owner)

    def take(
        self,
        timeout_seconds: float | None = None,
        share: Share = NO_SHARE,
        cancelled: Callable[[], bool] | None = None,
    ) -> float:
        """Take a slot, to be given back by `give`.

        Args:
            timeout_seconds: How long to wait for it; None: as long as anybody.
            share: Whose it is.
            cancelled: Tells whether it is wanted no more, as whoever asked is gone; None if it cannot.

        Returns:
            Seconds that it took to get it; 0.0 without a wait.

        Raises:
            Cancelled: It is wanted no more.
            LimitExceeded: There was none in time, or too many wait already.
            Unavailable: The host is stopping.
        """
        with self._lock:
            is_entitled = share.limit is None or self._held[share.owner] < share.limit.most
            if self._free and is_entitled and not self._closed:
                # Whoever waits while a slot is free waits for one of its own.
                self._free -= 1
                self._held[share.owner] += 1
                return 0.0
            waiter = self._line_up(_Waiter(share))
        seconds = self._max_wait_seconds if timeout_seconds is None else timeout_seconds
        return self._wait(waiter, seconds, cancelled)

    def hold(
        self,
        timeout_seconds: float | None = None,
        share: Share = NO_SHARE,
        cancelled: Callable[[], bool] | None = None,
    ) -> HeldSlot:
        """Take a slot that several threads may give back, and that its holder can do without for a while;
        otherwise as `take`.
        """
        return HeldSlot(self, share, self.take(timeout_seconds, share, cancelled), cancelled)

    def reserve(self, share: Share, cancelled: Callable[[], bool] | None = None) -> HeldSlot:
        """A slot that is not taken yet: `HeldSlot.occupy` takes it for a block.

        Args:
            share: Whose it will be.
            cancelled: As that of `take`.
        """
        return HeldSlot(self, share, 0.0, cancelled, is_held=False)

    def give(self, share: Share = NO_SHARE) -> None:
        """Give a slot back, to whoever's turn it is.

        Args:
            share: Whose it was.
        """
        with self._lock:
            count_down(self._held, share.owner)
            self._pass_on()

    def lend(self, share: Share) -> bool:
        """Let somebody else have a slot, which still counts as one of its owner's.

        Args:
            share: Whose it is.

        Returns:
            Whether that is done: as many may do so as may wait for what is to come.
        """
        with self._lock:
            if not has_room(self._idle, share.owner, self._max_waiting):
                return False
            self._idle[share.owner] += 1
            self._pass_on()
        return True

    def take_back(
        self, timeout_seconds: float | None, share: Share, cancelled: Callable[[], bool] | None
    ) -> None:
        """Wait for a slot in place of one that was lent, which counts as lent until `end_loan`; otherwise as
        `take`.
        """
        with self._lock:
            if self._free and not self._closed:
                self._free -= 1
                return
            waiter = self._line_up(_Waiter(share, is_back=True))
        seconds = self._max_wait_seconds if timeout_seconds is None else timeout_seconds
        self._wait(waiter, seconds, cancelled)

    def end_loan(self, share: Share) -> None:
        """Take note that somebody has a slot again that was lent.

        Args:
            share: Who.
        """
        with self._lock:
            count_down(self._idle, share.owner)

    def hand_on(self) -> None:
        """Give a slot back that counts as nobody's."""
        with self._lock:
            self._pass_on()

    def forget(self, share: Share) -> None:
        """Take note that a slot that was lent is not wanted back.

        Args:
            share: Whose it was.
        """
        with self._lock:
            count_down(self._idle, share.owner)
            count_down(self._held, share.owner)
            if self._free:
                # Whoever waits while a slot is free may now have one more.
                self._free -= 1
                self._pass_on()

    def _pass_on(self) -> None:
        """Give a slot to whoever's turn it is."""
        shares = (replace(each.share, limit=None) if each.is_back else each.share for each in self._waiting)
        index = next_in_line(shares, self._held)
        if index is None:
            self._free += 1
            return
        following = self._waiting.pop(index)
        if not following.is_back:
            self._held[following.share.owner] += 1
        following.turn.set()

    def close(self) -> None:
        """Give no slot any more: who waits is refused, and who has one keeps it."""
        with self._lock:
            self._closed = True
            waiting, self._waiting = self._waiting, []
        for waiter in waiting:
            waiter.turn.set()

    @property
    def held(self) -> int:
        """How many slots are taken."""
        return self._limit - self._free

    @property
    def figures(self) -> SlotFigures:
        """How many are taken, and waited for."""
        return SlotFigures(self._limit, self.held, self.waiting)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._waiting)

    def _line_up(self, waiter: _Waiter) -> _Waiter:
        if self._closed:
            raise stopping_error()
        if not waiter.is_back:
            self._check_room(waiter.share)
        self._waiting.append(waiter)
        return waiter

    def _check_room(self, share: Share) -> None:
        """See that one more may wait.

        Raises:
            LimitExceeded: Too many wait already.
        """
        if len(self._waiting) >= self._max_waiting and not has_room(
            Counter(each.share.owner for each in self._waiting), share.owner, self._max_waiting
        ):
            raise LimitExceeded(
                f"{self._load_in_words(share)}, and {self._max_waiting} more wait: ask again later, or "
                "another host."
            )
        own = sum(each.share.owner == share.owner for each in self._waiting)
        if share.waiting is not None and own >= share.waiting.most:
            raise LimitExceeded(
                f"{share.owner} has {own} requests of this kind that wait, as many as the role "
                f"{share.waiting.role} may have ({LimitName.WAITING.value}): ask again later, or another "
                "host."
            )

    def _wait(self, waiter: _Waiter, timeout_seconds: float, cancelled: Callable[[], bool] | None) -> float:
        begun = time.monotonic()
        is_cancelled = _wait_for_turn(waiter.turn, begun + timeout_seconds, cancelled)
        with self._lock:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
                if is_cancelled:
                    raise Cancelled("The request was cancelled while it waited for its turn.")
                raise LimitExceeded(
                    f"{self._load_in_words(waiter.share)}, and none ended within {timeout_seconds:g} s: ask "
                    "again later, ask another host, or raise the limit."
                )
            if self._closed:
                raise stopping_error()
        return time.monotonic() - begun

    def _load_in_words(self, share: Share) -> str:
        if share.limit is not None and self._held[share.owner] >= share.limit.most:
            return (
                f"{share.owner} has {share.limit.most} requests of this kind at work, as many as the role "
                f"{share.limit.role} may have at once ({LimitName.STATEMENTS.value})"
            )
        return f"The host works on {self._limit} requests of this kind at once ({self._name})"


def _seconds_until(until: float | None) -> float | None:
    """How long it is until then, by the monotonic clock; None for no limit."""
    return None if until is None else max(0.0, until - time.monotonic())


def _wait_for_turn(turn: threading.Event, until: float, cancelled: Callable[[], bool] | None) -> bool:
    """Wait for a turn; whether it is wanted no more."""
    while (remaining := until - time.monotonic()) > 0:
        if turn.wait(min(remaining, SECONDS_BETWEEN_QUESTIONS)):
            return False
        if cancelled is not None and cancelled():
            return True
    return False


class _State(Enum):
    """Where a slot is, of somebody who may hold it."""

    NOT_HELD = "not held"
    HELD = "held"
    LENT = "lent"


class HeldSlot:
    """The right to be computed, given back by whoever is first to do so; a context that gives it back. Safe
    for threads. Implements `engine.deadline.Slot`.

    Args:
        slots: Where it is from.
        share: Whose it is.
        waited: Seconds that it took to get it; 0.0 without a wait.
        cancelled: Tells whether its holder wants it no more; None if it cannot.
        is_held: Whether it is taken.

    Attributes:
        waited: As the argument.
    """

    def __init__(
        self,
        slots: Slots,
        share: Share,
        waited: float,
        cancelled: Callable[[], bool] | None = None,
        *,
        is_held: bool = True,
    ) -> None:
        self._slots = slots
        self._share = share
        self._cancelled = cancelled
        self._lock = threading.Lock()
        self._state = _State.HELD if is_held else _State.NOT_HELD
        self.waited = waited

    @property
    def gather_limit(self) -> Limit | None:
        """As `Slot.gather_limit`."""
        return self._share.gathered

    @property
    def engine_limit(self) -> EngineLimit | None:
        """As `Slot.engine_limit`."""
        return self._share.engine

    def give(self) -> None:
        """Give it back, if it is held."""
        self._let_go()

    def _let_go(self) -> bool:
        """Give it back; whether it was held."""
        with self._lock:
            state, self._state = self._state, _State.NOT_HELD
        if state is _State.HELD:
            self._slots.give(self._share)
        elif state is _State.LENT:
            self._slots.forget(self._share)
        return state is not _State.NOT_HELD

    def lend(self) -> None:
        """As `Slot.lend`."""
        with self._lock:
            if self._state is _State.HELD and self._slots.lend(self._share):
                self._state = _State.LENT

    def reclaim(self, until: float | None) -> None:
        """As `Slot.reclaim`."""
        if self._state is not _State.LENT:
            return
        self._slots.take_back(_seconds_until(until), self._share, self._cancelled)
        with self._lock:
            is_wanted = self._state is _State.LENT
            if is_wanted:
                self._state = _State.HELD
        if is_wanted:
            self._slots.end_loan(self._share)
        else:
            # Another thread has given it away meanwhile.
            self._slots.hand_on()

    @contextmanager
    def idle(self, until: float | None) -> Iterator[None]:
        """As `Slot.idle`."""
        with self._slots.waiting_for_news(self._share):
            was_held = self._let_go()
            yield
        if was_held:
            self._take(until)

    @contextmanager
    def occupy(self, until: float | None) -> Iterator[None]:
        """As `Slot.occupy`."""
        if self._state is not _State.NOT_HELD:
            yield
            return
        self._take(until)
        try:
            yield
        finally:
            self.give()

    def _take(self, until: float | None) -> None:
        self._slots.take(_seconds_until(until), self._share, self._cancelled)
        with self._lock:
            self._state = _State.HELD

    def __enter__(self) -> HeldSlot:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.give()
