"""Where each object of a changelog is, relative to its root.

    FORMAT                                          the format of this layout, and the changelog's identity
    stores/<store>/definition.json                  one store definition
    stores/<store>/definition-<n>.json              likewise, after n stores of this name were dropped
    stores/<name>/switches/<number>.json            which store SQL means by a name from then on, numbered from 1, create-only
    groups/<group>/<epoch>/<task>-<nonce>.arrow     data files of an epoch
    groups/<group>/<epoch>.commit                   written last, create-only: the epoch exists from here on
    groups/<group>/dropped.json                     written before the first epoch is dropped: the group does not begin with epoch 1 any more
    groups/<group>/floors/<number>.json             before which epoch epochs are being dropped, numbered from 1, create-only
    groups/<group>/migrations/<number>.json         an amendment: what a store of the group becomes, an epoch that is passed by, or a store that ends; numbered from 1, create-only
    groups/<group>/snapshots/<epoch>/<nonce>-<n>.arrow   rows of a snapshot
    groups/<group>/snapshots/<epoch>/<nonce>.part   what one host wrote of it
    groups/<group>/snapshots/<epoch>/<nonce>.checksums   what one host has at its epoch
    groups/<group>/snapshots/<epoch>.snapshot       written last, create-only: the snapshot counts from here on
    backup/<number>.json                            marks of a backup, numbered from 1: the newest says of which changelog it is, and to which epochs
    clock/<nonce>                                   written to see when the storage says that it was, and removed at once

Epochs are written with 20 digits and numbers of amendments, definitions, switches and marks with 10, so that names sort as
numbers do.
"""

from __future__ import annotations

import functools
import hashlib
import re
import string
from urllib.parse import quote

from engine.model.schema import Epoch, GroupName, StoreName

LAYOUT_FORMAT = 1
FORMAT_PATH = "FORMAT"
STORES_PATH = "stores"
GROUPS_PATH = "groups"
MARKS_PATH = "backup"
CLOCK_PATH = "clock"
TEMPORARY_SUFFIX = ".tmp"
"""Ends the name of a local file that is being written; nothing else ends so."""
DATA_DIRECTORY_MARKER = "livestate.json"
"""What a host's data directory has, and no changelog."""

_DEFINITION = re.compile(r"/definition(?:-(\d{10}))?\.json\Z", re.ASCII)
_ROOT_NAME = re.compile(
    rf"({FORMAT_PATH}|{STORES_PATH}|{GROUPS_PATH}|{MARKS_PATH}|{CLOCK_PATH})"
    rf"|({FORMAT_PATH}|{CLOCK_PATH})\.[0-9a-f]+{re.escape(TEMPORARY_SUFFIX)}"
)
_COMMIT_SUFFIX = ".commit"
_DROPPED = "dropped.json"
_FLOORS = "floors"
_AMENDMENTS = "migrations"
_AMENDMENT = re.compile(rf"{GROUPS_PATH}/[^/]+/{_AMENDMENTS}/\d{{10}}\.json", re.ASCII)
_NUMBER_DIGITS = 10
_SWITCHES = "switches"
_MARK = re.compile(rf"{MARKS_PATH}/(\d{{10}})\.json\Z", re.ASCII)
_SWITCH = re.compile(r"/switches/(\d{10})\.json\Z", re.ASCII)
_SNAPSHOTS = "snapshots"
_SNAPSHOT_SUFFIX = ".snapshot"
_PART_SUFFIX = ".part"
_CHECKSUMS_SUFFIX = ".checksums"
_EPOCH_DIGITS = 20
_SAFE = frozenset(string.ascii_letters + string.digits + "_-.")
_MAX_SEGMENT = 180
_KEPT_OF_LONG = 100


@functools.lru_cache(4096)
def path_segment(name: str) -> str:
    """A name as one path segment that every object store and file system takes as it is.

    Args:
        name: Any text.

    Returns:
        The name percent-encoded (RFC 3986) outside ASCII letters, digits, `_`, `-` and an inner `.`; it never
        starts with a dot. What would be longer than 180 characters keeps about the first 100 and gets a `~`
        and a digest instead of the rest: file systems end at 255, and the whole name stands inside the
        definition.
    """
    encoded = quote(name, safe="")
    encoded = "".join(c if c in _SAFE or c == "%" else f"%{ord(c):02X}" for c in encoded)
    if encoded.startswith("."):
        encoded = "%2E" + encoded[1:]
    if len(encoded) <= _MAX_SEGMENT:
        return encoded
    whole = re.sub("%.?$", "", encoded[:_KEPT_OF_LONG])
    return whole + "~" + hashlib.sha256(name.encode()).hexdigest()


def is_root_name(name: str) -> bool:
    """Whether a name directly below the root is one that a changelog or a backup has there."""
    return _ROOT_NAME.fullmatch(name) is not None


def definition_path(store: StoreName, incarnation: int = 0) -> str:
    """Where the definition of a store is.

    Args:
        store: The store.
        incarnation: How many stores of this name were dropped before it.
    """
    number = f"-{incarnation:0{_NUMBER_DIGITS}d}" if incarnation else ""
    return f"{STORES_PATH}/{path_segment(store)}/definition{number}.json"


def definition_incarnation(path: str) -> int | None:
    """How many stores of its name were dropped before the store whose definition a path is; None for anything
    else.
    """
    found = _DEFINITION.search(path)
    return int(found[1] or 0) if found else None


def switches_path(name: StoreName) -> str:
    """The directory of the switches of a name."""
    return f"{STORES_PATH}/{path_segment(name)}/{_SWITCHES}"


