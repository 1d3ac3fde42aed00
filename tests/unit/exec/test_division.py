"""Answers in pieces: their rows together, whichever hosts give them, are those of the whole statement, and no
piece has another one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.cluster.reports import HostName
from engine.model.kinds import Behaviour
from engine.model.read_point import NEWEST, AsOfEpoch
from engine.model.schema import define_store
from engine.service import Session
from tests.support.local_cluster import Cluster, host_names, memory_cluster

HOSTS = host_names(3)
PLAYS = define_store(
    "plays", pa.schema([("song", pa.int64()), ("genre", pa.int64())]), ["song"], partitions=8
)
SONGS = define_store(
    "songs", pa.schema([("song", pa.int64()), ("title", pa.string())]), ["song"], partitions=8
)
OTHERS = define_store("others", PLAYS.schema, ["song"], partitions=3)
GENRES = define_store(
    "genres",
    pa.schema([("genre", pa.int64()), ("name", pa.string())]),
    ["genre"],
    partitions=2,
    behaviour=Behaviour(is_global=True),
)
ROWS = {
    "plays": pa.table({"song": list(range(300)), "genre": [number % 6 for number in range(300)]}),
    "songs": pa.table({"song": list(range(100, 400)), "title": [f"song {number}" for number in range(300)]}),
    "others": pa.table({"song": list(range(1000, 1050)), "genre": [number % 7 for number in range(50)]}),
    "genres": pa.table({"genre": list(range(5)), "name": [f"genre {number}" for number in range(5)]}),
}
DIVIDED = {
    "SELECT * FROM plays": 8,
    "SELECT genre, song * 2 AS twice FROM plays WHERE genre > 3 OR song = 7": 8,
    "SELECT song FROM plays WHERE song IN (1, 2)": 2,
    "SELECT song, count(*) AS n FROM plays GROUP BY song": 8,
    "SELECT song, count(*), max(genre) FROM plays GROUP BY song": 8,
    "SELECT genre, song * 2, upper('a') || song FROM plays WHERE genre > 3": 8,
    "SELECT song, 'a \"b\"' FROM plays": 8,
    "SELECT song + 1 FROM plays UNION ALL SELECT song FROM songs": 8,
    "SELECT p.song, title FROM plays p JOIN songs s ON p.song = s.song": 8,
    "SELECT p.song, title FROM plays p LEFT JOIN songs s USING (song)": 8,
    "SELECT song, title FROM plays FULL JOIN songs USING (song)": 8,
    "SELECT a.song, b.genre FROM plays a JOIN plays b USING (song)": 8,
    "SELECT song FROM plays WHERE NOT EXISTS (SELECT 1 FROM songs WHERE songs.song = plays.song)": 8,
    "SELECT song, name FROM plays JOIN genres USING (genre)": 8,
    "SELECT song, name FROM plays LEFT JOIN genres USING (genre) WHERE song BETWEEN 3 AND 4": 2,
    "SELECT * FROM genres": 1,
    "SELECT song FROM plays UNION ALL SELECT song FROM others": 11,
    "SELECT song FROM plays UNION ALL SELECT song FROM songs": 8,
    "SELECT song FROM plays WHERE song IN (NULL)": 0,
}
WHOLE = (
    "SELECT count(*) FROM plays",
    "SELECT genre, count(*) FROM plays GROUP BY genre",
    "SELECT song FROM plays ORDER BY song",
    "SELECT song FROM plays LIMIT 3",
    "SELECT DISTINCT genre FROM plays",
    "SELECT name FROM genres LEFT JOIN plays USING (genre)",
    "SELECT a.name, b.name AS other FROM genres a JOIN genres b ON a.genre < b.genre",
    "SELECT song + 1, song + 1 FROM plays",
    "SELECT 1",
    "SHOW TABLES",
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with memory_cluster([PLAYS, SONGS, OTHERS, GENRES], ROWS, HOSTS) as running:
        yield running


def sorted_rows(table: pa.Table) -> list[str]:
    return sorted(str(row) for row in table.to_pylist())


@pytest.mark.parametrize("sql", DIVIDED)
@pytest.mark.parametrize("host", HOSTS)
def test_pieces_are_the_whole(cluster: Cluster, host: HostName, sql: str) -> None:
    division = cluster.services[host].divide(sql)
    assert division.pieces is not None
    assert len(division.pieces) == DIVIDED[sql]
    parts = []
    for piece in division.pieces:
        assert piece.hosts
        assert piece.request.epochs == division.epochs
        given = [cluster.services[each].execute_fragment(piece.request).read_all() for each in piece.hosts]
        assert all(sorted_rows(each) == sorted_rows(given[0]) for each in given)
        parts.append(given[0])
    whole = cluster.services[host].execute(sql).read_all()
    assert all(part.schema.equals(whole.schema) for part in parts)
    assert sorted(row for part in parts for row in sorted_rows(part)) == sorted_rows(whole)


@pytest.mark.parametrize("sql", WHOLE)
def test_what_has_to_be_asked_as_a_whole(cluster: Cluster, sql: str) -> None:
    assert cluster.services[HOSTS[1]].divide(sql).pieces is None


@pytest.mark.parametrize(
    "sql",
    [
        *WHOLE,
        "SELECT count(*) FROM plays WHERE song = 1 AND song = 2",
        "SELECT count(*) FROM plays JOIN others USING (genre) WHERE others.song IN (NULL)",
    ],
)
def test_a_whole_answer_is_given_at_the_epochs_that_were_told(cluster: Cluster, sql: str) -> None:
    """Those of stores, too, of which no partition is read."""
    service = cluster.services[HOSTS[1]]
    division = service.divide(sql)
    pinned = {
        group: AsOfEpoch(epoch, division.digests.get(group, "")) for group, epoch in division.epochs.items()
    }
    told = Session(read_point=replace(NEWEST, pinned=pinned))
    found = service.execute(sql, session=told, expected_shapes=division.shapes).read_all()
    assert found.num_rows == service.execute(sql).read_all().num_rows
