"""Frames of stores and queries: the right rows, from the hosts that hold them, at one epoch."""

from __future__ import annotations

import threading
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import ExitStack, closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

import pyspark_livestate
from engine.changelog import Changelog, append_table, open_appender
from engine.errors import LivestateError, Unavailable
from engine.model.migration import parse_changes
from engine.model.partitioning import partition_of
from engine.model.schema import Epoch, define_store
from engine.replica.catch_up import CatchUpState
from engine.replica.follower_options import FollowerOptions
from engine.replica.group_reporter import GroupReporter
from flight_server.client.connection import Connection
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import HostOptions
from spark_pipeline import LiveStateSource, host_calls, lease, register
from spark_pipeline.host_calls import ReaderConnection, ReadPlan, Share
from spark_pipeline.reader import LiveStateReader, StorePartition
from spark_pipeline.reader_options import ReaderOptions, parse_options
from spark_pipeline.type_mapping import spark_schema
from tests.spark.frames import load, serve_directory, values
from tests.spark.streams import FileStream, drain
from tests.support.bank import ACCOUNTS, ACCOUNTS_OPEN, GROUP, Bank
from tests.support.host_processes import HostProcesses, host_processes
from tests.support.plays import PARTITIONS, ROWS
from tests.support.started_host import start_host
from tests.support.waiting import PATIENCE_SECONDS, wait_until


@pytest.fixture(autouse=True)
def register_source(spark: SparkSession) -> None:
    register(spark)


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
    placed = {
        task: set(partition_of([pa.array(songs, pa.int64())], PARTITIONS).tolist())
        for task, songs in found.items()
    }
    assert placed == {task: {task} for task in range(PARTITIONS)}


