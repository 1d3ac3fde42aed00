"""Names: what is resolved means what it meant, and what is uncertain is left as it is."""

from __future__ import annotations

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from engine.plan.logical.function_properties import AGGREGATES, VOLATILE, is_aggregate, is_volatile
from engine.plan.logical.resolve import resolve
from engine.sql.engine_dialect import EngineDialect
from tests.support.split_runner import SplitRunner
from tests.unit.plan.split.stores import check

RESOLVED = [
    "SELECT * FROM songs s FULL JOIN plays USING (song) ORDER BY ALL",
    "SELECT song, s.song, p.song FROM songs s RIGHT JOIN plays p USING (song) ORDER BY ALL",
    "SELECT * EXCLUDE (tags, label) REPLACE (song + 1 AS song) FROM songs",
    "SELECT p.*, s.title FROM songs s, plays p WHERE p.song = s.song",
    "SELECT -song AS song FROM songs WHERE song > 30",
    "SELECT -song AS song FROM songs ORDER BY song LIMIT 3",
    "SELECT -song AS s FROM songs WHERE s < -30",
    "SELECT song AS genre, genre + 1 AS g FROM songs",
    "SELECT song + 5 AS x, x + 1 AS y FROM songs WHERE y % 2 = 0",
    "SELECT genre AS g, count(*) FROM songs GROUP BY g HAVING g > 1 ORDER BY 1",
    "SELECT 7 AS seven, genre, count(*) FROM songs GROUP BY 1, 2 ORDER BY 2 NULLS FIRST",
    "SELECT 7 AS seven, count(*) AS n FROM empty GROUP BY 1",
    "SELECT genre % 2 AS g, g + 1 AS h, count(*) FROM songs GROUP BY ALL HAVING h > 1",
    "SELECT count(*) AS n FROM songs GROUP BY ALL HAVING genre > 1",
    "SELECT genre AS g, count(*) FROM songs GROUP BY ALL HAVING g + song > 9 AND g IN (SELECT 2)",
    "SELECT count(*) AS n, n + 1 AS m FROM songs GROUP BY ALL HAVING m > sum(song) FILTER (genre > 1)",
    "SELECT count(*) FROM songs GROUP BY ALL HAVING label.year > 1990",
    "SELECT count(*) FROM songs GROUP BY ALL HAVING len(list_filter([1, 2], lambda x: x > genre)) = 1",
    "SELECT count(*) FROM songs s FULL JOIN plays p USING (song) GROUP BY ALL HAVING song > 3",
    "SELECT genre % 2 AS g, g + 1 AS h, count(*) FROM songs GROUP BY ALL HAVING h > 1 AND song > 9",
    "SELECT genre % 2 AS g, count(*) FROM songs GROUP BY ALL HAVING genre % 2 > 0 AND song > 9",
    "SELECT genre % 2 AS g, count(*) FROM songs GROUP BY ALL HAVING songs.genre % 2 + song > 9",
    "SELECT genre AS g, genre + 1 AS h, count(*) FROM songs GROUP BY ALL HAVING genre + song > 9",
    (
        "SELECT song % 2 AS g, count(*) FROM songs GROUP BY ALL "
        "HAVING g < 1 AND len(list_filter(tags, lambda g: g > 'a')) > 1"
    ),
    "SELECT label.year, s.label.name, label['name'], tags[1] FROM songs s",
    "SELECT list_filter(list_transform(tags, lambda x: x || title), lambda x: x <> 'x') FROM songs",
    "SELECT list_transform(tags, lambda song: song.upper()) FROM songs",
    "SELECT list_transform(tags, lambda songs: songs.upper()) FROM songs",
    "SELECT list_transform([{'name': 'x'}], lambda label: label['name']) FROM songs",
    "SELECT list_transform([{'a': 'x'}], lambda x: x.a.upper()) FROM songs",
    "SELECT rank() OVER w, sum(song) OVER w FROM songs WINDOW w AS (PARTITION BY genre ORDER BY song)",
    "SELECT DISTINCT ON (g) genre AS g, song FROM songs ORDER BY g, song DESC",
    "SELECT DISTINCT genre % 2 AS p FROM songs ORDER BY genre % 2",
    "SELECT q.song FROM (SELECT song, song + 1 FROM songs) q",
    "SELECT x, y FROM (SELECT song, genre FROM songs) q(x, y) WHERE y = 2",
    (
        "WITH q(x) AS (SELECT song FROM songs), r AS (SELECT x + 1 AS x FROM q) SELECT q.x FROM q JOIN r "
        "USING (x)"
    ),
    "WITH q AS (SELECT song FROM songs) SELECT * FROM (WITH q AS (SELECT genre FROM songs) SELECT * FROM q)",
    "SELECT col0, v.col1 FROM (VALUES (1, 2), (3, 4)) v JOIN songs ON col0 = song",
    "SELECT song FROM songs s WHERE EXISTS (SELECT * FROM plays WHERE song = s.song)",
    "SELECT song FROM songs WHERE EXISTS (SELECT * FROM plays WHERE songs.song = listener)",
    "SELECT song FROM songs UNION ALL SELECT listener FROM plays ORDER BY song DESC LIMIT 4",
    (
        "(SELECT song FROM songs ORDER BY song LIMIT 3) UNION ALL (SELECT song FROM plays ORDER BY 1 DESC "
        "LIMIT 1)"
    ),
    "SELECT struct_pack(song := genre, g := song) AS s, {'song': 1}.song FROM songs",
    "SELECT * FROM range(3) r(song) JOIN songs USING (song)",
    "SELECT * EXCLUDE (song) FROM songs JOIN plays USING (song)",
    "SELECT * EXCLUDE (song) FROM range(3) r(song) JOIN songs USING (song) JOIN plays p ON p.song = 2",
    "SELECT * FROM range(3) r(song) JOIN songs USING (song) JOIN plays p ON p.song = r.song + 1",
    "SELECT song, array(SELECT listener FROM plays p WHERE p.song = s.song ORDER BY 1) AS l FROM songs s",
    "SELECT s.song FROM songs s UNION ALL SELECT s.song FROM songs s CROSS JOIN UNNEST(s.tags) AS u(e)",
    "SELECT s.song FROM songs s UNION ALL SELECT s.song FROM songs s LEFT JOIN UNNEST(s.tags) u(e) ON TRUE",
    "SELECT song FROM songs s WHERE EXISTS (SELECT 1 FROM songs s, UNNEST(s.tags) AS u(e) WHERE e = 'x')",
    "SELECT s.song FROM songs s UNION ALL SELECT s.song + r.i FROM songs s, range(s.genre) AS r(i)",
]


