"""How much work planning is grows with a statement no faster than it may: with the number of its conditions,
columns and keys as that number, and with its tables as their square at most.

Work is counted in calls of functions, which are the same in each run on any machine.
"""

from __future__ import annotations

import cProfile
from collections.abc import Callable, Mapping
from random import Random

import pytest

from tests.support.split_runner import bound_statement
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.stores import SMALL, sizes_of, stores

TIMES = 4
"""How many times as many pieces the longer one of two statements has."""
MOST_GROWTH = 1.5 * TIMES
"""Of work, where a statement has more conditions, columns or keys; some of them are sorted."""
MOST_GROWTH_OF_JOINS = TIMES * TIMES
PARTNERS = 2
"""Pieces of other clauses that each piece is tried with."""
PIECES: Mapping[str, tuple[str, ...]] = {
    "SELECT": (
        "p.times + {i} AS c{i}",
        "sum(p.times + {i}) AS c{i}",
        "count(DISTINCT p.listener + {i}) AS c{i}",
        "sum(p.times) FILTER (WHERE p.listener > {i}) AS c{i}",
        "string_agg(p.country, ',' ORDER BY p.times + {i}, p.listener) AS c{i}",
        "array_agg(DISTINCT p.country ORDER BY p.country) AS c{i}",
        "sum(p.times) OVER (PARTITION BY p.song ORDER BY p.times + {i}) AS c{i}",
        "CASE WHEN p.times = {i} THEN p.country END AS c{i}",
        "(SELECT max(l.age) FROM listeners l WHERE l.listener = p.listener + {i}) AS c{i}",
    ),
    "WHERE": (
        "p.times > {i}",
        "p.song = {i}",
        "p.song + {i} = p.listener",
        "p.song NOT IN ({i}, 7, 8)",
        "p.country LIKE 'a{i}%'",
        "(p.times = {i} OR p.country = 'x{i}')",
        "NOT (p.times = {i} AND p.listener = 1)",
        "(p.song = {i} AND p.times = 1 OR p.times = {i})",
        "p.song = p.listener",
        "x.song <> {i}",
        "y.song > {i}",
    ),
    "GROUP BY": ("p.times + {i}", "p.country || '{i}'", "p.listener"),
    "HAVING": ("sum(p.times) > {i}", "p.song <> {i}"),
    "ORDER BY": ("p.times + {i}", "p.country || '{i}' DESC", "(SELECT {i})"),
}
JOINS = (
    "JOIN listeners l{i} ON l{i}.listener = p.listener",
    "JOIN charts l{i} ON l{i}.song = x.song",
    "LEFT JOIN charts l{i} ON l{i}.song = p.song",
    "JOIN songs l{i} USING (song)",
    "SEMI JOIN charts l{i} ON l{i}.song = p.song",
    "ANTI JOIN charts l{i} ON l{i}.song = p.song AND l{i}.rank > {i}",
    "FULL JOIN charts l{i} USING (song)",
    "JOIN charts l{i} ON l{i}.song = p.song + {i} AND l{i}.rank > p.times",
    "JOIN (SELECT song, sum(times) AS s{i} FROM plays GROUP BY song) l{i} USING (song)",
    "JOIN (SELECT song FROM charts UNION ALL SELECT song FROM songs) l{i} USING (song)",
    "JOIN y l{i} USING (song)",
)
NESTED: Mapping[str, Callable[[int, str], str]] = {
    "sides of a union": lambda sides, where: (
        f"SELECT * FROM ({' UNION ALL '.join(['SELECT song FROM charts'] * sides)}) p WHERE {where}"
    ),
    "memberships": lambda queries, where: (
        "SELECT song FROM plays p WHERE "
        + written_pieces("p.song IN (SELECT c.song FROM charts c WHERE c.rank > {i})", queries, " AND ")
        + f" AND {where}"
    ),
    "left joins in a chain": lambda joins, where: (
        "SELECT count(*) FROM plays p JOIN charts l0 USING (song) "
        + " ".join(f"LEFT JOIN charts l{n + 1} ON l{n + 1}.song = l{n}.song" for n in range(joins))
        + f" WHERE {where}"
    ),
    "queries in queries": lambda depth, where: (
        "SELECT * FROM " + "(SELECT * FROM " * depth + "plays" + ") p" * depth + f" WHERE {where}"
    ),
    "a chain of common tables": lambda length, where: (
        "WITH x0 AS (FROM plays)"
        + "".join(f", x{n + 1} AS (SELECT song FROM x{n} WHERE song > {n})" for n in range(length))
        + f" SELECT * FROM x{length} p WHERE {where}"
    ),
    "readers of a common table": lambda readers, where: (
        "WITH z AS (FROM plays) SELECT count(*) FROM z p "
        + written_pieces("JOIN z z{i} USING (song)", readers, " ")
        + f" WHERE {where}"
    ),
}


