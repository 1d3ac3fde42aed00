"""What a principal may have at once, by its roles: each limit is told by its name and the role's."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.access.principal import EngineLimit, Limit, LimitName, Principal, Proof
from engine.changelog import Changelog, append_table
from engine.cluster.fragments import FragmentRequest
from engine.errors import Cancelled, LimitExceeded, LivestateError, NotFound, Unavailable
from engine.model.schema import Epoch, GroupName, define_store
from engine.service import QueryOptions
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host, HostOptions
from flight_server.server.connections import COUNTED_SECONDS, KEPT_SECONDS, MOST_KEPT, Connections
from flight_server.server.ledger import Ledger, Pace
from flight_server.server.limits import ServerLimits, Share, Slots
from flight_server.server.result_streams import wait_for_pace
from flight_server.server.running_calls import Calls
from flight_server.server.sessions import TIMEOUT_HEADER
from flight_server.wire.fragment_messages import FragmentTicket
from flight_server.wire.messages import new, pack
from tests.protocol.test_cluster_hosts import several
from tests.security.test_scopes import ROWS, TRADES, append
from tests.support.started_host import start_host
from tests.support.waiting import wait_until, wait_until_served

ROLES = """
[roles.desk]
stores = ["*"]
max_connections = 3
max_key_streams = 1
max_held_epochs = 1
max_notifications_per_second = 1
max_result_bytes_per_second = 1000000000
[roles.writer]
max_connections = 100
max_key_streams = 1
max_held_epochs = 1
max_notifications_per_second = 1
"""


class Clock:
    """A clock that is set by hand."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def principal(**limits: int) -> Principal:
    return Principal(
        "ann",
        frozenset({"desk"}),
        Proof.TOKEN,
        limits={LimitName(name): Limit(most, "desk") for name, most in limits.items()},
    )


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, str]]:
    place = tmp_path_factory.mktemp("limits")
    append(str(place / "changelog"), TRADES, ROWS)
    token = add_token(place / "tokens.toml", "ann", ["desk"], {}, None)
    writer = add_token(place / "tokens.toml", "job", ["desk", "writer"], {}, None)
    (place / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\n{ROLES}')
    options = HostOptions(str(place / "changelog"), place / "data", port=0, security=place / "security.toml")
    with start_host(options) as started:
        yield started, f"{token} {writer}"


def client_of(host: tuple[Host, str], place: int) -> Client:
    return Client(ConnectionOptions((host[0].uri,), host[1].split()[place]), timeout_seconds=60)


def test_one_with_many_streams_of_keys_leaves_others_their_share(tmp_path: Path) -> None:
    append(str(tmp_path / "changelog"), TRADES, ROWS)
    tokens = [add_token(tmp_path / "tokens.toml", name, ["reader"], {}, None) for name in ("service", "ann")]
    security = tmp_path / "security.toml"
    security.write_text('[security]\ntokens = "tokens.toml"\n')
    limits = ServerLimits(max_key_streams=4)
    uri = str(tmp_path / "changelog")
    with ExitStack() as resources:
        host = resources.enter_context(
            start_host(HostOptions(uri, tmp_path / "data", port=0, security=security, limits=limits))
        )
        service, ann = (
            resources.enter_context(Client(ConnectionOptions((host.uri,), token), timeout_seconds=60))
            for token in tokens
        )
        streams = [resources.enter_context(client.keys("trades")) for client in [service] * 4 + [ann] * 2]
        for client in (service, ann):
            with pytest.raises(LimitExceeded, match="4 streams of keys are open on this host"):
                client.keys("trades")
        assert all(stream.get(3) is not None for stream in streams)


def test_each_limit_is_told_by_name_and_role(host: tuple[Host, str]) -> None:
    with client_of(host, 0) as ann, client_of(host, 1) as job:
        with ann.keys("trades", ["amount"]) as stream:
            assert stream.get(3) == {"amount": "3"}
            with pytest.raises(LimitExceeded, match=r"role desk may have \(max_key_streams\)"):
                ann.keys("trades").get(3)
        group = TRADES.group
        for refused in (f'"{group}": 999', '"nothing": 1'):
            with pytest.raises((NotFound, Unavailable)):
                ann.act("livestate.hold", f'{{"epochs": {{{refused}}}, "seconds": 60}}'.encode())
        ann.act("livestate.hold", f'{{"epochs": {{"{group}": 2}}, "seconds": 60}}'.encode())
        ann.act("livestate.hold", f'{{"epochs": {{"{group}": 2}}, "seconds": 60}}'.encode())
        with pytest.raises(LimitExceeded, match=r"more than the 1 of the role desk \(max_held_epochs\)"):
            ann.act("livestate.hold", f'{{"epochs": {{"{group}": 1}}, "seconds": 60}}'.encode())
        with pytest.raises(LimitExceeded, match=r"role \w+ may \(max_notifications_per_second\)"):
            for _ in range(1000):
                job.notify()
        assert ann.query("SELECT * FROM trades").read_all().num_rows == len(ROWS)
    words = r"3 connections.* role desk may have \(max_connections\)"
    with ExitStack() as resources, pytest.raises(LimitExceeded, match=words):
        for _ in range(4):
            client = resources.enter_context(client_of(host, 0))
            client.query("SELECT count(*) FROM trades").read_all()


def test_connections_that_are_silent_count_no_more() -> None:
    clock = Clock()
    connections, ann = Connections(clock), principal(max_connections=2)
    for peer in ("a", "b", "a"):
        connections.note_call(ann, peer)
    with pytest.raises(LimitExceeded):
        connections.note_call(ann, "c")
    clock.now += COUNTED_SECONDS
    connections.note_call(ann, "c")
    connections.note_call(ann, "b")
    with pytest.raises(LimitExceeded):
        connections.note_call(ann, "a")
    assert [(each.peer, each.calls) for each in connections.recent()] == [("a", 2), ("b", 2), ("c", 1)]
    clock.now += KEPT_SECONDS + 1
    assert not connections.recent()


def test_connections_are_counted_by_a_clock_that_nobody_sets() -> None:
    connections, before, wall = Connections(), time.monotonic(), time.time()
    connections.note_call(principal(max_connections=1), "a")
    (kept,) = connections.recent()
    assert before <= kept.latest <= time.monotonic()
    assert connections.idle_seconds(kept) < COUNTED_SECONDS
    assert kept.since == pytest.approx(wall, abs=COUNTED_SECONDS)


def test_what_is_known_of_connections_is_bounded() -> None:
    clock = Clock()
    connections = Connections(clock)
    for number in range(MOST_KEPT + 10):
        clock.now += 0.001
        connections.note_call(principal(), str(number))
    kept = {each.peer for each in connections.recent()}
    assert len(kept) <= MOST_KEPT
    assert str(MOST_KEPT + 9) in kept
    assert "0" not in kept


def test_a_pace_lets_a_second_through_at_once() -> None:
    clock = Clock()
    pace = Pace(100, clock)
    assert pace.take(100) == 0.0
    assert pace.take(50) == 0.0
    assert pace.take(1) == pytest.approx(0.5)
    clock.now += 10
    assert pace.try_take(60)
    assert not pace.try_take(60)
    assert pace.try_take(40)


def test_what_is_cancelled_while_it_waits_need_not_be_paid_for() -> None:
    pace, call = Pace(100, Clock()), Calls().begin(b"", None)
    pace.take(200)
    call.cancel()
    with pytest.raises(Cancelled):
        wait_for_pace(pace, [pa.table({"a": pa.array(range(1000), pa.int64())})], call)
    assert pace.take(1) == pytest.approx(1.0)


def test_held_epochs_end() -> None:
    clock = Clock()
    ledger, ann = Ledger(clock), principal(max_held_epochs=2)
    group = GroupName("g")
    for epoch in (1, 2, 2):
        ledger.note_hold(ann, {group: Epoch(epoch)}, 60)
    with pytest.raises(LimitExceeded):
        ledger.note_hold(ann, {group: Epoch(3)}, 60)
    clock.now += 61
    ledger.note_hold(ann, {group: Epoch(3)}, 60)
    assert ledger.result_pace(ann) is None
    assert ledger.result_pace(principal(max_result_bytes_per_second=5)) is not None


def test_a_role_has_a_queue_of_its_own() -> None:
    slots = Slots("max_statements", 1, max_waiting=10, max_wait_seconds=60)
    share = Share("ann", None, Limit(1, "desk"))
    slots.take(share=share)
    waiting = threading.Thread(target=slots.take, args=(None, share))
    waiting.start()
    wait_until(lambda: slots.waiting == 1)
    with pytest.raises(LimitExceeded, match=r"ann has 1 requests .* role desk may have \(max_waiting\)"):
        slots.take(None, share)
    slots.give(share)
    waiting.join(60)


def test_a_result_comes_at_the_pace_of_its_role(tmp_path: Path) -> None:
    append(str(tmp_path / "changelog"), TRADES, ROWS)
    token = add_token(tmp_path / "tokens.toml", "ann", ["slow"], {}, None)
    quick = add_token(tmp_path / "tokens.toml", "bob", ["reader"], {}, None)
    roles = '[roles.slow]\nstores = ["*"]\nmax_result_bytes_per_second = 20000\n'
    (tmp_path / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\n{roles}')
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        security=tmp_path / "security.toml",
        limits=ServerLimits(max_statements=1, max_wait_seconds=5.0),
    )
    sql = "SELECT * FROM trades, range(200)"
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), token), timeout_seconds=60) as client,
        Client(ConnectionOptions((host.uri,), quick)) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        client.query(sql).read_all()
        held_back = pool.submit(lambda: client.query(sql).read_all())
        wait_until(lambda: rows_counted(client, sql) == [200 * len(ROWS)])
        # It holds up its client alone.
        rows = other.query("SELECT max(range) AS n FROM trades, range(2)").read_all()
        assert rows.to_pylist() == [{"n": 1}]
        ((call, *_),) = found(client, sql)
        client.query(f"CANCEL '{call}'").read_all()
        with pytest.raises(Cancelled):
            held_back.result(60)


