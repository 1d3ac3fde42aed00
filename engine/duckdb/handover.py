"""How much the engine hands over at once. It makes 2,048 rows before anybody can count their bytes, and more
if it is asked for more; of a value that it has once, it makes as many copies as there are rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from engine.duckdb.growth import MAX_ROW_WIDTH, ODD_STRING, copies, remember_short, text_bytes, value_bytes
from engine.model.result_width import width_in_lists, width_of_types
from engine.scan import LIVE_COLUMN

MOST_ROWS = 122_880
"""One row group of the engine."""
MOST_LONG_ROWS = 8_192
"""Where values can be long."""
HANDED_BYTES = 32 << 20
"""What the rows may take together, if each is as long as the longest can be."""
COMBINED_BYTES = 1 << 20
"""Fewer rows are put together up to this size: a batch costs those who take it as much as a hundred rows."""
MAX_REPEATED_BYTES = 128 << 10
"""How long a value may be that this process puts in many rows."""
MAX_CONSTANT_BYTES = 8 << 10
"""How long the texts of a statement and its parameters may be together that this process puts in each row of
a result: one of 16 KB in rows without end took 250 MiB, and each client at once as much.
"""
MAX_CONSTANTS_OF_ROW = 32 << 10
"""Likewise, in all columns of a row, if each had all of them."""
HANDED_CONSTANT_BYTES = 4 << 20
"""What copies of them may take together in a batch: the engine has several batches at once."""
MAX_COLLECTED_BYTES = HANDED_BYTES // 2048
"""How long one may be that is made of many rows: windows write it into 2,048 rows at once."""

_ROWS_AT_ONCE, _NODE_BYTES, _NODE_IN_LIST_BYTES = 2048, 1 << 10, 50 << 10
"""The engine makes batches of so many rows before it hands the first of them over, and each batch takes so
much for each column and part of a nested type, more for one in a list: 2,048 batches of a struct with 300
fields 630 MB, of a list of structs with three 407 MB.
"""
_NUMBERS_BYTES = 8 << 20
"""What the numbers of the rows may take together. The engine has several batches at once."""
_UNKNOWN_BYTES = 4 << 10
"""How long a value of a stream is taken to be."""
_MEASURED_BYTES = 32 << 20
"""Columns up to this size are looked at, which takes some milliseconds at the most."""
_LONG_TYPE = re.compile(r"VARCHAR|BLOB|BIT|JSON|BIGNUM|VARIANT|STRUCT|MAP|UNION|\[")
"""Types of values of any length, as the engine names them."""
_LONG_PART = re.compile(r"VARCHAR|BLOB|BIT|JSON|BIGNUM|VARIANT|\[")
_LIST_TYPE = re.compile(r"\[|MAP")
_COLLECTING = re.compile(
    r"\b(?:list|array(?:_agg)?|string_agg|group_concat|listagg|histogram\w*|json_group_\w+|bitstring_agg"
    r'|approx_top_k|lttb|variant_group_\w+)"?\s*\('
)
"""What makes one value of many rows."""
_SELECTING = re.compile(r'\b(arg_?(?:min|max)(?:_\w+)?|(?:min|max)_by|min|max)"?\s*\(')
"""What makes one value of as many rows as its last argument says, if it has one for that."""
_FEW = re.compile(r"\s*\d{1,2}\s*")
_QUOTED = re.compile(r"""(?P<string>'[^']*')|(?P<name>"[^"()\[\]{},]*")|"[^"]*\"""")
"""Strings, names, and names with marks in them, in one pattern: each can have the other's quotation mark."""
_ROW_VALUE = re.compile(r"(?:[(,=]|\bselect)\s*+\((?!\s*+select\b)[^(),]*+,")
_BRACKET_OR_COMMA = re.compile(r"[()\[\]{},]")
_MOST_MARKS = 200
"""Of the arguments of a call, for calls can stand in each other."""
_ITEM_BYTES = 8
"""Of a number in a list."""
_ROW_BYTES = 8
"""What a row adds to a value that is made of many, beside what was read and the literals."""
_REPEATING = re.compile(
    r"\b(?:join|over|lateral|unnest|json_each|json_tree)\b|\bselect\b.*\bselect\b|\bfrom\b[^()]{0,500},",
    re.DOTALL,
)
"""What puts a value of one row in several."""
_LIVE_ROWS = re.compile(rf'\(select [^()]* from "[^"]*" where {LIVE_COLUMN} = 1\)')
"""A store with dead rows, as `engine.duckdb.engine.with_live_rows` writes it."""


