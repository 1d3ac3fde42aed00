"""Bytes of messages, changed: what a protobuf message and an Arrow IPC message can be, and must not be."""

from __future__ import annotations

from random import Random

from tests.fuzz.calls import varint
from tests.support.hostile_arrow import damage

_NUMBERS = (
    *(0, 1, 2, 127, 128, 255, 1 << 16),
    *((1 << shift) - less for shift in (31, 32, 63, 64) for less in (0, 1)),
)
MOST_BYTES = 32 << 20
_USUAL_BYTES = 100_000
"""What most inputs stay below: large ones take most of the time, and find little more."""
_SMALL_BYTES = _USUAL_BYTES // 1000

Fields = list[tuple[int, int, bytes]]
"""Number, wire type and bytes of the fields of a message."""


def read_varint(data: bytes, place: int) -> tuple[int, int] | None:
    """A number and the place behind it; None where there is none."""
    number = shift = 0
    while place < len(data) and shift < 70:
        byte = data[place]
        number |= (byte & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if byte < 0x80:
            return number, place
    return None


def read_fields(data: bytes) -> Fields | None:
    """The fields of a message; None where the bytes are no message."""
    found, place = [], 0
    while place < len(data):
        tag = read_varint(data, place)
        if tag is None or tag[0] >> 3 == 0:
            return None
        number, wire, place = tag[0] >> 3, tag[0] & 7, tag[1]
        if wire == 0:
            value = read_varint(data, place)
            if value is None:
                return None
            end = value[1]
        elif wire == 2:
            length = read_varint(data, place)
            if length is None:
                return None
            place, end = length[1], length[1] + length[0]
        elif wire in (1, 5):
            end = place + (8 if wire == 1 else 4)
        else:
            return None
        if end > len(data):
            return None
        found.append((number, wire, data[place:end]))
        place = end
    return found


def write_fields(fields: Fields) -> bytes:
    """The bytes of a message."""
    return b"".join(
        varint(number << 3 | wire) + (varint(len(value)) if wire == 2 else b"") + value
        for number, wire, value in fields
    )


def mutate(data: bytes, random: Random, depth: int = 6) -> bytes:
    """Other bytes than these: with the form of a message kept, or not.

    Args:
        data: Any bytes.
        random: Chooses.
        depth: How deep to go into messages in messages.
    """
    marked = data[:1] == b"\0"
    if marked and random.random() < 0.9:
        # A mark of two bytes before the message.
        return data[:2] + mutate(data[2:], random, depth)
    fields = read_fields(data) if random.random() < (0.75 if len(data) < _USUAL_BYTES else 0.05) else None
    if not fields:
        return _damaged_bytes(data, random)
    place = random.randrange(len(fields))
    number, wire, value = fields[place]
    if wire == 2 and value and depth and random.random() < 0.6:
        fields[place] = (number, wire, mutate(value, random, depth - 1))
        return write_fields(fields)
    made = random.choice(_CHANGES)(fields, place, random)
    most = MOST_BYTES if random.random() < 0.02 else _USUAL_BYTES
    return made if len(made) <= max(most, len(data)) else data


def _repeat_field(fields: Fields, place: int, random: Random) -> bytes:
    fields.insert(random.randrange(len(fields) + 1), fields[place])
    return write_fields(fields)


def _drop_field(fields: Fields, place: int, random: Random) -> bytes:
    return write_fields(fields[:place] + fields[place + 1 :])


def _renumber(fields: Fields, place: int, random: Random) -> bytes:
    number, wire, value = fields[place]
    fields[place] = (random.choice((number + 1, 1, 2, 19, (1 << 29) - 1)), wire, value)
    return write_fields(fields)


def _make_number(fields: Fields, place: int, random: Random) -> bytes:
    fields[place] = (fields[place][0], 0, varint(random.choice(_NUMBERS)))
    return write_fields(fields)


def _make_fixed(fields: Fields, place: int, random: Random) -> bytes:
    wire = random.choice((1, 5))
    fields[place] = (fields[place][0], wire, random.randbytes(8 if wire == 1 else 4))
    return write_fields(fields)


def _make_bytes(fields: Fields, place: int, random: Random) -> bytes:
    fields[place] = (fields[place][0], 2, random.randbytes(random.choice((0, 1, 8, 100, 5000))))
    return write_fields(fields)


def _lengthen(fields: Fields, place: int, random: Random) -> bytes:
    number, _, value = fields[place]
    is_small = len(value) < _SMALL_BYTES or random.random() < 0.02
    fields[place] = (number, 2, value * random.choice((2, 10, 1000) if is_small else (2, 10)))
    return write_fields(fields)


def _nest(fields: Fields, place: int, random: Random) -> bytes:
    """The message in itself."""
    number, size = varint(fields[place][0] << 3 | 2), len(made := write_fields(fields))
    openings: list[bytes] = []
    for _ in range(random.choice((2, 50, 3000))):
        openings.append(number + varint(size))
        size += len(openings[-1])
    return b"".join(reversed(openings)) + made


def _lie_about_length(fields: Fields, place: int, random: Random) -> bytes:
    number, _, value = fields[place]
    tag = varint(number << 3 | 2)
    return write_fields(fields[:place]) + tag + varint(random.choice(_NUMBERS)) + value


def _shuffle(fields: Fields, place: int, random: Random) -> bytes:
    random.shuffle(fields)
    return write_fields(fields)


def _repeat_all(fields: Fields, place: int, random: Random) -> bytes:
    made = write_fields(fields)
    return made * min(random.choice((2, 100, 2000)), max(2, MOST_BYTES // (len(made) + 1)))


_CHANGES = (
    *(_repeat_field, _drop_field, _renumber, _make_number, _make_fixed, _make_bytes, _lengthen, _nest),
    *(_lie_about_length, _shuffle, _repeat_all),
)


def _damaged_bytes(data: bytes, random: Random) -> bytes:
    if not data:
        return random.randbytes(random.choice((1, 4, 100)))
    place = random.randrange(len(data))
    before, after = data[:place], data[place:]
    return random.choice(
        (
            lambda: _flip_bits(data, random),
            lambda: before,
            lambda: before + random.randbytes(random.choice((1, 4, 64))) + after,
            lambda: before + after[random.choice((1, 2, 4, 8)) :],
            lambda: _change_numbers(data, random),
            lambda: data * random.choice((2, 3, 100)) if len(data) < 100_000 else data + data,
            lambda: random.randbytes(len(data) % 5000),
            lambda: before + b"\xff" * random.choice((1, 8, 100)) + after,
            lambda: before + b"\0" * random.choice((1, 8, 1000)) + after[1:],
        )
    )()


def _flip_bits(data: bytes, random: Random) -> bytes:
    made = bytearray(data)
    for _ in range(random.choice((1, 1, 2, 8))):
        made[random.randrange(len(made))] ^= 1 << random.randrange(8)
    return bytes(made)


def _change_numbers(data: bytes, random: Random) -> bytes:
    if len(data) < 8:
        return data + data
    places = [random.randrange(len(data)) for _ in range(random.choice((1, 2, 3)))]
    return damage(data, places, [random.choice(_NUMBERS) for _ in places])