def test_a_stream_of_keys_that_is_held_back_ends_with_its_client_and_with_the_host(tmp_path: Path) -> None:
    rows = pa.table({"id": pa.array(range(100), pa.int64()), "text": ["x" * 1000] * 100})
    append_table(Changelog.open(str(tmp_path / "changelog")), define_store("t", rows.schema, ["id"]), rows)
    token = add_token(tmp_path / "tokens.toml", "ann", ["slow"], {}, None)
    roles = '[roles.slow]\nstores = ["*"]\nmax_result_bytes_per_second = 100\n'
    (tmp_path / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\n{roles}')
    options = HostOptions(
        str(tmp_path / "changelog"),
        tmp_path / "data",
        port=0,
        grace_seconds=0.1,
        security=tmp_path / "security.toml",
    )
    with (
        ThreadPoolExecutor(1) as pool,
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), token), timeout_seconds=60) as client,
    ):

        def looked_up() -> int:
            """How many rows the host has found so far, whether they were sent or not."""
            assert host._server is not None
            return sum(each.rows for each in host._server.figures().totals.classes.values())

        gone = client.keys("t")
        assert gone.get_many(range(100)).num_rows == 100
        held_back = pool.submit(gone.get_many, range(100))
        wait_until(lambda: looked_up() == 200)
        gone._reader.cancel()
        with pytest.raises(LivestateError):
            held_back.result(60)
        wait_until(lambda: host.open_key_streams == 0)
        held_back = pool.submit(client.keys("t").get_many, range(100))
        wait_until(lambda: looked_up() == 300)
        assert host.stop()
        with pytest.raises(Unavailable, match="host is stopping"):
            held_back.result(60)


