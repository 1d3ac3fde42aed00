"""Functions that make much of little are bounded, whichever the engine has."""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, product

import duckdb
import pyarrow as pa
import pytest
from sqlglot import parse_one

from engine.deadline import Deadline
from engine.duckdb.binder import Binder
from engine.duckdb.engine import Engine
from engine.duckdb.growth import (
    COPYING_FUNCTIONS,
    MAX_COPIES,
    MAX_DOUBLINGS,
    MAX_JOINS,
    MAX_LISTED,
    MAX_NESTING,
    MAX_SORTED,
    MAX_TEXT,
    MAX_WITHS,
    MULTIPLYING_FUNCTIONS,
    UNMEASURED_FUNCTIONS,
    copies,
    is_parsed_quickly,
    lists_many_columns,
    needs_worker,
)
from engine.duckdb.handover import fills_rows, makes_one_of_many, repeats_long_values
from engine.duckdb.results import result_schema
from engine.errors import DeadlineExceeded, InvalidInput, LimitExceeded, Unsupported
from engine.plan.query_text import engine_text
from engine.service import QueryOptions, QueryService, Session
from engine.sql.engine_dialect import EngineDialect
from engine.sql.functions import is_refused
from engine.sql.literals import lift
from engine.sql.parse import parse
from tests.fuzz.grammar import nested_texts
from tests.support.memory_source import MemorySource
from tests.support.processor_time import is_longer
from tests.support.resident import grows_by_at_most
from tests.tpch.stores import queries

TPC_H = queries()

COUNT = 20_000
TOLERANCE = 150
TEXT, NUMBERS = "repeat('x', 300)", "range(300)"
ESCAPED = "repeat(chr(92), 300)"
NUMBER_TYPES = ("INTEGER", "BIGINT", "UINTEGER", "UBIGINT", "HUGEINT", "UHUGEINT")
SAMPLES = {
    **{kind: [f"{COUNT}::{kind}", f"1::{kind}", f"0::{kind}"] for kind in NUMBER_TYPES},
    **{kind: [f"100::{kind}"] for kind in ("TINYINT", "UTINYINT", "SMALLINT", "USMALLINT", "DECIMAL")},
    "BIGNUM": [f"{COUNT}::BIGNUM"],
    "DOUBLE": [f"{COUNT}.0::DOUBLE", "1.0::DOUBLE"],
    "FLOAT": [f"{COUNT}.0::FLOAT"],
    "VARCHAR": [
        TEXT,
        "'x'",
        "'g'",
        f"'%{COUNT}d'",
        f"'{{:{COUNT}}}'",
        "'year'",
        "'string_agg'",
        "'[1]'",
        ESCAPED,
    ],
    "BLOB": [f"encode({TEXT})"],
    "BIT": ["'0101'::BIT"],
    "BOOLEAN": ["true"],
    "UUID": ["uuid()"],
    "DATE": ["DATE '2020-01-01'", "DATE '2030-01-01'"],
    "TIME": ["TIME '01:00:00'"],
    "TIME WITH TIME ZONE": ["'01:00:00+00'::TIMETZ"],
    "TIME_NS": ["'01:00:00'::TIME_NS"],
    "TIMESTAMP": ["TIMESTAMP '2020-01-01'", "TIMESTAMP '2030-01-01'"],
    "TIMESTAMP_NS": ["TIMESTAMP_NS '2020-01-01'", "TIMESTAMP_NS '2030-01-01'"],
    "TIMESTAMP WITH TIME ZONE": [
        "TIMESTAMPTZ '2020-01-01 00:00:00+00'",
        "TIMESTAMPTZ '2030-01-01 00:00:00+00'",
    ],
    "INTERVAL": ["INTERVAL 1 DAY"],
    "JSON": ["'[1, 2]'::JSON"],
    "STRUCT": ["{'a': 1}"],
    "ENUM": ["'a'::ENUM('a', 'b')"],
    "UNION": ["union_value(a := 1)"],
    "LAMBDA": ["lambda x: range(300)", "lambda x: x", "lambda x: true", "lambda x, y: x"],
    "MAP": ["MAP {'a': 1}"],
}
ANYTHING = [TEXT, NUMBERS, str(COUNT), "1", "{'a': 1}", ESCAPED]


def samples(kind: str | None) -> list[str]:
    name = "ANY" if kind is None else kind.upper()
    if name in SAMPLES:
        return SAMPLES[name]
    if name.startswith("LAMBDA"):
        return SAMPLES["LAMBDA"]
    if name.startswith("MAP"):
        return SAMPLES["MAP"]
    if "ARRAY" in name or name.endswith(("[ANY]", "[3]")):
        return ["[1.0, 2.0, 3.0]::FLOAT[3]"]
    if name.endswith("[]") or name == "LIST":
        return [
            "[repeat('x', 300) for i in range(30)]",
            NUMBERS,
            "[true]",
            "[range(3)]",
            "[{'k': 1, 'v': 2}]",
        ]
    return ANYTHING


