"""Frames of stores and queries: the right rows, from the hosts that hold them, at one epoch."""

from __future__ import annotations

import datetime as dt
import math
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import pyspark_livestate
from engine.changelog import Changelog, append_table, open_appender
from engine.errors import Unavailable
from engine.evolution import parse_changes
from engine.follower import FollowerOptions
from engine.partitioning import partition_of
from engine.schema import Epoch, define_store
from flight_server.client import Client
from flight_server.host import Host, HostOptions
from spark_pipeline import LiveStateSource, lease, register
from spark_pipeline.host_calls import ReadPlan, Share
from spark_pipeline.reader import LiveStateReader, StorePartition
from spark_pipeline.reader_options import parse_options
from spark_pipeline.type_mapping import spark_schema
from tests.spark.streams import FileStream, drain
from tests.support.bank import ACCOUNTS, ACCOUNTS_OPEN, GROUP, Bank
from tests.support.host_processes import HostProcesses, host_processes
from tests.support.many_hosts import three_hosts
from tests.support.plays import PARTITIONS, ROWS
from tests.support.started_host import started
from tests.support.typed_rows import FIELDS, NOON, VALUES
from tests.support.waiting import wait_until


@pytest.fixture(autouse=True)
def registered(spark: SparkSession) -> None:
    register(spark)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of three hosts that share the store `plays`."""
    with three_hosts(tmp_path_factory.mktemp("three")) as hosts:
        yield ",".join(host.uri for host in hosts.values())


@contextmanager
def served(directory: Path, follower: FollowerOptions | None = None) -> Iterator[Host]:
    """A host alone, with all that the changelog in a directory has."""
    options = HostOptions(
        str(directory / "changelog"), directory / "data", port=0, follower=follower or FollowerOptions(poll_seconds=0.01), grace_seconds=0.2
    )
    with started(options) as host:
        yield host


def load(spark: SparkSession, uri: str, schema: str | StructType | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("livestate").options(uri=uri, **options)
    return (reader if schema is None else reader.schema(schema)).load()


def values(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_spark_finds_it_by_its_name() -> None:
    assert pyspark_livestate.DefaultSource is LiveStateSource
    assert LiveStateSource.name() == "livestate"


# ---- what is read, and where


def test_a_task_reads_a_partition_of_the_store(spark: SparkSession, three: str) -> None:
    frame = load(spark, three, store="plays")
    assert frame.columns == ["song", "genre", "plays"]
    found: dict[int, list[int]] = {}
    for row in frame.selectExpr("spark_partition_id() AS task", "song").collect():
        found.setdefault(row.task, []).append(row.song)
    assert sorted(song for songs in found.values() for song in songs) == list(range(ROWS))
    placed = {task: set(partition_of([pa.array(songs, pa.int64())], PARTITIONS).tolist()) for task, songs in found.items()}
    assert placed == {task: {task} for task in range(PARTITIONS)}


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, three: str) -> None:
    frame = load(spark, three, "plays bigint, genre bigint", store="plays")
    assert frame.columns == ["plays", "genre"]
    assert values(frame.groupBy("genre").sum("plays")) == [(genre, ROWS // 10 * 2) for genre in range(10)]


@pytest.mark.parametrize(
    ("sql", "tasks", "rows"),
    [
        ("SELECT song + 1 AS next FROM plays WHERE genre = 3 AND song < 100", PARTITIONS, [(song + 1,) for song in range(3, 100, 10)]),
        ("SELECT song, count(*) AS n FROM plays WHERE song BETWEEN 0 AND 2 GROUP BY song", 3, [(0, 1), (1, 1), (2, 1)]),
        ("SELECT a.song FROM plays a JOIN plays b USING (song) WHERE a.song IN (7, 8)", PARTITIONS, [(7,), (8,)]),
        ("SELECT * FROM plays WHERE song = 17 -- a comment", 1, [(17, 7, 2)]),
        ("SELECT * FROM plays WHERE song = 17 AND song = 18;", 1, []),
        ("SELECT * FROM plays WHERE song IN (NULL)", 1, []),
        ("SELECT genre, sum(plays) AS n FROM plays GROUP BY genre", 1, [(genre, Decimal(ROWS // 5)) for genre in range(10)]),
        ("SELECT song FROM plays ORDER BY song DESC LIMIT 2", 1, [(ROWS - 2,), (ROWS - 1,)]),
        ("SELECT count(*) AS n FROM plays", 1, [(ROWS,)]),
        ("SELECT 1 AS one", 1, [(1,)]),
    ],
)
def test_queries(spark: SparkSession, three: str, sql: str, tasks: int, rows: list[tuple[Any, ...]]) -> None:
    frame = load(spark, three, query=sql)
    assert values(frame) == sorted(rows, key=repr)
    assert frame.rdd.getNumPartitions() <= tasks


def test_a_query_with_chosen_columns(spark: SparkSession, three: str) -> None:
    assert values(load(spark, three, "next bigint", query="SELECT song, song + 1 AS next FROM plays WHERE song < 2 -- next")) == [(1,), (2,)]


def test_sql_reads_a_view(spark: SparkSession, three: str) -> None:
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW plays USING livestate OPTIONS (uri '{three}', store 'plays')")
    assert values(spark.sql("SELECT genre, max(song) FROM plays WHERE genre < 2 GROUP BY genre")) == [(0, ROWS - 10), (1, ROWS - 9)]


# ---- types

_TYPED = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("tiny", pa.int8()),
        ("u8", pa.uint8()),
        ("u16", pa.uint16()),
        ("u32", pa.uint32()),
        ("u64", pa.uint64()),
        ("single", pa.float32()),
        ("double", pa.float64()),
        *FIELDS,
        ("sizes", pa.list_(pa.uint16())),
        ("point", pa.struct([("x", pa.uint8()), ("y", pa.string())])),
    ]
)
_ROWS: list[dict[str, Any]] = [
    {
        **VALUES,
        "id": 1,
        "tiny": -5,
        "u8": 255,
        "u16": 65535,
        "u32": 2**32 - 1,
        "u64": 2**64 - 1,
        "single": 0.1,
        "double": 0.1,
        "name": "Ærø's 100% \\ 🎵",
        "sizes": [1, 65535],
        "point": {"x": 200, "y": None},
    },
    {"id": 2},
    {"id": 3, "single": math.nan, "double": math.nan, "name": "", "raw": b"", "flag": False, "amount": Decimal("-0.001"), "tiny": 0},
    {
        "id": 4,
        "single": -0.0,
        "double": -0.0,
        "name": "aé",
        "tiny": 127,
        "u8": 0,
        "u64": 0,
        "day": dt.date(1, 1, 1),
        "moment": NOON.replace(1, 1, 1),
    },
    {"id": 5, "single": math.inf, "double": -math.inf, "name": "b", "day": dt.date(9999, 12, 31), "amount": Decimal("999999999.999")},
    {"id": 6, "single": 16777216.0, "double": 5e-324, "name": "B", "moment": NOON.replace(1969, 12, 31), "u32": 0},
]


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A host alone, with a column of each type."""
    directory = tmp_path_factory.mktemp("typed")
    append_table(
        Changelog.open(str(directory / "changelog")), define_store("typed", _TYPED, ["id"], partitions=3), pa.Table.from_pylist(_ROWS, _TYPED)
    )
    with served(directory) as host:
        yield host.uri