PIVOT = "PIVOT (SELECT id % 3 AS part, amount FROM trades) ON part USING count(amount)"
SLOW = "SELECT sum(hash(id + r.n)) FROM trades, range(1000000000) r(n)"


def test_what_reads_rows_to_tell_columns_holds_a_slot(tmp_path: Path) -> None:
    append(str(tmp_path / "changelog"), TRADES, ROWS)
    token = add_token(tmp_path / "tokens.toml", "ann", ["desk"], {}, None)
    roles = '[roles.desk]\nstores = ["*"]\nmax_statements = 1\n'
    (tmp_path / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\n{roles}')
    options = HostOptions(
        str(tmp_path / "changelog"), tmp_path / "data", port=0, security=tmp_path / "security.toml"
    )
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), token), timeout_seconds=60) as client,
        flight.connect(host.uri) as plain,
        ThreadPoolExecutor(1) as pool,
    ):

        def plan(sql: str, seconds: float = 60.0) -> list[Callable[[], object]]:
            proof = (b"authorization", f"Bearer {token}".encode())
            limit = (TIMEOUT_HEADER.encode(), str(seconds).encode())
            header = flight.FlightCallOptions(headers=[proof, limit])
            query = flight.FlightDescriptor.for_command(pack(new("CommandStatementQuery", query=sql)))
            body = pack(new("ActionCreatePreparedStatementRequest", query=sql))
            json_query = json.dumps({"sql": sql}).encode()
            return [
                partial(plain.get_flight_info, query, header),
                partial(plain.get_schema, query, header),
                lambda: list(plain.do_action(flight.Action("CreatePreparedStatement", body), header)),
                partial(plain.get_flight_info, flight.FlightDescriptor.for_command(json_query), header),
            ]

        running = pool.submit(lambda: client.query(SLOW).read_all())
        wait_until(lambda: len(found(client, SLOW)) == 1)
        for call in plan("SELECT id FROM trades"):
            call()
        for call in plan(PIVOT, seconds=0.5):
            with pytest.raises(pa.ArrowException, match="as many as the role desk may have at once"):
                call()
        ((statement, _),) = found(client, SLOW)
        client.query(f"CANCEL '{statement}'").read_all()
        with pytest.raises(Cancelled):
            running.result(60)
        for call in plan(PIVOT):
            call()
        assert client.query(PIVOT).read_all().num_rows == 1