def test_only_the_columns_of_a_given_schema_are_read(spark: SparkSession, three: str) -> None:
    frame = load(spark, three, "plays bigint, genre bigint", store="plays")
    assert frame.columns == ["plays", "genre"]
    assert values(frame.groupBy("genre").sum("plays")) == [(genre, ROWS // 10 * 2) for genre in range(10)]


@pytest.mark.parametrize(
    ("sql", "tasks", "rows"),
    [
        (
            "SELECT song + 1 AS next FROM plays WHERE genre = 3 AND song < 100",
            PARTITIONS,
            [(song + 1,) for song in range(3, 100, 10)],
        ),
        (
            "SELECT song, count(*) AS n FROM plays WHERE song BETWEEN 0 AND 2 GROUP BY song",
            3,
            [(0, 1), (1, 1), (2, 1)],
        ),
        (
            "SELECT a.song FROM plays a JOIN plays b USING (song) WHERE a.song IN (7, 8)",
            PARTITIONS,
            [(7,), (8,)],
        ),
        ("SELECT * FROM plays WHERE song = 17 -- a comment", 1, [(17, 7, 2)]),
        ("SELECT * FROM plays WHERE song = 17 AND song = 18;", 1, []),
        ("SELECT * FROM plays WHERE song IN (NULL)", 1, []),
        (
            "SELECT genre, sum(plays) AS n FROM plays GROUP BY genre",
            1,
            [(genre, Decimal(ROWS // 5)) for genre in range(10)],
        ),
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
    assert values(
        load(
            spark,
            three,
            "next bigint",
            query="SELECT song, song + 1 AS next FROM plays WHERE song < 2 -- next",
        )
    ) == [(1,), (2,)]


@pytest.mark.parametrize(
    "query",
    [
        "SELECT genre, song FROM plays WHERE song < 2 AS OF EPOCH 2",
        "SELECT genre, song AS SONG FROM plays WHERE song < 2; -- the end",
    ],
)
def test_a_query_with_chosen_columns_is_what_it_is_without(
    spark: SparkSession, three: str, query: str
) -> None:
    assert values(load(spark, three, query=query).select("song")) == [(0,), (1,)]
    assert values(load(spark, three, "song bigint", query=query)) == [(0,), (1,)]


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT song FROM plays) AS q, (SELECT 1", "Syntax error"),
        ("SELECT genre FROM plays", "must give the column song once; it gives genre"),
        ("SELECT song, song FROM plays", "must give the column song once; it gives song, song"),
    ],
)
def test_a_query_without_the_chosen_columns_is_refused(
    spark: SparkSession, three: str, query: str, message: str
) -> None:
    with pytest.raises(PySparkException, match=message):
        load(spark, three, "song bigint", query=query).count()


def test_sql_reads_a_view(spark: SparkSession, three: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW plays USING livestate OPTIONS (uri '{three}', store 'plays')"
    )
    assert values(spark.sql("SELECT genre, max(song) FROM plays WHERE genre < 2 GROUP BY genre")) == [
        (0, ROWS - 10),
        (1, ROWS - 9),
    ]


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_a_frame_is_not_written_with_the_reader(spark: SparkSession, three: str, mode: str) -> None:
    writer = spark.range(1).write.format("livestate").options(uri=three, store="plays").mode(mode)
    with pytest.raises(
        PySparkException, match=r"only reads: write a frame with spark_pipeline\.write"
    ) as caught:
        writer.save()
    assert "Traceback" not in str(caught.value)


def test_a_stream_is_not_written_with_the_reader(spark: SparkSession, three: str, tmp_path: Path) -> None:
    stream = FileStream(spark, tmp_path / "songs", "song BIGINT")
    stream.add([{"song": 1}])
    writer = stream.frame().writeStream.format("livestate").options(uri=three, store="plays")
    query = writer.option("checkpointLocation", str(tmp_path / "checkpoint")).start()
    with pytest.raises(PySparkException, match=r"a stream with foreachBatch\(LiveStateSink"):
        query.processAllAvailable()


# ---- epochs


def has_passed(bank: Bank, epoch: int) -> bool:
    return bank.epoch > epoch


def test_a_frame_is_one_epoch(spark: SparkSession, tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    bank = Bank(changelog)
    done = threading.Event()

    def commit() -> None:
        # Far more often than Spark asks, and Spark gets its turns.
        while not done.wait(0.05):
            bank.step()

    # Epochs are not retained at all: only the readers keep them.
    with serve_directory(
        tmp_path, FollowerOptions(poll_seconds=0.001, retention_seconds=0.0, retained_epochs=1)
    ) as host:
        writer = threading.Thread(target=commit)
        writer.start()
        try:
            for _ in range(3):
                accounts = load(spark, host.uri, store="accounts")
                assert values(accounts.selectExpr("count(*)", "sum(balance)")) == [(ACCOUNTS_OPEN, 0)]
                version = accounts.agg({"version": "max"}).collect()
                both = "SELECT balance FROM accounts UNION ALL SELECT balance FROM negatives"
                assert values(load(spark, host.uri, query=both).selectExpr("count(*)", "sum(balance)")) == [
                    (2 * ACCOUNTS_OPEN, 0)
                ]
                before = bank.epoch
                wait_until(partial(has_passed, bank, before + 3))
                assert accounts.agg({"version": "max"}).collect() == version
                assert load(spark, host.uri, store="accounts").agg({"version": "max"}).collect() > version
        finally:
            done.set()
            writer.join()


def test_a_store_that_is_migrated(spark: SparkSession, tmp_path: Path) -> None:
    """A frame with conditions is planned anew for each use: it keeps its columns while the store has them,
    and a query that gives others says so.
    """
    changelog = Changelog.open(str(tmp_path / "changelog"))
    plays = define_store(
        "plays", pa.schema([("song", pa.int64()), ("n", pa.int32())]), ["song"], partitions=2
    )
    changelog.create_store(plays)
    with serve_directory(tmp_path) as host:

        def append(epochs: int = 1, **changes: list[str]) -> Epoch:
            if changes:
                changelog.migrate_store(plays.name, parse_changes(**changes))
            appender = open_appender(changelog, [plays])
            epoch = appender.append(
                {"plays": pa.table({"song": [1, 2], "n": pa.array([epochs, epochs], pa.int32())})}
            ).epoch
            assert host.source.wait_for(plays.group, epoch, 60)
            return epoch

        before = append(1)
        whole, query = (
            load(spark, host.uri, store="plays"),
            load(spark, host.uri, query="SELECT * FROM plays"),
        )

        def values_used(frame: DataFrame) -> list[tuple[Any, ...]]:
            return values(frame.where("song > 0"))

        assert values_used(whole) == values_used(query) == [(1, 1), (2, 1)]
        append(2, add=["tag VARCHAR DEFAULT 'x'"])
        assert values_used(whole) == [(1, 2), (2, 2)]
        with pytest.raises(
            PySparkException, match="gives the columns song, n, tag now, and not song, n: load the frame anew"
        ):
            values_used(query)
        assert values(load(spark, host.uri, store="plays")) == [(1, 2, "x"), (2, 2, "x")]
        assert values(load(spark, host.uri, store="plays", epoch=str(before))) == [(1, 1), (2, 1)]
        append(3, widen=["n=BIGINT"])
        with pytest.raises(PySparkException, match="Column n is of type bigint, not int"):
            values_used(whole)
        append(4, rename=["n=m"])
        with pytest.raises(PySparkException, match="no column n"):
            values_used(whole)


def test_tasks_that_run_keep_the_epoch_for_those_that_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 0.5)
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.1)
    bank = Bank(Changelog.open(str(tmp_path / "changelog")))
    with serve_directory(
        tmp_path, FollowerOptions(poll_seconds=0.001, retention_seconds=0.0, retained_epochs=1)
    ) as host:

        def readable() -> list[int]:
            return [entry.epoch for entry in host.source.report()[0][GROUP].readable]

        frame_schema = spark_schema(ACCOUNTS.schema)
        reader = LiveStateReader(
            parse_options({"uri": host.uri, "store": "accounts"}), frame_schema, is_whole=True
        )
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


def test_a_read_is_planned_anew_until_hosts_have_reported_what_they_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A host shows an epoch a moment before it reports it, and can have let go of the one before by then."""
    bank = Bank(Changelog.open(str(tmp_path / "changelog")))
    first_epoch = bank.epoch
    refusals: list[LivestateError | None] = []
    shown, may_report = threading.Event(), threading.Event()
    report, take_lease = GroupReporter.report, lease.take_lease

    def report_late(reporter: GroupReporter, state: CatchUpState) -> None:
        if bank.epoch > first_epoch:
            shown.set()
            assert may_report.wait(PATIENCE_SECONDS)
        report(reporter, state)

    def take_lease_and_note(plan: ReadPlan, options: ReaderOptions) -> tuple[ReadPlan, LivestateError | None]:
        leased = take_lease(plan, options)
        refusals.append(leased[1])
        if len(refusals) == 3:
            may_report.set()
        return leased

    monkeypatch.setattr(GroupReporter, "report", report_late)
    monkeypatch.setattr(lease, "take_lease", take_lease_and_note)
    with serve_directory(
        tmp_path, FollowerOptions(poll_seconds=0.001, retention_seconds=0.0, retained_epochs=1)
    ) as host:
        reader = LiveStateReader(
            parse_options({"uri": host.uri, "store": "accounts"}),
            spark_schema(ACCOUNTS.schema),
            is_whole=True,
        )
        bank.step()
        assert shown.wait(PATIENCE_SECONDS)
        first, *_ = reader.partitions()
    assert isinstance(first, StorePartition)
    assert first.plan.epochs == {GROUP: bank.epoch}
    *refused, accepted = refusals
    assert len(refused) >= 3
    assert all(isinstance(refusal, Unavailable) for refusal in refused)
    assert accepted is None


def test_an_epoch_that_is_gone(typed: str) -> None:
    reader = LiveStateReader(parse_options({"uri": typed, "store": "typed"}), StructType(), is_whole=True)
    plan = ReadPlan(pa.schema([]), {"typed": 99}, (Share(b"SELECT 1", (typed,)),))
    with pytest.raises(Unavailable, match=r"epoch 99 on this host; the epochs there are: .* load it anew"):
        list(reader.read(StorePartition(plan, 0)))


def test_which_epoch(spark: SparkSession, tmp_path: Path) -> None:
    definition = define_store(
        "songs", pa.schema([("id", pa.int64()), ("plays", pa.int64())]), ["id"], partitions=2
    )
    appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [definition])
    with serve_directory(tmp_path, FollowerOptions(poll_seconds=0.01, retention_seconds=3600.0)) as host:
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
    definition = define_store(
        "songs", pa.schema([("id", pa.int64()), ("title", pa.string())]), ["id"], partitions=2
    )
    appender = open_appender(Changelog.open(str(tmp_path / "changelog")), [definition])
    stream = FileStream(spark, tmp_path / "in", "id bigint, n bigint")
    for n in range(2):
        stream.add([{"id": 1, "n": n}])
    with serve_directory(tmp_path) as host:

        def title(text: str) -> None:
            epoch = appender.append({"songs": pa.table({"id": [1], "title": [text]})}).epoch
            assert host.source.wait_for(definition.group, epoch, 60)

        title("first")
        yield host.uri, stream, title


def test_each_batch_of_a_stream_loads_the_newest_epoch(
    spark: SparkSession, songs: tuple[str, FileStream, Any], tmp_path: Path
) -> None:
    uri, stream, title = songs
    found = []

    def enrich(batch: DataFrame, number: int) -> None:
        found.extend(
            values(batch.join(load(batch.sparkSession, uri, store="songs"), "id").select("n", "title"))
        )
        title("second")

    drain(stream.frame(), enrich, tmp_path / "checkpoint", "append")
    assert found == [(0, "first"), (1, "second")]


def test_a_static_frame_joined_with_a_stream(
    spark: SparkSession, songs: tuple[str, FileStream, Any], tmp_path: Path
) -> None:
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


def test_a_host_that_drains_is_passed_over(spark: SparkSession, processes: HostProcesses) -> None:
    uris = ",".join(processes.uris)
    planned = load(spark, uris, store="accounts")
    with closing(Connection(ConnectionOptions.read(processes["a"].uri))) as first:
        first.act("livestate.drain", b'{"do": "begin"}')
        try:
            assert planned.count() == ACCOUNTS_OPEN
            assert load(spark, uris, store="negatives").count() == ACCOUNTS_OPEN
            with pytest.raises(PySparkException, match="takes no new statements: ask another host"):
                load(spark, processes["a"].uri, store="negatives")
        finally:
            first.act("livestate.drain", b'{"do": "end"}')


def test_another_replica_takes_the_place_of_a_frozen_host(
    processes: HostProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections stay open: without a look, the rows were waited for until their time was over."""
    monkeypatch.setattr(lease, "RENEWAL_SECONDS", 0.1)
    monkeypatch.setattr(host_calls, "CALL_SECONDS", 1.0)
    by_uri = {host.uri: host for host in processes}
    reader = LiveStateReader(
        parse_options({"uri": ",".join(by_uri), "store": "accounts"}),
        spark_schema(ACCOUNTS.schema),
        is_whole=True,
    )
    first, *_ = reader.partitions()
    assert isinstance(first, StorePartition)
    expected = pa.Table.from_batches(reader.read(first))
    lost, *others = first.plan.shares[0].uris
    assert others
    rows = ReaderConnection.rows
    ended: list[str] = []

    def freeze_and_read(connection: ReaderConnection, ticket: bytes) -> Generator[pa.RecordBatch, None, None]:
        if connection.uri == lost:
            frozen.enter_context(by_uri[lost].freeze())
        try:
            yield from rows(connection, ticket)
        finally:
            ended.append(connection.uri)

    monkeypatch.setattr(ReaderConnection, "rows", freeze_and_read)
    with ExitStack() as frozen:
        assert pa.Table.from_batches(reader.read(first)) == expected
        assert lost not in ended
    processes.wait_until_whole()


def test_another_replica_takes_the_place_of_a_lost_host(
    spark: SparkSession, processes: HostProcesses
) -> None:
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
        (
            _URI | {"store": "typed", "max_staleness": "inf"},
            "The option max_staleness must be a number of seconds",
        ),
        (_URI | {"store": "typed", "allow_stale": "yes"}, "The option allow_stale must be true or false"),
        (_URI | {"store": "typed", "timeout": "0"}, "The option timeout must be a number of seconds above 0"),
        (
            _URI | {"store": "typed", "pushdown": "true"},
            r"There is no option pushdown: Spark keeps one plan .* write conditions into .*\"query\"",
        ),
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


@pytest.mark.parametrize(
    ("schema", "message"),
    [("id int", "Column id is of type bigint, not int"), ("idd bigint", "There is no column idd")],
)
def test_schemas_that_do_not_fit(spark: SparkSession, typed: str, schema: str, message: str) -> None:
    with pytest.raises(PySparkException, match=message) as refusal:
        load(spark, typed, schema, store="typed").count()
    assert "Traceback" not in str(refusal.value)


def test_an_error_in_a_task_shows_its_sentence_and_no_lines_of_livestate(
    spark: SparkSession, typed: str
) -> None:
    frame = load(
        spark,
        typed,
        query="SELECT CASE WHEN id = 2 THEN error('two is too many') ELSE id END AS id FROM typed",
    )
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
    append_table(
        Changelog.open(str(tmp_path / "changelog")),
        define_store("songs", songs.schema, ["id"], partitions=2),
        songs,
    )
    with start_host(
        HostOptions(str(tmp_path / "changelog"), tmp_path / "data", port=0, token="secret", grace_seconds=0.2)
    ) as host:
        assert values(load(spark, host.uri, store="songs", token="secret")) == [(1,)]
        for wrong in ({}, {"token": "guessed"}):
            with pytest.raises(PySparkException, match=r"wants a token|does not know the bearer token"):
                load(spark, host.uri, store="songs", **wrong)
