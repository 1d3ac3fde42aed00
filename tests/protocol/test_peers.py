"""Hosts among each other: fragments and their failures, cancels, reports, and who is alive."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import flight

from engine import errors
from engine.cluster.deployment import HostEntry
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import ColumnReport, HostName, HostReport
from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    LimitExceeded,
    LivestateError,
    Unauthenticated,
    Unavailable,
)
from engine.model.schema import Epoch, PartitionId, StoreName
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.peers.peers import FlightPeers
from flight_server.server.limits import ServerLimits
from flight_server.wire.fragment_messages import FragmentTicket
from flight_server.wire.report_messages import SentReport, parse_report
from flight_server.wire.result_metadata import METADATA_KEY
from tests.protocol.peer_hosts import BATCH, GROUP, OPTIONS, PeerHost, Stores, entries, peer_host
from tests.support.waiting import wait_until

A, B = HostName("a"), HostName("b")
STORE = StoreName("songs")
TIMES = 5
"""How often what must be quick is tried: on a busy machine a thread now and then waits for long, and most
often it does not.
"""


def fragment(sql: str, **inputs: pa.Table) -> FragmentRequest:
    return FragmentRequest(
        sql, {GROUP: Epoch(7)}, {STORE: (PartitionId(0),)}, inputs=inputs, timeout_seconds=20
    )


@pytest.fixture
def pair() -> Iterator[tuple[PeerHost, PeerHost]]:
    hosts = entries("a", "b")
    with peer_host(hosts, "a") as a, peer_host(hosts, "b") as b:
        knows(a, B)
        knows(b, A)
        yield a, b


def knows(host: PeerHost, other: HostName) -> None:
    wait_until(lambda: other in host.cluster.peers.reports())


def test_a_fragment_runs_on_another_host(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    request = replace(fragment("rows 3"), parameters=pa.record_batch({"1": [5]}))
    rows = a.cluster.peers.run(B, request)
    assert rows.schema.equals(BATCH.schema, check_metadata=True)
    assert rows.metadata["epochs"] == {GROUP: 7}
    assert rows.metadata["rows_read"] == 3
    batches = list(rows)
    assert pa.Table.from_batches(batches).num_rows == 3 * BATCH.num_rows
    assert list(rows) == []
    assert b.runner.requests == [request]
    assert a.runner.requests == []
    wait_until(lambda: b.runner.running == b.server.running == 0)


def test_inputs_go_along(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    big = pa.table({"n": np.arange(2_000_000)})
    rows = a.cluster.peers.run(
        B,
        fragment(
            "inputs", one=big, two=pa.table({"n": pa.array([], pa.int64())}), three=pa.table({"n": [-1]})
        ),
    )
    found = pa.Table.from_batches(list(rows), rows.schema)
    assert found.equals(pa.concat_tables([big, pa.table({"n": [-1]})]))
    assert list(b.runner.requests[0].inputs) == ["one", "two", "three"]


def test_epochs_are_kept_on_another_host(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    a.cluster.peers.hold(B, {GROUP: Epoch(1)}, 15.0)
    assert b.stores.holds == [({GROUP: 1}, 15.0)]
    with pytest.raises(Unavailable, match="not there"):
        a.cluster.peers.hold(B, {GROUP: Epoch(2)}, 15.0)


@pytest.mark.parametrize(
    "kind",
    [
        "InvalidInput",
        "NotFound",
        "Unsupported",
        "Unavailable",
        "DeadlineExceeded",
        "Cancelled",
        "LimitExceeded",
        "Corrupt",
        "Defect",
    ],
)
def test_errors_keep_their_kind(pair: tuple[PeerHost, PeerHost], kind: str) -> None:
    a, b = pair
    with pytest.raises(getattr(errors, kind), match="Partition 3 is not here") as caught:
        a.cluster.peers.run(B, fragment(f"{kind} Partition 3 is not here."))
    assert type(caught.value).__name__ == kind
    with pytest.raises(getattr(errors, kind), match="Partition 3 is not here"):
        a.cluster.peers.run(
            B,
            fragment(
                f"{kind} Partition 3 is not here.",
                more=pa.table({"n": np.arange(3_000_000)}),
            ),
        )
    rows = a.cluster.peers.run(B, fragment(f"breaks {kind}"))
    with pytest.raises(getattr(errors, kind), match="in the midst"):
        list(rows)
    wait_until(lambda: b.runner.running == b.server.running == 0)


def test_close_stops_the_work_of_the_other_host(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    for _ in range(TIMES):
        rows = a.cluster.peers.run(B, fragment("rows 100000"))
        first = next(iter(rows))
        assert first.num_rows == BATCH.num_rows
        assert b.runner.running == 1
        rows.close()
        rows.close()
        wait_until(lambda: b.runner.running == b.server.running == 0)
        with pytest.raises(Cancelled):
            list(rows)


def test_close_ends_a_read_in_another_thread(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    rows = a.cluster.peers.run(B, fragment("rows 100000"))
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(lambda: sum(batch.num_rows for batch in rows))
        wait_until(lambda: b.runner.running == 1)
        rows.close()
        with pytest.raises(Cancelled):
            reading.result(60)


def test_a_cancel_before_the_schema_stops_the_work_too(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    with ThreadPoolExecutor(1) as pool:
        for _ in range(TIMES):
            cancelled = threading.Event()
            running = pool.submit(a.cluster.peers.run, B, fragment("slow"), cancelled.is_set)
            wait_until(lambda: b.runner.running == 1)
            cancelled.set()
            with pytest.raises(Cancelled):
                running.result(60)
            wait_until(lambda: b.runner.running == b.server.running == 0)


def test_a_forgotten_fragment_is_closed(
    pair: tuple[PeerHost, PeerHost], capfd: pytest.CaptureFixture[str]
) -> None:
    a, b = pair
    rows = a.cluster.peers.run(B, fragment("rows 100000"))
    assert rows.schema is not None
    del rows
    wait_until(lambda: b.runner.running == b.server.running == 0)
    assert capfd.readouterr().err == ""


def test_a_fragment_has_a_deadline_on_each_hop(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    # Nothing else would end it.
    with pytest.raises(DeadlineExceeded, match="Host b"):
        a.cluster.peers.run(B, replace(fragment("slow"), timeout_seconds=0.1))
    wait_until(lambda: b.runner.running == b.server.running == 0)


def test_a_host_that_does_not_answer_is_named() -> None:
    hosts = entries("a", "b")
    with peer_host(hosts, "a") as a:
        with pytest.raises(Unavailable, match="Host b does not answer"):
            a.cluster.peers.run(B, fragment("rows 1"))
        with ExitStack() as b_alone:
            b = b_alone.enter_context(peer_host(hosts, "b"))
            knows(a, B)
            rows = a.cluster.peers.run(B, fragment("rows 1000000"))
            next(iter(rows))
            b.server.stop(0.0)
            with pytest.raises(LivestateError):
                list(rows)
        with pytest.raises(Unavailable, match="Host b"):
            a.cluster.peers.run(B, fragment("rows 1"))
        wait_until(lambda: B not in a.cluster.peers.reports())
        assert not a.cluster.peers.host_statuses()[B].alive
        with peer_host(hosts, "b"):
            knows(a, B)
            assert len(list(a.cluster.peers.run(B, fragment("rows 2")))) == 2


def test_a_fragment_without_inputs_is_a_ticket_too(pair: tuple[PeerHost, PeerHost]) -> None:
    _, b = pair
    ticket = FragmentTicket.from_request(fragment("rows 2"))
    with flight.connect(b.uri) as client:
        assert client.do_get(flight.Ticket(ticket.to_bytes())).read_all().num_rows == 2 * BATCH.num_rows
        with pytest.raises(pa.ArrowInvalid, match="DoExchange"):
            client.do_get(flight.Ticket(replace(ticket, inputs=("more",)).to_bytes()))


def test_reports_arrive_soon_after_a_change(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    peers = a.cluster.peers
    assert peers.reports()[B].groups[GROUP].newest_known == 1
    assert peers.reports()[A].host == A
    for epoch in range(2, 30):
        b.stores.epoch = epoch
        b.cluster.peers.announce_change()
        while peers.reports()[B].groups[GROUP].newest_known < epoch:
            assert peers.wait_for_change(60)


def test_a_change_between_a_look_and_a_wait_is_not_missed(pair: tuple[PeerHost, PeerHost]) -> None:
    a, _ = pair
    a.cluster.peers.reports()
    a.cluster.peers.announce_change()
    assert a.cluster.peers.wait_for_change(60)
    a.cluster.peers.reports()
    assert not a.cluster.peers.wait_for_change(0.01)


def test_reports_that_cannot_be_are_refused(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    stranger = entries("z")
    own = a.cluster.receive(b.cluster.peers.own_bytes())
    with Client(a.uri) as client:
        for body, words in ((b"", "not the JSON"), (b"{}", "not the JSON"), (own, "Two hosts are called a")):
            with pytest.raises(errors.InvalidInput, match=words):
                client.act("livestate.report", body)
    with peer_host((*stranger, HostEntry(A, a.uri)), "z") as z:
        with pytest.raises(errors.InvalidInput, match="no host 'z'"):
            a.cluster.receive(z.cluster.peers.own_bytes())
        assert a.cluster.peers.reports().keys() == {A, B}


class Damaged(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Answers a report once, and then nothing that can be read.

    Attributes:
        reports: How many have come.
        document: What it says of the rows of a fragment.
    """

    reports = 0
    document = b"{"

    def do_action(self, context: Any, action: flight.Action) -> Iterator[bytes]:
        self.reports += 1
        if self.reports == 1:
            yield SentReport(HostReport(B, *Stores().report()), "id", 5, 7).to_bytes()

    def do_exchange(
        self, context: Any, descriptor: flight.FlightDescriptor, reader: Any, writer: Any
    ) -> None:
        writer.begin(BATCH.schema.with_metadata({METADATA_KEY: self.document}))