def argument_lists(kinds: Sequence[str | None]) -> list[list[str]]:
    """Arguments for a call, the largest first."""
    lists = [list(enumerate(samples(kind))) for kind in kinds]
    choices = sorted(product(*lists), key=lambda choice: sum(place for place, _ in choice))[:40]
    return [[argument for _, argument in choice] for choice in choices]


def size(database: duckdb.DuckDBPyConnection, expression: str) -> int:
    return int(database.sql(f"SELECT {expression}").to_arrow_table().nbytes)


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"memory_limit": "500MB", "threads": "1"}) as database:
        database.execute("SET TimeZone = 'UTC'")
        yield database


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine(100 << 20, 1)
    yield found
    found.close()


def test_all_functions_that_make_much_of_little_are_known(plain: duckdb.DuckDBPyConnection) -> None:
    found = plain.execute("""
        SELECT function_name, parameter_types, varargs FROM duckdb_functions()
        WHERE function_type IN ('scalar', 'macro') AND internal ORDER BY ALL
    """).fetchall()
    sizes: dict[str, int] = {}
    called, multiplying, copying = set(), set(), set()
    for name, types, more in found:
        if is_refused(name):
            called.add(name)
            continue
        known = list(types or ())
        for arguments in chain.from_iterable(
            argument_lists([*known, *extra]) for extra in ([], [more], [more] * 2) if more or not extra
        ):
            try:
                made = size(plain, f'"{name}"({", ".join(arguments)})')
            except (duckdb.Error, pa.ArrowException):
                continue
            called.add(name)
            sizes |= {
                argument: size(plain, argument)
                for argument in arguments
                if argument not in sizes and "lambda" not in argument
            }
            given = [sizes.get(argument, 0) for argument in arguments]
            if made > TOLERANCE + 2 * sum(given):
                multiplying.add(name)
                break
            if made > TOLERANCE + 1.2 * max(given, default=0):
                copying.add(name)
    assert {name for name in multiplying if not needs_worker(f"SELECT {name}(a)")} == set()
    assert {name for name in copying if not needs_worker(f"SELECT {f'{name}(' * (MAX_COPIES + 1)}")} == set()
    # Their lambdas, and the functions that they name, can do anything.
    assert MULTIPLYING_FUNCTIONS - multiplying == {
        *("list_reduce", "array_reduce", "reduce", "aggregate"),
        *("list_aggr", "list_aggregate", "array_aggr", "array_aggregate"),
    }
    # The tolerance hides two of them, and arguments by name cannot be drawn.
    assert COPYING_FUNCTIONS - copying - multiplying == {"base64", "to_base64", "struct_pack"}
    assert {name for name, *_ in found} - called == UNMEASURED_FUNCTIONS


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a, sum(b) FROM t WHERE c > 5 GROUP BY a", False),
        ("SELECT json_contains(a, b) FROM t", True),
        ("SELECT a::JSON::variant FROM t", True),
        ('SELECT TRY_CAST(a AS\n "Variant") FROM t', True),
        ("SELECT a:: system . main .VARIANT FROM t", True),
        ('SELECT a::"main"."variant"[] FROM t', True),
        ("SELECT CAST(a AS -- x\n VARIANT) FROM t", True),
        ("SELECT CAST(a AS /* x */ VARIANT) FROM t", True),
        ("SELECT a::STRUCT(a INT, b VARIANT) FROM t", True),
        ("SELECT a::MAP(VARCHAR, VARIANT) FROM t", True),
        ("SELECT a::ROW(x VARIANT)[] FROM t", True),
        ("SELECT a::PARQUET_VARIANT FROM t", True),
        ("SELECT VARIANT 'x'", True),
        ("SELECT variant $$x$$", True),
        ("SELECT variant, count(*) AS n FROM t WHERE variant <> 'a' GROUP BY variant", False),
        ('SELECT t.variant, "variant" FROM t', False),
        ("SELECT a || ' ' || b || ', ' || c FROM t", False),
        ('SELECT "range" FROM t', False),
        ("SELECT Range (3)", True),
        ('SELECT "range"(3)', True),
        ("SELECT 'x'.repeat(3)", True),
        ("SELECT [x + 1 FOR x IN [1, 2]]", True),
        ("SELECT list_apply([1], lambda x: x)", True),
        ("WITH RECURSIVE r AS (SELECT 'x' s UNION ALL SELECT s || s FROM r) SELECT * FROM r", True),
        ("WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n - 1 FROM r) SELECT * FROM r", False),
        (f"SELECT {' || '.join('a' * (MAX_COPIES + 2))}", True),
        (f"SELECT {' + '.join('a' * (MAX_COPIES + 2))}", True),
        (f"SELECT a{' + 1' * MAX_COPIES} + INTERVAL '1' DAY + interval_ FROM t", False),
        (f"SELECT a{' + interval_' * (MAX_COPIES + 1)} FROM t", True),
        (f"SELECT {' '.join(f'a{n} COLLATE NOCASE,' for n in range(MAX_COPIES + 1))} b", True),
        (f"SELECT {'a' * MAX_TEXT} FROM t", True),
        ("SELECT nullif(a, 0), nullif(b, 0) FROM t WHERE a = ANY (SELECT 1)", False),
        (f"SELECT {'NULLIF (' * (MAX_DOUBLINGS + 1)}", True),
        (f"SELECT {'a > ALL(SELECT ' * (MAX_DOUBLINGS + 1)}", True),
        (f"SELECT {'(' * MAX_NESTING}a{')' * MAX_NESTING}, (b), (c) FROM t", False),
        (f"SELECT 1 FROM t {'JOIN json_tree(a) ON a ' * (MAX_JOINS + 1)}", True),
        (f"SELECT 1 FROM {'t, ' * MAX_JOINS} t", False),
        (f"SELECT 1 FROM {'t, ' * (MAX_JOINS + 1)} t", True),
        (f"SELECT 1 FROM {'(SELECT a, b FROM t), ' * (MAX_JOINS + 1)} t WHERE c", True),
        (
            f"SELECT {'extract(year FROM a), ' * (MAX_JOINS + 1)} b FROM t ORDER BY {'a, ' * MAX_JOINS} b",
            False,
        ),
        (f"SELECT {'a, ' * (MAX_SORTED + 1)} b FROM t ORDER BY a, b", False),
        (f"SELECT sum(b) OVER (PARTITION BY {'a, ' * (MAX_SORTED + 1)} b) FROM t", True),
        (f"SELECT {'[(' * MAX_NESTING}a{')]' * MAX_NESTING} FROM t", True),
        (f"{'WITH d AS (' * MAX_WITHS}SELECT 1{') SELECT 1' * MAX_WITHS}", False),
        (f"{'WITH d AS (' * (MAX_WITHS + 1)}SELECT 1{') SELECT 1' * (MAX_WITHS + 1)}", True),
        (f"SELECT {'a::TIMESTAMP WITH TIME ZONE, ' * MAX_JOINS}", False),
    ],
)
def test_where_statements_run(sql: str, *, expected: bool) -> None:
    assert needs_worker(sql) == expected


