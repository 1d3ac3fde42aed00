"""Three hosts of one deployment in this process, that talk over the network."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from engine.changelog import Changelog, append_table
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.reports import HostName
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryOptions
from flight_server.client.client import Client
from flight_server.host.host import Host, HostOptions
from flight_server.host.ports import free_ports
from flight_server.server.limits import ServerLimits
from tests.support.plays import PARTITIONS, PLAYS, STORE
from tests.support.waiting import wait_until

NAMES = ("a", "b", "c")


def _start_host(
    deployment: Deployment,
    name: HostName,
    directory: Path,
    limits: ServerLimits,
    queries: QueryOptions,
    slow_seconds: float | None,
    http: tuple[str, int] | None,
    follower: FollowerOptions,
) -> Host:
    port = int(deployment.host(name).uri.rpartition(":")[2])
    data = directory / name
    options = HostOptions(
        deployment.changelog,
        data,
        port=port,
        limits=limits,
        queries=queries,
        deployment=deployment,
        name=name,
        grace_seconds=0.2,
        slow_seconds=slow_seconds,
        http=http,
        follower=follower,
    )
    host = Host(options)
    host.start()
    return host


@contextmanager
def three_hosts(
    directory: Path,
    limits: ServerLimits | None = None,
    queries: QueryOptions | None = None,
    replication: int = 1,
    slow_seconds: float | None = None,
    http: tuple[str, int] | None = None,
    follower: FollowerOptions | None = None,
) -> Iterator[dict[HostName, Host]]:
    """Hosts a, b and c that know each other, with all rows of the store `plays` among them.

    Args:
        directory: For the changelog and their data.
        limits: What each host takes on at once.
        queries: Limits of queries.
        replication: How many hosts hold a partition.
        slow_seconds: How long the quickest statement takes that the log has; None: it has none.
        http: Where each of them answers probes and metrics; None: nowhere.
        follower: How they follow the changelog.
    """
    changelog = str(directory / "changelog")
    append_table(Changelog.open(changelog), STORE, PLAYS)
    ports = free_ports("127.0.0.1", 0, 3)
    entries = tuple(
        HostEntry(HostName(name), f"grpc://127.0.0.1:{port}") for name, port in zip(NAMES, ports, strict=True)
    )
    deployment = Deployment(changelog, entries, replication)
    with ExitStack() as resources:
        hosts = {}
        for entry in entries:
            hosts[entry.name] = _start_host(
                deployment,
                entry.name,
                directory,
                limits or ServerLimits(),
                queries or QueryOptions(),
                slow_seconds,
                http,
                follower or FollowerOptions(),
            )
            resources.callback(hosts[entry.name].stop)
        for entry in entries:
            with Client(entry.uri) as client:
                wait_until(lambda client=client: _sees_all(client), 60)  # type: ignore[misc] # mypy gives lambdas with defaults no type
        yield hosts


def _sees_all(client: Client) -> bool:
    """Whether a host knows who holds each of the partitions, and that they are alive."""
    rows = client.replicas().to_pylist()
    held = [
        number
        for row in rows
        if row["alive"] and row["epoch"] == row["newest_epoch"]
        for number in row["partitions"]
    ]
    return sorted(set(held)) == list(range(PARTITIONS))


def count_running(hosts: Mapping[HostName, Host]) -> int:
    """How many statements and fragments run on all of them."""
    return sum(host.running_queries for host in hosts.values())
