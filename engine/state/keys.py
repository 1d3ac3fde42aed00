"""Sort keys: one array a batch whose order is the key's order, for sorting and binary search.

A key of one column of integers, dates, timestamps or booleans is a numpy array of that column's own values,
and one string or binary column is its own Arrow binary array: neither is copied or stored a second time.
Every other key is encoded into an Arrow binary array whose byte order is the key's order:

    key     = column (0x01 column)*
    column  = fixed | text
    fixed   = big-endian bytes; signed values have their sign bit flipped
    text    = the bytes; unless the column is the key's last, 0x00 is written as 0x00 0xFF and one 0x00 ends it

The mark 0x01 in front of every column but the first makes prefixes plain: keys that begin with the columns P
lie from `P 0x01` up to, not including, `P 0x02`.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.state.prefixes import Prefixes

Keys: TypeAlias = npt.NDArray[Any] | pa.Array
"""Sort keys: a numpy array of numbers or an Arrow binary array; all of one store are of one kind."""
Needle: TypeAlias = int | pa.Scalar
"""One sort key: a number, or an Arrow binary scalar."""
Rows = npt.NDArray[np.intp]
"""Row numbers."""
_BINARY = pa.binary()

_NUMBER_TYPES: Mapping[int, np.dtype[Any]] = {
    pa.int8().id: np.dtype(np.int8),
    pa.int16().id: np.dtype(np.int16),
    pa.int32().id: np.dtype(np.int32),
    pa.int64().id: np.dtype(np.int64),
    pa.uint8().id: np.dtype(np.uint8),
    pa.uint16().id: np.dtype(np.uint16),
    pa.uint32().id: np.dtype(np.uint32),
    pa.uint64().id: np.dtype(np.uint64),
    pa.date32().id: np.dtype(np.int32),
    pa.date64().id: np.dtype(np.int64),
    pa.timestamp("us").id: np.dtype(np.int64),
}
"""What numbers are kept as, by the ids of Arrow's types: dates and moments as they are counted."""
_MARK, _AFTER_MARK = b"\x01", b"\x02"


class _Form(Enum):
    NUMBERS = 1
    BYTES = 2
    ENCODED = 3


class KeyCodec:
    """Turns key columns into sort keys.

    Args:
        types: Arrow types of the key columns, in key order.
    """

    def __init__(self, types: Sequence[pa.DataType]) -> None:
        self._types = tuple(types)
        self._form = _form(self._types)

    @property
    def is_stored(self) -> bool:
        """Whether segments store sort keys beside the columns; else the key column itself is the sort key."""
        return self._form is _Form.ENCODED

    @property
    def is_binary(self) -> bool:
        """Whether sort keys are bytes rather than numbers."""
        return self._form is not _Form.NUMBERS

    def encode(self, columns: Sequence[pa.Array]) -> Keys:
        """Sort keys of rows.

        Args:
            columns: All key columns, in key order, without nulls.

        Returns:
            One sort key a row.
        """
        if self._form is _Form.NUMBERS:
            return numbers(columns[0])
        if self._form is _Form.BYTES:
            return columns[0].cast(pa.binary())
        return self._join(columns)

    def needle(self, value: int | str) -> Needle:
        """The sort key of one value, for a key that is one column of integers or strings."""
        if isinstance(value, str):
            return pa.scalar(value.encode(), _BINARY)
        return value

    def edges(self, values: Sequence[pa.Scalar]) -> tuple[Keys, Keys | None]:
        """Where the keys lie that begin with given values.

        Args:
            values: Values of the first one or more key columns, not null.

        Returns:
            The least such key, and the least key behind all of them, as keys of one row; None for the latter
            where no key is.
        """
        if self._form is _Form.NUMBERS:
            number = values[0].value if pa.types.is_temporal(self._types[0]) else values[0].as_py()
            first = np.array([number], self._dtype)
            return first, None if number == np.iinfo(self._dtype).max else first + 1
        columns = [pa.array([value], value.type) for value in values]
        if len(values) == len(self._types):
            keys = self.encode(columns)
            return keys, _append(keys, b"\x00")
        prefix = self._join(columns)
        return _append(prefix, _MARK), _append(prefix, _AFTER_MARK)

    @cached_property
    def _dtype(self) -> np.dtype[Any]:
        """Type of the numbers that are sort keys."""
        return numbers(pa.array([], self._types[0])).dtype

    def ranges(self, columns: Sequence[pa.Array]) -> tuple[Keys, Keys, bool]:
        """Where the keys lie that begin with given values of the leading columns.

        Args:
            columns: The first one or more key columns, without nulls.

        Returns:
            Lower bounds, upper bounds, and whether the upper bounds belong to the ranges.
        """
        if len(columns) == len(self._types):
            keys = self.encode(columns)
            return keys, keys, True
        prefix = self._join(columns)
        return _append(prefix, _MARK), _append(prefix, _AFTER_MARK), False

    def _join(self, columns: Sequence[pa.Array]) -> pa.Array:
        last = len(self._types) - 1
        parts = [_column_bytes(column, is_last=place == last) for place, column in enumerate(columns)]
        if len(parts) == 1:
            return parts[0]
        return pc.binary_join_element_wise(*parts, pa.scalar(_MARK, pa.binary()))


