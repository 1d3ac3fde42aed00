"""Statements over several hosts in this process: answers, hops, types, texts, and what is said about them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from engine.errors import InvalidInput, NotFound
from engine.model.schema import define_store
from engine.service import QueryOptions, QueryService
from tests.support.local_cluster import FLOWING, SMALL, Cluster, host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view

ROWS = 300
PLAYS = define_store(
    "plays",
    pa.schema(
        [
            ("song_id", pa.int64()),
            ("day", pa.date32()),
            ("genre", pa.string()),
            ("count", pa.int64()),
            ("price", pa.decimal128(10, 2)),
        ]
    ),
    ["song_id", "day"],
    partition_by=["song_id"],
    partitions=8,
)
SONGS = define_store(
    "My Songs", pa.schema([("Song Id", pa.int64()), ("title", pa.string())]), ["Song Id"], partitions=8
)
DAYS = define_store("days", pa.schema([("day", pa.date32()), ("holiday", pa.bool_())]), ["day"], partitions=4)
FIRST_DAY = dt.date(2024, 1, 1)


def _day(number: int) -> dt.date:
    return FIRST_DAY + dt.timedelta(days=number)


LIVE = {
    "plays": pa.table(
        {
            "song_id": [place % 100 for place in range(ROWS)],
            "day": [_day(place // 100) for place in range(ROWS)],
            "genre": [
                None if place % 17 == 0 else ("rock", "pop", "jazz")[place % 3] for place in range(ROWS)
            ],
            "count": [(place * 7919) % 1000 + (1 << 62) * (place % 50 == 0) for place in range(ROWS)],
            "price": pa.array([place * 3 for place in range(ROWS)])
            .cast(pa.decimal128(19, 0))
            .cast(pa.decimal128(21, 2))
            .cast(pa.decimal128(10, 2)),
        }
    ),
    "My Songs": pa.table(
        {"Song Id": list(range(0, 120, 3)), "title": [f"song {place}" for place in range(0, 120, 3)]}
    ),
    "days": pa.table({"day": [_day(place) for place in range(3)], "holiday": [True, False, None]}),
}
DEFINITIONS = [PLAYS, SONGS, DAYS]
HOSTS = host_names(3)
MANY = ", ".join(map(str, range(0, 200, 2)))

STATEMENTS = [
    "SELECT count(*) FROM plays",
    "SELECT count(*) AS n FROM plays",
    "SELECT * FROM plays",
    "SELECT song_id, song_id AS again, genre FROM plays WHERE song_id = 7",
    "SELECT * FROM plays WHERE song_id = 7 AND day = DATE '2024-01-02'",
    "SELECT * FROM plays WHERE song_id IN (1, 2, 3, 4, 500)",
    f"SELECT * FROM plays WHERE song_id IN ({MANY})",
    f"SELECT genre, count(*) FROM plays WHERE song_id IN ({MANY}) GROUP BY ALL",
    "SELECT * FROM plays WHERE false",
    "SELECT count(*), sum(count) FROM plays WHERE song_id IN (1000000)",
    "SELECT count(*), sum(count), max(genre) FROM plays WHERE song_id = 1 AND song_id = 2",
    'SELECT genre, sum(count) AS "Sum", avg(price), min(day) FROM plays GROUP BY genre',
    (
        "SELECT genre, sum(count) + 1, NULL AS nothing FROM plays GROUP BY genre HAVING count(*) > 50 "
        "ORDER BY 2 DESC"
    ),
    "SELECT song_id, count FROM plays ORDER BY count DESC, song_id, day LIMIT 7 OFFSET 2",
    "SELECT DISTINCT genre FROM plays",
    'SELECT title, p.count FROM plays p JOIN "My Songs" s ON p.song_id = s."Song Id"',
    'SELECT p.song_id, title FROM plays p LEFT JOIN "My Songs" s ON p.song_id = s."Song Id"',
    (
        'SELECT holiday, title, sum(count) FROM plays JOIN days USING (day) JOIN "My Songs" ON song_id = '
        '"Song '
        'Id" GROUP BY ALL'
    ),
    (
        "SELECT a.song_id, count(*) FROM plays a, plays b WHERE a.song_id = b.song_id AND a.day < b.day "
        "GROUP BY 1"
    ),
    "SELECT song_id, sum(count) OVER (PARTITION BY song_id ORDER BY day) FROM plays",
    "SELECT song_id, rank() OVER (ORDER BY count) FROM plays QUALIFY rank() OVER (ORDER BY count) < 5",
    (
        "WITH plays AS (SELECT song_id, sum(count) AS n FROM main.plays GROUP BY 1) SELECT title, n FROM "
        "plays "
        'JOIN "My Songs" ON song_id = "Song Id"'
    ),
    'SELECT title FROM "My Songs" WHERE "Song Id" IN (SELECT song_id FROM plays WHERE genre = \'jazz\')',
    'SELECT title FROM "My Songs" s WHERE NOT EXISTS (SELECT 1 FROM plays WHERE song_id = s."Song Id")',
    'SELECT "Song Id" FROM "My Songs" UNION SELECT song_id FROM plays WHERE count < 100',
    "SELECT genre, list(song_id ORDER BY song_id, day), string_agg(genre, ',') FROM plays GROUP BY 1",
    (
        "SELECT median(count), quantile_cont(price, 0.3), round(stddev(song_id), 9), count(DISTINCT genre) "
        "FROM plays"
    ),
    (
        "SELECT x, count(*) FROM (SELECT CAST(song_id % 3 AS HUGEINT) AS x, md5(genre)::VARCHAR AS y FROM "
        "plays) GROUP BY x"
    ),
    (
        "SELECT k, sum(n) FROM (SELECT CAST(genre AS ENUM('jazz', 'pop', 'rock')) AS k, 1 AS n FROM plays) "
        "GROUP BY k ORDER BY k"
    ),
    "PIVOT plays ON genre USING sum(song_id) GROUP BY day",
    "SELECT * FROM (VALUES (1), (2)) AS v(x) JOIN plays ON song_id = x",
    (
        "SELECT b.song_id, x FROM (VALUES (1), (2)) AS v(x) LEFT JOIN plays a ON x = a.song_id RIGHT JOIN "
        "plays b ON a.song_id = b.song_id"
    ),
    "SELECT 1 + 1",
    "SUMMARIZE days",
]


@pytest.fixture(scope="module", params=[SMALL, FLOWING], ids=["tables", "flows"])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with memory_cluster(DEFINITIONS, LIVE, HOSTS, options=request.param) as found:
        yield found


@pytest.fixture(scope="module")
def alone() -> Iterator[QueryService]:
    service = QueryService(
        MemorySource([memory_view(definition, LIVE[definition.name]) for definition in DEFINITIONS]),
        QueryOptions(memory_limit_bytes=512 << 20, threads=1),
    )
    with ExitStack() as resources:
        resources.callback(service.close)
        yield service


def _rows(table: pa.Table, *, ordered: bool) -> list[str]:
    rows = [json.dumps(list(row.values()), default=str) for row in table.to_pylist()]
    return rows if ordered else sorted(rows)


def _read(service: QueryService, sql: str, parameters: pa.RecordBatch | None = None) -> pa.Table:
    with service.execute(sql, parameters) as result:
        return result.read_all()


@pytest.mark.parametrize("sql", STATEMENTS)
@pytest.mark.parametrize("host", HOSTS)
def test_several_hosts_answer_like_one(cluster: Cluster, alone: QueryService, host: str, sql: str) -> None:
    service = next(service for name, service in cluster.services.items() if name == host)
    expected = _read(alone, sql)
    for _ in range(2):
        found = _read(service, sql)
        assert found.schema == expected.schema
        ordered = "ORDER BY 2 DESC" in sql or "LIMIT" in sql
        assert _rows(found, ordered=ordered) == _rows(expected, ordered=ordered)
    if not sql.startswith(("PIVOT", "SUMMARIZE")):
        assert service.prepare(sql).schema == expected.schema


def _owner(cluster: Cluster, song: int) -> str:
    with cluster.services[HOSTS[0]].execute(
        f"SELECT * FROM plays WHERE song_id = {song} AND day = DATE '2024-01-01'"
    ) as result:
        (owner,) = result.metadata.hosts
        return owner


def test_parameters_keep_their_numbers_and_types(cluster: Cluster, alone: QueryService) -> None:
    sql = (
        "SELECT genre, sum(count) % $3 AS s, $4 || genre AS t FROM plays JOIN days USING (day) "
        "WHERE song_id < $2 AND holiday = $1 GROUP BY genre HAVING count(*) > $5 ORDER BY s"
    )
    given = pa.record_batch(
        [pa.array([True]), pa.array([60], pa.int16()), pa.array([1000]), pa.array(["x"]), pa.array([0])],
        list("12345"),
    )
    expected = _read(alone, sql, given)
    for service in cluster.services.values():
        found = _read(service, sql, given)
        assert found.schema == expected.schema
        assert found.to_pylist() == expected.to_pylist()


def test_a_statement_may_have_parameters_of_other_types_than_their_places_suggest(
    cluster: Cluster, alone: QueryService
) -> None:
    sql = "SELECT sum(count % ?) FROM plays"
    for kind in (pa.int8(), pa.float64()):
        given = pa.record_batch([pa.array([7], kind)], ["1"])
        expected = _read(alone, sql, given)
        found = _read(cluster.services[HOSTS[0]], sql, given)
        assert (found.schema, found.to_pylist()) == (expected.schema, expected.to_pylist())


KEYED = define_store("keyed", pa.schema([("id", pa.int64()), ("name", pa.string())]), ["id"], partitions=8)


def test_a_key_is_one_hop_away_or_none() -> None:
    with memory_cluster(
        [KEYED],
        {"keyed": pa.table({"id": list(range(50)), "name": [str(place) for place in range(50)]})},
        HOSTS,
    ) as cluster:
        service = cluster.services[HOSTS[0]]
        hosts = set()
        for key in range(50):
            for sql, parameters in (
                (f"SELECT name FROM keyed WHERE id = {key}", None),
                ("SELECT name FROM keyed WHERE id = ?", pa.record_batch([pa.array([key])], ["1"])),
            ):
                cluster.asked.clear()
                with service.execute(sql, parameters) as result:
                    assert result.read_all().to_pylist() == [{"name": str(key)}]
                (owner,) = result.metadata.hosts
                assert dict(cluster.asked) == ({} if owner == HOSTS[0] else {owner: 1})
                assert (result.metadata.partitions_read, result.metadata.partitions) == (1, 8)
                hosts.add(owner)
        assert hosts == set(HOSTS)


def test_only_owners_of_keys_are_asked(cluster: Cluster) -> None:
    owners = {_owner(cluster, song) for song in (1, 2, 3)}
    cluster.asked.clear()
    with cluster.services[HOSTS[0]].execute("SELECT song_id FROM plays WHERE song_id IN (1, 2, 3)") as result:
        assert result.read_all().num_rows == 9
    assert set(result.metadata.hosts) == owners
    assert set(cluster.asked) == owners - {HOSTS[0]}


def test_a_count_asks_each_host_once(cluster: Cluster) -> None:
    cluster.asked.clear()
    with cluster.services[HOSTS[0]].execute("SELECT count(*) FROM plays") as result:
        assert result.read_all().to_pylist() == [{"count_star()": ROWS}]
    assert dict(cluster.asked) == dict.fromkeys(HOSTS[1:], 1)
    assert result.metadata.fragments == 3


def test_a_short_range_of_the_partition_column_leaves_partitions_out(cluster: Cluster) -> None:
    with cluster.services[HOSTS[0]].execute(
        "SELECT sum(count) FROM plays WHERE song_id BETWEEN 10 AND 11"
    ) as result:
        result.read_all()
    assert result.metadata.partitions_read <= 2
    assert result.metadata.partitions == 8


def test_a_limit_holds_over_all_hosts(cluster: Cluster) -> None:
    for limit in (0, 1, 5, ROWS, 10 * ROWS):
        assert _read(cluster.services[HOSTS[1]], f"SELECT song_id FROM plays LIMIT {limit}").num_rows == min(
            limit, ROWS
        )


def test_errors_have_their_place_in_the_text_of_the_user(cluster: Cluster, alone: QueryService) -> None:
    for sql in (
        "SELECT genre, nothing FROM plays GROUP BY genre",
        "SELECT sum(genre) FROM plays",
        "SELECT plays.cuont FROM plays",
        "SELECT * FROM pleys",
    ):
        expected, found = _error(alone, sql), _error(cluster.services[HOSTS[0]], sql)
        assert type(found) is type(expected)
        assert (found.message, found.position) == (expected.message, expected.position)


def _error(service: QueryService, sql: str) -> InvalidInput | NotFound:
    with pytest.raises((InvalidInput, NotFound)) as raised:
        service.execute(sql)
    assert isinstance(raised.value, InvalidInput | NotFound)
    return raised.value


def test_errors_of_values_are_those_of_one_host(cluster: Cluster, alone: QueryService) -> None:
    sql = "SELECT sum(CAST(genre AS INTEGER)) FROM plays"
    with pytest.raises(InvalidInput):
        _read(alone, sql)
    with pytest.raises(InvalidInput):
        _read(cluster.services[HOSTS[0]], sql)


def test_metadata_says_who_read_what(cluster: Cluster) -> None:
    with cluster.services[HOSTS[2]].execute("SELECT genre, sum(count) FROM plays GROUP BY genre") as result:
        result.read_all()
    document = json.loads(result.metadata.to_json())
    assert document["plan"] == "distributed"
    assert document["hosts"] == list(HOSTS)
    assert document["epochs"] == {"plays": 1}
    assert document["age_seconds"] > 0
    assert (document["partitions_read"], document["partitions"], document["rows_read"]) == (8, 8, ROWS)
    assert document["fragments"] == 3
    assert document["bytes_moved"] > 0
    assert document["rules"]
    steps = document["seconds"]
    assert set(steps) == {"plan", "gather", "merge", "total"}
    assert steps["plan"] + steps["gather"] + steps["merge"] == pytest.approx(steps["total"])


def _plan(service: QueryService, sql: str) -> list[str]:
    return [str(line) for line in _read(service, sql).column("plan").to_pylist()]


def test_explain_is_stable_and_names_fragments_and_hosts(cluster: Cluster) -> None:
    service = cluster.services[HOSTS[0]]
    sql = "SELECT genre, sum(count) FROM plays WHERE song_id < 50 GROUP BY genre"
    lines = _plan(service, f"EXPLAIN {sql}")
    assert lines == _plan(service, f"EXPLAIN {sql}")
    assert lines[0] == "plan: distributed"
    assert any(line.startswith("split: ") for line in lines)
    assert any(line.startswith("fragment: __part_0 ") for line in lines)
    assert any(line.startswith("hosts of __part_0: a (") for line in lines)
    assert not any("epoch" in line for line in lines)


def test_explain_analyze_says_what_came_from_where(cluster: Cluster) -> None:
    lines = _plan(
        cluster.services[HOSTS[0]], "EXPLAIN ANALYZE SELECT genre, sum(count) FROM plays GROUP BY genre"
    )
    assert "epoch: plays 1" in lines
    assert "rows: 4" in lines
    assert sum(line.startswith("read: __part_0 on ") for line in lines) == 3
    assert any(line.startswith("moved between hosts: ") for line in lines)


def test_explain_of_one_key_names_its_host(cluster: Cluster) -> None:
    for song in range(10):
        owner = _owner(cluster, song)
        lines = _plan(cluster.services[HOSTS[0]], f"EXPLAIN SELECT * FROM plays WHERE song_id = {song}")
        assert (
            lines[0] == ("plan: engine" if owner == HOSTS[0] else f"plan: whole statement on host {owner}")
            or owner == HOSTS[0]
        )
        assert "  reads: 1 of 8 partitions" in lines or owner == HOSTS[0]
