"""What is written of a text in DuckDB's dialect is the text, as DuckDB's own parser reads both."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import duckdb
import pytest
from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB

from engine.errors import LivestateError, Unsupported
from engine.plan.query_text import engine_text
from engine.sql.engine_dialect import EngineDialect
from engine.sql.engine_dialect.hidden_functions import KNOWN_FUNCTIONS
from engine.sql.functions import TABLE_FUNCTIONS, is_refused
from engine.sql.literals import lift
from engine.sql.parse import parse
from tests.oracle.written import DIRECTORY, written_statements
from tests.support.processor_time import is_longer

_PLACES = ("query_location", "query_location_length", "qualified_name")
_SAME_OPERATORS = {"@": "abs", "^@": "starts_with", "^": "pow", "**": "pow", "power": "pow", "%": "mod"}
"""And functions, by one name."""
_SAME_TYPES = {
    "TEXT": "VARCHAR",
    "INT": "INTEGER",
    "FLOAT": "REAL",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
    "TIMETZ": "TIME WITH TIME ZONE",
    "BITSTRING": "BIT",
}
_OTHERWISE = {
    "if": "a macro of CASE, as which it is written",
    "range": "begins with 0 if nothing is said",
    "generate_series": "as range",
    "group_concat": "has a comma between values if nothing is said",
    "listagg": "as group_concat",
    "string_agg": "as group_concat",
    "bool_and": "casts its argument, which is of that type anyway",
    "bool_or": "as bool_and",
    "bit_and": "casts a string, of which DuckDB has no such bits",
    "bit_or": "as bit_and",
    "bit_xor": "as bit_and",
    "struct_pack": "names its fields by its arguments; DuckDB wants names",
    "today": "as all that reads the clock, which is replaced",
    "get_current_time": "as today",
    "current_date": "as today",
    "current_localtimestamp": "as today",
}


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as made:
        yield made


def _statement(connection: duckdb.DuckDBPyConnection, sql: str) -> Any:
    """What DuckDB's parser makes of a text, without places and with one name for all that mean the same; None
    for what it does not take.
    """
    (found,) = connection.execute("SELECT json_serialize_sql($1::VARCHAR)", [sql]).fetchall()
    read = json.loads(found[0])
    return None if read["error"] else _plain(read["statements"], _aliases(connection))


@cache
def _aliases(connection: duckdb.DuckDBPyConnection) -> dict[str, str]:
    found = connection.execute(
        "SELECT DISTINCT function_name, alias_of FROM duckdb_functions() WHERE alias_of IS NOT NULL"
    )
    return dict(found.fetchall()) | {"array_append": "list_append", "array_prepend": "list_prepend"}


def _plain(read: Any, aliases: dict[str, str]) -> Any:
    if isinstance(read, list):
        return [_plain(each, aliases) for each in read]
    if not isinstance(read, dict):
        return read
    made = {name: _plain(value, aliases) for name, value in read.items() if name not in _PLACES}
    if made.get("type") == "OPERATOR_NOT" and made["children"][0].get("type") == "OPERATOR_IS_NULL":
        made = made["children"][0] | {"type": "OPERATOR_IS_NOT_NULL"}
    if "function_name" in made:
        name = made["function_name"].lower()
        name = aliases.get(name, name)
        made["function_name"] = _SAME_OPERATORS.get(name, name)
        made["is_operator"] = False
        if name == "date_part":
            made = json.loads(json.dumps(made).lower())
    if "type_name" in made:
        name = str(made["type_name"]).upper()
        made["type_name"] = _SAME_TYPES.get(name, name)
    if made.get("null_order") == "NULLS LAST":
        made["null_order"] = "ORDER_DEFAULT"
    if isinstance(made.get("literal"), dict) and made["literal"]["kind"] in ("INTEGER", "NUMERIC"):
        made["literal"]["text"] = made["literal"]["text"].replace("_", "")
    return made


def _written(sql: str) -> str:
    tree = parse(lift(sql, "duckdb", lists=False), "duckdb").tree
    assert tree is not None
    return engine_text(tree)


_STRINGS = ("'day'", "'%d'", "'i'", "'x'", "'y'", "'z'", "'v'", "'w'")


def _calls(name: str, kind: str, count: int) -> Iterator[str]:
    columns = "abcdefgh"[:count]
    yield f"{name}({', '.join(columns)})"
    yield f"{name}({', '.join(_STRINGS[:count])})"
    yield f"{name}({', '.join(map(str, range(count)))})"
    if kind == "aggregate" and count:
        arguments = ", ".join(columns)
        yield f"{name}(DISTINCT {arguments})"
        yield f"{name}({arguments} ORDER BY z DESC)"
        yield f"{name}(DISTINCT {arguments} ORDER BY z) FILTER (WHERE y)"
        yield f"{name}({arguments}) OVER (PARTITION BY y ORDER BY z)"


def _is_read(connection: duckdb.DuckDBPyConnection, call: str) -> bool:
    """Whether DuckDB's parser takes a call: not of functions that are words, too, with any arguments."""
    (found,) = connection.execute(
        "SELECT (json_serialize_sql($1::VARCHAR)->>'error')::BOOLEAN", [f"SELECT {call}"]
    ).fetchall()
    return not found[0]


