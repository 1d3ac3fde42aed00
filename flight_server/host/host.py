"""A host: it follows a changelog, keeps the partitions in its data directory, and serves them over Arrow
Flight.
"""

from __future__ import annotations

import fcntl
import ipaddress
import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from io import BufferedWriter
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from engine.changelog import Changelog
from engine.cluster.deployment import Deployment
from engine.cluster.progress import progress_in_words
from engine.cluster.reports import GroupReport, HostName
from engine.errors import DeadlineExceeded, InvalidInput, Unavailable
from engine.model.schema import GroupName
from engine.replica.data_directory import LOCK_FILE, SPILL_DIRECTORY, check_no_changelog
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryOptions, QueryService
from flight_server.client.connection_options import ConnectionOptions, can_be_sent, read_certificates
from flight_server.client.secret_files import check_certificate_key, read_secret, read_secret_text
from flight_server.host.decision_audit import DecisionAudit
from flight_server.host.event_watch import EventWatch
from flight_server.host.host_events import LAG_SECONDS, HostEvents
from flight_server.host.self_report import SelfReport
from flight_server.identity.authenticator import Authenticator
from flight_server.identity.credential_watcher import CredentialWatcher
from flight_server.monitoring.host_figures import HostFigures
from flight_server.monitoring.monitor import Monitor
from flight_server.peers.deployment_member import ClusterHost
from flight_server.peers.peers import PeerOptions
from flight_server.server.audit import AuditLog
from flight_server.server.limits import ServerLimits
from flight_server.server.server import LivestateServer

