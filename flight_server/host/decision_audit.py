"""Has what operators decide of the changelog in the audit log of each host that hears of it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from engine.access.principal import NOBODY, Principal, Proof
from engine.changelog import Decision, DecisionKind
from engine.model.durations import MICROSECONDS_PER_SECOND
from flight_server.server.audit import AuditLog


class DecisionAudit:
    """Writes a line for each decision, once in the life of a host.

    Args:
        log: Where.
    """

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._told: set[tuple[DecisionKind, str, int]] = set()

    def note(self, decisions: Sequence[Decision]) -> None:
        """Write lines for what is new.

        Args:
            decisions: All that the host has heard of.
        """
        for each in sorted(decisions, key=lambda decision: (decision.place, decision.number)):
            name = each.kind, each.place, each.number
            if name not in self._told:
                self._told.add(name)
                self._write(each)

    def _write(self, decision: Decision) -> None:
        who = decision.author.who
        self._log.write(
            decision.kind.value,
            Principal(who, frozenset(), Proof.NOTHING) if who else NOBODY,
            "",
            {
                "place": decision.place,
                "number": decision.number,
                "decided_at": _moment(decision.author.at),
                "what": decision.what,
            },
        )


def _moment(at: int) -> str | None:
    """A time as JSON has it; None where it is not known, or none, as whoever wrote it may have liked."""
    if at <= 0:
        return None
    try:
        return dt.datetime.fromtimestamp(at / MICROSECONDS_PER_SECOND, dt.UTC).isoformat(
            timespec="milliseconds"
        )
    except (OverflowError, ValueError, OSError):
        return None
