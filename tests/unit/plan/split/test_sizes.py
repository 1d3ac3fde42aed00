"""Sizes: which side of a join stays in place, and what follows from conditions about others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlglot import exp

from engine.model.schema import StoreName
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.logical.selects import where_of
from engine.plan.split.nodes import SplitPlan
from engine.plan.split.selectivity import ColumnSize
from engine.plan.split.sizes import Estimator, Sizes, StoreSize
from engine.sql.engine_dialect import EngineDialect
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
    assert '"s"."song" = "p"."song"' in sent.tree.sql(dialect=EngineDialect)
    check(runner, sql, frozenset(map(StoreName, ("songs", "plays"))))


def _known(distinct: dict[str, int], rows: int = 10_000_000) -> Sizes:
    columns = tuple((name, ColumnSize(count)) for name, count in distinct.items())
    return Sizes(
        (
            (StoreName("listeners"), StoreSize(100_000, 4_000_000)),
            (StoreName("songs"), StoreSize(rows, 40 * rows, columns)),
        )
    )


def test_what_a_rare_value_leaves_is_sent(runner: SplitRunner) -> None:
    """By its form `= 7` leaves a twentieth of the rows: twenty megabytes, more than listeners have."""
    sql = f"{SQL} AND s.seconds = 7"
    for sizes, kept in ((_known({}), "songs"), (_known({"seconds": 1 << 20}), "listeners")):
        plan = _plan(runner, sql, sizes)
        assert plan.fragments[0].rule == "broadcast"
        assert [each.definition.name for each in plan.fragments[-1].references] == [kept]


def test_what_a_range_leaves_is_sent(runner: SplitRunner) -> None:
    sql = f"{SQL} AND s.seconds > 7"
    scan = runner.bind(sql).references[0].scan
    for share, kept in ((1.0, "songs"), (4.0**-6, "listeners")):
        plan = _plan(runner, sql, replace(_known({}), shares=((scan, "seconds", share),)))
        assert [each.definition.name for each in plan.fragments[-1].references] == [kept]


def test_groups_are_no_more_than_the_values_of_their_keys(runner: SplitRunner) -> None:
    sql = (
        "SELECT l.name, g.n FROM listeners l, (SELECT genre, count(*) AS n FROM songs GROUP BY genre) g "
        "WHERE g.genre = l.listener"
    )
    estimates = []
    for sizes in (_known({}), _known({"genre": 16})):
        bound = runner.bind(sql)
        logical = logical_plan(bound)
        assert logical is not None
        derived = next(each for each in logical.tree.find_all(exp.Subquery))
        estimates.append(Estimator(sizes, logical.references, logical.ctes).rows(derived))
    assert estimates == [10_000_000, 16]


def test_sides_without_keys_make_more_rows(runner: SplitRunner) -> None:
    bound = runner.bind("SELECT 1 FROM songs a, songs b WHERE a.genre = b.genre AND a.title = b.title")
    logical = logical_plan(bound)
    assert logical is not None
    for distinct, expected in (
        ({}, 1 << 20),
        ({"genre": 1 << 10, "title": 1 << 5}, 1 << 25),
        ({"genre": 1 << 10}, 1 << 20),
        ({"genre": 1 << 20, "title": 1 << 20}, 1 << 20),
    ):
        estimator = Estimator(_known(distinct, 1 << 20), logical.references, logical.ctes)
        assert isinstance(logical.tree, exp.Select)
        nodes = {table.alias_or_name: table for table in logical.tree.find_all(exp.Table)}
        assert estimator.joined_rows(nodes, where_of(logical.tree)) == expected