def test_functions_are_written_as_they_were(connection: duckdb.DuckDBPyConnection) -> None:
    known = connection.execute(
        "SELECT DISTINCT function_name, function_type, len(parameters), varargs IS NOT NULL "
        "FROM duckdb_functions() WHERE function_type IN ('scalar', 'aggregate', 'macro')"
    ).fetchall()
    calls: list[str] = []
    for name, kind, count, is_variadic in sorted(known):
        is_plain = re.fullmatch(r"(?!(?:icu_)?collate_)\w+", name) and not is_refused(name)
        if is_plain and name not in _OTHERWISE and count <= 8:
            calls += _calls(name, kind, count + 2 * is_variadic)
    calls = [call for call in calls if _is_read(connection, call)]
    texts = [f"SELECT {', '.join(calls[place : place + 50])} FROM t" for place in range(0, len(calls), 50)]
    checked = 0
    for sql in texts:
        wanted, written = _statement(connection, sql), _written(sql)
        assert wanted is not None
        found = _statement(connection, written)
        assert found is not None
        wanted_calls, found_calls = (read[0]["node"].pop("select_list") for read in (wanted, found))
        assert found == wanted
        checked += len(wanted_calls)
        for one, other in zip(wanted_calls, found_calls, strict=True):
            assert other == one, written
    assert checked > 2000


def test_examples_are_written_as_they_were(connection: duckdb.DuckDBPyConnection) -> None:
    known = connection.execute(
        "SELECT DISTINCT function_name, unnest(examples) FROM duckdb_functions() "
        "WHERE function_type = 'scalar'"
    ).fetchall()
    texts = [f"SELECT {text}" for name, text in sorted(known) if not is_refused(name)]
    wrong, checked = [], 0
    for sql in texts:
        wanted = _statement(connection, sql)
        if wanted is not None and not re.search(
            r"\b(today|current_\w+|get_\w+|range|generate_series)\(", sql
        ):
            checked += 1
            if _statement(connection, _written(sql)) != wanted:
                wrong.append((sql, _written(sql)))
    assert not wrong
    assert checked > 300


