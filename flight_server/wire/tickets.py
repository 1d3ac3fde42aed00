"""What a ticket and a prepared-statement handle hold: everything that is needed to run the statement.

Nothing is kept on the host between two calls of a client, so nothing leaks, times out or is lost with a
restart, and any host can take any call.

The first byte of a ticket decides, so that no content has to be guessed from:

| first bytes | content |
|---|---|
| `00 51` (NUL, `Q`) | a statement: message `StatementHandle` (`flight_server.wire.messages`) |
| `00 43` (NUL, `C`) | a catalog command of Flight SQL: its `Any`, as the descriptor had it |
| `00 46` (NUL, `F`) | a fragment of another host: message `FragmentRequest` (`flight_server.wire.fragment_messages`) |
| `7B` (`{`, with which no statement begins) | JSON: `{"sql": "…", "parameters": […] or {…}, "dialect": "…", "timeout": seconds}` and wishes |
| anything else | SQL text in UTF-8 |

A prepared-statement handle is the first of these. Read points are the fields of `flight_server.wire.read_point_options`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.read_point import NEWEST, ReadPoint
from engine.model.schema import GroupName, StoreName
from engine.model.table_shapes import ExpectedShapes, TableShape
from flight_server.wire.ipc_bytes import NotPlainError, check_row, read_row
from flight_server.wire.json_bodies import parse_json
from flight_server.wire.messages import Message, new, parse, statement_handle
from flight_server.wire.read_point_options import (
    READ_POINT_OPTIONS,
    parse_pinned,
    parse_read_point,
    pinned_text,
    read_point_values,
)

STATEMENT_MARK = b"\x00Q"
COMMAND_MARK = b"\x00C"
CALL_ID_BYTES = 8
_CALL_ID_FIELD = bytes([statement_handle.DESCRIPTOR.fields_by_name["call_id"].number << 3 | 2, CALL_ID_BYTES])
"""Protobuf's tag of the field, of wire type 2 (bytes), and the length of its value."""
MAX_PARAMETER_BYTES = 16 << 20
MAX_PARAMETER_VALUES = 2 << 20
"""Of lists, structs and maps, all that is in them counts: the engine takes parameters as Python's objects."""
_PLAIN_TYPES = frozenset({pa.int64().id, pa.string().id})
_JSON_FIELDS = frozenset(READ_POINT_OPTIONS) | {"sql", "parameters", "dialect", "timeout"}
_HALF_OF_A_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
MAX_SECONDS = 1e15
"""A time limit as good as none, which all that reckons with times can bear."""
_LEAST_SECONDS = 0.001
"""What is left of a time that has run out: enough to be told so."""


@dataclass(frozen=True)
class Parameters:
    """Values bound to a statement, as a handle carries them.

    Attributes:
        schema: IPC message of their schema.
        row: IPC message of their one row.
    """

    schema: bytes
    row: bytes

    @staticmethod
    def from_batch(batch: pa.RecordBatch) -> Parameters:
        """Pack values.

        Args:
            batch: One column a parameter, one row, of types that `flight_server.wire.ipc_bytes` reads.

        Raises:
            InvalidInput: They are larger than 16 MiB, or have more than two million values.
        """
        schema, row = batch.schema.remove_metadata().serialize(), batch.serialize()
        if schema.size + row.size > MAX_PARAMETER_BYTES:
            raise InvalidInput(
                f"The parameters take {schema.size + row.size:,} bytes; at most {MAX_PARAMETER_BYTES:,} can "
                "be bound to a statement."
            )
        found = Parameters(schema.to_pybytes(), row.to_pybytes())
        try:
            check_row(found.row, MAX_PARAMETER_VALUES)
        except NotPlainError as error:
            raise InvalidInput(f"The parameters cannot be bound: {error}.") from error
        return found

    def batch(self) -> pa.RecordBatch:
        """The values.

        Returns:
            What `from_batch` got.

        Raises:
            InvalidInput: The bytes are not such as `from_batch` makes.
        """
        if len(self.schema) + len(self.row) > MAX_PARAMETER_BYTES:
            raise InvalidInput(
                f"The parameters in the statement handle take more than {MAX_PARAMETER_BYTES:,} bytes: bind "
                "fewer or smaller ones."
            )
        try:
            return read_row(self.schema, self.row, MAX_PARAMETER_VALUES)
        except NotPlainError as error:
            raise InvalidInput(
                f"The parameters in the statement handle cannot be read: {error}. Bind them again."
            ) from error


