"""Rows beside the engine and the engine have one memory: what they take, it does without."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.coordinator.answer_memory import AnswerShare, answer_memory
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.gathered_rows import GatheredRows
from engine.coordinator.lent_memory import ENGINE_SHARE, LEAST_FREE_BYTES, STEP_BYTES, LentMemory
from engine.coordinator.resources import open_resources
from engine.duckdb.deadline import Deadline
from engine.duckdb.engine import Engine
from engine.duckdb.engine_database import counted_bytes
from engine.duckdb.engine_errors import Failure
from engine.duckdb.spill import SpillDirectory
from engine.errors import LimitExceeded
from engine.exec.query_options import QueryOptions

MIB = 1 << 20
MEMORY = 256 * MIB
TABLE = pa.table({"id": pa.array(range(2_500_000), pa.int64())})
SORTED = 'SELECT id, hash(id) AS h FROM "t" ORDER BY h'
BATCH = pa.record_batch({"text": ["x" * MIB] * 8})


@contextmanager
def open_engine(memory: int = MEMORY, spill: SpillDirectory | None = None) -> Iterator[Engine]:
    engine = Engine(memory, 2, spill)
    try:
        yield engine
    finally:
        engine.close()


def told_bytes(engine: Engine) -> float:
    """What the engine is told, as it says it: to a tenth of a MiB."""
    with engine._database.connect().duckdb as connection:
        found = connection.execute("SELECT current_setting('memory_limit')").fetchone()
    assert found is not None
    number, unit = found[0].split()
    return float(number) * {"KiB": 1 << 10, "MiB": MIB, "GiB": 1 << 30}[unit]


@contextmanager
def sorting(engine: Engine) -> Iterator[None]:
    """A statement that has most of the memory in use."""
    rows = engine.run(SORTED, {"t": TABLE}, [], Deadline(60.0))
    try:
        next(iter(rows))
        yield
    finally:
        rows.close()


@given(
    memory=st.sampled_from([48 * MIB, MEMORY, 1 << 30]),
    changes=st.lists(st.integers(-8, 8).map(lambda part: part / 20), max_size=20),
)
def test_the_parts_are_never_more_than_the_memory(memory: int, changes: list[float]) -> None:
    with open_engine(memory) as engine:
        lent = LentMemory(engine, memory)
        pools = [MemoryPool(memory, memory, lent=lent), answer_memory(memory, lent)]
        beside = memory - counted_bytes(memory)
        for place, change in enumerate(changes):
            pool, before = pools[place % 2], [each.held_bytes for each in pools]
            nbytes = max(int(change * memory), -pool.held_bytes)
            assert pool.take(nbytes) or [each.held_bytes for each in pools] == before
            held = sum(each.held_bytes for each in pools)
            assert told_bytes(engine) == pytest.approx(counted_bytes(memory) - lent.lent_bytes, rel=0.01)
            assert lent.lent_bytes + max(LEAST_FREE_BYTES, beside) >= held
            assert lent.lent_bytes <= counted_bytes(memory) - memory // ENGINE_SHARE
        for pool in pools:
            assert pool.take(-pool.held_bytes)
        assert lent.lent_bytes == 0
        assert told_bytes(engine) == pytest.approx(counted_bytes(memory), rel=0.01)


def test_what_statements_have_in_use_is_not_lent() -> None:
    with open_engine() as engine:
        lent = LentMemory(engine, MEMORY)
        with sorting(engine):
            assert not lent.take(64 * MIB)
            assert lent.take(LEAST_FREE_BYTES)
            assert lent.lent_bytes == 0
        assert lent.take(64 * MIB)
        assert lent.lent_bytes == 64 * MIB
        with pytest.raises(LimitExceeded, match="memory_limit_bytes"), sorting(engine):
            pass


def test_who_finds_no_memory_is_told_so(tmp_path: Path) -> None:
    with open_engine() as engine:
        lent = LentMemory(engine, MEMORY)
        answers = answer_memory(MEMORY, lent)
        gathered = MemoryPool(MEMORY, MEMORY, lent=lent)
        with sorting(engine):
            with pytest.raises(
                LimitExceeded, match="statements leave no memory for so much: send fewer keys"
            ):
                AnswerShare(answers).take(60 * MIB)
            with pytest.raises(LimitExceeded, match="than is left of memory_limit_bytes"):
                gathered.reservation().take(60 * MIB)
        assert answers.held_bytes == gathered.held_bytes == 0
        AnswerShare(answers).take(60 * MIB)


def test_gathered_rows_go_to_a_file_where_statements_have_the_memory(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path / "spill", 1 << 30)
    with open_engine() as engine:
        memory = MemoryPool(MEMORY, MEMORY, spill, LentMemory(engine, MEMORY))
        reservation = memory.reservation()
        rows = GatheredRows(BATCH.schema, reservation)
        with sorting(engine):
            for _ in range(9):
                rows.add(BATCH)
            assert memory.held_bytes >= BATCH.nbytes
            assert memory.disk_bytes >= BATCH.nbytes
            assert rows.batches() == [BATCH] * 9
        rows.close()
        reservation.free()
    spill.close()


def test_a_database_that_is_opened_anew_is_told_what_is_lent() -> None:
    with open_engine() as engine:
        lent = LentMemory(engine, MEMORY)
        assert lent.take(64 * MIB)
        engine._database.error(Failure("fatal", "it breaks"))
        assert told_bytes(engine) == counted_bytes(MEMORY) - lent.lent_bytes
        assert lent.take(-64 * MIB)
        assert told_bytes(engine) == counted_bytes(MEMORY)


def test_a_finalizer_may_give_back_while_the_engine_is_asked() -> None:
    class CollectingEngine(Engine):
        def lend(self, nbytes: int) -> bool:
            if nbytes > 2 * STEP_BYTES:
                pool.take(-2 * STEP_BYTES)  # in the thread that asks, as garbage is collected
            return super().lend(nbytes)

    engine = CollectingEngine(MEMORY, 2)
    lent = LentMemory(engine, MEMORY)
    pool = MemoryPool(MEMORY, MEMORY, lent=lent)
    assert pool.take(LEAST_FREE_BYTES + STEP_BYTES)
    assert pool.take(2 * STEP_BYTES)
    assert pool.held_bytes == LEAST_FREE_BYTES + STEP_BYTES
    assert lent.lent_bytes in {STEP_BYTES, 2 * STEP_BYTES}
    assert told_bytes(engine) == counted_bytes(MEMORY) - lent.lent_bytes
    engine.close()


def test_a_host_has_one_memory_for_all_of_them() -> None:
    resources = open_resources(QueryOptions(memory_limit_bytes=MEMORY, threads=1))
    assert resources.memory.take(48 * MIB)
    assert resources.key_answers.take(32 * MIB)
    assert not resources.memory.take(MIB)
    assert told_bytes(resources.engine) == MEMORY // ENGINE_SHARE
    resources.close()
    assert resources.memory.take(-48 * MIB)