def rows_a_batch(
    types: Sequence[str],
    sql: str,
    tables: Mapping[str, object],
    parameters: Sequence[Any],
    row_width: int = 0,
) -> int:
    """How many rows of a result the engine is asked for at once.

    Args:
        types: Of its columns, as the engine names them.
        sql: The statement.
        tables: What it reads: tables, or streams.
        parameters: Their values.
        row_width: As `engine.sql.bind.BoundStatement.row_width`.
    """
    width, listed = width_of_types(types), width_in_lists(types)
    most = min(MOST_ROWS, _NUMBERS_BYTES // (8 * width))
    long_types = [each for each in types if _LONG_TYPE.search(each)]
    if long_types:
        longest = _longest_value(
            sql, tables, parameters, collects=_has_new_lists(long_types, tables.values())
        )
        repeated = max(1, _constant_bytes(sql, parameters, row_width) * _long_values(types))
        most = min(most, MOST_LONG_ROWS, HANDED_BYTES // max(1, longest), HANDED_CONSTANT_BYTES // repeated)
    if most > _ROWS_AT_ONCE:
        most -= most % _ROWS_AT_ONCE
    batch_bytes = width * _NODE_BYTES + listed * _NODE_IN_LIST_BYTES
    return max(most, 1 + batch_bytes * _ROWS_AT_ONCE // HANDED_BYTES)


def fills_rows(
    types: Sequence[str],
    sql: str,
    tables: Mapping[str, object],
    parameters: Sequence[Any],
    row_width: int,
) -> bool:
    """Whether a statement can fill the rows of its result with so long texts of its own, or with so many
    copies of long values, that they are more than this process may have.

    Args:
        types: Of its columns, as the engine names them.
        sql: The statement.
        tables: What it reads: tables, or streams.
        parameters: Their values.
        row_width: As `engine.sql.bind.BoundStatement.row_width`.
    """
    columns = _long_values(types)
    if not columns or not (tables or _puts_in_several(sql)):
        return False
    constants = _constant_bytes(sql, parameters, row_width)
    if constants > MAX_CONSTANT_BYTES or constants * columns > MAX_CONSTANTS_OF_ROW:
        return True
    stored = sum(
        not pa.types.is_primitive(field.type)
        for table in tables.values()
        for field in getattr(table, "schema", ())
    )
    times = -(-columns // max(1, stored))
    return times > 1 and times * sum(map(_longest_row, tables.values())) > MAX_REPEATED_BYTES


def _long_values(types: Sequence[str]) -> int:
    """How many values of any length a row of a result has, those within others among them."""
    return sum(max(1, len(_LONG_PART.findall(each))) for each in types if _LONG_TYPE.search(each))


def _constant_bytes(sql: str, parameters: Sequence[Any], row_width: int) -> int:
    """About how many bytes of texts of its own a statement can put in a value of each row of its result."""
    long_values = [each for each in parameters if isinstance(each, str | bytes | Mapping | Sequence)]
    found = _literal_bytes(sql) + sum(map(value_bytes, long_values))
    doublings = copies(sql) + _row_values(sql)
    return (found * max(1, row_width)) << doublings


@remember_short
def _row_values(sql: str) -> int:
    """How many rows of values a statement has that can have a value twice each, as far as they are in each
    other: no wider ones are made here. Remembered, as `makes_one_of_many`.
    """
    return min(MAX_ROW_WIDTH.bit_length() - 1, len(_ROW_VALUE.findall(sql.lower())))


@remember_short
def _literal_bytes(sql: str) -> int:
    """How many bytes the texts and lists in a statement have. Remembered, as `makes_one_of_many`."""
    listed = _ITEM_BYTES * sql.count(",") if "[" in sql else 0
    if ODD_STRING.search(sql) is not None:
        return text_bytes(sql) + listed
    return sum(text_bytes(quoted["string"] or "") for quoted in _QUOTED.finditer(sql)) + listed


def repeats_long_values(sql: str, tables: Mapping[str, object], parameters: Sequence[Any]) -> bool:
    """Whether a statement can put a long value in so many rows that they are more than this process may have.

    Args:
        sql: The statement.
        tables: What it reads: tables, or streams.
        parameters: Their values.
    """
    if value_bytes(parameters) > MAX_REPEATED_BYTES:
        return True
    if copies(sql) == 0 and not _puts_in_several(sql):
        return False
    most = MAX_COLLECTED_BYTES if makes_one_of_many(sql) else MAX_REPEATED_BYTES
    return _longest_value(sql, tables, parameters) > most


@remember_short
def _puts_in_several(sql: str) -> bool:
    """Whether a statement can put a value of one row in several. Remembered, as `makes_one_of_many`."""
    return _REPEATING.search(_LIVE_ROWS.sub("", sql.lower())) is not None


def _longest_value(
    sql: str, tables: Mapping[str, object], parameters: Sequence[Any], *, collects: bool = False
) -> int:
    """About how many bytes the long values of a row of a statement have at the most."""
    found = text_bytes(sql) + value_bytes(parameters) + sum(map(_longest_row, tables.values()))
    if collects or makes_one_of_many(sql):
        # With each row can come all literals, as the separator of texts does.
        row_bytes = _ROW_BYTES + _literal_bytes(sql)
        found += sum(
            each.nbytes + each.num_rows * row_bytes if isinstance(each, pa.Table) else HANDED_BYTES
            for each in tables.values()
        )
    return found << copies(sql)


@remember_short
def makes_one_of_many(sql: str) -> bool:
    """Whether a statement can make one value, as a list, of many rows. Remembered, because a statement asks
    more than once each time that it runs.

    Args:
        sql: A statement in DuckDB's dialect.
    """
    text = _QUOTED.sub(r"\g<name>", sql.lower())
    if _COLLECTING.search(text):
        return True
    for call in _SELECTING.finditer(text):
        arguments = _arguments(text, call.end())
        counted = arguments[1 if call[1] in {"min", "max"} else 2 :]
        if counted and not _FEW.fullmatch(counted[0]):
            return True
    return False


def _arguments(text: str, begin: int) -> list[str]:
    """The arguments of a call; empty ones at the end of a call that is too long to be read.

    Args:
        text: A statement without strings.
        begin: Where the first of them begins.
    """
    found, depth = list[str](), 0
    for mark in islice(_BRACKET_OR_COMMA.finditer(text, begin), _MOST_MARKS):
        if mark[0] in "([{":
            depth += 1
        elif depth > 0:
            depth -= mark[0] != ","
        else:
            found.append(text[begin : mark.start()])
            begin = mark.end()
            if mark[0] != ",":
                return found
    return [*found, "", "", ""]


def _has_new_lists(types: Iterable[str], tables: Iterable[object]) -> bool:
    """Whether a result has lists, and nothing that is read has."""
    return any(map(_LIST_TYPE.search, types)) and not any(
        pa.types.is_nested(field.type) for table in tables for field in getattr(table, "schema", ())
    )


def _longest_row(table: object) -> int:
    """About how many bytes the long values of a row have at the most."""
    if not isinstance(table, pa.Table):
        is_long = any(not pa.types.is_primitive(field.type) for field in getattr(table, "schema", ()))
        return _UNKNOWN_BYTES if is_long else 0
    return sum(map(_longest_of_column, table.columns)) if table.num_rows else 0


def _longest_of_column(column: pa.ChunkedArray) -> int:
    arrow_type = column.type
    if pa.types.is_primitive(arrow_type) or pa.types.is_null(arrow_type):
        return 0
    if pa.types.is_dictionary(arrow_type):
        return _longest_of_column(pa.chunked_array([chunk.dictionary for chunk in column.chunks]))
    if column.nbytes * MOST_LONG_ROWS <= HANDED_BYTES:
        return int(column.nbytes)
    if column.nbytes < _MEASURED_BYTES and (pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type)):
        return pc.max(pc.binary_length(column)).as_py() or 0
    # To look at all takes its time, and few are much longer than most of them.
    return int(16 * column.nbytes // len(column))


def combine(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of some size.

    Args:
        batches: Of few rows each.
    """
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        pending.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= MOST_LONG_ROWS or size >= COMBINED_BYTES:
            yield pa.concat_batches(pending)
            pending, rows, size = [], 0, 0
    if pending:
        yield pa.concat_batches(pending)
