r"""Results as a person or a program wants them: a table on a terminal, or streamed CSV, JSON lines and Arrow.

CSV and JSON are one text for one value: binary is hexadecimal after `\x`, a list, struct or map is JSON, a
timestamp is ISO 8601 with `Z` when it has a zone. CSV leaves NULL empty and quotes every text. JSON has one
object a line, and decimals as texts, with all their digits. A DOUBLE or FLOAT has the fewest digits that are
read back as the same value of its type, and may be `nan`, `inf` or `-inf`, which JSON has as texts.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from engine.errors import MISTAKES_OF_CALLER, InvalidInput, LivestateError, Unauthenticated
from flight_server.wire.boundary import PROOF_WANTED

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table
    from rich.text import Text

NULL_TEXT = "NULL"
NARROWEST_COLUMN = 7
"""Characters that a column with its border needs to be worth reading; where they do not fit, rows are shown
one under the other.
"""
_LEAST_NORMAL_FLOAT = 1.1754943508222875e-38
_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_FIRST_OF_PERIOD = (dt.date(2000, 1, 1) - dt.date(1970, 1, 1)).days
_FIRST_DAY, _LAST_DAY = ((day - dt.date(1970, 1, 1)).days for day in (dt.date.min, dt.date.max))
_INFINITE_DAYS = {2**31 - 1: "infinity", -(2**31 - 1): "-infinity"}
_INFINITE_MOMENTS = {2**63 - 1: "infinity", -(2**63 - 1): "-infinity"}
"""As DuckDB has them."""
_PROOFS = (
    "Give the token with --token-file FILE or in LIVESTATE_TOKEN, log in with --user NAME, or show a "
    "certificate with --certificate FILE and --key FILE."
)
_ROW_GROUP_ROWS = 131_072
_ROW_GROUP_BYTES = 64 << 20
"""A Parquet file gets a row group whenever so much is there."""


def write_csv(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes]) -> int:
    """Stream a result as CSV with a header.

    Args:
        schema: Columns of the result.
        batches: The rows; each batch is written before the next is asked for.
        out: Where the text goes, as UTF-8.

    Returns:
        How many rows were written.
    """
    text_schema = pa.schema(
        [
            pa.field(name, _text_type(arrow_type))
            for name, arrow_type in zip(_distinct(schema.names), schema.types, strict=True)
        ]
    )
    rows = 0
    with pyarrow.csv.CSVWriter(out, text_schema) as writer:
        for batch in batches:
            writer.write_batch(
                pa.record_batch([_text_column(column) for column in batch.columns], schema=text_schema)
            )
            out.flush()
            rows += batch.num_rows
    return rows


def write_json(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes]) -> int:
    """Stream a result as JSON, one object a line.

    Args:
        schema: Columns of the result; a name that is there twice gets a number behind it.
        batches: The rows; each batch is written before the next is asked for.
        out: Where the text goes, as UTF-8.

    Returns:
        How many rows were written.
    """
    names = _distinct(schema.names)
    rows = 0
    for batch in batches:
        columns = [[_json_value(value) for value in python_values(column)] for column in batch.columns]
        lines = (
            json.dumps(dict(zip(names, values, strict=True)), ensure_ascii=False)
            for values in zip(*columns, strict=True)
        )
        out.write("".join(f"{line}\n" for line in lines).encode())
        out.flush()
        rows += batch.num_rows
    return rows


def write_arrow(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes]) -> int:
    """Stream a result in the Arrow IPC stream format.

    Args:
        schema: Columns of the result.
        batches: The rows; each batch is written before the next is asked for.
        out: Where the bytes go.

    Returns:
        How many rows were written.
    """
    rows = 0
    with pa.ipc.new_stream(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            out.flush()
            rows += batch.num_rows
    return rows


def write_arrow_file(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes]) -> int:
    """Write a result in the Arrow IPC file format; arguments and return as those of `write_arrow`."""
    rows = 0
    with pa.ipc.new_file(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


def write_parquet(schema: pa.Schema, batches: Iterable[pa.RecordBatch], out: IO[bytes]) -> int:
    """Write a result as Parquet, a row group at a time; arguments and return as those of `write_arrow`. A
    column name that is there twice gets a number behind it.

    Raises:
        InvalidInput: Parquet has no type for a column.
    """
    import pyarrow.parquet as pq  # noqa: PLC0415  only this needs it

    named = pa.schema(
        [field.with_name(name) for field, name in zip(schema, _distinct(schema.names), strict=True)],
        schema.metadata,
    )
    rows = 0
    try:
        with pq.ParquetWriter(out, named, compression="zstd") as writer:
            for group in _row_groups(schema, batches):
                writer.write_table(group.rename_columns(named.names), row_group_size=_ROW_GROUP_ROWS)
                rows += group.num_rows
    except pa.ArrowNotImplementedError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InvalidInput(
            f"Parquet cannot hold a column of the result ({reason}): CAST it, to VARCHAR for example."
        ) from error
    return rows


def _row_groups(schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in tables that are large enough for a row group, but for the last one."""
    taken: list[pa.RecordBatch] = []
    rows = nbytes = 0
    for batch in batches:
        taken.append(batch)
        rows += batch.num_rows
        nbytes += batch.nbytes
        if rows >= _ROW_GROUP_ROWS or nbytes >= _ROW_GROUP_BYTES:
            yield pa.Table.from_batches(taken, schema)
            taken, rows, nbytes = [], 0, 0
    if taken:
        yield pa.Table.from_batches(taken, schema)


