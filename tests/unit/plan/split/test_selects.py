"""GROUP BY, windows, DISTINCT, ORDER BY and LIMIT, set operations and common table expressions."""

from __future__ import annotations

import pytest

from tests.support.split_runner import SplitRunner
from tests.unit.plan.split.stores import check


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT song, country, sum(times), count(*), list(listener ORDER BY listener), avg(times) FROM "
            "plays GROUP BY song, country"
        ),
        "SELECT song % 7 AS x, max(times) FROM plays GROUP BY song, country HAVING count(*) > 1",
        "SELECT song, sum(times) FROM plays GROUP BY ALL",
        "SELECT song, country, grouping(country), count(*) FROM plays GROUP BY song, ROLLUP (country)",
        "SELECT song, listener, rank() OVER (PARTITION BY song ORDER BY listener) FROM plays",
        (
            "SELECT song, listener FROM plays QUALIFY row_number() OVER (PARTITION BY song ORDER BY listener "
            "DESC) = 1"
        ),
        "SELECT song, count(*) AS n, sum(count(*)) OVER (PARTITION BY song) FROM plays GROUP BY song, country",
        "SELECT DISTINCT song, country FROM plays",
        "SELECT DISTINCT ON (song) song, listener FROM (SELECT * FROM plays WHERE listener = 1)",
        "SELECT album, number, count(*) FROM tracks GROUP BY album, number",
        "SELECT n, song FROM (SELECT song, count(*) AS n FROM plays GROUP BY song) WHERE n > 2",
        "SELECT song FROM songs UNION ALL SELECT song FROM plays",
        "SELECT song, genre FROM songs UNION ALL SELECT rank, song FROM charts",
        "SELECT song, title FROM songs UNION SELECT song, country FROM plays",
        "SELECT song FROM plays INTERSECT SELECT song FROM songs",
        "SELECT song FROM plays INTERSECT ALL SELECT song FROM plays WHERE listener > 0",
        "SELECT song FROM plays EXCEPT SELECT song FROM songs",
        "SELECT song FROM plays EXCEPT ALL SELECT song FROM songs",
        "SELECT song, count(*) FROM (SELECT song FROM songs UNION ALL SELECT song FROM plays) GROUP BY song",
        (
            "WITH loud AS (SELECT song, sum(times) AS t FROM plays GROUP BY song) SELECT * FROM loud JOIN "
            "songs USING (song)"
        ),
        (
            "WITH few AS (SELECT song, genre FROM songs WHERE seconds > 3) SELECT a.song FROM few a JOIN "
            "few b ON a.song = b.song"
        ),
        "WITH plays AS (SELECT * FROM plays WHERE times > 1) SELECT song, count(*) FROM plays GROUP BY song",
        "SELECT song FROM empty GROUP BY song",
    ],
)
def test_hosts_answer_alone(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) == ("co-partitioned",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT album, count(*) FROM tracks GROUP BY album",
        "SELECT song + 0, count(*) FROM plays GROUP BY song + 0",
        "SELECT song, country, count(*) FROM plays GROUP BY ROLLUP (song, country)",
        "SELECT song, country, count(*) FROM plays GROUP BY GROUPING SETS ((song, country), (country))",
        "SELECT song, rank() OVER (PARTITION BY genre ORDER BY song) FROM songs",
        "SELECT song, count(*) OVER (PARTITION BY song), count(*) OVER () FROM plays",
        "SELECT count(*), sum(song) FROM empty",
        "SELECT count(*) FROM plays HAVING count(*) > 1000",
        "SELECT DISTINCT country FROM plays",
        "SELECT song FROM songs UNION SELECT song FROM charts",
        "SELECT song, genre FROM songs UNION SELECT listener, song FROM plays",
        "SELECT song FROM songs INTERSECT SELECT song FROM short_songs",
        "SELECT song FROM songs UNION ALL SELECT 99",
        "SELECT song FROM songs EXCEPT SELECT 3",
        "(SELECT song FROM songs UNION SELECT listener FROM plays) INTERSECT SELECT song FROM charts",
        "SELECT song FROM songs UNION (SELECT listener FROM plays INTERSECT SELECT song FROM charts)",
        "SELECT count(*) FROM (SELECT song FROM plays LIMIT 7)",
        "SELECT 1 AS one",
        "SELECT (SELECT count(*) FROM plays) + (SELECT max(song) FROM songs) AS n",
        "SELECT song, random() < 2 AS r FROM songs",
        "SELECT count(*) FROM songs WHERE random() < 2 AND now() > TIMESTAMPTZ '2020-01-01'",
        "SELECT a.s FROM (SELECT sum(times) AS s FROM plays) a, (SELECT count(*) AS c FROM songs) b",
        (
            "WITH loud AS (SELECT song, sum(times) AS t FROM plays GROUP BY song) SELECT song FROM loud "
            "WHERE t = (SELECT max(t) FROM loud)"
        ),
        (
            "WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < (SELECT count(*) "
            "FROM genres)) SELECT sum(n) FROM up"
        ),
        "FROM (PIVOT songs ON genre USING count(*) GROUP BY title) ORDER BY title",
        "SELECT song, list_transform(tags, lambda x: x || song) FROM songs ORDER BY song LIMIT 3",
    ],
)
def test_hosts_do_not_answer_alone(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) != ("co-partitioned",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT song, genre FROM songs ORDER BY genre NULLS FIRST, song DESC LIMIT 5 OFFSET 2",
        "SELECT song, sum(times) AS t FROM plays GROUP BY song ORDER BY t DESC NULLS LAST, song LIMIT 4",
        "SELECT song FROM plays GROUP BY song ORDER BY max(times) DESC NULLS LAST, song LIMIT 4",
        "SELECT title FROM songs ORDER BY song",
        "SELECT DISTINCT song FROM plays ORDER BY song DESC LIMIT 3",
        "SELECT song FROM songs UNION ALL SELECT song FROM plays ORDER BY song LIMIT 9",
        "SELECT song, rank() OVER (PARTITION BY song ORDER BY listener) AS r FROM plays ORDER BY ALL LIMIT 4",
    ],
)
def test_hosts_send_their_first_rows(runner: SplitRunner, sql: str) -> None:
    rules = check(runner, sql)
    assert rules[-2].endswith(("top-k", "distinct")) and rules[-1].endswith("merge")