def test_types(spark: SparkSession, typed: str) -> None:
    frame = load(spark, typed, store="typed")
    assert frame.rdd.getNumPartitions() == 3
    assert frame.schema.simpleString() == (
        "struct<id:bigint,tiny:tinyint,u8:smallint,u16:int,u32:bigint,u64:decimal(20,0),single:float,double:double,amount:decimal(12,3),name:string,"
        "raw:binary,flag:boolean,day:date,moment:timestamp_ntz,instant:timestamp,tags:array<string>,"
        "counts:map<string,bigint>,sizes:array<int>,point:struct<x:smallint,y:string>>"
    )
    found = frame.where("id = 1").collect()[0].asDict(recursive=True)
    single = found.pop("single")
    assert single == pytest.approx(0.1)
    # Spark hands instants to Python without their zone, as the clock of this machine shows them.
    assert found.pop("instant") == NOON.replace(tzinfo=dt.UTC).astimezone().replace(tzinfo=None)
    assert found == {name: value for name, value in _ROWS[0].items() if name not in ("single", "instant")} | {
        "counts": {"k": 7},
        "raw": bytearray(b"\x00\xff"),
    }
    empty = frame.where("id = 2").collect()[0].asDict()
    assert empty == {name: 2 if name == "id" else None for name in _TYPED.names}


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT INTERVAL 1 DAY AS wait FROM typed", "Column wait: Spark has no type for "),
        ("SELECT TIME '12:00:00' AS at FROM typed", "Column at: Spark has no type for time64"),
        ("SELECT id, name AS id FROM typed", "Two columns are called id"),
    ],
)
def test_types_that_spark_lacks(spark: SparkSession, typed: str, sql: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, typed, query=sql)


