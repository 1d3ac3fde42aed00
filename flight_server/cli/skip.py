"""`livestate skip`: an epoch that can never be applied is passed by."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.changelog import Changelog
from engine.changelog.skipping import skip_epoch
from engine.model.schema import Epoch, GroupName
from flight_server.cli.operator import operator_name
from flight_server.client.client import Client


@dataclass(frozen=True)
class SkipOptions:
    """Which epoch is passed by.

    Attributes:
        group: Its store group.
        epoch: The epoch.
        reason: Why.
        force: Whether to do so though hosts could apply it, or have.
    """

    group: GroupName
    epoch: Epoch
    reason: str
    force: bool = False


def skip(
    changelog: Changelog, options: SkipOptions, hosts: Iterable[Client], say: Callable[[str], None]
) -> None:
    """Pass an epoch by.

    Args:
        changelog: Where it is.
        options: Which.
        hosts: Hosts that may say that they cannot apply it.
        say: Gets lines for the user.

    Raises:
        LivestateError: As `skip_epoch`; or a host cannot be reached.
    """
    group, epoch = options.group, options.epoch
    problem = (
        "" if options.force else next(filter(None, (_problem(host, group, epoch) for host in hosts)), "")
    )
    if problem:
        say(f"A host is kept before epoch {epoch:,} of store group {group}: {problem}")
    recorded = skip_epoch(
        changelog,
        group,
        epoch,
        options.reason,
        operator_name(),
        time.time_ns() // 1000,
        force=options.force or bool(problem),
    )
    say(f"{recorded.describe()}.")
    say("Hosts go on behind it within a second. SHOW STORES, livestate verify and the hosts' logs show it.")


def _problem(host: Client, group: GroupName, epoch: Epoch) -> str:
    """What a host says that keeps it before an epoch; empty where nothing does. What keeps it before an
    earlier one is no reason.
    """
    named = re.compile(rf"\bepoch {epoch} of store group {re.escape(group)}(?!\w)", re.IGNORECASE)
    for row in host.stores().to_pylist():
        problem = str(row["problem"] or "")
        is_before = row["store_group"] == group and row["epoch"] < epoch
        if problem and is_before and (row["epoch"] == epoch - 1 or named.search(problem)):
            return problem
    return ""
