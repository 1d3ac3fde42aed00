"""A cluster in this process: several hosts, each with its partitions, whose query services ask each other
without a network.

What passes between two hosts goes through Arrow IPC bytes and back, so types travel as they do over the wire.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Condition
from typing import Any

import pyarrow as pa

from engine.changelog import Changelog
from engine.cluster.assignment import Assignment
from engine.cluster.fragments import FragmentRequest, FragmentRows
from engine.cluster.reports import HostName, HostReport, HostStatus
from engine.coordinator.deployment_hosts import DeploymentHosts
from engine.errors import Unavailable
from engine.exec.query_result import QueryResult
from engine.model.schema import Epoch, GroupName, StoreDefinition
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.scan import StoreSource
from engine.service import QueryOptions, QueryService
from flight_server.wire.dictionary_encoding import Repeated, decode
from tests.support.held_source import HeldSource, rows_by_partition

SMALL = QueryOptions(memory_limit_bytes=512 << 20, threads=1)
"""Options of hosts that share a process with others."""
FLOWING = replace(SMALL, merge_table_bytes=0, batch_bytes=256)
"""Likewise; merges read all rows as they come, in many batches, where they can."""


def host_names(count: int) -> tuple[HostName, ...]:
    """Names for so many hosts: a, b, c …"""
    return tuple(HostName(chr(ord("a") + number)) for number in range(count))


class TravelledRows:
    """Rows of a fragment, as a peer gets them: each batch is bytes in between."""

    def __init__(self, result: QueryResult) -> None:
        self._result = result
        self.schema = pa.ipc.read_schema(pa.py_buffer(result.schema.serialize()))
        self.metadata: Mapping[str, Any] = vars(result.metadata)
        self.nbytes = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        for batch in self._result:
            repeated = Repeated.from_sample(self.schema, [batch])
            for travelling in repeated.pieces(batch):
                self.nbytes += travelling.nbytes
                sent = pa.Table.from_batches([travelling], repeated.schema)
                for arrived in pa.ipc.open_stream(_bytes_of(sent)):
                    yield decode(arrived, self.schema)

    def close(self) -> None:
        self._result.close()


def _bytes_of(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _send_and_parse(request: FragmentRequest) -> FragmentRequest:
    """A request as it arrives."""
    inputs = {name: pa.ipc.open_stream(_bytes_of(table)).read_all() for name, table in request.inputs.items()}
    parameters = request.parameters
    if parameters is not None:
        (parameters,) = (
            pa.ipc.open_stream(_bytes_of(pa.Table.from_batches([parameters]))).read_all().to_batches()
        )
    return replace(request, inputs=inputs, parameters=parameters)


class Cluster:
    """Hosts in this process.

    Args:
        sources: What each host holds.
        assignment: Which host holds what.
        options: Limits of every host's query service.
        clock: The clock of every host.
        spill: Where each host gets a spill directory; None: nowhere.

    Attributes:
        sources: What each host holds.
        services: The query service of each host.
        asked: How many fragments each host was asked for by others.
    """

    def __init__(
        self,
        sources: Mapping[HostName, StoreSource],
        assignment: Assignment,
        options: QueryOptions = SMALL,
        clock: Callable[[], int] = time.time_ns,
        spill: Path | None = None,
    ) -> None:
        self.sources = sources
        self.asked: Counter[HostName] = Counter()
        self._stopped: set[HostName] = set()
        self._changes = 0
        self._changed = Condition()
        self.services = {
            host: QueryService(
                source,
                options if spill is None else replace(options, spill_directory=spill / host),
                cluster=DeploymentHosts(DirectPeers(self, host), host, assignment.order),
                clock=clock,
            )
            for host, source in sources.items()
        }

    @property
    def hosts(self) -> tuple[HostName, ...]:
        """Names of the hosts, dead ones among them."""
        return tuple(self.sources)

    def stop(self, host: HostName) -> None:
        """From now on a host neither reports nor answers others."""
        self._stopped.add(host)
        self.changed()

    def restart(self, host: HostName) -> None:
        """A stopped host is there again."""
        self._stopped.discard(host)
        self.changed()

    def is_alive(self, host: HostName) -> bool:
        """Whether a host answers."""
        return host not in self._stopped

    def changed(self) -> None:
        """Tell whoever waits that a report is newer."""
        with self._changed:
            self._changes += 1
            self._changed.notify_all()

    @property
    def changes(self) -> int:
        """How often a report has changed."""
        return self._changes

    def wait_for_change(self, before: int, timeout_seconds: float) -> bool:
        """Wait until reports have changed more often than that; False after the time-out."""
        with self._changed:
            return self._changed.wait_for(lambda: self._changes != before, timeout_seconds)

    def wait_for(self, epochs: Mapping[GroupName, Epoch], timeout_seconds: float) -> None:
        """Wait until every host has these epochs.

        Raises:
            TimeoutError: A host still lacks one.
        """
        deadline = time.monotonic() + timeout_seconds
        while True:
            before = self._changes
            late = [host for host, source in self.sources.items() if not _has(source, epochs)]
            if not late:
                return
            if not self.wait_for_change(before, deadline - time.monotonic()):
                raise TimeoutError(f"Hosts {', '.join(late)} lack some of {dict(epochs)}.")

    def close(self) -> None:
        """Stop the query services."""
        for service in self.services.values():
            service.close()


def _has(source: StoreSource, epochs: Mapping[GroupName, Epoch]) -> bool:
    """Whether a host can read epochs, or later ones, of every store of these groups."""
    groups, stores = source.report()
    known = source.definitions()
    there = all(group in groups and groups[group].newest >= epoch for group, epoch in epochs.items())
    return there and all(
        not stores[name].rebuilding for name, definition in known.items() if definition.group in epochs
    )


class DirectPeers:
    """The hosts of a `Cluster` as one of them sees them: an `engine.cluster.fragments.Peers`.

    Args:
        cluster: The hosts.
        here: The one that sees them.
    """

    def __init__(self, cluster: Cluster, here: HostName) -> None:
        self._cluster = cluster
        self._seen = threading.local()
        self.here = here

    def reports(self) -> Mapping[HostName, HostReport]:
        self._seen.changes = self._cluster.changes
        alive = {
            host: source
            for host, source in self._cluster.sources.items()
            if self._cluster.is_alive(host) or host == self.here
        }
        return {host: HostReport(host, *source.report()) for host, source in alive.items()}

    def host_statuses(self) -> Mapping[HostName, HostStatus]:
        known = self.reports()
        return {
            host: HostStatus(alive=host in known, report=known.get(host)) for host in self._cluster.sources
        }

    def run(
        self, host: HostName, request: FragmentRequest, cancelled: Callable[[], bool] | None = None
    ) -> FragmentRows:
        if not self._cluster.is_alive(host):
            raise Unavailable(f"Host {host} does not answer.")
        self._cluster.asked[host] += 1
        return TravelledRows(
            self._cluster.services[host].execute_fragment(_send_and_parse(request), cancelled)
        )

    def hold(self, host: HostName, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        if not self._cluster.is_alive(host):
            raise Unavailable(f"Host {host} does not answer.")
        self._cluster.sources[host].hold(epochs, seconds)

    def wait_for_change(self, timeout_seconds: float) -> bool:
        return self._cluster.wait_for_change(getattr(self._seen, "changes", -1), timeout_seconds)


@contextmanager
def memory_cluster(
    definitions: Sequence[StoreDefinition],
    live: Mapping[str, pa.Table],
    hosts: Sequence[HostName],
    dead: Mapping[str, pa.Table] | None = None,
    options: QueryOptions = SMALL,
    clock: Callable[[], int] = time.time_ns,
    spill: Path | None = None,
) -> Iterator[Cluster]:
    """Hosts over stores in memory.

    Args:
        definitions: The stores.
        live: Live rows of each store.
        hosts: Names of the hosts.
        dead: Dead rows of stores.
        options: Limits of every host's query service.
        clock: The clock of every host.
        spill: Where each host gets a spill directory; None: nowhere.
    """
    stores = {each.name: (each, rows_by_partition(each, live[each.name])) for each in definitions}
    buried = {
        each.name: rows_by_partition(each, dead[each.name])
        for each in definitions
        if dead and each.name in dead
    }
    assignment = Assignment(tuple(hosts))
    held = {
        host: {each.name: assignment.held_partitions(host, each) for each in definitions} for host in hosts
    }
    cluster = Cluster(
        {host: HeldSource(stores, buried, held[host]) for host in hosts}, assignment, options, clock, spill
    )
    try:
        yield cluster
    finally:
        cluster.close()


@contextmanager
def following_cluster(
    changelog: Changelog,
    directory: Path,
    hosts: Sequence[HostName],
    follow: FollowerOptions | None = None,
    options: QueryOptions = SMALL,
    replication: int = 1,
    clock: Callable[[], int] = time.time_ns,
) -> Iterator[Cluster]:
    """Hosts that follow a changelog, each with its partitions in RocksDB.

    Args:
        changelog: What they follow.
        directory: A data directory for each host is made in it, or found there.
        hosts: Names of the hosts.
        follow: How they follow; what they hold is said by the assignment.
        options: Limits of every host's query service.
        replication: How many hosts hold a partition.
        clock: The clock of every host.
    """
    assignment = Assignment(tuple(hosts), replication)
    with ExitStack() as resources:
        followers = {}
        for host in hosts:
            (directory / host).mkdir(parents=True, exist_ok=True)
            held = replace(follow or FollowerOptions(), held=partial(assignment.held_partitions, host))
            followers[host] = Follower(changelog, directory / host, held)
            followers[host].start()
            resources.callback(followers[host].stop)
        cluster = Cluster(followers, assignment, options, clock)
        for follower in followers.values():
            follower.add_listener(cluster.changed)
        resources.callback(cluster.close)
        yield cluster
