"""`livestate backup` and `livestate restore`: their options, and their progress on standard error."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Bar

from engine.changelog import Changelog
from engine.changelog.backup import Progress, back_up, finished_mark, restore
from engine.errors import InvalidInput, LimitExceeded, Unavailable
from engine.model.quantities import human_bytes
from engine.model.schema import Epoch, GroupName
from flight_server.cli.render import human_seconds, terminal


def run_backup(changelog: Changelog, backup: Changelog, epochs: Mapping[GroupName, Epoch]) -> None:
    """Make a backup, or bring one up to date, with a bar at a terminal and a line for each store group.

    Raises:
        LivestateError: See `engine.changelog.backup.back_up`.
    """
    with _name_place(backup):
        before = finished_mark(backup)
    if before is not None:
        moment = dt.datetime.fromtimestamp(before.finished_at / 1e6, dt.UTC)
        _say(f"Bringing the backup of {moment:%Y-%m-%d %H:%M} UTC up to date.")
        for group, epoch in (before.epochs or {}).items():
            if epochs.get(group, epoch) < epoch:
                _say(f"{group}: back to epoch {epochs[group]:,}; the backup had it up to epoch {epoch:,}.")
    _show_copy(back_up(changelog, backup, epochs, time.time_ns() // 1000), backup)
    _say(f"{backup.uri} has the backup.")


def run_restore(backup: Changelog, changelog: Changelog, epochs: Mapping[GroupName, Epoch]) -> None:
    """Make a changelog of a backup, with a bar at a terminal and a line for each store group.

    Raises:
        LivestateError: See `engine.changelog.backup.restore`.
    """
    for place in (backup, changelog):
        with _name_place(place):
            finished_mark(place)
    _show_copy(restore(backup, changelog, epochs), changelog)
    _say(f"{changelog.uri} has the changelog: start jobs and hosts on it.")


def parse_epochs(texts: Sequence[str]) -> dict[GroupName, Epoch]:
    """Epochs of store groups from texts like `plays=120`.

    Raises:
        InvalidInput: A text is something else, or names a group again.
    """
    epochs: dict[GroupName, Epoch] = {}
    for text in texts:
        group, _, number = text.rpartition("=")
        if not (group and number.isascii() and number.isdigit() and 0 < int(number) < 2**63):
            raise InvalidInput(f"{text!r} is not a store group and an epoch, like plays=120.")
        if group in epochs:
            raise InvalidInput(f"Store group {group} has two epochs: give one.")
        epochs[GroupName(group)] = Epoch(int(number))
    return epochs


@contextmanager
def _name_place(place: Changelog) -> Iterator[None]:
    """Say of which of the two places it is that it cannot be reached."""
    try:
        yield
    except Unavailable as error:
        raise Unavailable(f"{place.uri}: {error.message}") from error


def _show_copy(copy: Iterator[Progress], place: Changelog) -> None:
    try:
        _show_progress(copy)
    except LimitExceeded as error:
        # Of two disks it is that of the copy: the other one is only read.
        raise LimitExceeded(f"{place.uri}: {error.message}") from error


def _show_progress(copy: Iterator[Progress]) -> None:
    console = terminal(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    started = time.perf_counter()
    newest: dict[GroupName, Progress] = {}
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)
        for progress in copy:
            newest[progress.group] = progress
            name = f"{progress.group} up to epoch {progress.epoch:,}"
            bar.update(task, description=name, completed=progress.nbytes, total=progress.total)
    for progress in newest.values():
        _say(f"{progress.group}: epoch {progress.epoch:,}, {human_bytes(progress.nbytes)}")
    nbytes = sum(progress.nbytes for progress in newest.values())
    seconds = time.perf_counter() - started
    _say(f"all: {human_bytes(nbytes)} in {human_seconds(seconds)}")


def _say(line: str) -> None:
    terminal(stderr=True).print(line, soft_wrap=True)