@pytest.mark.parametrize("piece", ["a", "a ", "max", "max(", 'list"', "1", "over ", "' ", "("])
def test_long_words_are_read_once(piece: str) -> None:
    text = f"SELECT {piece * (400_000 // len(piece))}"
    assert copies(text) == 0
    assert makes_one_of_many(text) == (piece == "max(")
    assert needs_worker(text)


@pytest.mark.parametrize("name", TPC_H)
def test_no_query_of_tpc_h_needs_a_worker(name: str) -> None:
    """To hand its rows over takes ten times as long as to read them here."""
    stream = pa.RecordBatchReader.from_batches(pa.schema([("key", pa.int64()), ("text", pa.string())]), [])
    streams = {str(number): stream for number in range(8)}
    sql = engine_text(parse_one(TPC_H[name], dialect=EngineDialect))
    # As it is, and with its values taken out and put in again; what is added up stays.
    value = r"(?<!DATE )(?<!INTERVAL )'[^']*'|(?<![\w.'])(?<!\+ )\d+(?![\w.'])(?! \+)"
    bound = re.sub(value, "CAST($1 AS DECIMAL(15, 2))", sql)
    for text in (sql, bound):
        assert not needs_worker(text)
        assert not repeats_long_values(text, streams, ())


def calls(listed: str) -> list[str]:
    return [call.strip().replace("\\|", "|") for call in re.split(r"(?<!\\)\|", listed)]


COLLECTING = """
    list(k) | "list" (k) | array_agg(k) | array(SELECT k) | string_agg(s) | "string_agg"(s, ',')
    | listagg(1, ', ') | group_concat(s) | histogram(k) | histogram_exact(k, [1]) | json_group_array(k)
    | json_group_object(s, k) | bitstring_agg(k) | max(k, 100) | "min"(abs(k), k) | max(concat(s, ')'), 1000)
    | arg_max(k, s, 20000) | argmin(s, abs(k), 1000) | max_by(k, s, 10 + 990)
    | arg_min_nulls_last(k, s, 100) | approx_top_k(k, 1000) | lttb(k, k, 1000)
"""
SINGLE = """
    max(k) | min(s) | max(greatest(k, 100)) | max(k, 99) | arg_max(k, s) | max_by(k, greatest(k, 100))
    | min_by(k, s, 5) | sum(k) | listed(k) | first(k) | mode(k)
"""


@pytest.mark.parametrize("call", calls(COLLECTING))
def test_a_value_of_many_rows_is_put_in_many_rows_elsewhere(call: str) -> None:
    rows = pa.table({"k": pa.array(range(2000), pa.int64()), "s": ["x"] * 2000})
    for sql in (f"SELECT {call} OVER () FROM t", f"SELECT s, l FROM t, (SELECT {call} l FROM t)"):
        assert repeats_long_values(sql, {"t": rows}, ()), sql
        assert not repeats_long_values(sql, {"t": rows.slice(0, 10)}, ()), sql


