"""Results as text, and as bytes that other programs read."""

from __future__ import annotations

import csv
import datetime as dt
import decimal
import io
import json

import duckdb
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from engine.errors import InvalidInput, NotFound
from engine.model.quantities import human_bytes, quantity
from flight_server.cli.render import (
    display_text,
    error_lines,
    escape_unprintable,
    first_rows,
    human_seconds,
    python_values,
    result_table,
    write_arrow,
    write_csv,
    write_json,
)

ROWS = pa.table(
    {
        "id": pa.array([1, 2], pa.int64()),
        "amount": pa.array([decimal.Decimal("1234567890123456789.50"), None], pa.decimal128(38, 2)),
        "name": ['a "b", c\nd', None],
        "raw": [b"\x00\xff", None],
        "at": pa.array([dt.datetime(2024, 5, 17, 12, 30, tzinfo=dt.UTC), None], pa.timestamp("us", "UTC")),
        "tags": pa.array([["x", None], []], pa.list_(pa.string())),
        "point": pa.array([{"x": 1.5}, None], pa.struct([("x", pa.float64())])),
        "counts": pa.array([[("k", 7)], None], pa.map_(pa.string(), pa.int64())),
    }
)


def render(rows: pa.Table, width: int = 200) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(result_table(rows, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_csv_can_be_read_back() -> None:
    out = io.BytesIO()
    assert write_csv(ROWS.schema, ROWS.to_batches(max_chunksize=1), out) == 2
    out.seek(0)
    # Nulls are empty and not quoted, so that they differ from empty texts.
    assert out.getvalue().splitlines()[-1] == b'2,,,,,"[]",,'
    out.seek(0)
    convert = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    options = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv(out, parse_options=options, convert_options=convert)
    assert read["name"].to_pylist() == ROWS["name"].to_pylist()
    assert read["raw"][0].as_py() == "\\x00ff"
    assert json.loads(read["tags"][0].as_py()) == ["x", None]
    assert json.loads(read["counts"][0].as_py()) == [["k", 7]]


def test_csv_of_no_rows_has_its_header() -> None:
    out = io.BytesIO()
    assert write_csv(ROWS.schema, [], out) == 0
    assert out.getvalue().startswith(b'"id","amount"')


def test_json_is_one_object_a_line_and_keeps_every_digit() -> None:
    out = io.BytesIO()
    assert write_json(ROWS.schema, ROWS.to_batches(), out) == 2
    first, second = [json.loads(line) for line in out.getvalue().decode().splitlines()]
    assert first == {
        "id": 1,
        "amount": "1234567890123456789.50",
        "name": 'a "b", c\nd',
        "raw": "\\x00ff",
        "at": "2024-05-17T12:30:00Z",
        "tags": ["x", None],
        "point": {"x": 1.5},
        "counts": [["k", 7]],
    }
    assert second["amount"] is None


_DOUBLES = st.floats(width=64)
_FLOATS = st.floats(width=32)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(_DOUBLES, _FLOATS), min_size=1, max_size=8))
def test_numbers_are_read_back_as_they_were(values: list[tuple[float, float]]) -> None:
    doubles, floats = (
        pa.array(column, pa.float64()).cast(kind)
        for column, kind in zip(zip(*values, strict=True), (pa.float64(), pa.float32()), strict=True)
    )
    nested = pa.StructArray.from_arrays(
        [doubles, pa.ListArray.from_arrays([0, *range(1, len(floats) + 1)], floats)], names=["d", "f"]
    )
    rows = pa.table({"d": doubles, "f": floats, "n": nested})
    out = io.BytesIO()
    write_csv(rows.schema, rows.to_batches(), out)
    csv_rows = list(csv.DictReader(io.StringIO(out.getvalue().decode())))
    out = io.BytesIO()
    write_json(rows.schema, rows.to_batches(), out)
    json_rows = [json.loads(line) for line in out.getvalue().splitlines()]
    console = Console(width=100_000, file=io.StringIO(), color_system=None)
    console.print(result_table(rows, 100_000))
    assert isinstance(console.file, io.StringIO)
    table_rows = [line.split(maxsplit=2) for line in console.file.getvalue().splitlines()[2:]]
    assert len(csv_rows) == len(json_rows) == len(table_rows) == len(values)
    for place, (from_csv, from_json, from_table) in enumerate(
        zip(csv_rows, json_rows, table_rows, strict=True)
    ):
        texts = [
            from_csv["d"],
            from_json["d"],
            from_table[0],
            *(json.loads(text)["d"] for text in (from_csv["n"], from_table[2])),
            from_json["n"]["d"],
        ]
        assert {_bits(pa.scalar(float(text), pa.float64())) for text in texts} == {_bits(doubles[place])}
        texts = [
            from_csv["f"],
            from_json["f"],
            from_table[1],
            *(json.loads(text)["f"][0] for text in (from_csv["n"], from_table[2])),
            from_json["n"]["f"][0],
        ]
        assert {_bits(pa.scalar(float(text), pa.float64()).cast(pa.float32())) for text in texts} == {
            _bits(floats[place])
        }


