"""Plain Flight clients: SQL and JSON in a ticket, and livestate's own client."""

from __future__ import annotations

import datetime as dt
import decimal
import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.errors import DeadlineExceeded, InvalidInput, LivestateError, NotFound, Unavailable, Unsupported
from flight_server.client.client import Client
from flight_server.host.host import Host
from flight_server.wire.messages import new, pack
from tests.protocol.conftest import BIG_ROWS, SONGS
from tests.support.typed_rows import NOON
from tests.support.waiting import PATIENCE_SECONDS, wait_until

SLOW = "SELECT count(*) FROM big a, big b, big c WHERE a.id + b.id + c.id = -1"


def get(client: flight.FlightClient, ticket: bytes | str | dict[str, Any]) -> pa.Table:
    """The answer to a ticket."""
    if isinstance(ticket, dict):
        ticket = json.dumps(ticket)
    return client.do_get(flight.Ticket(ticket)).read_all()


def test_sql_text_is_a_ticket(plain: flight.FlightClient) -> None:
    table = get(plain, "SELECT * FROM songs ORDER BY song_id")
    assert table.to_pylist() == SONGS.to_pylist()


def test_the_result_says_which_epoch_it_read(plain: flight.FlightClient) -> None:
    for sql, rows in (("SELECT * FROM songs", 3), ("SELECT * FROM big", BIG_ROWS)):
        table = get(plain, sql)
        assert table.num_rows == rows
        metadata = json.loads(table.schema.metadata[b"livestate"])
        assert list(metadata["epochs"].values()) == [2]
        assert metadata["age_seconds"] >= 0


@pytest.mark.parametrize(
    ("condition", "parameters"),
    [
        ("id = $a", {"a": 1.5}),
        ("id = ? AND name <> ?", [1.5, ""]),
        ("id >= $a AND id < 2", {"a": 1.9}),
        ("id = ?", [2**63]),
        ("id = $a", {"a": 2**70}),
        ("amount = $a", {"a": 12345.6}),
        ("tags = $a", {"a": ["a", "b"]}),
        ("counts = $a", {"a": {"k": 8}}),
    ],
)
def test_a_value_of_json_is_no_other_value(
    plain: flight.FlightClient, condition: str, parameters: object
) -> None:
    ticket = {"sql": f"SELECT id FROM typed WHERE {condition}", "parameters": parameters}
    assert get(plain, ticket)["id"].to_pylist() == []


@pytest.mark.parametrize("value", [[None], [["k"]], {"k": 7.5}, {"k": "x"}, 5, True])
def test_what_is_no_map_ends_the_call_alone(plain: flight.FlightClient, value: object) -> None:
    with pytest.raises(pa.ArrowInvalid, match="Parameter 1"):
        get(plain, {"sql": "SELECT id FROM typed WHERE counts = ?", "parameters": [value]})
    found = get(plain, {"sql": "SELECT id FROM typed WHERE counts = ?", "parameters": [{"k": 7}]})
    assert found["id"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("id = ?", 1),
        ("tiny = ?", -5),
        ("single = ?", 0.5),
        ("amount = ?", "12345.678"),
        ("name = ?", "Ærø 🎵"),
        ("flag = ?", True),
        ("day = ?", "2024-05-17"),
        ("moment = ?", "2024-05-17 12:30:15.123456"),
        ("instant = ?", "2024-05-17T12:30:15.123456Z"),
    ],
)
def test_json_carries_parameters_of_any_type(
    plain: flight.FlightClient, condition: str, value: object
) -> None:
    assert get(plain, {"sql": f"SELECT id FROM typed WHERE {condition}", "parameters": [value]})[
        "id"
    ].to_pylist() == [1]


def test_whole_surrogate_pairs_are_characters(plain: flight.FlightClient) -> None:
    for text, meant in ((r"\ud83d\ude00", "\U0001f600"), (r"\\ud800", r"\ud800")):
        sent = f"""{{"sql": "SELECT '{text}' AS a, ? AS b", "parameters": ["{text}"]}}"""
        assert get(plain, sent).to_pylist() == [{"a": meant, "b": meant}]


def test_json_carries_named_parameters_dialect_and_timeout(plain: flight.FlightClient, host: Host) -> None:
    assert get(plain, {"sql": "SELECT title FROM songs WHERE song_id = $song", "parameters": {"song": 2}})[
        "title"
    ].to_pylist() == ["two"]
    assert get(plain, {"sql": "SELECT `title` FROM songs WHERE song_id = 2", "dialect": "spark"})[
        "title"
    ].to_pylist() == ["two"]
    with pytest.raises(flight.FlightTimedOutError):
        get(plain, {"sql": SLOW, "timeout": 0.3})
    wait_until(lambda: host.running_queries == 0)