@pytest.mark.parametrize("call", ["list(k)", "max(k, 20000)", "listagg(1, ', ')"])
def test_no_name_hides_what_makes_one_value_of_many_rows(call: str) -> None:
    """A name has quotation marks of strings in it, or brackets and commas."""
    for sql in (f'SELECT 1 AS "a\'", {call} AS b, 2 AS "c\'" FROM t', f'SELECT \'"\', {call} AS "d" FROM t'):
        assert makes_one_of_many(sql), sql
    assert makes_one_of_many('SELECT max("a)", 20000) FROM t')
    assert makes_one_of_many('SELECT max("a,", "(") FROM t')
    assert not makes_one_of_many("SELECT 'list(k)', max(k) FROM t")


@pytest.mark.parametrize("call", calls(SINGLE))
def test_a_value_of_few_rows_is_put_in_many_rows_here(call: str) -> None:
    rows = pa.table({"k": pa.array(range(2000), pa.int64()), "s": ["x"] * 2000})
    assert not repeats_long_values(f"SELECT {call} OVER () FROM t", {"t": rows}, ())


@pytest.mark.parametrize(
    ("select", "parameters", "columns", "row_width"),
    [
        (f"'{'x' * 9000}'", [], 1, 0),
        (f"'{'ü' * 4500}'", [], 1, 0),
        (f"'{'😀' * 2200}'", [], 1, 0),
        (f"$${'x' * 9000}$$", [], 1, 0),
        ("?", ["x" * 9000], 1, 0),
        ("?", ["ü" * 4500], 1, 0),
        ("?", [["x" * 9] * 1000], 1, 0),
        (f"concat(s, '{'x' * 5000}')", [], 1, 0),
        (f"('{'x' * 2000}', '{'x' * 2500}')", [], 1, 0),
        (f"[{', '.join(['1'] * 1200)}]", [], 1, 0),
        (f"'{'x' * 500}'", [], 70, 0),
        (f"'{'x' * 500}'", [], 1, 20),
    ],
)
def test_rows_are_filled_elsewhere(
    select: str, parameters: Sequence[object], columns: int, row_width: int
) -> None:
    """The engine makes 2,048 of them before it is asked for one, and counts none of their bytes."""
    rows, sql, types = pa.table({"s": ["x"] * 2000}), f"SELECT {select} FROM t", ["VARCHAR"] * columns
    assert fills_rows(types, sql, {"t": rows}, parameters, row_width)
    assert not fills_rows(["BIGINT"] * columns, sql, {"t": rows}, parameters, row_width)
    assert not fills_rows(types, f"SELECT {select}", {}, parameters, row_width)
    assert not fills_rows(types, "SELECT s FROM t WHERE s <> 'short' LIMIT ?", {"t": rows}, [10], 0)


def test_rows_are_filled_elsewhere_with_copies_of_long_values() -> None:
    rows, sql = pa.table({"s": ["x" * 2000] * 2000, "k": range(2000)}), "SELECT * FROM t"
    assert not fills_rows(["VARCHAR", "BIGINT"], sql, {"t": rows}, [], 0)
    assert not fills_rows(["VARCHAR"] * 10, sql, {"t": rows}, [], 0)
    assert fills_rows(["VARCHAR"] * 100, sql, {"t": rows}, [], 0)


def test_every_aggregate_that_collects_is_known(plain: duckdb.DuckDBPyConnection) -> None:
    found = plain.execute("""
        SELECT DISTINCT function_name, parameter_types FROM duckdb_functions()
        WHERE function_type = 'aggregate' ORDER BY ALL
    """).fetchall()
    collecting, ran = set(), set()
    for name, types in found:
        arguments = [value_of_row(kind) for kind in types]
        if len(types) > 1 and types[-1] == "BIGINT":
            # How many values are wanted.
            arguments[-1] = "1000"
        call = f"{name}({', '.join(arguments)})"
        try:
            made = plain.sql(f"SELECT {call} FROM range(5000) t(i)").to_arrow_table().nbytes
        except (duckdb.Error, pa.ArrowException):
            continue
        ran.add(name)
        if made > 4000:
            collecting.add(name)
            assert makes_one_of_many(f"SELECT {call} FROM t"), call
    assert {"list", "string_agg", "histogram", "max", "arg_min", "max_by", "lttb"} <= collecting
    # The first is known by its name, the others give no more than is asked of them.
    assert {name for name, _ in found} - ran == {"bitstring_agg", "combine_aggr", "reservoir_quantile"}


def value_of_row(kind: str | None) -> str:
    """An argument that differs from row to row, where its type has many values."""
    if kind is not None and kind.endswith("[]"):
        return "[0.5]"
    if kind in {"VARCHAR", "BLOB"}:
        return f"('text ' || i)::{kind}"
    return "i" if kind in {None, "ANY", "T"} else f"i::{kind}"


@pytest.fixture(scope="module")
def small_service(source: MemorySource) -> Iterator[QueryService]:
    """What the engine counts by itself stays far below the bound of these tests."""
    found = QueryService(source, QueryOptions(memory_limit_bytes=64 << 20, threads=2))
    yield found
    found.close()