def found(client: Client, sql: str) -> list[tuple[str, int]]:
    shown = client.query("SHOW STATEMENTS").read_all().to_pylist()
    return [(row["id"], row["rows_sent"]) for row in shown if row["statement"] == sql]


def rows_counted(client: Client, sql: str) -> list[int]:
    return [rows for _, rows in found(client, sql)]


EVENTS = define_store("events", pa.schema([("id", pa.int64()), ("note", pa.string())]), ["id"], partitions=6)
MANY = 300_000
EVENT_ROWS = pa.table(
    {
        "id": pa.array(range(MANY), pa.int64()),
        "note": [f"what somebody says of event {key * 7919 % MANY:08}" for key in range(MANY)],
    }
)
GROUPS = "SELECT note, count(*) AS n, min(id) AS id FROM events GROUP BY note"
FEW = 3000
FEW_GROUPS = f"SELECT md5(note) AS m, count(*) AS n FROM events WHERE id < {FEW} GROUP BY m"
WIDE = ", ".join(f"md5(note || '{name}') AS {name}" for name in "abcde")
ENGINE_BYTES = 16 << 20
OVER = rf"more memory than the {ENGINE_BYTES} bytes of the role desk \(max_engine_bytes\)"
ENGINE_ROLES = f"""
[roles.desk]
stores = ["*"]
max_engine_bytes = {ENGINE_BYTES}
[roles.more]
stores = ["*"]
max_engine_bytes = {1 << 29}
[roles.all]
stores = ["*"]
"""
CALLERS = {"ann": ["desk"], "bob": ["all"], "eve": ["desk", "more"], "job": ["desk", "all"]}


@pytest.fixture(scope="module", params=["a", "abc"], ids=["one host", "three hosts"])
def event_hosts(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Sequence[Host], dict[str, str]]]:
    place = tmp_path_factory.mktemp("engine")
    append_table(Changelog.open(str(place / "changelog")), EVENTS, EVENT_ROWS)
    write_secret(place / "peer", add_token(place / "tokens.toml", "host", ["peer"], {}, None).encode())
    tokens = {
        name: add_token(place / "tokens.toml", name, roles, {}, None) for name, roles in CALLERS.items()
    }
    (place / "security.toml").write_text(
        f'[security]\ntokens = "tokens.toml"\npeer_token = "peer"\n{ENGINE_ROLES}'
    )
    options: dict[str, Any] = {
        "security": place / "security.toml",
        "queries": QueryOptions(memory_limit_bytes=1 << 30, spill_limit_bytes=0),
    }
    with several(request.param, place, **options) as hosts:
        for host in hosts:
            with Client(ConnectionOptions((host.uri,), tokens["bob"]), timeout_seconds=60) as client:
                wait_until_served(partial(has_all_rows, client))
        yield hosts, tokens


