"""Statements of principals whose memory is limited: each principal has a database of its own, and its share
of workers.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.access.principal import EngineLimit, Limit
from engine.coordinator.resources import open_resources
from engine.deadline import Deadline
from engine.duckdb.engine import Engine, EngineRows
from engine.duckdb.engine_database import EngineDatabase, own_bytes, shared_bytes
from engine.duckdb.engine_errors import Allowance, Failure
from engine.duckdb.own_databases import LEAST_BYTES, MOST_KEPT, OwnDatabases
from engine.duckdb.spill import SpillDirectory
from engine.duckdb.worker_memory import WorkerMemory
from engine.errors import Defect, LimitExceeded, Unavailable
from engine.exec.query_options import QueryOptions

MIB = 1 << 20
MEMORY = 1 << 30
LIMIT = 48 * MIB
COUNT = 1_000_000
TABLE = pa.table({"id": pa.array(range(COUNT), pa.int64())})
LARGE = 'SELECT m, count(*) AS n FROM (SELECT md5(id::VARCHAR) AS m FROM "t") GROUP BY m'
SMALL = 'SELECT count(*) AS n FROM "t"'
LONG = "SELECT len(string_agg(repeat('x', 1000), '')) AS n FROM \"t\""
LONGER = "SELECT length(lpad('x', 2000000000, 'y')) AS n"


@pytest.mark.parametrize(("in_worker", "told"), [(False, "128.0 MiB"), (True, "256.0 MiB")])
def test_the_engine_is_told_of_less_than_it_may_take(in_worker: bool, told: str) -> None:
    """It takes more than it counts; a worker has room for that beside its memory."""
    database = EngineDatabase(Allowance(256 * MIB, in_worker=in_worker), 1, None)
    with database.connect().duckdb as connection:
        found = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    database.close()
    assert found == (told,)


@pytest.mark.parametrize(("whole", "told"), [(80, 50), (120, 64), (300, 150), (2048, 1024)])
def test_the_engine_is_told_of_half(whole: int, told: int) -> None:
    assert shared_bytes(whole * MIB) == told * MIB


@pytest.mark.parametrize(("whole", "told"), [(80, 50), (300, 204), (512, 416), (2048, 1792)])
def test_small_databases_of_principals_are_told_less(whole: int, told: int) -> None:
    assert own_bytes(whole * MIB) == told * MIB
    database = EngineDatabase(Allowance(whole * MIB, Limit(whole * MIB, "desk")), 1, None)
    with database.connect().duckdb as connection:
        found = connection.execute("SELECT parse_formatted_bytes(current_setting('memory_limit'))").fetchone()
    database.close()
    assert found is not None
    assert found[0] == pytest.approx(told * MIB, rel=0.1)


@pytest.mark.parametrize("whole", [128 * MIB, 200 * MIB, 2 << 30, (7 << 40) + 1])
def test_the_parts_of_the_memory_add_up(whole: int) -> None:
    """With what the engine takes beside what it counts."""
    options = QueryOptions(memory_limit_bytes=whole)
    beside = [options.all_gathered_bytes, options.key_answer_bytes]
    assert shared_bytes(whole) * 9 / 8 + sum(beside) <= whole
    assert options.gathered_bytes <= options.all_gathered_bytes
    resources = open_resources(options) if whole <= MEMORY else None
    if resources is not None:
        assert [resources.memory.total_limit_bytes, resources.key_answers.total_limit_bytes] == beside
        resources.close()


def limit_of(owner: str, nbytes: int = LIMIT) -> EngineLimit:
    return EngineLimit(owner, Limit(nbytes, "desk"))


def deadline_of(owner: str | None, nbytes: int = LIMIT) -> Deadline:
    return Deadline(60.0, engine_limit=None if owner is None else limit_of(owner, nbytes))


def begin(engine: Engine, sql: str, deadline: Deadline) -> EngineRows:
    return engine.run(sql, {"t": TABLE}, [], deadline)


def count_rows(engine: Engine, sql: str, deadline: Deadline) -> int:
    rows = begin(engine, sql, deadline)
    try:
        return sum(batch.num_rows for batch in rows)
    finally:
        rows.close()


@contextmanager
def open_engine(spill: SpillDirectory | None = None) -> Iterator[Engine]:
    found = Engine(MEMORY, 2, spill)
    try:
        yield found
    finally:
        found.close()


@contextmanager
def open_databases(total_bytes: int = MEMORY, spill: SpillDirectory | None = None) -> Iterator[OwnDatabases]:
    found = OwnDatabases(total_bytes, 1, spill)
    try:
        yield found
    finally:
        found.close()


def test_a_principal_has_its_limit_and_others_are_not_hurt() -> None:
    with open_engine() as engine, ThreadPoolExecutor(1) as pool:
        other = pool.submit(count_rows, engine, LARGE, deadline_of(None))
        with pytest.raises(LimitExceeded) as error:
            count_rows(engine, LARGE, deadline_of("ann"))
        assert error.value.message == (
            f"The statement needs more memory than the {LIMIT} bytes of the role desk (max_engine_bytes), "
            "which its principal's statements share, and spilling to disk is off: ask for less, raise the "
            "limit, or allow spilling by spill_limit_bytes."
        )
        assert other.result(60) == COUNT
        assert count_rows(engine, SMALL, deadline_of("ann")) == 1
        assert count_rows(engine, LARGE, deadline_of("ann", MEMORY // 2)) == COUNT


def test_all_statements_of_a_principal_share_its_limit() -> None:
    with open_engine() as engine:
        held = begin(engine, 'SELECT id FROM "t" ORDER BY hash(id)', deadline_of("ann", MEMORY // 4))
        try:
            shared = engine.memory().nbytes
            assert shared > 8 * MIB, "it sorts in memory that is counted"
            assert engine._database.memory().nbytes < shared, "and not that of everybody"
            with engine._own_databases.connect(limit_of("ann", MEMORY // 4)).duckdb as connection:
                (found,) = connection.execute(
                    "SELECT sum(memory_usage_bytes) FROM duckdb_memory()"
                ).fetchall()
            assert found[0] > 8 * MIB
        finally:
            held.close()


def test_what_a_limit_does_not_hold_is_spilled_apart(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path / "spill", 8 << 30)
    with open_engine(spill) as engine, ThreadPoolExecutor(2) as pool:
        found = [pool.submit(count_rows, engine, LARGE, deadline_of(name)) for name in ("ann", "bob")]
        held = begin(engine, LARGE, deadline_of("eve"))
        assert [each.result(60) for each in found] == [COUNT, COUNT]
        assert len(list(spill.path.iterdir())) >= 3, "each database has files of its own"
        assert sum(batch.num_rows for batch in held) == COUNT, "others do not remove them"
        held.close()
    assert not (tmp_path / "spill").exists()


def test_a_limit_has_a_part_of_the_disk(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path / "spill", 64 * MIB)
    with open_engine(spill) as engine:
        most = 64 * MIB * LIMIT // MEMORY
        with pytest.raises(LimitExceeded, match=f"spill_limit_bytes allows {most} bytes"):
            count_rows(engine, LARGE, deadline_of("ann"))


def test_a_database_that_is_closed_removes_its_files(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path / "spill", 8 << 30)
    with open_databases(spill=spill) as databases:
        connection = databases.connect(limit_of("ann"))
        connection.duckdb.register("t", TABLE)
        reader = connection.duckdb.sql(LARGE).to_arrow_reader(1000)
        assert len(list(spill.path.iterdir())) == 1
        reader.close()
        connection.close()
    assert not list(spill.path.iterdir())


def test_databases_that_nobody_uses_are_closed_but_for_some() -> None:
    with open_databases() as databases:
        busy = databases.connect(limit_of("busy", LEAST_BYTES))
        for number in range(2 * MOST_KEPT):
            databases.connect(limit_of(f"p{number}", LEAST_BYTES)).close()
        kept = [limit.owner for limit in databases._databases]
        # The one that was used last was in use when they were counted.
        assert kept == ["busy", *(f"p{number}" for number in range(MOST_KEPT - 1, 2 * MOST_KEPT))]
        first = databases.connect(limit_of(f"p{MOST_KEPT}", LEAST_BYTES))
        first.close()
        assert [limit.owner for limit in databases._databases][-1] == f"p{MOST_KEPT}"
        assert busy.duckdb.execute("SELECT 1").fetchall() == [(1,)]
        busy.close()


def test_a_connection_that_is_forgotten_counts_no_more() -> None:
    with open_databases() as databases:
        connection = databases.connect(limit_of("ann"))
        database = connection.database
        assert not database.is_idle
        del connection
        gc.collect()
        assert database.is_idle


def test_those_in_use_share_the_memory_that_there_is() -> None:
    with open_databases(100 * MIB) as databases:
        most = databases.connect(limit_of("ann", 90 * MIB))
        again = databases.connect(limit_of("ann", 90 * MIB))
        assert again.database is most.database
        less = databases.connect(limit_of("bob", 90 * MIB))
        assert (most.database.allowance.nbytes, less.database.allowance.nbytes) == (90 * MIB, LEAST_BYTES)
        assert less.database.allowance.words == (
            f"memory_limit_bytes leaves it now ({LEAST_BYTES} bytes) of the {90 * MIB} bytes of the role "
            "desk (max_engine_bytes)"
        )
        small = databases.connect(limit_of("eve", 20 * MIB))
        assert small.database.allowance.nbytes == 20 * MIB
        for connection in (most, again, small, less):
            connection.close()
        whole = databases.connect(limit_of("bob", 90 * MIB))
        assert whole.database.allowance.nbytes == 90 * MIB
        with pytest.raises(duckdb.Error):
            less.database.connect()
        most_of_all = databases.connect(limit_of("ann", 900 * MIB))
        assert most_of_all.database.allowance.nbytes == LEAST_BYTES
        whole.close()
        most_of_all.close()
        assert databases.connect(limit_of("ann", 900 * MIB)).database.allowance.nbytes == 100 * MIB


def test_one_that_broke_is_opened_anew() -> None:
    with open_databases() as databases:
        before = databases.connect(limit_of("ann"))
        broken = before.database._database
        assert isinstance(before.database.error(Failure("fatal", "it broke")), Defect)
        after = databases.connect(limit_of("ann"))
        assert after.database is before.database
        assert after.database._database is not broken
        broken.close()
        before.close()
        assert after.duckdb.execute("SELECT 1").fetchall() == [(1,)]
        after.close()


def test_nothing_is_begun_in_what_is_closed() -> None:
    with open_engine() as engine:
        rows = begin(engine, LARGE, deadline_of("ann", MEMORY // 2))
        engine.close()
        with pytest.raises(Unavailable, match="stopping"):
            begin(engine, SMALL, deadline_of("ann"))
        rows.close()
        rows.close()


def test_a_worker_gets_half_of_what_is_left() -> None:
    memory, limit = WorkerMemory(MEMORY), limit_of("ann", 100 * MIB)
    shares = [memory.take(limit) for _ in range(4)]
    assert [share.allowance.nbytes // MIB for share in shares] == [50, 25, 16, 16]
    assert memory.take(limit_of("bob", 100 * MIB)).allowance.nbytes == 50 * MIB
    assert memory.take(None).allowance.nbytes == MEMORY // 8
    assert memory.take(limit_of("eve", MEMORY)).allowance.nbytes == MEMORY // 8
    assert memory.take(limit_of("low", 5 * MIB)).allowance.nbytes == 5 * MIB
    for share in shares:
        share.give()
        share.give()
    assert memory.take(limit).allowance.nbytes == 50 * MIB


def test_statements_in_workers_have_their_share() -> None:
    limit = limit_of("ann", 200 * MIB)
    with open_engine() as engine:
        rows = begin(engine, "SELECT repeat('x', 2) AS r", deadline_of("ann", 200 * MIB))
        assert engine._worker_memory.take(limit).allowance.nbytes == 50 * MIB
        rows.close()
        assert engine._worker_memory.take(limit).allowance.nbytes == 75 * MIB
        words = r"more memory than .* part of the 41943040 bytes of the role desk \(max_engine_bytes\)"
        for sql in (LONG, LONGER):
            with pytest.raises(LimitExceeded, match=words):
                count_rows(engine, sql, deadline_of("eve", 40 * MIB))
        with pytest.raises(LimitExceeded, match=r"20971520 bytes; a part of the 41943040 bytes of the role"):
            count_rows(
                engine, f"SELECT repeat(m, 2) AS r FROM ({LARGE}) ORDER BY r", deadline_of("eve", 40 * MIB)
            )
        assert not engine._worker_memory._taken[limit_of("eve", 40 * MIB)], "it was given back"