@dataclass(frozen=True)
class PlainValue:
    """The value of a statement's only parameter, an int64 or a text that is not NULL, as most lookups have
    it.

    It is a field of the handle, which takes half the time of `Parameters` to write and read.

    Attributes:
        value: The value.
    """

    value: int | str

    @staticmethod
    def from_batch(batch: pa.RecordBatch) -> PlainValue | None:
        """The value in a batch of one row; None where it has more than that, or something else."""
        if batch.num_columns != 1:
            return None
        column = batch.column(0)
        if column.type.id not in _PLAIN_TYPES:
            return None
        value = column[0].as_py()
        return None if value is None else PlainValue(value)

    def batch(self) -> pa.RecordBatch:
        """The value in a batch of one row."""
        return pa.record_batch([pa.array([self.value])], ["1"])


@dataclass(frozen=True)
class Statement:
    """A statement with all it needs to run.

    Attributes:
        sql: Its text.
        dialect: SQL dialect of the text; empty: the host's default.
        timeout_seconds: How long it may run; None: as long as the host allows.
        parameters: Values bound to it, if any.
        call_id: What tells this execution from all others, so that it can be cancelled; empty: it cannot.
        read_point: Which epochs it may read.
        parallel: Its result may be given as several endpoints, one a host.
        expected_shapes: What its names meant when the client was told the columns of its result
            (`engine.model.table_shapes.ExpectedShapes`); None: it was not.
    """

    sql: str
    dialect: str = ""
    timeout_seconds: float | None = None
    parameters: Parameters | PlainValue | None = None
    call_id: bytes = b""
    read_point: ReadPoint = NEWEST
    parallel: bool = False
    expected_shapes: ExpectedShapes | None = None

    def to_bytes(self) -> bytes:
        """The ticket or handle that `parse_ticket` reads back."""
        message = statement_handle(
            sql=self.sql, dialect=self.dialect, call_id=self.call_id, parallel=self.parallel
        )
        if isinstance(self.parameters, PlainValue):
            if isinstance(self.parameters.value, int):
                message.number = self.parameters.value
            else:
                message.text = self.parameters.value
        elif self.parameters is not None:
            message.parameter_schema, message.parameter_row = self.parameters.schema, self.parameters.row
        if self.timeout_seconds is not None:
            message.timeout = self.timeout_seconds
        if self.read_point is not NEWEST:
            message.read_point.CopyFrom(read_point_message(self.read_point))
        if self.expected_shapes is not None:
            message.expected_shapes.SetInParent()
            for each in self.expected_shapes:
                message.expected_shapes.tables.add(
                    name=each.name, store=each.store, generation=each.generation, group=each.group
                )
        return STATEMENT_MARK + bytes(message.SerializeToString())

    def bind(self, parameters: pa.RecordBatch) -> Statement:
        """The same statement with values.

        Args:
            parameters: One column a parameter, one row.

        Returns:
            A statement that carries them in place of what it carried.

        Raises:
            InvalidInput: They are larger than 16 MiB.
        """
        values = PlainValue.from_batch(parameters) or Parameters.from_batch(parameters)
        return Statement(
            self.sql,
            self.dialect,
            self.timeout_seconds,
            values,
            self.call_id,
            self.read_point,
            self.parallel,
            self.expected_shapes,
        )

    def replace_sql(self, sql: str) -> Statement:
        """Another text with the same session options."""
        # Each call makes one: to set the attributes of a frozen value one by one takes four times as long.
        made = object.__new__(Statement)
        made.__dict__.update(self.__dict__, sql=sql, parameters=None, call_id=b"", expected_shapes=None)
        return made

    def shorten_timeout(self, seconds: float) -> Statement:
        """The same statement, with what is left of its time after some seconds."""
        return replace(self, timeout_seconds=seconds_left(self.timeout_seconds, seconds))


def seconds_left(timeout_seconds: float | None, passed_seconds: float) -> float | None:
    """What is left of a time limit.

    Args:
        timeout_seconds: The limit; None for none.
        passed_seconds: What has passed of it.

    Returns:
        Seconds, above 0; None for no limit.
    """
    return None if timeout_seconds is None else max(timeout_seconds - passed_seconds, _LEAST_SECONDS)