RowWriter: TypeAlias = Callable[[pa.Schema, Iterable[pa.RecordBatch], IO[bytes]], int]

WRITERS: Mapping[str, RowWriter] = {"csv": write_csv, "json": write_json, "arrow": write_arrow}
"""What streams a result in each format."""


def first_rows(batches: Iterable[pa.RecordBatch], schema: pa.Schema, limit: int) -> tuple[pa.Table, bool]:
    """Take only the rows that a person will look at.

    Args:
        batches: The rows of a result.
        schema: Columns of the result.
        limit: How many rows to take at most; 0 takes all.

    Returns:
        The rows, and whether there were more.
    """
    taken: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        taken.append(batch)
        rows += batch.num_rows
        if limit and rows > limit:
            return pa.Table.from_batches(taken, schema=schema).slice(0, limit), True
    return pa.Table.from_batches(taken, schema=schema), False


def result_table(rows: pa.Table, width: int, *, is_expanded: bool = False) -> RenderableType:
    """A result for a terminal: a table, or rows one under the other where the columns do not fit beside each
    other.

    Args:
        rows: What to show.
        width: Characters of a line.
        is_expanded: Show rows one under the other in any case.

    Returns:
        What a rich console prints.
    """
    cells = [[display_text(value) for value in python_values(column)] for column in rows.columns]
    if rows.num_rows and (is_expanded or rows.num_columns * NARROWEST_COLUMN > width):
        return _stack_rows(rows.schema.names, cells)
    table = new_table()
    for name, arrow_type in zip(rows.schema.names, rows.schema.types, strict=True):
        table.add_column(
            plain_text(name),
            justify="right" if _is_number(arrow_type) else "left",
            overflow="fold",
        )
    for values in zip(*cells, strict=True):
        table.add_row(*(_cell(value) for value in values))
    return table


def new_table() -> Table:
    """An empty table in the one style that all commands use."""
    from rich import box  # noqa: PLC0415  rich is imported when something is shown, which keeps `--help` quick
    from rich.table import Table  # noqa: PLC0415  likewise

    return Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False, show_edge=False)


def _stack_rows(names: Sequence[str], cells: Sequence[Sequence[str | None]]) -> RenderableType:
    from rich.console import Group  # noqa: PLC0415  rich is imported when something is shown
    from rich.table import Table  # noqa: PLC0415  likewise

    shown: list[RenderableType] = []
    for number, values in enumerate(zip(*cells, strict=True), start=1):
        grid = Table.grid(padding=(0, 2))
        for name, value in zip(names, values, strict=True):
            grid.add_row(plain_text(name, "bold"), _cell(value))
        shown += [plain_text(f"row {number}", "dim"), grid]
    return Group(*shown)


def _cell(value: str | None) -> RenderableType:
    return plain_text(NULL_TEXT, "dim italic") if value is None else plain_text(value)


def plain_text(text: str, style: str = "") -> Text:
    """A text that a console shows as it is: brackets and colons in it are no markup, and control characters
    become escapes.

    Args:
        text: Such as the name of a store.
        style: How rich shows it.
    """
    from rich.text import Text  # noqa: PLC0415  rich is imported when something is shown

    return Text(escape_unprintable(text), style=style)


