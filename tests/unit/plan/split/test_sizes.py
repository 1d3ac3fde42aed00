"""Sizes: which side of a join stays in place, and what follows from conditions about others."""

from __future__ import annotations

import pytest

from engine.model.schema import StoreName
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.sizes import Sizes, StoreSize
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.stores import check

SQL = "SELECT s.song, l.name FROM songs s, listeners l WHERE s.genre = l.listener"


def _plan(runner: SplitRunner, sql: str, sizes: Sizes) -> SplitPlan:
    return split_or_gather(runner.bind(sql), sizes)


def _sizes(songs: int, listeners: int) -> Sizes:
    return Sizes(
        tuple(
            (StoreName(name), StoreSize(rows, 40 * rows))
            for name, rows in (("listeners", listeners), ("songs", songs))
        )
    )


@pytest.mark.parametrize(
    ("songs", "listeners", "kept"), [(10_000_000, 100_000, "songs"), (100_000, 10_000_000, "listeners")]
)
def test_the_side_with_most_bytes_stays(runner: SplitRunner, songs: int, listeners: int, kept: str) -> None:
    plan = _plan(runner, SQL, _sizes(songs, listeners))
    assert [[str(each.definition.name) for each in fragment.references] for fragment in plan.fragments][
        -1
    ] == [kept]
    assert plan.fragments[0].rule == "broadcast"


@pytest.mark.parametrize(
    "sizes", [Sizes(), _sizes(10_000_000, 10_000_000), _sizes(10**10, 10**9), _sizes(10, 10)]
)
def test_nothing_is_sent_to_every_host_where_that_saves_nothing(runner: SplitRunner, sizes: Sizes) -> None:
    assert "broadcast" not in _plan(runner, SQL, sizes).rules


def test_sizes_that_differ_a_little_are_the_same_when_rounded() -> None:
    assert (
        StoreSize(900, 70_000).round_up() == StoreSize(1000, 130_000).round_up() == StoreSize(1024, 131_072)
    )
    assert StoreSize(0, 0).round_up() == StoreSize(1, 1)


def test_tables_connected_through_a_third_are_joined_before_they_are_sent(runner: SplitRunner) -> None:
    sql = (
        "SELECT s.title, p.times, c.rank FROM songs s, plays p, charts c "
        "WHERE s.song = c.song AND p.song = c.song AND p.listener = c.rank AND s.title LIKE '%1%'"
    )
    sizes = Sizes(
        tuple(
            (StoreName(name), StoreSize(rows, 40 * rows))
            for name, rows in (("charts", 10**8), ("plays", 10**5), ("songs", 10**5))
        )
    )
    sent = next(fragment for fragment in _plan(runner, sql, sizes).fragments if len(fragment.references) == 2)
    assert '"s"."song" = "p"."song"' in sent.tree.sql(dialect="duckdb")
    check(runner, sql, frozenset(map(StoreName, ("songs", "plays"))))
