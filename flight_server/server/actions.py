"""DoAction: one handler an action."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, Protocol

import pyarrow as pa

from engine.access.principal import Permission, Principal
from engine.errors import Forbidden, InvalidInput, LivestateError, NotFound, Unsupported
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.schema import Epoch, GroupName
from engine.replica.scrubber import ScrubStatus
from engine.service import QueryService
from flight_server.peers.deployment_member import ClusterHost
from flight_server.server.audit import OK, AuditLog, peer_of
from flight_server.server.callers import Callers
from flight_server.server.drain import Drain
from flight_server.server.ledger import Ledger
from flight_server.server.running_calls import Calls
from flight_server.server.sessions import caller_options, change_option
from flight_server.server.statements import StatementCalls, engine_session
from flight_server.wire.boundary import kind_name
from flight_server.wire.diagnosis_messages import DIAGNOSE_ACTION, HostDiagnosis
from flight_server.wire.fragment_messages import FRAGMENT_MARK, parse_fragment
from flight_server.wire.json_bodies import parse_json
from flight_server.wire.messages import Message, new, pack, parse, unpack
from flight_server.wire.session_options import FORGET_COOKIE
from flight_server.wire.text_sizes import check_command
from flight_server.wire.tickets import Statement, parse_ticket

LONGEST_HOLD_SECONDS = 600.0
"""For which an epoch can be held at once."""
MAX_RATE = 1e15
"""Bytes a second of a scrub; as good as no limit."""
_CANCELLING = 2
_CLOSED = 1
_INVALID_NAME, _INVALID_VALUE = 1, 2
_OPTION_FIELDS: Mapping[type, str] = {
    str: "string_value",
    bool: "bool_value",
    int: "int64_value",
    float: "double_value",
}
"""Where a message has the value of a session option, by its type."""
_PERMISSIONS = {
    "livestate.notify": Permission.NOTIFY,
    "livestate.scrub": Permission.OPERATE,
    DIAGNOSE_ACTION: Permission.OPERATE,
    "livestate.drain": Permission.OPERATE,
    "livestate.report": Permission.PEER,
}
"""What an action needs that needs another permission than `READ`."""
_FOR_EVERYBODY = frozenset({"livestate.health", "SetSessionOptions", "GetSessionOptions", "CloseSession"})
"""Actions for whoever has proved who it is: they tell nothing of stores."""
_FOR_OPERATORS = frozenset(
    {"livestate.hosts", "livestate.replicas", "CreatePreparedStatement", "ClosePreparedStatement"}
    | {"CancelQuery", "CancelFlightInfo"}
)
"""Actions that an operator may do without reading stores, beside those that `_PERMISSIONS` has."""
_CANCELLATIONS = frozenset({"CancelQuery", "CancelFlightInfo"})
"""Actions whose bodies have the statement, and its parameters."""
_AUDITED = _CANCELLATIONS | {"livestate.scrub", "livestate.drain"}
"""Actions that get a line in the audit log: they change what others notice."""
_LONGEST_BODY = 1000
"""Bytes of an action's body that the audit log has."""
_OF_ALL_STORES = frozenset({"livestate.hosts", "livestate.replicas"})
"""Actions that tell of stores which may not exist for whoever calls."""
_NO_TRANSACTIONS = "livestate has no transactions: each query reads one consistent epoch of each store."


class Scrubs(Protocol):
    """Reads all that a host has stored; as `engine.replica.follower.Follower` does."""

    def scrub(self, rate_bytes: float | None = None) -> ScrubStatus:
        """Begin, unless one runs."""

    def cancel_scrub(self) -> ScrubStatus:
        """End what runs."""

    @property
    def scrub_status(self) -> ScrubStatus:
        """How far it is."""


class SelfReport(Protocol):
    """Looks at the host; as `flight_server.host.self_report.SelfReport` does."""

    def diagnosis(self) -> HostDiagnosis:
        """How it stands now."""


