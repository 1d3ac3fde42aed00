"""What a role that may see a part of the stores gets, by every call of Flight, on one host and on two."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.access.principal import Limit, LimitName, Principal, Proof
from engine.changelog import Changelog, append_table, open_appender
from engine.errors import Forbidden, LivestateError, NotFound
from engine.model.migration import parse_changes
from engine.model.schema import StoreDefinition, define_store
from engine.service import MOST_SCOPES
from flight_server.cli.credentials import add_token
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host, HostOptions
from flight_server.server.statement_meter import AnswerClass, ClassTotals
from flight_server.wire.messages import new, pack
from tests.protocol.test_cluster_hosts import pair, several
from tests.support.oracle import sorted_rows
from tests.support.started_host import start_host
from tests.support.waiting import wait_until, wait_until_served

SCHEMA = pa.schema(
    [("id", pa.int64()), ("desk", pa.string()), ("amount", pa.string()), ("note", pa.string())]
)
ROWS = [
    {
        "id": key,
        "desk": ("rates", "fx", None)[key % 3],
        "amount": str(key) if key % 3 == 0 else f"secret {key}",
        "note": f"note {key}",
    }
    for key in range(300)
]
TRADES = define_store("trades", SCHEMA, ["id"], partitions=8)
SECRETS = define_store("secrets", pa.schema([("id", pa.int64())]), ["id"], partitions=2)
VISIBLE = [{name: row[name] for name in ("id", "desk", "amount")} for row in ROWS if row["desk"] == "rates"]
ROLES = """
[roles.desk]
stores = ["trad*"]
columns = ["id", "desk", "amount"]
rows = "desk = claim('desk')"
"""
QUERIES = (
    "SELECT * FROM trades",
    "SELECT * FROM trades WHERE id = 3",
    "SELECT * FROM trades WHERE id = 4",
    "SELECT * FROM trades WHERE id IN (1, 2, 3, 6, 7)",
    "SELECT * FROM trades WHERE id BETWEEN 10 AND 40",
    "SELECT * FROM trades WHERE id > 3 ORDER BY id LIMIT 7",
    "SELECT count(*) FROM trades",
    "SELECT sum(CAST(amount AS BIGINT)) FROM trades",
    "SELECT desk, count(*) FROM trades GROUP BY desk",
    "SELECT id FROM trades WHERE CAST(amount AS BIGINT) > 200",
    "SELECT a.id, b.id FROM trades a JOIN trades b ON a.id = b.id + 3",
    "SELECT max(id), count(DISTINCT desk) FROM trades WHERE id > 100",
    "SELECT id, sum(id) OVER (ORDER BY id) FROM trades WHERE id < 50",
    "SELECT * FROM trades WHERE desk IN (SELECT desk FROM trades WHERE id = 3)",
    "SELECT * FROM information_schema.schemata",
    "SELECT * FROM information_schema.tables",
    "SELECT * FROM information_schema.columns",
    "SELECT * FROM information_schema.table_constraints",
    "SELECT * FROM information_schema.key_column_usage",
    "SELECT t.table_name, count(*) FROM information_schema.tables t, trades GROUP BY ALL",
    "SHOW ALL TABLES",
    "SHOW DATABASES",
    "SHOW SCHEMAS",
    "SHOW TABLES FROM main",
    "SHOW COLUMNS FROM trades",
    "SHOW trades",
)


def append(uri: str, store: StoreDefinition, rows: Sequence[dict[str, Any]]) -> None:
    append_table(Changelog.open(uri), store, pa.Table.from_pylist(list(rows), store.schema))


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a security file with tokens of a restricted role, of one that sees all, and of a host."""
    place = tmp_path_factory.mktemp("security")
    file = place / "tokens.toml"
    for name, role, claims in (
        ("ann", "desk", {"desk": "rates"}),
        ("bob", "desk", {"desk": "fx"}),
        ("nobody", "desk", {}),
        ("all", "reader", {}),
        ("host", "peer", {}),
    ):
        write_secret(place / name, add_token(file, name, [role], claims, None).encode())
    (place / "security.toml").write_text(f'[security]\ntokens = "tokens.toml"\npeer_token = "host"\n{ROLES}')
    return place