def execution_ticket(handle: bytes, expected_shapes: ExpectedShapes | None, call_id: bytes = b"") -> bytes:
    """The ticket of one execution of a statement.

    Args:
        handle: The statement's handle, which says nothing of what its client was told.
        expected_shapes: What the statement's names meant when its client was told the columns of its result.
        call_id: What this execution is known by, `CALL_ID_BYTES`; empty: something random.

    Returns:
        A ticket for the same statement with this `call_id`.
    """
    # A field written behind a protobuf message becomes part of it, so nothing has to be read and written
    # again.
    return (
        handle
        + (b"" if expected_shapes is None else _shapes_field(expected_shapes))
        + _CALL_ID_FIELD
        + (call_id or os.urandom(CALL_ID_BYTES))
    )


@lru_cache(maxsize=256)
def _shapes_field(expected_shapes: ExpectedShapes) -> bytes:
    return Statement("", expected_shapes=expected_shapes).to_bytes()[len(STATEMENT_MARK) :]


@dataclass(frozen=True)
class JsonStatement:
    """A statement from a JSON ticket, whose values have no types yet.

    Attributes:
        statement: The statement without parameters.
        parameters: JSON values by position or by name; they take the types that the statement wants.
    """

    statement: Statement
    parameters: Sequence[Any] | Mapping[str, Any]

    @property
    def call_id(self) -> bytes:
        """The statement's."""
        return self.statement.call_id

    @property
    def timeout_seconds(self) -> float | None:
        """The statement's."""
        return self.statement.timeout_seconds

    def shorten_timeout(self, seconds: float) -> JsonStatement:
        """The same, with what is left of its time after some seconds."""
        return JsonStatement(self.statement.shorten_timeout(seconds), self.parameters)


@dataclass(frozen=True)
class Command:
    """A catalog command of Flight SQL.

    Attributes:
        body: Its `Any`.
    """

    body: bytes

    def to_bytes(self) -> bytes:
        """The ticket that `parse_ticket` reads back."""
        return COMMAND_MARK + self.body


def parse_ticket(ticket: bytes, defaults: Callable[[], Statement]) -> Statement | JsonStatement | Command:
    """What a ticket asks for.

    Args:
        ticket: Any bytes.
        defaults: Gives a statement with dialect and time limit of the caller's session, for tickets that do
            not carry their own.

    Returns:
        A statement, or a catalog command.

    Raises:
        InvalidInput: The bytes are none of the four forms.
    """
    if ticket.startswith(STATEMENT_MARK):
        return parse_handle(ticket)
    if ticket.startswith(COMMAND_MARK):
        return Command(ticket[len(COMMAND_MARK) :])
    if ticket.startswith(b"{"):
        return _json_statement(_json_document(ticket), defaults())
    try:
        sql = ticket.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("The ticket is neither one of this host's nor SQL text in UTF-8.") from error
    if "\0" in sql:
        raise InvalidInput(
            "The ticket is damaged, or not one of this host's: ask for a new one with GetFlightInfo. If it is "
            "SQL text, it must be without NUL characters."
        )
    return defaults().replace_sql(sql)


@dataclass(frozen=True)
class JsonCommand:
    """A statement from a JSON descriptor of GetFlightInfo.

    Attributes:
        request: The statement.
        by_partition: Its endpoints are to be one a partition, as far as it can be divided.
    """

    request: JsonStatement
    by_partition: bool


def parse_json_command(command: bytes, defaults: Statement) -> JsonCommand:
    """What the descriptor of a GetFlightInfo asks for.

    Args:
        command: The JSON of a ticket, and a field `endpoints`, which is `one` (the default) or `partitions`.
        defaults: A statement with dialect and time limit of the caller's session.

    Returns:
        The statement.

    Raises:
        InvalidInput: The bytes are none.
    """
    document = _json_document(command)
    endpoints = document.pop("endpoints", "one")
    if endpoints not in ("one", "partitions"):
        raise InvalidInput('"endpoints" must be "one" or "partitions".')
    return JsonCommand(_json_statement(document, defaults), endpoints == "partitions")