STATEMENTS = (
    "~ ~a, ~(-a), -(~a), ~ - a, - - a, -(-a), ~a::INT, -a[1], ~(a + 1)",
    "~a + b * c - d || e, a - ~b + c, ~a ^ 2, ~a ^ b ^ c, ~f(a)[1].b + 1 & c, ~a | ~b, ~ ~a + 1",
    "~a - ~b, ~a - b - ~c, ~a - ~b - c, a - ~b - ~c, ~a * -b + ~c * d - e, ~a ^ -b ^ ~c, ~ -a + b",
    "a::INT!, a!, f(a)! + 1, a::DECIMAL(4, 1)!, [1, 2][1]!",
    "a - -b, a + -b, a * -b, a ~ -b, a !~ b, a !~~ b, a ~~* b, a <-> -b, a || -b",
    "1e3-1e2, 1e3+1e-2-1, 2*1e1-5*3, 1.5E2-2.5e1-.5e1-1e3, 1e-3-1e-3, 1e3-a, 1e3-t.e2+1e1, 1e3 -1e2",
    "l[:n], l[:n:1], l[:n + 1], l[:t.n], l[:f(n)[:n]], l[:n][1:2], l[:], l[:-:2], l[:-n], l[m:n:2]",
    "INTERVAL '1' DAY + '2020-01-01'::DATE, d + INTERVAL '1' DAY + 5 * INTERVAL (a) HOUR",
    "f('{}' -> 'a'), f(1, '{}' -> 'a' -> 'b'), f('{}' ->> 'a'), f(('{}' -> 'a')), '{}' -> 'a'",
    "[x for x in l][1], [x for x in [1, 2]][:1][1], [[x for x in y][1] for y in l][1].a",
    "last(a IGNORE NULLS) OVER (ORDER BY b), last(a ORDER BY b IGNORE NULLS) OVER (), last(a) OVER ()",
    "first(f(a, b) IGNORE NULLS) OVER (), first(a RESPECT NULLS) OVER (), first(a) OVER (), first(a)",
    'a::"NULL", []::"NULL"[], NULL::STRUCT(a "NULL", b MAP(INT, "NULL"))',
    "string[1], f(text[1], 2), date[1:2], [int[1], json[1]], CASE WHEN string[1] = 'a' THEN text[2] END",
    'list[1], "list"[1], t.list[1:2], t."array"[1], "array"[1], s.a.list[1], f(x).list[1], list[1][2], list',
    "[list[1], t.list[2]], list.a[1], list[1].array[2], t.list[1].a, x.array[:n], list_value(1)[1]",
    "ROW(a, b) < ROW(1, 2), row(row(a, 1)) <= (b, 2), ROW(a) > b, ROW(a, b) < ANY(SELECT 1, 2)",
    "list < 3, range <= 3 AND struct < 2, interval + 1, interval - 1, interval * 2, interval[1], -interval",
    "a::TEXT[1], CAST(a AS INT[3]), a::MAP(INT[2], TEXT[3]), a::STRUCT(a INT[2], b TEXT[]), a::INTERVAL + b",
    "a::INTERVAL[], TRY_CAST(a AS UNION(a INT[3], b TEXT)), (a)::text[1], a::DECIMAL(4, 2)[2], a::INT < 3",
    "a <=> b, a <=> -b < .5, a + b <=> c, NOT a <=> b = c",
    ".5, -.5, - .5, 5., 00.5, .5e-3, a[.5:1], [.5, .25], a + .5, (.5), 1_000, 1e3, 1.e2, t.a",
    "b'101', B'0', x'ff', X'', e'a\\tb', $$a$$, $x$a$b$x$, 'a''b'",
    "'a'\n'b', 'a' -- c\n 'b'\n'c'",
    "INTERVAL '1.5 days', INTERVAL '1 year -2 months', -INTERVAL '1 day', INTERVAL '1 day'::VARCHAR",
    "INTERVAL (a) HOUR, INTERVAL '1 day' * 2, INTERVAL 'a day' AS day, INTERVAL '01:02:03'",
    "JSON '{\"a\": 1}', DATE '2024-01-01', TIME '10:00', UUID 'a', BLOB 'a', DECIMAL(4, 1) '3.5'",
    "j ->> '\"c d\"', j -> '$.\"c d\"', j ->> 'c d', j -> '/a/b', j ->> '$.a.b[#-1]', j -> '$[*].x'",
    "j -> '$..x', j -> 0, j -> -1, j -> k, j -> '$', j ->> '', j -> ['$.a', 'b'], j ->> 'a.b', j -> 'a''b'",
    "json_extract(j, ['$.a', '$.\"c d\"']), json_extract_string(j, k), json_value(j, '$.a')",
    "json_exists(j, '/a'), json_keys(j, '$.\"a b\"'), json_type(j, 'a b'), json_array_length(j, '$[#-1]')",
    "j -> 'a' || 'b', j -> 'a' || 'b' || k, 'x' || (j -> 'a'), f(j -> 'a' || 'b'), j -> ('a' || 'b') -> 'c'",
    "j -> 0 + 1 -> 'x', j ->> 'a' || 'b', (j -> 'a') ->> 'b', j ->> 'a' = 'b', j ->> 'a' IN ('b')",
    "apply(l, lambda x: x BETWEEN 1 AND 3 AND NOT x = 2), filter(l, lambda x: x > 1)",
    "apply(l, lambda x: CASE WHEN x > 2 THEN 'hi' ELSE x::VARCHAR END), apply(l, lambda x, i: x + i)",
    "list_filter(list_transform(l, lambda x: {'v': x, 'd': x * 2}), lambda e: e.v > 1 AND e.d <= 8 OR e.v)",
    "reduce(l, lambda a, b: a + b), reduce(l, lambda a, b, i: a + b, 5), list_reduce(l, lambda a, b: a || b)",
    "[x + 1 for x in l if x > 2], [x for x, i in l if i IN [1, NULL]], a IN [x for x in [1, 2]]",
    "a IN [1, NULL], a NOT IN [1, NULL], a IN l || m, a IN l || [1] AND b, a IN {'a': 1}, a IN s.l || t.m",
    "a IN (1, NULL), a IN ([1], [2]), a IN l, NOT a IN [b], a IN f(x)[1] || l, a IN [1.5]",
    "EXTRACT(timezone_hour FROM a), EXTRACT('year' FROM a), extract(dow FROM a + 1), EXTRACT(\"day\" FROM a)",
    "date_trunc(a, b), date_diff(a, b, c), time_bucket(a, b, c), date_add(a, b), date_sub('day', a, b)",
    "strftime(a, '%n %g %-d'), strftime('%Y', a), strptime(a, ['%d', '%m']), try_strptime(a, '%e')",
    "list_sort(l, 'desc', 'nulls first'), list_reverse_sort(l, 'NULLS FIRST'), array_sort(l, a)",
    "list_sort(l), list_transform(list_filter(l, lambda x: x > 1), lambda x: -x), replace(upper(a), 'A', '')",
    "regexp_replace(a, b, c, d), regexp_extract(a, b, ['x', 'y']), regexp_extract_all(a, b, 1, 'i')",
    "split(a, b), decode(a, b), encode(a), hex(a), unhex(a), to_base(a, 2), jaro_winkler_similarity(a, b, c)",
    "log10(a), log2(a), log(a), log(a, b), trunc(a, 1), trunc(a), round(a, b), atan2(a, b), even(a)",
    "count(*) FILTER (WHERE a), list(a ORDER BY b) FILTER (WHERE c), arg_max(DISTINCT a, b ORDER BY c)",
    "string_agg(DISTINCT a, ',' ORDER BY b DESC), corr(DISTINCT a, b), approx_top_k(a, 2), max(a, 3)",
    "lag(a, 1, 0 IGNORE NULLS) OVER (ORDER BY b), first_value(a ORDER BY c) OVER (ORDER BY b)",
    "* REPLACE (a AS b), COLUMNS(* EXCLUDE (a)), * EXCLUDE (a, b)",
    '"list"(a), "reverse"(a), "strftime"(a, b), "replace" AS "left"',
    "left(a, 1), right(a, 1), format('{}', a), replace(a, b, c), xor(a, b), repeat(a, 2), translate(a, b, c)",
)
QUERIES = (
    "SELECT reverse.a, format FROM t AS reverse(a, format) WHERE filter(a, lambda x: x) IS NULL",
    "WITH reverse(strftime) AS (SELECT 1) SELECT strftime FROM reverse",
    "SELECT count(a) FILTER (WHERE b) AS filter FROM (SELECT 1) AS first(hex)",
    "PIVOT t ON g IN ('a', 'b') USING sum(n) AS s, max(n) AS m GROUP BY k",
    "PIVOT t ON g IN ('a' AS x, upper('b') AS \"y z\") USING sum(n)",
    "SELECT * FROM t PIVOT (sum(n) FOR g IN ('a' AS x, 'b') GROUP BY k) AS p ORDER BY 1",
    "SELECT * FROM (SELECT a, s.x FROM t) PIVOT (sum(n) FOR g IN ('a')) LIMIT 1",
    "UNPIVOT (SELECT a, s.x AS c, u.d FROM t JOIN u USING (k)) ON a, c INTO NAME n VALUE v",
    "PIVOT_LONGER t ON a, b INTO NAME n VALUE v",
    "UNPIVOT t ON (a, b) AS x, (c, d) INTO NAME n VALUE v, w",
    "FROM (t JOIN u USING (k)) AS p JOIN v ON p.k = v.k",
    "FROM ((t JOIN u USING (k)) AS p(a, b) JOIN v ON p.a = v.k) AS q",
    "FROM (t JOIN u USING (k)) JOIN v USING (k)",
    "PIVOT t USING sum(n)",
    "PIVOT t USING sum(n) AS s, max(n) GROUP BY k, g",
    "FROM (PIVOT t GROUP BY k) AS p JOIN u USING (k)",
    "SELECT interval FROM t WHERE range < 2 GROUP BY string[1] ORDER BY interval DESC, text[1]",
    "FROM range(0, 3) AS r(i) SELECT i UNION ALL FROM json_each(a)",
    "SELECT a FROM t LIMIT (30 - a) % OFFSET 3",
    "SELECT a FROM t ORDER BY a LIMIT 10 PERCENT",
    "SELECT a > 1, count(*) FROM t GROUP BY ROLLUP (a > 1, b, (c, d), e + 1 = 2 AND f IN (1, 2), g || 'x')",
    "SELECT 1 FROM t GROUP BY GROUPING SETS (a IS NULL, (), (b > 1), CUBE (c LIKE 'a', NOT d)), f(a > 1)",
)


