"""What the binder tells of a query's columns is what the engine gives them."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.deadline import NO_DEADLINE, Deadline
from engine.duckdb.binder import Binder, over_empty_stores
from engine.duckdb.engine import Engine
from engine.duckdb.engine_errors import NotBoundError
from engine.errors import Unsupported
from engine.model.schema import define_store
from engine.plan.query_text import ReadColumn
from engine.plan.statement import ReadyStatement, make_ready
from engine.sql.literals import lift

STORE = define_store(
    "things",
    pa.schema(
        [
            ("k", pa.int64()),
            ("s", pa.string()),
            ("d", pa.decimal128(9, 2)),
            ("l", pa.list_(pa.int32())),
            ("at", pa.timestamp("us")),
            ("b", pa.bool_()),
            ("f", pa.float32()),
        ]
    ),
    ["k"],
)
OTHER = define_store("THINGS", pa.schema([("k", pa.int64()), ("day", pa.date32())]), ["k"])
DEFINITIONS = {STORE.name: STORE, OTHER.name: OTHER}
EXPRESSIONS = (
    "NULL",
    "[NULL]",
    "1",
    "1.5",
    "'x'",
    "sum(k)",
    "sum(d)",
    "avg(d)",
    "count(*)",
    "max(l)",
    "list(k)",
    "{'a': max(k), 'B c': max(s)}",
    "map([1], ['a'])",
    "max(at)::DATE",
    "max(at)::TIMESTAMPTZ",
    "TIME '10:00'",
    "INTERVAL 1 DAY",
    "max(at) - min(at)",
    "UUID '00000000-0000-0000-0000-000000000000'",
    "max(at)::TIMESTAMP_S",
    "max(at)::TIMESTAMP_MS",
    "max(at)::TIMESTAMP_NS",
    "1::UHUGEINT",
    "max(s)::BLOB",
    "'1'::JSON",
    "[1, 2]::INT[2]",
    "max(f)",
    "bool_and(b)",
    "'a'::ENUM ('a', 'b')",
    "[{'a': 1::HUGEINT}]",
)


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine(256 << 20, 1)
    yield found
    found.close()


def _ready(sql: str) -> ReadyStatement:
    return make_ready(lift(sql, "duckdb"), "duckdb", DEFINITIONS)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_columns_are_those_of_the_statement_that_runs(engine: Engine, expression: str) -> None:
    statement = _ready(f"SELECT {expression} AS c, count(*) FROM things")
    text, tables = over_empty_stores(statement.sql, statement.bound.references)
    columns = engine.binder.columns(text, tables)
    schema = pa.schema(
        [STORE.schema.field(name) for name in statement.bound.references[0].columns]
    ) or pa.schema([("__live", pa.uint8())])
    rows = engine.run(
        statement.sql,
        {statement.bound.references[0].scan: pa.Table.from_batches([], schema)},
        [],
        Deadline(None),
    )
    try:
        assert columns == rows.columns
        assert engine.binder.schema(columns, NO_DEADLINE) == rows.schema
    finally:
        rows.close()


@pytest.mark.parametrize("sql", ["SELECT rowid FROM things", 'SELECT max(t."RowId") AS m FROM things AS t'])
def test_a_store_has_no_row_numbers(engine: Engine, sql: str) -> None:
    statement = _ready(sql)
    with pytest.raises(NotBoundError):
        engine.binder.columns(*over_empty_stores(statement.sql, statement.bound.references))


def test_stores_whose_names_differ_in_case_only_are_two(engine: Engine) -> None:
    statement = _ready('SELECT a.s, b.day FROM things a JOIN "THINGS" b USING (k)')
    columns = engine.binder.columns(*over_empty_stores(statement.sql, statement.bound.references))
    assert [(column.name, column.type) for column in columns] == [("s", "VARCHAR"), ("day", "DATE")]


def test_a_table_that_changes_is_another_one() -> None:
    binder = Binder(None)
    try:
        for kind, name in ((pa.int64(), "BIGINT"), (pa.string(), "VARCHAR")):
            (column,) = binder.columns("SELECT x FROM t", {"t": pa.schema([("x", kind)])})
            assert column.type == name
    finally:
        binder.close()


@pytest.mark.parametrize("sql", ["SELECT 1; SELECT 2", "SELECT missing", "CREATE TABLE x (y INT)", "SELEC"])
def test_what_is_not_one_right_query_is_not_bound(engine: Engine, sql: str) -> None:
    with pytest.raises(NotBoundError):
        engine.binder.columns(sql, {})


def test_a_type_that_cannot_be_sent_is_refused(engine: Engine) -> None:
    with pytest.raises(Unsupported, match="BIT"):
        engine.binder.schema(engine.binder.columns("SELECT '101'::BIT AS bits", {}), NO_DEADLINE)


def test_arrays_of_a_fixed_length_are_lists_however_long() -> None:
    """The engine makes room for all values of an array, also where it is NULL, and counts nothing of it."""
    binder = Binder(None)
    nested, expected = "INTEGER", pa.int32()
    for _ in range(14):
        nested = f'STRUCT(a {nested}, "b[5]""[6]" INTEGER[100000][2])'
        fields = [("a", expected), ('b[5]"[6]', pa.list_(pa.list_(pa.int32())))]
        expected = pa.struct([pa.field(*field) for field in fields])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = binder.schema([ReadColumn("x", nested), ReadColumn("e", "ENUM('a[7]', 'b')[3]")], NO_DEADLINE)
    assert found == pa.schema([("x", expected), ("e", pa.list_(pa.string()))])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10
    binder.close()