@pytest.mark.parametrize(
    ("ticket", "words"),
    [
        ({}, "lacks its statement"),
        ({"sql": 1}, "lacks its statement"),
        ({"sql": "SELECT 1", "limit": 1}, "'limit'"),
        ({"sql": "SELECT 1", "parameters": 3}, "parameters"),
        ({"sql": "SELECT 1", "dialect": None}, "dialect"),
        ({"sql": "SELECT 1", "dialect": "klingon"}, "klingon"),
        ({"sql": "SELECT 1", "timeout": -1}, "timeout"),
        ({"sql": "SELECT 1", "timeout": "soon"}, "timeout"),
        ({"sql": "SELECT 1", "timeout": True}, "timeout"),
        ({"sql": "SELECT 1", "timeout": 10**400}, "timeout"),
        ({"sql": "SELECT 1", "timeout": 1e300}, "above 0, and at most 1,000,000,000,000,000"),
        ({"sql": "SELECT title FROM songs WHERE song_id = ANY(?)", "parameters": [[1.5]]}, "Parameter 1"),
        ({"sql": "SELECT title FROM songs WHERE song_id = ?", "parameters": ["x"]}, "Parameter 1"),
        ({"sql": "SELECT title FROM songs WHERE song_id = ?", "parameters": [[1]]}, "Parameter 1"),
        ({"sql": "SELECT title FROM songs WHERE song_id = ?", "parameters": [10**50]}, "Parameter 1"),
        (
            {"sql": "SELECT title FROM songs WHERE song_id = ?", "parameters": [1, 2]},
            "has 1 parameter, and values were given for 2",
        ),
        ({"sql": "SELECT title FROM songs WHERE song_id = $a", "parameters": {"b": 2}}, "parameters"),
        ("{", "not JSON"),
        ('{"sql": ' + "[" * 50_000, "not JSON"),
        ('{"sql": ' + "[" * 100_000, "more than 65,536 values"),
        (r'{"sql": "SELECT 1 AS \ud800"}', "not Unicode"),
        (r'{"sql": "SELECT ?", "parameters": ["\udc00\ud83d"]}', "not Unicode"),
        (b'{"sql": "SELECT 1 AS \xed\xa0\x80"}', "not Unicode"),
        ('{"sql": "SELECT 1"}'.encode("utf-16-le"), "not JSON"),
        ("SELECT 1\0", "damaged.* without NUL characters"),
        (b"\xff\xfe", "UTF-8"),
        (b"\x00Q", "tatement"),
        (b"\x00Q\xff\xff\xff", "damaged"),
        (b"\x00C", "no Flight SQL"),
        (b"\x00C\xff", "damaged"),
        (b"\x00C" + pack(new("CommandStatementUpdate", query="DELETE FROM songs")), "read-only"),
        (b"\x00Z123", "damaged"),
    ],
)
def test_tickets_that_make_no_sense_are_refused(plain: flight.FlightClient, ticket: Any, words: str) -> None:
    with pytest.raises((pa.ArrowInvalid, pa.ArrowNotImplementedError), match=words) as caught:
        get(plain, ticket)
    assert "Traceback" not in str(caught.value)
    assert get(plain, "SELECT 1 AS one")["one"].to_pylist() == [1]


def test_our_client_reads_streams_and_tables(uri: str) -> None:
    with Client(uri) as client:
        rows = client.query("SELECT * FROM big")
        assert rows.metadata["epochs"]
        batches = list(rows)
        assert sum(batch.num_rows for batch in batches) == BIG_ROWS
        assert batches[0].schema.equals(rows.schema, check_metadata=True)
        assert client.query("SELECT song_id FROM songs ORDER BY 1").read_all()["song_id"].to_pylist() == [
            1,
            2,
            3,
        ]
        assert client.query("SELECT 1 AS one WHERE false").read_all().num_rows == 0
        assert client.stores()["store"].to_pylist() == ["Odd 100%_name", "big", "songs", "typed"]
        assert client.health() == {"ready": True, "stores": 4, "running": 0}
        client.notify("songs")
        client.notify()


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("id = ?", 1),
        ("amount = ?", decimal.Decimal("12345.678")),
        ("raw = ?", b"\x00\xff"),
        ("day = ?", NOON.date()),
        ("moment = ?", NOON),
        ("instant = ?", NOON.replace(tzinfo=dt.UTC)),
    ],
)
def test_our_client_binds_python_values(uri: str, condition: str, value: object) -> None:
    with Client(uri) as client:
        assert client.query(f"SELECT id FROM typed WHERE {condition}", [value]).read_all()[
            "id"
        ].to_pylist() == [1]
        name = condition.replace("?", "$value")
        assert client.query(f"SELECT id FROM typed WHERE {name}", {"value": value}).read_all()[
            "id"
        ].to_pylist() == [1]