def has_all_rows(client: Client) -> bool:
    return count_of(client) == MANY


def count_of(client: Client) -> int:
    (found,) = client.query("SELECT count(*) AS n FROM events").read_all()["n"].to_pylist()
    return int(found)


def groups_of(hosts: Sequence[Host], token: str) -> int:
    with Client(ConnectionOptions((hosts[0].uri,), token), timeout_seconds=60) as client:
        rows: int = client.query(GROUPS).read_all().num_rows
        return rows


def test_a_role_has_so_much_of_the_engine(event_hosts: tuple[Sequence[Host], dict[str, str]]) -> None:
    hosts, tokens = event_hosts
    with ThreadPoolExecutor(len(CALLERS)) as pool:
        found = {name: pool.submit(groups_of, hosts, token) for name, token in tokens.items()}
        with pytest.raises(LimitExceeded, match=OVER):
            found["ann"].result(60)
        # A principal has the highest limit of its roles, and none where one of them has none.
        assert [found[name].result(60) for name in ("bob", "eve", "job")] == [MANY] * 3
    with Client(ConnectionOptions((hosts[0].uri,), tokens["ann"]), timeout_seconds=60) as ann:
        assert count_of(ann) == MANY
        assert ann.query("SELECT note FROM events WHERE id = 7").read_all().num_rows == 1
        with pytest.raises(LimitExceeded, match=OVER):
            ann.query("SELECT id FROM events ORDER BY note").read_all()
        assert ann.query(FEW_GROUPS).read_all().num_rows == FEW
    for host in hosts:
        service = host._service
        assert service is not None
        databases = service._resources.engine._own_databases._databases
        assert EngineLimit("ann", Limit(ENGINE_BYTES, "desk")) in databases, "a fragment brings it along"


def fragment_of(host: Host) -> FragmentRequest:
    """A fragment over all rows of a host."""
    service = host._service
    assert service is not None
    groups, stores = service.source.report()
    return FragmentRequest(
        f'SELECT {WIDE}, count(*) AS n FROM "main"."events" GROUP BY ALL',
        {EVENTS.group: groups[EVENTS.group].readable[-1].epoch},
        {EVENTS.name: stores[EVENTS.name].partitions},
    )


def test_the_limit_holds_on_every_host(event_hosts: tuple[Sequence[Host], dict[str, str]]) -> None:
    limit = EngineLimit("ann", Limit(ENGINE_BYTES, "desk"))
    for host in event_hosts[0]:
        service, request = host._service, fragment_of(host)
        assert service is not None
        with service.execute_fragment(request) as rows:
            assert rows.read_all().num_rows > 0
        with pytest.raises(LimitExceeded, match=OVER):
            service.execute_fragment(replace(request, engine_limit=limit)).read_all()
        with pytest.raises(LimitExceeded, match=r"a part of the 16777216 bytes of the role desk"):
            # Only its rows tell the columns, and it runs in a worker.
            service.prepare(f"PIVOT (SELECT id % 2 AS k, {WIDE} FROM events) ON k", engine_limit=limit)


def test_a_ticket_lifts_no_limit(event_hosts: tuple[Sequence[Host], dict[str, str]]) -> None:
    hosts, tokens = event_hosts
    for lifted in (None, EngineLimit("ann", Limit(1 << 40, "desk"))):
        ticket = FragmentTicket(replace(fragment_of(hosts[-1]), engine_limit=lifted)).to_bytes()
        options = ConnectionOptions((hosts[-1].uri,), tokens["ann"])
        with Connection(options) as connection, pytest.raises(LimitExceeded, match=OVER):
            list(connection.rows(ticket))
        options = ConnectionOptions((hosts[-1].uri,), tokens["bob"])
        with Connection(options) as connection:
            assert sum(batch.num_rows for batch in connection.rows(ticket)) > 0
