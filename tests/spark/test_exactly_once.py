"""Exactly once, whatever dies and whoever starts again."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import TaskContext, inheritable_thread_target
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog, Commit, CommittedBatch, partition_rows
from engine.errors import Cancelled, InvalidInput, LivestateError, Unavailable
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName, define_store
from spark_pipeline import LiveStateSink, write_store
from spark_pipeline.sink import check_repeat
from spark_pipeline.transfer import BatchRows, Destination, Target, stage_from_executors
from tests.spark.killed_driver import STEPS, count_plays
from tests.spark.streams import PATHS, FileStream, commits, contents, drain, sort_by_key, start
from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[2]


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> FileStream:
    stream = FileStream(spark, tmp_path / "numbers", "number BIGINT, text STRING")
    for batch in range(3):
        stream.add([{"number": i, "text": f"{batch}-{i}"} for i in range(batch, batch + 5)])
    return stream


@pytest.mark.timeout(900)  # it starts Spark three times, one after the other
def test_a_killed_driver_loses_and_repeats_nothing(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    """Each driver process dies by kill -9 in the batch that the one before died in, one step further; the
    last one finishes.
    """
    stream = FileStream(spark, tmp_path / "plays", "id BIGINT, song STRING")
    for batch in range(4):
        stream.add([{"id": 10 * batch + i, "song": f"s{(batch + i) % 4}"} for i in range(10)])
    directory, checkpoint = tmp_path / "plays", tmp_path / "checkpoint"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    epochs = []
    for step in STEPS:
        command = [
            sys.executable,
            "-W",
            "ignore",
            "-m",
            "tests.spark.killed_driver",
            step,
            str(directory),
            uri,
            str(checkpoint),
        ]
        # Into a file: a pipe would be open until the process's JVM has noticed its death as well.
        with (tmp_path / "output").open("w") as output:
            ended = subprocess.run(
                command, env=environment, cwd=_ROOT, timeout=240, stdout=output, stderr=output, check=False
            )
        assert ended.returncode == -signal.SIGKILL, (tmp_path / "output").read_text()[-2000:]
        epochs.append(len(commits(uri, "plays")))
    assert epochs == [1, 1, 2], "the steps are not where they should be"

    drain(count_plays(stream.frame()), LiveStateSink(changelog=uri, store="plays", key=["song"]), checkpoint)
    counts = Counter(row["song"] for batch in stream.added for row in batch)
    assert contents(uri, "plays") == sort_by_key(
        [{"song": song, "count": count} for song, count in counts.items()], "song"
    )
    assert [commit.batch_id for commit in commits(uri, "plays")] == [0, 1, 2, 3]
    assert len({commit.query_id for commit in commits(uri, "plays")}) == 1
    # Data files without a commit went when the next writer opened its term.
    named = {file.name for commit in commits(uri, "plays") for file in commit.files}
    assert {file.name for file in (tmp_path / "changelog").rglob("*.arrow")} == {
        name for name in named if name
    }


@pytest.mark.parametrize("path", PATHS)
def test_a_repeated_batch_changes_nothing(numbers: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    drain(
        numbers.frame(),
        LiveStateSink(changelog=uri, store="numbers", key=["number"], path=path),
        tmp_path / "checkpoint",
        "append",
    )
    before = contents(uri, "numbers")
    # What a crash after the sink's commit and before Spark's leaves: the batch is planned and not done.
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    numbers.add([{"number": 3, "text": "new"}])
    other = numbers.frame().withColumn("text", F.upper("text"))
    drain(
        other,
        LiveStateSink(changelog=uri, store="numbers", key=["number"], path=path),
        tmp_path / "checkpoint",
        "append",
    )
    assert contents(uri, "numbers") == {**before, (3,): {"number": 3, "text": "NEW"}}
    assert [commit.batch_id for commit in commits(uri, "numbers")] == [0, 1, 2, 3]


def test_a_job_may_name_job_groups_of_its_own(numbers: FileStream, uri: str, tmp_path: Path) -> None:
    """Spark names that of a run by the run's id. A job that names it otherwise has runs all the same."""
    checkpoint = tmp_path / "checkpoint"

    def write() -> None:
        sink = LiveStateSink(changelog=uri, store="numbers", key=["number"])

        def write_batch(batch: DataFrame, number: int) -> None:
            batch.sparkSession.sparkContext.setJobGroup("nightly", "numbers")
            sink(batch, number)

        drain(numbers.frame(), write_batch, checkpoint, "append")

    write()
    (checkpoint / "commits" / "2").unlink()
    (checkpoint / "commits" / ".2.crc").unlink(missing_ok=True)
    write()
    assert [commit.batch_id for commit in commits(uri, "numbers")] == [0, 1, 2]


