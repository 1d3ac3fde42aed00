"""Names are tied to stores, and references know the columns they can touch."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import InvalidInput, NotFound, Unsupported
from engine.model.schema import StoreDefinition, StoreName, define_store
from engine.sql.bind import BoundStatement, bind
from engine.sql.literals import lift
from engine.sql.parse import parse


def store(name: str, *columns: str) -> StoreDefinition:
    return define_store(name, pa.schema([(column, pa.int64()) for column in columns]), [columns[0]])


DEFINITIONS = {
    each.name: each
    for each in (
        store("a", "id", "x", "y"),
        store("b", "id", "z"),
        store("T", "id"),
        store("t", "id"),
        store("row", "row", "v"),
    )
}


def bind_text(sql: str) -> BoundStatement:
    lifted = lift(sql, "duckdb")
    return bind(parse(lifted, "duckdb"), lifted.lists, DEFINITIONS)


def read_columns(sql: str) -> list[tuple[str, tuple[str, ...]]]:
    return [(reference.definition.name, reference.columns) for reference in bind_text(sql).references]


@pytest.mark.parametrize(
    ("sql", "columns"),
    [
        ("SELECT x FROM a", [("a", ("x",))]),
        ("SELECT * FROM a", [("a", ("id", "x", "y"))]),
        ("FROM a", [("a", ("id", "x", "y"))]),
        ("SELECT count(*) FROM a", [("a", ())]),
        ("SELECT 1 FROM a", [("a", ())]),
        ("SELECT a.x, b.z FROM a JOIN b ON a.id = b.id", [("a", ("id", "x")), ("b", ("id", "z"))]),
        ("SELECT p.x, q.y FROM a p, a q", [("a", ("x",)), ("a", ("y",))]),
        ("SELECT b.* FROM a JOIN b USING (id)", [("a", ("id",)), ("b", ("id", "z"))]),
        ("SELECT x FROM a NATURAL JOIN b", [("a", ("id", "x", "y")), ("b", ("id", "z"))]),
        ("SELECT a FROM a", [("a", ("id", "x", "y"))]),
        ("SELECT p FROM a p WHERE p.x = 1", [("a", ("id", "x", "y"))]),
        ("SELECT row FROM row", [("row", ("row",))]),
        ("SELECT COLUMNS('x') FROM a", [("a", ("id", "x", "y"))]),
        ("SELECT #1 FROM a", [("a", ("id", "x", "y"))]),
        ("SELECT p FROM a q(p, r, s)", [("a", ("id", "x", "y"))]),
        ("SELECT x FROM (SELECT * FROM a)", [("a", ("id", "x", "y"))]),
        ("SELECT (SELECT max(z) FROM b WHERE b.id = a.x) FROM a", [("a", ("x",)), ("b", ("id", "z"))]),
        ("SELECT x FROM a WHERE EXISTS (SELECT * FROM b WHERE b.id = a.x)", [("a", ("x",)), ("b", ("id",))]),
        ("SELECT x FROM a WHERE NOT EXISTS (SELECT * FROM b, a)", [("a", ("x",)), ("b", ()), ("a", ("x",))]),
        ("SELECT 1 FROM a WHERE EXISTS (SELECT DISTINCT * FROM b OFFSET 1)", [("a", ()), ("b", ("id", "z"))]),
        (
            "SELECT 1 FROM a WHERE EXISTS (SELECT * FROM b EXCEPT SELECT * FROM b)",
            [("a", ()), ("b", ("id", "z")), ("b", ("id", "z"))],
        ),
        ("SELECT y FROM a ORDER BY X", [("a", ("x", "y"))]),
        ("SUMMARIZE a", [("a", ("id", "x", "y"))]),
        ("SELECT list_transform([1], lambda x: x + 1) FROM a", [("a", ("x",))]),
    ],
)
def test_columns_that_can_be_touched(sql: str, columns: list[tuple[str, tuple[str, ...]]]) -> None:
    assert sorted(read_columns(sql)) == sorted(columns)


@pytest.mark.parametrize(
    ("sql", "stores"),
    [
        ("WITH a AS (SELECT 1 AS id) SELECT * FROM a", []),
        ("WITH A AS (SELECT * FROM a) SELECT * FROM a", ["a"]),
        (
            "WITH RECURSIVE a AS (SELECT 1 AS id UNION ALL SELECT id + 1 FROM a WHERE id < 3) SELECT * FROM a",
            [],
        ),
        ("WITH c AS (SELECT * FROM b), b AS (SELECT 1 AS id) SELECT * FROM c, b", ["b"]),
        (
            (
                "WITH c AS (SELECT 1 AS id) SELECT * FROM (WITH b AS (SELECT * FROM c) SELECT * FROM b) "
                "JOIN b USING (id)"
            ),
            ["b"],
        ),
        ("WITH a AS (SELECT 1 AS id) SELECT * FROM main.a", ["a"]),
        ("SELECT * FROM (WITH a AS (SELECT 1 AS id) SELECT * FROM a), a", ["a"]),
        ('SELECT * FROM "T"', ["T"]),
        ("SELECT * FROM t", ["t"]),
        ("SELECT * FROM LIVESTATE.MAIN.A", ["a"]),
    ],
)
def test_names_mean_stores_or_common_table_expressions(sql: str, stores: list[str]) -> None:
    assert [reference.definition.name for reference in bind_text(sql).references] == stores


def test_a_name_that_fits_two_stores_must_be_exact() -> None:
    definitions = {name: DEFINITIONS[name] for name in (StoreName("t"), StoreName("T"))} | {
        StoreName("tT"): store("tT", "id"),
        StoreName("Tt"): store("Tt", "id"),
    }
    lifted = lift("SELECT * FROM TT", "duckdb")
    with pytest.raises(NotFound, match="could be any of the stores Tt, tT"):
        bind(parse(lifted, "duckdb"), (), definitions)


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT * FROM other.a", NotFound),
        ("SELECT * FROM nowhere.main.a", NotFound),
        ("SELECT * FROM A.b.c.d", InvalidInput),
        ("SELECT * FROM a AT (VERSION => 3)", Unsupported),
        ("SELECT * FROM __scan_0", NotFound),
        ("SELECT * FROM c", NotFound),
    ],
)
def test_what_is_no_store_is_refused(sql: str, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        bind_text(sql)


def test_scan_names_stand_nowhere_in_the_text() -> None:
    found = bind_text("SELECT '\"__scan_0\"' FROM a")
    assert found.references[0].scan == "___scan_0"


def test_a_parameter_before_an_empty_string_at_the_end() -> None:
    """sqlglot's tokenizer alone would look for the end of a string that begins at the parameter."""
    assert read_columns("SELECT id FROM a WHERE x > $1 AND y <> ''") == [("a", ("id", "x", "y"))]