@pytest.mark.parametrize("sql", [*(f"SELECT {outputs} FROM t" for outputs in STATEMENTS), *QUERIES])
def test_statements_are_written_as_they_were(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    wanted = _statement(connection, sql)
    assert wanted is not None
    written = _written(sql)
    found = _statement(connection, written)
    assert _without_strings(found) == _without_strings(wanted), written
    assert _written(_written(written)) == _written(written)


def _without_strings(read: Any) -> Any:
    """Strings that stand behind each other are one value, of several with `concat`."""
    return json.loads(json.dumps(read).replace('"ARRAY_CONSTRUCTOR"', '"FUNCTION"'))


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        (
            (
                "SELECT percentile_disc((1 - (a))) WITHIN GROUP (ORDER BY f(b) DESC) FILTER (WHERE c), "
                "percentile_cont([0.1, (0.2)]) WITHIN GROUP (ORDER BY b) FROM t"
            ),
            (
                "SELECT QUANTILE_DISC(F(b), (1 - (a)) ORDER BY F(b) DESC) FILTER(WHERE c), "
                "QUANTILE_CONT(b, [0.1, (0.2)] ORDER BY b) FROM t"
            ),
        ),
        ("PIVOT t ON g IN (1) ORDER BY 1", "SELECT * FROM (PIVOT t ON g IN (1)) ORDER BY 1"),
        (
            "WITH e AS (SELECT 1) PIVOT (SELECT * FROM e) ON g USING count(*) GROUP BY a LIMIT 3 OFFSET 1",
            (
                "WITH e AS (SELECT 1) SELECT * FROM (PIVOT (SELECT * FROM e) ON g USING COUNT(*) GROUP BY a) "
                "LIMIT 3 OFFSET 1"
            ),
        ),
        (
            "UNPIVOT t ON a EXCEPT (UNPIVOT u ON b INTO NAME n VALUE v) ORDER BY 1",
            (
                "SELECT * FROM (UNPIVOT t ON a) EXCEPT (SELECT * FROM (UNPIVOT u ON b INTO NAME n VALUE v)) "
                "ORDER BY 1"
            ),
        ),
        (
            "SELECT 1 UNION ALL BY NAME PIVOT t ON g",
            "SELECT 1 UNION ALL BY NAME SELECT * FROM (PIVOT t ON g)",
        ),
        (
            "FROM (PIVOT_WIDER t ON g LIMIT 1) AS p",
            "SELECT * FROM (SELECT * FROM (PIVOT t ON g) LIMIT 1) AS p",
        ),
        (
            "WITH p AS MATERIALIZED (UNPIVOT t ON a ORDER BY 1), q AS (PIVOT p ON x) FROM q",
            (
                "WITH p AS MATERIALIZED (SELECT * FROM (UNPIVOT t ON a) ORDER BY 1), q AS (PIVOT p ON x) "
                "SELECT * FROM q"
            ),
        ),
        ("SELECT a IN (UNPIVOT t ON a) FROM t", "SELECT a IN (SELECT * FROM (UNPIVOT t ON a)) FROM t"),
        (
            "FROM t PIVOT (sum(n) FOR g IN (1)) ORDER BY 1",
            "SELECT * FROM t PIVOT(SUM(n) FOR g IN (1)) ORDER BY 1",
        ),
    ],
)
def test_what_the_parser_does_not_know_is_written_otherwise(sql: str, written: str) -> None:
    assert _written(sql) == written