MEASURABLE_SECONDS = 0.02
"""Of the processor's time; what is bound twice on each level takes more, on any machine."""
MOST_PARSING_SECONDS = 0.3
"""Of the processor's time on a usual machine; what is parsed twice on each level takes seconds at the least."""
ENDS = r"more memory than|max bin|larger than|time-out|width"


SAME = """
    repeat('x', 3) | repeat(NULL, 3) | repeat('x', NULL) | repeat('x', -1) | repeat([1, 2], 3)
    | repeat('ab'::BLOB, 2) | range(3) | range(2, 5)
    | range(5, 2) | range(1, 10, 0) | range(10, 1, -3) | range(-3) | range(1, NULL) | range(NULL, 1)
    | range(1, 5, NULL)
    | range(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL 6 HOUR)
    | range(DATE '2020-01-01', DATE '2020-01-03', INTERVAL 1 DAY)
    | range(TIMESTAMPTZ '2020-01-01 00:00:00+00', TIMESTAMPTZ '2020-01-02 00:00:00+00', INTERVAL 6 HOUR)
    | range(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-02', INTERVAL 0 DAY)
    | range(TIMESTAMP '2020-01-02', TIMESTAMP '2020-01-01', INTERVAL (-1) DAY)
    | generate_series(3) | generate_series(3, 1, -1) | generate_series(NULL) | generate_series(1.4::BIGINT)
    | generate_series(0, 2::TINYINT)
    | generate_series(DATE '2020-01-31', DATE '2020-04-30', INTERVAL 1 MONTH)
    | lpad('ab', 5, 'xy') | lpad('ab', 1, 'xy') | lpad(NULL, 5, 'x') | rpad('ab', 5, 'xy')
    | lpad('ab', -1, 'x') | rpad('äb', 5, 'ü')
    | list_resize([1, 2], 4) | list_resize([1, 2], 4, 0) | list_resize([1, 2], 4, NULL)
    | list_resize([1], NULL) | list_resize(NULL, 3)
    | array_resize(['a'], 2, 'b') | list_resize([[1]], 2, [2, 3]) | bitstring('0101'::BIT, 8)::VARCHAR
    | bitstring('0101', 8)::VARCHAR
    | format('{} {:>5} {:d}', 'a', 'b', 3) | format('x') | format(NULL, 'a') | format('{:>12}', 'a')
    | format('{{{}}}', 1)
    | printf('%5d %s', 3, 'a') | printf('100%%') | printf('%.2f', 3.14159)
    | concat_ws(',', 'a', NULL, 'b') | concat_ws(',', ['a', 'b'], 'c') | concat_ws(NULL, 'a')
    | concat_ws(',', NULL) | concat_ws(', ', 1, true)
    | replace('aXa', 'X', 'yy') | replace('a', '', 'x') | replace(NULL, 'a', 'b') | replace('a', 'a', NULL)
    | regexp_replace('aaa', 'a', 'b')
    | regexp_replace('aaa', 'a', 'b', 'g') | regexp_replace('abc', '(b)', '[\\1]')
    | regexp_replace('ABC', 'b', 'x', 'i')
    | 'ab'.repeat(2) | [1, 2].list_resize(3) | list_transform(['a', 'b'], lambda x: lpad(x, 3, '.'))
    | len(range(300000))
"""


@pytest.mark.parametrize("call", calls(SAME))
def test_calls_mean_in_a_worker_what_they_mean_to_the_engine(
    plain: duckdb.DuckDBPyConnection, engine: Engine, call: str
) -> None:
    expected = plain.sql(f"SELECT {call}")
    rows = engine.run(f"SELECT {call}", {}, (), Deadline(60.0))
    try:
        found = pa.Table.from_batches(list(rows), rows.schema)
    finally:
        rows.close()
    assert [(column.name, column.type) for column in rows.columns] == list(
        zip(expected.columns, map(str, expected.types), strict=True)
    )
    table = expected.to_arrow_table()
    assert found.to_pylist() == table.cast(result_schema(table.schema)).to_pylist()


