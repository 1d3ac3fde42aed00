"""Ways in which a text comes to a host: as a ticket, planned, prepared, with parameters, in a fragment."""

from __future__ import annotations

import json
from random import Random

import pyarrow as pa

from flight_server.wire.fragment_messages import FORMAT, FRAGMENT_MARK
from flight_server.wire.messages import new, pack
from flight_server.wire.tickets import STATEMENT_MARK
from tests.fuzz.calls import Call, action, descriptor, ticket

FUZZED_EPOCH = 2
"""At which the fuzzed stores can be read."""
TIMEOUT_HEADER = "livestate-timeout"
DIALECT_HEADER = "livestate-dialect"
DIALECTS = ("duckdb", "duckdb", "duckdb", "spark", "snowflake", "postgres", "bigquery")
_VALUES = (
    *(1, -1, 2**63 - 1, 0.5, float("nan"), "x", "x" * 5000, "", None, b"\0", True),
    *(
        [1, 2],
        ["a"] * 1000,
        {"a": 1},
        {"a": [{"b": None}]},
        [None],
        [[None]],
        [[None, 1]],
        [1.5],
        {"a": None},
    ),
)


def statement_call(kind: str, seed: int, about: str, text: str, random: Random, seconds: float) -> Call:
    """A call that sends a text.

    Args:
        kind: Which generator has made it.
        seed: What it made it of.
        about: How.
        text: The text.
        random: Chooses the call.
        seconds: The statement's time-out.
    """
    sql = text.encode(errors="surrogatepass")
    dialect = "duckdb" if kind == "functions" else random.choice(DIALECTS)
    headers = [(TIMEOUT_HEADER, f"{seconds:g}")]
    if dialect != "duckdb":
        headers.append((DIALECT_HEADER, dialect))
    way = random.randrange(7 if kind == "functions" else 12)
    query = _message("CommandStatementQuery", query=text)
    if way < 5:
        rpc, message = "DoGet", ticket(sql)
    elif way == 5:
        rpc, message = "GetFlightInfo", descriptor(query)
    elif way == 6:
        rpc = "DoGet"
        message = ticket(_handle(text, seconds, dialect, _row(random) if random.random() < 0.5 else None))
    elif way == 7:
        rpc, message = "GetSchema", descriptor(query)
    elif way == 8:
        rpc = "DoAction"
        message = action(
            "CreatePreparedStatement", _message("ActionCreatePreparedStatementRequest", query=text)
        )
    elif way == 9:
        rpc = "GetFlightInfo"
        handle = _handle(text, seconds, dialect, None)
        message = descriptor(_message("CommandPreparedStatementQuery", prepared_statement_handle=handle))
    elif way == 10:
        rpc, message = "DoGet", ticket(_json(text, random))
    else:
        rpc, message = "DoGet", ticket(_fragment(text, seconds))
    return Call(kind, seed, f"{about} ({dialect})", rpc, (message,), tuple(headers))


def _message(name: str, **fields: object) -> bytes:
    return pack(new(name, **{key: _sendable(value) for key, value in fields.items()}))


def _sendable(value: object) -> object:
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def _handle(text: str, seconds: float, dialect: str, row: pa.RecordBatch | None) -> bytes:
    message = new("StatementHandle", sql=_sendable(text), dialect=dialect, timeout=seconds)
    if row is not None:
        message.parameter_schema = row.schema.serialize().to_pybytes()
        message.parameter_row = row.serialize().to_pybytes()
    return STATEMENT_MARK + bytes(message.SerializeToString())


def _row(random: Random) -> pa.RecordBatch:
    values = random.choices(_VALUES, k=random.choice((1, 1, 2, 3, 50)))
    if random.random() < 0.05:
        before, after = random.choice((("x", ""), ("[", "]"), ('{"a":', "}")))
        times = random.choice((20_000, 200_000, 2_000_000))
        values[0] = f"{before * times}1{after * times}"
    return pa.record_batch(
        [pa.array([value]) for value in values], [str(place) for place in range(1, len(values) + 1)]
    )


def _json(text: str, random: Random) -> bytes:
    values = [
        value for value in random.choices(_VALUES, k=random.randrange(4)) if not isinstance(value, bytes)
    ]
    if random.random() < 0.05:
        text = f"{text}{chr(random.randrange(0xD800, 0xE000))}"
    given = values if random.random() < 0.7 else dict(zip("abcd", values, strict=False))
    return json.dumps({"sql": text, "parameters": given}).encode()


def _fragment(text: str, seconds: float) -> bytes:
    message = new(
        "FragmentRequest",
        format=FORMAT,
        sql=_sendable(text),
        epochs={"t": FUZZED_EPOCH, "u": FUZZED_EPOCH},
        partitions={
            "t": new("PartitionList", partitions=[0, 1]),
            "u": new("PartitionList", partitions=[0, 1]),
        },
        timeout=seconds,
    )
    return FRAGMENT_MARK + bytes(message.SerializeToString())
