"""The place of a parameter suggests its type: that of the column which its name means there."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

from engine.model.schema import define_store
from engine.sql.bind import bind
from engine.sql.literals import lift
from engine.sql.parameters import ParameterSlot
from engine.sql.parse import parse

DEFINITIONS = {
    each.name: each
    for each in (
        define_store("t", pa.schema([("k", pa.int64()), ("n", pa.int16()), ("day", pa.date32())]), ["k"]),
        define_store("u", pa.schema([("k", pa.string()), ("z", pa.float64())]), ["k"]),
    )
}


def slot_of(sql: str) -> ParameterSlot:
    lifted = lift(sql, "duckdb")
    (slot,) = bind(parse(lifted, "duckdb"), lifted.lists, DEFINITIONS).parameters
    return slot


def suggested_type(sql: str) -> pa.DataType | None:
    return slot_of(sql).type


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
    assert suggested_type(sql) == kind


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
    assert suggested_type(sql) is None


WIDER = frozenset(["BIGINT", "HUGEINT", "DOUBLE", "ANY", "T", "NUMERIC"])
NOT_ALLOWED = frozenset(["!__postfix", "__internal_decompress_integral_integer", "decimal_division"])


def test_every_argument_that_is_an_integer_and_nothing_wider_is_known() -> None:
    """Drivers know of BIGINT alone, which the engine takes for none of them."""
    with duckdb.connect() as connection:
        rows = connection.execute(
            "SELECT function_name, parameter_types FROM duckdb_functions() WHERE database_name = 'system' "
            "AND function_type IN ('scalar', 'aggregate')"
        ).fetchall()
    types: dict[tuple[str, int], set[str]] = {}
    for name, parameters in rows:
        for place, type_name in enumerate(parameters):
            types.setdefault((name, place), set()).add(type_name)
    narrow = {key for key, found in types.items() if "INTEGER" in found and not found & WIDER}
    asked = {
        (name, place)
        for name, place in narrow
        if name not in NOT_ALLOWED
        and slot_of(f"SELECT {name}({', '.join(['n'] * place + ['$1'])}) FROM t").takes_integer
    }
    assert asked == {key for key in narrow if key[0] not in NOT_ALLOWED}
    assert not slot_of("SELECT substr('abc', $1)").takes_integer


@pytest.mark.parametrize(
    ("sql", "kind", "takes_integer"),
    [
        ("SELECT day + $1 FROM t", pa.int32(), True),
        ("SELECT DATE '2024-01-01' + ($1) FROM t", pa.int32(), True),
        ("SELECT current_date - $1", pa.date32(), True),
        ("SELECT n + $1 FROM t", pa.int16(), False),
        ("SELECT 1 FROM t WHERE day = $1", pa.date32(), False),
    ],
)
def test_days_are_added_to_a_date(sql: str, kind: pa.DataType, takes_integer: bool) -> None:
    slot = slot_of(sql)
    assert (slot.type, slot.takes_integer) == (kind, takes_integer)
