"""What `livestate serve` was told, made into a host's options: alone, as a host of a deployment, or as
several processes.
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit

from engine.changelog import SnapshotRetention
from engine.cluster.deployment import Deployment, HostEntry, parse_deployment
from engine.cluster.reports import HostName
from engine.errors import InvalidInput
from engine.replica.follower import FollowerOptions
from engine.replica.scrubber import MIB, ScrubOptions
from engine.replica.snapshotter import SnapshotOptions
from engine.service import QueryOptions
from engine.state.state_options import StateOptions
from flight_server.host.host import DEFAULT_PORT, HostOptions
from flight_server.host.ports import free_ports
from flight_server.server.limits import ServerLimits

LOOPBACK = "127.0.0.1"
DEPLOYMENT_FILE = "livestate.toml"


@dataclass(frozen=True)
class ServeArguments:
    """The command line of `livestate serve`; what was not given is None.

    Attributes:
        changelog: URI of the changelog.
        data: Data directory.
        deployment: The deployment file.
        host: Name of the host in it.
        processes: How many hosts to start on this machine.
        replication: How many of these hold a partition.
        address: Where to listen.
        port: Where to listen; with several processes the first of as many.
        poll_interval: Seconds between looks for epochs.
        memory: Bytes that queries may use.
        spill: Bytes of disk that they may use beyond that; 0 for none.
        answers: Bytes for answers that are kept; 0 for none.
        cache: Bytes for decoded columns.
        threads: Threads for queries.
        max_statements: Statements computed at once.
        snapshot_after: Bytes of changelog after which a snapshot is due; 0 for never.
        snapshots_kept: How many snapshots stay, with the epochs behind them.
        snapshot_tail: Seconds for which epochs before them stay.
        scrub_every: Seconds from one scrub to the next; 0 for none.
        scrub_rate: MiB a second that one reads at most.
        token: What callers must present.
        open_to_all: May be open to other machines.
        tls_certificate: File with the PEM certificate.
        tls_key: File with its key.
        tls_roots: File with the PEM certificates that vouch for the other hosts.
    """

    changelog: str | None = None
    data: Path | None = None
    deployment: Path | None = None
    host: str | None = None
    processes: int | None = None
    replication: int | None = None
    address: str | None = None
    port: int | None = None
    poll_interval: float | None = None
    memory: int | None = None
    spill: int | None = None
    answers: int | None = None
    cache: int | None = None
    threads: int | None = None
    max_statements: int | None = None
    snapshot_after: int | None = None
    snapshots_kept: int | None = None
    snapshot_tail: float | None = None
    scrub_every: float | None = None
    scrub_rate: float | None = None
    token: str | None = field(default=None, repr=False)
    open_to_all: bool = False
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_roots: Path | None = None


def host_options(given: ServeArguments) -> HostOptions:
    """The options of one host.

    Args:
        given: The command line.

    Returns:
        What the host is told.

    Raises:
        InvalidInput: Something is missing, contradicts the rest, or cannot be read.
    """
    if given.deployment is None:
        return _lone_host(given)
    if given.host is None:
        raise InvalidInput("A deployment has several hosts: say with --host which of them this is.")
    if given.changelog is not None:
        raise InvalidInput("The deployment file says which changelog is served: leave --changelog out.")
    deployment = read_deployment(given.deployment)
    entry = deployment.host(given.host)
    place = urlsplit(entry.uri)
    named = None if entry.data is None else Path(entry.data)
    data = named if given.data is None else given.data
    if data is None:
        raise InvalidInput(
            f"Neither the deployment file nor --data names a data directory for host {entry.name}."
        )
    if (place.scheme == "grpc+tls") != (given.tls_certificate is not None):
        raise InvalidInput(
            f"The uri of host {entry.name} must be grpc+tls:// if and only if it is given --tls-certificate "
            "and --tls-key."
        )
    address = given.address or place.hostname or LOOPBACK
    port = given.port if given.port is not None else _port(entry)
    return _options(given, deployment.changelog, data, address, port, deployment, entry.name)


def _lone_host(given: ServeArguments) -> HostOptions:
    if given.host is not None:
        raise InvalidInput(
            "--host is the name of a host in a --deployment; the address to listen on is --address."
        )
    if given.changelog is None or given.data is None:
        raise InvalidInput(
            "Give the host its --changelog and its --data, or a --deployment file and its --host name."
        )
    port = DEFAULT_PORT if given.port is None else given.port
    return _options(given, given.changelog, given.data, given.address or LOOPBACK, port, None, "")


def _options(
    given: ServeArguments,
    changelog: str,
    data: Path,
    address: str,
    port: int,
    deployment: Deployment | None,
    name: str,
) -> HostOptions:
    follower, queries, limits = FollowerOptions(), QueryOptions(), ServerLimits()
    return HostOptions(
        changelog=changelog,
        data=data,
        address=address,
        port=port,
        token=given.token,
        open_to_all=given.open_to_all,
        tls_certificate=_bytes(given.tls_certificate),
        tls_key=_bytes(given.tls_key),
        tls_roots=_bytes(given.tls_roots),
        follower=FollowerOptions(
            poll_seconds=given.poll_interval or follower.poll_seconds,
            state=StateOptions() if given.cache is None else StateOptions(cache_bytes=given.cache),
            snapshots=_snapshots(given),
            scrubs=_scrubs(given),
        ),
        queries=QueryOptions(
            memory_limit_bytes=given.memory or queries.memory_limit_bytes,
            threads=given.threads or queries.threads,
            spill_limit_bytes=queries.spill_limit_bytes if given.spill is None else given.spill,
            answer_bytes=given.answers,
        ),
        limits=ServerLimits(max_statements=given.max_statements or limits.max_statements),
        deployment=deployment,
        name=name,
    )


def _snapshots(given: ServeArguments) -> SnapshotOptions:
    options = SnapshotOptions()
    return replace(
        options,
        after_bytes=options.after_bytes if given.snapshot_after is None else given.snapshot_after,
        retention=snapshot_retention(given.snapshots_kept, given.snapshot_tail),
    )


def _scrubs(given: ServeArguments) -> ScrubOptions:
    default = ScrubOptions()
    return ScrubOptions(
        default.rate_bytes if given.scrub_rate is None else given.scrub_rate * MIB,
        default.every_seconds if given.scrub_every is None else given.scrub_every,
    )


def snapshot_retention(kept: int | None, tail_seconds: float | None) -> SnapshotRetention:
    """What stays of a changelog before its snapshots.

    Args:
        kept: How many snapshots stay; None for the default.
        tail_seconds: Seconds for which epochs before them stay; None for the default.
    """
    default = SnapshotRetention()
    return replace(
        default,
        kept=kept or default.kept,
        tail_seconds=default.tail_seconds if tail_seconds is None else tail_seconds,
    )


def read_deployment(file: Path) -> Deployment:
    """Read a deployment file.

    Args:
        file: Where it is.

    Returns:
        The deployment.

    Raises:
        InvalidInput: It cannot be read, or is no deployment.
    """
    try:
        return parse_deployment(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(f"The deployment file cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InvalidInput("The deployment file is not text in UTF-8.") from error


def _bytes(file: Path | None) -> bytes:
    if file is None:
        return b""
    try:
        return file.read_bytes()
    except OSError as error:
        raise InvalidInput(f"A file with a certificate or key cannot be read: {error.strerror}.") from error


def _port(entry: HostEntry) -> int:
    try:
        port = urlsplit(entry.uri).port
    except ValueError as error:
        raise InvalidInput(f"The uri of host {entry.name} has no port from 1 to 65535.") from error
    return DEFAULT_PORT if port is None else port


# ---- several processes


def local_deployment(given: ServeArguments) -> Deployment:
    """The deployment of several host processes on this machine.

    Args:
        given: The command line, with `processes`.

    Returns:
        Hosts named `1`, `2`, … on consecutive ports, each with a directory of its own in the data directory.

    Raises:
        InvalidInput: Something is missing or contradicts the rest.
    """
    if given.deployment is not None or given.host is not None:
        raise InvalidInput("--processes makes a deployment of its own: leave --deployment and --host out.")
    if given.changelog is None or given.data is None or given.processes is None:
        raise InvalidInput("Give the processes a --changelog and a --data directory.")
    ports = _ports(given)
    scheme = "grpc" if given.tls_certificate is None else "grpc+tls"
    address = _reachable_address(given.address or LOOPBACK)
    hosts = tuple(
        HostEntry(
            HostName(str(number)),
            f"{scheme}://{address}:{port}",
            str((given.data / f"host-{number}").absolute()),
        )
        for number, port in enumerate(ports, 1)
    )
    replication = given.replication or 1
    if replication > len(hosts):
        raise InvalidInput(
            f"{len(hosts)} processes cannot hold {replication} copies of a partition: lower --replication."
        )
    return Deployment(given.changelog, hosts, replication)


def _ports(given: ServeArguments) -> Sequence[int]:
    assert given.processes is not None
    first = DEFAULT_PORT if given.port is None else given.port
    if first == 0:
        return free_ports(LOOPBACK, 0, given.processes)
    return range(first, first + given.processes)


def _reachable_address(address: str) -> str:
    """An address under which a process that listens on all interfaces is reached from this machine."""
    try:
        number = ipaddress.ip_address(address)
    except ValueError:
        return address
    if number.is_unspecified:
        return LOOPBACK
    return f"[{address}]" if number.version == 6 else address


def deployment_text(deployment: Deployment) -> str:
    """A deployment as a file that `parse_deployment` reads back.

    Args:
        deployment: Any.
    """
    lines = [
        "version = 1",
        f"changelog = {_toml(deployment.changelog)}",
        f"replication = {deployment.replication}",
    ]
    for entry in deployment.hosts:
        lines += ["", "[[hosts]]", f"name = {_toml(entry.name)}", f"uri = {_toml(entry.uri)}"]
        if entry.data is not None:
            lines.append(f"data = {_toml(entry.data)}")
    return "\n".join(lines) + "\n"


def _toml(text: str) -> str:
    # TOML's basic strings escape what JSON's do, but for DEL.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