def _bits(number: pa.Scalar) -> str:
    """What tells a number from every other one; all NaNs are one."""
    return str(float(number.as_py()).hex())


def test_a_float_has_no_digits_that_it_does_not_keep() -> None:
    rows = pa.table({"f": pa.array([0.1, 16777216, 1 / 3, 1e-45, 3.4028235e38], pa.float32())})
    assert [str(value) for value in python_values(rows["f"])] == [
        "0.1",
        "16777216.0",
        "0.33333334",
        "1e-45",
        "3.4028235e+38",
    ]


def test_json_is_valid_where_numbers_are_not_finite() -> None:
    out = io.BytesIO()
    rows = pa.table({"x": [float("nan"), float("inf")]})
    write_json(rows.schema, rows.to_batches(), out)
    assert [json.loads(line)["x"] for line in out.getvalue().splitlines()] == ["nan", "inf"]


def test_columns_of_one_name_are_all_there() -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    out = io.BytesIO()
    write_json(rows.schema, rows.to_batches(), out)
    assert json.loads(out.getvalue()) == {"a": 1, "a_2": 2}


def test_arrow_is_a_stream_that_reads_back_equal() -> None:
    out = io.BytesIO()
    assert write_arrow(ROWS.schema, ROWS.to_batches(), out) == 2
    assert pa.ipc.open_stream(out.getvalue()).read_all().equals(ROWS)


def test_a_table_shows_null_and_no_control_characters() -> None:
    text = render(pa.table({"name": ["red\x1b[31m", None], "n": [1, 22]}))
    assert "\x1b" not in text
    assert "red\\x1b[31m" in text
    assert "NULL" in text
    assert text.splitlines()[2].rstrip().endswith(" 1"), "numbers are right-aligned"


def test_brackets_are_text_and_not_markup() -> None:
    assert "[bold]x" in render(pa.table({"[red]a": ["[bold]x"]}))
    assert "[red]a" in render(pa.table({"[red]a": ["[bold]x"]}))


def test_rows_stand_one_under_the_other_where_columns_do_not_fit() -> None:
    rows = pa.table({f"column_{i}": [i] for i in range(30)})
    text = render(rows, width=80)
    assert text.splitlines()[0].strip() == "row 1"
    assert "column_29  29" in text


def test_first_rows_reads_no_further_than_it_has_to() -> None:
    asked = []

    def batches() -> object:
        for number in range(10):
            asked.append(number)
            yield pa.record_batch({"n": [number] * 10})

    schema = pa.schema([("n", pa.int64())])
    rows, more = first_rows(batches(), schema, 15)  # type: ignore[arg-type]
    assert (rows.num_rows, more, asked) == (15, True, [0, 1])
    assert first_rows([pa.record_batch({"n": [1]})], schema, 1)[1] is False
    assert first_rows(batches(), schema, 0)[0].num_rows == 100  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        (True, "true"),
        (1e300, "1e+300"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5.0, "5.0"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (dt.date(2024, 1, 2), "2024-01-02"),
        ({"a": [1]}, '{"a": [1]}'),
        ("\t", "\\t"),
    ],
)
def test_one_value(value: object, text: str | None) -> None:
    assert display_text(value) == text


def test_an_error_keeps_its_lines_and_nothing_that_steers_a_terminal() -> None:
    assert error_lines(NotFound("There is no x\x1b[2J.\nLine 1\n ^")) == [
        "Error: There is no x\\x1b[2J.",
        "Line 1",
        " ^",
    ]
    assert escape_unprintable("é✓") == "é✓"


