"""Joins: which of them hosts do alone."""

from __future__ import annotations

import pytest

from engine.model.schema import StoreName
from tests.support.split_runner import SplitRunner
from tests.unit.plan.split.stores import check

ALONE = [
    "SELECT s.song, p.listener FROM songs s JOIN plays p ON s.song = p.song",
    "SELECT s.song, p.listener FROM songs s, plays p WHERE p.song = s.song",
    "SELECT * FROM songs JOIN plays USING (song)",
    "SELECT * FROM songs NATURAL JOIN plays",
    "SELECT s.song, p.listener FROM songs s LEFT JOIN plays p ON s.song = p.song AND p.times > 2",
    "SELECT s.song, p.listener, p.song FROM songs s RIGHT JOIN plays p ON s.song = p.song",
    "SELECT * FROM songs FULL JOIN plays USING (song)",
    "SELECT s.song FROM songs s SEMI JOIN plays p ON s.song = p.song AND p.times = 3",
    "SELECT s.song FROM songs s ANTI JOIN plays p ON s.song = p.song",
    "SELECT a.song, b.song FROM songs a JOIN songs b ON a.song = b.song",
    "SELECT t.song, s.text FROM tracks t JOIN sleeves s ON t.album = s.album AND t.number = s.page",
    "SELECT a.song FROM songs a, plays p, songs b WHERE a.song = p.song AND p.song = b.song",
    (
        "SELECT a.song FROM songs a, songs b, plays p WHERE a.song = p.listener AND p.listener = b.song AND "
        "b.song = p.song"
    ),
    (
        "SELECT s.song, p.listener, e.note FROM songs s LEFT JOIN plays p ON s.song = p.song LEFT JOIN "
        "empty e ON p.song = e.song"
    ),
    (
        "SELECT s.song, v.x FROM songs s JOIN (VALUES (1, 'a'), (NULL, 'b'), (3, 'c'), (3, 'd')) v(k, x) ON "
        "s.song = v.k"
    ),
    "SELECT s.song, v.x FROM songs s LEFT JOIN (VALUES (1, 'a'), (2, NULL)) v(k, x) ON s.genre = v.k",
    "SELECT s.song, v.k FROM (VALUES (1), (77)) v(k) RIGHT JOIN songs s ON s.song = v.k",
    "SELECT s.song, v.k FROM (VALUES (1), (77)) v(k), songs s WHERE s.song < v.k",
    (
        "SELECT s.song, q.n FROM songs s JOIN (SELECT song, count(*) AS n FROM plays GROUP BY song) q ON "
        "s.song = q.song"
    ),
    "SELECT s.song, p.song FROM songs s LEFT JOIN plays p ON s.song = p.listener WHERE p.song = s.song",
    "SELECT s.song, u.x FROM songs s, unnest(s.tags) AS u(x)",
    "SELECT s.song, p.listener FROM songs s ASOF JOIN plays p ON s.song = p.song AND s.genre >= p.listener",
    (
        "SELECT s.song, p.listener FROM songs s ASOF LEFT JOIN plays p ON s.song = p.song AND s.genre >= "
        "p.listener"
    ),
]


@pytest.mark.parametrize("sql", ALONE)
def test_hosts_join_alone(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) == ("co-partitioned",)


TOGETHER = [
    # Other columns than the keys, other partition counts, other types of keys, keys crosswise, only a part of
    # a key.
    "SELECT s.song, l.name FROM songs s JOIN listeners l ON s.genre = l.listener",
    "SELECT s.song, l.listener FROM songs s JOIN listeners l ON s.song < l.listener",
    "SELECT s.song, c.rank FROM songs s JOIN charts c ON s.song = c.song",
    "SELECT s.song, x.seconds FROM songs s JOIN short_songs x ON s.song = x.song",
    "SELECT t.song, s.text FROM tracks t JOIN sleeves s ON t.album = s.page AND t.number = s.album",
    "SELECT t.song, s.text FROM tracks t JOIN sleeves s ON t.album = s.album",
    "SELECT s.song, p.song FROM songs s LEFT JOIN plays p ON s.song = p.listener",
    (
        "SELECT s.song, p.song FROM songs s FULL JOIN plays p ON s.song = p.listener AND p.times > 1 AND "
        "s.genre > 0"
    ),
    "SELECT s.song FROM songs s SEMI JOIN charts c ON s.song = c.song",
    "SELECT s.song FROM songs s ANTI JOIN charts c ON s.song = c.song",
    "SELECT s.song, v.k FROM (VALUES (1), (77)) v(k) LEFT JOIN songs s ON s.song = v.k",
    "SELECT s.song, v.k FROM songs s FULL JOIN (VALUES (1), (77)) v(k) ON s.song = v.k",
    "SELECT v.k FROM (VALUES (1), (77)) v(k) ANTI JOIN songs s ON s.song = v.k",
    "SELECT v.k FROM (VALUES (1), (77)) v(k) SEMI JOIN songs s ON s.song = v.k",
    (
        "SELECT s.song, p.listener FROM songs s ASOF JOIN plays p ON s.song >= p.song AND p.listener = 1 AND "
        "p.times = s.genre"
    ),
    "SELECT s.song, e.note FROM songs s, plays p RIGHT JOIN empty e ON p.song = e.song",
    "SELECT s.song, c.song FROM songs s, plays p FULL JOIN charts c ON p.song = c.song WHERE s.song = 1",
    "SELECT a.song FROM songs a JOIN charts c ON a.song = c.song JOIN songs b ON c.song = b.song",
]


