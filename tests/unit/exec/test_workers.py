"""Statements that run in processes that can be killed."""

from __future__ import annotations

import logging
import operator
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from engine.access.principal import EngineLimit, Limit
from engine.deadline import Deadline
from engine.duckdb import worker_pool
from engine.duckdb.engine import Engine, EngineRows
from engine.duckdb.engine_errors import Allowance, BindingError
from engine.duckdb.handover import HANDED_BYTES, MOST_LONG_ROWS, MOST_ROWS, rows_a_batch
from engine.duckdb.spill import SpillDirectory
from engine.duckdb.worker_messages import NEXT, EngineSettings, RunJob, decode_failure, encode_failure
from engine.duckdb.worker_pool import (
    ALLOCATORS,
    CRASH,
    NO_THREAD_MEMORY,
    WORKER_NICENESS,
    IdleWorkers,
    Worker,
    WorkerPool,
    WorkerRows,
    WorkerSession,
)
from engine.errors import (
    Cancelled,
    DeadlineExceeded,
    Defect,
    InvalidInput,
    LimitExceeded,
    LivestateError,
    Unavailable,
)
from engine.service import QueryService, Session
from tests.support.resident import grows_by_at_most
from tests.support.waiting import wait_until

ROWS = 600_000
SLOW = "SELECT length(lpad('x', 2000000000, 'y'))"


@pytest.fixture(scope="module")
def idle() -> Iterator[IdleWorkers]:
    found = IdleWorkers()
    yield found
    found.close()


@pytest.fixture(scope="module")
def warm_engine(idle: IdleWorkers) -> Iterator[Engine]:
    found = Engine(100 << 20, 2, idle_workers=idle)
    yield found
    found.close()


@pytest.fixture
def engine(warm_engine: Engine) -> Engine:
    """With one worker, at least, that waits."""
    assert answer(warm_engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]
    return warm_engine


def answer(rows: EngineRows) -> list[dict[str, object]]:
    try:
        return pa.Table.from_batches(list(rows), rows.schema).to_pylist()  # type: ignore[no-any-return]
    finally:
        rows.close()


def processes() -> set[int]:
    """Numbers of this process's children that are workers."""
    listed = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "engine.duckdb.worker_process"],
        capture_output=True,
        text=True,
        check=False,
    )
    return {int(line) for line in listed.stdout.split()}


class Broken:
    """A stream that breaks off behind its first batch."""

    schema = pa.schema([("a", pa.int64())])
    error: BaseException | None = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self.batches()).__arrow_c_stream__(
            requested_schema
        )

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"a": [1]}, schema=self.schema)
        self.error = Unavailable("A host was lost.")
        raise self.error


