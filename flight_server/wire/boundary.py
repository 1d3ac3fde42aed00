"""Errors on their way over Flight, and back.

A server raises what `wire_error` returns. gRPC's status code says the class of the failure to any client; the
trailer `livestate-error-bin` says the exact kind, the whole message and the place in the SQL text to clients
that read trailers (`flight_server.client.client` does), so that nothing has to be read out of a message's
text.

| kind | gRPC code | DB-API class |
|---|---|---|
| InvalidInput | INVALID_ARGUMENT | ProgrammingError |
| NotFound | NOT_FOUND | ProgrammingError |
| Unsupported | UNIMPLEMENTED | NotSupportedError |
| Unauthenticated | UNAUTHENTICATED | ProgrammingError |
| Forbidden | PERMISSION_DENIED | ProgrammingError |
| Unavailable | UNAVAILABLE | OperationalError |
| DeadlineExceeded | DEADLINE_EXCEEDED | OperationalError |
| Cancelled | CANCELLED | OperationalError |
| LimitExceeded, Fenced | UNKNOWN (Flight has no code of its own for them) | OperationalError |
| Corrupt, and whatever nobody expected | INTERNAL | InternalError |
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar, cast

import pyarrow as pa
from pyarrow import flight

from engine.errors import (
    MISTAKES_OF_CALLER,
    Cancelled,
    Corrupt,
    DeadlineExceeded,
    Defect,
    Fenced,
    Forbidden,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    NotFound,
    Position,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from engine.telemetry.spans import is_tracing, span
from engine.telemetry.statement_ids import StatementScope, is_statement_id, new_statement_id, statement_id
from flight_server.wire.call_headers import statement_of_call, trace_of_call

ERROR_TRAILER = "livestate-error-bin"
PROOF_WANTED = "This host wants a token, or a user and a password"
"""How a host begins what it says to a call that proves nothing."""
MAX_MESSAGE_CHARACTERS = 2000
"""Longer messages are cut: gRPC drops a call whose trailers exceed 8 KiB."""

_WORTH_A_LINE = (Unavailable, LimitExceeded, Unauthenticated, Forbidden, Corrupt, Defect)
"""Refusals that whoever runs the host can do something about; those of one kind are a line a minute. What is
wrong with a statement is its client's affair, and so is how long it may take.
"""
_SPANS = {"get_flight_info": "plan statement", "do_get": "run statement", "do_exchange": "run fragment"}
"""What calls are in traces, by the methods that serve them."""
_log = logging.getLogger(__name__)
_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


class FailureCounter(Protocol):
    """What serves RPCs."""

    def note_failure(self, error: Exception) -> None:
        """Count a call that failed."""


_Server = TypeVar("_Server", bound=FailureCounter)


class _UntracedError(Exception):
    """An exception whose traceback does not travel.

    pyarrow answers an exception that is not one of Flight's with its message and what
    `traceback.format_exception` makes of it: source paths and lines. When formatting fails, it sends the
    class's name instead. So this one cannot be formatted.
    """

    @property
    def __suppress_context__(self) -> bool:  # type: ignore[override]
        raise AttributeError

    def __str__(self) -> str:
        return str(self.args[0])


class InvalidArgumentError(_UntracedError, ValueError):
    """Becomes gRPC's INVALID_ARGUMENT."""


class NotFoundError(_UntracedError, KeyError):
    """Becomes gRPC's NOT_FOUND."""


class UnimplementedError(_UntracedError, NotImplementedError):
    """Becomes gRPC's UNIMPLEMENTED."""


class UnknownError(_UntracedError):
    """Becomes gRPC's UNKNOWN."""


