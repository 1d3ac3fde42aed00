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

from engine.changelog.snapshot import snapshot_retention
from engine.cluster.deployment import Deployment, HostEntry, parse_deployment
from engine.cluster.reports import HostName
from engine.errors import InvalidInput
from engine.replica.follower_options import FollowerOptions
from engine.replica.scrubber import MIB, ScrubOptions
from engine.replica.snapshot_options import SnapshotOptions
from engine.service import QueryOptions
from engine.state.state_options import StateOptions
from flight_server.client.secret_files import check_certificate_key, read_secret
from flight_server.host.host import DEFAULT_PORT, GRACE_SECONDS, HostOptions
from flight_server.host.ports import free_ports
from flight_server.server.limits import ServerLimits

LOOPBACK = "127.0.0.1"
DEPLOYMENT_FILE = "livestate.toml"
_PORTS = 65_536
SLOW_SECONDS = 1.0
"""How long the quickest statement takes that the log has with its plan."""
_FEWEST_RESULTS, _RESULT_BYTES = 16, 16 << 20
"""For how much of the engine's memory one large result may be on its way, and how many may be at least."""


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
        advertise: What others dial, address and perhaps port; with several processes.
        http_address: Where probes and metrics are answered, address and port; with several processes the port
            of the first.
        grace: Seconds for which running statements may go on at a stop.
        poll_interval: Seconds between looks for epochs.
        memory: Bytes that queries may use.
        spill: Bytes of disk that they may use beyond that; 0 for none.
        answers: Bytes for answers that are kept; 0 for none.
        cache: Bytes for decoded columns.
        threads: Threads for queries.
        apply_threads: Partitions that take an epoch side by side.
        compaction_threads: Partitions that are compacted side by side.
        max_statements: Statements computed at once.
        max_lag: Seconds ago that the oldest commit may be which an answer lacks.
        snapshot_after: Bytes of changelog after which a snapshot is due; 0 for never.
        snapshots_kept: How many snapshots stay, with the epochs behind them.
        snapshot_tail: Seconds for which epochs before them stay.
        scrub_every: Seconds from one scrub to the next; 0 for none.
        scrub_rate: MiB a second that one reads at most.
        token: What callers must present.
        security: File that says how callers prove who they are.
        audit_log: File that gets a line for what is asked and refused.
        audit_digests: The lines have digests of statements alone.
        log_format: How lines of the log look.
        log_level: Which lines there are.
        slow_statement: Seconds of the quickest statement that the log has with its plan; 0 for none.
        open_to_all: May be open to other machines.
        insecure: May do without TLS there.
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
    advertise: str | None = None
    http_address: str | None = None
    grace: float | None = None
    poll_interval: float | None = None
    memory: int | None = None
    spill: int | None = None
    answers: int | None = None
    cache: int | None = None
    threads: int | None = None
    apply_threads: int | None = None
    compaction_threads: int | None = None
    max_statements: int | None = None
    max_lag: float | None = None
    snapshot_after: int | None = None
    snapshots_kept: int | None = None
    snapshot_tail: float | None = None
    scrub_every: float | None = None
    scrub_rate: float | None = None
    token: str | None = field(default=None, repr=False)
    security: Path | None = None
    audit_log: Path | None = None
    audit_digests: bool = False
    log_format: str = "text"
    log_level: str = "info"
    slow_statement: float = SLOW_SECONDS
    open_to_all: bool = False
    insecure: bool = False
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
    _check_company(given)
    if given.replication is not None:
        raise InvalidInput(
            "--replication is for --processes: leave --replication out. In a deployment its file says how "
            "many hosts hold a partition."
        )
    if given.deployment is None:
        return _lone_host(given)
    if given.host is None:
        raise InvalidInput("A deployment has several hosts: say with --host which of them this is.")
    if given.changelog is not None:
        raise InvalidInput(
            "The deployment file says which changelog it is: leave --changelog out, or LIVESTATE_CHANGELOG."
        )
    if given.advertise is not None:
        raise InvalidInput(
            "What others dial is the host's uri in the deployment file: leave --advertise out. Where the "
            "host listens is --address."
        )
    deployment = read_deployment(given.deployment)
    entry = deployment.host(given.host)
    place = urlsplit(entry.uri)
    _check_reachable(deployment)
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