class Actions:
    """The actions that a host knows.

    Args:
        service: Answers statements.
        statements: Prepares them.
        calls: Knows what runs.
        callers: Knows who calls.
        ledger: Knows what each principal has taken.
        notify: Told of a store group that may have a new epoch; None: any may.
        ready: Whether the host has caught up with the changelog once.
        drain: Sends clients to other hosts.
        cluster: The deployment that the host belongs to; None: none.
        scrubs: Reads what the host has stored; None: it has nothing.
        audit: Gets a line for each action that changes something; None: there is none.
        self_report: Looks at the host; None: nobody does.
    """

    def __init__(
        self,
        service: QueryService,
        statements: StatementCalls,
        calls: Calls,
        callers: Callers,
        ledger: Ledger,
        notify: Callable[[GroupName | None], None],
        ready: Callable[[], bool],
        drain: Drain,
        cluster: ClusterHost | None = None,
        scrubs: Scrubs | None = None,
        audit: AuditLog | None = None,
        self_report: SelfReport | None = None,
    ) -> None:
        self._self_report = self_report
        self._ledger = ledger
        self._audit = audit
        self._service = service
        self._statements = statements
        self._calls = calls
        self._callers = callers
        self._notify = notify
        self._ready = ready
        self._drain = drain
        self._cluster = cluster
        self._scrubs = scrubs
        self._handlers: Mapping[str, Callable[[Any, bytes], Iterable[bytes]]] = {
            "CreatePreparedStatement": self._create_prepared,
            "ClosePreparedStatement": self._close_prepared,
            "CancelQuery": self._cancel_query,
            "CancelFlightInfo": self._cancel_flight_info,
            "SetSessionOptions": self._set_session_options,
            "GetSessionOptions": self._get_session_options,
            "CloseSession": self._close_session,
            "livestate.notify": self._notify_group,
            "livestate.health": self._health,
            "livestate.hold": self._hold,
            "livestate.scrub": self._scrub,
            DIAGNOSE_ACTION: self._diagnose,
            "livestate.drain": self._change_drain,
            "livestate.report": self._report,
            "livestate.hosts": self._hosts,
            "livestate.replicas": self._replicas,
            "BeginTransaction": _refusing_handler(_NO_TRANSACTIONS),
            "EndTransaction": _refusing_handler(_NO_TRANSACTIONS),
            "BeginSavepoint": _refusing_handler(_NO_TRANSACTIONS),
            "EndSavepoint": _refusing_handler(_NO_TRANSACTIONS),
            "CreatePreparedSubstraitPlan": _refusing_handler("livestate takes SQL, not Substrait plans."),
            "RenewFlightEndpoint": _refusing_handler(
                "An endpoint of livestate names no time at which it expires: one whose epochs cannot be read "
                "any more is asked for anew, and livestate.hold keeps epochs readable."
            ),
        }

    def names(self) -> list[str]:
        """Names of all actions, the refused ones included."""
        return list(self._handlers)

    def run(self, context: Any, name: str, body: bytes) -> Iterable[bytes]:
        """Do an action.

        Args:
            context: The call's `flight.ServerCallContext`.
            name: The action's type.
            body: Its body.

        Returns:
            The bodies of its results.

        Raises:
            Unauthenticated: The caller proved nothing.
            Forbidden: The caller may not do it.
            Unsupported: There is no such action.
            LivestateError: It failed, by kind.
        """
        if name in _FOR_EVERYBODY:
            principal = self._callers.principal(context)
        else:
            others = (Permission.OPERATE,) if name in _FOR_OPERATORS else ()
            principal = self._callers.check(context, _PERMISSIONS.get(name, Permission.READ), *others)
        is_operator = principal.may(Permission.OPERATE)
        if name in _OF_ALL_STORES and principal.scope is not None and not is_operator:
            raise Forbidden(f"{name} tells of all stores: that takes the role reader.")
        handler = self._handlers.get(name)
        if handler is None:
            raise Unsupported(f"There is no action {name[:100]!r}; there are {', '.join(self._handlers)}.")
        if name not in _AUDITED or self._audit is None:
            return handler(context, body)
        return self._audited_answer(context, name, body, principal, self._audit)

    def _audited_answer(
        self, context: Any, name: str, body: bytes, principal: Principal, audit: AuditLog
    ) -> Iterable[bytes]:
        facts = {"action": name}
        if audit.has_texts or name not in _CANCELLATIONS:
            facts["body"] = body[:_LONGEST_BODY].decode(errors="replace")
        try:
            answer = self._handlers[name](context, body)
        except LivestateError as error:
            audit.write(
                "action",
                principal,
                peer_of(context),
                facts | {"outcome": kind_name(error), "error": error.message},
            )
            raise
        audit.write("action", principal, peer_of(context), facts | {"outcome": OK})
        return answer

    def _create_prepared(self, context: Any, body: bytes) -> Iterable[bytes]:
        check_command(body, self._service.longest_text_bytes)
        message = _unpack_expected("ActionCreatePreparedStatementRequest", body)
        statements = self._statements.for_principal(self._callers.principal(context))
        try:
            return [pack(statements.prepare(statements.statement_of_query(context, message), context))]
        except Unsupported as error:
            if "?" not in message.query and "$" not in message.query:
                raise
            # Python's driver takes UNIMPLEMENTED for a host that prepares nothing, and goes on to bind values
            # to nothing; without values it asks once more and tells what that gives.
            raise InvalidInput(error.message) from error

    def _service_for(self, context: Any) -> QueryService:
        """What answers whoever calls."""
        return self._service.restrict(self._callers.principal(context).scope)

    def _close_prepared(self, context: Any, body: bytes) -> Iterable[bytes]:
        self._statements.statement_of_handle(_unpack_expected("ActionClosePreparedStatementRequest", body))
        return []

    def _cancel_query(self, context: Any, body: bytes) -> Iterable[bytes]:
        self._cancel(context, _unpack_expected("ActionCancelQueryRequest", body).info)
        return [pack(new("ActionCancelQueryResult", result=_CANCELLING))]

    def _cancel_flight_info(self, context: Any, body: bytes) -> Iterable[bytes]:
        self._cancel(context, parse("CancelFlightInfoRequest", body).info)
        return [new("CancelFlightInfoResult", status=_CANCELLING).SerializeToString()]

    def _cancel(self, context: Any, info: bytes) -> None:
        endpoints = parse("FlightInfo", info).endpoint
        if not endpoints:
            raise InvalidInput(
                "What is to be cancelled is no FlightInfo, or has no endpoints: send that of the statement."
            )
        principal = self._callers.principal(context)
        cancelled = [self._calls.cancel(_call_id(each.ticket.ticket), principal) for each in endpoints]
        if not any(cancelled):
            raise NotFound("The query to cancel does not run here (any more).")

    def _set_session_options(self, context: Any, body: bytes) -> Iterable[bytes]:
        options, errors = caller_options(context), {}
        for name, value in parse("SetSessionOptionsRequest", body).session_options.items():
            try:
                options = change_option(options, name, _option(value))
            except NotFound:
                errors[name] = new("SetSessionOptionsError", value=_INVALID_NAME)
            except LivestateError:
                errors[name] = new("SetSessionOptionsError", value=_INVALID_VALUE)
        context.add_header("set-cookie", options.to_set_cookie())
        return [new("SetSessionOptionsResult", errors=errors).SerializeToString()]

    def _get_session_options(self, context: Any, body: bytes) -> Iterable[bytes]:
        parse("GetSessionOptionsRequest", body)
        options = caller_options(context)
        dialect = engine_session(Statement("", options.dialect)).dialect
        known = {"catalog": CATALOG, "schema": SCHEMA, **options.values, "dialect": dialect}
        values = {
            name: new("SessionOptionValue", **{_OPTION_FIELDS[type(value)]: value})
            for name, value in known.items()
        }
        return [new("GetSessionOptionsResult", session_options=values).SerializeToString()]

    def _close_session(self, context: Any, body: bytes) -> Iterable[bytes]:
        parse("CloseSessionRequest", body)
        context.add_header("set-cookie", FORGET_COOKIE)
        return [new("CloseSessionResult", status=_CLOSED).SerializeToString()]

    def _notify_group(self, context: Any, body: bytes) -> Iterable[bytes]:
        try:
            group = body.decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(
                "The body of livestate.notify is the name of a store group in UTF-8, or empty."
            ) from error
        self._ledger.note_notification(self._callers.principal(context))
        self._notify(GroupName(group) if group else None)
        return []

    def _health(self, context: Any, body: bytes) -> Iterable[bytes]:
        stores = len(self._service_for(context).source.definitions())
        document = {"ready": self._ready(), "stores": stores, "running": len(self._calls)}
        if self._drain.is_on:
            document |= {"ready": False, "draining": True}
        return [json.dumps(document).encode()]

    def _hold(self, context: Any, body: bytes) -> Iterable[bytes]:
        epochs, seconds = _parse_hold(body)
        principal, source = self._callers.principal(context), self._service_for(context).source
        not_held = set(self._ledger.note_hold(principal, epochs, seconds))
        try:
            for group, epoch in epochs.items():
                source.hold({group: epoch}, seconds)
                not_held.discard(group)
        except LivestateError:
            for group in not_held:
                self._ledger.forget_hold(principal, group, epochs[group])
            raise
        return []

    def _scrub(self, context: Any, body: bytes) -> Iterable[bytes]:
        if self._scrubs is None:
            raise Unsupported("This host has nothing stored.")
        step, rate_bytes = _parse_scrub(body)
        match step:
            case "begin":
                status = self._scrubs.scrub(rate_bytes)
            case "cancel":
                status = self._scrubs.cancel_scrub()
            case _:
                status = self._scrubs.scrub_status
        return [json.dumps(asdict(status)).encode()]

    def _diagnose(self, context: Any, body: bytes) -> Iterable[bytes]:
        if self._self_report is None:
            raise Unsupported("This host does not look at itself.")
        return [self._self_report.diagnosis().to_bytes()]

    def _change_drain(self, context: Any, body: bytes) -> Iterable[bytes]:
        match _parse_drain(body):
            case "begin":
                self._drain.begin()
            case "end":
                self._drain.end()
        return [json.dumps({"draining": self._drain.is_on, "running": len(self._calls)}).encode()]

    def _report(self, context: Any, body: bytes) -> Iterable[bytes]:
        return [self._deployment().receive(body)]

    def _hosts(self, context: Any, body: bytes) -> Iterable[bytes]:
        return [_table_bytes(self._deployment().hosts())]

    def _replicas(self, context: Any, body: bytes) -> Iterable[bytes]:
        return [_table_bytes(self._deployment().replicas())]

    def _deployment(self) -> ClusterHost:
        if self._cluster is None:
            raise Unsupported("This host belongs to no deployment: it holds all partitions by itself.")
        return self._cluster