def test_a_host_whose_answers_cannot_be_read_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    hosts = entries("a", "b")
    with peer_host(hosts, "a") as a, Damaged(hosts[1].uri) as b:
        # It counts as alive for 20 seconds otherwise.
        wait_until(lambda: b.reports >= 2 and not a.cluster.peers.host_statuses()[B].alive)
        assert a.cluster.peers.host_statuses()[B].report is not None
        for document in (b"{", b"\xff", b"[]"):
            b.document = document
            with pytest.raises(Unavailable, match="Host b does not answer"):
                a.cluster.peers.run(B, fragment("rows 1"))
    assert "cannot be reported to" not in caplog.text


def test_a_host_of_another_changelog_is_refused(caplog: pytest.LogCaptureFixture) -> None:
    hosts = entries("a", "b")
    with peer_host(hosts, "a") as a, peer_host(hosts, "b", changelog="other") as b:
        with pytest.raises(errors.InvalidInput, match="different changelogs"):
            a.cluster.receive(b.cluster.peers.own_bytes())
        wait_until(lambda: "different changelogs" in caplog.text)
        assert a.cluster.peers.reports().keys() == {A}


def test_a_host_at_the_address_of_another_is_neither(caplog: pytest.LogCaptureFixture) -> None:
    a_at, b_at, c_at = entries("a", "b", "c")
    right, swapped = (a_at, b_at, c_at), (replace(a_at, uri=b_at.uri), replace(b_at, uri=a_at.uri), c_at)
    with peer_host(right, "a") as a, peer_host(right, "b"), peer_host(swapped, "c") as c:
        knows(a, B)
        for name, other, uri in (("a", "b", a_at.uri), ("b", "a", b_at.uri)):
            wait_until(
                lambda words=f"Host {name} answers at {uri}, .* as the uri of host {other}": (
                    re.search(  # type: ignore[misc] # mypy gives lambdas with defaults no type
                        words, caplog.text
                    )
                    is not None
                )
            )
        assert c.cluster.peers.reports().keys() == {HostName("c")}


