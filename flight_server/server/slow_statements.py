"""Slow statements, each a line of the log when it ends.

The log is read by more people than stores are: values are taken out of the texts, as they are people's data
(docs/logs.md). The text's digest is that of the audit log, which has the text as it was.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.errors import LivestateError
from engine.exec.query_result import QueryMetadata
from engine.sql.masked_values import mask_plan, mask_values
from flight_server.wire.boundary import kind_name

LONGEST_SQL = 2_000
"""Characters of a statement that are logged."""
LONGEST_PLAN = 8_000
"""Characters of a plan that are logged."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunStatement:
    """What is known of a statement that has ended.

    Attributes:
        event: What it is: `statement`, `endpoint`, or `fragment` of another host's statement.
        sql: Its text.
        dialect: The text's dialect.
        principal: Who asked.
        seconds: From its arrival to its last row.
        rows: Rows that were sent.
        size: Arrow bytes of them.
        outcome: `ok`, or the kind of its error.
        metadata: What was read; None where it failed before.
        explain: Gives the lines of the plan that ran; None where none did.
    """

    event: str
    sql: str
    dialect: str
    principal: str
    seconds: float
    rows: int
    size: int
    outcome: str
    metadata: QueryMetadata | None = None
    explain: Callable[[], Sequence[str]] | None = field(default=None, compare=False)


def log_if_slow(statement: RunStatement, slow_seconds: float) -> None:
    """Log a statement, if it is slow.

    Args:
        statement: It has ended.
        slow_seconds: How long the quickest statement takes that is slow.
    """
    if statement.seconds < slow_seconds:
        return
    facts = _facts(statement)
    stages = ", ".join(f"{stage} {seconds:.3f} s" for stage, seconds in facts.get("stages", {}).items())
    _log.warning(
        "Slow %s: %.3f s%s, %d rows, %s, by %s: %s%s",
        statement.event,
        statement.seconds,
        f" ({stages})" if stages else "",
        statement.rows,
        statement.outcome,
        statement.principal,
        facts["sql"],
        "".join(f" | {line}" for line in facts["plan"]),
        extra={"facts": facts},
    )


def _facts(statement: RunStatement) -> dict[str, Any]:
    sent = statement.sql.encode(errors="replace")
    facts: dict[str, Any] = {
        "event": f"slow_{statement.event}",
        "principal": statement.principal,
        "sql": mask_values(sent.decode(), statement.dialect)[:LONGEST_SQL],
        "sql_sha256": hashlib.sha256(sent).hexdigest(),
        "seconds": round(statement.seconds, 6),
        "rows": statement.rows,
        "bytes": statement.size,
        "outcome": statement.outcome,
        "plan": _plan_lines(statement),
    }
    if statement.metadata is not None:
        facts.update(_read_facts(statement.metadata))
    return facts


def _read_facts(metadata: QueryMetadata) -> Mapping[str, Any]:
    return {
        "stages": {stage: round(seconds, 6) for stage, seconds in metadata.seconds.items()},
        "plan_kind": metadata.plan,
        "epochs": dict(metadata.epochs),
        "hosts": list(metadata.hosts),
        "fragments": metadata.fragments,
        "rules": list(metadata.rules),
        "partitions_read": metadata.partitions_read,
        "partitions": metadata.partitions,
        "rows_read": metadata.rows_read,
        "bytes_moved": metadata.bytes_moved,
        "fallbacks": dict(metadata.fallbacks),
    }


def _plan_lines(statement: RunStatement) -> list[str]:
    if statement.explain is None:
        return []
    try:
        lines = mask_plan(statement.explain())
    except LivestateError as error:
        # What it read may be gone by now. The message may name values.
        return [f"not known any more ({kind_name(error)})"]
    except Exception:  # noqa: BLE001 - a line of the log is no reason for a statement to fail
        _log.exception(
            "The plan of a slow statement cannot be told.", extra={"repeats": "plan of a slow one"}
        )
        return []
    kept: list[str] = []
    size = 0
    for line in lines:
        size += len(line)
        if size > LONGEST_PLAN:
            return [*kept, "…"]
        kept.append(line)
    return kept