@pytest.mark.parametrize(
    "first", ["[1]", "(SELECT 1)", "EXISTS (SELECT 1)", "1 IN (SELECT 1)", "1 = SOME ({'a': 1})"]
)
@pytest.mark.parametrize("arrow", ["x -> 1", "(x -> 1)", "NOT x -> 1", "x -> 1 = 2"])
def test_what_takes_a_lambda_takes_no_arrow(first: str, arrow: str) -> None:
    """The engine fails at it where the list is a query."""
    for name in ("list_transform", "list_filter", "array_apply"):
        text = f"SELECT {name}({first}, {arrow})"
        with pytest.raises(InvalidInput, match="as lambda x: x"):
            parse(lift(text, "duckdb"), "duckdb")
    text = f"SELECT list_transform({first}, lambda x: x -> '$.a')"
    assert parse(lift(text, "duckdb"), "duckdb").tree is not None


@pytest.mark.parametrize(
    "call", ["first(a ORDER BY ALL)", "string_agg(b, ',' ORDER BY ALL DESC)", "sum(a) OVER (ORDER BY ALL)"]
)
def test_functions_do_not_order_by_all(call: str) -> None:
    """The engine makes one call of it for each column of the rows."""
    with pytest.raises(InvalidInput, match="name what a function orders by"):
        parse(lift(f"SELECT {call} FROM t ORDER BY ALL", "duckdb"), "duckdb")


@pytest.mark.parametrize(
    "sql", ["FROM t ORDER BY ALL", "VALUES (2), (1) ORDER BY ALL", "TABLE t ORDER BY ALL"]
)
def test_queries_order_by_all(sql: str) -> None:
    assert parse(lift(sql, "duckdb"), "duckdb").tree is not None