# ---- conditions

_CONDITIONS = [
    "id = 4",
    "id in (1, 3, 99)",
    "id > 2 and id <= 4",
    "not id in (1, 3)",
    "tiny is null",
    "tiny is not null",
    "tiny <=> 0",
    "tiny <=> null",
    "not tiny <=> 0",
    "tiny <> 0",
    "tiny in (0, null)",
    "not tiny in (0, null)",
    "u8 = 255",
    "u8 < 300",
    "u32 = 4294967295",
    "u64 = 18446744073709551615",
    "u64 > 9223372036854775807",
    "single = cast(0.1 as float)",
    "single > cast(1 as float)",
    "single = cast('NaN' as float)",
    "double = 0.0D",
    "double <= 0.0D",
    "double > 0.05D",
    "double = double('NaN')",
    "double < double('NaN')",
    "double = double('-Infinity')",
    "double <> 0.1D",
    "double = 5e-324D",
    "amount = 12345.678",
    "amount > 0",
    "amount < -0.0005BD",
    "amount in (12345.678BD, 999999999.999BD)",
    "amount = 123456789012345678901234567890.5BD",
    "amount > 0.000001BD",
    "amount < 10000000000000000000000000000000000000BD",
    "name = 'b'",
    "name = ''",
    "name < 'a'",
    "name >= 'B'",
    r"name = 'Ærø\'s 100% \\ 🎵'",
    "name like 'Ærø%'",
    "name like '%é'",
    "name like '%ø%'",
    "startswith(name, 'Ærø\\'s 100%')",
    "not startswith(name, 'a')",
    "raw = x'00ff'",
    "flag",
    "not flag",
    "flag = false",
    "day = date'2024-05-17'",
    "day < date'1000-01-01'",
    "day >= date'9999-12-31'",
    "moment = timestamp_ntz'2024-05-17 12:30:15.123456'",
    "moment < timestamp_ntz'1970-01-01 00:00:00'",
    "instant = timestamp'2024-05-17 12:30:15.123456+00:00'",
    "instant > timestamp'2024-05-17 13:30:15.123455+01:00'",
    "point.x = 200",
    "size(tags) = 3",
    "id > 2 and (name = 'b' or double > 1)",
]


_IN_A_QUERY = {
    "tiny <=> 0": "tiny IS NOT DISTINCT FROM 0",
    "tiny <=> null": "tiny IS NOT DISTINCT FROM NULL",
    "not tiny <=> 0": "tiny IS DISTINCT FROM 0",
    "double = 0.0D": "double = 0.0",
    "double <= 0.0D": "double <= 0.0",
    "double > 0.05D": "double > 0.05",
    "double = double('NaN')": "double = CAST('NaN' AS DOUBLE)",
    "double < double('NaN')": "double < CAST('NaN' AS DOUBLE)",
    "double = double('-Infinity')": "double = CAST('-Infinity' AS DOUBLE)",
    "double <> 0.1D": "double <> 0.1",
    "double = 5e-324D": "double = 5e-324",
    "amount < -0.0005BD": "amount < -0.0005",
    "amount in (12345.678BD, 999999999.999BD)": "amount IN (12345.678, 999999999.999)",
    "amount = 123456789012345678901234567890.5BD": "amount = 123456789012345678901234567890.5",
    "amount > 0.000001BD": "amount > 0.000001",
    "amount < 10000000000000000000000000000000000000BD": "CAST(amount AS DOUBLE) < 1e37",
    r"name = 'Ærø\'s 100% \\ 🎵'": r"name = 'Ærø''s 100% \ 🎵'",
    "startswith(name, 'Ærø\\'s 100%')": "starts_with(name, 'Ærø''s 100%')",
    "not startswith(name, 'a')": "NOT starts_with(name, 'a')",
    "raw = x'00ff'": r"raw = '\x00\xFF'::BLOB",
    "moment = timestamp_ntz'2024-05-17 12:30:15.123456'": "moment = TIMESTAMP '2024-05-17 12:30:15.123456'",
    "moment < timestamp_ntz'1970-01-01 00:00:00'": "moment < TIMESTAMP '1970-01-01 00:00:00'",
    "instant = timestamp'2024-05-17 12:30:15.123456+00:00'": "instant = TIMESTAMPTZ '2024-05-17 12:30:15.123456+00:00'",
    "instant > timestamp'2024-05-17 13:30:15.123455+01:00'": "instant > TIMESTAMPTZ '2024-05-17 13:30:15.123455+01:00'",
    "size(tags) = 3": "len(tags) = 3",
}
"""Conditions that hosts write in another way."""


