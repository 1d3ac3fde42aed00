"""Which epochs to read, as clients say it: options, headers, cookies, tickets, handles."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.errors import InvalidInput
from engine.model.read_point import NEWEST, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName
from flight_server.wire.read_point_options import parse_read_point, read_point_values
from flight_server.wire.session_options import SessionOptions
from flight_server.wire.tickets import JsonStatement, Statement, parse_ticket
from tests.protocol.test_sessions import _Cookies, _get, _set

NOON = 1_763_640_000_000_000
"""2025-11-20T12:00:00Z."""
PLAYS, SONGS = GroupName("plays"), GroupName("a, b=c")


@pytest.mark.parametrize(
    ("given", "read_point"),
    [
        ({}, NEWEST),
        ({"min_epoch": "", "max_staleness": None, "as_of": ""}, NEWEST),
        ({"min_epoch": 7}, ReadPoint(min_epoch=Epoch(7))),
        ({"min_epoch": "7"}, ReadPoint(min_epoch=Epoch(7))),
        ({"max_staleness": 0}, ReadPoint(max_staleness_seconds=0.0)),
        ({"max_staleness": "2.5"}, ReadPoint(max_staleness_seconds=2.5)),
        ({"as_of": 5}, ReadPoint(as_of_default=AsOfEpoch(Epoch(5)))),
        ({"as_of": "5"}, ReadPoint(as_of_default=AsOfEpoch(Epoch(5)))),
        ({"as_of": "2025-11-20T12:00:00Z"}, ReadPoint(as_of_default=AsOfTimestamp(NOON))),
        ({"as_of": "2025-11-20 12:00:00"}, ReadPoint(as_of_default=AsOfTimestamp(NOON))),
        ({"as_of": "2025-11-20T13:00:00.000001+01:00"}, ReadPoint(as_of_default=AsOfTimestamp(NOON + 1))),
        (
            {"as_of": {"plays": 5, "a, b=c": "2025-11-20T12:00:00Z"}, "min_epoch": 3},
            ReadPoint(Epoch(3), None, {PLAYS: AsOfEpoch(Epoch(5)), SONGS: AsOfTimestamp(NOON)}),
        ),
        ({"as_of": '{"plays": "5"}'}, ReadPoint(as_of={PLAYS: AsOfEpoch(Epoch(5))})),
        ({"as_of": " 5@0af3 "}, ReadPoint(as_of_default=AsOfEpoch(Epoch(5), "0af3"))),
        ({"as_of": {"plays": "5@0af3"}}, ReadPoint(as_of={PLAYS: AsOfEpoch(Epoch(5), "0af3")})),
        ({"allow_stale": True}, ReadPoint(allow_stale=True)),
        ({"allow_stale": "TRUE", "max_staleness": 60}, ReadPoint(None, 60.0, allow_stale=True)),
        ({"allow_stale": "false"}, ReadPoint()),
        ({"allow_stale": ""}, ReadPoint()),
    ],
)
def test_a_wish_is_read_and_survives_every_trip(given: dict[str, Any], read_point: ReadPoint) -> None:
    found = parse_read_point(**given)
    assert found == read_point
    assert parse_read_point(**read_point_values(found)) == read_point
    statement = parse_ticket(Statement("SELECT 1", read_point=found).to_bytes(), lambda: Statement(""))
    assert isinstance(statement, Statement)
    assert statement.read_point == read_point
    assert statement.bind(pa.record_batch({"1": [1]})).read_point == read_point


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("min_epoch", value) for value in (-1, "x", 1.5, True, "1" * 50, 1 << 63, [1])),
        *(("max_staleness", value) for value in (-1, "soon", True, float("nan"), float("inf"), [1], "1e999")),
        *(
            ("as_of", value)
            for value in (
                -1,
                "yesterday",
                "{",
                '{"plays": {}}',
                {"plays": None},
                True,
                1.5,
                ["x"],
                "9999-99-99",
                "[" * 100_000,
                "5@",
                "5@xyz",
                "@0af3",
                f"{1 << 63}@0af3",
            )
        ),
        *(("allow_stale", value) for value in ("maybe", 1, 0.0, [1], "0")),
    ],
)
def test_a_wish_that_cannot_be_is_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidInput, match=name):
        parse_read_point(**{name: value})


def test_json_tickets_carry_wishes() -> None:
    session = SessionOptions(read_point=ReadPoint(min_epoch=Epoch(1))).statement("")
    for ticket, read_point in (
        (b'{"sql": "SELECT 1"}', ReadPoint(min_epoch=Epoch(1))),
        (b'{"sql": "SELECT 1", "as_of": {"plays": 5}}', ReadPoint(as_of={PLAYS: AsOfEpoch(Epoch(5))})),
        (b'{"sql": "SELECT 1", "min_epoch": 4, "max_staleness": 0.5}', ReadPoint(Epoch(4), 0.5)),
    ):
        parsed = parse_ticket(ticket, lambda: session)
        assert isinstance(parsed, JsonStatement)
        assert parsed.statement.read_point == read_point
    plain = parse_ticket(b"SELECT 1", lambda: session)
    assert isinstance(plain, Statement)
    assert plain.read_point == ReadPoint(min_epoch=Epoch(1))


def test_session_options_hold_wishes(uri: str) -> None:
    with flight.connect(uri, middleware=[_Cookies()]) as client:
        assert (
            _set(
                client,
                min_epoch=("int64_value", 3),
                max_staleness=("string_value", "1.5"),
                as_of=("string_value", '{"plays": 5}'),
            )
            == {}
        )
        found = _get(client)
        assert (found["min_epoch"], found["max_staleness"], found["as_of"]) == (3, 1.5, '{"plays": "5"}')
        assert _set(client, min_epoch=("string_value", "soon"), as_of=("bool_value", True)) == {
            "min_epoch": 2,
            "as_of": 2,
        }
        assert (
            _set(
                client, min_epoch=(None, None), max_staleness=("string_value", ""), as_of=("string_value", "")
            )
            == {}
        )
        for flag in ("parallel_endpoints", "allow_stale"):
            for kind, value in (("bool_value", True), ("string_value", "TRUE")):
                assert _set(client, **{flag: (kind, value)}) == {}
                assert _get(client)[flag] is True
            assert _set(client, **{flag: ("string_value", "maybe")}) == {flag: 2}
            assert _set(client, **{flag: ("int64_value", 1)}) == {flag: 2}
            assert _set(client, **{flag: ("bool_value", False)}) == {}
        assert _get(client).keys() == {"catalog", "schema", "dialect"}


def test_headers_are_wishes_too(uri: str) -> None:
    with flight.connect(uri) as client:
        for name in (b"livestate-min-epoch", b"livestate-max-staleness", b"livestate-as-of"):
            with pytest.raises(
                pa.ArrowInvalid, match=name.decode().removeprefix("livestate-").replace("-", "_")
            ):
                client.do_get(flight.Ticket("SELECT 1"), flight.FlightCallOptions(headers=[(name, b"soon")]))
