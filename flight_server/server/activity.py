"""What goes on at the hosts: SHOW STATEMENTS, SHOW SESSIONS and CANCEL.

Everybody sees, and cancels, what is its own on the host that is asked; an operator what is anybody's, on all
hosts of the deployment. With LOCAL it is the host that is asked alone, which is how hosts ask each other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from engine.access.principal import Permission, Principal
from engine.cluster.reports import HostName
from engine.errors import InvalidInput, LivestateError, NotFound, Unavailable
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.sql.lexer import blanks_end
from flight_server.server.connections import Connections
from flight_server.server.running_calls import Call, Calls, sees_all_calls

LONGEST_SQL = 10_000
"""Characters of a statement that are shown."""
NO_ANSWER = "no answer"
"""The state of a host that was asked, and has not answered."""
_MICROSECONDS = pa.timestamp("us", "UTC")
_STATEMENTS = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("host", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("peer", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("state", pa.string()),
        pa.field("seconds", pa.float64()),
        pa.field("rows_sent", pa.int64()),
        pa.field("bytes_sent", pa.int64()),
        pa.field("statement", pa.string()),
    ]
)
_SESSIONS = pa.schema(
    [
        pa.field("host", pa.string()),
        pa.field("principal", pa.string()),
        pa.field("proof", pa.string()),
        pa.field("roles", pa.string()),
        pa.field("peer", pa.string()),
        pa.field("state", pa.string()),
        pa.field("since", _MICROSECONDS),
        pa.field("idle_seconds", pa.float64()),
        pa.field("calls", pa.int64()),
        pa.field("statements", pa.int64()),
    ]
)
_CANCELLED = pa.schema([pa.field("id", pa.string()), pa.field("host", pa.string())])
_SCHEMAS = {"statements": _STATEMENTS, "sessions": _SESSIONS, "cancel": _CANCELLED}
_FIRST_WORD = re.compile(r"(?:show|cancel)\b", re.IGNORECASE)
_SHOW = re.compile(r"show\s+(local\s+)?(statements|sessions)\b", re.IGNORECASE)
_CANCEL = re.compile(r"cancel\s+(local\s+)?'([^']*)'", re.IGNORECASE)


@dataclass(frozen=True)
class ActivityStatement:
    """One of the statements that this module is about.

    Attributes:
        what: `statements`, `sessions` or `cancel`.
        is_local: Whether it is about the host that is asked alone.
        id: Of the statement to cancel.
    """

    what: str
    is_local: bool
    id: str = ""

    @property
    def schema(self) -> pa.Schema:
        """What its answer looks like."""
        return _SCHEMAS[self.what]

    @property
    def local_sql(self) -> str:
        """The same, for one host alone."""
        return f"CANCEL LOCAL '{self.id}'" if self.what == "cancel" else f"SHOW LOCAL {self.what.upper()}"


def parse_activity(sql: str) -> ActivityStatement | None:
    """Read a statement.

    Args:
        sql: Any text.

    Returns:
        The statement; None where it is none of these.

    Raises:
        InvalidInput: It is a CANCEL that does not say of what.
    """
    begin = 0 if sql[:1].isalpha() else blanks_end(sql, 0)
    if _FIRST_WORD.match(sql, begin) is None:
        return None
    if (found := _SHOW.match(sql, begin)) and _is_end(sql, found.end()):
        return ActivityStatement(found[2].lower(), bool(found[1]))
    if (found := _CANCEL.match(sql, begin)) and _is_end(sql, found.end()):
        return ActivityStatement("cancel", bool(found[1]), found[2])
    if sql[begin].lower() == "c":
        raise InvalidInput("CANCEL takes the id of a statement, as SHOW STATEMENTS has it: CANCEL 'id'.")
    return None


def _is_end(sql: str, offset: int) -> bool:
    """Whether nothing is behind a place but blanks, comments and a semicolon."""
    offset = blanks_end(sql, offset)
    return blanks_end(sql, offset + 1 if sql.startswith(";", offset) else offset) == len(sql)


class OtherHosts(Protocol):
    """The hosts of a deployment; as `flight_server.peers.deployment_member.ClusterHost`."""

    @property
    def here(self) -> HostName:
        """Name of this one."""

    def ask_others(self, sql: str) -> Mapping[HostName, pa.Table | LivestateError]:
        """What each of the others answers to a statement, or why it does not."""


class Activity:
    """Answers these statements.

    Args:
        calls: Knows what runs here.
        connections: Knows who calls.
        others: The other hosts; None: there are none.
    """

    def __init__(self, calls: Calls, connections: Connections, others: OtherHosts | None = None) -> None:
        self._calls = calls
        self._connections = connections
        self._others = others
        self._here = None if others is None else str(others.here)

    def answer(self, statement: ActivityStatement, principal: Principal) -> pa.Table:
        """Do what a statement says.

        Args:
            statement: It.
            principal: Who asks.

        Returns:
            A table of its schema.

        Raises:
            NotFound: There is nothing to cancel.
            Unavailable: There is nothing to cancel on the hosts that answer, and some do not.
        """
        rows, silent = self._rows(statement, principal), []
        if self._others is not None and not statement.is_local and principal.may(Permission.OPERATE):
            for host, answer in self._others.ask_others(statement.local_sql).items():
                rows += _rows_of_other(statement, host, answer)
                silent += [str(host)] if isinstance(answer, LivestateError) else []
        if statement.what == "cancel" and not rows and not statement.is_local:
            if silent:
                names = ", ".join(sorted(silent))
                raise Unavailable(
                    "No statement of this id runs (any more) on the hosts that answer, and there was no "
                    f"answer from {names}: try again, once SHOW HOSTS has all of them alive."
                )
            raise NotFound(
                "No statement of this id runs (any more) that is yours, or that you may cancel: SHOW "
                "STATEMENTS has ids, and each host knows its own."
            )
        return pa.Table.from_pylist(rows, statement.schema)

    def _rows(self, statement: ActivityStatement, principal: Principal) -> list[dict[str, Any]]:
        match statement.what:
            case "statements":
                return [self._statement_row(call) for call in self._visible(principal)]
            case "sessions":
                return self._session_rows(principal)
            case _:
                found = [call for call in self._visible(principal) if call.id == statement.id]
                for call in found:
                    call.cancel()
                return [{"id": call.id, "host": self._here} for call in found]

    def _visible(self, principal: Principal) -> Sequence[Call]:
        return [call for call in self._calls.client_calls() if call.is_for(principal)]

    def _statement_row(self, call: Call) -> dict[str, Any]:
        told = call.audited
        assert told is not None
        return {
            "id": call.id,
            "host": self._here,
            "principal": told.principal.name,
            "peer": told.peer,
            "kind": told.event,
            "state": call.state.value,
            "seconds": told.seconds,
            "rows_sent": told.rows,
            "bytes_sent": told.size,
            "statement": told.sql[:LONGEST_SQL],
        }

    def _session_rows(self, principal: Principal) -> list[dict[str, Any]]:
        running = Counter(
            (call.audited.principal.name, call.audited.peer)
            for call in self._calls.client_calls()
            if call.audited is not None
        )
        sees_all = sees_all_calls(principal)
        return [
            {
                "host": self._here,
                "principal": each.principal.name,
                "proof": each.principal.proof.value,
                "roles": ", ".join(sorted(each.principal.roles)),
                "peer": each.peer,
                "state": "active" if running[each.principal.name, each.peer] else "idle",
                "since": round(each.since * MICROSECONDS_PER_SECOND),
                "idle_seconds": round(self._connections.idle_seconds(each), 3),
                "calls": each.calls,
                "statements": running[each.principal.name, each.peer],
            }
            for each in self._connections.recent()
            if sees_all or each.principal.name == principal.name
        ]


def _rows_of_other(
    statement: ActivityStatement, host: HostName, answer: pa.Table | LivestateError
) -> list[dict[str, Any]]:
    if isinstance(answer, LivestateError):
        return [] if statement.what == "cancel" else [{"host": str(host), "state": NO_ANSWER}]
    # A host of another version may tell more, or less.
    return [{name: row.get(name) for name in statement.schema.names} for row in answer.to_pylist()]
