"""Values of long lists of literals, read with kernels instead of one by one."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

INT32_MIN, INT32_MAX = -(2**31), 2**31 - 1
SHORT_LIST = 8192
"""Characters of a list up to which Python reads its numbers faster than five kernels do."""
_AROUND_INTEGERS = " \t\n\r\f\v()"
_QUOTE, _COMMA, _OPEN, _CLOSE = (ord(mark) for mark in "',()")


def integer_list(body: str) -> pa.RecordBatch | None:
    """The values of an IN list of nothing but integers.

    Args:
        body: Digits, minus signs, commas and blanks, such as `1, -2`.

    Returns:
        One column, `col0`: int64. None when there is anything but an integer between two commas, or a number
        beyond int64.
    """
    return _one_column(_few_integers(body) if len(body) <= SHORT_LIST else _integers(body))


def integer_rows(body: str) -> pa.RecordBatch | None:
    """The values of VALUES of nothing but integers, one a row.

    Args:
        body: Rows such as `(1), (-2)`.

    Returns:
        One column, `col0`: int32 where all numbers fit, else int64. None when it holds a number beyond int64.
    """
    numbers = _integers(body)
    return _one_column(None if numbers is None else _narrow_integers(numbers))


def list_values(body: str) -> pa.RecordBatch | None:
    """The values of an IN list.

    Args:
        body: Integers, strings and NULLs between commas, such as `1, -2, NULL` or `'a', 'it''s'`.

    Returns:
        One column, `col0`: int64 or string. None when the list mixes kinds, has only NULLs, or holds a number
        beyond int64.
    """
    fields = _fields(f"({body})")
    return _one_column(None if fields is None else _column(fields.texts, narrow=False))


def row_values(body: str) -> pa.RecordBatch | None:
    """The values of VALUES.

    Args:
        body: Rows of integers, strings and NULLs, such as `(1, 'a'), (2, NULL)`.

    Returns:
        Columns `col0`, `col1`, …, as DuckDB names and types them: int32 where all numbers fit, else int64;
        string. None when rows differ in length, a column mixes kinds or has only NULLs, or a number is beyond
        int64.
    """
    fields = _fields(body)
    if fields is None:
        return None
    arrays = []
    for place in range(fields.width):
        values = _column(fields.column(place), narrow=True)
        if values is None:
            return None
        arrays.append(values)
    return pa.RecordBatch.from_arrays(arrays, names=[f"col{place}" for place in range(fields.width)])


def _one_column(values: pa.Array | None) -> pa.RecordBatch | None:
    return None if values is None else pa.RecordBatch.from_arrays([values], names=["col0"])


def _few_integers(body: str) -> pa.Array | None:
    """As `_integers`, of a list."""
    try:
        return pa.array(list(map(int, body.split(","))), pa.int64())
    except (ValueError, OverflowError):
        return None


def _integers(body: str) -> pa.Array | None:
    """The numbers of a text that has nothing between its commas but one integer each, blanks and parentheses
    around it.
    """
    return _parse_integers(pc.ascii_trim(pc.split_pattern(pa.array([body]), ",").flatten(), _AROUND_INTEGERS))


def _parse_integers(texts: pa.Array) -> pa.Array | None:
    try:
        return texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None


def _narrow_integers(numbers: pa.Array) -> pa.Array:
    """DuckDB types a literal that fits as INTEGER, and a column of VALUES as the widest of its literals."""
    bounds = pc.min_max(numbers)
    fits = bounds["min"].as_py() >= INT32_MIN and bounds["max"].as_py() <= INT32_MAX
    return numbers.cast(pa.int32()) if fits else numbers


class _Fields:
    """The fields of rows of the same length, as trimmed text, row by row."""

    def __init__(self, texts: pa.Array, width: int) -> None:
        self.texts = texts
        self.width = width

    def column(self, place: int) -> pa.Array:
        if self.width == 1:
            return self.texts
        return self.texts.take(pa.array(np.arange(place, len(self.texts), self.width)))


def _fields(body: str) -> _Fields | None:
    """Cut rows into fields.

    A byte is inside a string if an odd number of quotes is before it; a doubled quote closes and opens at
    once. Commas and parentheses outside of strings delimit fields. UTF-8 never has these bytes inside of
    another character.
    """
    raw = np.frombuffer(body.encode(), np.uint8)
    outside = ~np.logical_xor.accumulate(raw == _QUOTE)
    delimiters = np.flatnonzero(outside & ((raw == _COMMA) | (raw == _OPEN) | (raw == _CLOSE)))
    marks = raw[delimiters]
    closes = int(np.count_nonzero(marks == _CLOSE))
    # Between rows stands `),(`, whose comma neither ends nor begins a field.
    begins = (marks[:-1] != _CLOSE) & (marks[1:] != _OPEN)
    starts, ends = delimiters[:-1][begins] + 1, delimiters[1:][begins]
    if not closes or len(starts) % closes:
        return None
    width = len(starts) // closes
    if not np.all(raw[ends[width - 1 :: width]] == _CLOSE):
        return None
    return _Fields(pc.ascii_trim_whitespace(_texts(raw, starts, ends)), width)


def _texts(
    raw: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]
) -> pa.Array:
    """Stretches of bytes as strings."""
    # What is between an odd and an even border is kept; an empty stretch has both at one place, which cancel
    # out.
    borders = np.zeros(len(raw) + 1, np.bool_)
    borders[starts] = True
    borders[ends] ^= True
    kept = raw[np.logical_xor.accumulate(borders[:-1])]
    offsets = np.zeros(len(starts) + 1, np.int32)
    np.cumsum(ends - starts, out=offsets[1:])
    return pa.StringArray.from_buffers(len(starts), pa.py_buffer(offsets), pa.py_buffer(kept.tobytes()))


def _column(texts: pa.Array, *, narrow: bool) -> pa.Array | None:
    quoted = pc.starts_with(texts, "'")
    strings = pc.sum(quoted).as_py()
    nulls = pc.equal(pc.ascii_upper(texts), "NULL") if strings < len(texts) else None
    missing = 0 if nulls is None else pc.sum(nulls).as_py()
    if missing:
        texts = pc.if_else(nulls, pa.scalar(None, pa.string()), texts)
    if missing == len(texts) or strings not in (0, len(texts) - missing):
        return None
    if strings:
        return pc.replace_substring(pc.utf8_slice_codeunits(texts, 1, -1), "''", "'")
    numbers = _parse_integers(texts)
    return numbers if numbers is None or not narrow else _narrow_integers(numbers)
