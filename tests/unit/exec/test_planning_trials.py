"""No text makes the engine plan for long, or take much memory for a plan, where nothing can end it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import duckdb
import pyarrow as pa
import pytest

from engine.deadline import NO_DEADLINE, Deadline
from engine.duckdb.engine import Engine
from engine.duckdb.growth import is_planned_quickly, lists_many_columns, needs_worker
from engine.duckdb.planning_trials import PlanningTrials
from engine.duckdb.worker_pool import IdleWorkers, WorkerPool
from engine.errors import Cancelled, DeadlineExceeded, LimitExceeded
from tests.fuzz.grammar import chained_texts, long_texts
from tests.support.resident import grows_by_at_most

QUICK_SECONDS = 0.3
"""Of the processor's time: quick on any machine."""
MOST_TIMES = 25
"""So many times the processor's time of `YARDSTICK` are quick on a slow machine, too; what is not quick takes
far more where it is twice as long.
"""
YARDSTICK = f"SELECT {', '.join(f'a + {number} AS c{number}' for number in range(300))} FROM t"
"""Planned in some hundredths of a second."""
MOST_MIB = 60
COLUMNS = (("k", pa.int64()), ("a", pa.int64()), ("b", pa.float64()), ("s", pa.string()))
TABLE = pa.schema(COLUMNS)
WIDE = pa.schema([("k", pa.int64()), *((f"c{number}", pa.int64()) for number in range(300))])
EMPTY = {name: TABLE.empty_table() for name in ("t", "u")}
EXISTS = " AND ".join(f"EXISTS (SELECT 1 FROM u WHERE u.k = t.k + {number})" for number in range(120))
SLOW = {
    "queries in expressions": f"SELECT 1 FROM t WHERE {EXISTS}",
    "differences": " EXCEPT ".join(f"(SELECT a + {number} FROM t)" for number in range(240)),
    "sums of constants that fail": f"SELECT {' + '.join(f'{number} % 0' for number in range(1000))}",
    "sorting aggregates": f"SELECT {', '.join(f'count(DISTINCT a + {n})' for n in range(500))} FROM t",
    "doubled queries": "WITH x0 AS (SELECT 1 a)"
    + "".join(f", x{n + 1} AS NOT MATERIALIZED (FROM x{n} UNION ALL FROM x{n})" for n in range(30))
    + " FROM x30",
}


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(":memory:", config={"memory_limit": "500MB", "threads": "1"}) as database:
        database.execute("CREATE TABLE t (k BIGINT, a BIGINT, b DOUBLE, s VARCHAR); CREATE TABLE u AS FROM t")
        wide = ", ".join(f"c{number} BIGINT" for number in range(300))
        database.execute(f"CREATE TABLE w (k BIGINT, {wide})")
        yield database


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine(100 << 20, 1)
    yield found
    found.close()


@pytest.fixture
def trials(idle: IdleWorkers) -> PlanningTrials:
    return PlanningTrials(WorkerPool(idle))


@pytest.fixture(scope="module")
def idle() -> Iterator[IdleWorkers]:
    found = IdleWorkers()
    yield found
    found.close()


def planning_seconds(database: duckdb.DuckDBPyConnection, sql: str) -> float:
    begun = time.process_time()
    with suppress(duckdb.Error):
        database.execute(f"EXPLAIN {sql}")
    return time.process_time() - begun


def is_slow(database: duckdb.DuckDBPyConnection, sql: str) -> bool:
    """Whether a text is planned slowly each time; a busy machine takes longer now and then."""
    return all(
        (seconds := planning_seconds(database, sql)) > QUICK_SECONDS
        and seconds > MOST_TIMES * planning_seconds(database, YARDSTICK)
        for _ in range(4)
    )


def slow_texts(database: duckdb.DuckDBPyConnection, texts: Iterator[str]) -> list[str]:
    """Those that are planned untried, and slowly. The plan of none may take much memory."""
    untried = [
        sql
        for sql in texts
        if not needs_worker(sql)
        and not lists_many_columns(sql, len(TABLE))
        and is_planned_quickly(sql, len(TABLE))
    ]
    with grows_by_at_most(os.getpid(), MOST_MIB):
        return [sql for sql in untried if is_slow(database, sql)]


@pytest.mark.parametrize("times", [4, 8, 16, 40, 240])
def test_chains_that_are_planned_untried_are_planned_quickly(
    plain: duckdb.DuckDBPyConnection, times: int
) -> None:
    assert slow_texts(plain, chained_texts(times)) == []


@pytest.mark.parametrize("characters", [500, 1000, 2000])
def test_long_texts_that_are_planned_untried_are_planned_quickly(
    plain: duckdb.DuckDBPyConnection, characters: int
) -> None:
    assert slow_texts(plain, long_texts(characters)) == []