def display_text(value: Any) -> str | None:
    """One value as a table shows it.

    Args:
        value: A value as `python_values` gives it.

    Returns:
        The text without control characters, so that stored data cannot steer the terminal; None for NULL.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return escape_unprintable(value)
    if isinstance(value, dt.datetime):
        return value.isoformat(sep=" ").replace("+00:00", "Z")
    if isinstance(value, float):
        return repr(value)
    plain = _json_value(value)
    return escape_unprintable(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


def python_values(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """The values of a column in Python, where a FLOAT is the number with the fewest digits that is read back
    as it.
    """
    try:
        values = [_wide_value(scalar) for scalar in column] if _has_midnights(column) else column.to_pylist()
    except (ValueError, OverflowError, pa.ArrowException):
        values = [_wide_value(scalar) for scalar in column]
    return [_shorten(value, column.type) for value in values] if _has_floats(column.type) else values


def _has_midnights(column: pa.Array) -> bool:
    """Whether some time is 24:00:00, which SQL knows, and Python takes for the other end of the day."""
    return bool(pa.types.is_time64(column.type) and pc.max(column).value == _last_moment(column.type))


def _last_moment(arrow_type: pa.DataType) -> int:
    """24:00:00 in the unit of a type of times."""
    return 86_400 * _A_SECOND[arrow_type.unit]


def _wide_value(scalar: pa.Scalar) -> Any:
    """A value in Python, with a text for each date and time that Python does not know."""
    if not scalar.is_valid:
        return None
    if pa.types.is_struct(scalar.type):
        return {field.name: _wide_value(scalar[field.name]) for field in scalar.type}
    if pa.types.is_map(scalar.type):
        return [(_wide_value(pair["key"]), _wide_value(pair["value"])) for pair in scalar.values]
    if pa.types.is_list(scalar.type):
        return [_wide_value(item) for item in scalar.values]
    if pa.types.is_time64(scalar.type) and scalar.value == _last_moment(scalar.type):
        return "24:00:00"
    try:
        return scalar.as_py()
    except (ValueError, OverflowError, pa.ArrowException):
        return _moment_text(scalar)


def _moment_text(scalar: pa.Scalar) -> str:
    """A date or a timestamp as SQL writes it."""
    if pa.types.is_date(scalar.type):
        return _INFINITE_DAYS.get(scalar.value) or _day_text(scalar.value)
    if scalar.value in _INFINITE_MOMENTS:
        return _INFINITE_MOMENTS[scalar.value]
    a_second = _A_SECOND[scalar.type.unit]
    seconds, fraction = divmod(scalar.value, a_second)
    days, second = divmod(seconds, 86_400)
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    digits = len(str(a_second)) - 1
    tail = f".{fraction:0{digits}}" if fraction else ""
    return f"{_day_text(days)} {time}{tail}{'Z' if scalar.type.tz else ''}"


def _day_text(days: int) -> str:
    """A day since 1970-01-01 in the proleptic Gregorian calendar, which begins anew every 146,097 days."""
    periods, rest = divmod(days - _FIRST_OF_PERIOD, 146_097)
    found = dt.date(2000, 1, 1) + dt.timedelta(days=rest)
    year = found.year + 400 * periods
    return f"{year:04}-{found:%m-%d}" if year > 0 else f"{1 - year:04}-{found:%m-%d} (BC)"


def _has_floats(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_float32(arrow_type)) or any(
        _has_floats(arrow_type.field(place).type) for place in range(arrow_type.num_fields)
    )


def _shorten(value: Any, arrow_type: pa.DataType) -> Any:
    """A value of such a type, with its FLOATs shortened."""
    if value is None or not _has_floats(arrow_type):
        return value
    if pa.types.is_float32(arrow_type):
        return _shortest_float(value)
    if pa.types.is_struct(arrow_type):
        return {name: _shorten(part, arrow_type.field(name).type) for name, part in value.items()}
    if pa.types.is_map(arrow_type):
        return [
            (_shorten(key, arrow_type.key_type), _shorten(item, arrow_type.item_type)) for key, item in value
        ]
    if isinstance(value, list):
        return [_shorten(item, arrow_type.value_type) for item in value]
    return value


def _shortest_float(value: float) -> float:
    if not math.isfinite(value):
        return value
    # Nine digits always tell a FLOAT, and one keeps six, unless it is next to nothing.
    fewest = 1 if abs(value) < _LEAST_NORMAL_FLOAT else 6
    shorter = (float(f"{value:.{digits}g}") for digits in range(fewest, 10))
    return next((found for found in shorter if _nearest_float(found) == value), value)


def _nearest_float(value: float) -> float:
    try:
        kept: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.inf
    return kept


def escape_unprintable(text: str) -> str:
    r"""A text without control characters: they become escapes such as `\n`."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _json_value(value: Any) -> Any:
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case bytes():
            return "\\x" + base64.b16encode(value).decode().lower()
        case decimal.Decimal():
            return format(value, "f")
        case dt.datetime():
            return value.isoformat().replace("+00:00", "Z")
        case pa.MonthDayNano():
            return _interval_text(value)
        case list() | tuple():
            # pyarrow gives a map as a list of pairs, which JSON has a list of lists for.
            return [_json_value(v) for v in value]
        case dict():
            return {name: _json_value(v) for name, v in value.items()}
        case _:
            return str(value)