@pytest.mark.parametrize("sql", ["SELECT k IN [1, 2]", "SELECT k IN ['a', 'b']"])
def test_a_list_of_values_is_known_as_such(sql: str) -> None:
    assert _written(sql) == sql.replace("[", "(").replace("]", ")")


def test_what_the_parser_is_to_know_is_no_name_of_its_own(connection: duckdb.DuckDBPyConnection) -> None:
    functions = {
        name for (name,) in connection.execute("SELECT function_name FROM duckdb_functions()").fetchall()
    }
    words = {
        "cast",
        "columns",
        "grouping",
        "grouping_id",
        "ifnull",
        "percentile_cont",
        "percentile_disc",
        "try_cast",
    }
    words |= {
        "coalesce",
        "row_number",
        "rank",
        "dense_rank",
        "percent_rank",
        "cume_dist",
        "ntile",
        "nth_value",
    }
    assert words | functions | TABLE_FUNCTIONS >= KNOWN_FUNCTIONS


@pytest.mark.parametrize(
    ("sql", "written"),
    [
        ("[struct_pack(e, p := 1) for e in l]", "{'e': e, 'p': 1}"),
        (
            "list_transform(l, lambda e: struct_pack(e, p := e.y, t.a))",
            "{'e': e, 'p': e.y, 'a': t.a}",
        ),
        (
            "[struct_pack(p := struct_pack(e), q := {'a': e}.a) for e in l]",
            "{'p': {'e': e}, 'q': {'a': e}.a}",
        ),
        ("map { }::MAP(VARCHAR, INT), MAP {'a': 1}", "CAST(MAP() AS MAP(TEXT, INT)), MAP {'a': 1}"),
    ],
)
def test_names_of_fields_and_empty_maps_are_written_out(sql: str, written: str) -> None:
    assert written in _written(f"SELECT {sql} FROM t").replace('"', "'")


