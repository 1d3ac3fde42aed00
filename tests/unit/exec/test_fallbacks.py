"""The ladder of fall-backs: which rung is taken when, and that the metadata of the result counts it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from typing import Any

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from sqlglot import exp

from engine.coordinator import plan_cache
from engine.coordinator.plan_cache import ReadyPlan
from engine.coordinator.plan_runner import Answer, PlanRunner
from engine.coordinator.router import RoutedQuery
from engine.duckdb.engine_errors import Allowance, BindingError, Failure, error_of, read_failure
from engine.errors import Defect, InvalidInput, Unavailable, Unsupported
from engine.exec import local_executor
from engine.exec.engine_query import run
from engine.exec.fallbacks import PIECE_RULES, Fallback, count_fallbacks
from engine.model.schema import define_store
from engine.plan.logical.logical_plan import MAX_REFERENCES
from engine.plan.logical.plan import LogicalPlan
from engine.plan.split.nodes import Fragment, SplitPlan
from engine.plan.split.planner import NotPlannedError, Rule
from engine.plan.split.rules import RULES
from engine.plan.split.sizes import Sizes
from engine.plan.split.split import split
from engine.service import QueryService
from engine.sql.engine_dialect import EngineDialect
from tests.support.local_cluster import SMALL, Cluster, host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view

PLAYS = define_store(
    "plays",
    pa.schema([("song_id", pa.int64()), ("genre", pa.string()), ("count", pa.int64())]),
    ["song_id"],
    partitions=8,
)
ROWS = pa.table({"song_id": list(range(100)), "genre": ["rock", "pop"] * 50, "count": list(range(100))})
GENRES = "SELECT genre, sum(count) FROM plays GROUP BY genre ORDER BY genre"
ANSWER = [("pop", 2500), ("rock", 2450)]
ONE_ROW = "SELECT max(genre) FROM plays WHERE song_id = {}"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with memory_cluster([PLAYS], {"plays": ROWS}, host_names(3)) as hosts:
        yield hosts


@pytest.fixture
def service(cluster: Cluster) -> QueryService:
    return cluster.services[cluster.hosts[0]]


def _ask(service: QueryService, sql: str) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """The rows of a statement, and the rungs that its metadata counts."""
    with service.execute(sql) as result:
        rows = [tuple(row.values()) for row in result.read_all().to_pylist()]
    counted = json.loads(result.metadata.to_json())["fallbacks"]
    assert counted == result.metadata.fallbacks
    return rows, counted


def _refuse_split(monkeypatch: pytest.MonkeyPatch, *refused: Sequence[Rule], error: Exception) -> None:
    def refuse(logical: LogicalPlan | None, sizes: Sizes, rules: Sequence[Rule] = RULES) -> SplitPlan:
        if rules in refused:
            # A new one: its traceback, and what that refers to, is to go with it.
            raise copy(error)
        return split(logical, sizes, rules)

    monkeypatch.setattr(plan_cache, "split", refuse)


def test_a_statement_that_needs_no_fallback_counts_none(service: QueryService) -> None:
    assert _ask(service, GENRES) == (ANSWER, {})


def test_a_function_of_which_a_null_has_another_type_travels_whole(service: QueryService) -> None:
    """The part of a moment is a number that may be broken, where the moment is NULL."""
    for song in range(8):
        rows, fallbacks = _ask(
            service,
            "SELECT any_value(genre ORDER BY song_id), bit_xor(extract(minute FROM localtimestamp)) >= 0 "
            f"FROM plays WHERE song_id = {song} GROUP BY genre",
        )
        assert (rows, fallbacks) == ([("pop" if song % 2 else "rock", True)], {})


def test_such_a_function_in_a_structure_is_split(service: QueryService) -> None:
    """The engine binds no `max` of a structure with a subquery in it."""
    assert _ask(
        service,
        "SELECT genre, arg_max(song_id, (count, extract(hour FROM localtimestamp))) FROM plays "
        "GROUP BY genre ORDER BY genre",
    ) == ([("pop", 99), ("rock", 98)], {})


@pytest.mark.parametrize(
    "error", [NotPlannedError("No rule."), Defect("A rule is wrong."), Unsupported("A type.")]
)
def test_a_plan_that_is_refused_is_made_of_pieces(
    service: QueryService, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    _refuse_split(monkeypatch, RULES, error=error)
    for _ in range(2):  # the plan is kept, and the rung counts again
        assert _ask(service, GENRES) == (ANSWER, {"gather pieces": 1})


def test_types_that_cannot_be_sent_are_no_surprise(
    service: QueryService, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "engine.exec.fallbacks"):
        assert _ask(service, "SELECT max(count::BIT)::VARCHAR FROM plays")[1] == {"gather pieces": 1}
    assert not caplog.messages


def test_pieces_that_are_refused_are_gathered_whole(
    service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    _refuse_split(monkeypatch, RULES, PIECE_RULES, error=NotPlannedError("No rule."))
    assert _ask(service, GENRES) == (ANSWER, {"gather all": 1})


def test_texts_that_the_engine_refuses_are_a_refused_plan(
    service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_wrong_text(logical: LogicalPlan, sizes: Sizes, rules: Sequence[Rule] = RULES) -> SplitPlan:
        tree = sqlglot.parse_one('SELECT no_such_column FROM "__scan_0"', dialect=EngineDialect)
        assert isinstance(tree, exp.Query)
        references = tuple(logical.references.values())
        return SplitPlan(("wrong",), (Fragment("__part_0", tree, references, (), "wrong"),), None)

    monkeypatch.setattr(plan_cache, "split", write_wrong_text)
    assert _ask(service, GENRES) == (ANSWER, {"gather all": 1})


def test_a_plan_that_hosts_refuse_at_work_is_not_tried_again_with_the_same_parameters(
    service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[ReadyPlan] = []
    scatter = PlanRunner.scatter

    def record(runner: PlanRunner, routed: RoutedQuery, plan: ReadyPlan) -> Answer:
        tried.append(plan)
        return scatter(runner, routed, plan)

    def fail_for_rows(logical: LogicalPlan, sizes: Sizes, rules: Sequence[Rule] = RULES) -> SplitPlan:
        tree = sqlglot.parse_one('SELECT CAST("genre" AS BIGINT) AS n FROM "__scan_0"', dialect=EngineDialect)
        assert isinstance(tree, exp.Query)
        references = tuple(logical.references.values())
        return SplitPlan(("refused",), (Fragment("__part_0", tree, references, (), "refused"),), None)

    monkeypatch.setattr(plan_cache, "split", fail_for_rows)
    monkeypatch.setattr(PlanRunner, "scatter", record)
    sql = "SELECT count(*) AS n FROM plays WHERE count >= ?"
    for limit, plans in ((50, 2), (50, 1), (90, 2), (90, 1)):
        tried.clear()
        with service.execute(sql, pa.record_batch([pa.array([limit])], ["1"])) as result:
            assert result.read_all().to_pylist() == [{"n": 100 - limit}]
        assert result.metadata.fallbacks == {"gather all": 1}
        assert len(tried) == plans


def test_more_references_than_are_planned_are_gathered(service: QueryService) -> None:
    sql = " UNION ALL ".join([ONE_ROW.format(1)] * (MAX_REFERENCES + 1))
    rows, counted = _ask(service, f"SELECT count(*) FROM ({sql})")
    assert rows == [(MAX_REFERENCES + 1,)]
    assert counted in ({}, {"gather all": 1})  # one host may have it whole
    sql = " UNION ALL ".join(["SELECT * FROM plays"] * (MAX_REFERENCES + 1))
    assert _ask(service, f"SELECT count(*) FROM ({sql})") == (
        [(100 * (MAX_REFERENCES + 1),)],
        {"gather all": 1},
    )


def test_only_the_queries_that_cannot_be_split_are_gathered(service: QueryService) -> None:
    total = "(SELECT sum(count) FROM plays) AS total"
    sql = f"SELECT genre, unnest([1, 2]) AS n, {total} FROM plays WHERE count < 2"
    rows, counted = _ask(service, f"{sql} ORDER BY ALL")
    assert rows == [("pop", 1, 4950), ("pop", 2, 4950), ("rock", 1, 4950), ("rock", 2, 4950)]
    assert counted == {"gather subtrees": 1}
    lines = [str(line) for (line,) in _ask(service, f"EXPLAIN {sql}")[0]]
    assert "split: two-phase, gather, subtrees merge" in lines
    assert "gathered: plays AS plays, because of explode" in lines


def test_a_query_that_hosts_refuse_at_work_is_gathered_with_the_rest(service: QueryService) -> None:
    """On one host nothing asks for the rows that cannot be cast."""
    unread = "(SELECT max(CAST(genre AS BIGINT)) FROM plays)"
    sql = f"SELECT count(*) FROM (SELECT unnest([1, 2]), CASE WHEN count < 0 THEN {unread} END FROM plays)"
    assert _ask(service, sql) == ([(200,)], {"gather all": 1})


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("genre <= 1.5 AND count = 3", None),
        ("genre BETWEEN 'a' AND 1.5", None),
        ("genre BETWEEN ? AND 1.5", "a"),
        ("count = ? AND genre >= 2.5", 3),
        ("song_id = 4 AND count < DATE '2024-01-01'", None),
    ],
)
def test_plain_rows_by_values_of_another_type_are_refused_as_on_one_host(
    service: QueryService, condition: str, value: object
) -> None:
    """The engine is asked last of all where plain rows are read, and with values that are parameters."""
    values = None if value is None else pa.record_batch([pa.array([value])], names=["1"])
    message = "Cannot (compare|mix) values of type .* an explicit cast is required"
    for columns in ("*", "song_id"):
        with pytest.raises(InvalidInput, match=message):
            service.execute(f"SELECT {columns} FROM plays WHERE {condition}", values)


def test_other_errors_are_no_refusal(service: QueryService, monkeypatch: pytest.MonkeyPatch) -> None:
    _refuse_split(monkeypatch, RULES, error=Unavailable("The changelog cannot be reached."))
    with pytest.raises(Unavailable, match="changelog"):
        _ask(service, GENRES)


def test_a_statement_that_cannot_travel_whole_is_split(
    cluster: Cluster, service: QueryService, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Unsupported("It cannot be written.")

    elsewhere = next(key for key in range(100) if _is_answered_by(cluster.hosts[1], service, key))
    monkeypatch.setattr(plan_cache, "_whole_text", refuse)
    assert _ask(service, ONE_ROW.format(elsewhere) + " AND count >= 0")[1] == {"split": 1}


def _is_answered_by(host: str, service: QueryService, key: int) -> bool:
    with service.execute(ONE_ROW.format(key)) as result:
        return result.metadata.hosts == (host,)


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], int]]:
    """Has the engine refuse every text that does not read all columns; gives how many it has refused."""
    refused: list[object] = []

    def refuse(engine: object, statement: object, *rest: object) -> object:
        references = statement.bound.references  # type: ignore[attr-defined]
        if any(len(each.columns) < len(each.definition.schema) for each in references):
            refused.append(statement)
            raise BindingError(Failure("binder", "A column is missing."), "")
        return run(engine, statement, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(local_executor, "run", refuse)
    yield lambda: len(refused)


def test_a_text_that_the_engine_refuses_reads_all_columns(refusals: Callable[[], int]) -> None:
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS)]), SMALL)
    try:
        assert _ask(service, GENRES) == (ANSWER, {"all columns": 1})
        assert refusals() == 1
    finally:
        service.close()


def test_rungs_that_hosts_took_are_counted_together(
    service: QueryService, refusals: Callable[[], int]
) -> None:
    assert _ask(service, GENRES) == (ANSWER, {"all columns": 3})
    assert refusals() == 3


def test_what_hosts_of_other_versions_count_does_not_matter() -> None:
    reports: list[dict[str, Any]] = [
        {},
        {"fallbacks": {}},
        {"fallbacks": {"all columns": 2, "of tomorrow": 5}},
        {"fallbacks": ["all columns"]},
        {"fallbacks": {"all columns": "many", "split": None}},
    ]
    assert count_fallbacks([Fallback.SPLIT], reports) == {"split": 1, "all columns": 2}


def test_a_subquery_that_the_engine_cannot_copy_is_refused_with_advice() -> None:
    with duckdb.connect() as engine, pytest.raises(duckdb.SerializationException) as refused:
        engine.sql("SELECT max(map_keys((SELECT MAP {'a': 1}))) FROM range(3)").fetchall()
    error = error_of(read_failure(refused.value), Allowance(1 << 20))
    assert isinstance(error, Unsupported)
    assert "put it in a WITH clause" in error.message
