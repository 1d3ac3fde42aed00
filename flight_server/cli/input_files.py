"""Files of rows for `livestate load`: Parquet, CSV and Arrow IPC, read a bounded piece at a time."""

from __future__ import annotations

import atexit
import io
import re
import secrets
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from engine.errors import InvalidInput, NotFound
from engine.model.columns import cast_exactly
from engine.model.damaged_rows import check_rows
from engine.model.quantities import quantity
from engine.model.sql_types import canonical_type, sql_type

FileFormat = Literal["parquet", "csv", "arrow"]
_FORMAT_OF: Mapping[str, FileFormat] = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
_ARROW_FILE_MAGIC = b"ARROW1\0\0"
"""How an Arrow IPC file begins; an Arrow IPC stream does not (Arrow columnar format, "IPC File Format")."""
_READ_ROWS = 65_536
_PADDED = (
    *(pa.types.is_integer, pa.types.is_floating, pa.types.is_decimal),
    *(pa.types.is_date, pa.types.is_time),
)
"""Types of which Arrow takes values in CSV with blanks around them."""
_INFINITY = r"(?i)\A[+-]?inf(?:inity)?\z"
_WRITTEN_BLOB = r"\A\\x(?:[0-9A-Fa-f]{2})*\z"


@dataclass(frozen=True)
class RowFile:
    """An open file of rows.

    Attributes:
        schema: Its columns.
        rows: How many rows it has; None where only reading it to the end tells.
        batches: The rows, read as they are asked for. Raises InvalidInput where the file is damaged or a
            value does not fit.
    """

    schema: pa.Schema
    rows: int | None
    batches: Iterator[pa.RecordBatch]


def format_of(file: Path, given: FileFormat | None) -> FileFormat:
    """The format of a file: what the user says, else what its name ends in.

    Raises:
        InvalidInput: Neither tells.
    """
    if given is not None:
        return given
    known = _FORMAT_OF.get(file.suffix.lower())
    if known is None:
        raise InvalidInput(
            f"What format {file.name} has cannot be told from its name: say --format parquet, csv or arrow."
        )
    return known


def open_rows(file: Path, file_format: FileFormat, types: Mapping[str, pa.DataType]) -> RowFile:
    """Open a file of rows.

    Args:
        file: The file.
        file_format: Its format.
        types: Types of columns by name. The others are those of the file, or in CSV inferred from its first
            megabyte.

    Returns:
        The rows, not read yet.

    Raises:
        NotFound: There is no such file, or it may not be read.
        InvalidInput: It is damaged, or not of that format, has two columns of a name, or lacks one whose type
            is given.
    """
    open_kind: Mapping[FileFormat, Callable[[], RowFile]] = {
        "parquet": lambda: _open_parquet(file),
        "csv": lambda: _open_csv(file, types),
        "arrow": lambda: _open_arrow(file),
    }
    try:
        rows = open_kind[file_format]()
    except pa.ArrowException as error:
        raise InvalidInput(f"{file.name} cannot be read as {file_format}: {_first_line(error)}.") from error
    except OSError as error:
        if error.errno is None and file.is_file():  # it was read, and could not be unpacked
            raise InvalidInput(f"{file.name} is damaged: {_first_line(error)}.") from error
        raise NotFound(f"{file.name} cannot be opened: {error.strerror or _first_line(error)}.") from error
    twice = next((name for name, count in Counter(rows.schema.names).items() if count > 1), None)
    if twice is not None:
        raise InvalidInput(f"{file.name} has more than one column {twice!r}: give each a name of its own.")
    missing = [name for name in types if name not in rows.schema.names]
    if missing:
        raise InvalidInput(
            f"{file.name} has no column {', '.join(missing)}; it has {', '.join(rows.schema.names)}."
        )
    return rows if file_format == "csv" else _cast_rows(file, rows, types)


def _cast_rows(file: Path, rows: RowFile, types: Mapping[str, pa.DataType]) -> RowFile:
    """The same rows; the columns with these names have these types."""
    changed = {name: kind for name, kind in types.items() if rows.schema.field(name).type != kind}
    if not changed:
        return rows
    schema = pa.schema([(column.name, changed.get(column.name, column.type)) for column in rows.schema])
    return replace(rows, schema=schema, batches=_cast_batches(file, rows.batches, changed, schema))


