"""A host's data directory belongs to one changelog: the epochs of another one mean something else."""

from __future__ import annotations

import json
from pathlib import Path

from engine.changelog.kept_catalog import KeptCatalog
from engine.changelog.layout import FORMAT_PATH, STORES_PATH
from engine.errors import Corrupt, InvalidInput, Unavailable

DIRECTORY_FORMAT = 1
_MARKER = "livestate.json"
_CATALOG = "catalog.json"


def claim(directory: Path, changelog: str | None) -> None:
    """Mark a data directory as a changelog's, or check that it is marked so.

    Args:
        directory: The data directory; made if it is not there.
        changelog: Identity of the changelog; None while nothing was ever written to it, which claims nothing.

    Raises:
        InvalidInput: The directory belongs to another changelog, or is one or part of one.
        Corrupt: The mark cannot be read, or is of a format that this version does not know.
    """
    if changelog is None:
        return
    check_no_changelog(directory)
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


def check_no_changelog(directory: Path) -> None:
    """See that a data directory is none that a changelog is in.

    Args:
        directory: The data directory.

    Raises:
        InvalidInput: It is a changelog, or within one.
    """
    above = (directory, *directory.resolve().parents)
    if any((each / FORMAT_PATH).is_file() and (each / STORES_PATH).is_dir() for each in above):
        raise InvalidInput(
            "The data directory is a changelog, or within one: give this host a directory of its own. What "
            "it has is deleted now and then, and a changelog must not be."
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


def keep_catalog(directory: Path, catalog: KeptCatalog) -> None:
    """Keep what is known of a changelog's stores, in place of what was kept before.

    Args:
        directory: The data directory.
        catalog: What is known.

    Raises:
        Unavailable: The disk does not take it.
    """
    written = (directory / _CATALOG).with_suffix(".tmp")
    try:
        written.write_bytes(catalog.to_bytes())
        written.rename(directory / _CATALOG)
    except OSError as error:
        raise Unavailable(
            f"The host cannot keep the catalogue of the changelog in its data directory ({error.strerror})."
        ) from error


def kept_catalog(directory: Path) -> KeptCatalog | None:
    """What was kept of the stores of the changelog that a data directory belongs to; None where nothing was.

    Raises:
        Corrupt: It is damaged, or of a format that this version does not know.
    """
    try:
        kept = KeptCatalog.from_bytes((directory / _CATALOG).read_bytes())
    except FileNotFoundError:
        return None
    return kept if is_data_directory(directory) and owner_of(directory) == kept.identity else None