_WIRE: Mapping[type[LivestateError], Callable[[str], Exception]] = {
    InvalidInput: InvalidArgumentError,
    NotFound: NotFoundError,
    Unsupported: UnimplementedError,
    Unauthenticated: flight.FlightUnauthenticatedError,
    Forbidden: flight.FlightUnauthorizedError,
    Unavailable: flight.FlightUnavailableError,
    DeadlineExceeded: flight.FlightTimedOutError,
    Cancelled: flight.FlightCancelledError,
    LimitExceeded: flight.FlightServerError,
    Fenced: flight.FlightServerError,
    Corrupt: flight.FlightInternalError,
    Defect: flight.FlightInternalError,
}
_KINDS: Mapping[str, type[LivestateError]] = {
    error_class.__name__: error_class for error_class in (*_WIRE, LivestateError)
}
"""All kinds that errors have on the wire. It is closed: what else comes from there names no class."""
KIND_NAMES = tuple(_KINDS)
"""Their names: all that `kind_name` gives."""


def wire_error(
    error: Exception, context: Any, *, flight_errors: bool = True, streaming: bool = False
) -> Exception:
    """What a server raises so that a client sees the kind and the message of an error, and nothing else.

    Args:
        error: What went wrong. What is not a `LivestateError` is logged here with its traceback under an
            incident id, and the client learns only that id.
        context: The call's `flight.ServerCallContext`; it gets the trailer.
        flight_errors: Whether Flight's own exceptions keep their code in this call; in `get_schema` they do
            not, and would be traced.
        streaming: Whether the result is already on its way. A pyarrow client takes CANCELLED in mid-stream
            for Ctrl-C, so there it is UNKNOWN.

    Returns:
        The exception to raise, `from None`.
    """
    if isinstance(error, LivestateError):
        if isinstance(error, _WORTH_A_LINE):
            kind = kind_name(error)
            is_defect = isinstance(error, Defect)
            _log.log(
                logging.ERROR if is_defect else logging.WARNING,
                "Refused (%s): %s",
                kind,
                error.message,
                exc_info=error if is_defect else None,
                extra={"repeats": f"refusal {kind}"},
            )
        make = next(
            (_WIRE[error_class] for error_class in type(error).__mro__ if error_class in _WIRE),
            flight.FlightServerError,
        )
        known = error
    else:
        incident = statement_id() or new_statement_id()
        _log.error("Incident %s: a request failed in a way nobody expected.", incident, exc_info=error)
        make = flight.FlightInternalError
        known = LivestateError(
            f"The host failed in a way nobody expected; its log has the details under incident {incident}."
        )
    context.add_trailer(ERROR_TRAILER, error_detail(known))
    if streaming and make is flight.FlightCancelledError:
        make = flight.FlightServerError
    if not flight_errors and issubclass(cast("type[Exception]", make), flight.FlightError):
        make = UnknownError
    # pyarrow puts ". Detail: …" behind every message.
    return make(_sendable(known.message).rstrip("."))


def _sendable(message: str) -> str:
    """A message that gRPC takes: not too long, and Unicode, whatever it quotes."""
    message = message.encode(errors="replace").decode()
    return message if len(message) <= MAX_MESSAGE_CHARACTERS else message[:MAX_MESSAGE_CHARACTERS] + "…"


def error_detail(error: LivestateError) -> bytes:
    """An error as the trailer carries it.

    Args:
        error: Any error of a known kind.

    Returns:
        UTF-8 JSON: `kind`, `message`, `statement` where the call is about one, and for SQL errors `position`
        with `offset`, `line` and `column`.
    """
    document: dict[str, Any] = {"kind": kind_name(error), "message": _sendable(error.message)}
    statement = error.statement or statement_id()
    if statement:
        document["statement"] = statement
    if isinstance(error, InvalidInput) and error.position is not None:
        document["position"] = {
            "offset": error.position.offset,
            "line": error.position.line,
            "column": error.position.column,
        }
    return json.dumps(document).encode()


def kind_name(error: LivestateError) -> str:
    """The name of an error's kind. A finer class is its owner's alone; others know the kinds."""
    return next(
        (error_class for error_class in type(error).__mro__ if error_class in _WIRE), LivestateError
    ).__name__


def error_of_kind(name: str, message: str) -> LivestateError:
    """The error that `kind_name` named.

    Args:
        name: The name of a kind; of any other text comes an error of no kind.
        message: The error's message.
    """
    return _KINDS.get(name, LivestateError)(message)