def test_the_token_goes_along() -> None:
    hosts = entries("a", "b", "c")
    right, wrong = (
        replace(OPTIONS, connection=ConnectionOptions(token=token)) for token in ("secret", "guess")
    )
    with (
        peer_host(hosts, "a", right) as a,
        peer_host(hosts, "b", right) as b,
        peer_host(hosts, "c", wrong) as c,
    ):
        knows(a, B)
        knows(b, A)
        assert len(list(a.cluster.peers.run(B, fragment("rows 1")))) == 1
        assert HostName("c") not in a.cluster.peers.reports()
        with pytest.raises(Unauthenticated, match="token"):
            c.cluster.peers._peers[A].report(b"", 2.0)


def test_fragments_wait_for_a_slot_and_not_for_those_who_read_slowly() -> None:
    hosts = entries("a", "b")
    limits = ServerLimits(max_fragments=1)
    with (
        peer_host(hosts, "a") as a,
        peer_host(hosts, "b", limits=limits) as b,
        ExitStack() as unread,
        ThreadPoolExecutor(1) as pool,
    ):
        knows(a, B)
        for _ in range(5):
            rows = a.cluster.peers.run(B, fragment("rows 100000"))
            unread.callback(rows.close)
        taken = threading.Event()
        slow = pool.submit(a.cluster.peers.run, B, fragment("slow"), taken.is_set)
        wait_until(lambda: b.runner.running == 6)
        with pytest.raises(LimitExceeded, match="max_fragments"):
            a.cluster.peers.run(B, replace(fragment("rows 1"), timeout_seconds=0.1))
        taken.set()
        with pytest.raises(Cancelled):
            slow.result(60)
        assert len(list(a.cluster.peers.run(B, fragment("rows 1")))) == 1