def _interval_text(value: pa.MonthDayNano) -> str:
    """An interval as SQL writes it, such as `1 year 2 months 3 days 04:05:06.5`."""
    years, months = divmod(abs(value.months), 12)
    sign = -1 if value.months < 0 else 1
    counts = ((sign * years, "year"), (sign * months, "month"), (value.days, "day"))
    parts = [f"{count} {unit}{'' if abs(count) == 1 else 's'}" for count, unit in counts if count]
    if value.nanoseconds or not parts:
        seconds, fraction = divmod(abs(value.nanoseconds), 1_000_000_000)
        tail = f".{fraction:09}".rstrip("0") if fraction else ""
        time = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}{tail}"
        parts.append(f"-{time}" if value.nanoseconds < 0 else time)
    return " ".join(parts)


def _text_type(arrow_type: pa.DataType) -> pa.DataType:
    is_text = (
        pa.types.is_nested(arrow_type) or pa.types.is_binary(arrow_type) or pa.types.is_interval(arrow_type)
    )
    return pa.string() if is_text else arrow_type


def _text_column(column: pa.Array) -> pa.Array:
    if pa.types.is_date(column.type) or pa.types.is_timestamp(column.type):
        _check_years(column)
    if _has_midnights(column):
        raise InvalidInput("CSV has no form for the time 24:00:00: cast the column to VARCHAR.")
    if _text_type(column.type) == column.type:
        return column
    plain = (_json_value(value) for value in python_values(column))
    return pa.array(
        [
            value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            for value in plain
        ],
        pa.string(),
    )


def _check_years(column: pa.Array) -> None:
    """Refuse what Arrow would write as another time."""
    bounds = pc.min_max(column)
    for scalar in (bounds["min"], bounds["max"]):
        if not scalar.is_valid:
            continue
        days = scalar.value if pa.types.is_date32(column.type) else scalar.value // _a_day(column.type)
        if not _FIRST_DAY <= days <= _LAST_DAY:
            raise InvalidInput(
                f"CSV has no form for {_moment_text(scalar)}, which is outside the years 1 to 9999: cast the "
                "column to VARCHAR."
            )


def _a_day(arrow_type: pa.DataType) -> int:
    return 86_400_000 if pa.types.is_date(arrow_type) else 86_400 * _A_SECOND[arrow_type.unit]


def _distinct(names: Sequence[str]) -> list[str]:
    """Names of which no two are the same: a number stands behind those that were there before."""
    asked, taken = set(names), set[str]()
    counts: dict[str, int] = {}
    distinct = []
    for name in names:
        unique = name
        while unique in taken or (unique != name and unique in asked):
            counts[name] = counts.get(name, 1) + 1
            unique = f"{name}_{counts[name]}"
        taken.add(unique)
        distinct.append(unique)
    return distinct


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)
    )


def error_lines(error: LivestateError) -> list[str]:
    """An error for a terminal.

    Args:
        error: What went wrong. For SQL, the host's message has the line of the text and a caret under the
            place.

    Returns:
        Lines without line ends and control characters. Where whoever runs the hosts may be asked, the last
        one says under which id their logs have the statement.
    """
    lines = f"Error: {error.message}".split("\n")
    if isinstance(error, Unauthenticated) and error.message.startswith(PROOF_WANTED):
        lines.append(_PROOFS)
    if error.statement and not isinstance(error, MISTAKES_OF_CALLER):
        lines.append(f"(Statement {error.statement} in the logs of the hosts.)")
    return [escape_unprintable(line) for line in lines]


def human_seconds(seconds: float) -> str:
    """A duration with three digits that matter, such as `850 µs`, `12.3 ms` or `4.20 s`."""
    if seconds < 0.001:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 1:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.2f} s" if seconds < 60 else f"{seconds / 60:.1f} min"


def terminal(*, stderr: bool = False) -> Console:
    """The console that commands print to.

    Args:
        stderr: Print to standard error instead of standard output.

    Returns:
        A console that is as wide as the terminal; where there is none, so wide that nothing is cut. It shows
        texts as they are, without markup and emoji codes.
    """
    from rich.console import Console  # noqa: PLC0415  rich is imported when something is shown

    class Terminal(Console):
        """A console that says that nobody reads any more, as every other output does."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    open_terminal = partial(Terminal, stderr=stderr, markup=False, emoji=False, highlight=False)
    console = open_terminal(soft_wrap=False)
    return console if console.is_terminal else open_terminal(width=100_000, color_system=None)
