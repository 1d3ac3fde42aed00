"""A stream of keys on the wire: a DoExchange by which a client looks rows of one store up by their keys, as
often as it likes. docs/key-streams.md has the whole protocol for those who write a client.

The descriptor's command is JSON: `{"version": 1, "store": "…", "columns": ["…"], "timeout": seconds}` and the
fields of `flight_server.wire.read_point_options`. The client sends record batches of keys. For each the host
sends a record batch with a row for each key, and JSON about it as application metadata.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName
from flight_server.wire.json_bodies import parse_json
from flight_server.wire.read_point_options import READ_POINT_OPTIONS, parse_read_point, read_point_values
from flight_server.wire.tickets import Statement, checked_timeout

VERSION = 1
MAX_KEYS = 10_000
"""Keys of one message."""
KEY_STREAM_METADATA = b"livestate-keys"
"""Metadata of the answers' schema: JSON with the version, the key columns and the limit of keys."""
KEY_SCHEMA_METADATA = b"livestate-key-schema"
"""Metadata of the answers' schema: the schema of the keys, as an IPC message."""
_FIELDS = frozenset(READ_POINT_OPTIONS) | {"version", "store", "columns", "timeout"}


@dataclass(frozen=True)
class KeyRequest:
    """What a client opens a stream of keys with.

    Attributes:
        store: The name of a store.
        columns: Names of its columns; None for all.
        read_point: Which epochs may be read.
        timeout_seconds: How long the answer to one message may take; None: as long as the host allows.
    """

    store: str
    columns: tuple[str, ...] | None
    read_point: ReadPoint
    timeout_seconds: float | None

    def to_bytes(self) -> bytes:
        """The command that `parse_key_request` reads back."""
        values: Mapping[str, Any] = {"timeout": self.timeout_seconds, **read_point_values(self.read_point)}
        document: dict[str, Any] = {"version": VERSION, "store": self.store}
        if self.columns is not None:
            document["columns"] = self.columns
        given = {name: value for name, value in values.items() if value not in (None, "")}
        if not self.read_point.allow_stale:
            del given["allow_stale"]  # which hosts of older versions do not know
        return json.dumps(document | given).encode()


def parse_key_request(command: bytes, defaults: Statement) -> KeyRequest:
    """What the command of a descriptor asks for.

    Args:
        command: JSON.
        defaults: A statement with the time limit and the read point of the caller's session.

    Returns:
        The request.

    Raises:
        InvalidInput: The bytes are none.
    """
    try:
        document = parse_json(command)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            'The descriptor starts with { and is not JSON; send {"version": 1, "store": "…"}.'
        ) from error
    unknown = document.keys() - _FIELDS
    if unknown:
        raise InvalidInput(
            f"The descriptor has a field {min(unknown)[:100]!r}; known are {', '.join(sorted(_FIELDS))}."
        )
    version, store, columns = document.get("version"), document.get("store"), document.get("columns")
    if version != VERSION or isinstance(version, bool):
        raise InvalidInput(
            f'The descriptor must name the version of the protocol: this host speaks {VERSION}, "version": '
            f"{VERSION}."
        )
    if not isinstance(store, str):
        raise InvalidInput('The descriptor lacks its store: "store" must be a text.')
    if columns is not None and not (
        isinstance(columns, list) and all(isinstance(column, str) for column in columns)
    ):
        raise InvalidInput('"columns" must be a list of names.')
    return KeyRequest(
        store,
        None if columns is None else tuple(columns),
        defaults.read_point
        if document.keys().isdisjoint(READ_POINT_OPTIONS)
        else parse_read_point(*map(document.get, READ_POINT_OPTIONS)),
        checked_timeout(document["timeout"]) if "timeout" in document else defaults.timeout_seconds,
    )


def answer_schema(schema: pa.Schema, key_schema: pa.Schema) -> pa.Schema:
    """The schema of the answers as it travels.

    Args:
        schema: Their columns.
        key_schema: The key columns.
    """
    facts = {"version": VERSION, "key": key_schema.names, "max_keys": MAX_KEYS}
    return schema.with_metadata(
        {
            KEY_STREAM_METADATA: json.dumps(facts),
            KEY_SCHEMA_METADATA: key_schema.serialize().to_pybytes(),
        }
    )


def parse_key_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the keys that `answer_schema` named.

    Args:
        schema: Of the answers.

    Raises:
        InvalidInput: There is none: the host is not one of livestate's, or of an older version.
    """
    message = (schema.metadata or {}).get(KEY_SCHEMA_METADATA)
    if message is None:
        raise InvalidInput("The host does not say which keys it wants: is it a host of an older version?")
    return pa.ipc.read_schema(pa.py_buffer(message))


def answer_metadata(
    epochs: Mapping[GroupName, Epoch],
    age_seconds: float,
    stale_seconds: float | None,
    digests: Mapping[GroupName, str],
) -> bytes:
    """What travels beside the rows of an answer: `{"epochs": {"group": 12}, "age_seconds": 0.4,
    "stale_seconds": 0.1, "digests": {"group": "3f…"}}`.

    Args:
        epochs: The epoch of the store's group.
        age_seconds: Age of that epoch.
        stale_seconds: For how long the host has lacked commits that are there; None: unknown.
        digests: Digests of the epochs' commits.
    """
    shown_epochs = ", ".join([f"{json.dumps(group)}: {epoch}" for group, epoch in epochs.items()])
    shown_digests = ", ".join([f'{json.dumps(group)}: "{digest}"' for group, digest in digests.items()])
    stale = "null" if stale_seconds is None else stale_seconds
    return (
        f'{{"epochs": {{{shown_epochs}}}, "age_seconds": {age_seconds}, "stale_seconds": {stale}, '
        f'"digests": {{{shown_digests}}}}}'
    ).encode()


def check_keys(keys: pa.RecordBatch | None) -> pa.RecordBatch:
    """The keys of a message, whose types Flight has seen to.

    Args:
        keys: Its rows; None where it has none.

    Returns:
        The keys.

    Raises:
        InvalidInput: There are none or too many, a value is NULL, or the bytes are damaged.
    """
    if keys is None or not keys.num_rows:
        raise InvalidInput("A message of the stream has no keys: send at least one.")
    if keys.num_rows > MAX_KEYS:
        raise InvalidInput(
            f"A message of the stream has {keys.num_rows:,} keys: send at most {MAX_KEYS:,} at once."
        )
    try:
        keys.validate(full=True)
    except (pa.ArrowException, UnicodeDecodeError) as error:
        raise InvalidInput("The keys of a message are damaged.") from error
    if any(column.null_count for column in keys.columns):
        raise InvalidInput("A key of the stream is NULL, which no row has: leave it out.")
    return keys
