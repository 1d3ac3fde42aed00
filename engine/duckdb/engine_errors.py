"""What the engine's failures mean to a caller.

The engine reports errors as JSON (its setting `errors_as_json`): `{"exception_type": "Binder",
"exception_message": …, "error_subtype": "COLUMN_NOT_FOUND", "name": …}`. Decisions are made on these fields
and never on a message.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import duckdb

from engine.access.principal import Limit, LimitName
from engine.errors import Defect, InvalidInput, LimitExceeded, LivestateError, Unsupported

ENGINE_FAILURES = (duckdb.Error, UnicodeDecodeError)
"""What the engine raises; the latter for a message that it has cut within a character."""
EXPLAIN = "EXPLAIN (FORMAT JSON) "
"""Put before a statement, has the engine say in full what it refuses. As text it would take a minute to draw
the plan of 222 grouping sets, and nothing interrupts that.
"""
_NO_ALLOCATION = "noallocation"
"""A kind of ours: the system has refused memory, which the engine takes for a mistake of its own where
it does not count. It does not work on after that.
"""
_ALLOCATION_FAILURES = ("Memory allocation failure", "memory allocation failed", "std::bad_alloc")
"""What its message ends with."""
_WORDLESS = "oserror"
"""What Arrow calls an error of the engine's rows of which it was told nothing."""
_INVALID = frozenset(
    {
        "binder",
        "catalog",
        "parser",
        "syntax",
        "conversion",
        "invalid",
        "invalidinput",
        "outofrange",
        "mismatchtype",
        "typemismatch",
        "invalidtype",
        "dividebyzero",
        "decimal",
        "parameternotallowed",
        "parameternotresolved",
        "expression",
        "constraint",
        "sequence",
        "objectsize",
        # What has no kind is said before anything is bound.
        "error",
    }
)
_LACK_OF_MEMORY = frozenset({"outofmemory", "arrowmemoryerror", _NO_ALLOCATION})
_UNREADABLE = "arrowinvalid"
# No statement reads what was written elsewhere: this is a part of a plan that the engine has no copy of, such
# as a subquery in `max` of a list.
_CANNOT_COPY = "serialization"
_UNSUPPORTED = frozenset(
    {
        "notimplemented",
        "permission",
        "missingextension",
        "autoload",
        "settings",
        "dependency",
        "invalidconfiguration",
    }
)


@dataclass(frozen=True)
class Failure:
    """One failure as the engine reports it.

    Attributes:
        kind: Its `exception_type`, in lower case without spaces.
        message: Its `exception_message`.
        subtype: Its `error_subtype`, such as `COLUMN_NOT_FOUND`; empty if it has none.
        name: What it names; empty if it names nothing.
        start: Where in the engine's statement it is; None if that is not known.
        length: Characters of the statement that it is about.
        entry: What does not exist where `subtype` is `MISSING_ENTRY`, such as `Scalar Function`.
    """

    kind: str
    message: str
    subtype: str = ""
    name: str = ""
    start: int | None = None
    length: int = 0
    entry: str = ""

    @property
    def is_fatal(self) -> bool:
        """Whether the engine must be started anew."""
        return self.kind in {"fatal", "internal", _NO_ALLOCATION}


@dataclass(frozen=True)
class Allowance:
    """What a database of the engine may take.

    Attributes:
        nbytes: Memory, in bytes.
        limit: What the roles of a principal allow, where it has the database alone; None: it is for anybody.
        in_worker: Whether it is that of a worker, which has a part of the memory.
    """

    nbytes: int
    limit: Limit | None = None
    in_worker: bool = False

    @property
    def words(self) -> str:
        """What it is, as the end of "more memory than"."""
        limit = self.limit
        if self.in_worker:
            part = (
                "an eighth of memory_limit_bytes, or 64 MiB"
                if limit is None
                else f"a part of {limit_in_words(limit)}"
            )
            return f"statements that make long values or lists may have ({self.nbytes} bytes; {part})"
        if limit is None:
            return f"memory_limit_bytes allows ({self.nbytes} bytes)"
        if self.nbytes < limit.most:
            return f"memory_limit_bytes leaves it now ({self.nbytes} bytes) of {limit_in_words(limit)}"
        return f"{limit_in_words(limit)}, which its principal's statements share"


def limit_in_words(limit: Limit) -> str:
    """What a role allows, in words."""
    return f"the {limit.most} bytes of the role {limit.role} ({LimitName.ENGINE_BYTES.value})"


