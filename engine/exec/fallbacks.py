"""The ladder of fall-backs: what is tried, in which order, where the plan of a right statement cannot run.

Each rung gives the same rows as the one above, and asks less of planning:

    the whole statement on the one other host that has all of it
      ↓ SPLIT           another host would read its text in another way
    fragments, by all rules of splitting
      ↓ GATHER_PIECES   no rule proves a plan, or the engine refuses its texts
    fragments for the pieces of FROM clauses, the rest here
      ↓ GATHER_SUBTREES the statement has no logical plan
    fragments for those of its queries that have one, rows of the other stores here
      ↓ GATHER_ALL      that is refused, too; or a host refuses rows
    rows of every store here, and the statement over them as it stands

On the engine of one host there is a rung of its own, for statements and fragments alike:

    the columns that the statement can touch, long lists of literals as tables
      ↓ ALL_COLUMNS     the engine refuses the text
    all columns, the text as it was written

Before anything runs, rungs cost only planning, and are taken one by one, but for those that need a logical
plan where there is none; a plan is kept with the rungs that led to it. When a host refuses a fragment, rows
were read in vain, so that the last rung comes at once, and the same statement with the same parameters begins
there the next time. The error at the end of the ladder is that of its last rung, and on the engine that about
the text as written.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any

from engine.deadline import Deadline
from engine.duckdb.engine_errors import BindingError, NotBoundError
from engine.errors import Defect, InvalidInput, LimitExceeded, NotFound, Unsupported
from engine.plan.split.planner import NotPlannedError, Rule
from engine.plan.split.rules.gather_pieces import GATHER_PIECES
from engine.plan.split.rules.without_stores import WITHOUT_STORES
from engine.sql.literals import lift
from engine.statements.deep_stack import ready_statement
from engine.statements.statement_cache import ReadyText

_log = logging.getLogger(__name__)


class Fallback(StrEnum):
    """A rung of the ladder. The metadata of a result counts it under its value."""

    ALL_COLUMNS = "all columns"
    SPLIT = "split"
    GATHER_PIECES = "gather pieces"
    GATHER_SUBTREES = "gather subtrees"
    GATHER_ALL = "gather all"


PIECE_RULES: tuple[Rule, ...] = (WITHOUT_STORES, GATHER_PIECES)
"""The rules of splitting that `Fallback.GATHER_PIECES` leaves."""

REFUSALS = (InvalidInput, NotFound, Unsupported)
"""How a statement is refused that is not right, or says nothing of the stores as they are."""
TEXT_REFUSALS = (LimitExceeded, *REFUSALS)
"""How a text is refused that was made from a right statement: by the parser, the limits of texts, the names,
or the types that can be sent.

A statement that was cancelled, or whose time is over, was not refused, and neither was one that lacks a host
or an epoch: what is kept of a refusal outlives these.
"""
PLAN_REFUSALS = (BindingError, NotBoundError, NotPlannedError, Defect, *TEXT_REFUSALS)
"""How a plan is refused before it runs: as `TEXT_REFUSALS`, by the engine, by the rules, or because its
columns are not those of the statement.
"""
HOST_REFUSALS = (InvalidInput, Unsupported)
"""How a host refuses a fragment. An expression may meet rows before what would have left them out on one
host; only other refusals are surprising.
"""


def log_fallback(fallback: Fallback, reason: Exception) -> None:
    """Say that a rung is taken, and by the kind of the error why: its message may name values, which lines of
    `debug` alone may have.

    Args:
        fallback: The rung.
        reason: Why what was tried before cannot run.
    """
    is_expected = fallback is Fallback.ALL_COLUMNS or isinstance(reason, InvalidInput | NotPlannedError)
    _log.log(
        logging.INFO if is_expected else logging.WARNING,
        "A statement falls back to %r, since its plan is refused (%s).",
        fallback.value,
        type(reason).__name__,
    )
    _log.debug("The plan is refused: %s", reason)


def count_fallbacks(taken: Iterable[Fallback], reports: Iterable[Mapping[str, Any]] = ()) -> dict[str, int]:
    """How often each rung was taken for a result.

    Args:
        taken: Rungs that were taken here.
        reports: `QueryMetadata`, as a JSON object, of what hosts gave for it. A host of another version may
            count none, or other rungs.
    """
    counts = Counter(fallback.value for fallback in taken)
    for report in reports:
        found = report.get("fallbacks")
        if isinstance(found, Mapping):
            for fallback in Fallback:
                count = found.get(fallback.value)
                counts[fallback.value] += count if isinstance(count, int) else 0
    return {name: count for name, count in counts.items() if count}


def read_all_columns(ready: ReadyText, dialect: str, deadline: Deadline) -> ReadyText:
    """A text with all columns of its stores and its lists in place; not kept.

    Args:
        ready: The text.
        dialect: Its dialect.
        deadline: When the statement must end.

    Raises:
        LivestateError: One of `TEXT_REFUSALS`: it is not valid so.
    """
    lifted = lift(ready.text, dialect, lists=False)
    statement = ready_statement(
        lifted,
        dialect,
        ready.statement.bound.tables,
        deadline,
        all_columns=True,
        moments=ready.moments,
    )
    return ReadyText(ready.text, statement, ready.catalog_rows, ready.moments)
