"""Subqueries in expressions: which of them hosts work out for their own rows, and which are worked out
before.
"""

from __future__ import annotations

from functools import partial

import duckdb
import pytest

from engine.model.schema import StoreName
from engine.plan.split.explain_split import explain_split
from engine.sql.engine_dialect import EngineDialect
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.stores import SMALL, check, sizes_of


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT song FROM songs s WHERE EXISTS (SELECT * FROM plays p WHERE p.song = s.song AND "
            "p.times > s.genre)"
        ),
        "SELECT song FROM songs s WHERE NOT EXISTS (SELECT 1 FROM plays p WHERE p.song = s.song)",
        "SELECT song, (SELECT sum(times) FROM plays p WHERE p.song = s.song) AS t FROM songs s",
        (
            "SELECT song FROM songs s WHERE seconds > (SELECT avg(times) FROM plays p WHERE s.song = "
            "p.song AND p.listener > 0)"
        ),
        "SELECT song FROM songs s WHERE genre IN (SELECT times FROM plays p WHERE p.song = s.song)",
        "SELECT song FROM songs s WHERE genre NOT IN (SELECT times FROM plays p WHERE p.song = s.song)",
        "SELECT song FROM songs WHERE song IN (SELECT song FROM plays)",
        "SELECT song FROM songs WHERE song NOT IN (SELECT song FROM plays)",
        "SELECT song, song IN (SELECT song FROM plays WHERE times = 2) AS i FROM songs",
        (
            "SELECT song FROM songs WHERE song IN (SELECT song FROM plays GROUP BY song HAVING sum(times) "
            "> 6) OR genre = 1"
        ),
        "SELECT song FROM plays WHERE (song, listener) IN (SELECT song, genre FROM songs)",
        (
            "SELECT album FROM tracks t WHERE EXISTS (FROM sleeves s WHERE s.page = t.number AND t.album = "
            "s.album)"
        ),
        (
            "FROM songs s SELECT s.song WHERE EXISTS (FROM plays p WHERE p.song = s.song AND NOT EXISTS "
            "(FROM plays q WHERE q.song = p.song))"
        ),
        (
            "SELECT song FROM plays p GROUP BY song HAVING count(*) > (SELECT count(*) FROM songs s WHERE "
            "s.song = p.song)"
        ),
        "SELECT song FROM songs s WHERE EXISTS (SELECT 1 FROM (VALUES (1), (2)) v(x) WHERE v.x = s.genre)",
        (
            "SELECT song FROM songs s LEFT JOIN plays p USING (song) WHERE EXISTS (FROM plays q WHERE "
            "q.song = p.song AND q.listener = 2)"
        ),
    ],
)
def test_hosts_work_out_subqueries_on_their_rows(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) == ("co-partitioned",)


ELSEWHERE = [
    "SELECT song FROM songs s WHERE EXISTS (SELECT * FROM plays p WHERE p.listener = s.song)",
    "SELECT song FROM songs s WHERE EXISTS (SELECT * FROM charts c WHERE c.song = s.song)",
    "SELECT song FROM songs s WHERE NOT EXISTS (SELECT * FROM charts c WHERE c.song = s.song AND c.rank > 1)",
    "SELECT song, (SELECT max(rank) FROM charts c WHERE c.song = s.song) AS r FROM songs s WHERE genre = 2",
    (
        "SELECT song FROM songs s WHERE EXISTS (SELECT * FROM plays p WHERE p.song = s.song OR p.listener = "
        "s.genre)"
    ),
    "SELECT song FROM songs WHERE genre IN (SELECT song FROM plays)",
    "SELECT song FROM songs WHERE genre NOT IN (SELECT genre FROM songs WHERE genre IS NOT NULL)",
    "SELECT song FROM songs WHERE genre NOT IN (SELECT genre FROM songs)",
    "SELECT song FROM songs WHERE song NOT IN (SELECT genre FROM songs WHERE song < 0)",
    "SELECT song FROM songs WHERE (song, genre) NOT IN (SELECT song, times FROM plays)",
    "SELECT song FROM songs WHERE genre > (SELECT avg(genre) FROM songs)",
    "SELECT song FROM songs WHERE EXISTS (FROM empty)",
    "SELECT song FROM songs WHERE NOT EXISTS (FROM plays WHERE times > 100)",
    "SELECT song FROM songs WHERE seconds >= ALL (SELECT times FROM plays WHERE times IS NOT NULL)",
    "SELECT song FROM songs WHERE seconds = ANY (SELECT rank FROM charts)",
    "SELECT genre, count(*) FROM songs GROUP BY genre HAVING count(*) > (SELECT count(*) FROM genres)",
    "SELECT song FROM songs s WHERE genre = (SELECT count(*) FROM listeners l WHERE l.age > s.seconds)",
    (
        "SELECT song FROM songs s WHERE EXISTS (SELECT 1 FROM plays p, listeners l WHERE p.song = s.song AND "
        "l.listener = p.listener)"
    ),
    (
        "SELECT song FROM songs s WHERE song IN (SELECT song FROM charts UNION SELECT listener FROM plays "
        "WHERE plays.song = s.song)"
    ),
    (
        "SELECT s.song FROM songs s JOIN plays p ON s.song = p.song AND p.listener IN (SELECT listener FROM "
        "listeners WHERE age > 7)"
    ),
    (
        "SELECT CASE WHEN EXISTS (FROM plays p WHERE p.song = s.song) THEN 1 ELSE 0 END AS e, count(*) FROM "
        "songs s GROUP BY 1"
    ),
    (
        "SELECT p.song IN (SELECT song FROM songs) AS i, count(*) FROM songs s LEFT JOIN plays p ON s.song = "
        "p.song AND p.times > 2 GROUP BY ALL"
    ),
    (
        "SELECT s.song FROM songs s LEFT JOIN plays p ON s.song = p.song AND times > 2 WHERE NOT p.song IN "
        "(SELECT song FROM plays WHERE times = 9)"
    ),
    (
        "SELECT sum(times) FROM plays p, songs s WHERE p.song = s.song AND genre < 2 AND times < (SELECT "
        "avg(rank) FROM charts c WHERE song = listener)"
    ),
]


