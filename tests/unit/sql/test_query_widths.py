"""How wide the queries of a statement are is known before anybody writes their stars out."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import duckdb
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import parse_one

from engine.errors import LimitExceeded, LivestateError
from engine.model.result_width import width_of_types
from engine.sql.engine_dialect import EngineDialect
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.query_widths import Columns, QueryColumn, QueryWidths, query_widths
from tests.fuzz.grammar import Texts, nested_texts
from tests.support.seeds import seeded_random

TABLES: Mapping[str, Columns] = {
    "t": [QueryColumn("a", 1, 1), QueryColumn("b", 1, 1), QueryColumn("c", 3, 1)],
    "u": [QueryColumn("a", 1, 1), QueryColumn("d", 1, 1)],
}
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
        last = f"x{count - 1}"
        outputs = [
            "*",
            "1",
            "x0.*",
            f"{last}.*",
            "COLUMNS(*)",
            last,
            f"{last} AS r",
            f"{{'p': {last}, 'q': 1}}",
        ]
        outputs += [
            "r",
            f"{last}.r AS s",
            f"{last}.r.r AS r",
            "first(r)",
            f"[{last}] AS r",
            f"(SELECT {last})",
        ]
        chosen = draw(st.lists(st.sampled_from(outputs), min_size=1, max_size=3))
        alias = draw(st.sampled_from(["", "", "(r)", "(p, r)"]))
        tables = ", ".join(f"{source(depth)} x{number}{alias}" for number in range(count))
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
    found.execute("CREATE TABLE t (a INT, b INT, c STRUCT(x INT, y INT))")
    found.execute("CREATE TABLE u (a INT, d INT)")
    return found


@given(_queries())
@example("SELECT *, * FROM (SELECT *, * FROM (FROM t, u))")
@example("WITH c AS (SELECT *, * FROM t), d AS (SELECT *, * FROM c) FROM d, c")
@example("SELECT x AS a, x AS b FROM (SELECT y AS a, y AS b FROM t y) x")
def test_no_query_is_wider_than_it_is_counted(database: duckdb.DuckDBPyConnection, sql: str) -> None:
    try:
        types = list(map(str, database.sql(sql).types))
    except duckdb.Error as error:
        # Names of two tables, say, or of no column.
        assert "Binder Error" in str(error), sql
        return
    assert width_of_types(types) <= query_widths(parse_one(sql, dialect=EngineDialect), TABLES).result


@pytest.mark.parametrize(
    ("sql", "result", "row"),
    [
        ("SELECT a FROM t", 1, 0),
        ("FROM t", 5, 0),
        ("FROM t, u", 7, 0),
        ("SELECT t.*, u.*, a FROM t, u", 8, 0),
        ("SELECT count(*) FROM (SELECT *, * FROM t) x", 1, 0),
        ("WITH c AS (SELECT *, * FROM t), d AS (SELECT *, * FROM c) FROM d", 20, 0),
        ("WITH RECURSIVE c AS (SELECT *, * FROM t UNION ALL SELECT * FROM c) SELECT * FROM c", 10, 0),
        ("SELECT 1 FROM t UNION ALL BY NAME SELECT * FROM u UNION ALL BY NAME SELECT * FROM t", 8, 0),
        ("FROM t PIVOT (sum(a), max(c) FOR b IN (1, 2, 3))", 11, 0),
        ("VALUES (1, 2), (3, 4)", 2, 0),
        ("SELECT * FROM (VALUES (1, 2)) v, u", 4, 0),
        ("SELECT t FROM t", 6, 6),
        ("SELECT c, c.x, t.c.y, t.a FROM t", 6, 0),
        ("SELECT x AS a, x AS b FROM (SELECT y AS a, y AS b FROM t y) x", 26, 13),
        ("SELECT x.a, a.a AS c FROM (SELECT y AS a FROM t y) x", 12, 6),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE t IS NOT NULL) ORDER BY t", 1, 6),
        ("SELECT 1 FROM t GROUP BY t", 1, 6),
        ("SELECT t.b FROM t AS t(b, a)", 1, 0),
        ("DESCRIBE SELECT u FROM u", 0, 3),
        ("SELECT {'p': a, 'q': {'r': c, 's': 1}} FROM t", 8, 0),
    ],
)
def test_widths(sql: str, result: int, row: int) -> None:
    assert query_widths(parse_one(sql, dialect=EngineDialect), TABLES) == QueryWidths(result, row)


def test_hundreds_of_branches_are_not_as_many_calls() -> None:
    assert (
        query_widths(parse_one(" UNION ALL ".join(["FROM u"] * 500), dialect=EngineDialect), TABLES).result
        == 2
    )


@pytest.mark.parametrize("doubling", ["SELECT *, * FROM ({})", "SELECT x AS a, x AS b FROM ({}) AS x"])
@pytest.mark.parametrize("times", [20, 60])
def test_what_doubles_is_refused(doubling: str, times: int) -> None:
    nested = "FROM t"
    for _ in range(times):
        nested = doubling.replace("{}", nested)
    for text in (f"SELECT 1 FROM ({nested})", f"SELECT a FROM t WHERE a IN ({nested})"):
        with pytest.raises(LimitExceeded, match="more than 10,000 columns"):
            query_widths(parse_one(text, dialect=EngineDialect), TABLES)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT [{', '.join(map(str, range(20_000)))}] AS x",
        f"SELECT MAP {{{', '.join(f'{number}: 1' for number in range(20_000))}}} AS x",
        f"SELECT (a, b) IN ({', '.join(f'({number}, 1)' for number in range(12_000))}) AS x FROM t",
        f"SELECT [{', '.join(['c'] * 5000)}] AS x FROM t",
        *(
            "SELECT [] AS x",
            "SELECT MAP {} AS x",
            "SELECT MAP {'a': 1}['a'] AS x",
            "SELECT MAP([1], [2]) AS x",
        ),
        f"SELECT {' + '.join(['c.x'] * 3000)} AS x FROM t",
        f"SELECT {' OR '.join(['c = c'] * 3000)} AS x FROM t",
    ],
)
def test_many_values_of_one_type_are_not_wide(sql: str) -> None:
    assert query_widths(parse_one(sql, dialect=EngineDialect), TABLES).result < 10


@pytest.mark.parametrize("dialect", ["duckdb", "spark"])
def test_no_tree_is_too_odd(dialect: str) -> None:
    """As SUMMARIZE of one branch of a UNION."""
    random = seeded_random(f"odd trees {dialect}")
    texts = Texts(random, 5000)
    sentences = (texts.fill("q", random.randint(2, 6)) for _ in range(4000))
    found = 0
    odd = "SUMMARIZE (FROM (SELECT a FROM t) x, (SELECT a FROM t) y) UNION (SELECT a FROM t) ORDER BY a"
    for text in (odd, *nested_texts(2), *sentences):
        with suppress(LivestateError):
            tree = parse(lift(text, dialect), dialect).tree
            found += tree is not None and query_widths(tree, TABLES).result > 0
    assert found > 300