def written_pieces(piece: str, times: int, separator: str) -> str:
    return separator.join(piece.replace("{i}", str(number)) for number in range(times))


def statement(clauses: Mapping[str, str], pieces: int, joins: str = "") -> str:
    """A SELECT from three tables, with clauses that have a piece many times."""
    separators = {"WHERE": " AND ", "HAVING": " AND "}
    written = {
        clause: f"{clause} {written_pieces(piece, pieces, separators.get(clause, ', '))}"
        for clause, piece in clauses.items()
    }
    if "HAVING" in written:
        written.setdefault("GROUP BY", "GROUP BY p.song")
    selected = written.pop("SELECT", "SELECT count(*)")
    best = "WITH y AS (SELECT song, max(rank) AS best FROM charts GROUP BY song)"
    tables = "plays p JOIN charts x ON x.song = p.song JOIN y ON y.song = p.song"
    rest = " ".join(written[clause] for clause in PIECES if clause in written)
    return f"{best} {selected} FROM {tables} {joins} {rest}"


def planning_calls(sql: str) -> int:
    """How many functions are called to plan a statement."""
    bound = bound_statement(sql, [definition for definition, _ in stores().values()])
    profile = cProfile.Profile()
    profile.enable()
    split_or_gather(bound, sizes_of(SMALL))
    profile.disable()
    return sum(entry.callcount for entry in profile.getstats())


def growth(short: str, long: str) -> float:
    return planning_calls(long) / planning_calls(short)


@pytest.mark.parametrize("clause", PIECES)
def test_planning_grows_with_the_pieces_of_two_clauses(clause: str) -> None:
    random = Random(f"planning {clause}")
    others = [(other, piece) for other, pieces in PIECES.items() if other != clause for piece in pieces]
    for piece in PIECES[clause]:
        for other, partner in random.sample(others, PARTNERS):
            clauses = {clause: piece, other: partner}
            found = growth(statement(clauses, 25), statement(clauses, 25 * TIMES))
            assert found < MOST_GROWTH, clauses


@pytest.mark.parametrize("join", JOINS)
def test_planning_grows_with_the_square_of_joins(join: str) -> None:
    random = Random(f"planning {join}")
    pieces = [(clause, piece) for clause, those in PIECES.items() for piece in those if clause != "GROUP BY"]
    for clause, piece in random.sample(pieces, PARTNERS):
        few, many = (
            statement({clause: piece}, count, written_pieces(join, count, " ")) for count in (4, 4 * TIMES)
        )
        assert growth(few, many) < MOST_GROWTH_OF_JOINS, piece
        short, long = (
            statement({clause: piece}, count, written_pieces(join, 4, " ")) for count in (25, 25 * TIMES)
        )
        assert growth(short, long) < MOST_GROWTH, piece


@pytest.mark.parametrize("shape", NESTED)
def test_planning_grows_with_conditions_on_what_is_nested(shape: str) -> None:
    for condition in ("p.song <> {i}", "(p.song < {i} OR p.song > 9)"):
        few, many = written_pieces(condition, 25, " AND "), written_pieces(condition, 25 * TIMES, " AND ")
        assert growth(NESTED[shape](4, few), NESTED[shape](4, many)) < MOST_GROWTH
        assert growth(NESTED[shape](4, few), NESTED[shape](4 * TIMES, few)) < MOST_GROWTH_OF_JOINS