DEFAULT_PORT = 8815
GRACE_SECONDS = 20.0
"""With what a stop takes beside, less than the 30 seconds that Kubernetes leaves a process."""
_SECONDS_BETWEEN_LOOKS = 0.02
_MOST_GROUPS = 3
"""Groups that are named which a host builds."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostOptions:
    """What a host is told at its start.

    Attributes:
        changelog: URI of the changelog.
        data: The data directory; made if it is not there. One host at a time uses it.
        address: Name or number of the interface to listen on.
        port: Where to listen; 0 takes a free port.
        token: What callers must present; None: the host is open, which it refuses to be on anything but a
            loopback address unless `open_to_all`.
        security: The file that says how callers prove who they are; None: `token` does.
        audit_log: File that gets a line for what is asked and refused; None: none.
        audits_texts: Whether the lines have statements, and not their digests alone.
        slow_seconds: How long the quickest statement takes that the log has with its plan; None: it has none.
        open_to_all: The host may be open on an address that other machines can reach.
        insecure: It may do without TLS there.
        tls_certificate: PEM certificate, with `tls_key`; empty: no TLS.
        tls_key: Its PEM key.
        grace_seconds: How long running statements may go on at a stop.
        http: Where probes and metrics are answered, address and port; None: nowhere.
        changelog_options: For the object store, such as endpoint and region.
        follower: How the changelog is followed.
        queries: Limits of queries; without a spill directory of their own they get one in the data directory.
        limits: What the host takes on at once.
        deployment: The hosts that serve the changelog together; None: this one serves it alone.
        name: Which of the deployment's hosts this is.
        tls_roots: PEM certificates that vouch for the other hosts, where these speak TLS; empty: the
            system's.
    """

    changelog: str
    data: Path
    address: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    token: str | None = field(default=None, repr=False)
    security: Path | None = None
    audit_log: Path | None = None
    audits_texts: bool = True
    slow_seconds: float | None = None
    open_to_all: bool = False
    insecure: bool = False
    tls_certificate: bytes = field(default=b"", repr=False)
    tls_key: bytes = field(default=b"", repr=False)
    grace_seconds: float = GRACE_SECONDS
    http: tuple[str, int] | None = None
    changelog_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    follower: FollowerOptions = field(default_factory=FollowerOptions)
    queries: QueryOptions = field(default_factory=QueryOptions)
    limits: ServerLimits = field(default_factory=ServerLimits)
    deployment: Deployment | None = None
    name: str = ""
    tls_roots: bytes = field(default=b"", repr=False)


class Host:
    """One host in this process.

    Args:
        options: What it is told.
    """

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._lock: BufferedWriter | None = None
        self._authenticator: Authenticator | None = None
        self._watcher: CredentialWatcher | None = None
        self._events: EventWatch | None = None
        self._audit: AuditLog | None = None
        self._follower: Follower | None = None
        self._service: QueryService | None = None
        self._cluster: ClusterHost | None = None
        self._server: LivestateServer | None = None
        self._monitor: Monitor | None = None

    def start(self) -> int:
        """Open the data directory, follow the changelog and listen. Statements wait for stores that are
        behind what the changelog has by now.

        Returns:
            The port that it listens on.

        Raises:
            InvalidInput: The options cannot be; another host uses the data directory; the port is taken.
            LivestateError: The changelog or the data cannot be used, by kind.
        """
        _check(self._options)
        self._authenticator = _authenticator(self._options)
        _log.info("The host starts: livestate %s, %s.", version("livestate"), _place(self._options))
        _warn_of_open_doors(self._options)
        if self._options.audit_log is not None:
            self._audit = AuditLog(self._options.audit_log, has_texts=self._options.audits_texts)
        with ExitStack() as unless_started:
            unless_started.callback(self.stop)
            self._lock = _lock_directory(self._options.data)
            self._monitor = self._start_monitor()
            changelog = Changelog.open(self._options.changelog, dict(self._options.changelog_options))
            self._follower = Follower(changelog, self._options.data, _follower_options(self._options))
            self._follower.start()
            self._cluster = self._make_cluster(self._follower, changelog)
            self._service = QueryService(
                self._follower,
                _query_options(self._options),
                None if self._cluster is None else self._cluster.coordinator_view(),
            )
            self._server = self._listen(self._follower, self._service)
            if self._cluster is not None:
                self._follower.add_listener(self._cluster.peers.announce_change)
                self._cluster.start()
            if self._authenticator is not None:
                self._watcher = CredentialWatcher(self._authenticator, self._audit)
                self._watcher.start()
            peers = None if self._cluster is None else self._cluster.peers
            lag_seconds = self._options.queries.max_lag_seconds or LAG_SECONDS
            decisions = None if self._audit is None else DecisionAudit(self._audit)
            self._events = EventWatch(self._follower, peers, HostEvents(lag_seconds), decisions)
            self._events.start()
            unless_started.pop_all()
        return int(self._server.port)

    def _start_monitor(self) -> Monitor | None:
        """The port of probes, which answer while the host is still starting."""
        if self._options.http is None:
            return None
        monitor = Monitor(self, *self._options.http)
        monitor.start()
        return monitor

    def _make_cluster(self, follower: Follower, changelog: Changelog) -> ClusterHost | None:
        options = self._options
        if options.deployment is None:
            return None
        peers = PeerOptions(_peer_connection(options, self._authenticator))
        return ClusterHost(
            options.deployment, HostName(options.name), follower, lambda: changelog.identity() or "", peers
        )

    def _listen(self, follower: Follower, service: QueryService) -> LivestateServer:
        options = self._options
        try:
            return LivestateServer(
                _uri(options, options.port),
                service,
                follower.notify,
                ready=self.is_ready,
                authenticator=self._authenticator,
                tls_certificates=[(options.tls_certificate, options.tls_key)]
                if options.tls_certificate
                else [],
                limits=options.limits,
                cluster=self._cluster,
                scrubs=follower,
                audit=self._audit,
                slow_seconds=options.slow_seconds,
                self_report=SelfReport(
                    options.name,
                    options.data,
                    options.queries.memory_limit_bytes + options.follower.state.cache_bytes,
                    follower,
                    None if self._cluster is None else self._cluster.peers,
                ),
            )
        except (pa.ArrowException, OSError) as error:
            tls = ", or are certificate and key not PEM" if options.tls_certificate else ""
            raise InvalidInput(
                f"The host cannot listen on {options.address} port {options.port}: is the port taken{tls}?"
            ) from error

    def reload_security(self) -> None:
        """Read the security file again, and what it names, however young it is."""
        if self._watcher is not None:
            self._watcher.reload()

    @property
    def http_uri(self) -> str:
        """Where probes and metrics are; empty for nowhere."""
        return "" if self._monitor is None else self._monitor.uri

    @property
    def uri(self) -> str:
        """What clients connect to.

        Raises:
            Unavailable: The host is not started.
        """
        if self._server is None:
            raise Unavailable("The host is not started.")
        return _uri(self._options, self._server.port)

    def is_ready(self) -> bool:
        """Whether the host has caught up with the changelog once: as `Follower.has_caught_up`."""
        return self._follower is not None and self._follower.has_caught_up

    def unready_reason(self) -> str:
        """Why clients are to ask other hosts, in a sentence; empty where they may ask this one."""
        follower, server = self._follower, self._server
        if follower is None or server is None:
            return "The host is starting."
        if server.drain.is_on:
            return "The host is draining: it ends what runs, and takes no new statements."
        if follower.has_caught_up:
            return ""
        try:
            follower.tables()
        except Unavailable as error:
            return error.message
        return _build_in_words(follower.report()[0])

    def figures(self) -> HostFigures:
        """All that is known of the host now, for its metrics."""
        follower, service, server, cluster = self._follower, self._service, self._server, self._cluster
        figures = HostFigures(self._options.name)
        if follower is not None:
            groups, stores = follower.report()
            figures = replace(
                figures,
                groups=groups,
                stores=stores,
                definitions=follower.definitions(),
                replica=follower.figures(),
            )
        if cluster is not None:
            statuses = cluster.peers.host_statuses().values()
            alive = sum(status.alive for status in statuses)
            figures = replace(figures, hosts=len(statuses), hosts_alive=alive)
        return replace(
            figures,
            is_ready=not self.unready_reason(),
            service=None if service is None else service.figures(),
            server=None if server is None else server.figures(),
        )

    def drain(self) -> None:
        """Take no new statements from now on, and tell other hosts so; `stop` comes next."""
        if self._events is not None:
            self._events.note_end()
        if self._server is not None:
            self._server.drain.begin(is_final=True)

    def wait_until_ready(self, timeout_seconds: float) -> None:
        """Wait until the host has caught up with the changelog once.

        Args:
            timeout_seconds: How long at most.

        Raises:
            DeadlineExceeded: It is not ready by then.
        """
        deadline = time.monotonic() + timeout_seconds
        while not self.is_ready():
            if time.monotonic() > deadline:
                raise DeadlineExceeded(
                    f"The host did not catch up with the changelog within {timeout_seconds:g} seconds."
                )
            time.sleep(_SECONDS_BETWEEN_LOOKS)

    @property
    def source(self) -> Follower:
        """The host's stores.

        Raises:
            Unavailable: The host is not started.
        """
        if self._follower is None:
            raise Unavailable("The host is not started.")
        return self._follower

    @property
    def running_queries(self) -> int:
        """How many queries run now."""
        return 0 if self._server is None else self._server.running

    @property
    def open_key_streams(self) -> int:
        """How many streams of keys are open now."""
        return 0 if self._server is None else self._server.open_key_streams

    def stop(self, grace_seconds: float | None = None) -> bool:
        """Let running statements end, stop listening and following, and give the data directory back. May be
        called at any time, and again.

        Args:
            grace_seconds: How long they may go on; None: as long as the options say.

        Returns:
            Whether all clients were let go of. If not, one neither reads its result nor goes away, keeps a
            stream of keys open, or does not answer any more, and only the end of the process lets go of it.
        """
        # A server that did not stop is kept: letting go of it would wait for its client without end.
        grace_seconds = self._options.grace_seconds if grace_seconds is None else grace_seconds
        if self._server is not None and self._server.stop(grace_seconds):
            self._server = None
        if self._monitor is not None:
            self._monitor.stop()
        if self._watcher is not None:
            self._watcher.stop()
        if self._events is not None:
            self._events.stop()
        # The connections to other hosts end later: a fragment that has not begun there is given up only while
        # somebody watches it.
        if self._service is not None:
            self._service.close()
        if self._cluster is not None:
            self._cluster.stop()
        if self._follower is not None:
            self._follower.stop()
        if self._lock is not None:
            self._lock.close()
        if self._audit is not None and self._server is None:
            self._audit.close()
        self._service = self._cluster = self._follower = self._lock = self._watcher = self._events = None
        self._monitor = None
        return self._server is None


def _place(options: HostOptions) -> str:
    name = (
        f"host {options.name} of {len(options.deployment.hosts)}" if options.deployment else "without peers"
    )
    return f"{name}, on {options.address} port {options.port}"


def _build_in_words(groups: Mapping[GroupName, GroupReport]) -> str:
    """What the host still builds, in a sentence."""
    building = [
        f"{name}, {progress_in_words(group.building)}"
        for name, group in sorted(groups.items())
        if group.building is not None
    ]
    if not building:
        return "The host looks at what the changelog has."
    more = f"; and {len(building) - _MOST_GROUPS} more groups" if len(building) > _MOST_GROUPS else ""
    return f"The host builds what it is to hold: {'; '.join(building[:_MOST_GROUPS])}{more}."


def _check(options: HostOptions) -> None:
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise InvalidInput("TLS needs both a certificate and its key.")
    if options.token is not None and not options.token:
        raise InvalidInput("The token is empty; leave LIVESTATE_TOKEN unset for an open host.")
    if options.token is not None and not (
        can_be_sent(options.token) and options.token.strip() == options.token
    ):
        raise InvalidInput(
            "No client can send the token: take printable ASCII characters, without spaces or line breaks "
            "around them."
        )
    if options.token is not None and options.security is not None:
        raise InvalidInput(
            "The security file says what callers present: leave --token-file and LIVESTATE_TOKEN out."
        )
    if not _is_loopback(options.address) and not options.open_to_all:
        if options.token is None and options.security is None:
            raise InvalidInput(
                f"On {options.address} other machines can reach the host: say who may call (--security, "
                "--token-file), or that it is to be open to all (--open-to-all)."
            )
        if not options.tls_certificate and not options.insecure:
            raise InvalidInput(
                f"On {options.address} others on the way could read what callers present: give the host a "
                "--tls-certificate and its --tls-key, or say that the network is safe (--insecure)."
            )
    if urlsplit(f"//{options.address}").username is not None or "/" in options.address:
        raise InvalidInput(
            f"{options.address!r} is no address to listen on; give a name or number such as 127.0.0.1."
        )


def _warn_of_open_doors(options: HostOptions) -> None:
    if options.http is not None and not _is_loopback(options.http[0]):
        _log.warning("whoever reaches %s port %d sees names and sizes of stores (/metrics)", *options.http)
    if _is_loopback(options.address):
        return
    if options.token is None and options.security is None:
        _log.warning("whoever reaches %s may ask everything: the host is open to all", options.address)
    elif not options.tls_certificate:
        _log.warning(
            "what callers present travels unencrypted to %s: the host does without TLS", options.address
        )


def _authenticator(options: HostOptions) -> Authenticator | None:
    if options.security is None:
        return None if options.token is None else Authenticator(token=options.token)
    authenticator = Authenticator(file=options.security)
    if authenticator.takes_certificates and not options.tls_certificate:
        raise InvalidInput(
            "[security.certificates] asks callers for certificates, which takes TLS: give the host a "
            "--tls-certificate and its --tls-key."
        )
    return authenticator


def _peer_connection(options: HostOptions, authenticator: Authenticator | None) -> ConnectionOptions:
    """How the host presents itself to others."""
    if options.security is None or authenticator is None:
        return ConnectionOptions(token=options.token, tls_roots=options.tls_roots)
    said, directory = authenticator.credentials.options, options.security.parent
    if not said.peer_token and not said.peer_certificate:
        raise InvalidInput(
            "[security] does not say by what the hosts of the deployment know each other: add peer_token, or "
            "peer_certificate and peer_key."
        )
    connection = ConnectionOptions(
        token=read_secret_text(directory / said.peer_token, "The file with the peer token").strip()
        if said.peer_token
        else None,
        tls_roots=options.tls_roots,
        certificate=read_certificates(directory / said.peer_certificate) if said.peer_certificate else b"",
        key=read_secret(directory / said.peer_key, "The file with the peer's key") if said.peer_key else b"",
    )
    if connection.certificate:
        check_certificate_key(directory / said.peer_certificate, directory / said.peer_key)
    return connection


def _follower_options(options: HostOptions) -> FollowerOptions:
    if options.deployment is None:
        return options.follower
    name, assignment = options.deployment.host(options.name).name, options.deployment.assignment
    snapshots = replace(
        options.follower.snapshots,
        rank=partial(assignment.rank, name),
        replicas=assignment.count_replicas,
        host=name,
    )
    return replace(options.follower, held=partial(assignment.held_partitions, name), snapshots=snapshots)


def _query_options(options: HostOptions) -> QueryOptions:
    if options.queries.spill_directory is not None:
        return options.queries
    return replace(options.queries, spill_directory=options.data / SPILL_DIRECTORY)


def _uri(options: HostOptions, port: int) -> str:
    scheme = "grpc+tls" if options.tls_certificate else "grpc"
    address = f"[{options.address}]" if ":" in options.address else options.address
    return f"{scheme}://{address}:{port}"


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


@contextmanager
def lock_stopped_host(directory: Path) -> Iterator[None]:
    """See that no host uses a data directory, and keep it so; nothing is written there.

    Args:
        directory: The data directory.

    Raises:
        InvalidInput: A host uses it, or it cannot be read.
    """
    if not (directory / LOCK_FILE).exists():
        yield
        return
    try:
        lock = (directory / LOCK_FILE).open("rb")
    except OSError as error:
        raise InvalidInput(f"The data directory cannot be read: {error.strerror}.") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InvalidInput("A host uses this data directory: stop it first.") from error
        yield


def _lock_directory(directory: Path) -> BufferedWriter:
    check_no_changelog(directory)
    try:
        # Rows are no one else's business on this machine.
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = (directory / LOCK_FILE).open("ab")
    except OSError as error:
        raise InvalidInput(f"The data directory cannot be used: {error.strerror}.") from error
    try:
        # The system lets go of it when the process ends, however it ends.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise InvalidInput(
            "Another host uses this data directory: stop it, or give this one a directory of its own."
        ) from error
    return lock