@pytest.mark.parametrize(
    "sql",
    [
        *(r"SELECT e'\'', {}, ''", "SELECT $$'$$, {}, ''", "SELECT $a$'$a$, {}, ''", "SELECT -- '\n {}, ''"),
        *("SELECT /* ' */ {}, ''", "SELECT '''', {}", """SELECT "'", {}, ''"""),
    ],
)
def test_no_string_hides_what_is_behind_it(sql: str) -> None:
    assert is_planned_quickly(sql.replace("{}", "1"), 4)
    assert not is_planned_quickly(sql.replace("{}", " + ".join(["0!"] * 300)), 4)


@pytest.mark.parametrize(
    "join", ["NATURAL JOIN w x{}", "ASOF JOIN w x{} ON w.k > x{}.k", "JOIN w x{} USING (k)"]
)
def test_wide_tables_count_for_more(plain: duckdb.DuckDBPyConnection, join: str) -> None:
    most = 0
    for times in range(1, 40):
        sql = f"SELECT * FROM w {' '.join(join.replace('{}', str(number)) for number in range(times))}"
        if not is_planned_quickly(sql, len(WIDE)):
            break
        most = times
        with grows_by_at_most(os.getpid(), MOST_MIB):
            assert not is_slow(plain, sql)
    assert most >= 3


@pytest.mark.parametrize("sql", SLOW.values(), ids=SLOW)
def test_what_takes_long_to_plan_is_tried_where_it_ends_with_its_time(
    trials: PlanningTrials, sql: str
) -> None:
    schemas = dict.fromkeys(("t", "u"), TABLE)
    with grows_by_at_most(os.getpid(), MOST_MIB), suppress(DeadlineExceeded, LimitExceeded):
        assert not trials.is_quick(sql, schemas, (), Deadline(1.0))


def test_much_that_is_quick_is_planned_here(trials: PlanningTrials) -> None:
    sums = ", ".join(f"sum(a + {number}) AS c{number}" for number in range(150))
    for sql in (
        f"SELECT {sums} FROM t",
        " UNION ALL ".join(f"SELECT a, {number} FROM t" for number in range(60)),
        f"SELECT a FROM t WHERE {' OR '.join(f'k = {number}' for number in range(150))}",
    ):
        assert not is_planned_quickly(sql, 4)
        assert trials.is_quick(sql, {"t": TABLE}, (), NO_DEADLINE)


def test_what_no_store_has_is_tried_too(trials: PlanningTrials) -> None:
    schema = pa.schema([("s", pa.dictionary(pa.int32(), pa.string())), ("n", pa.null())])
    sql = f"SELECT {', '.join(f'count(s), count(n) + {number}' for number in range(150))} FROM t"
    for _ in range(2):
        assert trials.is_quick(sql, {"t": schema}, (), NO_DEADLINE)
    assert not trials.is_quick(sql, {"u": schema}, (), NO_DEADLINE)


def test_a_text_is_tried_once(trials: PlanningTrials) -> None:
    sql = f"SELECT {', '.join(f'a + {number} AS c{number}' for number in range(300))} FROM t"
    assert trials.is_quick(sql, {"t": TABLE}, (), NO_DEADLINE)
    # No time is left for another trial.
    assert trials.is_quick(sql, {"t": TABLE}, (), Deadline(0.0))
    with pytest.raises(DeadlineExceeded):
        trials.is_quick(sql, {"t": WIDE}, (), Deadline(0.0))


def test_others_run_while_a_statement_is_planned_for_long(engine: Engine) -> None:
    is_cancelled, ended = threading.Event(), list[object]()

    def run_slow() -> None:
        try:
            deadline = Deadline(60.0, is_cancelled.is_set)
            schemas = dict.fromkeys(EMPTY, TABLE)
            ended.append(engine.binder.columns(SLOW["queries in expressions"], schemas, (), deadline))
        except Exception as error:  # noqa: BLE001 - it is looked at below
            ended.append(type(error))

    slow = threading.Thread(target=run_slow)
    slow.start()
    for number in range(20):
        sql = f"SELECT a + {number} AS c FROM t"
        assert [column.name for column in engine.binder.columns(sql, {"t": TABLE})] == ["c"]
        rows = engine.run(sql, EMPTY, (), NO_DEADLINE)
        assert list(rows) == []
        rows.close()
    assert ended == []
    is_cancelled.set()
    slow.join()
    assert ended == [Cancelled]


@pytest.mark.parametrize("name", ["queries in expressions", "differences"])
def test_a_statement_ends_with_its_time_though_its_plan_takes_hours(engine: Engine, name: str) -> None:
    with pytest.raises((DeadlineExceeded, LimitExceeded)), grows_by_at_most(os.getpid(), MOST_MIB):
        engine.run(SLOW[name], EMPTY, (), Deadline(0.5))
