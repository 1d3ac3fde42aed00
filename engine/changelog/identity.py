"""The object that marks a changelog: the format of its layout, and what tells it from any other changelog."""

from __future__ import annotations

import json
import secrets

import pyarrow as pa

from engine.changelog.checksummed_json import seal, unseal
from engine.changelog.frames import damage_error
from engine.changelog.layout import DATA_DIRECTORY_MARKER, FORMAT_PATH, LAYOUT_FORMAT, MARKS_PATH
from engine.changelog.local_objects import LocalObjects
from engine.changelog.objects import Objects
from engine.errors import Corrupt, InvalidInput, Unavailable, Unsupported


def create_identity(objects: Objects) -> None:
    """Mark a new changelog, and use the occasion to see that a create-only write is refused where something
    is. One that is marked stays as it is.

    Args:
        objects: What the changelog is made of.

    Raises:
        InvalidInput: It would be in the data directory of a host.
        Unsupported: The object store does not honour create-only writes.
        Unavailable: The changelog cannot be reached, or a backup is being restored there.
        LimitExceeded: The disk is full.
    """
    if not objects.exists(FORMAT_PATH):
        _check_place(objects)
    document = json.dumps({"format": LAYOUT_FORMAT, "identity": secrets.token_hex(16)}, indent=1)
    marker = [pa.py_buffer(seal(document.encode()))]
    if objects.create(FORMAT_PATH, marker) and objects.create(FORMAT_PATH, marker):
        raise Unsupported(
            "This object store ignores the condition of create-only writes, which epochs rely on: use "
            "another one."
        )


def _check_place(objects: Objects) -> None:
    """Refuse to begin a changelog where something else is."""
    if isinstance(objects, LocalObjects) and objects.exists(DATA_DIRECTORY_MARKER):
        raise InvalidInput(
            "The directory of the changelog is the data directory of a host: give the changelog a directory "
            "of its own. What a host has is deleted now and then, and a changelog must not be."
        )
    if _is_being_copied(objects):
        raise Unavailable(
            "A backup is being copied or restored where the changelog is to be: wait until that is done, or "
            "go on with it by the same command."
        )


def _is_being_copied(objects: Objects) -> bool:
    """Whether a place has marks of a copy."""
    try:
        return next(iter(objects.list(MARKS_PATH)), None) is not None
    except Unavailable:
        objects.current_time()  # who writes there is told more, as that there is no such bucket
        raise


def read_identity(objects: Objects) -> str | None:
    """The identity of a changelog; None where nothing was written yet.

    Args:
        objects: What the changelog is made of.

    Raises:
        Corrupt: The changelog is of another format, or the object that says so is damaged.
        Unavailable: The changelog cannot be reached.
    """
    found = objects.get(FORMAT_PATH)
    if found is None:
        return None
    data = found.to_pybytes()
    what = "The FORMAT object of the changelog"
    try:
        document = json.loads(data)
        version, identity = document["format"], document["identity"]
    except (ValueError, KeyError, TypeError) as error:
        raise damage_error(what) from error
    if version != LAYOUT_FORMAT:
        raise Corrupt(
            f"The changelog has format {version!r}; this version reads format {LAYOUT_FORMAT}: upgrade "
            "livestate."
        )
    unseal(data, what)
    return str(identity)