@pytest.mark.parametrize("sql", RESOLVED)
def test_what_is_resolved_means_the_same(runner: SplitRunner, sql: str) -> None:
    assert resolve(runner.bind(sql)) is not None
    check(runner, sql)


UNCERTAIN = [
    "SELECT -song AS song FROM songs ORDER BY song + 0 LIMIT 3",
    "SELECT genre, sum(song) AS song FROM songs GROUP BY genre HAVING song > 50",
    "SELECT song, row_number() OVER (ORDER BY song DESC) AS genre FROM songs QUALIFY genre = 1",
    "SELECT * REPLACE (1 AS genre) FROM songs JOIN plays USING (song)",
    "SELECT * RENAME (song AS s) FROM songs",
    "SELECT COLUMNS('so.*') FROM songs",
    "SELECT songs FROM songs",
    (
        "SELECT count(*) FROM (SELECT title AS n FROM songs) AS times WHERE EXISTS (SELECT 1 FROM plays p "
        "WHERE p.country = times.n)"
    ),
    "SELECT unnest(tags) FROM songs",
    "SELECT unnest(label) FROM songs",
    "SELECT alias(song) FROM songs",
    "SELECT song FROM songs UNION ALL SELECT listener FROM plays ORDER BY -song",
    "SELECT song FROM songs UNION ALL BY NAME SELECT song, listener FROM plays",
    "SELECT s.song, q.l FROM songs s, LATERAL (SELECT count(*) AS l FROM plays p WHERE p.song = s.song) q",
    "SELECT s.song, q.l FROM songs s, (SELECT count(*) AS l FROM plays p WHERE p.song = s.song) q",
    "SELECT s.song FROM (songs s JOIN plays p USING (song))",
    "WITH RECURSIVE r(n) AS (SELECT 1 UNION SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r, genres",
    "FROM songs PIVOT (count(*) FOR genre IN (1, 2) GROUP BY title)",
    "SELECT 7 AS seven, count(*) AS n FROM empty GROUP BY ALL",
    "SELECT genre % 2 AS genre, count(*) FROM songs GROUP BY ALL HAVING genre > 0",
    "SELECT genre % 2 AS g, count(*) FROM songs GROUP BY ALL HAVING (genre) % 2 > 0",
    f"SELECT genre % 2 AS g, count(*) FROM songs GROUP BY ALL HAVING {' OR '.join(['g > 0'] * 60)}",
    "SELECT genre % 2 AS g, count(*) FROM songs GROUP BY ALL HAVING g > 0 AND genre > 0",
    "SELECT list_transform([{'name': 'x'}], lambda label: label.name) FROM songs",
    "SELECT list_transform([{'label': 'x'}], lambda songs: songs.label) FROM songs",
    "SELECT list_transform([{'name': 'x'}], lambda label: label.name.upper()) FROM songs",
    "SELECT title FROM songs WHERE (song, genre) IN (SELECT (p.song, p.listener) FROM plays p)",
    "SELECT title FROM songs WHERE (song, genre) IN (SELECT row(p.song, p.listener) FROM plays p)",
]


