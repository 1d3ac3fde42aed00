"""Results of very many columns, or of structs with very many fields: a short text asks for millions of them.
A schema takes five kilobytes for each, and the engine holds 2,048 values of each, which it does not count.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import engine.duckdb.results
from engine.duckdb.growth import MAX_LISTED, lists_many_columns
from engine.duckdb.handover import MOST_ROWS, rows_a_batch
from engine.duckdb.results import is_small, slice_batches
from engine.errors import LimitExceeded
from engine.model.result_width import MAX_RESULT_WIDTH, type_width, width_in_lists, width_of_types
from engine.model.schema import define_store
from engine.model.sql_types import sql_type
from engine.service import QueryOptions, QueryService
from tests.support.memory_source import MemorySource, memory_view
from tests.support.resident import grows_by_at_most

ROWS = 20_000
NUMBERS = define_store(
    "numbers", pa.schema([("k", pa.int64()), ("a", pa.int64()), ("s", pa.string())]), ["k"]
)
_FIELDS = [(f"f{number}", pa.int64()) for number in range(500)]
STRUCTS = define_store("structs", pa.schema([("k", pa.int64()), ("x", pa.struct(_FIELDS))]), ["k"])
NULL_STRUCT = f"CAST(NULL AS STRUCT({', '.join(f'f{number} INT' for number in range(500))}))"
TOO_WIDE = f"A query has more than {MAX_RESULT_WIDTH:,} columns and fields of structs: name the columns"


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    numbers = pa.table(
        {"k": range(ROWS), "a": [number % 1000 for number in range(ROWS)], "s": ["text"] * ROWS}
    )
    structs = pa.table({"k": [1], "x": [dict.fromkeys((name for name, _ in _FIELDS), 7)]})
    source = MemorySource([memory_view(NUMBERS, numbers), memory_view(STRUCTS, structs, structs.slice(0, 0))])
    found = QueryService(source, QueryOptions(memory_limit_bytes=200 << 20, threads=2))
    yield found
    found.close()


def times(text: str, count: int) -> str:
    return ", ".join([text] * count)


def nest_query(text: str, leaf: str, count: int) -> str:
    """A query in itself, so many times."""
    for _ in range(count):
        leaf = text.replace("{}", leaf)
    return leaf


WIDE = {
    "stars": f"SELECT {times('*', 20_000)} FROM numbers",
    "columns": "SELECT " + ", ".join(f"a AS c{number}" for number in range(24_000)) + " FROM numbers",
    "structs of constants": f"SELECT {times('x', 1000)} FROM (SELECT {NULL_STRUCT} AS x) AS y",
    "structs of a store": f"SELECT {times('x', 900)} FROM structs",
    "structs by key": f"SELECT {times('x', 900)} FROM structs WHERE k = 1",
    "structs of a join": "SELECT "
    + ", ".join(f"x AS x{number}" for number in range(900))
    + " FROM numbers JOIN structs ON a = structs.k WHERE numbers.k = 1",
    "a struct of structs": "SELECT {"
    + ", ".join(f"'c{number}': x" for number in range(900))
    + "} AS y FROM structs",
    "lists of structs": nest_query(
        "SELECT [{" + ", ".join(f"'a{number}': x" for number in range(20)) + "}] AS x FROM ({}) AS y",
        f"SELECT CAST(NULL AS STRUCT({', '.join(f'f{number} INT' for number in range(30))})) AS x",
        3,
    ),
    "stars of stars": f"SELECT count(*) FROM ({nest_query('SELECT *, * FROM ({})', 'FROM numbers', 20)})",
    "stars of joins": "WITH c0 AS (FROM numbers), "
    + ", ".join(f"c{number + 1} AS (FROM c{number} AS x, c{number} AS y)" for number in range(14))
    + " SELECT count(*) FROM c14",
}


@pytest.mark.parametrize("name", WIDE)
def test_what_is_too_wide_is_refused_in_a_sentence(service: QueryService, name: str) -> None:
    with grows_by_at_most(os.getpid(), 120):
        for ask in (service.execute, service.prepare):
            with pytest.raises(LimitExceeded, match=TOO_WIDE):
                ask(WIDE[name])


STRUCT = "{" + ", ".join(f"'f{number}': a" for number in range(300)) + "}"
FAIRLY_WIDE = {
    "a struct of 300 fields": f"SELECT {STRUCT} FROM numbers",
    "900 columns": f"SELECT {', '.join(f'a + {number}' for number in range(900))} FROM numbers",
    "1,500 columns of stars": f"SELECT {times('*', 500)} FROM numbers GROUP BY ALL",
    "an order by 1,500 columns": f"SELECT {times('*', 500)} FROM numbers ORDER BY ALL",
    "nine structs of 300 fields": f"SELECT {times('x', 9)} FROM (SELECT {STRUCT} AS x FROM numbers)",
}


@pytest.mark.parametrize("name", FAIRLY_WIDE)
def test_what_is_fairly_wide_is_answered_within_the_limits(service: QueryService, name: str) -> None:
    """Or refused: nine such structs are 432 MB. The host had 7 GB of them, as the engine was asked for rows
    one by one, and makes 2,048 batches at once.
    """
    with grows_by_at_most(os.getpid(), 250):
        try:
            with service.execute(FAIRLY_WIDE[name]) as result:
                rows = sum(batch.num_rows for batch in result)
        except LimitExceeded:
            assert name in (
                "1,500 columns of stars",
                "an order by 1,500 columns",
                "nine structs of 300 fields",
            )
        else:
            assert rows == ROWS


def test_a_struct_of_many_fields_is_right(service: QueryService) -> None:
    fields = ", ".join(f"'f{number}': a + {number}" for number in range(300))
    found = service.execute(f"SELECT k, {{{fields}}} AS x FROM numbers").read_all().sort_by("k")
    assert found["x"][1234].as_py() == {f"f{number}": 234 + number for number in range(300)}
    assert len(found) == ROWS


_types = st.recursive(
    st.sampled_from(
        [pa.int64(), pa.string(), pa.timestamp("us", "UTC"), pa.decimal128(38, 10), pa.bool_(), pa.date32()]
    ),
    lambda inner: st.one_of(
        inner.map(lambda each: pa.list_(pa.field("item", each))),
        st.builds(pa.map_, inner, inner),
        st.dictionaries(st.sampled_from(["a", "b", ", ", '"', "(", "["]), inner, min_size=1, max_size=4).map(
            lambda fields: pa.struct(list(fields.items()))
        ),
    ),
    max_leaves=12,
)


@given(st.lists(_types, min_size=1, max_size=4))
def test_types_are_as_wide_by_their_names(types: list[pa.DataType]) -> None:
    width = sum(map(type_width, types))
    # A map has a struct of its key and its value, which its name does not tell.
    maps = sum(str(each).count("map<") for each in types)
    assert width - 2 * maps <= width_of_types(map(sql_type, types)) <= width


@pytest.mark.parametrize(
    ("kind", "width"),
    [
        ("BIGINT", 0),
        ("DECIMAL(18,3)[]", 1),
        ("BIGINT[][]", 3),
        ("STRUCT(a BIGINT, b VARCHAR[], c BIGINT)", 1),
        ("STRUCT(a BIGINT, b STRUCT(c BIGINT, d BIGINT))[]", 5),
        ("MAP(VARCHAR, STRUCT(a BIGINT, b BIGINT))", 4),
        ("STRUCT(\"[]\" BIGINT, \"MAP(\" ENUM('a[', 'b'))", 0),
    ],
)
def test_nodes_in_lists(kind: str, width: int) -> None:
    assert width_in_lists([kind]) == width


def test_values_of_enumerations_are_no_fields() -> None:
    assert width_of_types(["ENUM('a', 'b,c', '(')", "DECIMAL(18,3)", "VARCHAR"]) == 3


@pytest.mark.parametrize(
    ("sql", "columns", "is_many"),
    [
        ("SELECT * FROM t", MAX_LISTED, False),
        ("SELECT * FROM t", MAX_LISTED + 1, True),
        ("SELECT count(*) FROM t", 100_000, False),
        ("SELECT a * b FROM t", 100_000, False),
        ("FROM t", MAX_LISTED + 1, True),
        ("SELECT k FROM t UNION ALL FROM t", MAX_LISTED + 1, True),
        ("SELECT *, * FROM t, u", MAX_LISTED // 4, False),
        ("SELECT *, * FROM t, u", MAX_LISTED // 4 + 1, True),
        ("SELECT COLUMNS(*), t.* FROM t", MAX_LISTED // 2 + 1, True),
        (f"SELECT {times('*', 400)} FROM t GROUP BY ALL", 3, True),
        (nest_query("SELECT *, * FROM ({})", "SELECT a FROM t", 9), 3, True),
        ("WITH c AS (SELECT * FROM t JOIN u USING (k)) SELECT * FROM c JOIN v USING (k)", 20, False),
    ],
)
def test_stars_count_as_what_they_list(sql: str, columns: int, is_many: bool) -> None:
    assert lists_many_columns(sql, columns) == is_many


def test_wide_rows_come_fewer_at_a_time() -> None:
    assert rows_a_batch(["BIGINT"] * 8, "SELECT a FROM t", {}, ()) == MOST_ROWS
    assert rows_a_batch(["BIGINT"] * 1000, "SELECT a FROM t", {}, ()) == 1048
    # And not one by one, however long their values may be: each batch costs, too.
    many = ", ".join(f'"f{number}" BIGINT' for number in range(1000))
    assert rows_a_batch([f"STRUCT({many}, l VARCHAR[])"], "SELECT x || x FROM t", {"t": None}, ()) == 66


def test_memory_that_columns_share_counts_for_each() -> None:
    column = pa.array(range(1000))
    batch = pa.RecordBatch.from_arrays([column] * 100, [f"c{place}" for place in range(100)])
    assert not is_small(batch, 100_000)
    assert is_small(batch, 1_000_000)
    parts = list(slice_batches(iter([batch]), 100_000))
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch])
    assert max(part.nbytes for part in parts) <= 100_000


def test_a_row_that_cannot_be_sent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine.duckdb.results, "MAX_ROW_BYTES", 3 << 20)
    batch = pa.RecordBatch.from_arrays([pa.array(["x" * (1 << 20)] * 2)] * 4, list("abcd"))
    with pytest.raises(LimitExceeded, match="A row of the result has 4 MiB, and no more than 3 can be sent"):
        list(slice_batches(iter([batch]), 1 << 20))
    assert len(list(slice_batches(iter([batch.select(["a", "b"])]), 1 << 20))) == 2


ROWS_OF_ROWS = (
    "typeof(x)",
    "count(x::VARCHAR)",
    "max(to_json(x))",
    "count(DISTINCT x)",
    "max(hash(x))",
    "x::VARCHAR",
)


@pytest.mark.parametrize("output", ROWS_OF_ROWS)
@pytest.mark.parametrize("times", [3, 8, 12])
def test_rows_that_have_rows_as_values_stay_within_the_limits(
    service: QueryService, output: str, times: int
) -> None:
    """The type of one that has twelve in each other is a text of a hundred kilobytes, in each row."""
    name = "n" * 900
    tables = ", ".join(
        f"c{number} AS (SELECT x AS {name}, x AS b FROM {f'c{number - 1}' if number else 'numbers'} AS x)"
        for number in range(times)
    )
    sql = f"WITH {tables} SELECT {output} FROM c{times - 1} AS x"
    with grows_by_at_most(os.getpid(), 250), suppress(LimitExceeded), service.execute(sql) as result:
        assert sum(batch.num_rows for batch in result) in (1, ROWS)


def test_a_row_is_a_value(service: QueryService) -> None:
    found = service.execute("SELECT n, n.k + n.a AS s FROM numbers AS n WHERE k = 5").read_all()
    assert found.to_pylist() == [{"n": {"k": 5, "a": 5, "s": "text"}, "s": 10}]


def test_parameters_have_types_of_a_bounded_width(service: QueryService) -> None:
    """Each type is written out for the engine: 900 times a struct of 500 fields took 1.1 GB and 200 s."""
    with grows_by_at_most(os.getpid(), 50), pytest.raises(LimitExceeded, match="more than 10,000 fields"):
        service.prepare(f"SELECT 1 FROM structs WHERE x IN ({times('?', 900)})")
    assert len(service.prepare(f"SELECT 1 FROM structs WHERE x IN ({times('?', 5)})").parameters) == 5
