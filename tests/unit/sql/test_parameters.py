"""The place of a parameter suggests its type: that of the column which its name means there."""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.model.schema import define_store
from engine.sql.bind import bind
from engine.sql.literals import lift
from engine.sql.parse import parse

DEFINITIONS = {
    each.name: each
    for each in (
        define_store("t", pa.schema([("k", pa.int64()), ("n", pa.int16()), ("day", pa.date32())]), ["k"]),
        define_store("u", pa.schema([("k", pa.string()), ("z", pa.float64())]), ["k"]),
    )
}


def suggested(sql: str) -> pa.DataType | None:
    lifted = lift(sql, "duckdb")
    (slot,) = bind(parse(lifted, "duckdb"), lifted.lists, DEFINITIONS).parameters
    return slot.type


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("SELECT 1 FROM t WHERE n = $1", pa.int16()),
        ("SELECT 1 FROM t AS x WHERE x.day < $1", pa.date32()),
        ("SELECT 1 FROM t, u WHERE z = $1", pa.float64()),
        ("SELECT 1 FROM t, u WHERE u.k = $1", pa.string()),
        ("SELECT 1 FROM t JOIN u ON t.k = $1", pa.int64()),
        ("SELECT 1 FROM (SELECT * FROM t WHERE n = $1) AS x", pa.int16()),
        ("SELECT 1 FROM (SELECT * FROM t) AS x WHERE n = $1", pa.int16()),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE n = $1)", pa.int16()),
        ("SELECT 1 FROM t WHERE EXISTS (SELECT 1 FROM u WHERE k = $1)", pa.string()),
        ("SELECT 1 FROM t WHERE k IN (SELECT k FROM t) AND n IN (1, $1)", pa.int16()),
        ("SELECT 1 FROM t WHERE n IN (VALUES ($1), (2))", pa.int16()),
        ("SELECT 1 FROM t WHERE (k, n) IN (VALUES (1, 2), (3, $1))", pa.int16()),
        ("SELECT n + 1 AS n FROM t WHERE n = $1", pa.int16()),
        ("WITH x AS (SELECT 1 AS i) SELECT 1 FROM x, t WHERE n = $1", pa.int16()),
        ("SELECT n FROM t UNION SELECT 1 FROM u WHERE k = $1", pa.string()),
        ("SELECT 1 FROM (t JOIN u ON true) WHERE t.n = $1", pa.int16()),
        ("SELECT 1 FROM (SELECT n FROM t) AS x WHERE n = $1", pa.int16()),
        ("SELECT 1 FROM (SELECT t.day AS k FROM t) AS x WHERE x.k = $1", pa.date32()),
        ("WITH x AS (SELECT n AS i FROM t) SELECT 1 FROM x AS y WHERE y.i = $1", pa.int16()),
        ("WITH x AS (FROM u), y AS (FROM x) SELECT 1 FROM y WHERE z = $1", pa.float64()),
        (
            "WITH RECURSIVE x AS (SELECT k FROM t UNION ALL SELECT k FROM x) SELECT 1 FROM x WHERE k = $1",
            pa.int64(),
        ),
        ("SELECT 1 FROM (SELECT z AS n FROM u) AS x WHERE n = $1 AND EXISTS (SELECT 1 FROM t)", pa.float64()),
        (
            "SELECT 1 FROM (SELECT z AS n FROM u) AS x WHERE x.n = $1 AND EXISTS (SELECT 1 FROM t AS x)",
            pa.float64(),
        ),
        ("SELECT 1 FROM t, range(3) AS r(i) WHERE n = $1", pa.int16()),
    ],
)
def test_a_column_of_a_store_that_the_place_can_read(sql: str, kind: pa.DataType) -> None:
    assert suggested(sql) == kind


@pytest.mark.parametrize(
    "sql",
    [
        "WITH x AS (SELECT k * 2 AS n FROM t) SELECT 1 FROM x WHERE n = $1",
        "WITH n AS (SELECT 'a' AS day) SELECT (SELECT max(k) FROM t), 1 FROM n WHERE day = $1",
        "SELECT 1 FROM t, u WHERE k = $1",
        "SELECT 1 FROM t AS x(a, n) WHERE n = $1",
        "SELECT 1 FROM t JOIN (SELECT 'a' AS n) AS x USING (n) WHERE n = $1",
        "SELECT max(z) AS k FROM u GROUP BY u.k HAVING k = $1",
        "SELECT 1 FROM range(3) AS r(k) WHERE k = $1 AND EXISTS (SELECT 1 FROM t)",
        "SELECT k FROM t UNION SELECT 1 ORDER BY k = $1",
        "WITH RECURSIVE x AS (SELECT * FROM x) SELECT 1 FROM x WHERE k = $1",
        "SELECT 1 FROM (SELECT max(n) AS n FROM t) AS x WHERE n = $1",
        "SELECT 1 FROM (SELECT * REPLACE ('a' AS n) FROM t) AS x WHERE n = $1",
        "SELECT 1 FROM (SELECT * EXCLUDE (n) FROM t) AS x WHERE n = $1",
        "SELECT 1 FROM t PIVOT (max(k) FOR n IN (1)) WHERE day = $1",
    ],
)
def test_nothing_is_suggested_where_a_name_may_mean_another_column(sql: str) -> None:
    assert suggested(sql) is None