def _form(types: Sequence[pa.DataType]) -> _Form:
    if len(types) > 1 or pa.types.is_decimal(types[0]):
        return _Form.ENCODED
    return _Form.BYTES if _is_text(types[0]) else _Form.NUMBERS


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type))


def numbers(column: pa.Array) -> npt.NDArray[np.generic]:
    """The values of an integer, boolean, date or timestamp column without nulls, as a numpy array in the same
    order, of which numbers are not copied.
    """
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    number_type = _NUMBER_TYPES[column.type.id]
    if not len(column):
        return np.empty(0, number_type)
    assert not column.null_count
    # Arrow's own conversion takes three times as long, and gives the interpreter up four times on its way.
    data: memoryview = column.buffers()[1]
    values: npt.NDArray[np.generic] = np.frombuffer(data, number_type, column.offset + len(column))
    return values[column.offset :]


def _column_bytes(column: pa.Array, *, is_last: bool) -> pa.Array:
    if _is_text(column.type):
        text = column.cast(pa.binary())
        if is_last:
            return text
        return _append(pc.replace_substring(text, b"\x00", b"\x00\xff"), b"\x00")
    width, data = _fixed_bytes(column)
    return pa.Array.from_buffers(pa.binary(width), len(column), [None, pa.py_buffer(data)]).cast(pa.binary())


def _fixed_bytes(column: pa.Array) -> tuple[int, npt.NDArray[np.uint8]]:
    if pa.types.is_decimal(column.type):
        raw = np.frombuffer(column.buffers()[1], np.uint8)[
            column.offset * 16 : (column.offset + len(column)) * 16
        ]
        big_endian = raw.reshape(-1, 16)[:, ::-1].copy()
        big_endian[:, 0] ^= 0x80
        return 16, big_endian
    values = numbers(column)
    width = values.dtype.itemsize
    swapped = values.astype(values.dtype.newbyteorder(">")).view(np.uint8).reshape(-1, width)
    if values.dtype.kind == "i":
        swapped[:, 0] ^= 0x80
    return width, swapped


def _append(keys: pa.Array, suffix: bytes) -> pa.Array:
    return pc.binary_join_element_wise(keys, pa.scalar(suffix, pa.binary()), pa.scalar(b"", pa.binary()))


def order(keys: Keys) -> Rows:
    """The rows in key order; rows of equal keys keep theirs."""
    if isinstance(keys, np.ndarray):
        return np.argsort(keys, kind="stable")
    numbers = Prefixes.from_keys(keys).numbers
    rows = np.argsort(numbers, kind="stable")
    return rows if _ties_are_equal(keys, numbers, rows) else _order_of_bytes(keys)


def _order_of_bytes(keys: pa.Array) -> Rows:
    rows: Rows = pc.sort_indices(keys).to_numpy().astype(np.intp)
    return rows


def _ties_are_equal(keys: pa.Array, numbers: npt.NDArray[np.uint64], rows: Rows) -> bool:
    """Whether keys of one prefix are one key, so that to order the prefixes is to order the keys."""
    ordered = numbers[rows]
    ties = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not len(ties):
        return True
    return bool(
        pc.all(pc.equal(keys.take(pa.array(rows[ties])), keys.take(pa.array(rows[ties + 1])))).as_py()
    )


def take(keys: Keys, rows: Rows) -> Keys:
    """The keys of some rows."""
    return keys[rows] if isinstance(keys, np.ndarray) else keys.take(pa.array(rows))


def concatenate(parts: Sequence[Keys]) -> Keys:
    """All keys, part after part."""
    if len(parts) == 1:
        return parts[0]
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return pa.concat_arrays(parts)


def order_of_last(keys: Keys) -> Rows:
    """The last row of each key, in key order; the last row of a key is the largest row number of its run."""
    return _last_of_runs(*_runs(keys))


def groups_of(keys: Keys) -> tuple[Rows, Rows]:
    """The distinct keys.

    Args:
        keys: At least one key.

    Returns:
        A row of each distinct key, in key order, and the number in that order of each row's key.
    """
    rows, begins = _runs(keys)
    groups = np.empty(len(rows), np.intp)
    if begins.all():
        groups[rows] = np.arange(len(rows))
        return rows, groups
    starts = np.concatenate([[True], begins])
    groups[rows] = np.cumsum(starts) - 1
    return rows[starts], groups