def test_conditions_in_a_query_keep_the_rows_that_spark_keeps(spark: SparkSession, typed: str) -> None:
    assert _IN_A_QUERY.keys() <= set(_CONDITIONS)
    frame = load(spark, typed, store="typed")
    for condition in _CONDITIONS:
        query = f"SELECT id FROM typed WHERE {_IN_A_QUERY.get(condition, condition)}"
        assert values(load(spark, typed, query=query)) == values(frame.where(condition).select("id")), condition


def test_a_frame_is_used_with_several_conditions(spark: SparkSession, three: str) -> None:
    """Spark keeps one plan for all uses of a frame: none may leave rows out that another one needs."""
    frame = load(spark, three, store="plays")
    assert frame.where("genre = 3").count() == ROWS // 10
    assert frame.count() == ROWS
    assert values(frame.where("song = 17").union(frame.where("song = 18")).select("song")) == [(17,), (18,)]
    assert frame.where("song = 17").count() == 1
    assert values(frame.alias("a").join(frame.where("genre = 8").alias("b"), on="song").selectExpr("count(*)", "min(song)")) == [(ROWS // 10, 8)]


def test_a_condition_on_the_key_leaves_partitions_out(spark: SparkSession, three: str) -> None:
    assert load(spark, three, store="plays").where("song = 17").rdd.getNumPartitions() == PARTITIONS
    assert load(spark, three, query="SELECT * FROM plays WHERE song = 17").rdd.getNumPartitions() == 1
    frame = load(spark, three, query="SELECT * FROM plays WHERE song IN (17, 18) AND genre % 2 = 1")
    assert frame.rdd.getNumPartitions() == 2
    assert values(frame) == [(17, 7, 2)]


@pytest.mark.parametrize(
    ("condition", "read"),
    [
        ("id = 4", 1),
        ("id IN (4, 5)", 2),
        ("id > 6", 0),
        ("amount <= -0.001", 1),
        ("day = DATE '0001-01-01'", 1),
        ("moment < TIMESTAMP '0001-01-02 12:30:15.123456'", 1),
        ("name = 'B'", 1),
        ("name IS NOT NULL", 3),
    ],
)
def test_hosts_read_only_what_a_condition_needs(typed: str, condition: str, read: int) -> None:
    """Each of the three partitions has one segment of two rows, or nearly so."""
    with Client(typed) as client:
        metadata = client.query(f"SELECT * FROM typed WHERE {condition}").metadata
    assert metadata["segments_read"] <= read < 3 or read == 3


# ---- epochs


def test_a_frame_is_one_epoch(spark: SparkSession, tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    bank = Bank(changelog)
    done = threading.Event()

    def commit() -> None:
        while not done.is_set():
            bank.step()

    # Epochs are not retained at all: only the readers keep them.
    with served(tmp_path, FollowerOptions(poll_seconds=0.001, retention_seconds=0.0, retained_epochs=1)) as host:
        writer = threading.Thread(target=commit)
        writer.start()
        try:
            for _ in range(3):
                accounts = load(spark, host.uri, store="accounts")
                assert values(accounts.selectExpr("count(*)", "sum(balance)")) == [(ACCOUNTS_OPEN, 0)]
                version = accounts.agg({"version": "max"}).collect()
                both = "SELECT balance FROM accounts UNION ALL SELECT balance FROM negatives"
                assert values(load(spark, host.uri, query=both).selectExpr("count(*)", "sum(balance)")) == [(2 * ACCOUNTS_OPEN, 0)]
                before = bank.epoch
                wait_until(lambda before=before: bank.epoch > before + 3)  # type: ignore[misc] # mypy gives lambdas with defaults no type
                assert accounts.agg({"version": "max"}).collect() == version
                assert load(spark, host.uri, store="accounts").agg({"version": "max"}).collect() > version
        finally:
            done.set()
            writer.join()


def test_a_store_that_is_migrated(spark: SparkSession, tmp_path: Path) -> None:
    """A frame goes on with the columns that it was loaded with, as long as the store has them; a query that gives others now says so."""
    changelog = Changelog.open(str(tmp_path / "changelog"))
    plays = define_store("plays", pa.schema([("song", pa.int64()), ("n", pa.int32())]), ["song"], partitions=2)
    with served(tmp_path) as host:

        def append(epochs: int = 1, **changes: list[str]) -> Epoch:
            if changes:
                changelog.migrate_store(plays.name, parse_changes(**changes))
            appender = open_appender(changelog, [plays])
            epoch = appender.append({"plays": pa.table({"song": [1, 2], "n": pa.array([epochs, epochs], pa.int32())})}).epoch
            assert host.source.wait_for(plays.group, epoch, 60)
            return epoch

        before = append(1)
        store, query = load(spark, host.uri, store="plays"), load(spark, host.uri, query="SELECT * FROM plays")
        assert values(store) == values(query) == [(1, 1), (2, 1)]
        append(2, add=["tag VARCHAR DEFAULT 'x'"])
        assert values(store) == [(1, 2), (2, 2)]
        with pytest.raises(PySparkException, match="gives the columns song, n, tag now, and not song, n: load the frame anew"):
            query.collect()
        assert values(load(spark, host.uri, store="plays")) == [(1, 2, "x"), (2, 2, "x")]
        assert values(load(spark, host.uri, store="plays", epoch=str(before))) == [(1, 1), (2, 1)]
        append(3, widen=["n=BIGINT"])
        with pytest.raises(PySparkException, match="Column n is of type bigint, not int"):
            store.collect()
        append(4, rename=["n=m"])
        with pytest.raises(PySparkException, match="no column n"):
            store.collect()


def test_tasks_that_run_keep_the_epoch_for_those_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.1)
    bank = Bank(Changelog.open(str(tmp_path / "changelog")))
    with served(tmp_path, FollowerOptions(poll_seconds=0.001, retention_seconds=0.0, retained_epochs=1)) as host:

        def readable() -> list[int]:
            return [entry.epoch for entry in host.source.report()[0][GROUP].readable]

        frame_schema = spark_schema(ACCOUNTS.schema)
        reader = LiveStateReader(parse_options({"uri": host.uri, "store": "accounts"}), frame_schema, is_whole=True)
        first, *others = reader.partitions()
        running = reader.read(first)
        balances = sum(next(running)["balance"].to_pylist())
        planned = bank.epoch
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:
            bank.step()
        wait_until(lambda: readable() == [planned, bank.epoch])
        for partition in others[:-1]:
            balances += sum(sum(batch["balance"].to_pylist()) for batch in reader.read(partition))
        assert list(running) == []
        balances += sum(sum(batch["balance"].to_pylist()) for batch in reader.read(others[-1]))
        assert balances == 0
        wait_until(lambda: readable() == [bank.epoch])
        with pytest.raises(Unavailable, match=f"epoch {planned} on this host"):
            list(reader.read(first))


def test_an_epoch_that_is_gone(typed: str) -> None:
    reader = LiveStateReader(parse_options({"uri": typed, "store": "typed"}), StructType(), is_whole=True)
    plan = ReadPlan(pa.schema([]), {"typed": 99}, (Share(b"SELECT 1", (typed,)),))
    with pytest.raises(Unavailable, match=r"epoch 99 on this host; the epochs there are: .* load it anew"):
        list(reader.read(StorePartition(plan, 0)))


def test_which_epoch(spark: SparkSession, tmp_path: Path) -> None:
    definition = define_store("songs", pa.schema([("id", pa.int64()), ("plays", pa.int64())]), ["id"], partitions=2)
    appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [definition])
    with served(tmp_path, FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0)) as host:
        epochs = []
        for plays in (1, 2):
            epochs.append(appender.append({"songs": pa.table({"id": [1], "plays": [plays]})}).epoch)
            wait_until(lambda: host.source.report()[0][definition.group].readable[-1].epoch == epochs[-1])
        assert values(load(spark, host.uri, store="songs")) == [(1, 2)]
        assert values(load(spark, host.uri, store="songs", epoch=str(epochs[0]))) == [(1, 1)]
        assert values(load(spark, host.uri, store="songs", min_epoch=str(epochs[1]))) == [(1, 2)]
        assert values(load(spark, host.uri, store="songs", max_staleness="30")) == [(1, 2)]
        with pytest.raises(PySparkException, match=f"epoch {epochs[1] + 1}"):
            load(spark, host.uri, store="songs", min_epoch=str(epochs[1] + 1), timeout="0.2").count()


