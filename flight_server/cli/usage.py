"""What no host and no store could make right: such arguments and options end a command as click's own checks
of them do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from engine.errors import InvalidInput

if TYPE_CHECKING:
    from engine.changelog import Changelog


@contextmanager
def usage_errors() -> Iterator[None]:
    """Make mistakes of the caller's mistakes of the command line.

    Raises:
        UsageError: In place of `InvalidInput`.
    """
    try:
        yield
    except InvalidInput as error:
        raise click.UsageError(error.message) from error


def values_by_name(pairs: Iterable[tuple[str, str]], option: str) -> dict[str, str]:
    """What an option that may be repeated says of each name.

    Args:
        pairs: The names and values, as they were given.
        option: What the option is called.

    Raises:
        UsageError: It says two things of a name.
    """
    values: dict[str, str] = {}
    for name, value in pairs:
        if values.setdefault(name, value) != value:
            raise click.UsageError(f"{option} says both {values[name]} and {value} of {name}: give one.")
    return values


def open_changelog(uri: str) -> Changelog:
    """The changelog at a place, which need not be there yet.

    Args:
        uri: As the command line has it.

    Raises:
        UsageError: It is no place of a changelog.
    """
    from engine.changelog import Changelog  # noqa: PLC0415  it imports pyarrow and obstore

    with usage_errors():
        return Changelog.open(uri)


def open_lasting_changelog(uri: str) -> Changelog:
    """The changelog at a place that is to have what a command writes.

    Args:
        uri: As the command line has it.

    Raises:
        UsageError: It is no place of a changelog, or one that is gone when the command ends.
    """
    opened = open_changelog(uri)
    if uri.startswith("memory:"):
        raise click.UsageError(
            "What is at memory:// is gone when the command ends: give a directory or an object store."
        )
    return opened
