"""Answers partition by partition: JSON descriptors of GetFlightInfo, and holds of epochs."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.changelog import Changelog, open_appender
from engine.changelog.appender import StoreAppender
from engine.model.kinds import Behaviour, Versioned
from engine.model.schema import StoreName, define_store
from flight_server.host.host import Host, HostOptions
from tests.protocol.conftest import BIG_ROWS
from tests.support.many_hosts import three_hosts
from tests.support.plays import PARTITIONS, ROWS
from tests.support.started_host import start_host
from tests.support.waiting import wait_until

TIME = pa.timestamp("us", "UTC")


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Host]]:
    """Hosts a, b and c, which share the store `plays`."""
    with three_hosts(tmp_path_factory.mktemp("three")) as hosts:
        yield {str(name): host for name, host in hosts.items()}


def plan(client: flight.FlightClient, **command: Any) -> flight.FlightInfo:
    return client.get_flight_info(flight.FlightDescriptor.for_command(json.dumps(command).encode()))


def read(info: flight.FlightInfo, client: flight.FlightClient) -> list[pa.Table]:
    """Each endpoint's rows, from its first location, or from a client where it has none."""
    tables = []
    for endpoint in info.endpoints:
        if endpoint.locations:
            with flight.connect(endpoint.locations[0]) as there:
                tables.append(there.do_get(endpoint.ticket).read_all())
        else:
            tables.append(client.do_get(endpoint.ticket).read_all())
    assert all(table.schema.equals(info.schema) for table in tables)
    return tables


def hold(client: flight.FlightClient, body: object) -> None:
    list(
        client.do_action(
            flight.Action("livestate.hold", body if isinstance(body, bytes) else json.dumps(body).encode())
        )
    )


def test_a_host_alone_divides_by_partition(plain: flight.FlightClient) -> None:
    info = plan(plain, sql="SELECT id FROM big", endpoints="partitions")
    tables = read(info, plain)
    assert len(tables) == 2
    assert all(table.num_rows for table in tables)
    assert sorted(pa.concat_tables(tables)["id"].to_pylist()) == list(range(BIG_ROWS))
    facts = json.loads(info.app_metadata)
    assert (facts["epochs"], facts["digests"].keys()) == ({"big": 2}, {"big"})
    assert facts["stale_seconds"] >= 0


def test_each_partition_is_at_the_host_that_holds_it(three: dict[str, Host]) -> None:
    with flight.connect(three["a"].uri) as client:
        info = plan(
            client,
            sql="SELECT song, plays FROM plays WHERE genre < ?",
            parameters=[9],
            endpoints="partitions",
        )
        assert len(info.endpoints) == PARTITIONS
        assert {endpoint.locations[0].uri.decode() for endpoint in info.endpoints} == {
            host.uri for host in three.values()
        }
        assert sum(table.num_rows for table in read(info, client)) == ROWS // 10 * 9


@pytest.mark.parametrize(
    "sql", ["SELECT count(*) AS n FROM plays", "SELECT genre AS n FROM plays ORDER BY song LIMIT 3"]
)
def test_what_cannot_be_divided_is_one_ticket_at_that_epoch(three: dict[str, Host], sql: str) -> None:
    with flight.connect(three["b"].uri) as client:
        info = plan(client, sql=sql, endpoints="partitions")
        (endpoint,) = info.endpoints
        assert len(endpoint.locations) == 3
        whole = client.do_get(endpoint.ticket).read_all()
        assert read(info, client) == [whole]
        assert (
            json.loads(whole.schema.metadata[b"livestate"])["epochs"]
            == json.loads(info.app_metadata)["epochs"]
        )


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Host, StoreAppender]]:
    """A host with versions of prices, which are 10 from noon and 30 from 14:00 on, and plain `quotes`."""
    directory = tmp_path_factory.mktemp("prices")
    schema = pa.schema([("symbol", pa.string()), ("at", TIME), ("price", pa.int64())])
    stores = [
        define_store("prices", schema, ["symbol"], partitions=2, behaviour=Behaviour(Versioned("at"))),
        define_store("quotes", schema, ["symbol"], partitions=2),
    ]
    changelog = Changelog.open(str(directory / "changelog"))
    with ExitStack() as open_until_the_end:
        versions, quotes = (
            open_until_the_end.enter_context(open_appender(changelog, [store])) for store in stores
        )
        for hour, price in ((12, 10), (14, 30)):
            versions.append({"prices": _prices_at(hour, price)})
        quotes.append({"quotes": _prices_at(12, 10)})
        options = HostOptions(changelog=str(directory / "changelog"), data=directory / "data", port=0)
        yield open_until_the_end.enter_context(start_host(options)), quotes


