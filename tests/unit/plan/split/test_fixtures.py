"""Each rule of splitting shows in its fixtures what becomes of statements: that is what the planner makes of
them, and it gives the answer of plain DuckDB over all rows.

A plan that is meant to change is written anew by `python -m tests.unit.plan.split.regenerate`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from sqlglot import exp

from engine.exec.fallbacks import PIECE_RULES
from engine.model.schema import StoreName
from engine.plan.logical.logical_plan import logical_plan
from engine.plan.logical.rewrite import Rewrite
from engine.plan.logical.rewrites import REWRITES
from engine.plan.split.explain_split import store_sql
from engine.plan.split.planner import Rule
from engine.plan.split.rules import RULES
from engine.sql.engine_dialect import EngineDialect
from tests.support.oracle import plain_database, plain_rows, sorted_rows
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather
from tests.unit.plan.split.fixture_files import Fixture, plan_lines, read_all, readable_sql
from tests.unit.plan.split.stores import SMALL, sizes_of, stores

FIXTURES = read_all()
_ORDER = re.compile(r"^ORDER BY", re.MULTILINE)
"""The order of the whole statement stands at the beginning of a line."""

WholeRows = duckdb.DuckDBPyConnection
each_fixture = pytest.mark.parametrize(
    "fixture", FIXTURES, ids=lambda fixture: f"{fixture.rule}: {fixture.title}"
)


@pytest.fixture(scope="module")
def whole() -> Iterator[WholeRows]:
    """All rows of the stores in an engine of its own, without livestate in between."""
    with plain_database({name: rows for name, (_, rows) in stores().items()}) as connection:
        yield connection


@each_fixture
def test_the_plan_is_the_one_that_is_shown(runner: SplitRunner, fixture: Fixture) -> None:
    assert plan_lines(split_or_gather(runner.bind(fixture.sql), sizes_of(SMALL))) == fixture.plan


@each_fixture
def test_the_plan_gives_what_duckdb_gives(runner: SplitRunner, whole: WholeRows, fixture: Fixture) -> None:
    """Also where no store is small, which makes another plan."""
    bound = runner.bind(fixture.sql)
    answer = whole.sql(fixture.sql).to_arrow_table()
    rows_of = plain_rows if _ORDER.search(fixture.sql) else sorted_rows
    for small in (SMALL, frozenset[StoreName]()):
        found = runner.run(split_or_gather(bound, sizes_of(small)), bound)
        assert found.schema.types == answer.schema.types
        assert rows_of(found) == rows_of(answer)


@each_fixture
def test_the_rules_for_pieces_give_the_same(runner: SplitRunner, whole: WholeRows, fixture: Fixture) -> None:
    """They are the rung below all rules."""
    bound = runner.bind(fixture.sql)
    answer = whole.sql(fixture.sql).to_arrow_table()
    rows_of = plain_rows if _ORDER.search(fixture.sql) else sorted_rows
    assert rows_of(runner.run(split_or_gather(bound, sizes_of(SMALL), PIECE_RULES), bound)) == rows_of(answer)


@each_fixture
def test_what_is_shown_is_the_sql_that_runs(runner: SplitRunner, fixture: Fixture) -> None:
    """Without quotes and over several lines it is the same statement."""
    plan = split_or_gather(runner.bind(fixture.sql), sizes_of(SMALL))
    texts = [store_sql(fragment) for fragment in plan.fragments]
    if plan.merge is not None:
        texts.append(plan.merge.sql(dialect=EngineDialect))
    for text in texts:
        assert _normalize(readable_sql(text)) == _normalize(text)


def _normalize(sql: str) -> str:
    """A statement, all of whose names have quotes, and all of whose tables an alias."""
    tree = sqlglot.parse_one(sql, dialect=EngineDialect)
    for name in tree.find_all(exp.Identifier):
        name.set("quoted", True)
    for table in tree.find_all(exp.Table):
        if isinstance(table.this, exp.Identifier) and not table.alias:
            table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name, quoted=True)))
    return tree.sql(dialect=EngineDialect)


def test_each_rule_has_a_file_that_shows_it() -> None:
    known = (*REWRITES, *RULES)
    assert {fixture.rule for fixture in FIXTURES} == {*map(_file_of, known), "gather_subtrees"}
    assert len({rule.name for rule in known}) == len(known)


@pytest.mark.parametrize("rule", [*REWRITES, *RULES], ids=lambda rule: rule.name)
def test_without_the_rule_plans_are_others_and_answers_the_same(
    runner: SplitRunner, whole: WholeRows, rule: Rewrite | Rule
) -> None:
    rules = [each for each in RULES if each is not rule]
    rewrites = [each for each in REWRITES if each is not rule]
    changed = 0
    for fixture in FIXTURES:
        if fixture.rule == _file_of(rule):
            bound = runner.bind(fixture.sql)
            plan = split_or_gather(bound, sizes_of(SMALL), rules, rewrites)
            changed += plan_lines(plan) != fixture.plan
            answer = whole.sql(fixture.sql).to_arrow_table()
            rows_of = plain_rows if _ORDER.search(fixture.sql) else sorted_rows
            assert rows_of(runner.run(plan, bound)) == rows_of(answer)
    assert changed


def _file_of(rule: Rewrite | Rule) -> str:
    """The name of a rule's file, and of that of its fixtures."""
    return rule.apply.__module__.rpartition(".")[2]


def test_what_is_split_in_parts_is_not_split_whole(runner: SplitRunner) -> None:
    for fixture in FIXTURES:
        if fixture.rule == "gather_subtrees":
            assert logical_plan(runner.bind(fixture.sql)) is None


def test_fixtures_are_there() -> None:
    assert len({(fixture.rule, fixture.title) for fixture in FIXTURES}) == len(FIXTURES)
    assert all(fixture.sql and fixture.plan for fixture in FIXTURES)
