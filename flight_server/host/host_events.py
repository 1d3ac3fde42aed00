"""What a host's log says of how it stands: each change once, found by comparing looks. Pure."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field

from engine.cluster.progress import time_in_words
from engine.cluster.reports import GroupReport, HostName
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import Epoch, GroupName
from engine.telemetry.changes import Crossing, Threshold

LAG_SECONDS = 30.0
"""A group that is further behind is worth a line, where the host has no --max-lag."""
CALM = 0.5
"""The part of the limit below which a group is well again."""


@dataclass(frozen=True)
class HostLook:
    """How a host stands at a moment.

    Attributes:
        now: The time, microseconds since 1970 UTC.
        is_ready: Whether it has caught up with the changelog once.
        groups: Its store groups.
        alive: Which of the other hosts it has heard of lately; None: it never heard of that host.
        is_ending: Whether it was told to end: others may have been told so with it.
        seconds: How long it has been watched, by a clock that nobody sets.
    """

    now: int
    is_ready: bool
    groups: Mapping[GroupName, GroupReport]
    alive: Mapping[HostName, bool | None] = field(default_factory=dict)
    is_ending: bool = False
    seconds: float = 0.0


@dataclass(frozen=True)
class HostEvent:
    """A change that is worth a line.

    Attributes:
        level: As `logging` has it.
        message: The line.
    """

    level: int
    message: str


class HostEvents:
    """Tells what has changed from one look to the next.

    Args:
        lag_seconds: How far behind a group may be before a line says so.
    """

    def __init__(self, lag_seconds: float = LAG_SECONDS) -> None:
        self._lag_seconds = lag_seconds
        self._was_ready = False
        self._lags: dict[GroupName, Threshold] = {}
        self._generations: dict[GroupName, int] = {}
        self._problems: dict[GroupName, str] = {}
        self._alive: dict[HostName, bool] = {}

    def observe(self, look: HostLook) -> list[HostEvent]:
        """Compare a look with those before.

        Args:
            look: The newest.

        Returns:
            What has changed.
        """
        found = self._readiness(look)
        for name, group in sorted(look.groups.items()):
            found += self._lag(name, group, look.now)
            found += self._migrations(name, group)
            found += self._problem(name, group.problem)
        if not look.is_ending:
            for host, alive in sorted(look.alive.items()):
                found += self._failover(host, alive)
        return found

    def _readiness(self, look: HostLook) -> list[HostEvent]:
        if self._was_ready or not look.is_ready:
            return []
        self._was_ready = True
        taken = time_in_words(look.seconds)
        return [_info(f"The host is ready: it has caught up with the changelog, after {taken}.")]

    def _lag(self, name: GroupName, group: GroupReport, now: int) -> list[HostEvent]:
        # Nobody reads what is built: progress has lines of its own.
        lag = 0.0 if group.unread_since is None else (now - group.unread_since) / MICROSECONDS_PER_SECOND
        if not group.readable:
            return []
        limit = self._lag_seconds
        threshold = self._lags.setdefault(name, Threshold(limit, limit * CALM))
        match threshold.update(lag):
            case Crossing.OVER:
                behind = group.newest_known - group.newest
                epochs = "epoch" if behind == 1 else "epochs"
                return [_warning(f"Group {name} is {time_in_words(lag)} behind ({behind} {epochs}).")]
            case Crossing.BACK:
                return [_info(f"Group {name} is at epoch {group.newest}, and no longer behind.")]
            case _:
                return []

    def _migrations(self, name: GroupName, group: GroupReport) -> list[HostEvent]:
        if not group.readable:
            return []
        newest = group.readable[-1]
        before = self._generations.get(name)
        self._generations[name] = newest.generation
        if before is None or before == newest.generation:
            return []
        return [_info(_migration_line(name, newest.epoch, newest.generation))]

    def _problem(self, name: GroupName, problem: str) -> list[HostEvent]:
        before = self._problems.get(name, "")
        self._problems[name] = problem
        if bool(problem) == bool(before):
            return []
        # Failures log what they are by themselves; that they are over nobody else says.
        return [] if problem else [_info(f"Group {name} gets on again.")]

    def _failover(self, host: HostName, alive: bool | None) -> list[HostEvent]:
        before = self._alive.get(host)
        # Who was never reached is not lost yet: at a start hosts hear of others before they reach them.
        if alive is None or alive == before or (before is None and not alive):
            return []
        self._alive[host] = alive
        if not alive:
            return [_warning(f"Host {host} does not answer any more: statements go on without it.")]
        return [_info(f"Host {host} answers{'' if before is None else ' again'}.")]


def _migration_line(name: GroupName, epoch: Epoch, generation: int) -> str:
    return f"Group {name} was migrated: at epoch {epoch} its stores have shape number {generation}."


def _info(message: str) -> HostEvent:
    return HostEvent(logging.INFO, message)


def _warning(message: str) -> HostEvent:
    return HostEvent(logging.WARNING, message)
