"""Slots: as many at once as there are, the others in the order in which they came."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.access.principal import Limit
from engine.changelog import Changelog, append_table
from engine.deadline import NO_DEADLINE, Deadline
from engine.errors import Cancelled, DeadlineExceeded, LimitExceeded, Unavailable
from engine.model.schema import define_store
from flight_server.client.client import Client
from flight_server.host.host import HostOptions
from flight_server.server.limits import NO_SHARE, ServerLimits, Share, Slots, next_in_line
from flight_server.server.result_places import ResultPlaces
from flight_server.server.result_streams import TABLE_BYTES
from flight_server.server.running_calls import Calls, stopping_error
from flight_server.server.thread_limit import SECONDS_BETWEEN_LOOKS, ThreadLimit
from tests.support.plays import COUNT, ENDLESS, PLAYS, STORE
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until


@contextmanager
def one_waiting(slots: Slots) -> Iterator[Future[float]]:
    """The one slot is taken, and another taker waits for it."""
    slots.take()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slots.take)
        wait_until(lambda: slots.waiting == 1)
        yield waiting


def test_slots_are_given_in_order() -> None:
    slots = Slots("max_statements", 2, max_waiting=10, max_wait_seconds=60)
    order: list[int] = []

    def work(number: int) -> None:
        with slots.hold():
            order.append(number)

    assert slots.take() == slots.take() == 0.0
    threads = [threading.Thread(target=work, args=(number,)) for number in range(5)]
    for place, thread in enumerate(threads, 1):
        thread.start()
        wait_until(lambda place=place: slots.waiting == place)  # type: ignore[misc] # mypy gives lambdas with defaults no type
    assert slots.held == 2
    slots.give()
    for thread in threads:
        thread.join(60)
    assert order == [0, 1, 2, 3, 4]
    slots.give()
    assert (slots.held, slots.waiting) == (0, 0)


def test_no_more_than_the_limit_at_once() -> None:
    slots = Slots("max_statements", 3, max_waiting=100, max_wait_seconds=60)
    lock, now, most = threading.Lock(), 0, 0

    def work(_: int) -> None:
        nonlocal now, most
        with slots.hold():
            with lock:
                now += 1
                most = max(most, now)
            with lock:
                now -= 1

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(2000)))
    assert most <= 3
    assert (slots.held, slots.waiting) == (0, 0)


def test_who_waits_too_long_is_told_the_limit() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=0.02)
    with slots.hold() as slot:
        assert slot.waited == 0.0
        with pytest.raises(LimitExceeded, match=r"max_statements.*none ended within 0.01 s"):
            slots.take(0.01)
        with pytest.raises(LimitExceeded, match=r"within 0.02 s"):
            slots.take()
    assert slots.take() == 0.0


def test_a_wait_is_told_how_long_it_was() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    with one_waiting(slots) as waiting:
        slots.give()
        assert waiting.result(60) > 0.0


def test_too_many_may_not_even_wait() -> None:
    slots = Slots("max_fragments", 1, max_waiting=1, max_wait_seconds=60)
    with one_waiting(slots) as waiting:
        with pytest.raises(LimitExceeded, match=r"max_fragments.*1 more wait"):
            slots.take()
        slots.give()
        waiting.result(60)


def test_a_stop_refuses_those_who_wait() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    with one_waiting(slots) as waiting:
        slots.close()
        with pytest.raises(Unavailable, match="stopping"):
            waiting.result(60)
    with pytest.raises(Unavailable, match="stopping"):
        slots.take()
    slots.give()


def test_who_is_cancelled_waits_no_more() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    gone = threading.Event()
    with one_waiting(slots) as other, ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slots.take, None, NO_SHARE, gone.is_set)
        wait_until(lambda: slots.waiting == 2)
        gone.set()
        with pytest.raises(Cancelled, match="while it waited for its turn"):
            waiting.result(60)
        assert (slots.held, slots.waiting) == (1, 1)
        slots.give()
        assert other.result(60) > 0.0
        slots.give()
    held = slots.hold(None, NO_SHARE, gone.is_set)
    with pytest.raises(Cancelled), held.idle(None):
        busy = slots.hold()
    busy.give()
    assert (slots.held, slots.waiting) == (0, 0)


def test_a_client_that_goes_while_its_statement_waits_keeps_no_place(tmp_path: Path) -> None:
    append_table(Changelog.open(str(tmp_path / "changelog")), STORE, PLAYS)
    limits = ServerLimits(max_statements=1, max_waiting=1)
    options = HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, limits=limits)
    with start_host(options) as host, Client(host.uri) as client, ThreadPoolExecutor(2) as pool:

        def states() -> list[str]:
            shown = client.query("SHOW STATEMENTS").read_all().to_pylist()
            return sorted(row["state"] for row in shown if not row["statement"].startswith("SHOW"))

        def ask(sql: str, call_id: bytes) -> int:
            return int(client.query(sql, call_id=call_id).read_all().num_rows)

        busy, waiting = os.urandom(16), os.urandom(16)
        endless = pool.submit(ask, ENDLESS, busy)
        wait_until(lambda: states() == ["running"])
        counted = pool.submit(ask, f"{COUNT} WHERE song > 0", waiting)
        wait_until(lambda: states() == ["running", "waiting"])
        client.cancel(waiting)
        with pytest.raises(Cancelled):
            counted.result(PATIENCE_SECONDS)
        with flight.connect(host.uri) as gone, pytest.raises(flight.FlightTimedOutError):
            gone.do_get(flight.Ticket(COUNT.encode()), flight.FlightCallOptions(timeout=1.0))
        wait_until(lambda: states() == ["running"])
        client.cancel(busy)
        with pytest.raises(Cancelled):
            endless.result(PATIENCE_SECONDS)


def test_a_slot_is_free_while_its_holder_waits_for_news() -> None:
    slots = Slots("max_statements", 1, max_waiting=1, max_wait_seconds=60)
    first = slots.hold()
    with first.idle(None):
        assert slots.held == 0
        second = slots.hold()
        with (
            pytest.raises(
                LimitExceeded,
                match=r"1 requests of this kind wait for epochs that are to come \(max_statements\)",
            ),
            second.idle(None),
        ):
            pass
        assert slots.held == 1
        second.give()
    assert slots.held == 1
    first.give()
    first.give()
    assert slots.held == 0


def test_a_slot_that_is_reserved_is_held_for_a_block() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    slot = slots.reserve(NO_SHARE)
    with slot.idle(None):
        pass
    assert slots.held == 0
    with slot.occupy(None), slot.occupy(None):
        assert slots.held == 1
        with pytest.raises(LimitExceeded), slots.reserve(NO_SHARE).occupy(time.monotonic() + 0.01):
            pass
    assert slots.held == 0
    with slots.hold() as held:
        with held.occupy(None):
            assert slots.held == 1
        assert slots.held == 1


def test_who_has_waited_for_news_waits_for_a_slot_like_all_others() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    late = slots.hold()
    with pytest.raises(LimitExceeded, match="none ended within"), late.idle(time.monotonic() + 0.01):
        busy = slots.hold()
    late.give()
    assert slots.held == 1, "a slot that is not held was given back"
    busy.give()
    third = slots.hold()
    with pytest.raises(ZeroDivisionError), third.idle(None):
        _ = 1 // 0
    third.give()
    assert (slots.held, slots.waiting) == (0, 0)


def test_a_stop_begins_nothing_more_not_even_what_it_does_not_wait_for() -> None:
    calls = Calls()
    calls.check_open()
    assert calls.close(stopping_error())
    with pytest.raises(Unavailable, match="is stopping"):
        calls.check_open()
    with pytest.raises(Unavailable, match="is stopping"):
        calls.begin(b"", None)


def test_those_who_hold_the_fewest_are_next() -> None:
    busy, idle, capped = Share("busy"), Share("idle"), Share("capped", Limit(1, "desk"))
    assert next_in_line([busy, busy, idle, capped], {"busy": 3, "capped": 1}) == 2
    assert next_in_line([busy, capped], {"busy": 3, "capped": 1}) == 0
    assert next_in_line([capped], {"capped": 1}) is None
    assert next_in_line([busy, capped], {"busy": 3}) == 1
    assert next_in_line([idle, busy], {}) == 0
    assert next_in_line([], {}) is None


def test_one_with_many_statements_leaves_others_their_share() -> None:
    slots = Slots("max_statements", 2, max_waiting=100, max_wait_seconds=60)
    order: list[str] = []
    shares = [Share("dashboard")] * 6 + [Share("ann")] * 2

    def work(share: Share) -> None:
        with slots.hold(share=share):
            order.append(share.owner)

    for _ in range(2):
        slots.take(share=shares[0])
    threads = [threading.Thread(target=work, args=(share,)) for share in shares]
    for place, thread in enumerate(threads, 1):
        thread.start()
        wait_until(lambda place=place: slots.waiting == place)  # type: ignore[misc] # mypy gives lambdas with defaults no type
    slots.give(shares[0])
    for thread in threads:
        thread.join(60)
    assert order[:2] == ["ann", "ann"]
    slots.give(shares[0])
    assert (slots.held, slots.waiting) == (0, 0)


def test_one_who_waits_a_thousand_times_keeps_nobody_else_from_waiting() -> None:
    slots = Slots("max_statements", 1, max_waiting=4, max_wait_seconds=60)
    dashboard, ann = Share("dashboard"), Share("ann")
    slots.take(share=dashboard)
    with ThreadPoolExecutor(6) as pool:
        waiting = [pool.submit(slots.take, None, dashboard) for _ in range(4)]
        wait_until(lambda: slots.waiting == 4)
        with pytest.raises(LimitExceeded, match="4 more wait"):
            slots.take(share=dashboard)
        waiting += [pool.submit(slots.take, None, ann) for _ in range(2)]
        wait_until(lambda: slots.waiting == 6)
        with pytest.raises(LimitExceeded, match="4 more wait"):
            slots.take(share=ann)
        for share in (*[dashboard] * 5, ann):
            slots.give(share)
        assert all(each.result(60) for each in waiting)
    slots.give(ann)
    assert (slots.held, slots.waiting) == (0, 0)


def test_one_who_waits_for_epochs_a_thousand_times_keeps_nobody_else_from_it() -> None:
    slots = Slots("max_statements", 9, max_waiting=4, max_wait_seconds=60)

    def wait(resources: ExitStack, owner: str) -> None:
        resources.enter_context(slots.reserve(Share(owner)).idle(None))

    for _ in range(2):  # nothing is left of those who have waited
        with ExitStack() as resources:
            for owner in (*["dashboard"] * 4, "ann", "ann", "bob"):
                wait(resources, owner)
            for owner in ("dashboard", "ann", "bob"):
                with pytest.raises(LimitExceeded, match="4 requests of this kind wait for epochs"):
                    wait(resources, owner)


def test_a_role_has_a_limit_of_its_own() -> None:
    slots = Slots("max_statements", 8, max_waiting=100, max_wait_seconds=60)
    share = Share("ann", Limit(2, "desk"))
    slots.take(share=share)
    slots.take(share=share)
    with pytest.raises(
        LimitExceeded, match="ann has 2 requests of this kind at work, as many as the role desk"
    ):
        slots.take(0.01, share)
    assert slots.take(share=Share("bob")) == 0.0
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(slots.take, None, share)
        wait_until(lambda: slots.waiting == 1)
        slots.give(Share("bob"))
        assert slots.waiting == 1
        slots.give(share)
        assert waiting.result(60) > 0
    assert slots.held == 2


def test_a_slot_that_is_lent_is_another_ones_until_it_is_reclaimed() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    with slots.hold() as lender, ThreadPoolExecutor(1) as pool:
        lender.lend()
        lender.lend()
        borrower = slots.hold()
        assert slots.held == 1
        back = pool.submit(lender.reclaim, None)
        wait_until(lambda: slots.waiting == 1)
        borrower.give()
        back.result(PATIENCE_SECONDS)
        assert (slots.held, slots.waiting) == (1, 0)
        lender.reclaim(None)
    assert slots.held == 0


def test_who_has_lent_a_slot_still_has_it_of_its_own() -> None:
    slots = Slots("max_statements", 2, max_waiting=10, max_wait_seconds=60)
    capped = Share("capped", Limit(1, "reader"))
    with ThreadPoolExecutor(1) as pool:
        with slots.hold(share=capped) as lender:
            lender.lend()
            assert slots.held == 0
            second = pool.submit(slots.take, None, capped)
            wait_until(lambda: slots.waiting == 1)
            lender.reclaim(None)
            lender.lend()
            assert not second.done()
        second.result(PATIENCE_SECONDS)
    assert (slots.held, slots.waiting) == (1, 0)
    slots.give(capped)
    assert slots.held == 0


def test_who_cannot_have_its_slot_again_in_time_is_told_the_limit() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    with slots.hold() as lender:
        lender.lend()
        with slots.hold(), pytest.raises(LimitExceeded, match="max_statements"):
            lender.reclaim(time.monotonic())
    assert (slots.held, slots.waiting) == (0, 0)
    slots.take(0.0)


def test_an_endpoint_waits_for_a_place() -> None:
    places = ResultPlaces(2)
    place, _ = places.take("ann"), places.take("ann")
    with pytest.raises(DeadlineExceeded):
        places.wait("ann", Deadline(0.01))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(places.wait, "ann", NO_DEADLINE)
        try:
            # A share of the places is everybody's.
            places.wait("bob", Deadline(0.01)).give()
        finally:
            for _ in range(2):
                place.give()
        waiting.result(PATIENCE_SECONDS)
    with pytest.raises(LimitExceeded):
        places.take("ann")


def test_endpoints_are_read_one_after_the_other_where_there_is_one_place(tmp_path: Path) -> None:
    changelog = str(tmp_path / "changelog")
    rows = pa.table({"id": pa.array(range(1 << 22), pa.int64())})
    append_table(Changelog.open(changelog), define_store("many", rows.schema, ["id"], partitions=4), rows)
    options = HostOptions(changelog, tmp_path / "data", port=0, limits=ServerLimits(max_results=1))
    command = json.dumps({"sql": "SELECT id, id + 1 AS next FROM many", "endpoints": "partitions"}).encode()
    with start_host(options) as host, flight.connect(host.uri) as client, ThreadPoolExecutor(4) as pool:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        tables = list(pool.map(lambda each: client.do_get(each.ticket).read_all(), info.endpoints))
        assert len(tables) == 4
        assert all(table.nbytes > TABLE_BYTES for table in tables)
        assert sum(table.num_rows for table in tables) == rows.num_rows


def test_threads_are_counted_now_and_then() -> None:
    counts, now = [5, 9, 10, 3], [0.0]
    limit = ThreadLimit(10, lambda: counts.pop(0), lambda: now[0])
    limit.check()
    for _ in range(3):
        limit.check()
    assert len(counts) == 3
    now[0] += SECONDS_BETWEEN_LOOKS
    limit.check()
    now[0] += SECONDS_BETWEEN_LOOKS
    for _ in range(2):
        with pytest.raises(LimitExceeded):
            limit.check()
    now[0] += SECONDS_BETWEEN_LOOKS
    limit.check()
    assert not counts
