"""Real topics of a real broker: offsets, tombstones, and exactly once from a message to the answer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from engine.changelog import Changelog
from engine.model.schema import GroupName
from spark_pipeline import LiveStateSink
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.kafka_feed import KafkaFeed, create_topic
from spark_pipeline.pipelines.pipeline import Job, Topic
from spark_pipeline.pipelines.sources import REMOVED, KafkaSource
from tests.spark.recomputed import check_answers
from tests.spark.streams import commits, contents, drain, sort_by_key
from tests.spark.test_pipelines import run_to_the_end
from tests.support.waiting import wait_until

_ROOT = Path(__file__).parents[2]
_PIECE = 400
_START_SECONDS = 120.0


def test_a_killed_driver_loses_and_repeats_no_message(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    """The job's process is killed while it works, and another one goes on from its checkpoint, with the batch
    that was underway.
    """
    pipeline, uri, checkpoint = (
        PIPELINES["event_counts"],
        (tmp_path / "changelog").as_uri(),
        tmp_path / "checkpoint",
    )
    (topic,) = pipeline.topics
    create_topic(kafka, topic.name)
    feed, sent = KafkaFeed(kafka), 0

    def fed_until_epoch(epoch: int) -> bool:
        nonlocal sent
        feed.write(topic, topic.events(sent, _PIECE))
        sent += _PIECE
        return Changelog.open(uri).newest_epoch(GroupName(pipeline.name)) >= epoch

    places = [
        "--source",
        "kafka",
        "--bootstrap",
        kafka,
        "--no-feed",
        "--changelog",
        uri,
        "--checkpoint",
        str(checkpoint),
    ]
    with (tmp_path / "output").open("w") as output:
        command = [sys.executable, "-m", "flight_server.cli.main", "pipeline", pipeline.name, *places]
        environment = {**os.environ, "TMPDIR": str(tmp_path)}
        job = subprocess.Popen(
            command, cwd=_ROOT, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            wait_until(
                lambda: job.poll() is not None or fed_until_epoch(1), _START_SECONDS, pause_seconds=0.2
            )
            # The fence, and three batches: it is in the middle of the next then.
            wait_until(
                lambda: job.poll() is not None or fed_until_epoch(4), _START_SECONDS, pause_seconds=0.05
            )
            assert job.poll() is None, (tmp_path / "output").read_text()[-2000:]
        finally:
            os.killpg(job.pid, signal.SIGKILL)
            job.wait()
    killed_after = commits(uri, pipeline.name)
    # As if it had died between the sink's commit and Spark's: the last batch has to be done again, from the
    # same offsets.
    planned = max(int(file.name) for file in (checkpoint / "offsets").iterdir() if file.name.isdecimal())
    for name in (str(planned), f".{planned}.crc"):
        (checkpoint / "commits" / name).unlink(missing_ok=True)
    fed_until_epoch(0)

    run_to_the_end(spark, pipeline, Job(KafkaSource(kafka), uri, str(checkpoint)))
    check_answers(pipeline, uri, {topic.name: topic.events(0, sent)}, tmp_path / "hosts")
    found = commits(uri, pipeline.name)
    assert found[: len(killed_after)] == killed_after, "what was committed stays"
    assert [commit.batch_id for commit in found] == list(range(len(found))), (
        "each batch is one epoch, whoever did it"
    )
    assert len(found) > len(killed_after)
    assert len({commit.query_id for commit in found}) == 1


def test_two_topics_make_one_epoch_and_the_same_answers_as_files(
    spark: SparkSession, kafka: str, tmp_path: Path
) -> None:
    pipeline, uri = PIPELINES["risk"], (tmp_path / "changelog").as_uri()
    feed = KafkaFeed(kafka)
    events = {topic.name: topic.events(0, 6_000) for topic in pipeline.topics}
    for topic in pipeline.topics:
        create_topic(kafka, topic.name)
        feed.write(topic, events[topic.name])
    run_to_the_end(
        spark, pipeline, Job(KafkaSource(kafka, messages_per_batch=4_000), uri, str(tmp_path / "checkpoint"))
    )
    check_answers(pipeline, uri, events, tmp_path / "hosts")
    assert [set(commit.stores) for commit in commits(uri, pipeline.name)] == [{"positions", "prices"}] * 2


def test_topics_that_are_missing_are_named(kafka: str) -> None:
    command = [sys.executable, "-m", "flight_server.cli.main", "pipeline", "movie_ratings"]
    done = subprocess.run(
        [*command, "--source", "kafka", "--bootstrap", kafka],
        cwd=_ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: The Kafka brokers do not have all topics that movie_ratings reads (ratings): create them, or "
        "have them made and filled with --feed."
    )


def test_a_topic_that_was_made_anew_ends_a_job_with_a_sentence(kafka: str, tmp_path: Path) -> None:
    (topic,) = PIPELINES["user_sessions"].topics
    job = ["user_sessions", "--source", "kafka", "--bootstrap", kafka, "--no-feed", "--duration", "1"]
    places = ["--changelog", str(tmp_path / "changelog"), "--checkpoint", str(tmp_path / "checkpoint")]
    command = [sys.executable, "-m", "flight_server.cli.main", "pipeline", *job, *places]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, timeout=240, check=False)

    create_topic(kafka, topic.name)
    KafkaFeed(kafka).write(topic, topic.events(0, 400))
    assert run().returncode == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.delete_topics([topic.name])[topic.name].result()
    create_topic(kafka, topic.name)
    KafkaFeed(kafka).write(topic, topic.events(0, 4))
    done = run()
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "Error: The topics that user_sessions reads (activity) lack messages that its checkpoint names: they "
        "are gone, or a topic was made anew. Begin with a new checkpoint,"
    )
    assert "failOnDataLoss" not in done.stderr


def test_a_message_without_a_value_removes_its_key(spark: SparkSession, kafka: str, tmp_path: Path) -> None:
    titles = Topic("titles", "song_id bigint, title string", key="song_id", make=lambda draws: {})
    create_topic(kafka, titles.name, partitions=1, settings={"cleanup.policy": "compact"})
    feed, uri = KafkaFeed(kafka), (tmp_path / "changelog").as_uri()
    sink = LiveStateSink(changelog=uri, store="titles", key=["song_id"], tombstone_column=REMOVED)

    def run() -> dict[tuple[int, ...], dict[str, object]]:
        drain(KafkaSource(kafka).read_compacted(spark, titles), sink, tmp_path / "checkpoint", "append")
        return contents(uri, titles.name)

    feed.write(
        titles, pa.table({"song_id": [1, 2, 3, 1], "title": ["Blue", "Green", 'Grün "live"', "Azure"]})
    )
    songs = {1: "Azure", 2: "Green", 3: 'Grün "live"'}
    assert run() == sort_by_key(
        [{"song_id": song, "title": title} for song, title in songs.items()], "song_id"
    )
    # A key that was never there may be removed; one that was removed comes back in the same batch.
    feed.send(titles.name, ["2", "9", "3"], [None, None, None])
    feed.write(titles, pa.table({"song_id": [3], "title": ["Grey"]}))
    assert run() == sort_by_key(
        [{"song_id": 1, "title": "Azure"}, {"song_id": 3, "title": "Grey"}], "song_id"
    )