def test_the_hosts_say_how_all_stand(pair: tuple[PeerHost, PeerHost]) -> None:
    a, _ = pair
    with Client(a.uri) as client:
        rows = client.hosts().to_pylist()
    assert [(row["host"], row["alive"], row["epoch"]) for row in rows] == [("a", True, 1), ("b", True, 1)]


def test_a_report_is_what_the_host_says_of_itself(pair: tuple[PeerHost, PeerHost]) -> None:
    a, b = pair
    answer = parse_report(a.cluster.receive(b.cluster.peers.own_bytes()))
    assert (answer.report.host, answer.changelog) == (A, "id")


def test_a_host_that_is_started_again_is_told_of_columns_again() -> None:
    hosts = entries("a", "b")
    with peer_host(hosts, "a") as a:
        a.stores.columns = {"song": ColumnReport(1.0, 2.0, None)}
        for _ in range(2):
            with peer_host(hosts, "b") as b:
                knows_columns(b, A)


def knows_columns(host: PeerHost, other: HostName) -> None:
    knows(host, other)
    wait_until(lambda: host.cluster.peers.reports()[other].stores[STORE].columns is not None)


def test_reports_go_on_after_a_failure_that_nobody_expected(
    pair: tuple[PeerHost, PeerHost], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = pair
    failures = [RuntimeError("a defect"), RuntimeError("a defect"), MemoryError()]
    heard = FlightPeers._note_report

    def fail_sometimes(peers: FlightPeers, sent: SentReport, *, answered: bool) -> None:
        if answered and peers is a.cluster.peers and failures:
            raise failures.pop(0)
        heard(peers, sent, answered=answered)

    monkeypatch.setattr(FlightPeers, "_note_report", fail_sometimes)
    wait_until(lambda: not failures)
    a.stores.epoch = 41
    a.cluster.peers.announce_change()
    wait_until(lambda: b.cluster.peers.reports()[A].groups[GROUP].newest == 41)
    warnings = [record for record in caplog.records if "cannot be reported to" in record.message]
    assert [type(record.exc_info[1]) for record in warnings if record.exc_info] == [
        RuntimeError,
        MemoryError,
    ]
