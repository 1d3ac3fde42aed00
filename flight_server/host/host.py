"""A host: it follows a changelog, keeps the partitions in its data directory, and serves them over Arrow
Flight.
"""

from __future__ import annotations

import fcntl
import ipaddress
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from io import BufferedWriter
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa

from engine.changelog import Changelog
from engine.cluster.deployment import Deployment
from engine.cluster.reports import HostName
from engine.errors import DeadlineExceeded, InvalidInput, Unavailable
from engine.replica.follower import Follower, FollowerOptions
from engine.service import QueryOptions, QueryService
from flight_server.client.connection_options import ConnectionOptions
from flight_server.peers.deployment_member import ClusterHost
from flight_server.peers.peers import PeerOptions
from flight_server.server.limits import ServerLimits
from flight_server.server.server import LivestateServer

DEFAULT_PORT = 8815
LOCK_FILE = "livestate.lock"
SPILL_DIRECTORY = "spill"
_SECONDS_BETWEEN_LOOKS = 0.02


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
        open_to_all: The host may be open on an address that other machines can reach.
        tls_certificate: PEM certificate, with `tls_key`; empty: no TLS.
        tls_key: Its PEM key.
        grace_seconds: How long running queries may go on at a stop.
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
    open_to_all: bool = False
    tls_certificate: bytes = field(default=b"", repr=False)
    tls_key: bytes = field(default=b"", repr=False)
    grace_seconds: float = 5.0
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
        self._follower: Follower | None = None
        self._service: QueryService | None = None
        self._cluster: ClusterHost | None = None
        self._server: LivestateServer | None = None

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
        with ExitStack() as unless_started:
            unless_started.callback(self.stop)
            self._lock = _lock_directory(self._options.data)
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
            unless_started.pop_all()
        return int(self._server.port)

    def _make_cluster(self, follower: Follower, changelog: Changelog) -> ClusterHost | None:
        options = self._options
        if options.deployment is None:
            return None
        peers = PeerOptions(ConnectionOptions(token=options.token, tls_roots=options.tls_roots))
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
                token=options.token,
                tls_certificates=[(options.tls_certificate, options.tls_key)]
                if options.tls_certificate
                else [],
                limits=options.limits,
                cluster=self._cluster,
                scrubs=follower,
            )
        except (pa.ArrowException, OSError) as error:
            tls = ", or are certificate and key not PEM" if options.tls_certificate else ""
            raise InvalidInput(
                f"The host cannot listen on {options.address} port {options.port}: is the port taken{tls}?"
            ) from error

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

    def stop(self) -> bool:
        """Let running queries end, stop listening and following, and give the data directory back. May be
        called at any time, and again.

        Returns:
            Whether all clients were let go of. If not, one neither reads its result nor goes away, or keeps a
            stream of keys open, and only the end of the process ends its call.
        """
        # A server that did not stop is kept: letting go of it would wait for its client without end.
        if self._server is not None and self._server.stop(self._options.grace_seconds):
            self._server = None
        if self._cluster is not None:
            self._cluster.stop()
        if self._service is not None:
            self._service.close()
        if self._follower is not None:
            self._follower.stop()
        if self._lock is not None:
            self._lock.close()
        self._service = self._cluster = self._follower = self._lock = None
        return self._server is None


def _check(options: HostOptions) -> None:
    if bool(options.tls_certificate) != bool(options.tls_key):
        raise InvalidInput("TLS needs both a certificate and its key.")
    if options.token is not None and not options.token:
        raise InvalidInput("The token is empty; leave it out for an open host.")
    if options.token is None and not options.open_to_all and not _is_loopback(options.address):
        raise InvalidInput(
            f"On {options.address} other machines can reach the host: give it a token (--token-file), "
            "or say that it is to be open to all (--open-to-all)."
        )
    if urlsplit(f"//{options.address}").username is not None or "/" in options.address:
        raise InvalidInput(
            f"{options.address!r} is no address to listen on; give a name or number such as 127.0.0.1."
        )


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
    try:
        directory.mkdir(parents=True, exist_ok=True)
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
