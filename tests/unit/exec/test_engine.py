"""The engine over scans: as tables and as streams, with dead rows and without columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pyarrow as pa
import pytest

from engine.deadline import Deadline
from engine.duckdb.engine import Engine, ScanStream, engine_table, hold_scan, with_live_rows
from engine.errors import InvalidInput, Unavailable, Unsupported
from engine.scan import LIVE_COLUMN, NOTHING_HELD, Hold, ScanStatistics
from engine.service import QueryService, Session
from tests.support.memory_source import MemorySource
from tests.support.processor_time import is_longer

NOTHING_COUNTED = ScanStatistics(0, 0, 0, 0, 0, 0, 0, 0)


@dataclass(frozen=True)
class BlockScan:
    """A scan of given blocks that may end in a failure."""

    schema: pa.Schema
    blocks: tuple[pa.RecordBatch, ...]
    nbytes: int = 1
    fails: bool = False
    statistics: ScanStatistics = NOTHING_COUNTED

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.blocks
        if self.fails:
            raise Unavailable("Partition 3 of store plays cannot be read.")

    def hold(self, *, is_copied: bool = False) -> Hold | None:
        return NOTHING_HELD

    def to_table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def live_rows(self) -> pa.Table:
        return self.to_table()


def blocks(count: int, *, live: bool) -> BlockScan:
    schema = pa.schema([("a", pa.int64())] + ([(LIVE_COLUMN, pa.uint8())] if live else []))
    columns = [
        [pa.array([place * 2, place * 2 + 1])] + ([pa.array([1, 0], pa.uint8())] if live else [])
        for place in range(count)
    ]
    return BlockScan(schema, tuple(pa.record_batch(each, schema=schema) for each in columns))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine(200 << 20, 2)
    yield found
    found.close()


def answer(engine: Engine, sql: str, scan: BlockScan, *, stream: bool) -> list[dict[str, object]]:
    table = ScanStream(scan) if stream else engine_table(scan)
    rows = engine.run(with_live_rows(sql, {"s": scan.schema}), {"s": table}, [], Deadline(None))
    try:
        return [row for batch in rows for row in batch.to_pylist()]
    finally:
        rows.close()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("live", [False, True])
def test_a_scan_is_read_as_often_as_the_statement_needs(engine: Engine, stream: bool, live: bool) -> None:
    scan = blocks(1000, live=live)
    assert answer(
        engine,
        'SELECT count(*) AS n, sum(x.a) AS s FROM "s" AS x JOIN "s" AS y USING (a)',
        scan,
        stream=stream,
    ) == [{"n": 1000 if live else 2000, "s": 999_000 if live else 1_999_000}]


@pytest.mark.parametrize("stream", [False, True])
def test_rows_without_columns_are_counted(engine: Engine, stream: bool) -> None:
    empty = pa.RecordBatch.from_struct_array(pa.array([{}, {}, {}], pa.struct([])))
    assert answer(
        engine, 'SELECT count(*) AS n FROM "s"', BlockScan(pa.schema([]), (empty, empty)), stream=stream
    ) == [{"n": 6}]
    flags = pa.record_batch([pa.array([1, 0, 1], pa.uint8())], names=[LIVE_COLUMN])
    assert answer(
        engine, 'SELECT count(*) AS n FROM "s"', BlockScan(flags.schema, (flags, flags)), stream=stream
    ) == [{"n": 4}]


@pytest.mark.parametrize(("pieces", "rows"), [(88, 1), (100, 3000)])
@pytest.mark.parametrize(
    "ctes", ["c AS MATERIALIZED (SELECT k, g FROM s)", "c AS (SELECT DISTINCT k, g FROM s)"]
)
@pytest.mark.parametrize(
    "query",
    [
        "SELECT count(*) FROM (SELECT a.k FROM c AS a JOIN c AS b USING (k) LIMIT 5 OFFSET 3)",
        "SELECT 5 WHERE EXISTS (SELECT 1 FROM c AS a JOIN c AS b USING (k))",
        "SELECT count(*) FROM (SELECT k FROM c WHERE k IN (SELECT k FROM c) LIMIT 5)",
        "SELECT 5 + 0 * (SELECT a.k FROM c AS a JOIN c AS b USING (k) LIMIT 1)",
    ],
)
def test_what_stops_early_over_a_materialized_query_ends(
    engine: Engine, pieces: int, rows: int, ctes: str, query: str
) -> None:
    """One reader of such a query may wait for another one, which waits for the first to go on."""
    table = pa.Table.from_batches(
        [pa.record_batch({"k": range(n * rows, n * rows + rows), "g": [n % 9] * rows}) for n in range(pieces)]
    )
    found = engine.run(f"WITH {ctes} {query}", {"s": table}, [], Deadline(20.0))
    try:
        assert [list(row.values()) for batch in found for row in batch.to_pylist()] == [[5]]
    finally:
        found.close()


def test_big_scans_are_not_held() -> None:
    assert hold_scan(BlockScan(pa.schema([("a", pa.int64())]), (), nbytes=1 << 40)) is None
    assert hold_scan(blocks(1, live=True)) is NOTHING_HELD


def test_a_failure_of_the_stores_keeps_its_kind(engine: Engine) -> None:
    scan = BlockScan(blocks(3, live=False).schema, blocks(3, live=False).blocks, fails=True)
    with pytest.raises(Unavailable, match="Partition 3"):
        answer(engine, 'SELECT sum(a) FROM "s"', scan, stream=True)
    assert answer(engine, 'SELECT count(*) AS n FROM "s"', blocks(3, live=True), stream=True) == [{"n": 3}]


@pytest.mark.parametrize(
    "sql", ["SELECT from_hex(repeat('ü', 100))", "SELECT from_binary(s) FROM (SELECT 'üü' s)"]
)
def test_a_message_that_the_engine_cuts_within_a_character_is_said(sql: str) -> None:
    """Python cannot read it as a text; before 3.11.7 there is nothing left of it."""
    with (
        closing(QueryService(MemorySource([]))) as service,
        pytest.raises(
            InvalidInput, match=r"^Invalid input for |^The statement is not valid \(invalidinput\)\.$"
        ),
    ):
        service.execute(sql)


def test_types_that_arrow_does_not_read_are_refused() -> None:
    nested = "MAP(" * 100 + "INT" + ", INT)" * 100
    service = QueryService(MemorySource([]))
    with closing(service):
        for ask in (service.prepare, service.execute):
            with pytest.raises(Unsupported, match="nest too deeply"):
                ask(f"SELECT NULL::{nested}")


def test_what_is_refused_over_many_grouping_sets_is_refused_soon(engine: Engine) -> None:
    """To draw their plan as text would take 18 s."""
    sets = ", ".join(["(a = 170141183460469231731687303715884105728)"] * 150)
    sql = f'SELECT count(*) FROM "s" GROUP BY GROUPING SETS ({sets})'
    begun = time.process_time()
    with pytest.raises(InvalidInput):
        answer(engine, sql, blocks(1, live=False), stream=False)
    assert not is_longer(time.process_time() - begun, 3.0)


def test_a_failure_without_a_kind_is_the_statements() -> None:
    sql = "SELECT * FROM json_tree(x => NULL::JSON, NULL::JSON)"
    with closing(QueryService(MemorySource([]))) as service, pytest.raises(InvalidInput, match="parameters"):
        service.execute(sql)


@pytest.mark.parametrize(
    ("sql", "dialect"),
    [
        ("SELECT date_trunc('day', year())", "spark"),
        ("SELECT DISTINCT ON DATETIME (a) a FROM (SELECT 1 a)", "snowflake"),
    ],
)
def test_what_cannot_be_written_for_the_engine_is_refused(sql: str, dialect: str) -> None:
    """The parser takes functions without their arguments."""
    with (
        closing(QueryService(MemorySource([]))) as service,
        pytest.raises(InvalidInput, match="a function in it lacks arguments, or has others"),
    ):
        service.execute(sql, session=Session(dialect))