def test_a_batch_is_repeated_though_the_clock_was_set_back_before_its_commit(
    numbers: FileStream, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write() -> None:
        sink = LiveStateSink(changelog=uri, store="numbers", key=["number"])
        drain(numbers.frame(), sink, tmp_path / "checkpoint", "append")

    monkeypatch.setattr("engine.changelog.writer._wall_clock", lambda: time.time_ns() // 1000 - 5_000_000)
    write()
    monkeypatch.undo()
    (tmp_path / "checkpoint" / "commits" / "2").unlink()
    (tmp_path / "checkpoint" / "commits" / ".2.crc").unlink(missing_ok=True)
    write()
    assert [commit.batch_id for commit in commits(uri, "numbers")] == [0, 1, 2]


def test_of_a_batch_that_an_older_version_committed_the_commit_tells_when_it_was_planned() -> None:
    commit = Commit(GroupName("g"), Epoch(5), 1, "run a", "", "q", 3, committed_at=1_000)
    last = CommittedBatch(3, Epoch(5))
    check_repeat(3, last, commit, "b", planned_at=999)
    check_repeat(3, last, None, "b", planned_at=1_001)
    with pytest.raises(InvalidInput, match="the checkpoint is older than the changelog"):
        check_repeat(3, last, commit, "b", planned_at=1_001)


def drop_commits(uri: str) -> None:
    """Open another term, and have a snapshot take the place of all epochs before it."""
    changelog = Changelog.open(uri)
    store = changelog.definition(StoreName("numbers"))
    assert store is not None
    writer = changelog.writer(store.group, "the job, started again")
    newest = changelog.read_commit(store.group, writer.epoch)
    assert newest is not None
    rows = pa.Table.from_pylist(list(contents(uri, "numbers").values()), store.schema)
    places = [(store.name, PartitionId(number)) for number in range(store.partitions)]
    placed = [((store.name, number), batch) for number, batch in partition_rows(store, rows).items()]
    snapshots = changelog.snapshots(store.group)
    snapshots.write_part(newest.epoch, {store.name: store}, places, placed, newest.generation, newest.digest)
    assert snapshots.commit(newest, places)
    changelog.drop_before(store.group, newest.epoch)


@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize("batches", [1, 2])
def test_a_checkpoint_that_is_older_than_the_changelog_is_refused(
    numbers: FileStream, uri: str, tmp_path: Path, batches: int, drops: bool
) -> None:
    """Spark plans what follows it anew: with other rows than the batches of those numbers had. Their commits
    may be gone.
    """
    checkpoint, older = tmp_path / "checkpoint", tmp_path / "older"

    def write(there: Path) -> None:
        drain(numbers.frame(), LiveStateSink(changelog=uri, store="numbers", key=["number"]), there, "append")

    write(checkpoint)
    shutil.copytree(checkpoint, older)
    for number in range(batches):
        numbers.add([{"number": 100 + number, "text": "before"}])
        write(checkpoint)
    if drops:
        drop_commits(uri)
    numbers.add([{"number": 200, "text": "after"}])
    with pytest.raises(StreamingQueryException, match="the checkpoint is older than the changelog"):
        write(older)


def test_a_job_goes_on_behind_a_restored_changelog(numbers: FileStream, uri: str, tmp_path: Path) -> None:
    """With a newer checkpoint, less the batches that the changelog lacks: as docs/backup.md says."""
    checkpoint, restored = tmp_path / "checkpoint", tmp_path / "restored"

    def write(there: str) -> None:
        sink = LiveStateSink(changelog=there, store="numbers", key=["number"])
        drain(numbers.frame(), sink, checkpoint, "append")

    write(uri)
    shutil.copytree(tmp_path / "changelog", restored)
    for number in range(2):
        numbers.add([{"number": 100 + number, "text": "lost with the changelog"}])
        write(uri)
    numbers.add([{"number": 200, "text": "new"}])
    last = max(commit.batch_id or 0 for commit in commits(str(restored), "numbers"))
    for file in [*(checkpoint / "offsets").iterdir(), *(checkpoint / "commits").iterdir()]:
        name = file.name.removeprefix(".").removesuffix(".crc")
        if name.isdecimal() and int(name) > last:
            file.unlink()
    write(str(restored))
    rows = [row for batch in numbers.added for row in batch]
    assert contents(str(restored), "numbers") == sort_by_key(rows, "number")


def test_a_job_that_goes_on_in_an_empty_changelog_is_told(
    numbers: FileStream, uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As where the changelog's directory is not mounted."""
    checkpoint, empty = tmp_path / "checkpoint", (tmp_path / "empty").as_uri()
    drain(numbers.frame(), LiveStateSink(changelog=uri, store="a", key=["number"]), checkpoint, "append")
    assert "this is not the changelog that belongs to its checkpoint" not in caplog.text
    for number in range(2):
        numbers.add([{"number": 100 + number, "text": "new"}])
    drain(numbers.frame(), LiveStateSink(changelog=empty, store="a", key=["number"]), checkpoint, "append")
    assert caplog.text.count("this is not the changelog that belongs to its checkpoint") == 1
    assert len(contents(empty, "a")) == 2


def test_a_batch_is_given_to_one_sink_once(numbers: FileStream, uri: str, tmp_path: Path) -> None:
    first, second = (LiveStateSink(changelog=uri, group="g", store=store, key=["number"]) for store in "ab")

    def write_both(batch: DataFrame, number: int) -> None:
        first(batch, number)
        second(batch, number)

    with pytest.raises(
        StreamingQueryException, match="was committed already in this run: call one sink once"
    ):
        drain(numbers.frame(), write_both, tmp_path / "both", "append")
    alone = LiveStateSink(changelog=uri, store="c", key=["number"])

    def write_twice(batch: DataFrame, number: int) -> None:
        alone(batch.where("number < 2"), number)
        alone(batch.where("number >= 2"), number)

    with pytest.raises(
        StreamingQueryException, match="was committed already in this run: call one sink once"
    ):
        drain(numbers.frame(), write_twice, tmp_path / "twice", "append")


def test_two_groups_are_written_side_by_side(numbers: FileStream, uri: str, tmp_path: Path) -> None:
    sinks = [LiveStateSink(changelog=uri, store=store, key=["number"]) for store in "ab"]

    def write_plainly(batch: DataFrame, number: int) -> None:
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda sink: sink(batch, number), sinks))

    with pytest.raises(StreamingQueryException, match=r"wrap what it runs in pyspark\.inheritable_thread"):
        drain(numbers.frame(), write_plainly, tmp_path / "plainly", "append")

    def write_both(batch: DataFrame, number: int) -> None:
        run = inheritable_thread_target(batch.sparkSession)(lambda sink: sink(batch, number))
        with ThreadPoolExecutor() as threads:
            list(threads.map(run, sinks))

    drain(numbers.frame(), write_both, tmp_path / "both", "append")
    expected = sort_by_key([row for batch in numbers.added for row in batch], "number")
    assert contents(uri, "a") == contents(uri, "b") == expected


def test_a_new_checkpoint_makes_new_epochs(numbers: FileStream, uri: str, tmp_path: Path) -> None:
    sink = LiveStateSink(changelog=uri, store="numbers", key=["number"])
    drain(numbers.frame(), sink, tmp_path / "one", "append")
    drain(numbers.frame(), sink, tmp_path / "two", "append")
    assert [commit.batch_id for commit in commits(uri, "numbers")] == [0, 1, 2, 0, 1, 2]
    assert len({commit.query_id for commit in commits(uri, "numbers")}) == 2
    assert contents(uri, "numbers") == sort_by_key(
        [row for batch in numbers.added for row in batch], "number"
    )


@pytest.mark.parametrize("path", PATHS)
def test_a_second_driver_fences_the_first(numbers: FileStream, uri: str, tmp_path: Path, path: str) -> None:
    first = start(
        numbers.frame(),
        LiveStateSink(changelog=uri, store="numbers", key=["number"], path=path),
        tmp_path / "one",
        "append",
    )
    try:
        first.processAllAvailable()
        drain(
            numbers.frame(),
            LiveStateSink(changelog=uri, store="numbers", key=["number"], path=path),
            tmp_path / "two",
            "append",
        )
        numbers.add([{"number": 77}])
        with pytest.raises(
            StreamingQueryException,
            match=r"engine\.errors\.Fenced: Store group numbers is written by run .* with token 2 now",
        ):
            first.processAllAvailable()
    finally:
        first.stop()
    assert (77,) not in contents(uri, "numbers")


def test_a_back_fill_takes_over_and_the_restarted_query_goes_on(
    numbers: FileStream, uri: str, tmp_path: Path
) -> None:
    def sink() -> LiveStateSink:
        return LiveStateSink(changelog=uri, store="numbers", key=["number"])

    drain(numbers.frame(), sink(), tmp_path / "checkpoint", "append")
    rows = [{"number": i, "text": "filled"} for i in range(100, 110)]
    frame = numbers.spark.createDataFrame(pa.Table.from_pylist(rows))
    with pytest.raises(InvalidInput, match="A job writes store group numbers"):
        write_store(frame, changelog=uri, store="numbers", key=["number"])
    write_store(frame, changelog=uri, store="numbers", key=["number"], take_over=True)
    numbers.add([{"number": 105, "text": "live"}])
    drain(numbers.frame(), sink(), tmp_path / "checkpoint", "append")
    assert [commit.batch_id for commit in commits(uri, "numbers")] == [0, 1, 2, None, 3]
    assert contents(uri, "numbers") == sort_by_key(
        [*(row for b in numbers.added[:3] for row in b), *rows, *numbers.added[3]], "number"
    )


def test_of_a_task_that_ran_twice_one_attempt_counts(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    class FlakyChangelog(Changelog):
        """The first attempt of the second task stages its file and is cut off then."""

        def stage(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
            staged = super().stage(*arguments, **named)  # type: ignore[arg-type]
            context = TaskContext.get()
            assert context is not None
            if context.partitionId() == 1 and context.attemptNumber() == 0:
                raise Unavailable("The changelog cannot be reached.")
            return staged

        def __reduce__(self) -> tuple[object, ...]:  # type: ignore[override]
            made = Changelog.open(self.uri)
            return (FlakyChangelog, (made.uri, {}, made.objects))

    changelog = Changelog.open(uri)
    frame = spark.range(0, 1000, 1, 2).selectExpr("id", "id * 2 AS twice")
    definition = changelog.create_store(
        define_store("numbers", pa.schema([("id", pa.int64()), ("twice", pa.int64())]), ["id"])
    )
    writer = changelog.writer(definition.group, "test")
    flaky = FlakyChangelog(uri, {}, changelog.objects)
    files = stage_from_executors(
        [BatchRows(frame, Destination(flaky, (Target(definition, None),), "batch 0"))], writer.next_epoch
    )
    assert [file.name.rsplit("-", 1)[0] for file in files] == ["task-0-0", "task-1-1"]
    writer.commit(files)
    assert contents(uri, "numbers") == {(i,): {"id": i, "twice": 2 * i} for i in range(1000)}
    assert len(list((tmp_path / "changelog").rglob("*.arrow"))) == 3
    assert changelog.collect(GroupName("numbers")) == 1
    assert changelog.definition(StoreName("numbers")) == definition


def test_a_task_s_error_of_a_finer_class_reaches_the_driver_as_its_kind(
    spark: SparkSession, uri: str
) -> None:
    class TornRowsError(InvalidInput):
        """Known to the changelog alone."""

    class RefusingChangelog(Changelog):
        def stage(self, *arguments: object, **named: object) -> object:  # type: ignore[override]
            raise TornRowsError("The rows are torn.")

        def __reduce__(self) -> tuple[object, ...]:  # type: ignore[override]
            made = Changelog.open(self.uri)
            return (RefusingChangelog, (made.uri, {}, made.objects))

    changelog = Changelog.open(uri)
    definition = changelog.create_store(define_store("numbers", pa.schema([("id", pa.int64())]), ["id"]))
    refusing = RefusingChangelog(uri, {}, changelog.objects)
    destination = Destination(refusing, (Target(definition, None),), "batch 0")
    rows = BatchRows(spark.range(0, 10, 1, 1), destination)
    with pytest.raises(InvalidInput, match=r"The rows are torn\.") as caught:
        stage_from_executors([rows], Epoch(1))
    assert type(caught.value) is InvalidInput


class TestStop:
    """Stopping in the middle of a batch is quiet, and nothing of the batch is there."""

    @pytest.fixture
    def endless(self, numbers: FileStream, tmp_path: Path) -> Iterator[tuple[DataFrame, Path]]:
        """A frame whose computation leaves a file behind when it has begun, and does not end."""
        begun = tmp_path / "begun"

        def hang(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            begun.touch()
            for batch in batches:
                time.sleep(120)
                yield batch

        yield numbers.frame().mapInArrow(hang, "number BIGINT, text STRING"), begun

    @pytest.mark.parametrize("path", PATHS)
    def test_stop_in_the_middle_of_a_batch(
        self, endless: tuple[DataFrame, Path], uri: str, tmp_path: Path, path: str
    ) -> None:
        frame, begun = endless
        sink = LiveStateSink(changelog=uri, store="numbers", key=["number"], path=path)
        raised: list[LivestateError] = []

        def write_and_record(batch: DataFrame, batch_id: int) -> None:
            try:
                sink(batch, batch_id)
            except LivestateError as error:
                raised.append(error)
                raise

        query = start(frame, write_and_record, tmp_path / "checkpoint", "append")
        wait_until(begun.exists)
        query.stop()
        assert query.exception() is None
        assert commits(uri, "numbers") == []
        _check_that_spark_understands(frame.sparkSession, raised[0])


def _check_that_spark_understands(spark: SparkSession, error: LivestateError) -> None:
    """Spark's own expression must find an interruption in the text, and the text be too short for its
    recursion to matter.
    """
    assert isinstance(error, Cancelled)
    jvm = spark._jvm
    assert jvm is not None
    expression = jvm.org.apache.spark.sql.execution.streaming.runtime.StreamExecution.PROXY_ERROR()
    assert expression.findFirstIn(error.message).isDefined()
    assert len(error.message) < 400
