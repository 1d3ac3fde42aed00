"""Arrow IPC bytes that a client or a host has sent, read so that they become no larger than they are.

Arrow's format can say much in few bytes: a compressed buffer, an index into a dictionary, a run, a view, a
NULL without a buffer, a part of the message that others point to as well. Hosts write none of these. So
messages are looked at before Arrow reads them, and what hosts do not write is refused: the bytes of a message
are then the memory that its rows take.

Formats: `format/Message.fbs` and `format/Schema.fbs` of Apache Arrow, "Encapsulated message format" of its
columnar specification, and "FlatBuffer Internals" of FlatBuffers.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from engine.model.damaged_rows import check_rows

MAX_NESTING = 40
"""Levels of a type; values of stores have 32 at the most."""
_CONTINUATION = 0xFFFFFFFF
_ALIGNMENT = 8
_SCHEMA, _RECORD_BATCH = 1, 3
"""Members of the union MessageHeader."""
_NULL, _TIMESTAMP, _FIXED_BINARY = 1, 10, 15
_LIST, _STRUCT, _FIXED_LIST, _MAP, _LARGE_LIST = 12, 13, 16, 17, 21
_INTERVAL, _MONTH_DAY_NANO = 11, 2
"""Pyarrow has no arrays of the other units of intervals."""
_SCALARS = frozenset({2, 3, 4, 5, 6, 7, 8, 9, _TIMESTAMP, _INTERVAL, 18, 19, 20})
"""Members of the union Type without children whose values all have bytes of their own: numbers, texts, bytes,
booleans, decimals, dates and times.
"""
_NESTED = frozenset({_LIST, _STRUCT, _FIXED_LIST, _MAP, _LARGE_LIST})
_LEAST_FIELD_BYTES = 24
"""A field's table, its type's, and the offset that leads to it, as any writer lays them down."""
MAX_FIELDS = 20_000
"""Of a schema: those in others, and pairs of metadata, are among them. Each takes 20 µs to look at; stores
have far fewer.
"""
_EXTENSION = b"ARROW:extension:name"
_CACHED_SCHEMA_BYTES = 128 << 10


class NotPlainError(ValueError):
    """Bytes are damaged, or would become larger than they are; the message is a clause that says which."""


_DAMAGED = "they are damaged or cut off"


def read_row(schema: bytes, row: bytes, max_values: int) -> pa.RecordBatch:
    """One row of values.

    Args:
        schema: IPC message of a schema.
        row: IPC message of a record batch.
        max_values: How many values it may have, those in lists, structs and maps among them.

    Returns:
        The batch; it keeps `row` in memory.

    Raises:
        NotPlainError: The bytes are damaged, would become larger than they are, or hold anything but one row.
    """
    try:
        read = _kept_schema(schema) if len(schema) <= _CACHED_SCHEMA_BYTES else _schema(schema)
        check_row(row, max_values)
        batch = pa.ipc.read_record_batch(pa.py_buffer(row), read)
        batch.validate(full=True)
    except _UNREADABLE as error:
        raise NotPlainError(_DAMAGED) from error
    return batch


def read_table(stream: pa.Buffer) -> pa.Table:
    """The rows of a stream.

    Args:
        stream: An IPC stream.

    Returns:
        Its rows; they keep `stream`, or a copy of it, in memory.

    Raises:
        NotPlainError: The bytes are damaged, would become larger than they are, or have no columns.
    """
    try:
        messages = _messages(memoryview(stream))
        _check_schema(next(messages), allows_null=False)
        for message in messages:
            _check_batch(message)
        if (
            stream.address % _ALIGNMENT
        ):  # Arrow's kernels need aligned values, and a network buffer begins anywhere.
            stream = pa.py_buffer(stream.to_pybytes())
        with pa.ipc.open_stream(stream) as reader:
            table = reader.read_all()
        check_rows(table)
    except _UNREADABLE as error:
        raise NotPlainError(_DAMAGED) from error
    return table


_UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    UnicodeDecodeError,
    StopIteration,
    IndexError,
    struct.error,
)


@lru_cache(maxsize=64)
def _kept_schema(message: bytes) -> pa.Schema:
    return _schema(message)


def _schema(message: bytes) -> pa.Schema:
    _check_schema(_only_message(memoryview(message)), allows_null=True)
    return pa.ipc.read_schema(pa.py_buffer(message))


def check_row(row: bytes, max_values: int) -> None:
    """Whether `read_row` takes a row, as far as that does not depend on its schema.

    Args:
        row: IPC message of a record batch.
        max_values: How many values it may have.

    Raises:
        NotPlainError: It would be larger than it is, or is anything but one row.
    """
    rows, values = _check_batch(_only_message(memoryview(row)))
    if rows != 1:
        raise NotPlainError("they are not one row")
    if values > max_values:
        raise NotPlainError(f"they have more than {max_values:,} values")


# ---- messages


@dataclass(frozen=True)
class _Message:
    """One message of a stream.

    Attributes:
        root: Its table `Message`.
        header_type: Which member of the union MessageHeader its header is.
        body_bytes: Size of its body.
    """

    root: _Table
    header_type: int
    body_bytes: int

    @property
    def header(self) -> _Table:
        """Its header."""
        return self.root.table(2)


def _messages(stream: memoryview) -> Iterator[_Message]:
    """The messages of a stream, up to its end mark or its last byte."""
    begin = 0
    while begin < len(stream):
        mark, size = struct.unpack_from("<II", stream, begin)
        if mark != _CONTINUATION:
            raise NotPlainError(_DAMAGED)
        if not size:
            return
        metadata = stream[begin + 8 : begin + 8 + size]
        message = _message(metadata)
        begin += 8 + size + message.body_bytes
        if size % _ALIGNMENT or begin > len(stream):
            raise NotPlainError(_DAMAGED)
        yield message


def _only_message(stream: memoryview) -> _Message:
    return next(_messages(stream))


def _message(metadata: memoryview) -> _Message:
    root = _Table(metadata, _read_number(metadata, "<I", 0))
    # Arrow copies these while it opens the message.
    if root.has(4):
        raise NotPlainError("they have metadata of their own")
    body_bytes = root.scalar(3, "<q")
    if body_bytes < 0 or body_bytes % _ALIGNMENT:
        raise NotPlainError(_DAMAGED)
    return _Message(root, root.scalar(1, "<B"), body_bytes)


def _check_batch(message: _Message) -> tuple[int, int]:
    """Refuse a record batch whose buffers would take more than its body.

    Returns:
        Its rows, and all of its values: those of children, too.
    """
    if message.header_type != _RECORD_BATCH:
        raise NotPlainError("they hold something else than rows")
    batch = message.header
    if batch.has(3):
        raise NotPlainError("they are compressed")
    # Pairs of offset and size.
    sizes = batch.numbers(2)[1::2]
    if any(size < 0 for size in sizes) or sum(sizes) > message.body_bytes:
        raise NotPlainError(_DAMAGED)
    # Pairs of length and count of NULLs.
    lengths = batch.numbers(1)[::2]
    return batch.scalar(0, "<q"), sum(lengths)


# ---- schemas


def _check_schema(message: _Message, *, allows_null: bool) -> None:
    """Refuse a schema with types whose values may have no bytes of their own, or that has more in it than it
    has bytes.

    Args:
        message: The schema's.
        allows_null: Columns of the type null are fine: it is certain that there is but one row.
    """
    if message.header_type != _SCHEMA:
        raise NotPlainError(_DAMAGED)
    size = len(message.root.data)
    used = parts = 0
    fields = message.header.tables(1)
    for field in fields:
        for part in _field_bytes(field, depth=0, allows_null=allows_null):
            used += part
            # Before the next one is looked at: fields that many others lead to are as good as without end.
            if used > size:
                raise NotPlainError(_DAMAGED)
            parts += 1
            if parts > MAX_FIELDS:
                raise NotPlainError(f"they have more than {MAX_FIELDS:,} fields")
    if not used and not allows_null:
        raise NotPlainError("they have no columns")
    if used + sum(_metadata_bytes(message.header, 2)) > size:
        raise NotPlainError(_DAMAGED)


def _field_bytes(field: _Table, depth: int, *, allows_null: bool) -> Iterator[int]:
    """What a field and those in it take, bit by bit."""
    if depth > MAX_NESTING:
        raise NotPlainError(f"they are nested deeper than {MAX_NESTING} levels")
    name = field.text(0)
    # Arrow does not look at names; Python does, when somebody asks for them.
    str(name, "utf-8")
    yield _LEAST_FIELD_BYTES + len(name)
    yield from _metadata_bytes(field, 6)
    type_code = field.scalar(2, "<B")
    if type_code == _TIMESTAMP:
        yield len(field.table(3).text(1))
    _check_type(field, type_code, allows_null=allows_null)
    for child in field.tables(5):
        yield from _field_bytes(child, depth + 1, allows_null=False)


def _check_type(field: _Table, type_code: int, *, allows_null: bool) -> None:
    children = any(True for _ in field.tables(5))
    plain = (
        (type_code in _SCALARS and not children)
        or (type_code in _NESTED and children)
        or (type_code == _FIXED_BINARY and not children and field.table(3).scalar(0, "<i") > 0)
        or (type_code == _NULL and not children and allows_null)
    )
    if type_code == _FIXED_LIST:
        plain = plain and field.table(3).scalar(0, "<i") > 0
    if type_code == _INTERVAL:
        plain = plain and field.table(3).scalar(0, "<h") == _MONTH_DAY_NANO
    if field.has(4) or not plain:
        raise NotPlainError("they have a type that no host sends")


def _metadata_bytes(table: _Table, place: int) -> Iterator[int]:
    for pair in table.tables(place):
        key = pair.text(0)
        if key == _EXTENSION:
            raise NotPlainError("they have a type that no host sends")
        yield _LEAST_FIELD_BYTES + len(key) + len(pair.text(1))


# ---- flatbuffers


def _read_number(data: memoryview, number_format: str, begin: int) -> int:
    """The number at a place."""
    if begin < 0:
        raise NotPlainError(_DAMAGED)
    return int(struct.unpack_from(number_format, data, begin)[0])


class _Table:
    """A table of a flatbuffer. Fields are known by their place in the table's definition, from 0.

    A damaged flatbuffer raises `NotPlainError`, `struct.error` or `IndexError`, and never reads elsewhere.

    Args:
        data: The flatbuffer.
        begin: Where the table begins.
    """

    __slots__ = ("_begin", "_fields", "data")

    def __init__(self, data: memoryview, begin: int) -> None:
        self.data = data
        self._begin = begin
        fields = begin - _read_number(data, "<i", begin)
        self._fields = data[fields : fields + _read_number(data, "<H", fields)]

    def _field_offset(self, place: int) -> int:
        """Where a field is; 0 if it is not there."""
        begin = 4 + 2 * place
        offset = _read_number(self._fields, "<H", begin) if begin + 2 <= len(self._fields) else 0
        return offset and self._begin + offset

    def _target(self, place: int) -> int:
        """Where a field of another size is; 0 if it is not there."""
        found = self._field_offset(place)
        return found and found + _read_number(self.data, "<I", found)

    def has(self, place: int) -> bool:
        """Whether a field is there."""
        return self._field_offset(place) != 0

    def scalar(self, place: int, number_format: str) -> int:
        """A field that is a number; 0 if it is not there."""
        found = self._field_offset(place)
        return found and _read_number(self.data, number_format, found)

    def table(self, place: int) -> _Table:
        """A field that is a table, or the member of a union."""
        return _Table(self.data, self._target(place) or -1)

    def text(self, place: int) -> memoryview:
        """A field that is a text, in UTF-8; empty if it is not there."""
        found = self._target(place)
        return self._bytes(found + 4, _read_number(self.data, "<I", found)) if found else self.data[:0]

    def tables(self, place: int) -> Iterator[_Table]:
        """A field that is a vector of tables."""
        found = self._target(place)
        count = _read_number(self.data, "<I", found) if found else 0
        if count * _LEAST_FIELD_BYTES > len(self.data):
            raise NotPlainError(_DAMAGED)
        for number in range(count):
            entry = found + 4 + 4 * number
            yield _Table(self.data, entry + _read_number(self.data, "<I", entry))

    def numbers(self, place: int) -> memoryview:
        """A field that is a vector of structs of two 64-bit numbers each, one number after the other."""
        found = self._target(place)
        return (
            self._bytes(found + 4, 16 * _read_number(self.data, "<I", found)).cast("q")
            if found
            else self.data[:0].cast("q")
        )

    def _bytes(self, begin: int, size: int) -> memoryview:
        found = self.data[begin : begin + size]
        if len(found) != size:
            raise NotPlainError(_DAMAGED)
        return found
