"""Joins with global stores: every host has all of them, so none of their rows travels, and none
counts twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.model.kinds import Behaviour
from engine.model.schema import define_store
from tests.support.local_cluster import Cluster, host_names, memory_cluster

HOSTS = host_names(3)
EVERYWHERE = Behaviour(is_global=True)
PLAYS = define_store(
    "plays", pa.schema([("song", pa.int64()), ("genre", pa.int64())]), ["song"], partitions=8
)
GENRES = define_store(
    "genres",
    pa.schema([("genre", pa.int64()), ("title", pa.string())]),
    ["genre"],
    partitions=2,
    behaviour=EVERYWHERE,
)
LABELS = define_store(
    "labels",
    pa.schema([("genre", pa.int64()), ("label", pa.string())]),
    ["genre"],
    partitions=1,
    behaviour=EVERYWHERE,
)
ROWS = {
    "plays": pa.table({"song": list(range(1000)), "genre": [number % 6 for number in range(1000)]}),
    "genres": pa.table({"genre": list(range(5)), "title": [f"genre {number}" for number in range(5)]}),
    "labels": pa.table({"genre": [0, 1, 9], "label": ["x", "y", "z"]}),
}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with memory_cluster([PLAYS, GENRES, LABELS], ROWS, HOSTS) as running:
        yield running


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT count(*), sum(length(title)) FROM plays JOIN genres USING (genre)", [(834, 834 * 7)]),
        ("SELECT count(*), count(title) FROM plays LEFT JOIN genres USING (genre)", [(1000, 834)]),
        ("SELECT count(*), count(song) FROM genres LEFT JOIN plays USING (genre)", [(834, 834)]),
        ("SELECT count(*) FROM genres", [(5,)]),
        (
            "SELECT count(*), count(label), count(title) FROM genres FULL JOIN labels USING (genre)",
            [(6, 3, 5)],
        ),
        ("SELECT count(*) FROM plays FULL JOIN labels USING (genre)", [(1001,)]),
        ("SELECT count(*) FROM (SELECT genre FROM plays UNION ALL SELECT genre FROM genres)", [(1005,)]),
        ("SELECT genre FROM genres EXCEPT SELECT genre FROM plays WHERE genre < 4 ORDER BY 1", [(4,)]),
        ("SELECT count(*) FROM plays WHERE genre IN (SELECT genre FROM labels)", [(334,)]),
        (
            (
                "SELECT count(*) FROM plays WHERE NOT EXISTS (SELECT 1 FROM genres WHERE genres.genre = "
                "plays.genre)"
            ),
            [(166,)],
        ),
        ("SELECT (SELECT max(title) FROM genres), count(*) FROM plays", [("genre 4", 1000)]),
        (
            (
                "SELECT title, count(*) FROM plays JOIN genres USING (genre) JOIN labels USING (genre) "
                "GROUP BY 1 ORDER BY 1"
            ),
            [("genre 0", 167), ("genre 1", 167)],
        ),
    ],
)
@pytest.mark.parametrize("host", HOSTS)
def test_answers(cluster: Cluster, host: str, sql: str, rows: list[tuple[object, ...]]) -> None:
    service = next(service for name, service in cluster.services.items() if name == host)
    with service.execute(sql) as result:
        assert [tuple(row.values()) for row in result.read_all().to_pylist()] == rows


def test_a_join_moves_no_rows_of_a_global_store(cluster: Cluster) -> None:
    sql = "SELECT song, title FROM plays JOIN genres USING (genre) WHERE song % 100 = 0"
    with cluster.services[HOSTS[0]].execute(f"EXPLAIN {sql}") as result:
        lines = result.read_all()["plan"].to_pylist()
    assert [line for line in lines if line.startswith("split: ")] == ["split: co-partitioned"]
    assert sum(line.startswith("fragment: ") for line in lines) == 1


def test_a_global_store_is_read_at_home(cluster: Cluster) -> None:
    for host in HOSTS:
        cluster.asked.clear()
        with cluster.services[host].execute("SELECT * FROM genres JOIN labels USING (genre)") as result:
            assert result.read_all().num_rows == 2
            assert result.metadata.hosts == (host,)
        assert not cluster.asked


def test_one_key_beside_a_global_store_costs_one_hop(cluster: Cluster) -> None:
    for song in range(8):
        cluster.asked.clear()
        with cluster.services[HOSTS[0]].execute(
            f"SELECT title FROM plays JOIN genres USING (genre) WHERE song = {song}"
        ) as result:
            assert result.read_all().num_rows == (song % 6 != 5)
            assert len(result.metadata.hosts) == 1
        assert cluster.asked.total() <= 1