# ---- streams


@pytest.fixture
def songs(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[str, FileStream, Any]]:
    """A host, a stream of two batches, and what writes a new epoch of the store `songs`."""
    definition = define_store("songs", pa.schema([("id", pa.int64()), ("title", pa.string())]), ["id"], partitions=2)
    appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [definition])
    stream = FileStream(spark, tmp_path / "in", "id bigint, n bigint")
    for n in range(2):
        stream.add([{"id": 1, "n": n}])
    with served(tmp_path) as host:

        def title(text: str) -> None:
            epoch = appender.append({"songs": pa.table({"id": [1], "title": [text]})}).epoch
            assert host.source.wait_for(definition.group, epoch, 60)

        title("first")
        yield host.uri, stream, title


def test_each_batch_of_a_stream_loads_the_newest_epoch(spark: SparkSession, songs: tuple[str, FileStream, Any], tmp_path: Path) -> None:
    uri, stream, title = songs
    found = []

    def enrich(batch: DataFrame, number: int) -> None:
        found.extend(values(batch.join(load(batch.sparkSession, uri, store="songs"), "id").select("n", "title")))
        title("second")

    drain(stream.frame(), enrich, tmp_path / "checkpoint", "append")
    assert found == [(0, "first"), (1, "second")]


def test_a_static_frame_joined_with_a_stream(spark: SparkSession, songs: tuple[str, FileStream, Any], tmp_path: Path) -> None:
    """Spark plans it anew for each batch, since it has a condition to push: that the key is not null."""
    uri, stream, title = songs
    found = []
    joined = stream.frame().join(load(spark, uri, store="songs"), "id")

    def note(batch: DataFrame, number: int) -> None:
        found.extend(values(batch.select("n", "title")))
        title("second")

    drain(joined, note, tmp_path / "checkpoint", "append")
    assert found == [(0, "first"), (1, "second")]


