"""Small documents that people can read: JSON objects with the CRC-32 of their bytes as one more field, so
that no flipped letter renames a column.
"""

from __future__ import annotations

import re
import zlib

from engine.changelog.frames import damage_error

_CHECKSUM = re.compile(rb',\n "crc32": ([0-9]+)\n\}\Z')


def seal(document: bytes) -> bytes:
    """The stored form of a JSON object.

    Args:
        document: What `json.dumps(…, indent=1)` makes of one that has a field.
    """
    return document.removesuffix(b"}").rstrip() + f',\n "crc32": {zlib.crc32(document)}\n}}'.encode()


def unseal(data: bytes, what: str) -> bytes:
    """What `seal` was given.

    Args:
        data: The stored form.
        what: What it is of, the beginning of the message.

    Raises:
        Corrupt: It is not what was written.
    """
    found = _CHECKSUM.search(data)
    document = data[: found.start()] + b"\n}" if found else b""
    if found is None or zlib.crc32(document) != int(found[1]):
        raise damage_error(what)
    return document