def _prices_at(hour: int, price: int) -> pa.Table:
    at = dt.datetime(2026, 1, 1, hour, tzinfo=dt.UTC)
    rows = [{"symbol": symbol, "at": at, "price": price} for symbol in ("a", "b")]
    return pa.Table.from_pylist(
        rows, pa.schema([("symbol", pa.string()), ("at", TIME), ("price", pa.int64())])
    )


@pytest.mark.parametrize("as_of", ["2026-01-01T13:00:00Z", '{"prices": "2026-01-01T13:00:00Z"}'])
@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT price FROM prices", [{"price": 10}, {"price": 10}]),
        ("SELECT sum(price) AS s FROM prices", [{"s": 20}]),
        ("SELECT symbol, price FROM prices ORDER BY symbol LIMIT 1", [{"symbol": "a", "price": 10}]),
    ],
)
def test_the_moment_of_a_session_holds_however_a_statement_is_divided(
    prices: tuple[Host, StoreAppender], as_of: str, sql: str, rows: list[object]
) -> None:
    with flight.connect(prices[0].uri) as client:
        for endpoints in ("one", "partitions"):
            info = plan(client, sql=sql, as_of=as_of, endpoints=endpoints)
            assert [row for table in read(info, client) for row in table.to_pylist()] == rows


@pytest.mark.parametrize(
    ("clause", "options"),
    [
        ("", {}),
        ("", {"as_of": "2999-01-01"}),
        ("", {"max_staleness": 1000}),
        ("AS OF TIMESTAMP '2999-01-01'", {}),
    ],
)
def test_a_divided_statement_stays_at_its_epoch(
    prices: tuple[Host, StoreAppender], clause: str, options: dict[str, Any]
) -> None:
    host, quotes = prices
    with flight.connect(host.uri) as client:
        command = {"sql": f"SELECT max(price) AS p FROM quotes {clause}", "endpoints": "partitions"}
        info = plan(client, **command, **options)
        before = read(info, client)
        newest = quotes.append({"quotes": _prices_at(12, before[0]["p"][0].as_py() + 1)}).epoch
        waiting = json.dumps({"sql": "SELECT price FROM quotes", "min_epoch": newest})
        client.do_get(flight.Ticket(waiting.encode())).read_all()
        after = read(info, client)
        assert after == before
        facts = json.loads(after[0].schema.metadata[b"livestate"])
        assert facts["epochs"] == json.loads(info.app_metadata)["epochs"] == {"quotes": newest - 1}


def test_a_moment_may_be_a_text_in_json(prices: tuple[Host, StoreAppender]) -> None:
    with flight.connect(prices[0].uri) as client:
        for moment in ("2026-01-01 13:00:00", "2026-01-01T14:00:00+01:00"):
            ticket = {
                "sql": "SELECT price FROM prices AS OF TIMESTAMP ? WHERE symbol = ?",
                "parameters": [moment, "a"],
            }
            rows = client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()
            assert rows["price"].to_pylist() == [10]
        with pytest.raises(pa.ArrowInvalid, match="Parameter 1 must be a TIMESTAMP WITH TIME ZONE such as"):
            ticket["parameters"] = ["noon", "a"]
            client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()


def test_one_endpoint_is_the_default(plain: flight.FlightClient) -> None:
    info = plan(plain, sql="SELECT title FROM songs WHERE song_id = ?", parameters=[2])
    assert [table.to_pylist() for table in read(info, plain)] == [[{"title": "two"}]]


