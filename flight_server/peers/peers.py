"""The other hosts of a deployment, over Flight: fragments run there, and reports exchanged with them."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from weakref import WeakSet

import pyarrow as pa
from pyarrow import flight

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import GroupReport, HostName, HostReport, HostStatus, StoreReport
from engine.deadline import Deadline, DeadlineWatcher
from engine.errors import DeadlineExceeded, InvalidInput, LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, StoreName
from engine.telemetry.spans import span
from flight_server.client.connection import CHANNEL_OPTIONS, FLIGHT_FAILURES, Connection
from flight_server.client.connection_options import ConnectionOptions
from flight_server.peers.failure_detector import FailureDetector
from flight_server.peers.peer_rows import PeerRows, is_lost, peer_error
from flight_server.peers.sent_columns import SentColumns, without_columns
from flight_server.wire.call_headers import statement_headers
from flight_server.wire.diagnosis_messages import PeerFacts
from flight_server.wire.fragment_messages import FragmentTicket
from flight_server.wire.report_messages import SentReport, parse_report
from flight_server.wire.tickets import Statement

REPORT_ACTION = "livestate.report"
HOLD_ACTION = "livestate.hold"
LEAST_REPORT_SECONDS = 0.2
"""What a host gets at the least to answer a report, however soon it counts as dead."""
PEER_CHANNEL_OPTIONS = (
    *CHANNEL_OPTIONS,
    ("grpc.keepalive_time_ms", 300_000),
    ("grpc.keepalive_timeout_ms", 5_000),
)
"""With keepalive gRPC has the system end a connection (TCP_USER_TIMEOUT) whose bytes nobody acknowledged for
five seconds. Without, it would try them again ever more seldom, and find a network that was away for a minute
to be back after another one. Servers take no pings more often than this.
"""
_log = logging.getLogger(__name__)

OwnReport = Callable[[], tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]]
"""`StoreSource.report`."""


@dataclass(frozen=True)
class PeerOptions:
    """How hosts talk to each other.

    Attributes:
        connection: How the other hosts are reached; the deployment has their addresses.
        heartbeat_seconds: How often a host reports when nothing changes.
        dead_after_seconds: A host that was not heard of for so long is not alive.
        report_timeout_seconds: How long another host may take to answer a report.
        hop_grace_seconds: How much longer than its time-out a fragment is waited for, so that the other host
            can say itself that it ran out of time.
    """

    connection: ConnectionOptions = field(default_factory=ConnectionOptions)
    heartbeat_seconds: float = 0.5
    dead_after_seconds: float = 3.0
    report_timeout_seconds: float = 2.0
    hop_grace_seconds: float = 0.5


class _Peer:
    """Calls to one other host. Safe for threads.

    Args:
        name: The host.
        uri: Where it listens.
        options: How to talk to it.
        lost: Called when it turns out not to be there.
    """

    def __init__(self, name: HostName, uri: str, options: PeerOptions, lost: Callable[[], None]) -> None:
        self.name = name
        self.uri = uri
        self._options = options
        self._lost = lost
        self._lock = threading.Lock()
        # Weak: rows that are forgotten end themselves.
        self._under_way: WeakSet[PeerRows] = WeakSet()
        self._connection = Connection(options.connection.with_uri(uri), channel=PEER_CHANNEL_OPTIONS)

    def begin(self, request: FragmentRequest) -> PeerRows:
        """Begin a fragment there; `open` comes next."""
        timeout = (
            None
            if request.timeout_seconds is None
            else request.timeout_seconds + self._options.hop_grace_seconds
        )
        command = flight.FlightDescriptor.for_command(FragmentTicket.from_request(request).to_bytes())
        try:
            writer, reader = self._connection.client.do_exchange(
                command, self._connection.call_options(timeout, headers=statement_headers())
            )
        except FLIGHT_FAILURES as error:
            raise self._error(error) from error
        rows = PeerRows(self.name, writer, reader, self._connection.latest_trailer(), self._lost)
        with self._lock:
            self._under_way.add(rows)
        return rows

    def give_up(self, error: LivestateError) -> None:
        """End all fragments that are under way there: whoever waits for one gets the error."""
        with self._lock:
            under_way = list(self._under_way)
        for rows in under_way:
            rows.fail(error)

    def report(self, body: bytes, timeout_seconds: float) -> bytes:
        """Send it this host's report; returns its own."""
        try:
            answers = list(
                self._connection.client.do_action(
                    flight.Action(REPORT_ACTION, body), self._connection.call_options(timeout_seconds)
                )
            )
        except FLIGHT_FAILURES as error:
            raise self._error(error) from error
        if len(answers) != 1:
            self._lost()
            raise Unavailable(f"Host {self.name} does not answer to a report; try again shortly.")
        return bytes(answers[0].body.to_pybytes())

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """Have it keep epochs readable."""
        body = json.dumps({"epochs": epochs, "seconds": seconds}).encode()
        self._connection.act(HOLD_ACTION, body, self._options.report_timeout_seconds)

    def probe(self, timeout_seconds: float) -> PeerFacts:
        """Call it, and see whether it answers."""
        begun = time.perf_counter()
        try:
            self._connection.act("livestate.health", b"", timeout_seconds)
        except LivestateError as error:
            return PeerFacts(self._connection.uri, error.message)
        return PeerFacts(self._connection.uri, "", time.perf_counter() - begun)

    def ask(self, sql: str, timeout_seconds: float) -> pa.Table | LivestateError:
        """What it answers to a small statement, or why it does not."""
        ticket = flight.Ticket(Statement(sql, timeout_seconds=timeout_seconds).to_bytes())
        try:
            call = self._connection.call_options(timeout_seconds)
            return self._connection.client.do_get(ticket, call).read_all()
        except FLIGHT_FAILURES as error:
            return self._error(error)

    def _error(self, error: Exception) -> LivestateError:
        trailer = self._connection.latest_trailer()
        if is_lost(error, trailer):
            self._lost()
        return peer_error(self.name, error, trailer)

    def close(self) -> None:
        self._connection.close()