@pytest.mark.parametrize(
    "small",
    [frozenset[StoreName](), frozenset(map(StoreName, ("charts", "listeners", "short_songs", "tracks")))],
)
@pytest.mark.parametrize("sql", TOGETHER)
def test_hosts_do_not_join_alone(runner: SplitRunner, sql: str, small: frozenset[StoreName]) -> None:
    assert check(runner, sql, small) != ("co-partitioned",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.song, g.name FROM songs s JOIN genres g ON s.genre = g.genre",
        "SELECT s.song, g.name FROM songs s LEFT JOIN genres g ON s.genre = g.genre",
        "SELECT s.song, g.name FROM genres g RIGHT JOIN songs s ON s.genre = g.genre",
        "SELECT s.song FROM songs s SEMI JOIN genres g ON s.genre = g.genre",
        "SELECT s.song FROM songs s ANTI JOIN genres g ON s.genre = g.genre",
        (
            "SELECT s.song, l.name FROM songs s, plays p, listeners l WHERE s.song = p.song AND p.listener = "
            "l.listener AND l.age > 5"
        ),
        (
            "SELECT p.song, continent FROM genres g, songs s, plays p, countries c WHERE g.genre = s.genre "
            "AND s.song = p.song AND p.country = c.country"
        ),
    ],
)
def test_what_is_small_is_sent_to_every_host(runner: SplitRunner, sql: str) -> None:
    assert "broadcast" in (rules := check(runner, sql)) and rules[-1] == "co-partitioned"


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT s.song, g.name FROM genres g LEFT JOIN songs s ON s.genre = g.genre",
        "SELECT s.song, g.name FROM genres g FULL JOIN songs s ON s.genre = g.genre",
        "SELECT s.song, g.name FROM songs s RIGHT JOIN genres g ON s.genre = g.genre AND s.seconds > 3",
        "SELECT g.name FROM genres g ANTI JOIN songs s ON s.genre = g.genre",
    ],
)
def test_a_side_whose_rows_stay_without_a_partner_is_never_sent(runner: SplitRunner, sql: str) -> None:
    assert "broadcast" not in check(runner, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT p.song, count(*) FROM songs s LEFT JOIN plays p ON s.song = p.song GROUP BY p.song",
        "SELECT s.song, count(*) FROM songs s RIGHT JOIN plays p ON s.song = p.song GROUP BY s.song",
        "SELECT s.song, count(*) FROM songs s FULL JOIN plays p ON s.song = p.song GROUP BY s.song",
        "SELECT DISTINCT p.song FROM songs s LEFT JOIN plays p ON s.song = p.song",
    ],
)
def test_rows_padded_with_nulls_are_on_any_host(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) != ("co-partitioned",)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT song, count(*) FROM songs FULL JOIN plays USING (song) GROUP BY song",
        "SELECT s.song, count(*) FROM songs s LEFT JOIN plays p ON s.song = p.song GROUP BY s.song",
        (
            "SELECT p.song, count(*) FROM songs s LEFT JOIN plays p ON s.song = p.song WHERE p.song = s.song "
            "GROUP BY p.song"
        ),
        "SELECT p.song, count(*) FROM songs s JOIN plays p ON s.song = p.song GROUP BY p.song",
    ],
)
def test_a_key_that_is_never_null_places_groups(runner: SplitRunner, sql: str) -> None:
    assert check(runner, sql) == ("co-partitioned",)