def _runs(keys: Keys) -> tuple[Rows, npt.NDArray[np.bool_]]:
    """The rows in key order, rows of equal keys in any order, and whether a run of equal keys begins at each
    of them but the first.

    A sort that does not keep the order of equal keys takes a fifth of the time of one that does (numpy,
    12,500 integers).
    """
    if isinstance(keys, np.ndarray):
        rows: Rows = np.argsort(keys)
        return rows, keys[rows[1:]] != keys[rows[:-1]]
    numbers = Prefixes.from_keys(keys).numbers
    rows = np.argsort(numbers)
    if _ties_are_equal(keys, numbers, rows):
        return rows, numbers[rows[1:]] != numbers[rows[:-1]]
    rows = _order_of_bytes(keys)
    ordered = take(keys, rows)
    return rows, pc.not_equal(ordered[1:], ordered[:-1]).to_numpy(zero_copy_only=False)


def _last_of_runs(rows: Rows, begins: npt.NDArray[np.bool_]) -> Rows:
    """The largest row number of each run; `begins` tells of every row but the first whether a run begins
    there.
    """
    if begins.all():
        return rows
    last: Rows = np.maximum.reduceat(rows, np.flatnonzero(np.concatenate([[True], begins])))
    return last


def remove(keys: Keys, places: Rows) -> Keys:
    """The keys but those at some places."""
    if not len(places):
        return keys
    keep = np.ones(len(keys), np.bool_)
    keep[places] = False
    return keys[keep] if isinstance(keys, np.ndarray) else keys.filter(pa.array(keep))


def search(keys: Keys, needles: Keys, side: str) -> Rows:
    """Where needles belong in sorted keys.

    Args:
        keys: Sorted keys.
        needles: Keys to look for, sorted ones fastest.
        side: `left` for the first row that is not smaller, `right` for the first that is greater.

    Returns:
        A row number for each needle, 0 to `len(keys)`.
    """
    is_left = side == "left"
    rows: Rows = (
        keys.searchsorted(needles, "left" if is_left else "right")
        if isinstance(keys, np.ndarray)
        else _search_bytes(keys, needles, side)
    )
    return rows


def _search_bytes(keys: pa.Array, needles: pa.Array, side: str) -> Rows:
    rows: Rows = pc.search_sorted(keys, needles, side=side).to_numpy().astype(np.intp)
    return rows


def find(keys: Keys, needles: Keys) -> tuple[Rows, Rows]:
    """The rows whose key is one of the needles.

    Args:
        keys: Sorted keys, each once.
        needles: Keys to look for, likewise.

    Returns:
        Places of the needles that are found, and the row of each.
    """
    low = search(keys, needles, "left")
    inside = np.flatnonzero(low < len(keys))
    rows = low[inside]
    found = matches(keys, rows, take(needles, inside))
    return inside[found], rows[found]


def find_one(keys: Keys, needle: Needle) -> int | None:
    """The row whose key is the needle, in sorted keys that have each once: `find` for one key, in a fraction
    of the calls.
    """
    if isinstance(keys, np.ndarray):
        # Unlike numpy's search, this one keeps the interpreter: where many threads want it, to get it back
        # takes far longer than the search.
        row = bisect_left(keys.data, needle)
        return row if row < len(keys) and keys[row] == needle else None
    row = pc.search_sorted(keys, needle).as_py()
    return row if row < len(keys) and keys[row] == needle else None


def to_needles(keys: Keys) -> list[Needle]:
    """The keys one by one."""
    needles: list[Needle] = keys.tolist() if isinstance(keys, np.ndarray) else list(keys)
    return needles


def count_before(keys: Keys, needle: Keys) -> int:
    """How many of the sorted keys are before a needle, which is keys of one row."""
    if isinstance(keys, np.ndarray):
        return int(keys.searchsorted(needle)[0])
    return int(pc.search_sorted(keys, needle[0]).as_py())


def count_up_to(keys: Keys, needle: Needle) -> int:
    """How many of the sorted keys are not behind the needle."""
    if isinstance(keys, np.ndarray):
        return bisect_right(keys.data, needle)
    return int(pc.search_sorted(keys, needle, side="right").as_py())


def are_same(keys: Keys, others: Keys) -> bool:
    """Whether two runs of keys are one and the same."""
    return np.array_equal(keys, others) if isinstance(keys, np.ndarray) else bool(keys.equals(others))


def matches(keys: Keys, rows: Rows, needles: Keys) -> npt.NDArray[np.bool_]:
    """Whether the key at each row is the needle; rows are within `keys`."""
    found = take(keys, rows)
    same: npt.NDArray[np.bool_] = (
        found == needles
        if isinstance(found, np.ndarray)
        else pc.equal(found, needles).to_numpy(zero_copy_only=False)
    )
    return same
