"""The frame of the changelog's documents: commits, snapshots, and the parts that hosts write of them.

Numbers are little-endian; the checksum is a CRC-32 (ISO 3309, as zlib computes it):

    8 bytes   magic
    4 bytes   format version
    4 bytes   length of the document
    4 bytes   checksum of the document
    document  UTF-8 JSON, an object; spaces may follow it up to its length

What has a generation above 0 is of format 2, and all else still of format 1: whoever knows of no migrations
would take the rows for others.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from engine.errors import Corrupt

NEWEST_FORMAT = 2

_PREFIX = struct.Struct("<8sIII")


@dataclass(frozen=True)
class Frame:
    """What tells one kind of document from the others.

    Attributes:
        magic: Its first 8 bytes.
        alignment: The frame's length is padded to a multiple of this.
    """

    magic: bytes
    alignment: int = 1

    def encode(self, document: Mapping[str, Any]) -> bytes:
        """The stored form of a document."""
        text = json.dumps(document, separators=(",", ":")).encode()
        text += b" " * (-(_PREFIX.size + len(text)) % self.alignment)
        return (
            _PREFIX.pack(self.magic, format_of(document.get("generation", 0)), len(text), zlib.crc32(text))
            + text
        )

    def decode(self, data: pa.Buffer, what: str) -> tuple[Mapping[str, Any], pa.Buffer]:
        """Read a stored document.

        Args:
            data: Its bytes, and any that follow.
            what: What it is of, the beginning of the message.

        Returns:
            The document, and the bytes behind it.

        Raises:
            Corrupt: The bytes do not begin with such a document, are damaged, or are of another format.
        """
        if data.size < _PREFIX.size:
            raise damage_error(what)
        magic, version, length, checksum = _PREFIX.unpack(data.slice(0, _PREFIX.size))
        if magic != self.magic:
            raise damage_error(what)
        if not 1 <= version <= NEWEST_FORMAT:
            raise Corrupt(
                f"{what} has format {version}; this version reads up to {NEWEST_FORMAT}: upgrade livestate."
            )
        end = _PREFIX.size + length
        text = data.slice(_PREFIX.size, length).to_pybytes() if end <= data.size else b""
        if len(text) != length or zlib.crc32(text) != checksum:
            raise damage_error(what)
        try:
            document = json.loads(text)
        except ValueError as error:
            raise damage_error(what) from error
        if not isinstance(document, dict) or version != format_of(document.get("generation", 0)):
            raise damage_error(what)
        return document, data.slice(end)


def format_of(generation: int) -> int:
    """The format of what has a generation: the oldest whose readers understand it."""
    return 2 if generation else 1


def damage_error(what: str) -> Corrupt:
    """The error for a document that is not what was written."""
    return Corrupt(f"{what} is damaged: restore the changelog from a backup.")
