"""Hosts that talk to each other over Flight, with a stand-in for what runs their fragments."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pyarrow as pa

from engine import errors
from engine.cluster.deployment import Deployment, HostEntry
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import ColumnReport, GroupReport, HostName, ReadableEpoch, StoreReport
from engine.errors import Cancelled, LivestateError
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName
from engine.service import QueryService
from flight_server.host.ports import free_ports
from flight_server.identity.authenticator import Authenticator
from flight_server.peers.deployment_member import ClusterHost
from flight_server.peers.peers import PeerOptions
from flight_server.server.limits import ServerLimits
from flight_server.server.server import LivestateServer
from tests.support.memory_source import MemorySource

GROUP = GroupName("songs")
BATCH = pa.record_batch({"n": pa.array(range(100_000), pa.int64()), "text": ["x" * 10] * 100_000})
OPTIONS = PeerOptions(heartbeat_seconds=0.05, dead_after_seconds=20.0)


class Stores(MemorySource):
    """No stores, and a report that a test moves forward.

    Attributes:
        epoch: The only one that can be read.
        columns: What the report says of columns.
        holds: What was asked to be kept, and for how many seconds.
    """

    def __init__(self) -> None:
        super().__init__([])
        self.epoch = 1
        self.columns: Mapping[str, ColumnReport] | None = None
        self.holds: list[tuple[Mapping[GroupName, Epoch], float]] = []

    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        return {}

    def hold(self, epochs: Mapping[GroupName, Epoch], seconds: float) -> None:
        if epochs != {GROUP: self.epoch}:
            raise errors.Unavailable("It is not there.")
        self.holds.append((epochs, seconds))

    def report(self) -> tuple[Mapping[GroupName, GroupReport], Mapping[StoreName, StoreReport]]:
        readable = (ReadableEpoch(Epoch(self.epoch), self.epoch),)
        return {GROUP: GroupReport(readable, Epoch(self.epoch))}, {
            StoreName("songs"): StoreReport((PartitionId(0),), columns=self.columns)
        }


class Counter:
    """What is open, counted.

    Attributes:
        value: How much it is.
    """

    def __init__(self) -> None:
        self.value = 0
        self._lock = threading.Lock()

    def open(self) -> None:
        with self._lock:
            self.value += 1

    def close(self) -> None:
        with self._lock:
            self.value -= 1


class Runner:
    """Runs what a test asks for by a word in place of SQL.

    Attributes:
        requests: What it was asked.
    """

    def __init__(self) -> None:
        self.requests: list[FragmentRequest] = []
        self._running = Counter()

    @property
    def running(self) -> int:
        """How many it runs."""
        return self._running.value

    def execute_fragment(self, request: FragmentRequest, cancelled: Callable[[], bool]) -> QueryResult:
        self.requests.append(request)
        self._running.open()
        word, _, rest = request.sql.partition(" ")
        try:
            return self._result(word, rest, request, cancelled)
        except LivestateError:
            self._running.close()
            raise

    def _result(
        self, word: str, rest: str, request: FragmentRequest, cancelled: Callable[[], bool]
    ) -> QueryResult:
        metadata = QueryMetadata("engine", dict(request.epochs), rows_read=3)
        match word:
            case "inputs":
                table = pa.concat_tables(request.inputs.values())
                return QueryResult(table.schema, metadata, iter(table.to_batches()), self._running)
            case "rows":
                return QueryResult(BATCH.schema, metadata, iter([BATCH] * int(rest)), self._running)
            case "slow":
                while not cancelled():
                    time.sleep(0.01)
                raise Cancelled("The statement was cancelled.")
            case "breaks":
                return QueryResult(BATCH.schema, metadata, self._break_off(rest), self._running)
            case kind:
                raise getattr(errors, kind, errors.InvalidInput)(rest)

    def _break_off(self, kind: str) -> Iterator[pa.RecordBatch]:
        yield from [BATCH] * 10
        raise getattr(errors, kind)("It broke in the midst of it.")


@dataclass
class PeerHost:
    """One host.

    Attributes:
        name: Its name.
        uri: Where it listens.
        stores: Its stores.
        runner: Runs its fragments.
        cluster: Its part in the deployment.
        server: What listens.
    """

    name: HostName
    uri: str
    stores: Stores
    runner: Runner
    cluster: ClusterHost
    server: LivestateServer
    resources: ExitStack = field(repr=False)


def entries(*names: str) -> tuple[HostEntry, ...]:
    """Hosts on free ports of this machine."""
    ports = free_ports("127.0.0.1", 0, len(names))
    return tuple(
        HostEntry(HostName(name), f"grpc://127.0.0.1:{port}") for name, port in zip(names, ports, strict=True)
    )


@contextmanager
def peer_host(
    hosts: tuple[HostEntry, ...],
    name: str,
    options: PeerOptions = OPTIONS,
    limits: ServerLimits | None = None,
    changelog: str = "id",
) -> Iterator[PeerHost]:
    """Start one of the hosts; stop it at the end."""
    stores, runner = Stores(), Runner()
    deployment = Deployment("changelog", hosts)
    with ExitStack() as resources:
        cluster = ClusterHost(deployment, HostName(name), stores, lambda: changelog, options)
        service = QueryService(stores)
        resources.callback(service.close)
        uri = deployment.host(name).uri
        server = LivestateServer(
            uri,
            service,
            lambda group: None,
            authenticator=None
            if options.connection.token is None
            else Authenticator(token=options.connection.token),
            limits=limits,
            cluster=cluster,
            fragments=runner,
        )
        resources.callback(server.stop, 5.0)
        cluster.start()
        resources.callback(cluster.stop)
        yield PeerHost(HostName(name), uri, stores, runner, cluster, server, resources)