# ---- hosts that are lost


@pytest.fixture(scope="module")
def processes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostProcesses]:
    directory = tmp_path_factory.mktemp("processes")
    Bank(Changelog.open(str(directory / "changelog")))
    with host_processes(directory, str(directory / "changelog"), replication=2) as hosts:
        yield hosts


def test_another_replica_takes_the_place_of_a_lost_host(spark: SparkSession, processes: HostProcesses) -> None:
    uris = ",".join(processes.uris)
    planned = load(spark, uris, store="accounts")
    assert planned.rdd.getNumPartitions() == 12
    whole = load(spark, uris, query="SELECT count(*) AS n, sum(balance) AS s FROM accounts")
    assert whole.rdd.getNumPartitions() == 1
    processes["a"].kill()
    assert values(planned.selectExpr("count(*)", "sum(balance)")) == [(ACCOUNTS_OPEN, 0)]
    assert values(whole) == [(ACCOUNTS_OPEN, Decimal(0))]
    assert load(spark, uris, store="negatives").count() == ACCOUNTS_OPEN
    processes["b"].kill()
    with pytest.raises(PySparkException, match=r"[Pp]artition"):
        load(spark, uris, store="negatives", timeout="1").count()
    processes["c"].kill()
    with pytest.raises(PySparkException, match=r"The host at .* cannot be reached"):
        load(spark, uris, store="negatives")
    for host in processes:
        host.start()