def livestate_error(error: Exception, detail: bytes | None) -> LivestateError:
    """The error that a server meant, on the client's side.

    Args:
        error: What pyarrow's Flight client raised.
        detail: The call's trailer `ERROR_TRAILER`; None if there was none, because the failure is not the
            server's own word.

    Returns:
        An error of the kind that the server raised; without a trailer, of the kind nearest to the exception's
        class.
    """
    document = _parse_document(detail)
    error_class = _KINDS.get(str(document.get("kind")))
    if error_class is None:
        return _error_by_class(error)
    message = str(document.get("message"))
    found = (
        InvalidInput(message, _parse_position(document.get("position")))
        if issubclass(error_class, InvalidInput)
        else error_class(message)
    )
    statement = document.get("statement")
    if isinstance(statement, str) and is_statement_id(statement):
        found.statement = statement
    return found


def _parse_document(detail: bytes | None) -> Mapping[str, Any]:
    try:
        document = json.loads(detail or b"{}")
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _parse_position(document: object) -> Position | None:
    if not isinstance(document, dict) or not all(
        isinstance(document.get(name), int) for name in ("offset", "line", "column")
    ):
        return None
    return Position(document["offset"], document["line"], document["column"])


_BY_CLASS: tuple[tuple[type[Exception], type[LivestateError]], ...] = (
    (flight.FlightUnauthenticatedError, Unauthenticated),
    (flight.FlightUnauthorizedError, Forbidden),
    (flight.FlightTimedOutError, DeadlineExceeded),
    (flight.FlightCancelledError, Cancelled),
    (flight.FlightUnavailableError, Unavailable),
    (pa.ArrowInvalid, InvalidInput),
    (pa.ArrowKeyError, NotFound),
    (pa.ArrowNotImplementedError, Unsupported),
)


def _error_by_class(error: Exception) -> LivestateError:
    error_class = next(
        (error_class for raised, error_class in _BY_CLASS if isinstance(error, raised)), LivestateError
    )
    message = plain_message(error)
    if error_class is Unauthenticated:
        # A host's own word, though without a trailer; Flight is told it without its full stop.
        message = f"{message.rstrip('.')}."
    return error_class(message)


def plain_message(error: Exception) -> str:
    """The message of what pyarrow's Flight client raised, without what only a developer of gRPC reads."""
    return (
        str(error)
        .partition(". gRPC client debug context")[0]
        .partition(". Client context")[0]
        .partition(". Detail: ")[0]
        .removeprefix("Flight returned ")
    )


def is_word_of_caller(error: Exception) -> bool:
    """Whether a failure without a trailer is the caller's own, so that no other host would answer either:
    a wrong token, say, which hosts refuse before the call begins.

    Args:
        error: What pyarrow's Flight client raised.
    """
    return isinstance(_error_by_class(error), MISTAKES_OF_CALLER)


def guard_rpc(
    method: Callable[Concatenate[_Server, Any, _Arguments], _Result],
) -> Callable[Concatenate[_Server, Any, _Arguments], _Result]:
    """Decorate a method that serves an RPC: whatever it raises is counted, and leaves as `wire_error` makes
    it; what is logged has the id of the statement that the call is about.

    Args:
        method: Takes self and the call's context first.

    Returns:
        The method, of the same signature.
    """
    flight_errors = method.__name__ != "get_schema"
    traced = _SPANS.get(method.__name__)

    @wraps(method)
    def call(self: _Server, context: Any, /, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> _Result:
        with StatementScope(statement_of_call(context)):
            try:
                if traced is None or not is_tracing():
                    return method(self, context, *args, **kwargs)
                with span(traced, trace_of_call(context)):
                    return method(self, context, *args, **kwargs)
            except Exception as error:  # noqa: BLE001 - the last line before the network: what gets past it travels with its traceback
                self.note_failure(error)
                raise wire_error(error, context, flight_errors=flight_errors) from None

    return call