def test_points_leave_partitions_out(plain: flight.FlightClient) -> None:
    assert [
        table.num_rows
        for table in read(
            plan(plain, sql="SELECT * FROM songs WHERE song_id = 2", endpoints="partitions"), plain
        )
    ] == [1]
    assert not read(
        plan(plain, sql="SELECT * FROM songs WHERE song_id IN (NULL)", endpoints="partitions"), plain
    )


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (b"{", "is not JSON"),
        (b'{"endpoints": "partitions"}', "lacks its statement"),
        (b'{"sql": "SELECT 1", "endpoints": "all"}', '"endpoints" must be'),
        (b'{"sql": "SELECT 1", "endpoints": ["one"]}', '"endpoints" must be'),
        (b'{"sql": "SELECT 1", "more": 1}', "has a field 'more'"),
    ],
)
def test_wrong_descriptors(plain: flight.FlightClient, command: bytes, message: str) -> None:
    with pytest.raises(pa.ArrowInvalid, match=message):
        plain.get_flight_info(flight.FlightDescriptor.for_command(command))


def test_holds(plain: flight.FlightClient) -> None:
    hold(plain, {"epochs": {}, "seconds": 1})
    hold(plain, {"epochs": {"songs": 2, "big": 2}, "seconds": 0.5})
    with pytest.raises(
        flight.FlightUnavailableError,
        match="Group songs cannot be read at epoch 7 on this host; the epochs there are: ",
    ):
        hold(plain, {"epochs": {"songs": 7}, "seconds": 1})
    with pytest.raises(KeyError, match="no store group nothing"):
        hold(plain, {"epochs": {"nothing": 1}, "seconds": 1})


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"\xff",
        b"[1]",
        {"epochs": {"songs": 2}},
        {"epochs": ["songs"], "seconds": 1},
        {"epochs": {"songs": "2"}, "seconds": 1},
        {"epochs": {"songs": True}, "seconds": 1},
        {"epochs": {"songs": 2}, "seconds": 0},
        {"epochs": {"songs": 2}, "seconds": 601},
        {"epochs": {"songs": 2}, "seconds": True},
    ],
)
def test_wrong_holds(plain: flight.FlightClient, body: object) -> None:
    with pytest.raises(pa.ArrowInvalid, match=r"The body of livestate.hold is"):
        hold(plain, body)


@pytest.mark.parametrize("group", ["plays", "others"])
def test_one_ticket_reads_no_other_store(tmp_path: Path, group: str) -> None:
    """Between two readings the name was switched to a store of the same columns: a task that reads again gets
    the rows that it got, or none.
    """
    root, schema = str(tmp_path / "changelog"), pa.schema([("song", pa.int64()), ("n", pa.int64())])
    first = define_store("plays", schema, ["song"], partitions=2, group="plays")
    other = define_store("new plays", schema, ["song"], partitions=2, group=group)
    rows = pa.table({"song": range(20), "n": [1] * 20}, schema)
    appender = open_appender(Changelog.open(root), [first, other] if group == "plays" else [first])
    appender.append({"plays": rows} if group != "plays" else {"plays": rows, "new plays": rows.slice(5)})
    if group != "plays":
        open_appender(Changelog.open(root), [other]).append({"new plays": rows.slice(5)})
    with (
        start_host(HostOptions(root, tmp_path / "data", port=0)) as host,
        flight.connect(host.uri) as client,
    ):
        info = plan(client, sql="SELECT sum(n) AS n FROM plays", endpoints="partitions")
        assert [table.to_pylist() for table in read(info, client)] == [[{"n": 20}]]
        Changelog.open(root).switch(StoreName("plays"), StoreName("new plays"))

        def newest() -> object:
            return client.do_get(flight.Ticket(b"SELECT sum(n) AS n FROM plays")).read_all().to_pylist()

        wait_until(lambda: newest() == [{"n": 15}])
        with pytest.raises(pa.ArrowInvalid, match="switched to store new plays"):
            read(info, client)