def test_tables_and_streams_are_read_and_a_worker_serves_the_next_statement(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = pa.table({"a": [1, 2, None], "s": ["x", None, "ü"]})
    large = pa.table({"a": pa.array(range(ROWS))})
    before = processes()
    for _ in range(2):
        found = engine.run(
            "SELECT repeat(s, 2) AS r, count(*) AS n FROM l JOIN t ON l.a % 3 = t.a GROUP BY ALL ORDER BY 1",
            {"t": small, "l": large},
            (),
            Deadline(60.0),
        )
        assert answer(found) == [{"r": "xx", "n": ROWS // 3}, {"r": None, "n": ROWS // 3}]
    monkeypatch.setattr(worker_pool, "SHARED_BYTES", 1 << 20)
    sql = "SELECT count(*) AS n, sum(a) AS s FROM l WHERE repeat('x', 2) = 'xx'"
    assert answer(engine.run(sql, {"l": large}, (), Deadline(60.0))) == [
        {"n": ROWS, "s": ROWS * (ROWS - 1) // 2}
    ]
    twice = (
        "WITH l2 AS (FROM l) SELECT count(*) AS n FROM l2 a, (SELECT max(a) m FROM l2) WHERE range(1) = [0]"
    )
    assert answer(engine.run(twice, {"l": large}, (), Deadline(60.0))) == [{"n": ROWS}]
    assert answer(engine.run("SELECT repeat(?, 2) AS r", {}, ["ab"], Deadline(60.0))) == [{"r": "abab"}]
    assert processes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a niceness is not set")
def test_a_worker_leaves_the_processors_to_others_from_its_start_on() -> None:
    before = processes()
    worker = Worker()
    try:
        (process,) = processes() - before
        assert os.getpriority(os.PRIO_PROCESS, process) == WORKER_NICENESS
        worker.wait_for_start(Deadline(60.0))
        threads = [int(entry.name) for entry in Path(f"/proc/{process}/task").iterdir()]
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {WORKER_NICENESS}
    finally:
        worker.close()


def test_a_result_that_nobody_reads_to_its_end_leaves_the_worker_ready(engine: Engine) -> None:
    large = pa.table({"a": pa.array(range(ROWS))})
    before = processes()
    for _ in range(3):
        rows = engine.run("SELECT a, repeat('x', 3) AS r FROM l", {"l": large}, (), Deadline(60.0))
        assert next(iter(rows)).num_rows
        rows.close()
        rows.close()
    assert answer(engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]
    assert processes() == before


def test_what_breaks_a_stream_off_is_raised(engine: Engine) -> None:
    with pytest.raises(Unavailable, match=r"A host was lost"):
        answer(engine.run("SELECT a, repeat('x', 3) FROM l", {"l": Broken()}, (), Deadline(60.0)))
    assert answer(engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]


@pytest.mark.parametrize(
    "sql", ["SELECT repeat(nope, 3)", "SELECT repeat('x'", "SELECT * FROM nope, range(3)"]
)
def test_refusals_are_those_of_the_engine(engine: Engine, sql: str) -> None:
    alone = Engine(100 << 20, 1, idle_workers=None)
    with pytest.raises(BindingError) as expected:
        alone.run(sql, {}, (), Deadline(60.0))
    alone.close()
    with pytest.raises(BindingError) as found:
        engine.run(sql, {}, (), Deadline(60.0))
    assert (found.value.failure, found.value.near) == (expected.value.failure, expected.value.near)


def test_the_log_learns_where_a_worker_failed_and_the_client_does_not() -> None:
    with pytest.raises(KeyError) as raised:
        operator.itemgetter("nobody expects it")({})
    failure = decode_failure(encode_failure(raised.value))
    assert isinstance(failure, Defect)
    assert failure.message == "The query engine failed on this statement; please report the statement."
    (note,) = failure.__notes__
    assert "test_workers.py" in note
    assert "nobody expects it" in note


def test_memory_is_bounded_whatever_ran_before(engine: Engine) -> None:
    """A limit of 64 MiB, and 96 MiB of room: what a statement leaves behind counts for no other."""
    for _ in range(4):
        found = engine.run("SELECT len(repeat('x', 40000000)) AS n", {}, (), Deadline(60.0))
        assert answer(found) == [{"n": 40_000_000}]
        for sql in ("SELECT len(repeat('x', 200000000))", "SELECT max(len(range(a))) FROM l"):
            with pytest.raises(LimitExceeded, match=r"more memory than"):
                answer(engine.run(sql, {"l": wide()}, (), Deadline(60.0)))


def test_memory_that_the_system_refuses_is_no_mistake_of_the_engine(engine: Engine) -> None:
    """A sample of that size takes 16 GiB at once, which nothing counts."""
    sql = "SELECT reservoir_quantile(20000, repeat([1], 100), 2147483647) AS q"
    for _ in range(2):
        with pytest.raises(LimitExceeded, match="more memory than"):
            answer(engine.run(sql, {}, (), Deadline(60.0)))
    found = engine.run("SELECT len(repeat('x', 40)) AS n", {}, (), Deadline(60.0))
    assert answer(found) == [{"n": 40}]


def test_whatever_lacks_memory_says_so() -> None:
    """Each process may have a little more than the one before. A crash is left to `WorkerPool`."""
    ended = subprocess.run(
        [sys.executable, "-c", PROCESSES_THAT_LACK_MEMORY], capture_output=True, text=True, check=False
    )
    said = ended.stdout.splitlines()
    assert {line.split(":")[0] for line in said} <= {
        "LimitExceeded",
        "MemoryError",
        "OutOfMemoryException",
        "signal",
    }, said
    assert sum(line.startswith("LimitExceeded") for line in said) > 5


def test_a_thread_that_begins_without_memory_ends_no_process() -> None:
    """Half of these processes ended by SIGSEGV, in the allocator of a thread that had allocated nothing."""
    ended = subprocess.run(
        [sys.executable, "-c", THREADS_THAT_LACK_MEMORY],
        env={**os.environ, **ALLOCATORS},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stdout.split() == ["0"] * 12, ended.stderr


THREADS_THAT_LACK_MEMORY = """
import os
from contextlib import suppress
from engine.deadline import NO_DEADLINE
from engine.duckdb.engine import Engine
from engine.duckdb.worker_process import _data_bytes, _limit_memory

for room in range(4, 16):
    child = os.fork()
    if not child:
        engine = Engine(64 << 20, 1, None, None)
        _limit_memory(_data_bytes() + (room << 20))
        sql = "SELECT reservoir_quantile(20000, repeat([1], 100), 2147483647)"
        with suppress(Exception):
            for _ in engine.run(sql, {}, (), NO_DEADLINE):
                pass
        os._exit(0)
    _, status = os.waitpid(child, 0)
    print(status, flush=True)
"""


PROCESSES_THAT_LACK_MEMORY = """
import os, resource
import pyarrow as pa
from engine.deadline import NO_DEADLINE
from engine.duckdb.engine import Engine
from engine.duckdb.worker_process import _data_bytes, _limit_memory

numbers = pa.array(range(20_000))
wide = pa.table({name: numbers for name in "abcd"})
for room in range(20, 68, 4):
    child = os.fork()
    if not child:
        engine = Engine(64 << 20, 2, None, None)
        rows = None
        _limit_memory(_data_bytes() + (room << 20))
        try:
            stars = ", ".join(["*"] * 1_900)
            rows = engine.run(f"SELECT {stars} FROM wide", {"wide": wide}, (), NO_DEADLINE)
            for _ in rows:
                pass
            said = "rows: all"
        except BaseException as error:
            _limit_memory(resource.RLIM_INFINITY)
            said = f"{type(error).__name__}: {error}"
        print(said, flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        print(f"signal: {status}", flush=True)
"""


def wide() -> pa.Table:
    return pa.table({"a": [2_000_000] * 500})


def test_time_is_bounded_where_the_engine_does_not_look(engine: Engine) -> None:
    before = processes()
    with pytest.raises(DeadlineExceeded):
        answer(engine.run(SLOW, {}, (), Deadline(1.0)))
    is_over = threading.Event()
    threading.Timer(0.2, is_over.set).start()
    with pytest.raises(Cancelled):
        answer(engine.run(SLOW, {}, (), Deadline(60.0, is_over.is_set)))
    assert len(processes() - before) <= 1


def test_planning_ends_with_the_statements_time(service: QueryService) -> None:
    """The engine plans this for a minute, with much memory, and looks at nothing meanwhile."""
    terms = " OR ".join(f"(count = {number} AND song_id = {number})" for number in range(3000))
    with pytest.raises((DeadlineExceeded, LimitExceeded)):
        service.execute(f"SELECT * FROM plays WHERE {terms}", session=Session(timeout_seconds=2.0)).read_all()
    assert service.execute("SELECT 1 AS a").read_all().to_pylist() == [{"a": 1}]


@pytest.mark.parametrize(
    ("ended_by", "level"), [(signal.SIGKILL, logging.WARNING), (signal.SIGSEGV, logging.ERROR)]
)
def test_a_worker_that_dies_ends_its_statement_alone(
    engine: Engine, ended_by: signal.Signals, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    other = IdleWorkers()
    crashing = Engine(100 << 20, 1, idle_workers=other)
    before = processes()
    failures: list[LivestateError] = []

    def fail() -> None:
        try:
            answer(crashing.run(SLOW, {}, (), Deadline(60.0)))
        except LivestateError as error:
            failures.append(error)

    thread = threading.Thread(target=fail)
    thread.start()
    wait_until(lambda: bool(processes() - before))
    os.kill((processes() - before).pop(), ended_by)
    thread.join()
    assert [type(error) for error in failures] == [LimitExceeded]
    assert "ended the process that it ran in" in failures[0].message
    (record,) = (record for record in caplog.records if record.msg == CRASH)
    assert (record.levelno, record.args) == (level, (signal.strsignal(ended_by),))
    for survivor in (engine, crashing):
        assert answer(survivor.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]
    crashing.close()
    other.close()


@pytest.mark.parametrize(("status", "told"), [(NO_THREAD_MEMORY, LimitExceeded), (1, Unavailable)])
def test_a_worker_without_memory_for_a_thread_has_met_the_limit(
    engine: Engine, status: int, told: type[LivestateError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When that happens no test can say: here the process is ended, and its status put in the place of it."""
    monkeypatch.setattr(Worker, "end_status", lambda _: status)
    with closing(engine.run("SELECT repeat('x', 2) FROM range(400000)", {}, (), Deadline(60.0))) as rows:
        assert isinstance(rows, WorkerRows)
        rows._session._worker.kill()
        with pytest.raises(told):
            list(rows)


def test_why_a_statement_failed_is_heard_of_a_worker_that_is_gone() -> None:
    """A worker says why before it is asked for the next rows, and one that has little memory left ends."""
    sql = "SELECT CASE WHEN i = 300000 THEN error('too late') ELSE 'x' END AS s FROM range(400000) t(i)"
    idle = IdleWorkers()
    engine, before = Engine(100 << 20, 1, idle_workers=idle), processes()
    read = 0
    with closing(engine.run(sql, {}, (), Deadline(60.0))) as rows, suppress(InvalidInput):
        for _ in rows:
            read += 1
    with closing(engine.run(sql, {}, (), Deadline(60.0))) as rows:
        assert isinstance(rows, WorkerRows)
        batches = iter(rows)
        assert sum(next(batches).num_rows for _ in range(read)) > 0
        assert rows._session._worker.jobs.poll(60.0)
        (worker,) = processes() - before
        os.kill(worker, signal.SIGKILL)
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
        with pytest.raises(InvalidInput, match="too late"):
            next(batches)
    engine.close()
    idle.close()


def test_a_worker_that_starts_slowly_is_there_for_the_next_statement() -> None:
    idle = IdleWorkers()
    engine, before = Engine(100 << 20, 2, idle_workers=idle), processes()
    try:
        with pytest.raises(DeadlineExceeded):
            engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(0.001))
        started = processes() - before
        assert len(started) == 1
        assert answer(engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]
        assert processes() - before == started
    finally:
        engine.close()
        idle.close()


def test_a_worker_that_died_while_it_waited_is_replaced(engine: Engine, idle: IdleWorkers) -> None:
    del engine
    for worker in processes():
        os.kill(worker, signal.SIGKILL)
        # It has no command line for a moment before its parent can know that it is gone.
        os.waitid(os.P_PID, worker, os.WEXITED | os.WNOWAIT)
    alone = Engine(100 << 20, 1, idle_workers=idle)
    assert answer(alone.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))) == [{"r": "xx"}]
    alone.close()


def test_a_worker_that_was_ended_is_nobody_elses(idle: IdleWorkers) -> None:
    """On a busy machine it is seen to end later, and what it said before can still be read."""
    pool = WorkerPool(idle)
    session = WorkerSession(pool, Deadline(60.0), {})
    settings = EngineSettings(Allowance(64 << 20, in_worker=True), 1)
    session.begin(RunJob("SELECT repeat('x', 2) AS r", {}, {}, (), None, settings))
    session.call(NEXT)
    session.call(NEXT)
    ended = session._worker
    wait_until(ended.jobs.poll)
    os.kill(ended._process.pid, signal.SIGSTOP)
    session.kill()
    session.close()
    other = pool.take(Deadline(60.0))
    assert other is not ended
    pool.give_back(other, is_ready=True)


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        ("SELECT ? AS x FROM t", ["x" * 200_000]),
        ("SELECT x FROM t, (SELECT ? AS x)", ["x" * 200_000]),
        ("SELECT max(len(s || ?)) AS x FROM t", ["x" * 200_000]),
        ("SELECT (SELECT list(a) FROM t) AS x FROM t", []),
        ("SELECT list(a) OVER () AS x FROM t", []),
        ("SELECT array(SELECT a FROM t) AS x FROM t LIMIT 50 PERCENT", []),
    ],
)
def test_a_long_value_is_put_in_many_rows_where_it_can_be_bounded(
    engine: Engine, sql: str, parameters: list[object]
) -> None:
    """The engine makes 2,048 rows before it is asked for one, and counts none of their bytes."""
    tables = {"t": pa.table({"a": range(20_000), "s": [f"s{number}" for number in range(20_000)]})}
    with grows_by_at_most(os.getpid(), 150), suppress(LimitExceeded):
        answer(engine.run(sql, tables, parameters, Deadline(60.0)))


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (f"SELECT '{'😀' * 16_000}' AS x FROM t", []),
        (f"SELECT '{'x' * 16_000}' AS x FROM t", []),
        ("SELECT ? AS x FROM t", ["x" * 100_000]),
        (f"SELECT {', '.join(['x'] * 102)} FROM (SELECT '{'ü' * 107}' || s AS x FROM t)", []),
        (f"SELECT x || '' AS x FROM (SELECT (x, x) AS x FROM (SELECT '{'x' * 4000}' AS x FROM t))", []),
        (
            "SELECT concat(x, x) AS x FROM (SELECT concat(x, x) AS x FROM (SELECT ? AS x FROM t))",
            ["x" * 7000],
        ),
        (f"SELECT r FROM (SELECT '{'x' * 4000}' AS x, x AS y, x AS z, x AS w, s FROM t) AS r", []),
    ],
)
def test_long_texts_of_a_statement_fill_no_rows_here(
    engine: Engine, sql: str, parameters: list[object]
) -> None:
    tables = {"t": pa.table({"a": range(20_000), "s": [f"s{number}" for number in range(20_000)]})}
    rows = engine.run(sql, tables, parameters, Deadline(60.0))
    with grows_by_at_most(os.getpid(), 100), closing(rows), suppress(LimitExceeded):
        for _ in rows:
            pass


def test_rows_whose_values_can_be_long_come_a_few_at_a_time() -> None:
    texts = pa.table({"s": ["x" * 100_000] * 300, "k": range(300)})
    assert rows_a_batch(["BIGINT"], "SELECT k FROM t", {"t": texts}, ()) == MOST_ROWS
    assert rows_a_batch(["VARCHAR"], "SELECT s FROM t", {"t": texts}, ()) == 335
    few = pa.table({"s": texts.column("s").dictionary_encode(), "k": range(300)})
    assert rows_a_batch(["VARCHAR"], "SELECT s FROM t", {"t": few}, ()) == 335
    short = pa.table({"s": ["x" * 10] * 1000})
    assert rows_a_batch(["VARCHAR"], "SELECT s FROM t", {"t": short}, ()) == MOST_LONG_ROWS
    found = Engine(256 << 20, 1, idle_workers=None).run("SELECT s FROM t", {"t": texts}, (), Deadline(60.0))
    batches = list(found)
    assert sum(batch.num_rows for batch in batches) == 300
    assert max(batch.nbytes for batch in batches) < HANDED_BYTES * 2
    found.close()


@pytest.mark.parametrize("shared_bytes", [0, 1 << 30])
def test_what_scans_have_in_other_layouts_reaches_workers(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, shared_bytes: int
) -> None:
    monkeypatch.setattr(worker_pool, "SHARED_BYTES", shared_bytes)
    cities = [pa.array(values).dictionary_encode() for values in (["x", None, "y"], ["z", "z"], [None, "x"])]
    prices = pa.array([1, 2, None, 4, 5, 6, 7]).cast(pa.decimal128(19)).cast(pa.decimal64(10, 2))
    table = pa.table({"city": pa.chunked_array(cities), "price": prices})
    sql = "SELECT city, sum(price)::INTEGER AS price, repeat('y', 2) AS r FROM t GROUP BY city"
    found = answer(engine.run(sql, {"t": table}, (), Deadline(60.0)))
    assert {row["city"]: row["price"] for row in found} == {"x": 8, None: 8, "y": None, "z": 9}


def test_a_result_that_is_over_cannot_be_interrupted(engine: Engine) -> None:
    """Its worker may run another statement by then."""
    over = engine.run("SELECT repeat('x', 2) AS r", {}, (), Deadline(60.0))
    assert answer(over) == [{"r": "xx"}]
    rows = engine.run("SELECT repeat('y', 2) AS r", {}, (), Deadline(60.0))
    over.interrupt()
    assert answer(rows) == [{"r": "yy"}]


def test_many_tables_are_handed_over(engine: Engine) -> None:
    tables = {f"t{number}": pa.table({"a": [number]}) for number in range(300)}
    sql = " UNION ALL ".join(f"SELECT repeat('x', a) AS r FROM {name}" for name in tables)
    assert sorted(len(str(row["r"])) for row in answer(engine.run(sql, tables, (), Deadline(60.0)))) == list(
        range(300)
    )


def test_an_engine_that_is_closed_ends_its_statements(idle: IdleWorkers) -> None:
    closing = Engine(100 << 20, 1, idle_workers=idle)
    rows = closing.run("SELECT a, repeat('x', 3) FROM l", {"l": wide()}, (), Deadline(60.0))
    closing.close()
    with pytest.raises(LivestateError):
        answer(rows)


def test_statements_that_nobody_reads_end_with_their_time(engine: Engine) -> None:
    before = processes()
    rows = engine.run(
        "SELECT a, repeat('x', 3) FROM l", {"l": pa.table({"a": pa.array(range(ROWS))})}, (), Deadline(1.0)
    )
    started = processes()
    wait_until(lambda: processes() != started or not started & before)
    with pytest.raises(DeadlineExceeded):
        answer(rows)


def test_statements_wait_for_a_worker_within_their_time(idle: IdleWorkers) -> None:
    pool = WorkerPool(idle, size=1, patience_seconds=0.3)
    held = pool.take(Deadline(60.0))
    with pytest.raises(DeadlineExceeded):
        pool.take(Deadline(0.1))
    with pytest.raises(LimitExceeded, match=r"1 statements .* run already"):
        pool.take(Deadline(60.0))
    threading.Timer(0.05, pool.give_back, [held], {"is_ready": True}).start()
    pool.give_back(pool.take(Deadline(60.0)), is_ready=False)


def test_statements_share_workers_that_are_soon_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are kept would be started and ended with each statement."""
    monkeypatch.setattr(worker_pool, "MAX_IDLE", 1)
    monkeypatch.setattr(worker_pool, "WAIT_SECONDS", 60.0)
    idle = IdleWorkers()
    pool = WorkerPool(idle)
    held = pool.take(Deadline(60.0))
    with pytest.raises(DeadlineExceeded):
        pool.take(Deadline(0.1))
    threading.Timer(0.05, pool.give_back, [held], {"is_ready": True}).start()
    shared = pool.take(Deadline(60.0))
    assert shared is held
    monkeypatch.setattr(worker_pool, "WAIT_SECONDS", 0.1)
    other = pool.take(Deadline(60.0))
    assert other is not held
    for worker in (shared, other):
        pool.give_back(worker, is_ready=False)


def test_what_a_worker_spills_goes_with_it(tmp_path: Path) -> None:
    idle = IdleWorkers()
    engine = Engine(512 << 20, 2, SpillDirectory(tmp_path / "spill", 1 << 30), idle)
    large = pa.table({"a": pa.array(range(1_500_000))})
    sql = "SELECT count(*) AS n FROM (SELECT DISTINCT printf('%40d', a) FROM l)"
    rows = engine.run(sql, {"l": large}, (), Deadline(120.0))
    assert [batch.to_pylist() for batch in rows] == [[{"n": 1_500_000}]]
    assert list(tmp_path.glob("spill/*/worker-*"))
    rows.close()
    idle.close()
    assert not list(tmp_path.glob("spill/*/worker-*"))
    engine.close()


def test_a_worker_keeps_the_engines_of_several_roles(tmp_path: Path) -> None:
    idle = IdleWorkers()
    engine = Engine(512 << 20, 2, SpillDirectory(tmp_path / "spill", 1 << 30), idle)
    limit = EngineLimit("ann", Limit(120 << 20, "desk"))
    opened = set()
    for _ in range(3):
        for deadline in (Deadline(60.0), Deadline(60.0, engine_limit=limit)):
            assert answer(engine.run("SELECT repeat('x', 2) AS r", {}, (), deadline)) == [{"r": "xx"}]
            opened |= set(tmp_path.glob("spill/*/worker-*/*"))
    assert len(opened) == 2, "each has a place of its own to spill to"
    assert all(each.exists() for each in opened)
    engine.close()
    idle.close()


def test_workers_end_with_the_process_that_started_them(tmp_path: Path) -> None:
    script = tmp_path / "starts.py"
    script.write_text("""
import os
from engine.access.principal import EngineLimit, Limit
from engine.duckdb import worker_pool
from engine.deadline import Deadline
from engine.duckdb.engine import Engine
engine = Engine(100 << 20, 1)
list(engine.run("SELECT repeat('x', 2)", {}, (), Deadline(60.0)))
print(open(f"/proc/self/task/{os.getpid()}/children").read(), flush=True)
# One computes, for hours.
endless = "SELECT len(range(TIMESTAMP '0001-01-01', TIMESTAMP '9999-01-01', INTERVAL 1 MICROSECOND))"
list(engine.run(endless, {}, (), Deadline(600.0)))
""")
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        workers = [int(number) for number in parent.stdout.readline().split()]
        assert workers
        parent.kill()
    wait_until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers))


def test_a_worker_reaches_no_file(engine: Engine, tmp_path: Path) -> None:
    secret = tmp_path / "file.csv"
    secret.write_text("a-secret\n")
    for sql in (f"FROM read_text('{secret}'), range(1)", "SET threads = 1; SELECT repeat('x', 2)"):
        with pytest.raises((LivestateError, BindingError)) as raised:
            answer(engine.run(sql, {}, (), Deadline(60.0)))
        assert "a-secret" not in str(raised.value)
