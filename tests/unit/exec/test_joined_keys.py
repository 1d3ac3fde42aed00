"""Keys of a small side are looked up in the large one: as many rows are read as there are of these keys."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.exec import engine_query
from engine.model.schema import define_store
from engine.service import QueryService
from tests.support.local_cluster import Cluster, host_names, memory_cluster

PARTITIONS = 8
BIG_ROWS = 8000
DAYS = 500
PLAYS = define_store(
    "plays", pa.schema([("id", pa.int64()), ("times", pa.int64())]), ["id"], partitions=PARTITIONS
)
LINES = define_store(
    "lines",
    pa.schema([("id", pa.int64()), ("line", pa.int64()), ("play", pa.int64())]),
    ["id", "line"],
    partition_by=["id"],
    partitions=PARTITIONS,
)
PICKS = define_store(
    "picks",
    pa.schema([("day", pa.int64()), ("play", pa.int64()), ("name", pa.string())]),
    ["day"],
    partitions=3,
)
ROWS = {
    "plays": pa.table({"id": list(range(BIG_ROWS)), "times": [number % 7 for number in range(BIG_ROWS)]}),
    "lines": pa.table(
        {
            "id": [number // 2 for number in range(BIG_ROWS)],
            "line": [number % 2 for number in range(BIG_ROWS)],
            "play": list(range(BIG_ROWS)),
        }
    ),
    "picks": pa.table(
        {
            "day": list(range(DAYS)),
            "play": [None if day == 3 else day * 10 for day in range(DAYS)],
            "name": [f"n{day % 50}" for day in range(DAYS)],
        }
    ),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with memory_cluster([PLAYS, LINES, PICKS], ROWS, host_names(1)) as found:
        yield found


@pytest.fixture
def service(cluster: Cluster) -> QueryService:
    return cluster.services[cluster.hosts[0]]


@pytest.mark.parametrize(
    ("sql", "rows", "points"),
    [
        ("SELECT p.times FROM picks k JOIN plays p ON p.id = k.play WHERE k.day < 11", 10, 10),
        ("SELECT p.times FROM picks k, plays p WHERE k.play = p.id AND k.name = 'n7'", 10, 10),
        ("SELECT p.times FROM plays p WHERE p.id IN (SELECT play FROM picks WHERE day < 11)", 10, 10),
        ("SELECT l.line FROM lines l JOIN picks k ON l.id = k.play WHERE k.day BETWEEN 5 AND 9", 10, 5),
        (
            "SELECT n FROM (SELECT count(*) AS n FROM picks k, plays p WHERE p.id = k.play AND k.day < 11)",
            1,
            10,
        ),
        ("SELECT times FROM plays WHERE id IN (SELECT play FROM picks WHERE day = 1 LIMIT 1)", 1, 1),
        ("SELECT p.id FROM plays p WHERE p.id IN (SELECT play FROM picks WHERE day > 9999)", 0, 0),
    ],
)
def test_keys_of_a_small_side_are_looked_up(service: QueryService, sql: str, rows: int, points: int) -> None:
    with service.execute(f"EXPLAIN {sql}") as result:
        (lines,) = result.read_all().columns
    assert f"points: {points} of (id)" in "\n".join(map(str, lines.to_pylist()))
    with service.execute(sql) as result:
        assert result.read_all().num_rows == rows
    assert result.metadata.rows_read <= DAYS + rows


def test_keys_that_are_looked_up_tell_more_keys(service: QueryService) -> None:
    sql = (
        "SELECT p.times FROM picks k, lines l, plays p "
        "WHERE l.id = k.play AND p.id = l.play AND k.day BETWEEN 5 AND 9"
    )
    with service.execute(sql) as result:
        assert result.read_all().num_rows == 10
    assert result.metadata.rows_read <= DAYS + 10


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT p.times FROM plays p LEFT JOIN picks k ON p.id = k.play AND k.day < 11",
        "SELECT p.times FROM plays p WHERE p.id NOT IN (SELECT play FROM picks WHERE day < 2)",
        "SELECT p.times FROM plays p WHERE p.id IN (SELECT play FROM picks WHERE day < 2) OR p.times = 1",
        "SELECT p.times FROM picks k JOIN plays p ON p.id = k.play + 1 WHERE k.day < 11",
        "SELECT p.times FROM picks k JOIN plays p ON p.times = k.play WHERE k.day < 11",
        "SELECT p.times FROM picks k JOIN plays p ON p.id = k.play + random() * 0 WHERE k.day < 11",
    ],
)
def test_all_rows_are_read_where_others_can_matter(service: QueryService, sql: str) -> None:
    with service.execute(f"EXPLAIN {sql}") as result:
        (lines,) = result.read_all().columns
    assert "of (id)" not in "\n".join(map(str, lines.to_pylist()))


@pytest.mark.parametrize(("limit", "rows"), [(BIG_ROWS, BIG_ROWS), (BIG_ROWS - 1, 2286)])
def test_small_stores_of_joins_are_read_whole(
    service: QueryService, monkeypatch: pytest.MonkeyPatch, limit: int, rows: int
) -> None:
    """The engine orders joins by how many rows it is given. Read alone, a store is read as far as it can
    matter.
    """
    monkeypatch.setattr(engine_query, "FEW_JOINED_ROWS", limit)
    joined = (
        "SELECT count(*) AS n FROM plays p JOIN lines l ON l.play = p.id + 0 WHERE p.times BETWEEN 2 AND 3"
    )
    with service.execute(joined) as result:
        assert result.read_all().to_pylist() == [{"n": 2286}]
    assert result.metadata.rows_read == rows + BIG_ROWS
    with service.execute("SELECT sum(id + 0) AS n FROM plays WHERE times BETWEEN 2 AND 3") as result:
        result.read_all()
    assert result.metadata.rows_read == 2286
