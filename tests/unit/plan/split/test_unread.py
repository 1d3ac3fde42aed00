"""Columns that nothing reads: not worked out by hosts, and what hangs on them stays right."""

from __future__ import annotations

import pytest

from engine.sql.engine_dialect import EngineDialect
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.stores import check

OVERFLOW = "9223372036854775807 + song + genre"
"""Fails for rows that are there."""


@pytest.mark.parametrize(
    "sql",
    [
        (
            f"WITH c AS (SELECT sum({OVERFLOW}) AS s, count(DISTINCT genre) AS n FROM songs) SELECT p.times "
            "FROM plays p LEFT JOIN c ON c.n = p.times"
        ),
        (
            f"WITH c AS (SELECT {OVERFLOW} AS s, count(*) AS n FROM songs GROUP BY ALL) SELECT count(*) FROM "
            "(SELECT 1 AS one FROM songs) a"
        ),
        (
            f"SELECT p.times FROM plays p JOIN (SELECT genre, sum({OVERFLOW}) AS s FROM songs GROUP BY "
            "genre) g ON g.genre = p.times"
        ),
        f"SELECT count(*) FROM (SELECT sum({OVERFLOW}) AS s FROM songs) g, genres",
        f"SELECT name FROM genres, (SELECT sum({OVERFLOW}) AS s FROM songs HAVING count(*) > 1) g",
        (
            f"SELECT a.n FROM (SELECT b.n, b.s FROM (SELECT count(*) AS n, sum({OVERFLOW}) AS s FROM songs) "
            "b) a JOIN plays p ON p.times = a.n"
        ),
        (
            f"WITH a AS (SELECT genre AS g, {OVERFLOW} AS s FROM songs), b AS (SELECT g, s FROM a) SELECT "
            "b.g FROM b JOIN plays p ON p.times = b.g"
        ),
        (
            f"SELECT l.name FROM listeners l WHERE l.age IN (SELECT g FROM (SELECT genre AS g, {OVERFLOW} "
            "AS s FROM songs) t)"
        ),
    ],
)
def test_what_nothing_reads_cannot_fail(runner: SplitRunner, sql: str) -> None:
    check(runner, sql)
    plan = split_or_gather(runner.bind(sql))
    assert not any(
        "9223372036854775807" in tree.sql(dialect=EngineDialect)
        for tree in [*(each.tree for each in plan.fragments), plan.merge]
        if tree is not None
    )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) FROM (SELECT DISTINCT genre, seconds FROM songs) t",
        "SELECT t.genre FROM (SELECT genre, seconds FROM songs UNION SELECT listener, times FROM plays) t",
        "SELECT t.genre FROM (SELECT genre, seconds FROM songs ORDER BY seconds, genre LIMIT 5) t",
        "SELECT t.genre FROM (SELECT seconds AS s, genre FROM songs ORDER BY 1, genre LIMIT 5) t",
        "SELECT count(*) FROM (SELECT 7, genre FROM songs GROUP BY 1, genre) t",
        "SELECT count(*) FROM (SELECT count(*) AS n, max(seconds) AS m FROM songs) t",
        "SELECT count(*) FROM (SELECT max(seconds) AS m FROM songs WHERE FALSE) t",
        "SELECT t.genre FROM (SELECT genre, row_number() OVER (ORDER BY song) AS r FROM songs) t",
        (
            "SELECT t.genre FROM (SELECT genre, row_number() OVER (ORDER BY song) AS r FROM songs QUALIFY "
            "r < 9) t"
        ),
        (
            "WITH c AS (SELECT genre, count(*) AS n FROM songs GROUP BY genre) SELECT a.genre, b.n FROM c "
            "a JOIN c b USING (genre)"
        ),
        (
            "SELECT 1 FROM genres WHERE EXISTS (SELECT t.s FROM (SELECT song AS s, genre AS g FROM songs) t "
            "WHERE t.g = genres.genre)"
        ),
        (
            "SELECT t.genre, t.n FROM (SELECT DISTINCT ON (genre) genre, song AS n, seconds AS s FROM songs "
            "ORDER BY genre, s, n) t"
        ),
    ],
)
def test_what_hangs_on_unread_columns_stays(runner: SplitRunner, sql: str) -> None:
    check(runner, sql)
