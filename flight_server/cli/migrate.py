"""`livestate migrate`: the columns of a store change while a job writes it and hosts serve it."""

from __future__ import annotations

import os
import shlex
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.changelog import Changelog
from engine.errors import NotFound
from engine.model.migration import Change, migrate_definition, parse_changes
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName
from flight_server.cli.operator import operator

_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class MigrateOptions:
    """What is to become of a store.

    Attributes:
        store: Its name.
        add: Columns to add, as SQL defines them.
        drop: Columns to drop.
        rename: `old=new`.
        widen: `column=TYPE`.
        dry_run: Whether nothing is to change.
        wait: Seconds to wait for a commit that takes the migration up.
        take_over: Whether to make one if none comes, which ends the term of a job that writes the store
            group.
    """

    store: str
    add: Sequence[str] = ()
    drop: Sequence[str] = ()
    rename: Sequence[str] = ()
    widen: Sequence[str] = ()
    dry_run: bool = False
    wait: float = 10.0
    take_over: bool = False

    @property
    def changes(self) -> Sequence[Change]:
        """All changes, in the order in which they are made.

        Raises:
            InvalidInput: A text is not understood.
        """
        return parse_changes(self.add, self.drop, self.rename, self.widen)


def migrate(changelog: Changelog, options: MigrateOptions, say: Callable[[str], None]) -> None:
    """Migrate a store, and see to it that the migration takes effect. Without changes, see to that for what
    was migrated before.

    Args:
        changelog: Where the store is.
        options: What to do.
        say: Gets lines for the user.

    Raises:
        NotFound: There is no such store.
        InvalidInput: The store cannot be changed so; the message shows what it is and what was asked for.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    store = StoreName(options.store)
    there = changelog.definition(store)
    if there is None:
        raise NotFound(
            f"There is no store {store} in the changelog: check the changelog's URI and the store's name, or "
            "load the store first."
        )
    epoch = changelog.newest_epoch(there.group)
    if options.dry_run:
        changed = migrate_definition(there, options.changes, changelog.generation(there.group) + 1)
        _show(there, changed, say)
        say("Nothing was changed: this was a dry run.")
        return
    number = changelog.generation(there.group)
    if options.changes or not number:
        migration = changelog.migrate_store(store, options.changes, operator())
        number = migration.number
        _show(migration.before, migration.after, say)
    else:
        # An earlier migration may be in effect since the newest epoch.
        epoch = Epoch(max(epoch - 1, 0))
        say(f"is:  {there.describe()}")
    found = _wait_until_in_effect(changelog, there.group, epoch, number, options.wait)
    if found is not None:
        say(f"In effect at epoch {found:,} of store group {there.group}.")
    elif options.take_over:
        _take_over(changelog, there.group, say)
    else:
        say(
            f"No commit of store group {there.group} came within {options.wait:g} s. The next one takes the "
            "change up, and a job goes on as it is. "
            f"To have it at once: livestate migrate {shlex.quote(store)} --changelog "
            f"{shlex.quote(changelog.uri)} --take-over; a job that writes the group has to be started again "
            "then."
        )


def _show(before: StoreDefinition, after: StoreDefinition, say: Callable[[str], None]) -> None:
    say(f"was: {before.describe()}")
    say(f"is:  {after.describe()}")


def _wait_until_in_effect(
    changelog: Changelog, group: GroupName, epoch: Epoch, generation: int, seconds: float
) -> Epoch | None:
    """The first epoch after another one that has a generation, once it is there; None if it does not come in
    time.
    """
    deadline = time.monotonic() + seconds
    while True:
        newest = changelog.newest_epoch(group, epoch)
        while epoch < newest:
            epoch = Epoch(epoch + 1)
            commit = changelog.read_commit(group, epoch)
            if commit is not None and commit.generation >= generation:
                return epoch
        if time.monotonic() >= deadline:
            return None
        time.sleep(min(_LOOK_SECONDS, max(deadline - time.monotonic(), 0.0)))


def _take_over(changelog: Changelog, group: GroupName, say: Callable[[str], None]) -> None:
    writer = changelog.writer(group, f"livestate migrate on {socket.gethostname()}, process {os.getpid()}")
    say(
        f"In effect at epoch {writer.epoch:,} of store group {group}, which was taken over: a job that wrote "
        "it has to be started again."
    )
