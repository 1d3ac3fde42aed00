"""Messages that say much in few bytes: elements of lists and maps, messages in messages, values in JSON, as
many as the size allows. Each takes two bytes at the least where it travels, and far more once it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pyarrow as pa

from flight_server.wire.fragment_messages import FRAGMENT_MARK
from flight_server.wire.messages import TYPE_PREFIX, new
from flight_server.wire.tickets import COMMAND_MARK, STATEMENT_MARK
from tests.fuzz.calls import Call, action, descriptor, field, flight_data, flight_stream, ticket
from tests.fuzz.recording import Recorded
from tests.support.hostile_arrow import write_message

SIZES = (1_000, 30_000, 63_000, 300_000, 1_000_000, 2_000_000)
"""Bytes: below what a message or a JSON may take, and beyond."""
_RARE_SIZES = (8_000_000, 17_000_000)
_UNKNOWN_FIELD = 99
_DEEPEST = 4

_COMMANDS = (
    *(f"CommandGet{name}" for name in ("SqlInfo", "XdbcTypeInfo", "Catalogs", "DbSchemas", "Tables")),
    *(f"CommandGet{name}" for name in ("TableTypes", "PrimaryKeys", "ExportedKeys", "CrossReference")),
    *(f"CommandStatement{name}" for name in ("Query", "Update", "SubstraitPlan", "Ingest")),
    "CommandPreparedStatementQuery",
)
_PACKED_ACTIONS = {
    "CreatePreparedStatement": "ActionCreatePreparedStatementRequest",
    "ClosePreparedStatement": "ActionClosePreparedStatementRequest",
    "CancelQuery": "ActionCancelQueryRequest",
}
_PLAIN_ACTIONS = {
    "SetSessionOptions": "SetSessionOptionsRequest",
    "GetSessionOptions": "GetSessionOptionsRequest",
    "CloseSession": "CloseSessionRequest",
    "CancelFlightInfo": "CancelFlightInfoRequest",
}
_ELEMENTS = (
    "{}",
    "[]",
    "1",
    "1e9",
    '""',
    '"ab"',
    "null",
    '{"a":1}',
    "[[1]]",
    '{"":{}}',
    '"\\u0000"',
    '"\\ud800"',
    "-0.5",
)
"""Values of JSON."""
_JSON_FRAMES: Mapping[str, tuple[str, ...]] = {
    "statement": (
        '{"sql": "SELECT ?", "parameters": [%s]}',
        '{"sql": "SELECT ?", "parameters": [[%s]]}',
        '{"sql": "SELECT ? FROM t", "parameters": [[%s]]}',
        '{"sql": "SELECT $a", "parameters": {%n}}',
        '{"sql": "SELECT 1", "as_of": {%n}}',
        '{"sql": "SELECT 1", %n}',
        '{"sql": "SELECT 1", "endpoints": [%s]}',
    ),
    "keys": (
        '{"version": 1, "store": "t", "columns": [%s]}',
        '{"version": 1, "store": "t", %n}',
        '{"version": 1, "store": "t", "as_of": {%n}}',
    ),
    "livestate.hold": ('{"epochs": {%n}, "seconds": 1}', '{"epochs": {"t": [%s]}, "seconds": 1}'),
    "livestate.scrub": ('{"do": [%s]}', '{"do": "status", %n}'),
    "livestate.drain": ('{"do": [%s]}', "[%s]"),
    "livestate.report": (
        '{"format": 2, "host": "b", "changelog": "x", "started": 1, "number": 1, "groups": {%n}}',
        '{"format": 2, "host": "b", "changelog": "x", "number": 1, "groups": {}, "stores": {%n}}',
        '{"format": 2, "groups": [%s]}',
        "[%s]",
    ),
}
"""Documents for each entrance: `%s` becomes many values, `%n` as many with names."""


def unfolding_call(kind: str, seed: int, random: Random) -> Call:
    """A call whose message is far larger once it is read.

    Args:
        kind: The generator's name.
        seed: What the call is made of.
        random: Chooses.
    """
    size = random.choice(_RARE_SIZES if random.random() < 0.03 else SIZES)
    about, (rpc, messages) = random.choice((_protobuf_call, _protobuf_call, _json_call))(size, random)
    return Call(kind, seed, f"{about}, {size:,} bytes", rpc, messages, (("livestate-timeout", "1"),))


def _protobuf_call(size: int, random: Random) -> tuple[str, Recorded]:
    entrance: Callable[[int, Random], tuple[str, Recorded]] = random.choice(
        (_command_call, _ticket_call, _action_call)
    )
    return entrance(size, random)


def _command_call(size: int, random: Random) -> tuple[str, Recorded]:
    name = random.choice(_COMMANDS)
    body = _any_of_size(name, size, random)
    rpc = random.choice(("GetFlightInfo", "GetSchema", "DoPut", "DoGet"))
    if rpc == "DoGet":
        return name, (rpc, (ticket(COMMAND_MARK + body),))
    if rpc == "DoPut":
        return name, (rpc, tuple(flight_stream([write_message(pa.array([1])).schema], body)))
    return name, (rpc, (descriptor(body),))


def _ticket_call(size: int, random: Random) -> tuple[str, Recorded]:
    if random.random() < 0.5:
        body = (
            FRAGMENT_MARK
            + field(1, 1)
            + field(2, b"SELECT 1")
            + _message_of_size("FragmentRequest", size, random)
        )
        if random.random() < 0.5:
            return "FragmentRequest", ("DoExchange", (flight_data(command=body),))
        return "FragmentRequest", ("DoGet", (ticket(body),))
    handle = STATEMENT_MARK + field(1, b"SELECT 1") + _message_of_size("StatementHandle", size, random)
    if random.random() < 0.5:
        return "StatementHandle", ("DoGet", (ticket(handle),))
    command = _any_message("CommandPreparedStatementQuery", field(1, handle))
    return "StatementHandle", (random.choice(("GetFlightInfo", "GetSchema")), (descriptor(command),))


def _action_call(size: int, random: Random) -> tuple[str, Recorded]:
    name = random.choice((*_PACKED_ACTIONS, *_PLAIN_ACTIONS, "livestate.notify"))
    if name in _PACKED_ACTIONS:
        body = _any_of_size(_PACKED_ACTIONS[name], size, random)
    elif name == "CancelFlightInfo" or name not in _PLAIN_ACTIONS:
        # Endpoints, tickets and locations of `format/Flight.proto`.
        inner = random.choice((b"", field(1, b""), field(2, b""), field(1, field(1, b"x"))))
        body = field(1, _repeat(field(3, inner), size))
    else:
        body = _message_of_size(_PLAIN_ACTIONS[name], size, random)
    return name, ("DoAction", (action(name, body),))


def _json_call(size: int, random: Random) -> tuple[str, Recorded]:
    entrance = random.choice(list(_JSON_FRAMES))
    frame = random.choice(_JSON_FRAMES[entrance])
    element = random.choice(_ELEMENTS)
    if "%n" in frame:
        count = size // (len(element) + 9)
        text = frame.replace("%n", ",".join(f'"{number:x}":{element}' for number in range(count)))
    else:
        text = frame.replace("%s", ",".join([element] * (size // (len(element) + 1))))
    body = text.encode()
    if entrance == "statement":
        in_ticket = random.random() < 0.5
        made: Recorded = ("DoGet", (ticket(body),)) if in_ticket else ("GetFlightInfo", (descriptor(body),))
    elif entrance == "keys":
        made = ("DoExchange", (flight_data(command=body),))
    else:
        made = ("DoAction", (action(entrance, body),))
    return f"JSON, {entrance}, {element}", made


def _any_of_size(name: str, size: int, random: Random) -> bytes:
    if random.random() < 0.1:
        return field(1, f"{TYPE_PREFIX}{name}".encode()) + _repeat(field(2, b""), size)
    return _any_message(name, _message_of_size(name, size, random))


def _any_message(name: str, body: bytes) -> bytes:
    return field(1, f"{TYPE_PREFIX}{name}".encode()) + field(2, body)


def _message_of_size(name: str, size: int, random: Random) -> bytes:
    return _message_of_type(new(name).DESCRIPTOR, size, random, _DEEPEST)


def _message_of_type(found: Any, size: int, random: Random, depth: int) -> bytes:
    """A message of a type, of which one field takes all its size."""
    if not found.fields or random.random() < 0.05:
        return _repeat(random.choice((field(_UNKNOWN_FIELD, 1), field(_UNKNOWN_FIELD, b""))), size)
    chosen = random.choice(found.fields)
    if chosen.message_type is None:
        if chosen.cpp_type in (chosen.CPPTYPE_STRING, chosen.CPPTYPE_MESSAGE):
            return _repeat(field(chosen.number, random.choice((b"", b"a"))), size)
        if random.random() < 0.5:
            return field(chosen.number, b"\x01" * size)
        return _repeat(field(chosen.number, 1), size)
    if chosen.message_type.GetOptions().map_entry and random.random() < 0.7:
        keys = (f"{number:x}".encode() for number in range(size // 10))
        return b"".join(field(chosen.number, field(1, key)) for key in keys)
    if depth and random.random() < 0.6:
        return field(chosen.number, _message_of_type(chosen.message_type, size, random, depth - 1))
    return _repeat(field(chosen.number, b""), size)


def _repeat(part: bytes, size: int) -> bytes:
    return part * (size // len(part))
