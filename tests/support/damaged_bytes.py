"""Bytes with one fault each."""

from __future__ import annotations

from collections.abc import Iterator


def damaged_forms(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Each byte flipped, and each beginning of the bytes.

    Args:
        data: What was written.

    Yields:
        An offset, and what is there instead: with a bit of the byte at the offset flipped, then only the
        bytes before it. The bit is another one from byte to byte.
    """
    for offset in range(len(data)):
        yield offset, data[:offset] + bytes([data[offset] ^ (1 << offset % 8)]) + data[offset + 1 :]
        yield offset, data[:offset]