def test_sizes_and_durations() -> None:
    assert [human_bytes(n) for n in (0, 1023, 1536, 5 << 30)] == ["0 B", "1023 B", "1.5 KiB", "5.0 GiB"]
    assert [quantity(n, "row") for n in (0, 1, 1200)] == ["0 rows", "1 row", "1,200 rows"]
    assert [human_seconds(s) for s in (0.00085, 0.0123, 4.2, 150)] == [
        "850 µs",
        "12.3 ms",
        "4.20 s",
        "2.5 min",
    ]


@pytest.mark.parametrize(
    "text",
    [
        *("DATE '20000-01-01'", "DATE 'infinity'", "DATE '0044-03-15 (BC)'", "DATE '290000-12-31'"),
        *("TIMESTAMP '-infinity'", "TIMESTAMP '30000-01-02 03:04:05'", "TIMESTAMP '-0001-01-01 00:00:00'"),
        *("TIMESTAMP_NS '2024-01-01 00:00:00.123456789'", "DATE '2400-02-29'", "DATE '10000-02-29'"),
    ],
)
def test_times_that_python_does_not_know_are_shown_as_the_engine_shows_them(text: str) -> None:
    sql = f"SELECT {text} AS v, CAST({text} AS VARCHAR) AS said, [{text}] AS listed"
    relation = duckdb.sql(sql)
    assert relation is not None
    rows = relation.to_arrow_table()
    (shown,) = (display_text(value) for value in python_values(rows["v"]))
    assert shown == rows["said"][0].as_py()
    (listed,) = (display_text(value) for value in python_values(rows["listed"]))
    assert (listed or "").replace("T", " ") == f'["{shown}"]'
    out = io.BytesIO()
    if text.startswith(("TIMESTAMP_NS", "DATE '2400")):
        write_csv(rows.schema, rows.to_batches(), out)
        assert (shown or "").encode() in out.getvalue()
    else:
        with pytest.raises(InvalidInput, match="outside the years 1 to 9999: cast the column to VARCHAR"):
            write_csv(rows.schema, rows.to_batches(), out)


def test_columns_of_one_name_get_names_that_nobody_has() -> None:
    rows = pa.Table.from_arrays([pa.array([place]) for place in range(4)], names=["a", "a", "a_2", "a"])
    out = io.BytesIO()
    write_json(rows.schema, rows.to_batches(), out)
    assert json.loads(out.getvalue()) == {"a": 0, "a_3": 1, "a_2": 2, "a_4": 3}


def test_the_end_of_a_day_is_not_its_beginning() -> None:
    times = pa.array([86_400_000_000, None, 0, 3_600_000_001], pa.time64("us"))
    rows = pa.table({"at": times})
    out = io.BytesIO()
    write_json(rows.schema, rows.to_batches(), out)
    found = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [row["at"] for row in found] == ["24:00:00", None, "00:00:00", "01:00:00.000001"]
    with pytest.raises(InvalidInput, match="no form for the time 24:00:00"):
        write_csv(rows.schema, rows.to_batches(), io.BytesIO())


@pytest.mark.parametrize(
    "text",
    [
        "1 month 2 days 03:04:05.5",
        "-14 months",
        "-1 days",
        "0 days",
        "-00:00:00.000001",
        "1 year -1 day 100:00:00",
    ],
)
def test_intervals_are_shown_as_the_engine_shows_them(text: str) -> None:
    sql = f"SELECT i, i::VARCHAR AS text, [i] AS list FROM (SELECT INTERVAL '{text}' AS i)"
    relation = duckdb.sql(sql)
    assert relation is not None
    found = relation.to_arrow_table()
    shown = found["text"][0].as_py()
    assert [display_text(value) for value in python_values(found["i"])] == [shown]
    out = io.BytesIO()
    write_json(found.schema, found.to_batches(), out)
    assert json.loads(out.getvalue()) == {"i": shown, "text": shown, "list": [shown]}
    out = io.BytesIO()
    write_csv(found.schema, found.to_batches(), out)
    assert list(csv.reader(io.StringIO(out.getvalue().decode())))[1] == [shown, shown, json.dumps([shown])]
