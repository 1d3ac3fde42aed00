"""`livestate verify`: whether a changelog, or the data directory of a stopped host, is what was written."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from engine.changelog import Changelog, Inspected, Inspection
from engine.errors import InvalidInput
from engine.model.quantities import human_bytes
from engine.replica.data_directory import is_data_directory

_SECONDS_BETWEEN_LINES = 1.0


@dataclass(frozen=True)
class Line:
    """A line for the user.

    Attributes:
        text: What it says.
        is_fault: Whether that is something wrong.
        is_progress: Whether it only tells how far the reading is.
    """

    text: str
    is_fault: bool = False
    is_progress: bool = False


def check_place(place: str, changelog: str | None) -> None:
    """See that a data directory comes with its changelog.

    Args:
        place: The URI of a changelog, or a data directory.
        changelog: The URI of the changelog that belongs to a data directory.

    Raises:
        InvalidInput: It does not.
    """
    directory = _directory_of(place)
    if changelog is None and directory is not None and is_data_directory(directory):
        raise InvalidInput(
            "This is a host's data directory: say with --changelog URI which changelog the host follows."
        )


def verify(place: str, changelog: str | None) -> Iterator[Line]:
    """Read everything, and say what is wrong. Nothing is written.

    Args:
        place: The URI of a changelog, or a data directory.
        changelog: The URI of the changelog that belongs to a data directory; not looked at where `place` is
            one.

    Yields:
        A line for each fault, now and then one of how far it is, and what was read in the end.

    Raises:
        InvalidInput: A data directory without its changelog, or with another one, or whose host runs.
        LivestateError: The changelog cannot be reached, or there is none.
    """
    check_place(place, changelog)
    directory = _directory_of(place)
    if directory is None or changelog is None or not is_data_directory(directory):
        inspection = Inspection(Changelog.open(place))
        yield from _lines(inspection.read(), len(inspection))
        return
    from engine.replica.directory_inspection import DirectoryInspection  # noqa: PLC0415  only this needs a host's packages
    from flight_server.host.host import lock_stopped_host  # noqa: PLC0415  likewise

    with lock_stopped_host(directory):
        partitions = DirectoryInspection(directory, Changelog.open(changelog))
        yield from _lines(partitions.read(), len(partitions))


def _directory_of(place: str) -> Path | None:
    """A path, or the path of a file URI; None for anything else."""
    parts = urlsplit(place)
    if parts.scheme == "file":
        return Path(unquote(parts.path))
    return None if "://" in place else Path(place)


def _lines(found: Iterable[Inspected], count: int) -> Iterator[Line]:
    done, faults, nbytes, said_at = 0, 0, 0, time.monotonic()
    for each in found:
        for fault in each.faults:
            yield Line(f"{each.name}: {fault}", is_fault=True)
        if each.note:
            yield Line(each.note)
        done, faults, nbytes = done + 1, faults + len(each.faults), nbytes + each.nbytes
        if time.monotonic() - said_at >= _SECONDS_BETWEEN_LINES:
            progress = f"{min(done, count):,} of {count:,}, {human_bytes(nbytes)}: {each.name}"
            yield Line(progress, is_progress=True)
            said_at = time.monotonic()
    outcome = f"faults: {faults:,}" if faults else "nothing is wrong"
    yield Line(f"Epochs, snapshots and partitions read: {done:,}, {human_bytes(nbytes)}; {outcome}.")