def parse_handle(handle: bytes) -> Statement:
    """The statement of a handle.

    Args:
        handle: What `Statement.to_bytes` made.

    Returns:
        The statement.

    Raises:
        InvalidInput: The bytes are no handle.
    """
    if not handle.startswith(STATEMENT_MARK):
        raise InvalidInput("The statement handle is not one of this host's: prepare the statement again.")
    message: Message = parse("StatementHandle", handle[len(STATEMENT_MARK) :])
    timeout = message.timeout if message.HasField("timeout") else None
    read_point = parsed_read_point(message.read_point) if message.HasField("read_point") else NEWEST
    return Statement(
        message.sql,
        message.dialect,
        checked_timeout(timeout),
        _bound_values(message),
        message.call_id,
        read_point,
        message.parallel,
        _parsed_shapes(message),
    )


def _parsed_shapes(message: Message) -> ExpectedShapes | None:
    if not message.HasField("expected_shapes"):
        return None
    if any(each.generation < 0 for each in message.expected_shapes.tables):
        raise InvalidInput("The statement handle is damaged: prepare the statement again.")
    return tuple(
        TableShape(StoreName(each.name), StoreName(each.store), each.generation, GroupName(each.group))
        for each in message.expected_shapes.tables
    )


def _bound_values(message: Message) -> Parameters | PlainValue | None:
    if message.HasField("number"):
        return PlainValue(message.number)
    if message.HasField("text"):
        return PlainValue(message.text)
    return Parameters(message.parameter_schema, message.parameter_row) if message.parameter_schema else None


def read_point_message(read_point: ReadPoint) -> Message:
    """A read point as handles carry it."""
    return new("ReadPoint", **read_point_values(read_point), pinned=pinned_text(read_point))


def parsed_read_point(message: Message) -> ReadPoint:
    """What `read_point_message` made.

    Raises:
        InvalidInput: It holds no read point.
    """
    min_epoch = message.min_epoch if message.HasField("min_epoch") else None
    max_staleness = message.max_staleness if message.HasField("max_staleness") else None
    read_point = parse_read_point(min_epoch, max_staleness, message.as_of, message.allow_stale)
    return replace(read_point, pinned=parse_pinned(message.pinned)) if message.pinned else read_point


def checked_timeout(timeout: object) -> float | None:
    """A time limit that somebody sent.

    Args:
        timeout: Anything.

    Returns:
        Seconds, or None for no limit of its own.

    Raises:
        InvalidInput: It is neither None nor a number of seconds above 0, or it is too large.
    """
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not (0 < timeout <= MAX_SECONDS):
        raise InvalidInput(
            f"The timeout must be a number of seconds above 0, and at most {MAX_SECONDS:,.0f}."
        )
    return float(timeout)


def _json_document(ticket: bytes) -> dict[str, Any]:
    try:
        document: dict[str, Any] = parse_json(ticket, MAX_PARAMETER_BYTES)
        if _HALF_OF_A_PAIR.search(ticket) is not None:
            # Whole pairs stand for a character, and so do two backslashes before the letter.
            json.dumps(document, ensure_ascii=False).encode()
    except UnicodeError as error:
        raise InvalidInput(
            "The ticket is not Unicode: send it as UTF-8, and no half of a surrogate pair in it (such as "
            "\\ud800 alone)."
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            'The ticket starts with { and is not JSON; send {"sql": "…"} or plain SQL text.'
        ) from error
    return document


def _json_statement(document: Mapping[str, Any], defaults: Statement) -> JsonStatement:
    unknown = document.keys() - _JSON_FIELDS
    if unknown:
        raise InvalidInput(
            f"The ticket has a field {min(unknown)!r}; known are {', '.join(sorted(_JSON_FIELDS))}."
        )
    sql, parameters, dialect = (
        document.get("sql"),
        document.get("parameters", []),
        document.get("dialect", defaults.dialect),
    )
    if not isinstance(sql, str):
        raise InvalidInput('The ticket lacks its statement: "sql" must be a text.')
    if not isinstance(parameters, list | dict):
        raise InvalidInput('"parameters" must be a list of values, or an object of values by name.')
    if not isinstance(dialect, str):
        raise InvalidInput('"dialect" must be a text, such as "duckdb" or "spark".')
    timeout = checked_timeout(document["timeout"]) if "timeout" in document else defaults.timeout_seconds
    read_point = (
        defaults.read_point
        if document.keys().isdisjoint(READ_POINT_OPTIONS)
        else parse_read_point(*map(document.get, READ_POINT_OPTIONS))
    )
    return JsonStatement(Statement(sql, dialect, timeout, read_point=read_point), parameters)
