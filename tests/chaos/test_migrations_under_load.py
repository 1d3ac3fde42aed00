"""Two hosts that are asked without pause while a store is migrated and a name is switched: no query fails,
and none sees two shapes or two stores.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
from adbc_driver_manager.dbapi import Connection, Cursor

from engine.changelog import Changelog, append_table, open_appender
from engine.model.migration import parse_changes
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, StoreName, define_store
from flight_server.client.client import Client
from tests.support.host_processes import host_processes
from tests.support.waiting import wait_until

SONGS, EPOCHS_A_SHAPE, SECONDS_AN_EPOCH = 100, 8, 0.1
SONG = ("song", pa.int64())
PLAYS = define_store("plays", pa.schema([SONG, ("n", pa.int32())]), ["song"], partitions=8)
FIXED = define_store("fixed", pa.schema([SONG, ("seen", pa.bool_())]), ["song"], partitions=3)
BEST = StoreName("best")
MIGRATIONS: tuple[dict[str, list[str]], ...] = (
    {"add": ["tag VARCHAR DEFAULT 't'"]},
    {"widen": ["n=BIGINT"]},
    {"rename": ["n=m"]},
    {"drop": ["tag"]},
    {"add": ["tag INTEGER DEFAULT 7"]},
)
SHAPES = (
    pa.schema([SONG, ("n", pa.int32())]),
    pa.schema([SONG, ("n", pa.int32()), ("tag", pa.string())]),
    pa.schema([SONG, ("n", pa.int64()), ("tag", pa.string())]),
    pa.schema([SONG, ("m", pa.int64()), ("tag", pa.string())]),
    pa.schema([SONG, ("m", pa.int64())]),
    pa.schema([SONG, ("m", pa.int64()), ("tag", pa.int32())]),
)
"""By generation."""
TAGS = (None, "t", "t", "t", None, 7)


def shape_of(table: pa.Table, rows: int) -> int:
    """Which shape a result has; its rows are all there, whole, and of one epoch, as each epoch gives all
    songs a number of its own.
    """
    plain = pa.schema([(each.name, each.type) for each in table.schema])
    shape = SHAPES.index(plain)
    assert table.num_rows == rows
    assert len(set(table.column(1).to_pylist())) == 1
    assert TAGS[shape] is None or set(table.column(2).to_pylist()) == {TAGS[shape]}
    return shape


def prepare(connection: Connection, sql: str) -> Cursor:
    cursor = connection.cursor()
    cursor.adbc_prepare(sql)
    return cursor


@dataclass
class Load:
    """What is asked meanwhile.

    Attributes:
        changelog: What the hosts follow.
        over: Set when nothing more changes.
        seen: What each kind of question saw.
    """

    changelog: Changelog
    over: threading.Event = field(default_factory=threading.Event)
    seen: dict[str, set[int]] = field(default_factory=dict)

    def repeat(self, name: str, ask: Callable[[int], int]) -> None:
        """Ask until it is over, and once more."""
        seen = self.seen.setdefault(name, set())
        for count in itertools.count():
            was_over = self.over.is_set()
            seen.add(ask(count))
            if was_over:
                return

    def whole(self, uri: str) -> None:
        """All rows by a plain call, which says what epoch it read."""
        with Client(uri, timeout_seconds=60) as client:

            def ask(count: int) -> int:
                rows = client.query("SELECT * FROM plays")
                shape = shape_of(rows.read_all(), SONGS)
                commit = self.changelog.read_commit(PLAYS.group, Epoch(rows.metadata["epochs"]["plays"]))
                assert commit is not None
                assert shape == commit.generation
                return shape

            self.repeat("whole", ask)

    def ask_by_key(self, uri: str) -> None:
        """A row by its key, of this host or the other one."""
        with Client(uri, timeout_seconds=60) as client:
            self.repeat(
                "by key",
                lambda count: shape_of(
                    client.query("SELECT * FROM plays WHERE song = ?", [count % SONGS]).read_all(), 1
                ),
            )

    def driver(self, uri: str) -> None:
        """All rows by the ADBC driver, which prepares, is told the columns, and gets the rows in
        a call each.
        """
        with flight_sql.connect(uri, autocommit=True) as connection:

            def ask(count: int) -> int:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT * FROM plays")
                    return shape_of(cursor.fetch_arrow_table(), SONGS)

            self.repeat("driver", ask)

    def prepared_once(self, uri: str) -> None:
        """A statement whose columns stay the same."""
        sql = "SELECT count(*) AS songs FROM plays"
        with flight_sql.connect(uri, autocommit=True) as connection, prepare(connection, sql) as cursor:

            def ask(count: int) -> int:
                cursor.execute(sql)
                assert cursor.fetch_arrow_table().to_pydict() == {"songs": [SONGS]}
                return 0

            self.repeat("prepared once", ask)

    def prepared_whole(self, uri: str) -> None:
        """A statement whose columns would be others: it goes on with those that it had, as long as epochs of
        before the migration are retained.
        """
        sql = "SELECT * FROM plays"
        with flight_sql.connect(uri, autocommit=True) as connection, prepare(connection, sql) as cursor:

            def ask(count: int) -> int:
                cursor.execute(sql)
                return shape_of(cursor.fetch_arrow_table(), SONGS)

            self.repeat("prepared whole", ask)

    def ask_switched(self, uri: str) -> None:
        """A name that means one store and then the other, twice in a statement."""
        with Client(uri, timeout_seconds=60) as client:

            def ask(count: int) -> int:
                table = client.query("SELECT * FROM best AS a JOIN best AS b USING (song)").read_all()
                is_fixed = "seen" in table.schema.names
                assert table.num_rows == (2 if is_fixed else SONGS)
                return -1 if is_fixed else 1

            self.repeat("switched", ask)


def wait_until_read(host: str, epoch: Epoch) -> None:
    """Wait until a host reads an epoch, or a later one."""
    with Client(host, timeout_seconds=60, read_point=ReadPoint(min_epoch=epoch)) as client:
        client.query("SELECT count(*) FROM plays").read_all()


def test_no_query_fails_or_sees_two_shapes(tmp_path: Path) -> None:
    uri = str(tmp_path / "changelog")
    changelog, pause = Changelog.open(uri), threading.Event()
    append_table(changelog, FIXED, pa.table({"song": [1, 2], "seen": [True, False]}))
    appender = open_appender(changelog, [PLAYS])
    numbers = itertools.count()

    def append() -> None:
        epoch = pa.table(
            {"song": pa.array(range(SONGS), pa.int64()), "n": pa.array([next(numbers)] * SONGS, pa.int32())}
        )
        appender.append({"plays": epoch})
        pause.wait(SECONDS_AN_EPOCH)

    append()
    changelog.switch(BEST, PLAYS.name)
    with host_processes(tmp_path, uri, "ab") as hosts, ThreadPoolExecutor(16) as pool:
        load = Load(changelog)
        readers = [
            load.whole,
            load.ask_by_key,
            load.driver,
            load.prepared_once,
            load.prepared_whole,
            load.ask_switched,
        ]
        asking = [pool.submit(reader, uri) for reader in readers for uri in hosts.uris]
        try:
            wait_until(lambda: len(load.seen) == len(readers) and all(load.seen.values()))
            for store, changes in zip(itertools.cycle((FIXED.name, PLAYS.name)), MIGRATIONS, strict=False):
                for _ in range(EPOCHS_A_SHAPE):
                    append()
                changelog.migrate_store(PLAYS.name, parse_changes(**changes))
                changelog.switch(BEST, store)
            for _ in range(EPOCHS_A_SHAPE):
                append()
            for uri in hosts.uris:
                wait_until_read(uri, Epoch(appender.epoch))
        finally:
            load.over.set()
        for each in asking:
            each.result(60)
    newest = len(MIGRATIONS)
    for name in ("whole", "by key", "driver"):
        assert load.seen[name] >= {0, newest}, load.seen
    assert load.seen["prepared whole"] == {0}
    assert load.seen["switched"] == {-1, 1}