LARGE = """
    range(20000000) | range(-9223372036854775808, 9223372036854775807) | range(0, 1000000000, 3)
    | range(0, -1000000000, -3)
    | generate_series(20000000)
    | range(TIMESTAMP '0001-01-01', TIMESTAMP '9999-01-01', INTERVAL 1 SECOND)
    | range(DATE '2020-01-01', DATE '2030-01-01', INTERVAL 1 SECOND)
    | generate_series(TIMESTAMPTZ '2020-01-01 00:00:00+00', TIMESTAMPTZ '2030-01-01 00:00:00+00', INTERVAL 1 MILLISECOND)
    | repeat('x', 300000000) | repeat('x'::BLOB, 300000000) | repeat([1, 2, 3], 30000000)
    | repeat(['x'], 30000000) | lpad('x', 300000000, 'ab')
    | rpad('x', 300000000, 'ab') | list_resize([1], 30000000) | array_resize([1], 30000000, 2)
    | list_resize(['x'], 10000, repeat('x', 50000))
    | bitstring('01', 2000000000)::VARCHAR | bitstring('01'::BIT, 2000000000)::VARCHAR
    | concat_ws(repeat('x', 5000), range(100000))
    | equi_width_bins(0, 50000000, 50000000, false)
    | replace(repeat('x', 10000), 'x', repeat('x', 50000))
    | regexp_replace(repeat('x', 10000), 'x', repeat('x', 50000), 'g')
    | regexp_replace(repeat('x', 100000), '(.*)', repeat('\\1', 10000)) | format('{:300000000}', 1)
    | format('{:{}}', 'x', 300000000)
    | format('{0:>{1}}', 'x', 300000000) | printf('%300000000d', 1) | printf('%*d', 300000000, 1)
    | printf('%-300000000s', 'a')
    | array_to_string(range(100000), repeat('x', 5000))
    | list_aggregate(range(100000), 'string_agg', repeat('x', 5000))
    | (SELECT max(len(repeat(i::VARCHAR, 100000))) FROM range(4096) t(i))
    | (SELECT count(*) FROM range(len(range(20000000))))
    | (SELECT sum(len(lpad(i::VARCHAR, 100000, 'x'))) FROM range(4096) t(i))
    | (SELECT 1 LIMIT len(range(20000000)))
    | strftime(DATE '2020-01-01', repeat('x', 300000000)) | repeat(repeat(repeat('x', 1000), 1000), 1000)
    | len(list_transform(range(200000), lambda x: repeat('x', 5000)))
    | len(list_reduce(range(29), lambda a, b: a \\|\\| a, 'x'))
    | len(list_apply(range(1000), lambda x: range(60000)))
    | len([repeat('x', 100000 + y) for y in range(5000)])
    | (WITH RECURSIVE r AS (SELECT 'x' s, 1 n UNION ALL SELECT s \\|\\| s, n + 1 FROM r WHERE n < 30) SELECT max(len(s)) FROM r)
"""


@pytest.mark.parametrize("call", calls(LARGE))
def test_what_is_too_large_ends_within_its_memory_or_its_time(small_service: QueryService, call: str) -> None:
    """Some count to billions before they make anything."""
    with (
        grows_by_at_most(os.getpid(), 250),
        pytest.raises((LimitExceeded, InvalidInput, DeadlineExceeded), match=ENDS),
    ):
        small_service.execute(f"SELECT {call}", session=Session(timeout_seconds=3.0)).read_all()


DOUBLING = {
    "NULLIF({}, b)": 30,
    "({} > ALL (SELECT b FROM numbers))::INTEGER": 23,
}


@pytest.mark.parametrize("form", DOUBLING)
def test_what_is_bound_twice_on_each_level_ends_within_its_memory_or_its_time(
    small_service: QueryService, form: str
) -> None:
    nested = "a"
    for _ in range(DOUBLING[form]):
        nested = form.replace("{}", nested)
    sql = f"WITH numbers AS (SELECT 1 AS a, 2 AS b) SELECT {nested} FROM numbers"
    with grows_by_at_most(os.getpid(), 250), pytest.raises((LimitExceeded, DeadlineExceeded), match=ENDS):
        small_service.execute(sql, session=Session(timeout_seconds=3.0)).read_all()


def test_all_that_the_engine_binds_or_plans_twice_on_each_level_is_known(
    plain: duckdb.DuckDBPyConnection,
) -> None:
    plain.execute("CREATE TABLE t (k BIGINT, a BIGINT, b DOUBLE, s VARCHAR); CREATE TABLE u AS FROM t")

    def planning_seconds(sql: str) -> float:
        begun = time.process_time()
        with suppress(duckdb.Error):
            # What is planned beyond its binding, too.
            plain.execute(f"EXPLAIN {sql}")
        return time.process_time() - begun

    columns = len(plain.sql("FROM t").columns)
    doubling = []
    for deep, less_deep in zip(nested_texts(MAX_NESTING), nested_texts(MAX_NESTING - 4), strict=True):
        if needs_worker(deep) or lists_many_columns(deep, columns):
            continue
        if planning_seconds(deep) < MEASURABLE_SECONDS:
            continue
        # Four levels take 16 times as long where each doubles, and 2.4 times where each passes all again.
        seconds = [min(planning_seconds(sql) for _ in range(4)) for sql in (deep, less_deep)]
        if seconds[0] > MEASURABLE_SECONDS and seconds[0] > 5 * seconds[1]:
            doubling.append(deep)
    assert doubling == []


WINDOWED = pa.table({"k": range(20_000), "b": [number / 7 for number in range(20_000)]})
FRAMES = (
    "ORDER BY b ROWS BETWEEN 9000 PRECEDING AND 9000 FOLLOWING",
    "ORDER BY b",
    "ORDER BY b ROWS BETWEEN (k % 7919) PRECEDING AND (k % 6007) FOLLOWING",
    "ORDER BY b ROWS BETWEEN 9000 PRECEDING AND 9000 FOLLOWING EXCLUDE TIES",
)
MOST_OVERTIME_SECONDS = 1.0
"""Of the processor's time on a usual machine."""