@pytest.mark.parametrize(
    "small", [frozenset[StoreName](), frozenset({StoreName("charts"), StoreName("listeners")})]
)
@pytest.mark.parametrize("sql", ELSEWHERE)
def test_other_subqueries_are_worked_out_before_or_at_the_end(
    runner: SplitRunner, sql: str, small: frozenset[StoreName]
) -> None:
    assert check(runner, sql, small) != ("co-partitioned",)


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT song FROM songs s WHERE EXISTS (SELECT 1 FROM (SELECT * FROM plays p WHERE p.song = "
            "s.song) q WHERE q.times > 1)"
        ),
        (
            "SELECT song FROM songs s WHERE genre IN (SELECT m FROM (SELECT max(times) AS m FROM plays p "
            "WHERE p.listener = s.genre) q)"
        ),
        (
            'WITH "__part_0" AS (SELECT song FROM songs WHERE song < 3) SELECT unnest([p.song, c.rank]) FROM '
            '"__part_0" p, charts c'
        ),
        'SELECT "__part_0".song FROM songs "__part_0" JOIN charts c ON "__part_0".genre = c.song',
        "SELECT 1 AS one FROM plays HAVING 1 = 1",
        (
            "SELECT count(*) FROM songs s, charts c WHERE (s.song = c.song AND genre = 1) OR (s.song = "
            "c.song AND genre = 2 AND rank > 1)"
        ),
        (
            "SELECT count(*) FROM songs s, charts c WHERE (genre = 1 AND rank = 3) OR (genre IS NULL AND "
            "rank IN (1, 2) AND s.song < 9)"
        ),
    ],
)
def test_strange_places(runner: SplitRunner, sql: str) -> None:
    check(runner, sql, frozenset())


def test_gathered_rows_are_those_that_can_matter(runner: SplitRunner) -> None:
    sql = "SELECT unnest(tags), title FROM songs WHERE song IN (1, 2, 30) AND genre >= $1 AND title LIKE 't%'"
    check(runner, sql, parameters=(1,))
    fragment = split_or_gather(runner.bind(sql)).fragments[0].tree.sql(dialect=EngineDialect)
    assert all(
        text in fragment
        for text in ('"song" IN (1, 2, 30)', '"genre" >= $1', """STARTS_WITH("songs"."title", 't')""")
    ), fragment


def test_parameters_stand_anywhere(runner: SplitRunner) -> None:
    condition = (
        "s.genre = g.genre AND s.song > $2 AND s.seconds IN (SELECT times FROM plays WHERE listener = $1)"
    )
    check(
        runner,
        f"SELECT s.song, g.name FROM songs s, genres g WHERE {condition} ORDER BY 1 LIMIT $3",
        parameters=(1, 3, 5),
    )


def test_known_rows_reduce_what_others_send(runner: SplitRunner) -> None:
    sql = "SELECT sum(rank) FROM charts c, listeners l WHERE c.rank = l.listener AND l.age = 14"
    check(runner, sql, frozenset())
    lines = explain_split(
        split_or_gather(
            runner.bind(
                "SELECT count(*) FROM listeners l WHERE age = 14 AND NOT EXISTS (FROM plays p WHERE "
                "p.listener = l.listener)"
            ),
            sizes_of(frozenset()),
        )
    )
    assert any('"p"."listener" IN (SELECT' in line for line in lines)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT song FROM songs WHERE (SELECT 1 FROM plays) IN (1, 2)",
        "SELECT song FROM songs WHERE genre IN ((SELECT 1 FROM plays), 7)",
        "SELECT song FROM songs WHERE (SELECT times FROM plays) IN (SELECT times FROM plays)",
    ],
)
def test_a_query_that_is_a_value_must_have_one_row(runner: SplitRunner, sql: str) -> None:
    bound = runner.bind(sql)
    plan = split_or_gather(bound, sizes_of(SMALL))
    for answer in (partial(runner.run_whole, bound), partial(runner.run, plan, bound)):
        with pytest.raises(duckdb.InvalidInputException, match="More than one row returned by a subquery"):
            answer(())
