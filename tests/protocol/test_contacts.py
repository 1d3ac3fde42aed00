"""Who is alive and what is known of them, told by reports and a clock."""

from __future__ import annotations

import pytest

from engine.catalog.host_statuses import hosts_table
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import GroupReport, HostName, HostReport, HostStatus, ReadableEpoch, StoreReport
from engine.errors import InvalidInput
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName, define_store
from flight_server.peers.failure_detector import FailureDetector
from flight_server.peers.host_tables import replicas_table
from flight_server.wire.report_messages import SentReport
from tests.protocol.conftest import SONGS

A, B, C = HostName("a"), HostName("b"), HostName("c")
GROUP = GroupName("songs")


def report(
    host: HostName, epoch: int, newest: int | None = None, unread_since: int | None = None
) -> HostReport:
    readable = (ReadableEpoch(Epoch(epoch), epoch * 1000),)
    return HostReport(
        host, {GROUP: GroupReport(readable, Epoch(epoch if newest is None else newest), unread_since)}
    )


def sent_report(host: HostName, epoch: int, number: int, started: int = 1) -> SentReport:
    return SentReport(report(host, epoch), "id", started, number)


@pytest.fixture
def contacts() -> FailureDetector:
    return FailureDetector(A, [B, C], dead_after_seconds=3.0)


def test_a_host_lives_as_long_as_it_is_heard_of(contacts: FailureDetector) -> None:
    assert contacts.reports_of_alive(0.0) == {}
    assert contacts.note_report(sent_report(B, 1, 0), 10.0, answered=True)
    assert contacts.reports_of_alive(12.9) == {B: report(B, 1)}
    assert contacts.is_alive(B, 12.9)
    assert contacts.reports_of_alive(13.0) == {}
    assert not contacts.is_alive(B, 13.0)
    assert contacts.note_report(sent_report(B, 1, 1), 20.0, answered=True), "it is back, which is news"
    assert not contacts.note_report(sent_report(B, 1, 2), 20.5, answered=False), "nothing new"
    assert contacts.reports_of_alive(23.4) == {B: report(B, 1)}


def test_a_host_must_be_reached(contacts: FailureDetector) -> None:
    assert contacts.note_report(sent_report(B, 1, 0), 0.0, answered=False)
    assert contacts.reports_of_alive(0.0) == {}
    assert not contacts.note_report(sent_report(B, 1, 1), 0.5, answered=False)
    assert contacts.note_report(sent_report(B, 1, 2), 1.0, answered=True), "now it is alive"
    assert contacts.reports_of_alive(1.0) == {B: report(B, 1)}
    contacts.note_lost(B)
    contacts.note_lost(C)
    assert contacts.reports_of_alive(1.0) == {}
    assert not contacts.note_report(sent_report(B, 1, 3), 1.5, answered=False)
    assert contacts.reports_of_alive(1.5) == {}


def test_a_report_that_was_overtaken_says_nothing_new(contacts: FailureDetector) -> None:
    assert contacts.note_report(sent_report(B, 2, number=5), 0.0, answered=True)
    assert not contacts.note_report(sent_report(B, 1, number=4), 1.0, answered=False)
    assert contacts.reports_of_alive(3.5) == {B: report(B, 2)}, "but it was heard of"


def test_a_host_that_was_started_again_begins_anew(contacts: FailureDetector) -> None:
    contacts.note_report(sent_report(B, 9, number=100, started=50), 0.0, answered=True)
    assert contacts.note_report(sent_report(B, 1, number=0, started=40), 1.0, answered=True), (
        "its clock may have been set back"
    )
    assert contacts.reports_of_alive(1.0) == {B: report(B, 1)}


def test_reports_of_strangers_and_doubles_are_refused(contacts: FailureDetector) -> None:
    with pytest.raises(InvalidInput, match="no host 'z'"):
        contacts.note_report(sent_report(HostName("z"), 1, 0), 0.0, answered=True)
    with pytest.raises(InvalidInput, match="Two hosts are called a"):
        contacts.note_report(sent_report(A, 1, 0), 0.0, answered=True)
    assert contacts.reports_of_alive(0.0) == {}


DEFINITION = define_store("songs", SONGS.schema, ["song_id"], partitions=8)
DEPLOYMENT = Deployment(
    "changelog",
    tuple(HostEntry(name, f"grpc://127.0.0.1:{port}") for port, name in enumerate((A, B, C), 1)),
    replication=2,
)
NOW = 10_000_000


def test_the_table_of_hosts_says_how_far_each_is() -> None:
    held = DEPLOYMENT.assignment.held_partitions(B, DEFINITION)
    host_statuses = {
        A: HostStatus(
            alive=True, report=HostReport(A, report(A, 7).groups, {StoreName("songs"): StoreReport(())})
        ),
        B: HostStatus(
            alive=False,
            report=HostReport(
                B, report(B, 5, 6, NOW - 1_500_000).groups, {StoreName("songs"): StoreReport(held)}
            ),
        ),
        C: HostStatus(alive=False, report=None),
    }
    rows = hosts_table(
        {entry.name: entry.uri for entry in DEPLOYMENT.hosts},
        host_statuses,
        {DEFINITION.name: DEFINITION},
        NOW,
    ).to_pylist()
    names = ("host", "alive", "epoch", "newest_epoch", "lag_seconds", "partitions", "state")
    assert [tuple(row[name] for name in names) for row in rows] == [
        ("a", True, 7, 7, 0.0, 0, "readable"),
        ("b", False, 5, 7, 1.5, len(held), "away"),
        ("c", False, None, None, None, None, "away"),
    ]
    assert rows[2]["uri"] == "grpc://127.0.0.1:3"


def test_the_table_of_replicas_says_what_moves() -> None:
    assigned = DEPLOYMENT.assignment.held_partitions(B, DEFINITION)
    other = next(PartitionId(number) for number in range(8) if number not in assigned)
    held = tuple(sorted((*assigned[1:], other)))
    host_statuses = {
        A: HostStatus(alive=True, report=report(A, 7)),
        B: HostStatus(
            alive=True,
            report=HostReport(B, report(B, 5).groups, {StoreName("songs"): StoreReport(held, 4, 40)}),
        ),
        C: HostStatus(alive=False, report=None),
    }
    rows = {
        row["host"]: row
        for row in replicas_table(DEPLOYMENT, host_statuses, {DEFINITION.name: DEFINITION}, NOW).to_pylist()
    }
    assert (rows["b"]["partitions"], rows["b"]["coming"], rows["b"]["leaving"], rows["b"]["rows"]) == (
        list(held),
        1,
        1,
        4,
    )
    assert (rows["a"]["coming"], rows["a"]["epoch"], rows["a"]["rows"]) == (
        len(DEPLOYMENT.assignment.held_partitions(A, DEFINITION)),
        7,
        None,
    )
    assert (rows["c"]["alive"], rows["c"]["epoch"]) == (False, None)