_OF_TWO_WORDS = {kind for words, kind in DuckDB.tokenizer_class.KEYWORDS.items() if " " in words}


def _with_comments(sql: str) -> str:
    """A text with a comment where it has blanks between two words."""
    made, end = [], 0
    for token in DuckDB().tokenize(sql):
        between, text = sql[end : token.start], sql[token.start : token.end + 1]
        made.append(" /* - */" if between.isspace() else between)
        made.append(re.sub(r"\s+", "/**/", text) if token.token_type in _OF_TWO_WORDS else text)
        end = token.end + 1
    return "".join(made)


@pytest.mark.parametrize("outputs", ["'grouping' sets", '"grouping" sets', "'order' \"by\""])
def test_words_are_no_keyword_where_one_is_quoted(
    connection: duckdb.DuckDBPyConnection, outputs: str
) -> None:
    sql = f"SELECT {outputs} FROM t"
    wanted = _statement(connection, sql)
    assert wanted is not None
    assert _statement(connection, _written(sql)) == wanted


def test_comments_may_stand_between_any_two_words() -> None:
    checked = 0
    for file in sorted(DIRECTORY.glob("*.sql")):
        for sql in written_statements(file):
            try:
                plain = _written(sql)
            except LivestateError:
                continue
            assert _written(_with_comments(sql)) == plain, sql
            checked += 1
    assert checked > 1000


