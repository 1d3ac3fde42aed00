"""Files of rows for `livestate load`: Parquet, CSV and Arrow IPC, read a bounded piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from engine.errors import InvalidInput, NotFound
from engine.model.damaged_rows import check_rows
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
        types: Types of CSV columns by name; the others are inferred from the file's first megabyte.

    Returns:
        The rows, not read yet.

    Raises:
        NotFound: There is no such file, or it may not be read.
        InvalidInput: It is not of that format.
    """
    open_kind: Mapping[FileFormat, Callable[[], RowFile]] = {
        "parquet": lambda: _open_parquet(file),
        "csv": lambda: _open_csv(file, types),
        "arrow": lambda: _open_arrow(file),
    }
    try:
        return open_kind[file_format]()
    except pa.ArrowException as error:
        raise InvalidInput(f"{file.name} cannot be read as {file_format}: {_first_line(error)}.") from error
    except OSError as error:
        raise NotFound(f"{file.name} cannot be opened: {error.strerror or _first_line(error)}.") from error


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
            raise InvalidInput(
                f"{file.name} is damaged behind row {rows:,}: {_first_line(error)}."
            ) from error
        if batch is None:
            return
        yield batch
        rows += batch.num_rows


@dataclass
class _ShortRow:
    """The first CSV row with too few or too many columns, if the parser met one."""

    found: Any = None

    def __call__(self, row: Any) -> str:
        self.found = self.found or row
        return "error"


def _open_csv(file: Path, types: Mapping[str, pa.DataType]) -> RowFile:
    short = _ShortRow()
    try:
        reader = _csv_reader(file, types, short)
    except pa.ArrowInvalid as error:
        raise _csv_error(file, types, {}, short, error) from error
    missing = [name for name in types if name not in reader.schema.names]
    if missing:
        raise InvalidInput(
            f"{file.name} has no column {', '.join(missing)}; its first line names "
            f"{', '.join(reader.schema.names)}."
        )
    inferred = {field.name: field.type for field in reader.schema}
    return RowFile(reader.schema, None, _csv_batches(file, reader, types, inferred, short))


def _csv_reader(file: Path, types: Mapping[str, pa.DataType], short: _ShortRow) -> pa.csv.CSVStreamingReader:
    return pa.csv.open_csv(
        file,
        # Rows have numbers only when one thread parses them.
        read_options=pa.csv.ReadOptions(use_threads=False),
        parse_options=pa.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=short),
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
    reader: Any,
    given: Mapping[str, pa.DataType],
    inferred: Mapping[str, pa.DataType],
    short: _ShortRow,
) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except pa.ArrowInvalid as error:
            raise _csv_error(file, given, inferred, short, error) from error
        yield batch


def _csv_error(
    file: Path,
    given: Mapping[str, pa.DataType],
    inferred: Mapping[str, pa.DataType],
    short: _ShortRow,
    error: pa.ArrowInvalid,
) -> InvalidInput:
    if short.found is not None:
        row = short.found
        return InvalidInput(
            f"{file.name}, row {row.number - 1:,}: {row.actual_columns} values for {row.expected_columns} "
            "columns."
        )
    return _misfit(file, given, inferred) or InvalidInput(
        f"{file.name} cannot be read as csv: {_first_line(error)}."
    )


def _misfit(
    file: Path, given: Mapping[str, pa.DataType], inferred: Mapping[str, pa.DataType]
) -> InvalidInput | None:
    """Find the first value that does not fit its column's type: read the file once more, as text."""
    rows = 0
    names = _csv_names(file)
    for batch in _csv_reader(file, dict.fromkeys(names, pa.string()), _ShortRow()):
        for name, arrow_type in {**inferred, **given}.items():
            place = _first_that_fails(batch.column(name), arrow_type) if name in names else None
            if place is not None:
                remedy = (
                    "correct it"
                    if name in given
                    else f"correct it, or give the column a type that fits with --type {name}=VARCHAR"
                )
                value = batch.column(name)[place].as_py()
                return InvalidInput(
                    f"{file.name}, row {rows + place + 1:,}, column {name}: {value!r} is not a "
                    f"{_type_name(arrow_type)}; {remedy}."
                )
        rows += batch.num_rows
    return None


def _type_name(arrow_type: pa.DataType) -> str:
    try:
        return sql_type(canonical_type(arrow_type))
    except InvalidInput:
        return str(arrow_type)


def _csv_names(file: Path) -> list[str]:
    with pa.csv.open_csv(file, convert_options=pa.csv.ConvertOptions(check_utf8=False)) as reader:
        return list(reader.schema.names)


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
        column.cast(arrow_type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True
