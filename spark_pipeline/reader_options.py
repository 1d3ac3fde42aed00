"""The options of `spark.read.format("livestate")`."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from engine.errors import InvalidInput
from engine.model.sql_types import quote_identifier
from flight_server.client.connection_options import ConnectionOptions

T = TypeVar("T")
_KNOWN = (
    "uri",
    "store",
    "query",
    "token",
    "token_file",
    "tls_roots",
    "user",
    "password",
    "certificate",
    "key",
    "epoch",
    "min_epoch",
    "max_staleness",
    "allow_stale",
    "timeout",
)
_FILES = {
    "token_file": "the token",
    "tls_roots": "PEM certificates",
    "certificate": "a PEM certificate",
    "key": "its PEM key",
}


@dataclass(frozen=True)
class ReaderOptions:
    """What is read, from where, and at which epoch.

    Attributes:
        connection: How hosts are reached; the first that answers plans the read.
        sql: The statement that gives all of it.
        store: The store that is read; empty where it is a query.
        read_point: Which epochs will do: fields of a JSON ticket.
        timeout_seconds: How long the hosts may take for a partition; None: as long as they allow.
    """

    connection: ConnectionOptions
    sql: str
    store: str = ""
    read_point: Mapping[str, int | float] = field(default_factory=dict)
    timeout_seconds: float | None = None


def parse_options(given: Mapping[str, str]) -> ReaderOptions:
    """Read the options that a user gave.

    Args:
        given: Values by lower-case name, as Spark hands them over.

    Returns:
        What they mean.

    Raises:
        InvalidInput: An option is unknown or missing, or a value is none of its option.
    """
    if "pushdown" in given:
        raise InvalidInput(
            "There is no option pushdown: Spark keeps one plan for all uses of a frame, so one use would get "
            "the rows of another's conditions; "
            'write conditions into .option("query", "SELECT … WHERE …") instead.'
        )
    unknown = sorted(set(given).difference(_KNOWN))
    if unknown:
        raise InvalidInput(f"There is no option {unknown[0]!r}; there are {', '.join(_KNOWN)}.")
    connection = _connection(given)
    if not connection.uris:
        raise InvalidInput(
            'Say where a host is: .option("uri", "grpc://host:8815"), or several, with commas between them.'
        )
    if ("store" in given) == ("query" in given):
        raise InvalidInput(
            'Say what to read: either .option("store", "name") or .option("query", "SELECT …").'
        )
    if "epoch" in given and not {"min_epoch", "max_staleness"}.isdisjoint(given):
        raise InvalidInput(
            "The option epoch names the one epoch to read; leave min_epoch and max_staleness out."
        )
    store = given.get("store", "")
    return ReaderOptions(
        connection=connection,
        sql=f"SELECT * FROM {quote_identifier(store)}" if "store" in given else given["query"],
        store=store,
        read_point=_read_point(given),
        timeout_seconds=_value(given, "timeout", _seconds, "a number of seconds above 0"),
    )


def _connection(given: Mapping[str, str]) -> ConnectionOptions:
    """How hosts are reached. The driver reads the files, so that executors need none."""
    for name, file in _FILES.items():
        if name in given and not os.access(given[name], os.R_OK):
            raise InvalidInput(f"The option {name} must be a file with {file} that the driver can read.")
    return ConnectionOptions.read(
        given.get("uri", ""),
        token=given.get("token") or None,
        token_file=given.get("token_file"),
        tls_roots=given.get("tls_roots"),
        user=given.get("user", ""),
        password=given.get("password", ""),
        certificate=given.get("certificate"),
        key=given.get("key"),
    )


def _read_point(given: Mapping[str, str]) -> dict[str, int | float]:
    found = {
        "as_of": _value(given, "epoch", _epoch, "an epoch number"),
        "min_epoch": _value(given, "min_epoch", _epoch, "an epoch number"),
        "max_staleness": _value(given, "max_staleness", _staleness, "a number of seconds, 0 or more"),
        "allow_stale": _value(given, "allow_stale", _flag, "true or false"),
    }
    return {name: value for name, value in found.items() if value is not None}


def _value(given: Mapping[str, str], name: str, read: Callable[[str], T], wanted: str) -> T | None:
    if name not in given:
        return None
    try:
        return read(given[name])
    except (ValueError, KeyError, OSError) as error:
        raise InvalidInput(f"The option {name} must be {wanted}.") from error


def _epoch(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(text)
    return int(text)


def _flag(text: str) -> bool:
    return {"true": True, "false": False}[text.strip().lower()]


def _staleness(text: str) -> float:
    seconds = float(text)
    if not 0 <= seconds < math.inf:
        raise ValueError(text)
    return seconds


def _seconds(text: str) -> float:
    if not _staleness(text):
        raise ValueError(text)
    return float(text)