# ---- what is wrong

_URI = {"uri": "URI"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"Say where a host is: \.option\(\"uri\""),
        ({"uri": " , "}, "Say where a host is"),
        (_URI, "Say what to read"),
        (_URI | {"store": "typed", "query": "SELECT 1"}, "Say what to read"),
        (_URI | {"store": "typed", "stroe": "x"}, "There is no option 'stroe'; there are uri, store"),
        (_URI | {"store": "nothing"}, "There is no store nothing"),
        (_URI | {"query": "SELECT * FRM typed"}, "Syntax error at 'typed'"),
        (_URI | {"query": "DROP TABLE typed"}, "read-only|only reads|read"),
        (_URI | {"query": "SELECT nope FROM typed"}, "There is no column nope"),
        (_URI | {"store": "typed", "epoch": "-1"}, "The option epoch must be an epoch number"),
        (_URI | {"store": "typed", "epoch": "1", "min_epoch": "1"}, "leave min_epoch and max_staleness out"),
        (_URI | {"store": "typed", "min_epoch": "x"}, "The option min_epoch must be an epoch number"),
        (_URI | {"store": "typed", "max_staleness": "inf"}, "The option max_staleness must be a number of seconds"),
        (_URI | {"store": "typed", "timeout": "0"}, "The option timeout must be a number of seconds above 0"),
        (_URI | {"store": "typed", "pushdown": "true"}, r"There is no option pushdown: Spark keeps one plan .* write conditions into .*\"query\""),
        (_URI | {"store": "typed", "tls_roots": "/nowhere/roots.pem"}, "The option tls_roots must be a file"),
        ({"uri": "grpc://127.0.0.1:1", "store": "typed"}, "The host at grpc://127.0.0.1:1 cannot be reached"),
        ({"uri": "nonsense", "store": "typed"}, "'nonsense' is not the address of a host"),
    ],
)
def test_mistakes(spark: SparkSession, typed: str, options: dict[str, str], message: str) -> None:
    given = {name: typed if value == "URI" else value for name, value in options.items()}
    with pytest.raises(PySparkException, match=message) as refusal:
        spark.read.format("livestate").options(**given).load()
    assert "Traceback" not in str(refusal.value)


@pytest.mark.parametrize(("schema", "message"), [("id int", "Column id is of type bigint, not int"), ("idd bigint", "There is no column idd")])
def test_schemas_that_do_not_fit(spark: SparkSession, typed: str, schema: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message) as refusal:
        load(spark, typed, schema, store="typed").count()
    assert "Traceback" not in str(refusal.value)


def test_an_error_in_a_task_shows_its_sentence_and_no_lines_of_livestate(spark: SparkSession, typed: str) -> None:
    frame = load(spark, typed, query="SELECT CASE WHEN id = 2 THEN error('two is too many') ELSE id END AS id FROM typed")
    with pytest.raises(PySparkException, match="two is too many") as refusal:
        frame.collect()
    assert "reader.py" not in str(refusal.value)


def test_other_python_code_keeps_its_traceback(spark: SparkSession, typed: str) -> None:
    def fails(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if batch.num_rows:
                raise ValueError("not livestate")
            yield batch

    with pytest.raises(PySparkException):
        load(spark, typed, query="SELECT error('refused') AS id FROM typed").collect()
    with pytest.raises(PySparkException, match=r"Traceback[\s\S]*not livestate"):
        load(spark, typed, query="SELECT id FROM typed").mapInArrow(fails, "id BIGINT").collect()


def test_a_token(spark: SparkSession, tmp_path: Path) -> None:
    songs = pa.table({"id": [1]})
    append_table(Changelog.open(str(tmp_path / "changelog")), define_store("songs", songs.schema, ["id"], partitions=2), songs)
    with started(HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, token="secret", grace_seconds=0.2)) as host:
        assert values(load(spark, host.uri, store="songs", token="secret")) == [(1,)]
        for wrong in ({}, {"token": "guessed"}):
            with pytest.raises(PySparkException, match="This host wants a token"):
                load(spark, host.uri, store="songs", **wrong)
