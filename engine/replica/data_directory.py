"""A host's data directory belongs to one changelog: the epochs of another one mean something else."""

from __future__ import annotations

import json
from pathlib import Path

from engine.errors import Corrupt, InvalidInput

DIRECTORY_FORMAT = 1
_MARKER = "livestate.json"


def claim(directory: Path, changelog: str | None) -> None:
    """Mark a data directory as a changelog's, or check that it is marked so.

    Args:
        directory: The data directory; made if it is not there.
        changelog: Identity of the changelog; None while nothing was ever written to it, which claims nothing.

    Raises:
        InvalidInput: The directory belongs to another changelog.
        Corrupt: The mark cannot be read, or is of a format that this version does not know.
    """
    if changelog is None:
        return
    directory.mkdir(parents=True, exist_ok=True)
    marker = directory / _MARKER
    if not marker.exists():
        written = marker.with_suffix(".tmp")
        written.write_text(json.dumps({"format": DIRECTORY_FORMAT, "changelog": changelog}))
        written.rename(marker)
    if owner_of(directory) != changelog:
        raise InvalidInput(
            "The data directory belongs to another changelog: give this host a directory of its own, or "
            "delete what is in it."
        )


def is_data_directory(directory: Path) -> bool:
    """Whether a host has marked a directory as its own."""
    return (directory / _MARKER).exists()


def owner_of(directory: Path) -> str:
    """The identity of the changelog that a marked data directory belongs to.

    Raises:
        Corrupt: The mark cannot be read, or is of a format that this version does not know.
    """
    marker = directory / _MARKER
    try:
        document = json.loads(marker.read_text())
        if document["format"] != DIRECTORY_FORMAT:
            raise Corrupt(
                f"The data directory has format {document['format']!r}; this version reads format "
                f"{DIRECTORY_FORMAT}: upgrade livestate."
            )
        return str(document["changelog"])
    except (ValueError, KeyError, TypeError) as error:
        raise Corrupt(
            "The data directory's livestate.json is damaged; delete the directory and the host rebuilds it "
            "from the changelog."
        ) from error