def test_windows_that_nothing_interrupts_for_long_are_known(plain: duckdb.DuckDBPyConnection) -> None:
    """Frames of some thousand rows, which are interrupted at once."""
    names = plain.execute("""
        SELECT DISTINCT function_name, len(parameter_types) FROM duckdb_functions()
        WHERE function_type = 'aggregate' AND len(parameter_types) <= 2 ORDER BY ALL
    """).fetchall()
    plain.register("windowed", WINDOWED)
    slow = []
    for (name, count), frame in product(names, FRAMES):
        for given in (("b",), ("DISTINCT b",)) if count < 2 else (("b", "b"), ("b", "0.3"), ("b", "500")):
            sql = (
                f"SELECT count(x) FROM (SELECT {name}({', '.join(given)}) OVER ({frame}) AS x FROM windowed)"
            )
            if needs_worker(sql) or is_refused(name):
                continue
            timer = threading.Timer(0.05, plain.interrupt)
            timer.start()
            begun = time.process_time()
            with suppress(duckdb.Error):
                plain.execute(sql).fetchall()
            timer.cancel()
            timer.join()
            if is_longer(time.process_time() - begun, MOST_OVERTIME_SECONDS):
                slow.append(sql)
    plain.unregister("windowed")
    assert slow == []


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        *(("max(b)", False), ("max(coalesce(a, b))", False), ("max(b, 3)", True), ("max(abs(b), 3)", True)),
        *(("arg_max(a, b)", False), ("arg_max(a, b, 3)", True), ("max(')', 3)", True), ("MAD(b)", True)),
        *(("count(DISTINCT b)", True), ("sum(b)", False), ("quantile_cont(b, 0.5)", False)),
    ],
)
def test_windows_that_read_their_frames_anew_run_where_they_can_be_ended(call: str, expected: bool) -> None:
    assert needs_worker(f"SELECT {call} OVER (ORDER BY k) FROM t") == expected
    assert not needs_worker(f"SELECT {call} FROM t")


CHAINS_OF_LISTS = (
    *(" IN (a, b) BETWEEN(1) AND a IN (1, 2)", " IN (1, 2) || lower(s) IN ('a', 'b')"),
    *(" IN (a, b)", " NOT IN (1, 2)", " IN (a, b) IS NOT NULL", "::BIGINT + 1 IN (1, 2)"),
    *(" BETWEEN a AND b IN (1, 2)", " in(1, 2)", "\tIN\n(a, 1, 2)"),
)


@pytest.mark.parametrize("chain", CHAINS_OF_LISTS)
def test_lists_behind_each_other_are_planned_where_that_can_be_ended(chain: str) -> None:
    assert needs_worker(f"SELECT a{chain * 10} FROM t")


def test_long_lists_behind_each_other_are_planned_where_that_can_be_ended() -> None:
    values = ", ".join(f"a + {number}" for number in range(30))
    assert needs_worker(f"SELECT a IN ({values}) IN ({values}) FROM t")
    assert not needs_worker(f"SELECT a + 1 IN ({values}) FROM t")


def test_lists_of_values_of_columns_are_planned_here() -> None:
    conditions = [f"{name} {word} (1, 2)" for name in ("a", "t.b", '"c"') for word in ("IN", "NOT IN")] * 3
    assert not needs_worker(f"SELECT a FROM t WHERE {' AND '.join(conditions)}")
    assert not needs_worker(f"SELECT CASE WHEN a IN (1) THEN 1 END FROM t WHERE ({' OR '.join(conditions)})")
    values = ", ".join(f"'{number}'" for number in range(20))
    calls = (
        "lower(s)",
        "lower(trim(s))",
        "CAST(a AS VARCHAR)",
        "extract(year FROM d)",
        "coalesce(s, t.u)",
    )
    conditions = [f"{call} {word} ({values})" for call in calls for word in ("IN", "NOT IN")]
    assert not needs_worker(f"SELECT a FROM t WHERE {' AND '.join(conditions)}")


@pytest.mark.parametrize(
    "call",
    [
        *("lower({})", "between(1) AND {}", "CAST({} AS INT)", "f(1, ({}))", "f({}, ',g(')", 'f({}, ",g(")'),
        *("f({}, $$,g($$)", "f({} /*,g(*/)", "f({} --,g(\n)", "({}) --, x\n", "f({}, $a$,g($a$)"),
    ],
)
def test_lists_within_what_stands_before_a_list_are_seen(call: str) -> None:
    text = "a"
    for _ in range(8):
        text = f"{call.format(text)} IN (1, 2, 3)"
    assert needs_worker(f"SELECT a {text} FROM t")


MISTAKES = (" LATERAL VIEW x", " FROM FROM", " +", ")", " x y z", " 5 5")
NESTED = {
    "WITH d AS ({}) SELECT a": "SELECT a FROM t",
    "SELECT a FROM ({}) AS x": "SELECT a FROM t",
    "SELECT ({})": "SELECT a FROM t",
    "SELECT a FROM t WHERE a IN ({})": "SELECT a FROM t",
    "(SELECT 1 UNION {})": "SELECT 1",
    "FROM (t JOIN ({}) USING (a))": "FROM t",
    "SELECT CASE WHEN a THEN ({}) END": "SELECT 1",
}