def _parse_hold(body: bytes) -> tuple[Mapping[GroupName, Epoch], float]:
    wanted = InvalidInput(
        f'The body of livestate.hold is {{"epochs": {{"store group": number}}, "seconds": above 0, at most '
        f"{LONGEST_HOLD_SECONDS:g}}}."
    )
    try:
        document = parse_json(body)
        epochs, seconds = dict(document["epochs"]), document["seconds"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise wanted from error
    numbers = all(isinstance(epoch, int) and not isinstance(epoch, bool) for epoch in epochs.values())
    if (
        not numbers
        or isinstance(seconds, bool)
        or not isinstance(seconds, int | float)
        or not 0 < seconds <= LONGEST_HOLD_SECONDS
    ):
        raise wanted
    return {GroupName(group): Epoch(epoch) for group, epoch in epochs.items()}, float(seconds)


def _parse_scrub(body: bytes) -> tuple[str, float | None]:
    """What is to be done, and how many bytes a second at most."""
    wanted = InvalidInput(
        'The body of livestate.scrub is {"do": "begin", "cancel" or "status"}; with "begin" there may be '
        '"rate", bytes a second above 0.'
    )
    try:
        document = parse_json(body)
        step, rate = document["do"], document.get("rate")
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise wanted from error
    is_number = isinstance(rate, int | float) and not isinstance(rate, bool)
    if step not in ("begin", "cancel", "status") or (
        rate is not None and not (is_number and 0 < rate <= MAX_RATE)
    ):
        raise wanted
    return step, rate


def _parse_drain(body: bytes) -> str:
    """What is to be done."""
    wanted = InvalidInput('The body of livestate.drain is {"do": "begin", "end" or "status"}.')
    try:
        step = parse_json(body)["do"]
    except (ValueError, RecursionError, KeyError, TypeError) as error:
        raise wanted from error
    if step not in ("begin", "end", "status"):
        raise wanted
    return str(step)


def _call_id(ticket: bytes) -> bytes:
    if ticket.startswith(FRAGMENT_MARK):
        return parse_fragment(ticket).call_id
    parsed = parse_ticket(ticket, lambda: Statement(""))
    return parsed.call_id if isinstance(parsed, Statement) else b""


def _table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def _refusing_handler(message: str) -> Callable[[Any, bytes], Iterable[bytes]]:
    def refuse(context: Any, body: bytes) -> Iterable[bytes]:
        raise Unsupported(message)

    return refuse


def _unpack_expected(name: str, body: bytes) -> Message:
    found, message = unpack(body)
    if found != name:
        raise InvalidInput(f"The action's body is a {found}; it must be a {name}.")
    return message


def _option(value: Message) -> object:
    field = value.WhichOneof("option_value")
    return None if field is None else getattr(value, field)