def test_readers_of_readers_plan_in_reasonable_time(runner: SplitRunner) -> None:
    steps = ", ".join(
        f"q{n} AS (SELECT a.song FROM q{n - 1} a JOIN q{n - 1} b ON a.song = b.song)" for n in range(1, 12)
    )
    assert check(
        runner, f"WITH q0 AS (SELECT song FROM songs WHERE song < 9), {steps} SELECT song FROM q11"
    ) == ("co-partitioned",)


@pytest.mark.parametrize("depth", [1, 12])
def test_queries_in_queries(runner: SplitRunner, depth: int) -> None:
    derived = "SELECT * FROM songs"
    for number in range(depth):
        derived = f"SELECT * FROM ({derived}) q{number} WHERE song > {number}"
    assert check(runner, derived) == ("co-partitioned",)
    nested = f"p{depth}.times > 1"
    for number in reversed(range(depth)):
        nested = f"EXISTS (FROM plays p{number + 1} WHERE p{number + 1}.song = p{number}.song AND {nested})"
    assert check(runner, f"SELECT p0.song FROM plays p0 WHERE {nested}") == ("co-partitioned",)


def test_a_common_table_expression_whose_readers_must_agree_runs_once(runner: SplitRunner) -> None:
    sql = (
        "WITH t AS (SELECT song, any_value(listener) AS l FROM plays GROUP BY song) SELECT count(*) FROM t "
        "a JOIN t b USING (song, l)"
    )
    assert check(runner, sql)[0] == "co-partitioned"


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT p.song FROM (SELECT song FROM songs GROUP BY CUBE (song)) s NATURAL JOIN plays p GROUP "
            "BY p.song ORDER BY song"
        ),
        "SELECT p.song, s.song AS other FROM songs s LEFT JOIN plays p USING (song) ORDER BY song, other",
        (
            "SELECT e.song, s.genre FROM songs s LEFT JOIN empty e USING (song) ORDER BY song, s.genre NULLS "
            "FIRST"
        ),
        "SELECT s.genre AS song, p.song FROM songs s LEFT JOIN plays p USING (song) ORDER BY song, 2",
    ],
)
def test_order_by_means_an_output_before_a_merged_column(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DISTINCT ON (song) song, listener, times FROM plays ORDER BY song, listener DESC",
        "SELECT DISTINCT ON (song) song, listener FROM plays ORDER BY listener DESC, song LIMIT 5",
        (
            "SELECT s.song, d.listener FROM songs s JOIN (SELECT DISTINCT ON (song) song, listener FROM "
            "plays ORDER BY listener DESC) d USING (song)"
        ),
        (
            "SELECT DISTINCT ON (song) song, row_number() OVER (PARTITION BY song ORDER BY listener) AS n "
            "FROM plays ORDER BY song, n DESC"
        ),
        (
            "SELECT DISTINCT ON (song) song, max(listener) AS m FROM plays GROUP BY song, times ORDER BY "
            "song, m DESC"
        ),
    ],
)
def test_the_order_says_which_row_of_a_key_is_left(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql)