class FlightPeers:
    """Implements `engine.cluster.fragments.Peers` over Flight, and reports how this host stands.

    What runs on a host that is not alive any more ends, as no such host may ever say a word.

    Each other host has a thread here that sends it this host's report: when it changes, all changes of a
    moment in one, and otherwise with every heartbeat. Both sides learn from it, as the answer is the other's
    report. Nothing that follows the changelog waits for them.

    Args:
        here: Name of this host.
        hosts: Addresses of all hosts of the deployment by name, this one among them.
        report: How this host stands; cheap.
        changelog: Identity of the changelog that this host follows; empty while it has none.
        options: How to talk to the others.
        clock: A monotonic clock, seconds.
    """

    def __init__(
        self,
        here: HostName,
        hosts: Mapping[HostName, str],
        report: OwnReport,
        changelog: Callable[[], str],
        options: PeerOptions | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._here = here
        self._report = report
        self._changelog = changelog
        self._options = options or PeerOptions()
        self._clock = clock
        self._peers = {
            name: _Peer(name, uri, self._options, partial(self._note_lost, name))
            for name, uri in hosts.items()
            if name != here
        }
        self._contacts = FailureDetector(here, self._peers.keys(), self._options.dead_after_seconds)
        self._changed = threading.Condition()
        self._changes = 0
        self._own_changes = 0
        self._sent_reports = 0
        self._started = time.time_ns() // 1000
        self._stopping = False
        self._is_draining = False
        self._told: dict[HostName, int] = {}
        """How many changes of this host each other one was told of."""
        self._seen = threading.local()
        self._watcher = DeadlineWatcher()
        self._threads = [
            threading.Thread(target=self._keep_reporting, args=(peer,), name=f"report-{peer.name}")
            for peer in self._peers.values()
        ]

    # ---- life

    def start(self) -> None:
        """Begin to report."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Report no more, and end the connections. May be called again."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._watcher.close()
        for peer in self._peers.values():
            peer.close()

    # ---- as a coordinator sees them

    def reports(self) -> Mapping[HostName, HostReport]:
        """As `Peers.reports`."""
        with self._changed:
            self._seen.changes = self._changes
            others = self._contacts.reports_of_alive(self._clock())
        return {self._here: self._own_report(), **others}

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> PeerRows:
        """As `Peers.run`."""
        with span("ask host", host=str(host)):
            rows = self._peers[host].begin(request)
            with self._watcher.watch(Deadline(None, cancelled), rows.close):
                rows.open(request.inputs)
            return rows

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        """As `Peers.hold`."""
        self._peers[host].hold(epochs, seconds)

    def wait_for_change(self, timeout_seconds: float) -> bool:
        """As `Peers.wait_for_change`."""
        with self._changed:
            seen = getattr(self._seen, "changes", self._changes)
            return (
                self._changed.wait_for(lambda: self._changes != seen or self._stopping, timeout_seconds)
                and not self._stopping
            )

    def host_statuses(self) -> Mapping[HostName, HostStatus]:
        """What is known of every host of the deployment, this one among them."""
        with self._changed:
            now = self._clock()
            heard = {name: self._contacts.contact(name) for name in self._peers}
            others = {
                name: HostStatus(
                    self._contacts.is_alive(name, now), None if each is None else each.sent.report
                )
                for name, each in heard.items()
            }
        return {self._here: HostStatus(alive=True, report=self._own_report()), **others}

    def others_alive(self) -> Mapping[HostName, bool | None]:
        """Which of the other hosts are alive; None for those that were never heard of."""
        with self._changed:
            now = self._clock()
            return {
                name: None if self._contacts.contact(name) is None else self._contacts.is_alive(name, now)
                for name in self._peers
            }

    def probe_all(self) -> Mapping[str, PeerFacts]:
        """Call each other host at its advertised address, and see whether it answers."""
        timeout = self._options.report_timeout_seconds
        with ThreadPoolExecutor(max(1, len(self._peers)), "probe") as threads:
            facts = threads.map(lambda peer: peer.probe(timeout), self._peers.values())
            return {str(name): each for name, each in zip(self._peers, facts, strict=True)}

    def ask_all(self, sql: str) -> Mapping[HostName, pa.Table | LivestateError]:
        """Ask each other host something that it answers at once.

        Args:
            sql: A statement.

        Returns:
            The answers by host, or why there is none.
        """
        timeout = self._options.report_timeout_seconds
        with ThreadPoolExecutor(max(1, len(self._peers)), "ask") as threads:
            answers = threads.map(lambda peer: peer.ask(sql, timeout), self._peers.values())
            return dict(zip(self._peers, answers, strict=True))

    # ---- reports

    def announce_change(self) -> None:
        """Take note that this host stands differently now, and tell the others soon. Returns at once."""
        with self._changed:
            self._own_changes += 1
            self._changes += 1
            self._changed.notify_all()

    def note_drain(self, *, is_draining: bool) -> None:
        """Take note that this host is about to stop, or is not any more, and tell the others soon."""
        with self._changed:
            self._is_draining = is_draining
        self.announce_change()

    def wait_until_told(self, timeout_seconds: float) -> bool:
        """Wait until all hosts that are alive know how this one stands now.

        Args:
            timeout_seconds: How long at most.

        Returns:
            Whether they do.
        """
        with self._changed:
            changes = self._own_changes

            def is_told(name: HostName) -> bool:
                is_alive = self._contacts.is_alive(name, self._clock())
                return not is_alive or self._told.get(name, 0) >= changes

            return self._changed.wait_for(lambda: all(map(is_told, self._peers)), timeout_seconds)

    def receive(self, body: bytes) -> bytes:
        """Answer a report of another host.

        Args:
            body: The report.

        Returns:
            This host's.

        Raises:
            InvalidInput: It is no report, or not of another host of this deployment.
        """
        self._note_report(parse_report(body), answered=False)
        return self.own_bytes()

    def _note_lost(self, host: HostName) -> None:
        with self._changed:
            self._contacts.note_lost(host)

    def _note_report(self, sent: SentReport, *, answered: bool) -> None:
        changelog = self._changelog()
        if sent.changelog and changelog and sent.changelog != changelog:
            raise InvalidInput(
                f"Host {sent.report.host} and host {self._here} follow different changelogs: give all hosts "
                "the same deployment file."
            )
        with self._changed:
            if self._contacts.note_report(sent, self._clock(), answered=answered):
                self._changes += 1
                self._changed.notify_all()

    def _own_report(self) -> HostReport:
        return HostReport(self._here, *self._report(), is_draining=self._is_draining)

    def own_bytes(self) -> bytes:
        """This host's report, as it is sent to whom nothing is known of; columns are for those it calls."""
        sent = self._own_sent_report()
        return replace(sent, report=without_columns(sent.report)).to_bytes()

    def _own_sent_report(self) -> SentReport:
        with self._changed:
            # The number comes before the report: of two reports the one with the higher number is never the
            # older one.
            number = self._sent_reports
            self._sent_reports += 1
        return SentReport(self._own_report(), self._changelog(), self._started, number)

    def _report_timeout(self, host: HostName) -> float:
        """How long to wait for an answer to a report: of a host that was alive, no longer than it counts as
        that.
        """
        with self._changed:
            left = self._contacts.seconds_left(host, self._clock())
        longest = self._options.report_timeout_seconds
        return min(longest, max(left, LEAST_REPORT_SECONDS)) if left else longest

    def _give_up_if_dead(self, peer: _Peer) -> None:
        """What runs on a host that is not alive would be waited for until its time-out; a host that is frozen
        never says a word.
        """
        with self._changed:
            alive = self._contacts.is_alive(peer.name, self._clock())
        if not alive:
            peer.give_up(Unavailable(f"Host {peer.name} does not answer any more; try again shortly."))

    def _keep_reporting(self, peer: _Peer) -> None:
        complaint, told = "", SentColumns()
        while not self._stopping:
            with self._changed:
                changes = self._own_changes
            reported_changes: int | None = changes
            try:
                self._exchange_reports(peer, told)
                self._note_told(peer.name, changes)
                complaint = ""
            except BaseException as error:  # noqa: BLE001 - the top of the thread: without it this host would be dead to the other one
                # That nobody answers is seen where it matters. What is wrong in another way stays so, and is
                # said once.
                if str(error) != complaint and not isinstance(error, Unavailable | DeadlineExceeded):
                    is_expected = isinstance(error, LivestateError)
                    _log.warning(
                        "Host %s cannot be reported to: %s",
                        peer.name,
                        error,
                        exc_info=None if is_expected else error,
                    )
                complaint = str(error)
                reported_changes = None
            self._wait_for_news(reported_changes)

    def _note_told(self, host: HostName, changes: int) -> None:
        """Take note that another host knows of so many changes."""
        with self._changed:
            self._told[host] = changes
            if self._is_draining:
                self._changed.notify_all()

    def _exchange_reports(self, peer: _Peer, told: SentColumns) -> None:
        try:
            own = self._own_sent_report()
            news = told.news(own.report)
            body = replace(own, report=news).to_bytes()
            answer = parse_report(peer.report(body, self._report_timeout(peer.name)))
            self._check_name(peer, answer.report.host)
            told.note_answer(news, answer.started)
            self._note_report(answer, answered=True)
        except BaseException:
            self._give_up_if_dead(peer)
            raise

    def _check_name(self, peer: _Peer, name: HostName) -> None:
        """See that another host is the one that was called. If not, nothing reaches the one that was meant,
        alive as it may be.

        Raises:
            InvalidInput: It is not.
        """
        if name != peer.name:
            self._note_lost(peer.name)
            raise InvalidInput(
                f"Host {name[:100]} answers at {peer.uri}, which the deployment of host {self._here} has as "
                f"the uri of host {peer.name}: give all hosts the same deployment file, and each the uri at "
                "which it listens."
            )

    def _wait_for_news(self, reported_changes: int | None) -> None:
        """Wait for the next heartbeat; or, if it is said what the other host was told, for anything new."""
        with self._changed:
            self._changed.wait_for(
                lambda: (
                    self._stopping or (reported_changes is not None and self._own_changes != reported_changes)
                ),
                self._options.heartbeat_seconds,
            )
