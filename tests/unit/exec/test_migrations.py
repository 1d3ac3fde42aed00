"""Queries of stores that are migrated: each is answered in the shape of the epoch that it reads, and with the
columns that were told of.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.changelog.store_drops import drop_store
from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.errors import DeadlineExceeded, InvalidInput, LivestateError, NotFound, Unavailable
from engine.model.migration import parse_changes
from engine.model.partitioning import partition_of
from engine.model.read_point import AsOfEpoch, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, StoreName, define_store
from engine.model.table_shapes import TableShape
from engine.replica import catch_up
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryOptions, QueryService, Session
from engine.statements.pin import MigratedError, check_shapes
from engine.statements.shapes import Shapes
from tests.support.following import run_follower
from tests.support.local_cluster import Cluster, following_cluster, host_names
from tests.support.prepared import execute_prepared
from tests.support.waiting import wait_until, wait_until_served

OPTIONS = QueryOptions(memory_limit_bytes=200 << 20, threads=1)
PARTITIONS = 8
PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("n", pa.int32())]),
    ["song"],
    partitions=PARTITIONS,
    group="music",
)
TITLES = define_store(
    "titles",
    pa.schema([("song", pa.int64()), ("title", pa.string())]),
    ["song"],
    partitions=PARTITIONS,
    group="music",
)
GROUP = GroupName("music")
SONGS = 40
WAIT_SECONDS = 60.0
HOLDING = FollowerOptions(poll_seconds=3600.0, retention_seconds=3600.0)
"""A host that moves on when it is told to."""


def migrate(changelog: Changelog, store: str = "plays", **changes: list[str]) -> None:
    changelog.migrate_store(StoreName(store), parse_changes(**changes))


def plays(n: int, songs: range = range(SONGS)) -> dict[str, pa.Table]:
    return {
        "plays": pa.table({"song": pa.array(songs, pa.int64()), "n": pa.array([n] * len(songs), pa.int32())})
    }


def rows(
    service: QueryService, sql: str, *values: object, session: Session | None = None
) -> list[dict[str, Any]]:
    parameters = (
        pa.record_batch(
            [pa.array([value]) for value in values], [str(number) for number, _ in enumerate(values, 1)]
        )
        if values
        else None
    )
    with service.execute(sql, parameters, session or Session(timeout_seconds=WAIT_SECONDS)) as result:
        table = result.read_all()
        assert table.schema.names == result.schema.names
        return sorted(table.to_pylist(), key=str)


@dataclass
class Lone:
    """A host that has everything, and who writes."""

    changelog: Changelog
    appender: StoreAppender
    follower: Follower
    service: QueryService

    def append(self, n: int) -> Epoch:
        epoch = self.appender.append(plays(n)).epoch
        assert self.follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        return epoch


@contextmanager
def lone_host(changelog: Changelog, directory: Path, options: FollowerOptions) -> Iterator[Lone]:
    appender = open_appender(changelog, [PLAYS, TITLES])
    with run_follower(changelog, directory, options) as follower:
        service = QueryService(follower, OPTIONS)
        yield Lone(changelog, appender, follower, service)
        service.close()


@pytest.fixture
def lone(changelog: Changelog, tmp_path: Path) -> Iterator[Lone]:
    with lone_host(changelog, tmp_path / "data", FollowerOptions(poll_seconds=0.01)) as host:
        yield host


def test_every_way_to_answer_follows_a_migration(lone: Lone) -> None:
    before = lone.append(1)
    questions = [
        ("SELECT * FROM plays WHERE song = 3", ()),
        ("SELECT * FROM plays WHERE song = ?", (3,)),
        ("SELECT * FROM plays WHERE song IN (3, 3)", ()),
        ("SELECT * FROM plays WHERE song = 3 AND song + 0 = 3", ()),
        ("FROM (FROM plays) WHERE song = 3", ()),
    ]
    for sql, values in questions * 2:
        assert rows(lone.service, sql, *values) == [{"song": 3, "n": 1}], sql
    assert len(rows(lone.service, "FROM plays")) == SONGS
    migrate(lone.changelog, add=["genre VARCHAR DEFAULT 'rock'"], widen=["n=BIGINT"])
    after = lone.append(2)
    for sql, values in questions * 2:
        assert rows(lone.service, sql, *values) == [{"song": 3, "n": 2, "genre": "rock"}], sql
    assert rows(lone.service, "SELECT count(*) AS n, sum(n) AS s FROM plays WHERE genre = 'rock'") == [
        {"n": SONGS, "s": 2 * SONGS}
    ]
    assert rows(lone.service, "SELECT n FROM plays WHERE n > ? AND song = 1", 1) == [{"n": 2}]
    migrate(lone.changelog, drop=["n"], rename=["song=id", "genre=kind"])
    lone.append(3)
    assert (
        rows(lone.service, "FROM plays WHERE id = 3")
        == rows(lone.service, "FROM plays WHERE id = ?", 3)
        == [{"id": 3, "kind": "rock"}]
    )
    with pytest.raises((InvalidInput, NotFound), match="song"):
        rows(lone.service, "SELECT * FROM plays WHERE song = 3")
    assert rows(lone.service, f"SELECT * FROM plays WHERE song = 3 AS OF EPOCH {before}") == [
        {"song": 3, "n": 1}
    ]
    assert (
        rows(lone.service, f"SELECT * FROM plays AS OF EPOCH {after} WHERE n = 2 AND genre = 'rock' LIMIT 1")
        != []
    )
    assert [row["column_name"] for row in rows(lone.service, "DESCRIBE plays")] == ["id", "kind"]
    assert [
        row["column_name"] for row in rows(lone.service, f"DESCRIBE SELECT * FROM plays AS OF EPOCH {before}")
    ] == ["n", "song"]


def test_the_shape_is_that_of_the_epoch(lone: Lone) -> None:
    before = lone.append(1)
    migrate(lone.changelog, rename=["n=times"])
    after = lone.append(2)
    earlier = Session(read_point=ReadPoint(as_of={GROUP: AsOfEpoch(before)}))
    assert rows(lone.service, "SELECT sum(n) AS s FROM plays", session=earlier) == [{"s": SONGS}]
    assert rows(lone.service, "SELECT sum(times) AS s FROM plays") == [{"s": 2 * SONGS}]
    with pytest.raises((InvalidInput, NotFound), match="n"):
        rows(lone.service, f"SELECT sum(n) AS s FROM plays AS OF EPOCH {after}")
    with pytest.raises((InvalidInput, NotFound), match="times"):
        rows(lone.service, "SELECT times + 1 FROM plays", session=earlier)
    assert lone.service.prepare("FROM plays").schema.names == ["song", "times"]
    assert lone.service.prepare("FROM plays", earlier).schema.names == ["song", "n"]
    assert lone.service.prepare(f"FROM plays AS OF EPOCH {before}").schema.names == ["song", "n"]
    with lone.service.execute(f"EXPLAIN FROM plays AS OF EPOCH {before}") as explained:
        assert "  columns: song, n" in explained.read_all().column(0).to_pylist()
    with lone.service.execute(f"EXPLAIN ANALYZE SELECT n FROM plays AS OF EPOCH {before}") as analyzed:
        assert f"rows: {SONGS}" in analyzed.read_all().column(0).to_pylist()


def test_a_store_of_the_group_that_is_not_migrated_stays_what_it_is(lone: Lone) -> None:
    lone.append(1)
    kept, joined = (
        lone.service.prepare("FROM titles"),
        "SELECT count(*) AS n FROM plays LEFT JOIN titles USING (song)",
    )
    migrate(lone.changelog, drop=["n"])
    lone.append(2)
    assert lone.service.prepare("FROM titles") is kept
    assert rows(lone.service, joined) == [{"n": SONGS}]
    migrate(lone.changelog, "titles", add=["year INTEGER"])
    lone.append(3)
    assert rows(lone.service, joined) == [{"n": SONGS}]
    assert rows(lone.service, "SELECT count(year) AS y FROM titles") == [{"y": 0}]


def test_prepared_statements_whose_columns_are_the_same_go_on(lone: Lone) -> None:
    lone.append(1)
    prepared = [
        lone.service.prepare(sql)
        for sql in (
            "SELECT song FROM plays",
            "SELECT sum(song) FROM plays",
            "SELECT song FROM plays WHERE song = 2",
        )
    ]
    before = [execute_prepared(lone.service, each).read_all() for each in prepared]
    migrate(lone.changelog, drop=["n"], add=["x DOUBLE"])
    newest = lone.append(2)
    for each, answer in zip(prepared, before, strict=True):
        with execute_prepared(lone.service, each) as result:
            assert result.metadata.epochs == {GROUP: newest}
            assert result.schema == each.schema
            assert result.read_all().sort_by(each.schema.names[0]) == answer.sort_by(each.schema.names[0])


@pytest.mark.parametrize(
    ("sql", "values"),
    [
        ("FROM plays", []),
        ("SELECT n FROM plays", []),
        ("SELECT n FROM plays WHERE song = 1", []),
        ("SELECT n FROM plays WHERE song = ?", [1]),
        ("SELECT sum(n) AS s FROM plays WHERE song < ?", [5]),
        ("SELECT n + 1 FROM plays", []),
    ],
)
@pytest.mark.parametrize(
    "change",
    [{"widen": ["n=BIGINT"]}, {"rename": ["n=m"]}, {"drop": ["n"]}],
    ids=lambda change: next(iter(change)),
)
def test_a_prepared_statement_never_gets_other_columns(
    changelog: Changelog, tmp_path: Path, sql: str, values: list[int], change: Any
) -> None:
    """It reads the newest epoch before the migration for as long as there is one, and is refused from then
    on.
    """
    given = pa.record_batch([pa.array([value]) for value in values], ["1"]) if values else None
    with lone_host(
        changelog,
        tmp_path / "data",
        FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0, retained_epochs=3),
    ) as lone:
        last = lone.append(1)
        prepared = lone.service.prepare(sql)
        if values:
            rows(lone.service, sql, *values)
        migrate(lone.changelog, **change)
        lone.append(2)
        is_same = sql.startswith("SELECT sum") and "widen" in change
        with execute_prepared(lone.service, prepared, given) as result:
            assert result.schema == prepared.schema
            assert result.metadata.epochs == {GROUP: last + 1 if is_same else last}
            assert result.read_all().num_rows
        if is_same:
            return
        again = lone.service.prepare(sql, expected_shapes=prepared.shapes)
        assert (again.schema, again.shapes) == (prepared.schema, prepared.shapes)
        for n in range(3, 6):
            lone.append(n)
        for ask in (
            lambda: execute_prepared(lone.service, prepared, given),
            lambda: lone.service.prepare(sql, expected_shapes=prepared.shapes),
        ):
            with pytest.raises(InvalidInput) as refused:
                ask()
            assert refused.value.message == (
                "The statement was prepared before store plays was migrated or made anew: prepare it again."
            )


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT n FROM plays WHERE n = ?",
        "SELECT song FROM plays WHERE n >= ? AND song > 2",
        "SELECT song FROM plays WHERE n < ? + 1",
        "SELECT song FROM plays WHERE n BETWEEN 1 AND 3 AND song > ?",
        "SELECT sum(song) AS s FROM plays WHERE n IN (?, 7)",
        "SELECT concat($1, n) AS s FROM plays WHERE n = $1",
    ],
)
def test_values_are_for_the_parameters_of_the_epoch_that_is_read(
    changelog: Changelog, tmp_path: Path, sql: str
) -> None:
    """Another column may have the name by now, whose values are no numbers."""
    given = pa.record_batch([pa.array([1])], ["1"])
    held = FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0, retained_epochs=3)
    with lone_host(changelog, tmp_path / "data", held) as lone:
        before = lone.append(1)
        prepared, expected = lone.service.prepare(sql), rows(lone.service, sql, 1)
        assert expected
        migrate(lone.changelog, drop=["n"], add=["n VARCHAR DEFAULT 'x'"])
        lone.append(2)
        earlier = Session(read_point=ReadPoint(as_of={GROUP: AsOfEpoch(before)}))
        assert rows(lone.service, sql, 1, session=earlier) == expected
        assert rows(lone.service, f"{sql} AS OF EPOCH {before}", 1) == expected
        assert lone.service.prepare(sql, earlier, given=lambda: given).schema == prepared.schema
        with execute_prepared(lone.service, prepared, given) as result:
            assert result.metadata.epochs == {GROUP: before}
            assert sorted(result.read_all().to_pylist(), key=str) == expected
        for session, wrong in ((None, [1]), (None, []), (earlier, ["x"])):
            with pytest.raises(InvalidInput):
                rows(lone.service, sql, *wrong, session=session)
        for n in range(3, 6):
            lone.append(n)
        with pytest.raises(InvalidInput, match="prepare it again"):
            execute_prepared(lone.service, prepared, given)
        with pytest.raises(NotFound, match=f"Epoch {before} "):
            rows(lone.service, sql, 1, session=earlier)


@pytest.mark.parametrize(
    ("column", "change", "condition"),
    [
        ("x FLOAT DEFAULT 16777216", {"widen": ["x=DOUBLE"]}, "x = 16777217"),
        ("x FLOAT DEFAULT 16777216", {"widen": ["x=DOUBLE"]}, "x IN (16777217, 3)"),
        ("x DATE DEFAULT '2026-01-01'", {"drop": ["x"], "add": ["x TIMESTAMP"]}, "x = '2026-01-01 10:00:00'"),
        ("x VARCHAR DEFAULT '01'", {"drop": ["x"], "add": ["x BIGINT"]}, "x = '01'"),
        ("x INTEGER DEFAULT 2", {"widen": ["x=DECIMAL(12, 1)"]}, "x BETWEEN 1.5 AND 2.5"),
    ],
)
def test_literals_mean_at_an_epoch_what_they_meant_then(
    changelog: Changelog, tmp_path: Path, column: str, change: Any, condition: str
) -> None:
    """Values are taken out of texts in the types that columns have now."""
    sql = f"SELECT song, x FROM plays WHERE {condition} AND song < 3"
    held = FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0)
    with lone_host(changelog, tmp_path / "data", held) as lone:
        migrate(lone.changelog, add=[column])
        before = lone.append(1)
        prepared, expected = lone.service.prepare(sql), rows(lone.service, sql)
        assert len(expected) == 3
        migrate(lone.changelog, **change)
        lone.append(2)
        earlier = Session(read_point=ReadPoint(as_of={GROUP: AsOfEpoch(before)}))
        for _ in range(2):
            assert rows(lone.service, sql, session=earlier) == expected
            assert rows(lone.service, f"{sql} AS OF EPOCH {before}") == expected
            with execute_prepared(lone.service, prepared) as result:
                assert result.metadata.epochs == {GROUP: before}
                assert sorted(result.read_all().to_pylist(), key=str) == expected
            rows(lone.service, sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT at FROM plays",
        "SELECT max(at) AS m, count(*) AS c FROM plays GROUP BY at",
        "SELECT song FROM plays WHERE at = 5 AND song < 3",
        "SELECT song, at FROM plays WHERE song = 2",
    ],
)
@pytest.mark.parametrize("change", [{"rename": ["at=moment"]}, {"drop": ["at"]}], ids=min)
def test_a_name_that_is_a_word_of_sql_needs_no_quotation_marks_at_an_earlier_epoch(
    changelog: Changelog, tmp_path: Path, sql: str, change: Any
) -> None:
    """DuckDB wants them, also where no column is called so any more."""
    held = FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0)
    with lone_host(changelog, tmp_path / "data", held) as lone:
        migrate(lone.changelog, add=["at BIGINT DEFAULT 5"])
        before = lone.append(1)
        prepared, expected = lone.service.prepare(sql), rows(lone.service, sql)
        assert expected
        migrate(lone.changelog, **change)
        lone.append(2)
        earlier = Session(read_point=ReadPoint(as_of={GROUP: AsOfEpoch(before)}))
        assert rows(lone.service, sql, session=earlier) == expected
        assert rows(lone.service, f"{sql} AS OF EPOCH {before}") == expected
        with execute_prepared(lone.service, prepared) as result:
            assert result.metadata.epochs == {GROUP: before}
            assert sorted(result.read_all().to_pylist(), key=str) == expected
        with pytest.raises(NotFound, match="at"):
            rows(lone.service, sql)


def test_a_statement_prepared_before_a_switch_goes_on_or_is_refused(lone: Lone) -> None:
    lone.append(1)
    whole, part = lone.service.prepare("FROM plays"), lone.service.prepare("SELECT song FROM plays")
    lone.changelog.switch(PLAYS.name, TITLES.name)
    lone.follower.notify()
    while lone.follower.tables()[PLAYS.name].name != "titles":
        lone.follower.wait_for(GROUP, Epoch(10**9), 0.01)
    with execute_prepared(lone.service, part) as result:
        assert result.read_all().num_rows == 0
    with pytest.raises(
        InvalidInput, match="before the name plays was switched to store titles: prepare it again"
    ):
        execute_prepared(lone.service, whole)
    switched = lone.service.prepare("FROM plays")
    assert switched.shapes is not None
    assert [(shape.name, shape.store, shape.generation) for shape in switched.shapes] == [
        ("plays", "titles", 0)
    ]
    assert execute_prepared(lone.service, switched).read_all().num_rows == 0
    lone.changelog.switch(PLAYS.name, PLAYS.name)
    lone.follower.notify()
    while lone.follower.tables()[PLAYS.name].name != "plays":
        lone.follower.wait_for(GROUP, Epoch(10**9), 0.01)
    with pytest.raises(InvalidInput, match="before the name plays was switched to store plays"):
        execute_prepared(lone.service, switched)
    assert execute_prepared(lone.service, whole).read_all().num_rows == SONGS


# ---- hosts that are not equally far


@dataclass
class Apart:
    """Two hosts, of which `a` has come to a migration, and `b` has not."""

    cluster: Cluster
    changelog: Changelog
    before: Epoch
    after: Epoch

    def service(self, host: str) -> QueryService:
        return self.cluster.services[HostName(host)]

    def move(self, host: str) -> None:
        source = self.cluster.sources[HostName(host)]
        assert isinstance(source, Follower)
        source.notify(GROUP)
        assert source.wait_for(GROUP, self.after, WAIT_SECONDS)

    def songs_of(self, host: str) -> list[int]:
        """Songs whose partition is there."""
        source = self.cluster.sources[HostName(host)]
        _, stores = source.report()
        held = stores[PLAYS.name].partitions
        placed = {
            song: PartitionId(number)
            for song, number in zip(range(SONGS), _partitions(range(SONGS)), strict=True)
        }
        return [song for song, number in placed.items() if number in held]


def _partitions(songs: range) -> list[int]:
    return [int(number) for number in partition_of([pa.array(songs, pa.int64())], PARTITIONS)]


@pytest.fixture
def apart(changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Apart]:
    # A host that hears of the migration by itself moves on.
    monkeypatch.setattr("engine.replica.store_search.SECONDS_BETWEEN_SEARCHES", 3600.0)
    appender = open_appender(changelog, [PLAYS, TITLES])
    before = appender.append(plays(1)).epoch
    with following_cluster(changelog, tmp_path / "hosts", host_names(2), HOLDING, OPTIONS) as cluster:
        for source in cluster.sources.values():
            assert isinstance(source, Follower)
            assert source.wait_for(GROUP, before, WAIT_SECONDS)
        migrate(changelog, add=["genre VARCHAR DEFAULT 'rock'"], rename=["n=m"])
        found = Apart(cluster, changelog, before, appender.append(plays(2)).epoch)
        found.move("a")
        yield found


def test_all_hosts_answer_in_the_shape_of_the_epoch_that_all_have(apart: Apart) -> None:
    for host in "ab":
        assert rows(apart.service(host), "SELECT * FROM plays WHERE song < 2") == [
            {"song": 0, "n": 1},
            {"song": 1, "n": 1},
        ]
        assert rows(apart.service(host), "SELECT sum(n) AS s FROM plays") == [{"s": SONGS}]
        assert apart.service(host).prepare("FROM plays").schema.names == ["song", "n"]
    apart.move("b")
    for host in "ab":
        assert rows(apart.service(host), "SELECT * FROM plays WHERE song < 1") == [
            {"song": 0, "m": 2, "genre": "rock"}
        ]
        assert rows(apart.service(host), "SELECT genre, sum(m) AS s FROM plays GROUP BY genre") == [
            {"genre": "rock", "s": 2 * SONGS}
        ]
        assert apart.service(host).prepare("FROM plays").schema.names == ["song", "m", "genre"]


def test_a_row_by_its_key_is_answered_in_the_shape_of_its_host(apart: Apart) -> None:
    for coordinator in "ab":
        for _ in range(3):
            for host, row in (("a", {"m": 2, "genre": "rock"}), ("b", {"n": 1})):
                song = apart.songs_of(host)[0]
                for sql, values in (
                    (f"SELECT * FROM plays WHERE song = {song}", ()),
                    ("SELECT * FROM plays WHERE song = ?", (song,)),
                ):
                    assert rows(apart.service(coordinator), sql, *values) == [{"song": song, **row}], (
                        coordinator,
                        host,
                    )


def test_what_was_told_of_a_row_by_its_key_is_given(apart: Apart) -> None:
    sql = "SELECT * FROM plays WHERE song = ?"
    for coordinator in "ab":
        prepared = apart.service(coordinator).prepare(sql)
        for host in "ab":
            song = apart.songs_of(host)[0]
            given = pa.record_batch([pa.array([song])], ["1"])
            with execute_prepared(apart.service(coordinator), prepared, given) as result:
                assert result.schema == prepared.schema
                assert result.read_all().to_pylist() == [{"song": song, "n": 1}]


def test_a_column_that_some_hosts_do_not_know_yet_is_waited_for(apart: Apart) -> None:
    sql = "SELECT count(genre) AS n FROM plays"
    with pytest.raises((DeadlineExceeded, Unavailable)):
        rows(apart.service("a"), sql, session=Session(timeout_seconds=0.2))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(rows, apart.service("a"), sql)
        apart.move("b")
        assert waiting.result(WAIT_SECONDS) == [{"n": SONGS}]


def test_a_type_that_some_hosts_do_not_know_yet_is_waited_for(apart: Apart) -> None:
    migrate(apart.changelog, add=["n VARCHAR DEFAULT 'x'"])
    appender = open_appender(apart.changelog, [apart.changelog.definitions()[PLAYS.name]])
    later = replace(apart, after=appender.append({}).epoch)
    later.move("a")
    sql = "SELECT song FROM plays WHERE n LIKE 'x%' AND song < 2"
    with pytest.raises((DeadlineExceeded, Unavailable)):
        rows(apart.service("a"), sql, session=Session(timeout_seconds=0.2))
    later.move("b")
    assert rows(apart.service("a"), sql) == [{"song": 0}, {"song": 1}]


def test_an_epoch_that_is_asked_for_is_not_waited_for(apart: Apart) -> None:
    with pytest.raises((InvalidInput, NotFound), match="genre"):
        rows(apart.service("a"), f"SELECT count(genre) AS n FROM plays AS OF EPOCH {apart.before}")


def test_division_and_endpoints_are_of_one_shape(apart: Apart) -> None:
    for host in "ab":
        division = apart.service(host).divide("SELECT * FROM plays")
        assert division.epochs == {GROUP: apart.before}
        assert division.schema is not None
        assert division.schema.names == ["song", "n"]
        assert division.pieces is not None
        found = []
        for piece in division.pieces:
            assert piece.request.generations == {}
            with apart.service(piece.hosts[0]).execute_fragment(piece.request) as result:
                assert result.schema == division.schema
                found += result.read_all().column("song").to_pylist()
        assert sorted(found) == list(range(SONGS))
    apart.move("b")
    division = apart.service("b").divide("SELECT * FROM plays")
    assert division.schema is not None
    assert division.schema.names == ["song", "m", "genre"]
    assert division.pieces is not None
    assert {tuple(piece.request.generations.items()) for piece in division.pieces} == {((GROUP, 1),)}


def test_endpoints_are_of_the_columns_that_were_told(apart: Apart) -> None:
    prepared = {host: apart.service(host).prepare("SELECT * FROM plays") for host in "ab"}
    for _ in range(2):
        for host, expected_shapes in prepared.items():
            endpoints = apart.service(host).endpoints(
                "SELECT * FROM plays", expected_shapes=expected_shapes.shapes
            )
            assert endpoints is not None
            assert [(dict(each.epochs), dict(each.generations)) for each in endpoints.values()] == [
                ({GROUP: apart.before}, {})
            ] * 2
        apart.move("b")
    endpoints = apart.service("a").endpoints("SELECT * FROM plays")
    assert endpoints is not None
    assert {(each.epochs[GROUP], each.generations[GROUP]) for each in endpoints.values()} == {
        (apart.after, 1)
    }


def test_when_stores_are_what_they_are_taken_to_be(lone: Lone) -> None:
    """Migrations 1 and 4 are of plays, 2 of titles, 3 of a store that the statement does not read."""
    open_appender(lone.changelog, [define_store("others", TITLES.schema, ["song"], group="music")])
    for store, changes in (
        ("plays", ["a INTEGER"]),
        ("titles", ["a INTEGER"]),
        ("others", ["a INTEGER"]),
        ("plays", ["b INTEGER"]),
    ):
        migrate(lone.changelog, store, add=changes)
    lone.appender = open_appender(lone.changelog, [PLAYS, TITLES])
    lone.append(1)
    shapes = Shapes(lone.follower)

    def definitions_at(generation: int) -> dict[StoreName, StoreDefinition]:
        found = lone.follower.definitions_of({GROUP: generation})
        return {name: found[name] for name in (PLAYS.name, TITLES.name)}

    assert [[shapes.fit(definitions_at(one), {GROUP: other}) for other in range(5)] for one in range(5)] == [
        [True, False, False, False, False],
        [False, True, False, False, False],
        [False, False, True, True, False],
        [False, False, True, True, False],
        [False, False, False, False, True],
    ]
    spans = [shapes.generations_of(definitions_at(generation), {GROUP: 4})[GROUP] for generation in range(5)]
    assert spans == [range(1), range(1, 2), range(2, 4), range(2, 4), range(4, sys.maxsize)]


def test_a_store_that_there_is_not_is_not_what_it_was_taken_to_be(lone: Lone) -> None:
    migrate(lone.changelog, "plays", add=["a INTEGER"])
    lone.append(1)
    dropped = replace(lone.follower.definitions()[PLAYS.name], name=StoreName("dropped"))
    assert not Shapes(lone.follower).fit({dropped.name: dropped}, {GROUP: 0})


def test_a_store_is_no_other_one_of_its_name(lone: Lone) -> None:
    """One that was made anew may have other partitions and columns, and the same number of its shape."""
    lone.append(1)
    first, shapes = lone.follower.definitions()[PLAYS.name], Shapes(lone.follower)
    anew = replace(first, since=3)
    assert [shapes.fit({anew.name: anew}, {GROUP: generation}) for generation in (0, 2)] == [False, False]
    assert shapes.generations_of({anew.name: anew}, {GROUP: 2})[GROUP].start == 3
    with lone.follower.pin_views([PLAYS.name]) as views:
        check_shapes(views, {PLAYS.name: first})
        with pytest.raises(MigratedError):
            check_shapes(views, {PLAYS.name: anew})


def test_what_stores_were_before_the_changelog_was_restored_is_forgotten(
    lone: Lone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catch_up, "SECONDS_BETWEEN_DOUBTS", 0.05)
    lone.append(1)
    place, shapes = tmp_path / "changelog", Shapes(lone.follower)
    shutil.copytree(place, tmp_path / "copy")

    def come_to_fit(shape: int, migrated: Sequence[str]) -> None:
        """Two migrations, behind which a host reads plays in a shape, and takes it for that."""
        changelog = Changelog.open(str(place))
        for number, store in enumerate(migrated):
            migrate(changelog, store, add=[f"column_{number} INTEGER"])
        open_appender(changelog, [PLAYS, TITLES]).append(plays(2))

        def fits() -> bool:
            group = lone.follower.report()[0][GROUP]
            definition = lone.follower.definitions()[PLAYS.name]
            is_there = [each.generation for each in group.readable[-1:]] == [2]
            return (
                is_there
                and definition.generation == shape
                and shapes.fit({PLAYS.name: definition}, {GROUP: 2})
            )

        wait_until_served(fits)

    come_to_fit(0, ["titles", "titles"])
    shutil.rmtree(place)
    shutil.copytree(tmp_path / "copy", place)
    come_to_fit(1, ["plays", "titles"])


def test_what_was_told_of_another_changelog_has_to_be_prepared_again(lone: Lone) -> None:
    lone.append(1)
    expected_shapes = (TableShape(PLAYS.name, PLAYS.name, 7, GROUP),)
    for ask in (
        lambda: lone.service.execute("FROM plays", expected_shapes=expected_shapes),
        lambda: lone.service.prepare("FROM plays", expected_shapes=expected_shapes),
    ):
        with pytest.raises(InvalidInput, match=r"store plays was when .* prepare it again"):
            ask()


def test_a_host_refuses_a_fragment_of_another_shape(apart: Apart) -> None:
    number = PartitionId(_partitions(range(1))[0])
    held = next(host for host in "ab" if 0 in apart.songs_of(host))
    apart.move("b")
    request = FragmentRequest('SELECT * FROM "main"."plays"', {GROUP: apart.before}, {PLAYS.name: (number,)})
    assert apart.service(held).execute_fragment(request).schema.names == ["song", "n"]
    wrong = FragmentRequest(request.sql, request.epochs, request.partitions, generations={GROUP: 1})
    with pytest.raises(Unavailable, match="other columns at epoch") as refused:
        apart.service(held).execute_fragment(wrong)
    assert type(refused.value) is Unavailable


def test_statements_without_rows_to_read_keep_their_columns(apart: Apart) -> None:
    for host in "ab":
        assert rows(
            apart.service(host), "SELECT count(*) AS c, max(n) AS m FROM plays WHERE song IS NULL"
        ) == [{"c": 0, "m": None}]
        assert rows(apart.service(host), "SELECT * FROM plays WHERE song = 1 AND song = 2") == []
    with pytest.raises(LivestateError):
        rows(apart.service("b"), "SELECT max(m) AS m FROM plays WHERE song IS NULL")


def test_who_still_knows_a_dropped_store_is_told_of_nothing_lost(lone: Lone) -> None:
    """A statement has the stores of when it began."""
    lone.append(1)
    known = lone.follower._catalog
    drop_store(lone.changelog, PLAYS.name, "ann@ops", 1_789_000_000_000_000)
    lone.follower.notify()
    wait_until(lambda: PLAYS.name not in lone.follower.definitions())
    assert known.definitions.keys() == {PLAYS.name, TITLES.name}
    assert known.definitions_of({GROUP: 1}).keys() == {TITLES.name}


@pytest.mark.parametrize("group", [GROUP, GroupName("elsewhere")])
def test_who_was_told_columns_of_a_dropped_store_gets_none_of_the_next_of_its_name(
    lone: Lone, group: GroupName
) -> None:
    sql = "SELECT * FROM plays"
    lone.append(1)
    told = lone.service.prepare(sql)
    drop_store(lone.changelog, PLAYS.name, "ann@ops", 1_789_000_000_000_000)
    lone.follower.notify()
    wait_until(lambda: PLAYS.name not in lone.follower.definitions())
    schema = pa.schema([("song", pa.int64()), ("title", pa.string())])
    anew = define_store("plays", schema, ["song"], partitions=2, group=group)
    row = {"song": 3, "title": "three"}
    commit = open_appender(lone.changelog, [anew]).append({"plays": pa.Table.from_pylist([row], schema)})
    assert lone.follower.wait_for(group, commit.epoch, WAIT_SECONDS)
    assert rows(lone.service, sql) == [row]
    old_share = {PLAYS.name: (PartitionId(0),)}
    with pytest.raises(Unavailable, match="made anew"):
        lone.service.execute_fragment(FragmentRequest("SELECT n FROM plays", {GROUP: Epoch(1)}, old_share))
    newly_told = lone.service.prepare(sql)
    assert newly_told.shapes != told.shapes
    with lone.service.execute(sql, expected_shapes=newly_told.shapes) as result:
        assert result.read_all().to_pylist() == [row]
    with pytest.raises(LivestateError, match="plays"):
        lone.service.execute(sql, None, Session(timeout_seconds=1.0), expected_shapes=told.shapes)