def test_other_dialects_are_written_for_the_engine() -> None:
    for dialect, text, wanted in (
        ("postgres", "SELECT a -> 'b' ->> 'c'", "SELECT (a -> '$.b') ->> '$.c'"),
        ("mysql", "SELECT b'101', JSON_EXTRACT(a, '$.b')", "SELECT 5, a -> '$.b'"),
        ("mysql", "SELECT x'ff'", "SELECT x'ff'"),
        ("spark", "SELECT INITCAP(a)", None),
        ("snowflake", "SELECT ~ ~a", "SELECT ~ ~a"),
    ):
        tree = parse(lift(text, dialect), dialect).tree
        assert tree is not None
        found = engine_text(tree)
        assert found == wanted if wanted else "INITCAP" not in found
    with pytest.raises(Unsupported, match="engine lacks"):
        engine_text(_tree("SELECT EXTRACT(timezone_hour FROM a::TIMESTAMPTZ)", "snowflake"))


def _tree(sql: str, dialect: str) -> Any:
    return parse(lift(sql, dialect), dialect).tree


@pytest.mark.parametrize(
    "texts",
    [
        ("SELECT ", "~a + ", "1"),
        ("SELECT ", "a IN [", "1"),
        ("SELECT a", " -> b || c", ""),
        ("SELECT a", " IN b || c", ""),
        ("SELECT ", "(UNPIVOT ", "1"),
        ("", "PIVOT t ON a IN (1) UNION ALL ", "SELECT 1"),
        ("PIVOT t ON a IN (", "'a' AS b, ", "1)"),
        ("SELECT ", "'a' ", ""),
        ("SELECT ", "INTERVAL '1 day' + ", "1"),
        ("SELECT ", "abs(reverse(", "1"),
        ("SELECT a::", "TUPLE(TUPLE(INT), ", "INT"),
    ],
    ids=lambda texts: texts[1],
)
def test_tokens_are_read_in_linear_time(texts: Sequence[str]) -> None:
    begin, repeated, end = texts
    sql = f"{begin}{repeated * 20_000}{end}"
    begun = time.process_time()
    EngineDialect().tokenize(sql)
    assert not is_longer(time.process_time() - begun, 10.0)


def test_an_index_stays_what_it_was_when_types_become_known() -> None:
    outputs = "a[1], a[-1], a[n], a[n + 1], a['k'], a[b[2]], a[$1], (a)[(SELECT 1)], [7, 8][n], f(a)[1:n]"
    sql = f"SELECT {outputs} FROM t"
    tree = parse(lift(sql, "duckdb"), "duckdb").tree
    assert tree is not None
    for kind in ("BIGINT", "VARCHAR", "BIGINT[]", "MAP(BIGINT, VARCHAR)"):
        for node in (*tree.find_all(exp.Column), *tree.find_all(exp.Placeholder)):
            node.type = exp.DataType.build(kind, dialect="duckdb")
        assert engine_text(tree) == _written(sql)
        assert re.findall(r"\[[^]]*\]", engine_text(tree))[:4] == ["[1]", "[-1]", "[n]", "[n + 1]"]