def _cast_batches(
    file: Path, batches: Iterator[pa.RecordBatch], types: Mapping[str, pa.DataType], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    before = 0
    for batch in batches:
        for name, arrow_type in types.items():
            place = _first_that_fails(batch.column(name), arrow_type)
            if place is not None:
                raise InvalidInput(
                    f"{file.name}, row {before + place + 1:,}, column {name}: "
                    f"{_shown(batch.column(name)[place])} is no {_type_name(arrow_type)}; correct it."
                )
        columns = [
            _cast(batch.column(column.name), column.type)
            if column.name in types
            else batch.column(column.name)
            for column in schema
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)
        before += batch.num_rows


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0].rstrip(".") if str(error) else type(error).__name__


def _open_parquet(file: Path) -> RowFile:
    reader = pq.ParquetFile(file)
    return RowFile(
        reader.schema_arrow,
        reader.metadata.num_rows,
        _translate_errors(file, reader.iter_batches(_READ_ROWS)),
    )


def _open_arrow(file: Path) -> RowFile:
    source = pa.memory_map(str(file))
    if source.read(len(_ARROW_FILE_MAGIC)) == _ARROW_FILE_MAGIC:
        reader = pa.ipc.open_file(source)
        return RowFile(
            reader.schema,
            None,
            _translate_errors(file, (reader.get_batch(i) for i in range(reader.num_record_batches))),
        )
    source.seek(0)
    stream = pa.ipc.open_stream(source)
    return RowFile(stream.schema, None, _translate_errors(file, iter(stream)))