def _check_company(given: ServeArguments) -> None:
    """Refuse an option that says nothing without another one, which somebody may believe to be there."""
    if given.audit_digests and given.audit_log is None:
        raise InvalidInput(
            "There is no audit log without --audit-log: name its file, or leave --audit-digests out."
        )


def _lone_host(given: ServeArguments) -> HostOptions:
    if given.host is not None:
        raise InvalidInput(
            "--host is the name of a host in a --deployment; the address to listen on is --address."
        )
    if given.changelog is None or given.data is None:
        raise InvalidInput(
            "Give the host its --changelog and its --data, or a --deployment file and its --host name."
        )
    if given.advertise is not None:
        raise InvalidInput(
            "A host without others tells nobody where it is: leave --advertise out; where it listens is "
            "--address."
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
    poll_seconds = given.poll_interval or follower.poll_seconds
    if given.max_lag is not None and given.max_lag < 2 * poll_seconds:
        raise InvalidInput(
            f"The host looks for epochs every {poll_seconds:g} seconds (--poll-interval): --max-lag must be "
            "at least twice that."
        )
    certificate, key = _certificate_and_key(given)
    return HostOptions(
        changelog=changelog,
        data=data,
        address=address,
        port=port,
        token=given.token,
        security=given.deployment
        if given.security is None and deployment is not None and deployment.has_security
        else given.security,
        audit_log=given.audit_log,
        audits_texts=not given.audit_digests,
        slow_seconds=given.slow_statement or None,
        open_to_all=given.open_to_all,
        insecure=given.insecure,
        tls_certificate=certificate,
        tls_key=key,
        tls_roots=_bytes(given.tls_roots),
        grace_seconds=GRACE_SECONDS if given.grace is None else given.grace,
        http=None if given.http_address is None else parse_http_address(given.http_address),
        follower=FollowerOptions(
            poll_seconds=poll_seconds,
            state=StateOptions() if given.cache is None else StateOptions(cache_bytes=given.cache),
            snapshots=_snapshots(given),
            scrubs=_scrubs(given),
            apply_threads=given.apply_threads or follower.apply_threads,
            compaction_threads=given.compaction_threads or follower.compaction_threads,
        ),
        queries=QueryOptions(
            memory_limit_bytes=given.memory or queries.memory_limit_bytes,
            threads=given.threads or queries.threads,
            spill_limit_bytes=queries.spill_limit_bytes if given.spill is None else given.spill,
            answer_bytes=given.answers,
            max_lag_seconds=given.max_lag,
        ),
        limits=replace(
            limits,
            max_statements=given.max_statements or limits.max_statements,
            max_results=_most_results(given.memory or queries.memory_limit_bytes, limits),
        ),
        deployment=deployment,
        name=name,
    )


def _most_results(memory_bytes: int, limits: ServerLimits) -> int:
    """How many large results may be on their way: what they hold, up to 12 MiB each, is of the engine's
    memory for the most part, of which others need some, too.
    """
    return max(_FEWEST_RESULTS, min(limits.max_results, memory_bytes // _RESULT_BYTES))


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


def _certificate_and_key(given: ServeArguments) -> tuple[bytes, bytes]:
    certificate = _bytes(given.tls_certificate)
    key = b"" if given.tls_key is None else read_secret(given.tls_key, "The file with the host's key")
    if given.tls_certificate is not None and given.tls_key is not None:
        check_certificate_key(given.tls_certificate, given.tls_key)
    return certificate, key


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
    if given.http_address is not None:
        parse_http_address(given.http_address)
    _check_company(given)
    if given.deployment is not None or given.host is not None:
        raise InvalidInput("--processes makes a deployment of its own: leave --deployment and --host out.")
    if given.changelog is None or given.data is None or given.processes is None:
        raise InvalidInput("Give the processes a --changelog and a --data directory.")
    scheme = "grpc" if given.tls_certificate is None else "grpc+tls"
    hosts = tuple(
        HostEntry(
            HostName(str(number)), f"{scheme}://{place}", str((given.data / f"host-{number}").absolute())
        )
        for number, place in enumerate(_advertised_places(given, _ports(given)), 1)
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
    if first + given.processes > _PORTS:
        raise InvalidInput(
            f"There are not {given.processes} ports from {first} on: give a --port of "
            f"{_PORTS - given.processes} or less."
        )
    return range(first, first + given.processes)


def _advertised_places(given: ServeArguments, ports: Sequence[int]) -> Sequence[str]:
    """Address and port of each process, as others dial them."""
    address = given.address or LOOPBACK
    if given.advertise is not None:
        address, first = _parse_place("--advertise", given.advertise)
        if first is not None:
            ports = range(first, first + len(ports))
    if not is_wildcard(address):
        return [f"[{address}]:{port}" if ":" in address else f"{address}:{port}" for port in ports]
    if len(ports) > 1:
        raise InvalidInput(
            f"Nobody can dial {address}, and each process tells the others and its clients where it is: say "
            "with --advertise by which name or number this machine is reached."
        )
    return [f"{LOOPBACK}:{port}" for port in ports]


def _check_reachable(deployment: Deployment) -> None:
    for entry in deployment.hosts:
        address = urlsplit(entry.uri).hostname
        if len(deployment.hosts) > 1 and address is not None and is_wildcard(address):
            raise InvalidInput(
                f"The uri of host {entry.name} in the deployment file is what others dial, and nobody can "
                f"dial {address}: name the host there as others reach it, and have it listen with --address "
                f"{address}."
            )


def is_wildcard(address: str) -> bool:
    """Whether an address stands for all interfaces of a machine: one can listen there, and not dial it.

    Args:
        address: A name or number.
    """
    try:
        return ipaddress.ip_address(address).is_unspecified
    except ValueError:
        return False


def parse_http_address(text: str) -> tuple[str, int]:
    """Where probes and metrics are answered.

    Args:
        text: Address and port, such as `127.0.0.1:9464` or `[::1]:9464`.

    Returns:
        Address and port.

    Raises:
        InvalidInput: It is none.
    """
    address, port = _parse_place("--http-address", text, least_port=0)
    if port is None:
        raise InvalidInput(f"--http-address is {text!r}; it must have a port, too, such as 127.0.0.1:9464.")
    return address, port


def _parse_place(option: str, text: str, least_port: int = 1) -> tuple[str, int | None]:
    """Address and perhaps port of `HOST`, `HOST:PORT` or `[HOST]:PORT`."""
    try:
        parts = urlsplit(f"//{text}")
        address, port = parts.hostname, parts.port
    except ValueError:
        address, port = None, None
    # Blanks, paths, users and half addresses of version 6 are all that can be beside the two.
    said = f"[{address}]" if address and ":" in address else address
    if not address or text.lower() != (said if port is None else f"{said}:{port}"):
        raise InvalidInput(
            f"{option} is {text!r}; it must be an address such as db1.example or 10.0.0.7:8815."
        )
    if port is not None and port < least_port:
        raise InvalidInput(f"{option} has port {port}; it must be from {least_port} to 65535.")
    return address, port


def http_address_of(given: ServeArguments, entry: HostEntry) -> str | None:
    """Where one of several processes answers probes and metrics: on consecutive ports, or on free ones.

    Args:
        given: The command line of all.
        entry: One of `local_deployment`.

    Returns:
        Its `--http-address`; None for nowhere.
    """
    if given.http_address is None:
        return None
    address, port = parse_http_address(given.http_address)
    shown = f"[{address}]" if ":" in address else address
    return f"{shown}:{port + int(entry.name) - 1 if port else 0}"


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
