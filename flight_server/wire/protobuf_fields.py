"""The fields of a protobuf message as they lie in its bytes, before anything is made of them.

Format: "Encoding" of the documentation of Protocol Buffers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

OTHER = 0
"""Stands for the number of a field without a length of its own; no field has it."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_LONGEST_VARINT = 10


class FieldPlace(NamedTuple):
    """Where a field is.

    Attributes:
        number: Its number, where it has a length: a text, bytes, another message, or packed numbers; else
            `OTHER`.
        tag: Where its tag begins.
        begin: Where its value begins.
        end: Where it ends.
    """

    number: int
    tag: int
    begin: int
    end: int


def field_places(data: bytes, begin: int = 0, end: int | None = None) -> Iterator[FieldPlace]:
    """The fields of a message, one after the other.

    Args:
        data: The bytes that the message is in.
        begin: Where it begins.
        end: Where it ends; None: with the bytes.

    Yields:
        Where each is. What is no field, all up to the end of the message, is one of the number `OTHER`.
    """
    place, end = begin, len(data) if end is None else end
    while place < end:
        tag = place
        key, place = _varint(data, place, end)
        number, wire_type = key >> 3, key & 7
        if wire_type == _LENGTH and number != OTHER:
            length, place = _varint(data, place, end)
            if 0 <= length <= end - place:
                yield FieldPlace(number, tag, place, place + length)
                place += length
                continue
        elif wire_type == _VARINT:
            _, place = _varint(data, place, end)
        elif wire_type in (_FIXED64, _FIXED32):
            place += 8 if wire_type == _FIXED64 else 4
        else:
            place = end + 1
        if key < 0 or place > end or wire_type == _LENGTH:
            yield FieldPlace(OTHER, tag, tag, end)
            return
        yield FieldPlace(OTHER, tag, tag, place)


def _varint(data: bytes, place: int, end: int) -> tuple[int, int]:
    """A number and the place behind it; -1 and a place behind the end where there is none."""
    number = shift = 0
    for at in range(place, min(place + _LONGEST_VARINT, end)):
        byte = data[at]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at + 1
        shift += 7
    return -1, end + 1
