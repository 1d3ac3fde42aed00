"""`livestate verify`, `collect`, `backup` and `restore`: what a changelog has."""

from __future__ import annotations

import time
from collections.abc import Sequence

import click

from engine.errors import InvalidInput
from engine.model.quantities import quantity
from flight_server.cli.options import changelog_option, snapshot_tail_option, snapshots_kept_option
from flight_server.cli.usage import open_changelog, open_lasting_changelog, usage_errors


@click.command()
@click.argument("place", metavar="URI|DIRECTORY")
@changelog_option()
def verify(place: str, changelog: str | None) -> None:
    """Read a changelog, or the data directory of a stopped host, and say what is wrong with it.

    Of a changelog every epoch and snapshot is read with all rows: whether they are there, name the one before
    them, and have the checksums that they had. Of a data directory every block of every partition is. Nothing
    is written; jobs and hosts may use the changelog meanwhile. One line a fault, and the exit code is 1 if
    there is any.

    \b
    Examples:
      livestate verify file:///var/lib/livestate
      livestate verify s3://bucket/livestate
      livestate verify /var/lib/livestate-host --changelog file:///var/lib/livestate
    """
    from flight_server.cli.verify import check_place  # noqa: PLC0415  it imports pyarrow and obstore
    from flight_server.cli.verify import verify as run_verify  # noqa: PLC0415  likewise

    with usage_errors():
        check_place(place, changelog)
    has_faults = False
    for uri in (changelog, place if "://" in place else None):
        if uri is not None:
            open_changelog(uri)
    for line in run_verify(place, changelog):
        click.echo(line.text, err=line.is_progress)
        has_faults |= line.is_fault
    if has_faults:
        raise SystemExit(1)


@click.command()
@changelog_option(required=True)
@snapshots_kept_option
@snapshot_tail_option
@click.argument("groups", nargs=-1)
def collect(
    changelog: str, groups: Sequence[str], snapshots_kept: int | None, snapshot_tail: float | None
) -> None:
    """Delete what the changelog does not need: data files that no epoch refers to, and epochs that snapshots
    have made dispensable.

    The former are what crashed or fenced jobs left, and an hour later what a killed load of a new store did;
    the latter go by themselves whenever hosts have made a snapshot. What dropped stores have left goes, too.
    Works on the store GROUPS named, or on all; then files that killed commands were writing go as well, an
    hour later. It is safe while jobs and hosts run.

    \b
    Example:
      livestate collect --changelog file:///var/lib/livestate
    """
    from engine.changelog.first_loads import (  # noqa: PLC0415  it imports pyarrow
        collect_first_load,
        unfinished_first_loads,
    )
    from engine.changelog.snapshot import snapshot_retention  # noqa: PLC0415  likewise
    from engine.changelog.store_drops import remove_dropped_stores  # noqa: PLC0415  likewise
    from engine.model.schema import GroupName  # noqa: PLC0415  likewise

    opened = open_changelog(changelog)
    loads = unfinished_first_loads(opened)
    # Asked for last: a load that has ended since is none.
    written = opened.written_groups()
    known = sorted({*written, *loads})
    if not known:
        raise InvalidInput("The changelog has no store groups: check its URI, or write a store first.")
    unknown = [group for group in groups if group not in known]
    if unknown:
        raise InvalidInput(f"There is no store group {', '.join(unknown)}; there are {', '.join(known)}.")
    retention = snapshot_retention(snapshots_kept, snapshot_tail)
    for group in [GroupName(name) for name in groups] or known:
        now = time.time_ns() // 1000
        dropped = opened.drop(group, retention, now)
        removed = remove_dropped_stores(opened, group)
        files = opened.collect(group) if group in written else collect_first_load(opened, loads[group], now)
        click.echo(
            f"{group}: {quantity(files + removed.files, 'file')} deleted, "
            f"{quantity(dropped.epochs + removed.epochs, 'epoch')} and "
            f"{quantity(dropped.snapshots + removed.snapshots, 'snapshot')} dropped"
        )
    unfinished = 0 if groups else opened.collect_unfinished(time.time_ns() // 1000)
    if unfinished:
        click.echo(f"all: {quantity(unfinished, 'unfinished file')} deleted")


_epochs_option = click.option(
    "--epoch",
    "epochs",
    multiple=True,
    metavar="GROUP=EPOCH",
    help="An earlier epoch of a store group; by default the newest that there is. Repeatable.",
)


@click.command()
@click.argument("backup", metavar="URI")
@changelog_option(required=True)
@_epochs_option
def backup(backup: str, changelog: str, epochs: Sequence[str]) -> None:
    """Copy the changelog to URI, at one epoch of each store group, while jobs write it and hosts follow it.

    URI is an empty place, or an earlier backup of the same changelog: then only what is new is copied. Every
    row is checked on its way. A backup that was interrupted is taken up by the same command; until it is
    done, an earlier one is what it was.

    \b
    Examples:
      livestate backup s3://backups/livestate --changelog s3://bucket/livestate
      livestate backup /mnt/backup/2026-11-20 --changelog /var/lib/livestate --epoch plays=120
    """
    from flight_server.cli.backup import parse_epochs, run_backup  # noqa: PLC0415  it imports rich

    with usage_errors():
        chosen = parse_epochs(epochs)
    run_backup(open_changelog(changelog), open_lasting_changelog(backup), chosen)


@click.command()
@click.argument("backup", metavar="URI")
@changelog_option(required=True)
@_epochs_option
def restore(backup: str, changelog: str, epochs: Sequence[str]) -> None:
    """Make a changelog of the backup at URI, in an empty place.

    Nothing is to be seen of the changelog before all of it is there. It is the same one to hosts: what they
    have built from epochs that the backup lacks they put aside, and build it again. Jobs go on behind the
    last batch that the backup has, so start them from a checkpoint that ends there: see docs/backup.md.

    \b
    Examples:
      livestate restore s3://backups/livestate --changelog s3://bucket/livestate
      livestate restore /mnt/backup/2026-11-20 --changelog /var/lib/livestate
    """
    from flight_server.cli.backup import parse_epochs, run_restore  # noqa: PLC0415  it imports rich

    with usage_errors():
        chosen = parse_epochs(epochs)
    run_restore(open_changelog(backup), open_lasting_changelog(changelog), chosen)
