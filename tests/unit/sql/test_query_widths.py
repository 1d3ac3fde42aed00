"""How wide the queries of a statement are is known before anybody writes their stars out."""

from __future__ import annotations

from collections.abc import Mapping

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import parse_one

from engine.sql.query_widths import widest_query

TABLES: Mapping[str, int] = {"t": 3, "u": 2}
_NAMES = st.sampled_from(["c0", "c1", "c2"])


@st.composite
def _queries(draw: st.DrawFn, depth: int = 3, ctes: tuple[str, ...] = ()) -> str:
    def source(depth: int) -> str:
        if depth and draw(st.booleans()):
            inner = draw(_queries(depth - 1, ctes))
            if draw(st.booleans()):
                return f"({inner})"
            # Also as common table expression of a query in FROM.
            return f"(WITH inside AS ({inner}) SELECT *, * FROM inside)"
        return draw(st.sampled_from(["t", "u", "(t CROSS JOIN u)", "(VALUES (1, 2, 3, 4))", *ctes]))

    def select(depth: int) -> str:
        count = draw(st.integers(1, 3))
        outputs = ["*", "1", "x0.*", f"x{count - 1}.*", "COLUMNS(*)", "x0", "* EXCLUDE (nothing)"][:6]
        chosen = draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=3))
        if chosen.count("COLUMNS(*)") > 1:
            chosen = [each for each in chosen if each != "COLUMNS(*)"] + ["COLUMNS(*)"]
        tables = ", ".join(f"{source(depth)} x{number}" for number in range(count))
        condition = draw(st.sampled_from(["", f" WHERE EXISTS (SELECT *, * FROM {source(0)} y)"]))
        if draw(st.integers(0, 4)) == 0:
            return f"FROM {tables}{condition}"
        return f"SELECT {', '.join(chosen)} FROM {tables}{condition}"

    body = select(depth)
    if depth and draw(st.integers(0, 3)) == 0:
        body = f"({body}) UNION ALL BY NAME ({draw(_queries(depth - 1, ctes))})"
    if depth and draw(st.booleans()):
        name = draw(_NAMES)
        if name not in ctes:
            used = draw(_queries(depth - 1, (*ctes, name)))
            return f"WITH {name} AS ({body}) {used}" if not used.startswith("WITH") else body
    return body


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    found = duckdb.connect()
    found.execute("CREATE TABLE t (a INT, b INT, c INT)")
    found.execute("CREATE TABLE u (a INT, d INT)")
    return found


@given(_queries())
@example("SELECT *, * FROM (SELECT *, * FROM (FROM t, u))")
@example("WITH c AS (SELECT *, * FROM t), d AS (SELECT *, * FROM c) FROM d, c")
def test_no_query_has_more_columns_than_are_counted(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    counted = widest_query(parse_one(sql, dialect="duckdb"), TABLES)
    try:
        columns = len(database.sql(sql).columns)
    except duckdb.Error as error:
        # Names of two tables, say, or of no column.
        assert "Binder Error" in str(error), sql
        return
    assert columns <= counted


@pytest.mark.parametrize(
    ("sql", "width"),
    [
        ("SELECT a FROM t", 1),
        ("FROM t", 3),
        ("FROM t, u", 5),
        ("SELECT t.*, u.*, a FROM t, u", 6),
        ("SELECT count(*) FROM (SELECT *, * FROM t) x", 6),
        ("SELECT 1 FROM t WHERE a IN (SELECT *, *, * FROM t)", 9),
        ("WITH c AS (SELECT *, * FROM t), d AS (SELECT *, * FROM c) SELECT 1 FROM d", 12),
        ("WITH RECURSIVE c AS (SELECT *, * FROM t UNION ALL SELECT * FROM c) SELECT * FROM c", 6),
        ("SELECT 1 FROM t UNION ALL BY NAME SELECT * FROM u UNION ALL BY NAME SELECT * FROM t", 6),
        ("FROM t PIVOT (sum(a), max(c) FOR b IN (1, 2, 3))", 9),
        ("VALUES (1, 2), (3, 4)", 2),
        ("SELECT * FROM (VALUES (1, 2)) v, u", 4),
        ("DESCRIBE SELECT *, * FROM u", 4),
        ("SUMMARIZE SELECT *, * FROM u", 4),
    ],
)
def test_widths(sql: str, width: int) -> None:
    assert widest_query(parse_one(sql, dialect="duckdb"), TABLES) == width


def test_hundreds_of_branches_are_not_as_many_calls() -> None:
    assert widest_query(parse_one(" UNION ALL ".join(["FROM u"] * 500), dialect="duckdb"), TABLES) == 2


@pytest.mark.parametrize("times", [20, 60])
def test_what_doubles_is_counted_once_each(times: int) -> None:
    nested = "t"
    for number in range(times):
        nested = f"(SELECT *, * FROM {nested}) x{number}"
    assert widest_query(parse_one(f"SELECT 1 FROM {nested}", dialect="duckdb"), TABLES) == 3 << times