@pytest.fixture(scope="module", params=[1, 2], ids=["one host", "two hosts"])
def hosts(
    request: pytest.FixtureRequest, directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sequence[Host]]:
    place = tmp_path_factory.mktemp("hosts")
    uri, security = str(place / "changelog"), directory / "security.toml"
    append(uri, TRADES, ROWS)
    append(uri, SECRETS, [{"id": 1}])
    if request.param == 2:
        with pair(place, security=security) as several:
            yield several
        return
    with start_host(HostOptions(uri, place / "data", port=0, security=security)) as host:
        yield [host]


def client_of(host: Host, directory: Path, name: str) -> Client:
    return Client(ConnectionOptions((host.uri,), (directory / name).read_text()), timeout_seconds=60)


@pytest.fixture(params=["first", "last"])
def ann(request: pytest.FixtureRequest, hosts: Sequence[Host], directory: Path) -> Iterator[Client]:
    with client_of(hosts[0 if request.param == "first" else -1], directory, "ann") as client:
        yield client


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A host of stores that hold only what ann may see."""
    place = tmp_path_factory.mktemp("permitted")
    schema = pa.schema([SCHEMA.field(name) for name in VISIBLE[0]])
    store = define_store("trades", schema, ["id"], partitions=8)
    append(str(place / "changelog"), store, VISIBLE)
    with (
        start_host(HostOptions(str(place / "changelog"), place / "data", port=0)) as host,
        Client(host.uri, timeout_seconds=60) as client,
    ):
        yield client


@pytest.mark.parametrize("sql", QUERIES)
def test_answers_are_those_of_stores_that_hold_nothing_else(ann: Client, reference: Client, sql: str) -> None:
    expected = reference.query(sql).read_all()
    for _ in range(3):  # the plan and the answer of before are kept
        found = ann.query(sql)
        table = found.read_all()
        assert table.schema.names == expected.schema.names
        assert sorted_rows(table) == sorted_rows(expected)
        assert all(found.metadata[name] == 0 for name in ("rows", "rows_read", "blocks", "segments"))


def totals(host: Host) -> Mapping[AnswerClass, ClassTotals]:
    figures = host.figures().server
    assert figures is not None
    return figures.totals.classes


def test_figures_of_the_host_are_of_all_that_was_read(hosts: Sequence[Host], directory: Path) -> None:
    sql = "SELECT desk, count(*) AS n, max(amount) AS m FROM trades WHERE id <> {} GROUP BY desk"
    asked, expected = hosts[0], AnswerClass.ENGINE if len(hosts) == 1 else AnswerClass.SPLIT
    counted = {}
    for place, name in enumerate(("all", "ann")):
        before = totals(asked)[expected]
        with client_of(asked, directory, name) as client:
            found = client.query(sql.format(-1 - place))
            found.read_all()
        wait_until(lambda: asked.running_queries == 0)
        after = totals(asked)[expected]
        assert sum(after.seconds.counts) - sum(before.seconds.counts) == 1, name
        counted[name] = (
            after.rows_read - before.rows_read,
            after.partitions - before.partitions,
            after.moved > before.moved,
        )
    assert (found.metadata["plan"], found.metadata["rows_read"]) == ("hidden", 0), "what ann is told"
    assert counted["ann"] == counted["all"]
    assert counted["ann"][0] > 0


def refusal(client: Client, sql: str) -> str:
    with pytest.raises(LivestateError) as caught:
        client.query(sql).read_all()
    return caught.value.message


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT note FROM trades",
        "SELECT noet FROM trades",
        "SELECT * FROM trades WHERE note = 'note 3'",
        "SELECT * FROM secrets",
        "SELECT * FROM secrest",
        "DESCRIBE secrets",
        "EXPLAIN SELECT * FROM secrets",
        "SELECT CAST(desk AS BIGINT) FROM trades",
        "SELECT trades.note FROM trades",
        "SELECT * EXCLUDE (note) FROM trades",
        "SHOW secrets",
        "SHOW COLUMNS FROM secrets",
        "SELECT * FROM information_schema.secrets",
        "SELECT note FROM information_schema.columns, trades",
    ],
)
def test_refusals_are_those_of_stores_that_hold_nothing_else(
    ann: Client, reference: Client, sql: str
) -> None:
    assert refusal(ann, sql) == refusal(reference, sql)


def test_the_catalogue_shows_nothing_else(ann: Client, reference: Client) -> None:
    for sql in ("SHOW TABLES", "DESCRIBE trades"):
        assert ann.query(sql).read_all() == reference.query(sql).read_all()
    (store,) = ann.stores().to_pylist()
    assert (store["store"], store["rows"], store["bytes"], store["segments"]) == ("trades", None, None, None)
    for call, words in (
        (lambda: ann.query("SHOW HOSTS").read_all(), "SHOW HOSTS tells"),
        (lambda: ann.query("EXPLAIN SELECT * FROM trades").read_all(), "EXPLAIN tells"),
        (lambda: ann.query("EXPLAIN ANALYZE SELECT * FROM trades").read_all(), "EXPLAIN tells"),
        (ann.hosts, "tells of all stores"),
        (ann.replicas, "tells of all stores"),
    ):
        assert_forbidden(call, words)
    assert ann.health()["stores"] == 1


def assert_forbidden(call: Callable[[], object], words: str) -> None:
    with pytest.raises(Forbidden, match=words):
        call()


def test_each_sees_its_own(hosts: Sequence[Host], directory: Path) -> None:
    for host in hosts:
        for name, desk in (("bob", "fx"), ("nobody", ""), ("ann", "rates")):
            with client_of(host, directory, name) as client:
                found = client.query("SELECT * FROM trades").read_all()
                assert set(found["desk"].to_pylist()) == ({desk} if desk else set())
        with client_of(host, directory, "all") as client:
            assert client.query("SELECT count(*) AS n FROM trades").read_all()["n"].to_pylist() == [300]
            assert client.query("SELECT * FROM secrets").read_all().num_rows == 1


def test_keys_of_a_stream(ann: Client) -> None:
    with ann.keys("trades", ["amount"]) as stream:
        assert stream.get(3) == {"amount": "3"}
        assert stream.get(4) is None
        assert stream.get_many([4, 6, 3, 7])["amount"].to_pylist() == [None, "6", "3", None]
    with pytest.raises(NotFound), ann.keys("secrets"):
        pass
    with pytest.raises(NotFound), ann.keys("trades", ["note"]):
        pass


def options_of(directory: Path, name: str) -> flight.FlightCallOptions:
    token = (directory / name).read_bytes()
    return flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)])


def rows_of_endpoints(hosts: Sequence[Host], info: flight.FlightInfo, options: Any) -> list[Any]:
    rows = []
    for endpoint in info.endpoints:
        with flight.connect(endpoint.locations[0] if endpoint.locations else hosts[0].uri) as client:
            rows += client.do_get(endpoint.ticket, options).read_all().to_pylist()
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("by_partition", [True, False])
def test_tickets_of_partitions(hosts: Sequence[Host], directory: Path, by_partition: bool) -> None:
    command = json.dumps(
        {"sql": "SELECT * FROM trades", "endpoints": "partitions" if by_partition else "one"}
    ).encode()
    for host in hosts:
        with flight.connect(host.uri) as client:
            info = client.get_flight_info(
                flight.FlightDescriptor.for_command(command), options_of(directory, "ann")
            )
            assert rows_of_endpoints(hosts, info, options_of(directory, "ann")) == VISIBLE
            # A ticket is no right: whoever presents it sees what is its own.
            others = rows_of_endpoints(hosts, info, options_of(directory, "bob"))
            assert {row["desk"] for row in others} == {"fx"}
            with pytest.raises(flight.FlightUnauthenticatedError):
                rows_of_endpoints(hosts, info, flight.FlightCallOptions())


def test_a_ticket_of_somebody_who_sees_all_shows_no_more(hosts: Sequence[Host], directory: Path) -> None:
    command = json.dumps({"sql": "SELECT id, note FROM trades", "endpoints": "partitions"}).encode()
    with flight.connect(hosts[0].uri) as client:
        info = client.get_flight_info(
            flight.FlightDescriptor.for_command(command), options_of(directory, "all")
        )
        assert len(rows_of_endpoints(hosts, info, options_of(directory, "all"))) == 300
        with pytest.raises((pa.ArrowException, flight.FlightError)):
            rows_of_endpoints(hosts, info, options_of(directory, "ann"))


def test_a_prepared_statement_of_somebody_else_shows_no_more(hosts: Sequence[Host], directory: Path) -> None:
    query = pack(new("CommandStatementQuery", query="SELECT * FROM trades WHERE id < 9"))
    with flight.connect(hosts[0].uri) as client:
        info = client.get_flight_info(
            flight.FlightDescriptor.for_command(query), options_of(directory, "all")
        )
        ticket = info.endpoints[0].ticket
        assert client.do_get(ticket, options_of(directory, "all")).read_all().num_rows == 9
        try:
            found = client.do_get(ticket, options_of(directory, "ann")).read_all()
        except (pa.ArrowException, flight.FlightError):
            return
        assert set(found["desk"].to_pylist()) == {"rates"}


def test_rights_that_change_end_what_is_open(tmp_path: Path) -> None:
    uri = str(tmp_path / "changelog")
    append(uri, TRADES, ROWS)
    token = add_token(tmp_path / "tokens.toml", "ann", ["desk"], {"desk": "rates"}, None)
    security = f'[security]\ntokens = "tokens.toml"\n{ROLES}'
    (tmp_path / "security.toml").write_text(security)
    options = HostOptions(uri, tmp_path / "data", port=0, security=tmp_path / "security.toml")
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), token), timeout_seconds=60) as client,
    ):
        stream = client.keys("trades", ["amount"])
        stream.get(3)
        sql = "SELECT count(*) AS n FROM trades"
        assert client.query(sql).read_all()["n"].to_pylist() == [100]
        (tmp_path / "security.toml").write_text(security.replace("claim('desk')", "'fx'"))
        wait_until(lambda: client.query("SELECT min(id) AS n FROM trades").read_all()["n"].to_pylist() == [1])
        assert client.query(sql).read_all()["n"].to_pylist() == [100]
        with pytest.raises(Forbidden, match="Your roles have changed"):
            stream.get(3)
        stream.close()


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_store_does_not_exist_before_it_had_the_column_that_hides_its_rows(
    tmp_path: Path, hosts: int
) -> None:
    """It has a condition on a column that a migration has made; and another store in its group does not."""
    uri = str(tmp_path / "changelog")
    before = pa.schema([SCHEMA.field("id"), pa.field("owner", pa.string()), SCHEMA.field("note")])
    names = ("trades", "others")
    stores = [define_store(name, before, ["id"], partitions=2, group="g") for name in names]
    rows = pa.Table.from_pylist([{"id": 1, "owner": "rates"}, {"id": 2, "owner": "fx"}], before)
    changelog = Changelog.open(uri)
    open_appender(changelog, stores).append(dict.fromkeys(names, rows))
    tokens = tmp_path / "tokens.toml"
    token = add_token(tokens, "ann", ["desk", "others"], {"desk": "rates"}, None)
    write_secret(tmp_path / "host", add_token(tokens, "host", ["peer"], {}, None).encode())
    (tmp_path / "security.toml").write_text(
        f'[security]\ntokens = "tokens.toml"\npeer_token = "host"\n{ROLES}'
        '[roles.others]\nstores = ["others"]\n'
    )
    security = tmp_path / "security.toml"
    with ExitStack() as resources:
        started = (
            [resources.enter_context(start_host(HostOptions(uri, tmp_path / "a", port=0, security=security)))]
            if hosts == 1
            else resources.enter_context(several("ab", tmp_path, security=security))
        )
        client = resources.enter_context(
            Client(ConnectionOptions((started[0].uri,), token), timeout_seconds=60)
        )
        wait_until_served(lambda: client.query("SELECT * FROM others").read_all().num_rows == 2)
        (epoch,) = {row["epoch"] for row in client.stores().to_pylist()}
        with pytest.raises(NotFound, match="There is no store trades"):
            client.query("SELECT id FROM trades").read_all()
        for host in started:
            with Client(ConnectionOptions((host.uri,), token)) as each:
                each.act("livestate.hold", json.dumps({"epochs": {"g": epoch}, "seconds": 600}).encode())
        changelog.migrate_store(stores[0].name, parse_changes(rename=["owner=desk"]))
        open_appender(changelog, stores).append({"others": rows})

        def read(sql: str) -> list[Any]:
            return list(client.query(sql).read_all()["id"].to_pylist())

        wait_until(lambda: "trades" in client.stores()["store"].to_pylist())
        assert read("SELECT id FROM trades") == [1]
        assert sorted(read(f"SELECT id FROM others AS OF EPOCH {epoch}")) == [1, 2]
        for sql in ("SELECT id FROM trades{}", "SELECT id FROM trades{} WHERE id = 1"):
            with pytest.raises(NotFound, match="no store trades at the epoch that is to be read"):
                read(sql.format(f" AS OF EPOCH {epoch}"))


def test_rights_that_change_hold_for_the_next_lookup(tmp_path: Path) -> None:
    """What answers a caller is kept between its calls, and ends with the proof that it had."""
    uri, sql = str(tmp_path / "changelog"), "SELECT id FROM trades WHERE id = {}"
    append(uri, TRADES, ROWS)
    tokens = {
        name: add_token(tmp_path / "tokens.toml", name, ["desk"], {"desk": desk}, None)
        for name, desk in (("ann", "rates"), ("bob", "fx"))
    }
    security = f'[security]\ntokens = "tokens.toml"\n{ROLES}'
    (tmp_path / "security.toml").write_text(security)
    options = HostOptions(uri, tmp_path / "data", port=0, security=tmp_path / "security.toml")
    with (
        start_host(options) as host,
        Client(ConnectionOptions((host.uri,), tokens["ann"]), timeout_seconds=60) as ann,
        Client(ConnectionOptions((host.uri,), tokens["bob"]), timeout_seconds=60) as bob,
    ):

        def seen(client: Client) -> list[int]:
            """Which of a row of rates and one of fx is seen."""
            answers = [client.query(sql.format(key)).read_all()["id"].to_pylist() for key in (3, 1)]
            return [key for answer in answers for key in answer]

        for _ in range(3):
            assert (seen(ann), seen(bob)) == ([3], [1])
        (tmp_path / "security.toml").write_text(security.replace("claim('desk')", "'fx'"))
        wait_until(lambda: seen(ann) == [1])
        assert (seen(ann), seen(bob)) == ([1], [1])


def test_what_answers_a_principal_is_found_by_its_proof_alone(hosts: Sequence[Host]) -> None:
    server = hosts[0]._server
    assert server is not None
    statements = server._statements

    def made(**limits: Limit) -> Principal:
        given = {LimitName(name): limit for name, limit in limits.items()}
        return Principal("ann", frozenset({"desk"}), Proof.TOKEN, limits=given)

    ann, like_ann = made(), made()
    assert statements.for_principal(ann) is statements.for_principal(ann)
    assert statements.for_principal(like_ann) is not statements.for_principal(ann), "her rights may be others"
    paced = made(max_result_bytes_per_second=Limit(1, "desk"))
    found = statements.for_principal(paced)
    assert found is not statements.for_principal(paced), "the ledger is asked each time"
    for _ in range(3 * MOST_SCOPES):
        statements.for_principal(made())
    assert len(statements._by_principal) <= MOST_SCOPES


def test_the_information_schema_has_nothing_else(ann: Client, hosts: Sequence[Host], directory: Path) -> None:
    columns = "SELECT table_name, column_name FROM information_schema.columns"
    seen = [("trades", name) for name in ("id", "desk", "amount")]
    for _ in range(3):
        assert [tuple(row.values()) for row in ann.query(columns).read_all().to_pylist()] == seen
    for sql in (
        "SELECT table_name FROM information_schema.tables",
        "SELECT table_name FROM information_schema.key_column_usage",
        "SHOW ALL TABLES",
    ):
        assert ann.query(sql).read_all().num_rows == 1
    assert "secrets" not in refusal(ann, "SHOW COLUMNS FROM secrest")
    assert ann.query("SELECT current_user AS name").read_all()["name"].to_pylist() == ["ann"]
    with client_of(hosts[-1], directory, "all") as client:
        assert client.query("SELECT current_user AS name").read_all()["name"].to_pylist() == ["all"]
        names = client.query(columns).read_all()["table_name"].to_pylist()
        assert {"trades": 4, "secrets": 1}.items() <= {name: names.count(name) for name in names}.items()
