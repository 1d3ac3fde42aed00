"""The oracle's other ways to ask: each applies often enough, and an answer that is wrong is noticed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from random import Random

import duckdb
import pyarrow as pa
import pytest

from engine.errors import LimitExceeded
from tests.oracle.datasets import Dataset, make_dataset
from tests.oracle.kinds import Expression, Family
from tests.oracle.metamorphic import RELATIONS, relations_of
from tests.oracle.metamorphic.parameters import types_of
from tests.oracle.metamorphic.relation import Subject
from tests.oracle.plain_duckdb import REFUSALS, PlainDuckDB
from tests.oracle.queries import make_query
from tests.oracle.run import Plan, run
from tests.oracle.scalars import Sample
from tests.oracle.systems import Answer, SplitSystem, System, as_any_client, cluster_system
from tests.oracle.verdicts import Outcome

SEEDS = range(400)
LEAST_SHARE = 0.05
"""Of the statements that a relation applies to."""


def test_every_relation_applies_often() -> None:
    datasets = {number: make_dataset(number) for number in range(4)}
    applied = dict.fromkeys((relation.name for relation in RELATIONS), 0)
    for seed in SEEDS:
        dataset = datasets[seed // 100]
        query = make_query(dataset, seed)
        assert query.source is not None
        for relation in RELATIONS:
            subject = Subject(query, query.source, dataset, Random(seed))
            applied[relation.name] += relation.pair(subject) is not None
    assert {name: count for name, count in applied.items() if count < LEAST_SHARE * len(SEEDS)} == {}


@pytest.mark.parametrize(
    ("literal", "column", "kinds"),
    [
        (
            "7",
            Expression("a", Family.INTEGER, "SMALLINT"),
            {"SMALLINT", "UBIGINT", "DOUBLE", "DECIMAL(18,0)"},
        ),
        ("-1", Expression("a", Family.INTEGER, "BIGINT"), {"TINYINT", "BIGINT", "DOUBLE"}),
        (
            "0.25",
            Expression("a", Family.DECIMAL, "DECIMAL(8,2)"),
            {"DECIMAL(8,2)", "DECIMAL(18,2)", "DOUBLE"},
        ),
        ("DATE '2024-02-29'", Expression("a", Family.DATE, "DATE"), {"DATE", "TIMESTAMP", "TIMESTAMPTZ"}),
        (
            "TIMESTAMP '2024-02-29 00:00:00'",
            Expression("a", Family.TIMESTAMP, "TIMESTAMP"),
            {"TIMESTAMP", "DATE", "TIMESTAMPTZ"},
        ),
    ],
)
def test_types_that_hold_a_value(literal: str, column: Expression, kinds: set[str]) -> None:
    assert kinds <= set(types_of(Sample(literal, column)))


@pytest.mark.parametrize(
    ("literal", "column", "kinds"),
    [
        ("300", Expression("a", Family.INTEGER, "BIGINT"), {"TINYINT", "UTINYINT"}),
        ("-1", Expression("a", Family.INTEGER, "BIGINT"), {"UBIGINT"}),
        ("0.1", Expression("a", Family.DECIMAL, "DECIMAL(8,2)"), {"DOUBLE", "BIGINT", "DECIMAL(18,0)"}),
        ("7", Expression("a", Family.INTEGER, "BIGINT", is_tame=False), {"DOUBLE"}),
        ("TIMESTAMP '2024-02-29 00:00:01'", Expression("a", Family.TIMESTAMP, "TIMESTAMP"), {"DATE"}),
    ],
)
def test_types_that_do_not_hold_a_value(literal: str, column: Expression, kinds: set[str]) -> None:
    assert not kinds & set(types_of(Sample(literal, column)))


def test_plain_duckdb_takes_most_queries() -> None:
    """One that is refused on both sides shows nothing."""
    refused = []
    for number in range(4):
        dataset = make_dataset(number)
        oracle = PlainDuckDB(dataset.live)
        for seed in range(100 * number, 100 * number + 60):
            query = make_query(dataset, seed)
            try:
                oracle.answer(query.sql, query.parameters)
            except REFUSALS:
                refused.append(query.sql)
            except duckdb.Error:
                pass  # some row fails
        oracle.close()
    assert len(refused) <= 5, refused


EXPLAINED = Answer(pa.table({"plan": ["split"]}), ())
"""What splitting alone cannot say."""


class _Forgetful:
    """Answers with a row too few where a condition is outside of the query that it is about."""

    def __init__(self, system: System) -> None:
        self._system = system

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        if sql.startswith("EXPLAIN"):
            return EXPLAINED
        answer = self._system.answer(sql, literals, parameters, seed)
        if "AS whole WHERE" not in sql:
            return answer
        return replace(answer, table=answer.table.slice(1))


@contextmanager
def _forgetful_system(dataset: Dataset) -> Iterator[System]:
    yield _Forgetful(SplitSystem(dataset))


def test_a_system_that_answers_wrongly_in_one_way_is_noticed() -> None:
    plan = Plan(first=100, queries=20, most_findings=1, relations=len(RELATIONS), shrink=False)
    (finding,) = run(plan, _forgetful_system, lambda _: None).differences
    assert finding.relation in {"with WHERE TRUE", "condition outside and inside"}
    assert finding.other
    assert f"relation: {finding.relation}" in finding.describe()


class _Narrow(_Forgetful):
    """Refuses what is nested, for its size."""

    def answer(
        self, sql: str, literals: Sequence[str], parameters: pa.RecordBatch | None, seed: int
    ) -> Answer:
        if "AS whole" in sql:
            raise LimitExceeded("There is too much of it.")
        return super().answer(sql, literals, parameters, seed)


@contextmanager
def _narrow_system(dataset: Dataset) -> Iterator[System]:
    yield _Narrow(SplitSystem(dataset))


def test_a_limit_that_one_way_alone_meets_is_looked_at_and_no_difference() -> None:
    plan = Plan(first=100, queries=10, relations=len(RELATIONS), shrink=False)
    counts = run(plan, _narrow_system, lambda _: None)
    assert not counts.differences
    assert counts.findings
    assert {finding.verdict.outcome for finding in counts.findings} == {Outcome.LIMITED}
    assert counts.related["as a derived table", Outcome.LIMITED]


def test_rare_relations_are_tried_sooner() -> None:
    tried = Counter(relation.name for seed in SEEDS for relation in relations_of(str(seed))[:3])
    assert all(relations_of(str(seed)) != RELATIONS for seed in SEEDS)
    assert tried["folded texts with their collation"] > 2 * tried["asked again"] > 0


def test_clients_send_other_types_of_the_same_values() -> None:
    moment = pa.array([0], pa.timestamp("us"))
    rows = pa.RecordBatch.from_arrays([pa.array(["a"]), pa.array([1]), moment], names=["1", "2", "3"])
    sent = [as_any_client(rows, Random(seed)) for seed in range(20)]
    assert {str(each.schema.field("1").type) for each in sent if each is not None} == {
        "string",
        "large_string",
        "string_view",
        "dictionary<values=string, indices=int8, ordered=0>",
    }
    assert all(each is not None and each.to_pylist() == rows.to_pylist() for each in sent)


def test_a_statement_is_asked_of_other_hosts_and_partitions() -> None:
    counts = run(Plan(first=79000100, queries=6, layouts=True), cluster_system, lambda _: None)
    assert not counts.differences
    places = {name for name, _ in counts.related}
    assert len(places) > 1
    assert all(" hosts, " in name for name in places)