@pytest.mark.parametrize("listed", [[], [None], [None, None]])
def test_a_list_need_not_say_of_what_it_is(uri: str, listed: list[None]) -> None:
    for condition in ("id = ANY(?)", "name IN ?", "day = ANY(?)", "instant = ANY(?)", "tags = ?"):
        sql = f"SELECT id FROM typed WHERE {condition}"
        with Client(uri) as client:
            assert client.query(sql, [listed]).read_all().num_rows == 0


def test_our_client_raises_the_kinds_of_the_host(uri: str) -> None:
    def kind(sql: str, parameters: Any = None) -> LivestateError:
        with Client(uri, timeout_seconds=1) as client, pytest.raises(LivestateError) as caught:
            client.query(sql, parameters).read_all()
        return caught.value

    broken = kind("SELECT title,\n  FROM WHERE songs")
    assert isinstance(broken, InvalidInput)
    assert broken.position is not None
    assert broken.position.line == 2
    assert isinstance(kind("SELECT * FROM nowhere"), InvalidInput | NotFound)
    assert isinstance(kind("DROP TABLE songs"), Unsupported)
    assert isinstance(kind(SLOW), DeadlineExceeded)
    assert isinstance(kind("SELECT ?", [object()]), InvalidInput)
    assert isinstance(kind("SELECT title FROM songs WHERE song_id = ?", []), InvalidInput)


def test_our_client_says_where_no_host_is() -> None:
    with Client("grpc://127.0.0.1:1") as client, pytest.raises(Unavailable, match="livestate serve"):
        client.query("SELECT 1")
    with pytest.raises(InvalidInput, match="not the address"):
        Client("what is this")


def test_our_client_may_leave_a_result(uri: str, host: Host) -> None:
    with Client(uri) as client:
        rows = client.query("SELECT * FROM big")
        next(iter(rows))
        rows.close()
        wait_until(lambda: host.running_queries == 0)
        assert client.query("SELECT 1 AS one").read_all().num_rows == 1


def test_what_waits_for_its_plan_is_seen_and_cancelled(plain: flight.FlightClient, uri: str) -> None:
    """The columns of a PIVOT are read, from an epoch that does not come; pieces are those of an epoch."""
    late = {"min_epoch": 99, "timeout": PATIENCE_SECONDS}
    pivot = {"sql": "PIVOT songs ON title USING sum(plays + $more)", "parameters": {"more": 1}, **late}
    divided = {"sql": "SELECT * FROM songs", "endpoints": "partitions", **late}
    command = flight.FlightDescriptor.for_command(json.dumps(divided))
    with Client(uri) as client, ThreadPoolExecutor(1) as pool:

        def ids(sql: object) -> list[str]:
            rows = client.query("SHOW STATEMENTS").read_all().to_pylist()
            return [row["id"] for row in rows if row["statement"] == sql]

        for sql, waiting in (
            (pivot["sql"], pool.submit(get, plain, pivot)),
            (divided["sql"], pool.submit(plain.get_flight_info, command)),
        ):
            wait_until(lambda sql=sql: bool(ids(sql)))  # type: ignore[misc] # mypy gives lambdas with defaults no type
            client.query(f"CANCEL '{ids(sql)[0]}'").read_all()
            with pytest.raises(flight.FlightCancelledError, match="was cancelled"):
                waiting.result(PATIENCE_SECONDS)


@pytest.mark.parametrize(("timeout_seconds", "why"), [(2, "time-out of 2 s"), (3600, "was cancelled")])
def test_what_a_client_does_not_read_ends_in_time(
    plain: flight.FlightClient, uri: str, host: Host, timeout_seconds: int, why: str
) -> None:
    """It ends without a word to the client, which is told when it reads on: some rows are not all."""
    sql = "SELECT a.* FROM big a, big b"
    ticket = flight.Ticket(json.dumps({"sql": sql, "timeout": timeout_seconds}))
    with Client(uri) as client:
        rows = plain.do_get(ticket)
        rows.read_chunk()
        if "cancelled" in why:
            (found,) = [
                row["id"]
                for row in client.query("SHOW STATEMENTS").read_all().to_pylist()
                if row["statement"] == sql
            ]
            client.query(f"CANCEL '{found}'").read_all()
        wait_until(lambda: host.running_queries == 0)
        with pytest.raises(flight.FlightError, match=why):
            while True:
                rows.read_chunk()