def _translate_errors(file: Path, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same batches; what is wrong with the file is said in the words of livestate."""
    rows = 0
    while True:
        try:
            batch = next(batches, None)
            if batch is not None:
                check_rows(batch)
        except (pa.ArrowException, OSError) as error:
            raise _damaged_behind(file, rows, error) from error
        if batch is None:
            return
        yield batch
        rows += batch.num_rows


def _damaged_behind(file: Path, row: int, error: Exception) -> InvalidInput:
    return InvalidInput(f"{file.name} is damaged behind row {row:,}: {_first_line(error)}.")


@dataclass
class _RowWatch:
    """Looks at the rows of a CSV file that have too few or too many columns, as the parser meets them.

    A row that the file does not have is read behind it, with a column more. It is not met where a quotation
    mark is never closed: all that is behind the mark is one value then, for which the parser has no error.

    Attributes:
        columns: How many columns the file has.
        end: The row behind the file.
        found: The first bad row of the file, if the parser met one.
        has_ended: Whether the parser met the row behind the file.
    """

    columns: int
    end: str = field(default_factory=secrets.token_hex)
    found: Any = None
    has_ended: bool = False

    def __call__(self, row: Any) -> str:
        if row.text is not None and row.text.startswith(self.end):
            self.has_ended = True
            return "skip"
        self.found = self.found or row
        return "error"

    @contextmanager
    def in_silence(self) -> Iterator[None]:
        """Have a bad row that is no text in UTF-8, which the parser cannot show, told by its error alone."""
        before = sys.unraisablehook
        sys.unraisablehook = lambda raised: None if raised.object is self else before(raised)
        try:
            yield
        finally:
            sys.unraisablehook = before

    def bytes_behind(self) -> bytes:
        """What is read behind the file."""
        return f"\n{self.end}{',' * self.columns}\n".encode()


class _LongerFile(io.RawIOBase):
    """The bytes of a file, unpacked where it is compressed, and some more behind them. Behind a `with` nobody
    reads on.

    Where the file is damaged it ends. An error that was raised would be held by Arrow's thread, and by its
    traceback the reader. If that thread is the last that lets go of the reader, it waits for itself for ever.

    Attributes:
        damage: What the file is damaged by, as far as it was read.
    """

    def __init__(self, file: Path, behind: bytes) -> None:
        super().__init__()
        self._file = pa.input_stream(str(file))
        self._behind = io.BytesIO(behind)
        self._is_over = False
        self._is_at_rest = threading.Event()
        self._is_at_rest.set()
        self.damage: OSError | None = None
        _FILES_OF_ARROW.add(self)

    def readable(self) -> bool:
        """It is."""
        return True

    def read(self, size: int = -1) -> bytes:
        """The next bytes.

        Args:
            size: How many, at most; negative for all.
        """
        if self._is_over:
            return b""
        self._is_at_rest.clear()
        try:
            found: bytes = self._file.read(size) or self._behind.read(size)
        except OSError as error:
            self._is_over = True
            self.damage = error.with_traceback(None)
            found = b""
        finally:
            self._is_at_rest.set()
        return found

    def __exit__(self, *raised: object) -> None:
        self.end()

    def end(self) -> None:
        """Have nobody read on."""
        self._is_over = True

    def wait(self) -> None:
        """Wait for a read that is under way, and for what is done with its bytes."""
        self._is_at_rest.wait(_LAST_READ_SECONDS)
        time.sleep(_LET_GO_SECONDS)

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        super().close()


_FILES_OF_ARROW: weakref.WeakSet[_LongerFile] = weakref.WeakSet()
"""Files that a thread of Arrow reads ahead."""
_LAST_READ_SECONDS = 0.5
_LET_GO_SECONDS = 0.2
"""In which Arrow's thread gets the interpreter, and lets go of what it has read: microseconds, where it need
not wait for a processor. Only who stops in the midst of a file waits for it.
"""


@atexit.register
def _end_reading() -> None:
    """End what Arrow reads ahead, where nobody has taken all rows: its thread cannot read a file of Python's
    once the interpreter is gone, and the process would hang, or abort.
    """
    files = list(_FILES_OF_ARROW)
    for file in files:
        file.end()
    for file in files:
        file.wait()


def _open_csv(file: Path, types: Mapping[str, pa.DataType]) -> RowFile:
    try:
        watch = _RowWatch(len(_csv_names(file)))
    except pa.ArrowInvalid as error:
        raise _no_csv(file, error) from error
    content = _LongerFile(file, watch.bytes_behind())
    try:
        with watch.in_silence():
            reader = _csv_reader(content, types, watch)
    except pa.ArrowInvalid as error:
        content.end()
        if content.damage is not None:
            raise content.damage from error
        raise _csv_error(file, types, {}, watch, error) from error
    inferred = {column.name: column.type for column in reader.schema}
    return RowFile(reader.schema, None, _csv_batches(file, content, reader, types, inferred, watch))


def _csv_reader(
    content: _LongerFile, types: Mapping[str, pa.DataType], watch: _RowWatch
) -> pa.csv.CSVStreamingReader:
    return pa.csv.open_csv(
        content,
        # Rows have numbers only when one thread parses them.
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=watch),
        convert_options=pa.csv.ConvertOptions(
            column_types=types,
            # Arrow takes NA, null and NaN for NULL as well, which may be values.
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _csv_batches(
    file: Path,
    content: _LongerFile,
    reader: Any,
    given: Mapping[str, pa.DataType],
    inferred: Mapping[str, pa.DataType],
    watch: _RowWatch,
) -> Iterator[pa.RecordBatch]:
    rows = 0
    has_infinity = False
    with content:
        while True:
            try:
                with watch.in_silence():
                    batch = reader.read_next_batch()
            except StopIteration:
                break
            except pa.ArrowInvalid as error:
                if content.damage is not None:
                    break
                raise _csv_error(file, given, inferred, watch, error) from error
            rows += batch.num_rows
            if not has_infinity and any(map(_has_infinity, batch.columns)):
                # Arrow reads numbers that are too large so.
                has_infinity = True
                misfit = _misfit(file, _floating_columns(given), _floating_columns(inferred))
                if misfit is not None:
                    raise misfit
            yield _with_read_blobs(batch)
    if content.damage is not None:
        raise _damaged_behind(file, rows, content.damage) from content.damage
    if not watch.has_ended:
        raise _never_closed(file, rows)


def _has_infinity(column: pa.Array) -> bool:
    return pa.types.is_floating(column.type) and bool(pc.any(pc.is_inf(column)).as_py())


def _floating_columns(types: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    return {name: arrow_type for name, arrow_type in types.items() if pa.types.is_floating(arrow_type)}


def _with_read_blobs(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch, with the bytes that hexadecimal digits of its BLOBs stand for."""
    columns = [_read_blobs(column) if pa.types.is_binary(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)


def _read_blobs(column: pa.Array) -> pa.Array:
    """BLOBs as `livestate sql` writes them; other values are their own bytes."""
    is_written = pc.match_substring_regex(column, _WRITTEN_BLOB)
    if not pc.any(is_written).as_py():
        return column
    pairs = zip(column.to_pylist(), is_written.to_pylist(), strict=True)
    return pa.array(
        [bytes.fromhex(value[2:].decode()) if written else value for value, written in pairs], column.type
    )


def _never_closed(file: Path, row: int) -> InvalidInput:
    return InvalidInput(
        f"{file.name}, row {row:,}: a quotation mark is never closed, so all that is behind it would be one "
        "value; see whether the file is cut off."
    )


def _csv_error(
    file: Path,
    given: Mapping[str, pa.DataType],
    inferred: Mapping[str, pa.DataType],
    watch: _RowWatch,
    error: pa.ArrowInvalid,
) -> InvalidInput:
    if watch.found is not None:
        row = watch.found
        return InvalidInput(
            f"{file.name}, row {row.number - 1:,}: {quantity(row.actual_columns, 'value')} for "
            f"{quantity(row.expected_columns, 'column')}."
        )
    short = re.search(r"Expected (\d+) columns, got (\d+)", str(error))
    if short is not None:
        return InvalidInput(
            f"{file.name}, in a row that is not text in UTF-8: {quantity(int(short[2]), 'value')} for "
            f"{quantity(int(short[1]), 'column')}."
        )
    if not _is_too_long(error):
        misfit = _misfit(file, given, inferred)
        if misfit is not None:
            return misfit
    return _no_csv(file, error)


def _no_csv(file: Path, error: pa.ArrowInvalid) -> InvalidInput:
    cause = _first_line(error)
    if _is_too_long(error):
        cause = "a value is too long (1 MiB is always read), or a quotation mark is never closed"
    return InvalidInput(f"{file.name} cannot be read as csv: {cause}.")


def _is_too_long(error: pa.ArrowInvalid) -> bool:
    return "straddling object" in str(error)


def _misfit(
    file: Path, given: Mapping[str, pa.DataType], inferred: Mapping[str, pa.DataType]
) -> InvalidInput | None:
    """Find the first value that does not fit its column's type: read the file once more, as text. None where
    that fails before, at a row of other columns or of no text: whoever reads the file for its rows is told.
    """
    rows = 0
    names = _csv_names(file)
    watch = _RowWatch(len(names))
    content = _LongerFile(file, watch.bytes_behind())
    with suppress(pa.ArrowInvalid), watch.in_silence(), content:
        for batch in _csv_reader(content, dict.fromkeys(names, pa.string()), watch):
            for name, arrow_type in {**inferred, **given}.items():
                if name not in names:
                    continue
                column = batch.column(name)
                if any(is_kind(arrow_type) for is_kind in _PADDED):
                    column = pc.utf8_trim(column, " \t")
                place = _first_that_fails(column, arrow_type)
                if place is not None:
                    remedy = (
                        "correct it"
                        if name in given
                        else f"correct it, or give the column a type that fits with --type {name}=VARCHAR"
                    )
                    value = batch.column(name)[place].as_py()
                    if watch.end in value:
                        return _never_closed(file, rows + place + 1)
                    return InvalidInput(
                        f"{file.name}, row {rows + place + 1:,}, column {name}: {value!r} is no "
                        f"{_type_name(arrow_type)}; {remedy}."
                    )
            rows += batch.num_rows
    return None


def _type_name(arrow_type: pa.DataType) -> str:
    try:
        return sql_type(canonical_type(arrow_type))
    except InvalidInput:
        return str(arrow_type)


_FIRST_BLOCK = pa.csv.ReadOptions().block_size
"""Bytes from which Arrow takes the names and types of columns."""


def _csv_names(file: Path) -> list[str]:
    """The names of the columns. They are read as Latin-1, in which any bytes are text: rows without as many
    columns are passed by only where they are text.
    """
    # Only what is looked at: Arrow would read ahead, and may or may not find there what is damaged.
    with pa.input_stream(str(file)) as stream:
        head = stream.read(_FIRST_BLOCK)
    with pa.csv.open_csv(
        pa.BufferReader(head),
        read_options=pa.csv.ReadOptions(encoding="latin-1"),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: "skip"),
    ) as reader:
        try:
            names = [name.encode("latin-1").decode() for name in reader.schema.names]
        except UnicodeDecodeError as error:
            raise InvalidInput(
                f"{file.name} names its columns in another encoding than UTF-8: write it in UTF-8."
            ) from error
    return [names[0].removeprefix("\ufeff"), *names[1:]]


def _first_that_fails(column: pa.Array, arrow_type: pa.DataType) -> int | None:
    """The first value that cannot become a type, by halving; None if all can."""
    if _can_become(column, arrow_type):
        return None
    low, high = 0, len(column)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (
            (middle, high) if _can_become(column.slice(low, middle - low), arrow_type) else (low, middle)
        )
    return low


def _can_become(column: pa.Array, arrow_type: pa.DataType) -> bool:
    try:
        _cast(column, arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _cast(column: pa.Array, arrow_type: pa.DataType) -> pa.Array:
    """Values as those of another type.

    Raises:
        pa.ArrowInvalid: One of them has no like there.
        pa.ArrowNotImplementedError: None has.
    """
    if isinstance(column.type, pa.UuidType) and pa.types.is_string(arrow_type):
        return pa.array([value and str(value) for value in column.to_pylist()], arrow_type)
    if isinstance(column, pa.ExtensionArray):
        return _cast(column.storage, arrow_type)
    if isinstance(column, pa.DictionaryArray):
        return _cast(cast_exactly(column, column.type.value_type), arrow_type)
    if pa.types.is_timestamp(column.type) and column.type.tz:
        # Stores have moments in UTC, where Arrow would take the day of another zone.
        column = column.view(pa.timestamp(column.type.unit, "UTC"))
    cast = cast_exactly(column, arrow_type)
    if not _are_alike(column, cast):
        raise pa.ArrowInvalid("A value would change.")
    return cast


def _are_alike(column: pa.Array, cast: pa.Array) -> bool:
    """Whether a cast has left values as they were. Types of floating point numbers have the nearest one, and
    not infinity for one that is too large; other text was parsed, or written.
    """
    types, source, target = pa.types, column.type, cast.type
    if types.is_map(source) and types.is_map(target):
        return _are_alike(_pairs(column), _pairs(cast))
    if types.is_struct(source) and types.is_struct(target):
        return source.names == target.names and all(map(_are_alike, column.flatten(), cast.flatten()))
    if hasattr(source, "value_type") and types.is_list(target):
        return _are_alike(column.flatten(), cast.flatten())
    if types.is_floating(target):
        infinite = pc.match_substring_regex(column, _INFINITY) if _is_text(source) else pc.is_inf(column)
        return bool(pc.sum(infinite) == pc.sum(pc.is_inf(cast)))
    if types.is_null(source) or _is_text(source) or _is_text(target):
        return True
    return bool(cast_exactly(cast, source).equals(column))


def _pairs(maps: pa.MapArray) -> pa.ListArray:
    return maps.cast(pa.list_(pa.struct([maps.type.key_field, maps.type.item_field])))


def _is_text(arrow_type: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_string(arrow_type) or types.is_large_string(arrow_type) or types.is_string_view(arrow_type)
    )


def _shown(value: pa.Scalar) -> str:
    """A value as errors show it."""
    try:
        return repr(value.as_py())
    except (ValueError, OverflowError):
        return str(value.cast(pa.string()))  # a moment beyond the years that Python knows
