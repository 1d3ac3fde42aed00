"""What one host answers within its memory, by spilling, three do too: what merges gather may be on disk."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.access.principal import Limit
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.gathered_rows import GatheredRows
from engine.duckdb.spill import SpillDirectory
from engine.errors import LimitExceeded
from engine.model.schema import define_store
from engine.service import QueryService, Session
from flight_server.server.limits import Share, Slots
from tests.support.local_cluster import SMALL, Cluster, host_names, memory_cluster
from tests.support.waiting import PATIENCE_SECONDS

COUNT = 100_000
(HOST,) = host_names(1)
PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("listener", pa.int64()), ("note", pa.string())]),
    ["song"],
    partitions=12,
)
ROWS = pa.table(
    {
        "song": range(COUNT),
        "listener": [place * 7919 % COUNT for place in range(COUNT)],
        "note": [f"what a listener says of song {place * 31 % COUNT:08}" for place in range(COUNT)],
    }
)
BATCH = ROWS.slice(0, 1000).combine_chunks().to_batches()[0]
OPTIONS = replace(
    SMALL,
    memory_limit_bytes=64 << 20,
    batch_bytes=100_000,
    merge_table_bytes=100_000,
    gather_limit_bytes=1 << 20,
    total_gather_limit_bytes=2 << 20,
    broadcast_limit_bytes=1 << 20,
)
STATEMENTS = {
    "many groups": "SELECT note, count(*) AS n, min(song) AS song FROM plays GROUP BY note",
    "different values": "SELECT count(DISTINCT note) + count(DISTINCT listener) AS song FROM plays",
    "different rows": "SELECT DISTINCT note, listener AS song FROM plays",
    "all in order": "SELECT song, note FROM plays ORDER BY note",
    "windows": "SELECT song, row_number() OVER (PARTITION BY listener % 9 ORDER BY note) AS n FROM plays",
    "a join": "SELECT a.song, b.note FROM plays AS a JOIN plays AS b ON a.listener = b.listener",
    "an outer join": "SELECT a.song, b.note FROM plays AS a FULL JOIN plays AS b ON a.note = b.note",
    "a union": "SELECT song, note FROM plays UNION SELECT listener, note FROM plays WHERE song % 2 = 0",
    "common tables": (
        "WITH n AS (SELECT note, max(song) AS song, avg(song) AS a FROM plays GROUP BY note) "
        "SELECT n.song, m.a FROM n JOIN n AS m USING (note)"
    ),
    "parts": "SELECT p.song, p.note, t.n FROM plays AS p, LATERAL (SELECT max(note) AS n FROM plays) AS t",
    "all rows": "SELECT song, listener, note FROM plays",
}


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    with _cluster(1, tmp_path_factory.mktemp("one")) as found:
        yield found.services[HOST]


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryService]:
    with _cluster(3, tmp_path_factory.mktemp("three")) as found:
        yield found.services[HOST]


def _cluster(hosts: int, spill: Path | None) -> AbstractContextManager[Cluster]:
    return memory_cluster([PLAYS], {"plays": ROWS}, host_names(hosts), options=OPTIONS, spill=spill)


def _checksum(service: QueryService, sql: str) -> tuple[int, object]:
    """How many rows, and the sum of the songs."""
    count, total = 0, 0
    with service.execute(sql, session=Session(timeout_seconds=PATIENCE_SECONDS)) as result:
        for batch in result:
            count += batch.num_rows
            total += pc.sum(batch.column("song")).as_py() or 0
    return count, total


@pytest.mark.parametrize("name", STATEMENTS)
def test_three_hosts_answer_what_one_does(one: QueryService, three: QueryService, name: str) -> None:
    sql = STATEMENTS[name]
    assert _checksum(three, sql) == _checksum(one, sql)
    assert three._runner._memory.held_bytes == 0


def test_without_a_directory_memory_is_the_limit() -> None:
    with _cluster(3, None) as cluster, pytest.raises(LimitExceeded, match="gather_limit_bytes"):
        cluster.services[HOST].execute(STATEMENTS["a join"])


def test_a_role_says_what_a_statement_gathers(tmp_path: Path) -> None:
    share = Share("ann", gathered=Limit(1000, "desk"))
    slots = Slots("max_statements", 4, 10, 60.0)
    with _cluster(3, tmp_path) as cluster:
        service = cluster.services[HOST]
        with (
            slots.hold(share=share) as slot,
            pytest.raises(LimitExceeded, match=r"1000 bytes of the role desk \(max_gathered_bytes\)"),
        ):
            service.execute(STATEMENTS["a join"], slot=slot).read_all()
        with slots.hold(share=Share("bob")) as slot, service.execute(STATEMENTS["a join"], slot=slot) as rows:
            assert rows.read_all().num_rows
        assert service._runner._memory.held_bytes == 0


def test_rows_beyond_memory_are_in_a_file_without_a_name(tmp_path: Path) -> None:
    spill = SpillDirectory(tmp_path / "spill", 10 * BATCH.nbytes)
    memory = MemoryPool(2 * BATCH.nbytes, 3 * BATCH.nbytes, spill)
    reservation = memory.reservation()
    gathered = GatheredRows(BATCH.schema, reservation)
    for _ in range(8):
        gathered.add(BATCH)
    assert memory.held_bytes == 2 * BATCH.nbytes
    assert len(_files(tmp_path)) == 1
    assert gathered.batches() == [BATCH] * 8
    gathered.close()
    assert not _files(tmp_path)
    reservation.free()
    other = GatheredRows(BATCH.schema, memory.reservation())
    with pytest.raises(LimitExceeded, match="spill_limit_bytes on disk"):
        for _ in range(13):
            other.add(BATCH)
    other.close()
    assert not _files(tmp_path)
    spill.close()


def _files(directory: Path) -> list[Path]:
    return [path for path in directory.rglob("*") if path.is_file()]