def switch_path(name: StoreName, number: int) -> str:
    """Where a switch of a name is."""
    return f"{switches_path(name)}/{number:0{_NUMBER_DIGITS}d}.json"


def switch_number(path: str) -> int:
    """The number of a switch by its path; 0 for anything else."""
    found = _SWITCH.search(path)
    return int(found[1]) if found else 0


def mark_path(number: int) -> str:
    """Where a mark of a backup is."""
    return f"{MARKS_PATH}/{number:0{_NUMBER_DIGITS}d}.json"


def mark_number(path: str) -> int:
    """The number of a mark by its path; 0 for anything else."""
    found = _MARK.search(path)
    return int(found[1]) if found else 0


def group_path(group: GroupName) -> str:
    """The directory of a store group."""
    return f"{GROUPS_PATH}/{path_segment(group)}"


def amendment_path(group: GroupName, number: int) -> str:
    """Where an amendment of a group is."""
    return f"{group_path(group)}/{_AMENDMENTS}/{number:0{_NUMBER_DIGITS}d}.json"


def is_amendment(path: str) -> bool:
    """Whether a path is that of an amendment."""
    return _AMENDMENT.fullmatch(path) is not None


def floor_path(group: GroupName, number: int) -> str:
    """Where it stands before which epoch a group's epochs are being dropped."""
    return f"{group_path(group)}/{_FLOORS}/{number:0{_NUMBER_DIGITS}d}.json"


def dropped_path(group: GroupName) -> str:
    """Where the object is that says that epochs of a group were dropped."""
    return f"{group_path(group)}/{_DROPPED}"


def epoch_path(group: GroupName, epoch: Epoch) -> str:
    """The directory of an epoch's data files."""
    return f"{group_path(group)}/{epoch:0{_EPOCH_DIGITS}d}"


def commit_path(group: GroupName, epoch: Epoch) -> str:
    """Where the commit of an epoch is."""
    return epoch_path(group, epoch) + _COMMIT_SUFFIX


def commit_epoch(group: GroupName, path: str) -> Epoch:
    """The epoch of a commit by its path; 0 for anything else below a group's directory."""
    digits = path.removeprefix(group_path(group) + "/").removesuffix(_COMMIT_SUFFIX)
    is_commit = path.endswith(_COMMIT_SUFFIX) and digits.isascii() and digits.isdigit()
    return Epoch(int(digits) if is_commit else 0)


def data_path(group: GroupName, epoch: Epoch, name: str) -> str:
    """Where a data file of an epoch is."""
    return f"{epoch_path(group, epoch)}/{name}"


def data_epoch(group: GroupName, path: str) -> Epoch | None:
    """Which epoch an object below a group's directory was written for.

    Args:
        group: The store group.
        path: Path of any object.

    Returns:
        The epoch of a data file or of a temporary file; None for commits and for what livestate did not
        write.
    """
    inner = path.removeprefix(group_path(group) + "/")
    digits = inner[:_EPOCH_DIGITS]
    if inner == path or len(digits) != _EPOCH_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    if inner[_EPOCH_DIGITS:].startswith("/") or inner.endswith(TEMPORARY_SUFFIX):
        return Epoch(int(digits))
    return None


def snapshots_path(group: GroupName) -> str:
    """The directory of a group's snapshots."""
    return f"{group_path(group)}/{_SNAPSHOTS}"


def snapshot_path(group: GroupName, epoch: Epoch) -> str:
    """Where the object is that makes a snapshot count."""
    return parts_path(group, epoch) + _SNAPSHOT_SUFFIX


def parts_path(group: GroupName, epoch: Epoch) -> str:
    """The directory of what hosts write of a snapshot."""
    return f"{snapshots_path(group)}/{epoch:0{_EPOCH_DIGITS}d}"


def part_path(group: GroupName, epoch: Epoch, name: str) -> str:
    """Where the index of what one host wrote of a snapshot is."""
    return f"{parts_path(group, epoch)}/{name}{_PART_SUFFIX}"


def part_name(path: str) -> str | None:
    """The name of a part by its path; None for anything else."""
    name = path.rpartition("/")[2]
    return name.removesuffix(_PART_SUFFIX) if name.endswith(_PART_SUFFIX) else None


def checksums_path(group: GroupName, epoch: Epoch, name: str) -> str:
    """Where the checksums of what one host has at the epoch of a snapshot are."""
    return f"{parts_path(group, epoch)}/{name}{_CHECKSUMS_SUFFIX}"


def is_checksums_path(path: str) -> bool:
    """Whether a path is that of checksums of a host."""
    return path.endswith(_CHECKSUMS_SUFFIX)


def snapshot_data_path(group: GroupName, epoch: Epoch, name: str) -> str:
    """Where a data file of a snapshot is."""
    return f"{parts_path(group, epoch)}/{name}"


def is_snapshot_piece(path: str) -> bool:
    """Whether an object is one of those that hosts write of a snapshot of any group before it counts."""
    names = path.split("/")
    return len(names) == 5 and names[0] == GROUPS_PATH and names[2] == _SNAPSHOTS


def snapshot_epoch(group: GroupName, path: str) -> tuple[Epoch, bool] | None:
    """Which snapshot an object belongs to.

    Args:
        group: The store group.
        path: Path of any object.

    Returns:
        The snapshot's epoch, and whether the object is the one that makes it count; None for what belongs to
        no snapshot.
    """
    inner = path.removeprefix(snapshots_path(group) + "/")
    digits, rest = inner[:_EPOCH_DIGITS], inner[_EPOCH_DIGITS:]
    if inner == path or len(digits) != _EPOCH_DIGITS or not (digits.isascii() and digits.isdigit()):
        return None
    return Epoch(int(digits)), rest == _SNAPSHOT_SUFFIX
