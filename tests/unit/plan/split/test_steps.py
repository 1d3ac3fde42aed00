"""The coordinator's steps in a row that become one, and those that do not."""

from __future__ import annotations

import pytest

from engine.plan.split.streamed_merges import is_read_once
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.stores import SMALL, check, sizes_of


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT count(*) AS n, max(k) AS k FROM (SELECT genre, count(*) AS k FROM songs GROUP BY genre)",
        "SELECT count(*) AS n FROM (SELECT DISTINCT genre FROM songs) AS t WHERE genre > $1",
        "SELECT sum(song) AS s FROM (SELECT song, title FROM songs ORDER BY title, song LIMIT 7)",
        (
            "SELECT max(r) AS m FROM (SELECT row_number() OVER (ORDER BY x, song) AS r FROM (SELECT song, "
            "seconds % 7 AS x FROM songs)) WHERE r % 2 = 0"
        ),
        (
            "SELECT k, count(*) AS n FROM (SELECT n % 3 AS k FROM (SELECT genre, count(*) AS n FROM songs "
            "GROUP BY genre)) GROUP BY k ORDER BY k"
        ),
        (
            "SELECT n + CAST($1 AS DOUBLE) AS n FROM (SELECT genre, avg(seconds) AS n FROM songs GROUP BY "
            "genre HAVING count(*) > $2) ORDER BY n LIMIT 2"
        ),
        (
            "WITH c AS (SELECT genre, sum(seconds) AS s FROM songs GROUP BY genre) SELECT max(s) AS m, "
            "min(genre) AS g FROM c"
        ),
    ],
)
def test_a_derived_table_is_a_part_of_the_merge(runner: SplitRunner, sql: str) -> None:
    bound = runner.bind(sql)
    plan = split_or_gather(bound, sizes_of(SMALL))
    assert [fragment.is_local for fragment in plan.fragments] == [False]
    assert len(plan.rules) == 2
    assert plan.merge is not None
    assert is_read_once(plan.merge, plan.fragments[-1].name)
    check(runner, sql, parameters=(1, 2)[: len(bound.parameters)])


@pytest.mark.parametrize(
    "sql",
    [
        (
            "WITH c AS (SELECT genre, sum(seconds) AS s FROM songs GROUP BY genre) SELECT a.s FROM c a, c b "
            "WHERE a.s = b.s ORDER BY a.s"
        ),
        (
            "SELECT k FROM (SELECT genre, count(*) AS k FROM songs GROUP BY 1) t JOIN (SELECT rank, "
            "count(*) AS k FROM charts GROUP BY 1) u USING (k)"
        ),
    ],
)
def test_what_is_read_twice_or_joined_is_a_table(runner: SplitRunner, sql: str) -> None:
    assert any(fragment.is_local for fragment in split_or_gather(runner.bind(sql), sizes_of(SMALL)).fragments)
    check(runner, sql)