@pytest.mark.parametrize("form", NESTED)
def test_a_mistake_is_found_quickly_wherever_it_is(plain: duckdb.DuckDBPyConnection, form: str) -> None:
    slow = []
    for mistake in MISTAKES:
        for depth in range(2, 13):
            at_leaf, on_each = NESTED[form] + mistake, NESTED[form]
            for _ in range(depth):
                at_leaf, on_each = form.replace("{}", at_leaf), form.replace("{}", on_each) + mistake
            for sql in filter(is_parsed_quickly, (at_leaf, on_each)):
                begun = time.process_time()
                with suppress(duckdb.Error):
                    plain.extract_statements(sql)
                if is_longer(time.process_time() - begun, MOST_PARSING_SECONDS):
                    slow.append(sql)
    assert slow == []


@pytest.mark.parametrize(
    "sql",
    [
        *("SELECT $1 ~ $1", "SELECT regexp_matches($1, $1)", "SELECT $1 SIMILAR TO $1"),
        "SELECT 'a'.regexp_extract($1)",
    ],
)
def test_long_patterns_run_in_a_worker(small_service: QueryService, sql: str) -> None:
    """The engine takes a minute to look for a pattern of 350 kB in a text of as much, and hears of nothing."""
    text = '{"a":' * 50_000 + "1" + "}" * 50_000
    assert needs_worker(sql, [text])
    assert not needs_worker(sql, ["a" * 100])
    parameters = pa.record_batch({"1": [text]})
    with suppress(InvalidInput, LimitExceeded, DeadlineExceeded):
        small_service.execute(sql, parameters=parameters, session=Session(timeout_seconds=1.0)).read_all()


def test_statements_that_list_much_run_in_a_worker() -> None:
    """The engine holds 2,048 values of each, uncounted: with 2,487 keys of an order by the host had 680 MiB."""
    for text, most in (
        ("SELECT a FROM t ORDER BY {}", MAX_SORTED),
        ("SELECT {} FROM t", MAX_LISTED),
        ("SELECT DISTINCT ON ({}) a FROM t", MAX_LISTED),
    ):
        assert not needs_worker(text.format(", ".join(["s"] * (most + 1))))
        assert needs_worker(text.format(", ".join(["s"] * (most + 2))))


def test_a_message_for_which_there_is_no_memory_is_no_defect(small_service: QueryService) -> None:
    """The engine fails while it writes down which value of 11 MB it cannot convert."""
    texts = "(SELECT repeat('s' || range, 100) AS s FROM range(20000))"
    with pytest.raises((LimitExceeded, InvalidInput)):
        small_service.execute(f"SELECT kahan_sum(variant_group_array(s)) OVER () FROM {texts}").read_all()


def test_the_binder_is_not_held_up(service: QueryService) -> None:
    """What is computed while a statement is bound is small, and names are as ever."""
    with service.execute("SELECT len(range(200000)), repeat('x', 3)") as result:
        assert result.schema.names == ['len("range"(200000))', "repeat('x', 3)"]
        assert result.read_all().to_pylist() == [{'len("range"(200000))': 200000, "repeat('x', 3)": "xxx"}]


@pytest.mark.parametrize("work", ["columns", "schema", "syntax_failure", "binding_failure"])
def test_who_waits_for_the_binder_waits_no_longer_than_its_time_out(work: str) -> None:
    binder, deadline = Binder(None), Deadline(0.1)
    # Of a type whose Arrow type the engine tells.
    columns = binder.columns("SELECT NULL::TIME[] AS a", {})
    calls: Mapping[str, Callable[[], object]] = {
        "columns": lambda: binder.columns("SELECT 1", {}, (), deadline),
        "schema": lambda: binder.schema(columns, deadline),
        "syntax_failure": lambda: binder.syntax_failure("SELECT 1", deadline),
        "binding_failure": lambda: binder.binding_failure("SELECT 1", {}, (), deadline),
    }
    with binder._lock, pytest.raises(DeadlineExceeded):
        calls[work]()
    assert binder.schema(columns, Deadline(60.0)).names == ["a"]
    binder.close()


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT system.main.repeat('x', 3)", "leave the schema out"),
        ("SELECT main.range(3)", "leave the schema out"),
        ('SELECT "system"."main"."range"(3)', "leave the schema out"),
        ("SELECT \"!=\"({'a': 1}, 'x')", "not allowed"),
    ],
)
def test_where_such_functions_cannot_be_called(sql: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        parse(lift(sql, "duckdb"), "duckdb")


def test_an_error_may_quote_json_of_any_depth(engine: Engine) -> None:
    """It says what is wrong, although reports of the engine are JSON, too."""
    deep = '{"a":' * 100_000
    with pytest.raises(Unsupported, match="unrecognized value"):
        engine.run(f"SELECT array_sort([1], '{deep}')", {}, (), Deadline(60.0))