@pytest.mark.parametrize("sql", UNCERTAIN)
def test_what_is_uncertain_is_gathered(runner: SplitRunner, sql: str) -> None:
    assert resolve(runner.bind(sql)) is None
    assert set(check(runner, sql)) <= {"gather", "co-partitioned", "two-phase", "subtrees merge"}


def test_a_query_that_may_read_a_row_beside_it_is_not_split_on_its_own(runner: SplitRunner) -> None:
    """`label.year` is a field of the song's label, or a column of the table that is named so around it."""
    inner = "(SELECT count(*) FROM songs AS s WHERE label.year = 2)"
    assert set(check(runner, f"SELECT unnest([1, 2]) AS n, {inner} AS m FROM plays AS label")) == {"gather"}
    assert "two-phase" in check(runner, f"SELECT unnest([1, 2]) AS n, {inner} AS m FROM plays AS p")
    alias = "(SELECT count(*) FROM (SELECT seconds + 1 AS times FROM songs WHERE times > 3))"
    assert set(check(runner, f"SELECT unnest([1]) AS n, {alias} AS m FROM plays")) == {"gather"}
    assert "two-phase" in check(runner, f"SELECT unnest([1]) AS n, {alias} AS m FROM charts")


def test_a_statement_is_not_changed(runner: SplitRunner) -> None:
    bound = runner.bind(
        "WITH q AS (SELECT * FROM songs) SELECT genre, count(*) FROM q GROUP BY ALL ORDER BY 1"
    )
    assert bound.tree is not None
    before = repr(bound.tree)
    resolve(bound)
    assert repr(bound.tree) == before


def _is_call_of(name: str, call: str) -> exp.Expr | None:
    try:
        found = sqlglot.parse_one(f"SELECT {call}", dialect=EngineDialect).expressions[0]
    except sqlglot.ParseError:
        return None
    assert isinstance(found, exp.Expr), name
    return found


def test_every_aggregate_of_the_engine_is_known() -> None:
    with duckdb.connect() as connection:
        aggregates = connection.execute(
            "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'aggregate'"
        ).fetchall()
        macros = connection.execute(
            "SELECT function_name, macro_definition FROM duckdb_functions() WHERE function_type = 'macro'"
        ).fetchall()
    names = {name for (name,) in aggregates}
    names |= {
        name
        for name, text in macros
        if text
        and any(f"{inner}(" in text.replace('"', "") for inner in ("sum", "avg", "count", "string_agg"))
    }
    assert {
        name for name in names if not name.startswith("variant_") and name.isidentifier()
    } <= AGGREGATES | {"list_aggr"}
    for name in names & AGGREGATES:
        calls = [
            found
            for call in (f"{name}(x)", f"{name}(x, y)", f"{name}(x, y, z)")
            if (found := _is_call_of(name, call)) is not None
        ]
        assert calls and all(any(map(is_aggregate, call.walk())) for call in calls), name


ZONED = {"make_timestamptz", "timezone"}
"""What depends on the time zone of the session, which is the same on all hosts, beside what takes one."""


def test_everything_volatile_in_the_engine_is_known() -> None:
    with duckdb.connect() as connection:
        found = connection.execute("""
            SELECT function_name, stability, parameter_types::VARCHAR FROM duckdb_functions()
            WHERE function_type IN ('scalar', 'macro') AND stability <> 'CONSISTENT'
        """).fetchall()
    names = {
        name
        for name, stability, types in found
        if stability == "VOLATILE" or not ("TIME ZONE" in types or "TIMESTAMPTZ" in types or name in ZONED)
    }
    assert names <= VOLATILE
    for name in names:
        call = _is_call_of(name, f"{name}()")
        assert call is not None and is_volatile(call), name
    for text in (
        "current_date",
        "current_timestamp",
        "current_time",
        "localtime",
        "localtimestamp",
        "age(x)",
        "now()",
        "random()",
    ):
        call = _is_call_of(text, text)
        assert call is not None and is_volatile(call), text


@pytest.mark.parametrize(
    "clause",
    ["GROUPING SETS ((song), (p.song))", "CUBE (song, p.song)", "GROUPING SETS ((p.song, times), (song))"],
)
def test_grouping_sets_of_one_column_under_two_names_are_gathered(runner: SplitRunner, clause: str) -> None:
    assert set(
        check(
            runner,
            (
                "SELECT song, p.song AS other, count(*) AS n FROM songs s RIGHT JOIN plays p USING (song) "
                f"GROUP BY {clause}"
            ),
        )
    ) == {"gather"}
    assert "gather" not in check(
        runner,
        (
            "SELECT p.song, count(*) AS n FROM plays p GROUP BY "
            f"{clause.replace('(song', '(p.song').replace(', song', ', p.song')}"
        ),
    )