class BindingError(Exception):
    """The engine refused a statement; the caller, who knows the text, says where.

    Attributes:
        failure: What the engine reports.
        near: The part of the engine's statement that it is about; may be empty.
    """

    def __init__(self, failure: Failure, near: str) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.near = near


class NotBoundError(Exception):
    """A statement was not bound; whether that is its own fault only the engine can tell."""


def read_failure(error: Exception) -> Failure:
    """Read what the engine reports.

    Args:
        error: An error of DuckDB, or one of Arrow's that carries it.

    Returns:
        The failure; of kind `unknown` if the error carries no report.
    """
    text = error.object.decode(errors="replace") if isinstance(error, UnicodeDecodeError) else str(error)
    start = text.find("{")
    if start >= 0:
        try:
            report, _ = json.JSONDecoder().raw_decode(text, start)
        except (ValueError, RecursionError):
            # It is a value that the message quotes.
            report = {}
        if isinstance(report, dict) and "exception_type" in report:
            return _failure_or_lack_of_memory(_parse_report(report))
    # Statements that the engine refuses before they run are not reported as JSON; their class, or what the
    # message begins with, says as much.
    begin, _, message = text.partition(": ")
    kind = begin if isinstance(error, UnicodeDecodeError) else type(error).__name__
    kind = kind.removesuffix(" Error").removesuffix("Exception")
    return _failure_or_lack_of_memory(Failure(kind.replace(" ", "").lower(), message or text))


def _failure_or_lack_of_memory(failure: Failure) -> Failure:
    """A failure, or the system's refusal of memory that it stands for."""
    return Failure(_NO_ALLOCATION, failure.message) if _lacks_memory(failure) else failure


def _lacks_memory(failure: Failure) -> bool:
    """Whether the system has refused memory: the engine then calls it a mistake, or an object that cannot be
    written, or finds no words for it, as they would take memory, too.
    """
    if failure.kind in {"internal", _CANNOT_COPY}:
        return failure.message.endswith(_ALLOCATION_FAILURES)
    return failure.kind == _WORDLESS or (failure.kind == "invalid" and not failure.message)


def _parse_report(report: Mapping[str, object]) -> Failure:
    kind, message, subtype, name, entry = (
        str(report.get(field, ""))
        for field in ("exception_type", "exception_message", "error_subtype", "name", "type")
    )
    location = str(report.get("location", "")).strip("[]").split(",")
    start, length = (
        (int(location[0]), int(location[1]))
        if len(location) == 2 and all(part.isdigit() for part in location)
        else (None, 0)
    )
    return Failure(kind.replace(" ", "").lower(), message, subtype, name, start, length, entry)


def error_of(failure: Failure, allowance: Allowance, spill_limit_bytes: int | None = None) -> LivestateError:
    """The error to raise for a failure.

    Args:
        failure: What the engine reports.
        allowance: What its database may take.
        spill_limit_bytes: What it may put on disk; None: nothing.

    Returns:
        An error of the kind that says what the caller should do.
    """
    needs = f"The statement needs more memory than {allowance.words}"
    if failure.kind in _LACK_OF_MEMORY:
        return LimitExceeded(_too_big(needs, spill_limit_bytes))
    if failure.kind == "io" and spill_limit_bytes is not None:
        # The engine's only files are those that it spills to. Its message names them.
        return LimitExceeded(
            f"{needs}, and the disk takes no more of it: ask for less, raise the limit, or free disk space."
        )
    if failure.kind == _CANNOT_COPY:
        return Unsupported(
            "The query engine cannot have a subquery there: put it in a WITH clause, and join that."
        )
    if failure.kind in _UNSUPPORTED:
        return Unsupported(_sentence(failure))
    if failure.kind == _UNREADABLE:
        return Unsupported(
            "The result cannot be sent: types in it nest too deeply, or Arrow has none like them."
        )
    if failure.kind in _INVALID:
        return InvalidInput(_sentence(failure))
    return Defect(f"The query engine failed on this statement ({failure.kind}); please report the statement.")


def _too_big(needs: str, spill_limit_bytes: int | None) -> str:
    if spill_limit_bytes is None:
        return (
            f"{needs}, and spilling to disk is off: ask for less, raise the limit, or allow spilling by "
            "spill_limit_bytes."
        )
    return (
        f"{needs}, and can or may not spill the rest (spill_limit_bytes allows {spill_limit_bytes} "
        "bytes): ask for less, or raise a limit."
    )


def _sentence(failure: Failure) -> str:
    # Settings are locked, so advice to change one helps nobody.
    message, _, _ = failure.message.split("\n", 1)[0].partition(", or SET ")
    return message.strip()[:500] or f"The statement is not valid ({failure.kind})."
