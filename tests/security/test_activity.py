"""SHOW STATEMENTS, SHOW SESSIONS and CANCEL: what is one's own, and what operators see, on two hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_flightsql import DatabaseOptions

from engine.access.principal import ANYBODY
from engine.cluster.reports import HostName
from engine.errors import Cancelled, Forbidden, InvalidInput, LivestateError, NotFound, Unavailable
from flight_server.cli.credentials import add_token
from flight_server.cli.top import take_sample
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import Host
from flight_server.server.activity import Activity, ActivityStatement, parse_activity
from flight_server.server.connections import Connections
from flight_server.server.running_calls import Calls
from tests.protocol.test_cluster_hosts import pair
from tests.support.waiting import wait_until

ENDLESS = "SELECT sum(sqrt(a.range) + b.range) FROM range(1000000) a, range(10000000) b -- {}"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sequence[Host]]:
    place = tmp_path_factory.mktemp("activity")
    for name, role in (("ann", "reader"), ("bob", "reader"), ("olga", "operator"), ("host", "peer")):
        write_secret(place / name, add_token(place / "tokens.toml", name, [role], {}, None).encode())
    (place / "security.toml").write_text('[security]\ntokens = "tokens.toml"\npeer_token = "host"\n')
    with pair(place, security=place / "security.toml") as several:
        yield several


def client_of(host: Host, name: str) -> Client:
    assert host._options.security is not None
    token = (host._options.security.parent / name).read_text()
    return Client(ConnectionOptions((host.uri,), token), timeout_seconds=60)


def statements(client: Client, sql: str = "SHOW STATEMENTS") -> list[dict[str, object]]:
    found = client.query(sql).read_all().to_pylist()
    return [row for row in found if not str(row["statement"]).startswith("SHOW")]


def test_each_sees_and_cancels_its_own_and_an_operator_everybodys(hosts: Sequence[Host]) -> None:
    one, other = hosts
    with (
        client_of(one, "ann") as ann,
        client_of(one, "bob") as bob,
        client_of(other, "olga") as olga,
        ThreadPoolExecutor(1) as pool,
    ):
        for canceller in (ann, olga):
            running = pool.submit(lambda: ann.query(ENDLESS.format("one")).read_all())
            wait_until(lambda: [row["state"] for row in statements(ann)] == ["running"])
            (own,) = statements(ann)
            assert (own["principal"], own["kind"]) == ("ann", "statement")
            assert str(own["statement"]).startswith("SELECT sum")
            assert statements(bob) == []
            with pytest.raises(NotFound, match="No statement of this id"):
                bob.query(f"CANCEL '{own['id']}'").read_all()
            seen = [row for row in statements(olga) if row["principal"] == "ann"]
            assert [row["id"] for row in seen] == [own["id"]]
            assert seen[0]["host"] == own["host"] is not None
            assert not [row for row in statements(olga, "show local statements;") if row["id"] == own["id"]]
            cancelled = canceller.query(f"CANCEL '{own['id']}'").read_all().to_pylist()
            assert cancelled == [{"id": own["id"], "host": own["host"]}]
            with pytest.raises(Cancelled):
                running.result(60)


def test_sessions(hosts: Sequence[Host]) -> None:
    with client_of(hosts[0], "bob") as bob, client_of(hosts[1], "olga") as olga:
        found = bob.query("SHOW SESSIONS").read_all().to_pylist()
        assert {row["principal"] for row in found} == {"bob"}
        assert found[-1]["state"] == "active"
        assert (found[-1]["proof"], found[-1]["roles"]) == ("token", "reader")
        everybody = olga.query("SHOW SESSIONS").read_all().to_pylist()
        assert {"bob", "olga", "host"} <= {row["principal"] for row in everybody}
        assert len({row["host"] for row in everybody}) == 2


def test_an_operator_reads_no_stores(hosts: Sequence[Host]) -> None:
    with client_of(hosts[0], "olga") as olga:
        with pytest.raises(Forbidden, match="olga may not read stores"):
            olga.query("SELECT 1").read_all()
        assert olga.hosts().num_rows == 2
        sample = take_sample(olga)
        assert {row["host"] for row in sample.hosts} == {"a", "b"}
        assert [problem.split(":")[0] for problem in sample.problems] == ["Stores are not shown"]


def test_over_adbc(hosts: Sequence[Host]) -> None:
    with client_of(hosts[0], "ann") as ann, ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: ann.query(ENDLESS.format("two")).read_all())
        wait_until(lambda: len(statements(ann)) == 1)
        token = (hosts[0]._options.security.parent / "ann").read_text()  # type: ignore[union-attr]
        header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"}
        with (
            flight_sql.connect(hosts[0].uri, header, autocommit=True) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SHOW STATEMENTS")
            ids = [row[0] for row in cursor.fetchall() if str(row[-1]).startswith("SELECT sum")]
            assert len(ids) == 1
            cursor.execute(f"CANCEL '{ids[0]}'")
            assert [row[0] for row in cursor.fetchall()] == ids
        with pytest.raises(Cancelled):
            running.result(60)


def test_what_is_no_such_statement() -> None:
    for sql in (
        "SELECT 1",
        "SHOW TABLES",
        "SHOW STATEMENT",
        "",
        "  ",
        "(SHOW STATEMENTS)",
        "EXPLAIN SHOW SESSIONS",
    ):
        assert parse_activity(sql) is None
    for sql in ("CANCEL", "CANCEL x", "cancel 'a' 'b'", "-- it\nCANCEL 5"):
        with pytest.raises(InvalidInput, match="CANCEL takes the id"):
            parse_activity(sql)
    assert parse_activity("/* */ Show\nLocal SESSIONS ;") == ActivityStatement("sessions", is_local=True)
    assert parse_activity("SHOW STATEMENTS -- now") == ActivityStatement("statements", is_local=False)
    assert parse_activity("CANCEL 'ab' /* it */ ; -- all") == ActivityStatement(
        "cancel", is_local=False, id="ab"
    )
    assert parse_activity("SHOW STATEMENTS; SHOW STATEMENTS") is None
    assert parse_activity("cancel 'ab'") == ActivityStatement("cancel", is_local=False, id="ab")
    for sql in ("CANCEL LOCAL 'x'", "SHOW LOCAL STATEMENTS"):
        found = parse_activity(sql)
        assert found is not None
        assert found.local_sql == sql


def test_nothing_to_cancel_on_a_host_alone() -> None:
    activity = Activity(Calls(), Connections())
    with pytest.raises(NotFound):
        activity.answer(ActivityStatement("cancel", is_local=False, id="x"), ANYBODY)
    assert activity.answer(ActivityStatement("cancel", is_local=True, id="x"), ANYBODY).num_rows == 0


class OneIsSilent:
    """Two other hosts; one of them answers."""

    here = HostName("a")

    def __init__(self, *, runs: bool) -> None:
        self._runs = runs

    def ask_others(self, _: str) -> Mapping[HostName, pa.Table | LivestateError]:
        """As of `OtherHosts`."""
        schema = ActivityStatement("cancel", is_local=True).schema
        found = pa.Table.from_pylist([{"id": "x", "host": "b"}] if self._runs else [], schema)
        return {HostName("b"): found, HostName("c"): Unavailable("Host c does not answer.")}


def test_what_may_run_on_a_host_that_does_not_answer_is_not_said_to_be_nowhere() -> None:
    cancel = ActivityStatement("cancel", is_local=False, id="x")
    with pytest.raises(Unavailable, match="no answer from c:"):
        Activity(Calls(), Connections(), OneIsSilent(runs=False)).answer(cancel, ANYBODY)
    found = Activity(Calls(), Connections(), OneIsSilent(runs=True)).answer(cancel, ANYBODY)
    assert found.to_pylist() == [{"id": "x", "host": "b"}]
