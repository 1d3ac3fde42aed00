"""Arrow IPC bytes of those who mean harm: small, and large once somebody reads them; or not what they say
they are.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

_VERSION_5 = 4
_SCHEMA, _RECORD_BATCH, _TENSOR = 1, 3, 4
_TEXT, _INTERVAL, _STRUCT = 5, 11, 13
_ZSTD = 1
END = b"\xff\xff\xff\xff\x00\x00\x00\x00"
HUGE = 1 << 60
_MANY = 100_000


@dataclass(frozen=True)
class Message:
    """A hostile row.

    Attributes:
        schema: IPC message of its schema.
        batches: IPC messages of its dictionaries, if it has any, and of its one row.
    """

    schema: bytes
    batches: tuple[bytes, ...]

    @property
    def row(self) -> bytes:
        """The IPC message of its row."""
        return self.batches[-1]

    @property
    def stream(self) -> bytes:
        """All of it as an IPC stream."""
        return b"".join([self.schema, *self.batches, END])


class _Flatbuffer:
    """Writes a flatbuffer, what refers before what is referred to. "FlatBuffer Internals" of FlatBuffers says
    how one is laid down.
    """

    def __init__(self) -> None:
        self._data = bytearray(4)
        self._wanted: list[tuple[int, str]] = [(0, "root")]
        self._places: dict[str, int] = {}

    def _align(self, size: int, behind: int = 0) -> None:
        self._data += bytes(-(len(self._data) + behind) % size)

    def table(self, label: str, *fields: tuple[int, str, int | str]) -> None:
        """A table: fields as place, kind (of `struct`, or `ref`) and value, or label of what a `ref` leads
        to.
        """
        self._align(8)
        count = max((place for place, _, _ in fields), default=-1) + 1
        offsets, size = [0] * count, 4
        for place, number_format, _ in fields:
            width = 4 if number_format == "ref" else struct.calcsize(number_format)
            size += -size % width
            offsets[place] = size
            size += width
        header = struct.pack(f"<HH{count}H", 4 + 2 * count, size, *offsets)
        self._data += header
        self._align(8)
        self._places[label] = begin = len(self._data)
        self._data += bytes(size)
        struct.pack_into("<i", self._data, begin, len(header) + (-len(header) % 8))
        for place, number_format, value in fields:
            if isinstance(value, str):
                self._wanted.append((begin + offsets[place], value))
            else:
                struct.pack_into(f"<{number_format}", self._data, begin + offsets[place], value)

    def tables(self, label: str, targets: Sequence[str]) -> None:
        """A vector of tables."""
        self._align(4)
        self._places[label] = len(self._data)
        self._data += struct.pack("<I", len(targets))
        for target in targets:
            self._wanted.append((len(self._data), target))
            self._data += bytes(4)

    def pairs(self, label: str, pairs: Sequence[tuple[int, int]]) -> None:
        """A vector of structs of two numbers."""
        self._align(8, behind=4)
        self._places[label] = len(self._data)
        self._data += struct.pack("<I", len(pairs)) + b"".join(struct.pack("<qq", *pair) for pair in pairs)

    def text(self, label: str, text: bytes) -> None:
        """A text."""
        self._align(4)
        self._places[label] = len(self._data)
        self._data += struct.pack("<I", len(text)) + text + b"\0"

    def to_bytes(self) -> bytes:
        """All of it."""
        self._align(8)
        for place, label in self._wanted:
            struct.pack_into("<I", self._data, place, self._places[label] - place)
        return bytes(self._data)


def _encapsulate(metadata: bytes, body: bytes = b"") -> bytes:
    return struct.pack("<Ii", 0xFFFFFFFF, len(metadata)) + metadata + body + bytes(-len(body) % 8)


def _message(header_type: int, body_bytes: int = 0) -> _Flatbuffer:
    found = _Flatbuffer()
    found.table(
        "root", (0, "h", _VERSION_5), (1, "B", header_type), (2, "ref", "header"), (3, "q", body_bytes)
    )
    return found


def batch(
    nodes: Sequence[tuple[int, int]],
    buffers: Sequence[tuple[int, int]],
    body: bytes = b"",
    rows: int = 1,
    *,
    compressed: bool = False,
    header_type: int = _RECORD_BATCH,
    body_bytes: int | None = None,
) -> bytes:
    """The message of a record batch that says just this."""
    size = len(body) + -len(body) % 8 if body_bytes is None else body_bytes
    made = _message(header_type, size)
    fields: list[tuple[int, str, int | str]] = [(0, "q", rows), (1, "ref", "nodes"), (2, "ref", "buffers")]
    made.table("header", *fields, *([(3, "ref", "compression")] if compressed else []))
    made.pairs("nodes", nodes)
    made.pairs("buffers", buffers)
    if compressed:
        made.table("compression", (0, "b", _ZSTD), (1, "b", 0))
    return _encapsulate(made.to_bytes(), body)


def _shared_schema(fields: Sequence[str], make: Callable[[_Flatbuffer], None]) -> bytes:
    made = _message(_SCHEMA)
    made.table("header", (1, "ref", "fields"))
    made.tables("fields", fields)
    make(made)
    return _encapsulate(made.to_bytes())


def _one_field_many_times(made: _Flatbuffer) -> None:
    made.table("field", (0, "ref", "name"), (2, "B", _TEXT), (3, "ref", "type"))
    made.text("name", b"a")
    made.table("type")


def _nested_fields(made: _Flatbuffer) -> None:
    for level in range(5):
        made.table(
            f"f{level}", (0, "ref", "name"), (2, "B", _STRUCT), (3, "ref", "type"), (5, "ref", f"c{level}")
        )
        made.tables(f"c{level}", [f"f{level + 1}"] * 40)
    made.table("f5", (0, "ref", "name"), (2, "B", _TEXT), (3, "ref", "type"))
    made.text("name", b"a")
    made.table("type")


def _one_name_many_times(made: _Flatbuffer) -> None:
    for number in range(900):
        made.table(f"f{number}", (0, "ref", "name"), (2, "B", _TEXT), (3, "ref", "type"))
    made.text("name", b"a" * (1 << 20))
    made.table("type")


def _one_value_many_times() -> bytes:
    made = _Flatbuffer()
    made.table(
        "root",
        (0, "h", _VERSION_5),
        (1, "B", _SCHEMA),
        (2, "ref", "header"),
        (3, "q", 0),
        (4, "ref", "pairs"),
    )
    made.tables("pairs", ["pair"] * 5000)
    made.table("pair", (0, "ref", "text"), (1, "ref", "text"))
    made.text("text", b"a" * (1 << 17))
    made.table("header", (1, "ref", "fields"))
    made.tables("fields", [])
    return _encapsulate(made.to_bytes())


def write_message(column: pa.Array, compression: str | None = None) -> Message:
    """What Arrow itself writes for a column."""
    sink = pa.BufferOutputStream()
    table = pa.table({"1": column})
    with pa.ipc.new_stream(
        sink, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
    ) as writer:
        writer.write_table(table)
    schema, *batches = (
        each.serialize().to_pybytes() for each in pa.ipc.MessageReader.open_stream(sink.getvalue())
    )
    return Message(schema, tuple(batches))


def _schema_of(*arrow_types: pa.DataType) -> bytes:
    schema = pa.schema([(str(number), arrow_type) for number, arrow_type in enumerate(arrow_types, 1)])
    return bytes(schema.serialize().to_pybytes())


def _text_many_times() -> pa.Array:
    """A list of a hundred thousand views of one text of a mebibyte."""
    view = struct.pack("<i4sii", 1 << 20, b"xxxx", 0, 0)
    views = pa.Array.from_buffers(
        pa.string_view(), _MANY, [None, pa.py_buffer(view * _MANY), pa.py_buffer(b"x" * (1 << 20))]
    )
    return pa.LargeListArray.from_arrays([0, _MANY], views)


def _list_many_times() -> pa.Array:
    """A list of lists, all of them the same."""
    inner = pa.array(range(1 << 17), pa.int64())
    offsets, sizes = pa.array([0] * (1 << 17), pa.int32()), pa.array([1 << 17] * (1 << 17), pa.int32())
    return pa.LargeListArray.from_arrays([0, 1 << 17], pa.ListViewArray.from_arrays(offsets, sizes, inner))


def _dictionary_many_times() -> pa.Array:
    values = pa.DictionaryArray.from_arrays(pa.array([0] * _MANY, pa.int8()), pa.array(["x" * (1 << 20)]))
    return pa.LargeListArray.from_arrays([0, _MANY], values)


def _union_many_times() -> pa.Array:
    types, offsets = pa.array([0] * _MANY, pa.int8()), pa.array([0] * _MANY, pa.int32())
    return pa.LargeListArray.from_arrays(
        [0, _MANY], pa.UnionArray.from_dense(types, offsets, [pa.array(["x" * (1 << 20)])])
    )


def months() -> Message:
    """An interval of months, which pyarrow reads and has no arrays for."""
    made = _message(_SCHEMA)
    made.table("header", (1, "ref", "fields"))
    made.tables("fields", ["field"])
    made.table(
        "field",
        (0, "ref", "name"),
        (1, "B", 1),
        (2, "B", _INTERVAL),
        (3, "ref", "type"),
        (5, "ref", "children"),
    )
    made.text("name", b"1")
    made.table("type", (0, "h", 0))
    made.tables("children", [])
    return Message(_encapsulate(made.to_bytes()), (batch([(1, 0)], [(0, 0), (0, 4)], bytes(8)),))


def _runs() -> pa.Array:
    runs = pa.RunEndEncodedArray.from_arrays(pa.array([(1 << 31) - 1], pa.int32()), pa.array(["x" * 1000]))
    return pa.LargeListArray.from_arrays([0, (1 << 31) - 1], runs)


def _nested_lists(depth: int) -> pa.Array:
    column = pa.array(["x"])
    for _ in range(depth):
        column = pa.ListArray.from_arrays([0, 1], column)
    return column


def _overlapping_columns(columns: int) -> Message:
    """Columns that all have the same text."""
    offsets = struct.pack("<ii", 0, 1 << 20)
    row = batch([(1, 0)] * columns, [(0, 0), (0, 8), (8, 1 << 20)] * columns, offsets + b"x" * (1 << 20))
    return Message(_schema_of(*[pa.string()] * columns), (row,))


LIES = {
    "a number of rows": batch([(1, 0)], [(0, 0), (0, 8)], bytes(8), rows=HUGE),
    "a length": batch([(HUGE, 0)], [(0, 0), (0, 8)], bytes(8)),
    "a length below 0": batch([(-1, 0)], [(0, 0), (0, 8)], bytes(8)),
    "a size of a buffer": batch([(1, 0)], [(0, 0), (0, HUGE)], bytes(8)),
    "a size of a buffer below 0": batch([(1, 0)], [(0, -8), (0, 8)], bytes(8)),
    "a place of a buffer": batch([(1, 0)], [(0, 0), (HUGE, 8)], bytes(8)),
    "a place of a buffer below 0": batch([(1, 0)], [(0, 0), (-8, 8)], bytes(8)),
    "a size of the body": batch([(1, 0)], [(0, 0), (0, 8)], bytes(8), body_bytes=HUGE),
    "a size of the body below 0": batch([(1, 0)], [(0, 0), (0, 8)], bytes(8), body_bytes=-8),
    "too few lengths": batch([], [(0, 0), (0, 8)], bytes(8)),
    "too few buffers": batch([(1, 0)], [], bytes(8)),
    "another kind of message": batch([(1, 0)], [(0, 0), (0, 8)], bytes(8), header_type=_TENSOR),
    "two rows": batch([(2, 0)], [(0, 0), (0, 16)], bytes(16), rows=2),
}
"""Messages of a row of one int64 that is not there; as inputs of a fragment, two rows are fine."""


@cache
def hostile_rows() -> Mapping[str, Message]:
    """Rows that are refused wherever one is taken."""
    zeros = pa.py_buffer(bytes(256 << 20))
    zero_column = pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, zeros.size)), zeros]
    )
    bomb = struct.pack("<q", zeros.size) + pa.compress(zeros, "zstd", asbytes=True)
    one = _schema_of(pa.int64())
    text = write_message(pa.array(["x" * 100]))
    made = {
        "zstd": write_message(zero_column, "zstd"),
        "lz4": write_message(zero_column, "lz4"),
        "zstd, once for each column": Message(
            _schema_of(*[pa.binary()] * 100),
            (batch([(1, 0)] * 100, [(0, 0), (0, 0), (0, len(bomb))] * 100, bomb, compressed=True),),
        ),
        "zstd of no bytes": Message(
            one, (batch([(1, 0)], [(0, 0), (0, 8)], struct.pack("<q", 1 << 40), compressed=True),)
        ),
        "a dictionary": write_message(_dictionary_many_times()),
        "a dictionary of one": write_message(pa.array(["x"]).dictionary_encode()),
        "runs": write_message(_runs()),
        "views": write_message(_text_many_times()),
        "views of lists": write_message(_list_many_times()),
        "a union": write_message(_union_many_times()),
        "an extension": write_message(
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)], pa.binary(16)))
        ),
        "months": months(),
        "nulls": Message(_schema_of(pa.null()), (batch([(HUGE, HUGE)], [], rows=HUGE),)),
        "a list of nulls": Message(
            _schema_of(pa.large_list(pa.null())),
            (batch([(1, 0), (HUGE, HUGE)], [(0, 0), (0, 16)], struct.pack("<qq", 0, HUGE)),),
        ),
        "a struct without fields": Message(
            _schema_of(pa.struct([])), (batch([(HUGE, 0)], [(0, 0)], rows=HUGE),)
        ),
        "no columns": Message(_schema_of(), (batch([], [], rows=HUGE),)),
        "texts of no bytes": Message(
            _schema_of(pa.binary(0)), (batch([(HUGE, 0)], [(0, 0), (0, 0)], rows=HUGE),)
        ),
        "lists of no length": Message(
            _schema_of(pa.list_(pa.int64(), 0)),
            (batch([(HUGE, 0), (0, 0)], [(0, 0), (0, 0), (0, 0)], rows=HUGE),),
        ),
        "columns that overlap": _overlapping_columns(900),
        "deep lists": write_message(_nested_lists(60)),
        "a field many times": Message(
            _shared_schema(["field"] * 200_000, _one_field_many_times), text.batches
        ),
        "fields in fields many times": Message(_shared_schema(["f0"], _nested_fields), text.batches),
        "a name many times": Message(
            _shared_schema([f"f{number}" for number in range(900)], _one_name_many_times), text.batches
        ),
        "metadata many times": Message(_one_value_many_times(), text.batches),
        "no schema": Message(text.row, text.batches),
        "no row": Message(text.schema, (text.schema,)),
    }
    lies = {name: Message(one, (row,)) for name, row in LIES.items() if name != "two rows"}
    cut = {
        f"a schema of {size} bytes": Message(text.schema[:size], text.batches)
        for size in (0, 4, 8, 40, len(text.schema) - 8)
    }
    cut |= {
        f"a row of {size} bytes": Message(text.schema, (text.row[:size],))
        for size in (4, 8, 40, len(text.row) - 8)
    }
    return made | lies | cut


def damage(message: bytes, places: Sequence[int], values: Sequence[int]) -> bytes:
    """A message with other numbers of 32 bits at some places.

    Args:
        message: The message.
        places: Where; taken to be multiples of 4 within it.
        values: What stands there then.
    """
    found = bytearray(message)
    for place, value in zip(places, values, strict=True):
        begin = place % (len(found) // 4) * 4
        found[begin : begin + 4] = struct.pack("<I", value & 0xFFFFFFFF)
    return bytes(found)


def harmless_rows() -> Iterator[pa.Array]:
    """Columns of one row, of each type that hosts send."""
    yield from (
        pa.array([value])
        for value in (7, 0.5, "x", b"x", True, None, [1, None], [["a"], []], {"a": 1, "b": ["x"]})
    )
    yield pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))
    yield pa.array([pa.MonthDayNano([1, 2, 3])])
    yield pa.array([7], pa.timestamp("us", "UTC"))
    yield pa.array([7], pa.date32())
    yield pa.array([b"abc"], pa.binary(3))
    yield pa.array([[1, 2]], pa.list_(pa.int32(), 2))
