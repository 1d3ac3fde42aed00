"""`livestate drop`: a store is given up, with all its rows."""

from __future__ import annotations

import time
from collections.abc import Callable

from engine.changelog import Changelog
from engine.changelog.store_drops import drop_store, droppable_store, remove_dropped_stores
from engine.model.quantities import human_bytes, quantity
from engine.model.schema import GroupName, StoreName
from flight_server.cli.operator import operator_name


def loss_text(changelog: Changelog, store: StoreName) -> str | None:
    """What is lost with a store, in a few lines; None where it was dropped already.

    Args:
        changelog: Where it is.
        store: The store.

    Raises:
        LivestateError: As `droppable_store`.
    """
    if changelog.drop_of(store) is not None:
        return None
    definition = droppable_store(changelog, store)
    group = definition.group
    others = sorted(
        name for name, each in changelog.definitions().items() if each.group == group and name != store
    )
    newest = changelog.newest_epoch(group)
    lines = [
        f"Store {definition.describe()}",
        f"is lost on all hosts with all its rows, up to epoch {newest:,} of store group {group}.",
    ]
    if others:
        lines.append(
            f"The group's other stores stay as they are: {', '.join(others)}. In the changelog the rows of "
            f"{store} go with the epochs and snapshots that it shares with them."
        )
    else:
        lines.append("It is the only store of its group, whose epochs go as well.")
    lines.append("A job that writes it fails with its next batch. Only a backup brings it back.")
    return "\n".join(lines)


def drop(
    changelog: Changelog, store: StoreName, notify: Callable[[], None], say: Callable[[str], None]
) -> None:
    """Drop a store, or remove what is left of one that was dropped.

    Args:
        changelog: Where it is.
        store: The store.
        notify: Has hosts take note.
        say: Gets lines for the user.

    Raises:
        LivestateError: As `drop_store` and `remove_dropped_stores`. Once it is recorded, the same command
            goes on.
    """
    group = _drop(changelog, store)
    changelog.generation(group)  # what is known of the group is of before the drop
    found = changelog.drop_of(store)
    if found is not None:
        say(f"Store {store} {found[1].describe()}.")
    notify()
    removed = remove_dropped_stores(changelog, group)
    say(
        f"Removed from the changelog: {quantity(removed.epochs, 'epoch')}, "
        f"{quantity(removed.snapshots, 'snapshot')} and {quantity(removed.files, 'data file')} "
        f"({human_bytes(removed.nbytes)})."
    )


def _drop(changelog: Changelog, store: StoreName) -> GroupName:
    """Record the end of a store, unless it is; its group."""
    known = changelog.drop_of(store)
    if known is not None:
        return known[0]
    definition = droppable_store(changelog, store)
    drop_store(changelog, store, operator_name(), time.time_ns() // 1000)
    return definition.group
