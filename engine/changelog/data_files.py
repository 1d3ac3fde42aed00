"""Data files: rows of several partitions in one object, of which a reader fetches the slices that
it needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from engine.changelog.codec import DATA_HEADER_LENGTH, check_data_header, check_slices
from engine.changelog.commit import DataFile, Slice
from engine.changelog.objects import Objects, Range
from engine.errors import Corrupt

_JOIN_GAP = 1024 * 1024
"""Bytes that nobody asked for but that are cheaper to read along than a second request."""


def read_slices(
    objects: Objects, path: str, file: DataFile, wanted: Sequence[Slice], where: str
) -> list[pa.Buffer]:
    """The bytes of some slices of a data file, neighbours fetched together.

    Args:
        objects: Where the file is.
        path: Its path.
        file: The file; its rows are not inside a commit.
        wanted: Slices of it, in the order of the bytes.
        where: What the file is of, for the message.

    Returns:
        The bytes of each slice; whether they are what was written is for `codec.decode_slice` to say.

    Raises:
        Corrupt: The file is missing, or not the one that was written.
        Unavailable: The store cannot be reached.
    """
    if not wanted:
        return []
    ranges = _joined_ranges(
        [(0, DATA_HEADER_LENGTH), *((part.offset, part.offset + part.length) for part in wanted)]
    )
    buffers = objects.get_ranges(path, file.size, ranges)
    if buffers is None:
        raise _loss_error(where)
    check_data_header(buffers[0].slice(0, DATA_HEADER_LENGTH), file.generation, where)
    contents = []
    current = 0
    for part in wanted:
        while part.offset >= ranges[current][1]:
            current += 1
        contents.append(buffers[current].slice(part.offset - ranges[current][0], part.length))
    return contents


def check_file(file: DataFile, data: pa.Buffer, where: str) -> None:
    """Refuse a data file that is not the one that was written.

    Args:
        file: What a commit or a snapshot says of it.
        data: All its bytes.
        where: What it is of, for the message.

    Raises:
        Corrupt: It is another one, or damaged.
    """
    if data.size != file.size:
        raise _loss_error(where)
    check_data_header(data.slice(0, DATA_HEADER_LENGTH), file.generation, where)
    check_slices(file, data, where)


def _loss_error(where: str) -> Corrupt:
    return Corrupt(
        f"A data file of {where} is missing or has lost bytes: restore the changelog from a backup."
    )


def _joined_ranges(ranges: Sequence[Range]) -> list[Range]:
    """Ascending ranges with near neighbours joined."""
    joined: list[Range] = []
    for start, end in ranges:
        if joined and start - joined[-1][1] <= _JOIN_GAP:
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    return joined
