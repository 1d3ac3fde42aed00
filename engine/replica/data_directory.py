"""A host's data directory belongs to one changelog: the epochs of another one mean something else."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from engine.changelog.kept_catalog import KeptCatalog
from engine.changelog.layout import DATA_DIRECTORY_MARKER, FORMAT_PATH, STORES_PATH
from engine.errors import Corrupt, InvalidInput, LimitExceeded, Unavailable

DIRECTORY_FORMAT = 1
_CATALOG = "catalog.json"
LOCK_FILE = "livestate.lock"
"""It is locked by the host whose directory this is."""
SPILL_DIRECTORY = "spill"
"""What is in it is deleted with each start."""
_WRITTEN_SUFFIX = ".tmp"
_WRITTEN_FILES = (DATA_DIRECTORY_MARKER, _CATALOG)
HOST_NAMES = frozenset(
    [
        LOCK_FILE,
        SPILL_DIRECTORY,
        *_WRITTEN_FILES,
        *(f"{Path(file).stem}{_WRITTEN_SUFFIX}" for file in _WRITTEN_FILES),
    ]
)
"""What the host has in its data directory beside store groups, but for names that begin with a dot: no
directory of a group is called so.
"""
_FULL = frozenset([errno.ENOSPC, errno.EDQUOT, errno.EFBIG])


class NotKeptError(Unavailable):
    """The disk does not take what the changelog has said of its stores; it has said it all the same."""


def claim(directory: Path, changelog: str | None) -> None:
    """Mark a data directory as a changelog's, or check that it is marked so.

    Args:
        directory: The data directory; made if it is not there.
        changelog: Identity of the changelog; None while nothing was ever written to it, which claims nothing.

    Raises:
        InvalidInput: The directory belongs to another changelog, or is one or part of one.
        Corrupt: The mark is damaged, or of a format that this version does not know.
        LimitExceeded: The disk is full.
        Unavailable: The disk does not take the mark, or the host may not read it.
    """
    if changelog is None:
        return
    check_no_changelog(directory)
    if not is_data_directory(directory):
        _mark(directory, changelog)
    if owner_of(directory) != changelog:
        raise InvalidInput(
            "The data directory belongs to another changelog: give this host a directory of its own, or "
            "delete what is in it."
        )


def _mark(directory: Path, changelog: str) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True)
        document = json.dumps({"format": DIRECTORY_FORMAT, "changelog": changelog})
        _write_durably(directory / DATA_DIRECTORY_MARKER, document.encode())
    except OSError as error:
        if error.errno in _FULL:
            raise LimitExceeded(
                "The disk of the data directory is full; free space on it, and start the host again if it "
                "has ended."
            ) from error
        raise Unavailable(f"The host cannot write in its data directory ({error.strerror}).") from error


def _write_durably(file: Path, content: bytes) -> None:
    """Write a file that is whole, or as it was, also after a loss of power."""
    written = file.with_suffix(_WRITTEN_SUFFIX)
    with written.open("wb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    written.rename(file)
    descriptor = os.open(file.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_no_changelog(directory: Path) -> None:
    """See that a data directory is none that a changelog is in.

    Args:
        directory: The data directory.

    Raises:
        InvalidInput: It is a changelog, or within one.
    """
    above = (directory, *directory.resolve().parents)
    # A method of the path would raise where this user may not look, or the name is none.
    if any(os.path.isfile(each / FORMAT_PATH) and os.path.isdir(each / STORES_PATH) for each in above):  # noqa: PTH112, PTH113
        raise InvalidInput(
            "The data directory is a changelog, or within one: give this host a directory of its own. What "
            "it has is deleted now and then, and a changelog must not be."
        )


def is_data_directory(directory: Path) -> bool:
    """Whether a host has marked a directory as its own, as far as this user may look."""
    return os.path.exists(directory / DATA_DIRECTORY_MARKER)  # noqa: PTH110


def owner_of(directory: Path) -> str:
    """The identity of the changelog that a marked data directory belongs to.

    Raises:
        Corrupt: The mark is damaged, or of a format that this version does not know.
        Unavailable: The host may not read it, or the disk does not answer.
    """
    try:
        document = json.loads(_read(directory / DATA_DIRECTORY_MARKER))
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
        NotKeptError: The disk does not take it.
    """
    try:
        _write_durably(directory / _CATALOG, catalog.to_bytes())
    except OSError as error:
        raise NotKeptError(
            f"The host cannot keep the catalogue of the changelog in its data directory ({error.strerror})."
        ) from error


def kept_catalog(directory: Path) -> KeptCatalog | None:
    """What was kept of the stores of the changelog that a data directory belongs to; None where nothing was.

    Raises:
        Corrupt: It is damaged, or of a format that this version does not know.
        Unavailable: The host may not read it, or the disk does not answer.
    """
    file = directory / _CATALOG
    if not file.exists():
        return None
    kept = KeptCatalog.from_bytes(_read(file))
    return kept if is_data_directory(directory) and owner_of(directory) == kept.identity else None


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise Unavailable(
            f"The host cannot read {file.name} in its data directory ({error.strerror}): give the directory, "
            "with all that is in it, to the user that the host runs as."
        ) from error
