"""A ready-made pipeline as a process: `livestate pipeline --help`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

from engine.errors import InvalidInput, LivestateError, Unavailable
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline.addresses import answers, free_port
from spark_pipeline.kafka_broker import KafkaBroker
from spark_pipeline.kafka_jars import connector_jars
from spark_pipeline.pipelines.asking import Asker, HostProcess
from spark_pipeline.pipelines.feeding import EventWriter, Feed, Feeder, FileFeed
from spark_pipeline.pipelines.pipeline import Job, Pipeline, Source, start_pipeline
from spark_pipeline.pipelines.running import (
    LOCAL_MASTER,
    Stop,
    end,
    failure_reason,
    run_until,
    start_session,
)
from spark_pipeline.pipelines.sources import FileSource, KafkaSource, RateSource

_BROKER_SECONDS = 15.0
_NO_TOPIC = "UnknownTopicOrPartitionException"
_NO_MESSAGES = "failOnDataLoss"
_JARS_SETTINGS = ("spark.jars", "spark.jars.packages")


@dataclass(frozen=True)
class PipelineOptions:
    """What the user asked for.

    Attributes:
        pipeline: What runs.
        source: Where events come from: "rate", "files" or "kafka".
        directory: Where files appear; None for a temporary directory.
        format: Of the files: "parquet" or "json".
        bootstrap: The Kafka brokers; None for one that is started.
        feed: Whether events are written there, too; None: if neither `directory` nor `bootstrap` is given.
        rate: Events a second that are made.
        seed: Of events and tables.
        tables: Parquet files of the reference tables; None: they are made up.
        changelog: Where the stores go; None for a temporary directory.
        checkpoint: Of the streaming query; None for a temporary directory.
        notify: Hosts to tell of each commit, and how hosts are reached.
        duration: How many seconds to run; None: until a signal.
        serve: Whether a host runs beside the job, and is asked.
        port: Of that host; None for a free one.
        master: Spark's master.
        spark_settings: Settings of Spark's, by name; they win.

    Raises:
        InvalidInput: Something is said of another source, or a job could not go on from its checkpoint.
    """

    pipeline: Pipeline
    source: str = "rate"
    directory: Path | None = None
    format: str = "parquet"
    bootstrap: str | None = None
    feed: bool | None = None
    rate: int = 1000
    seed: int = 1
    tables: Path | None = None
    changelog: str | None = None
    checkpoint: str | None = None
    notify: ConnectionOptions = ConnectionOptions()  # noqa: RUF009  it is frozen
    duration: float | None = None
    serve: bool = False
    port: int | None = None
    master: str = LOCAL_MASTER
    spark_settings: Mapping[str, str] | None = None

    def __post_init__(self) -> None:
        for option, value, sources in (
            ("--directory", self.directory, ("files",)),
            ("--bootstrap", self.bootstrap, ("kafka",)),
            ("--feed and --no-feed", self.feed, ("files", "kafka")),
        ):
            if value is not None and self.source not in sources:
                raise InvalidInput(
                    f"--source {self.source} goes without {option}, for --source {' or '.join(sources)} alone: "
                    "leave it out, or name that source."
                )
        if self.source == "kafka" and self.bootstrap is None and self.checkpoint is not None:
            raise InvalidInput(
                "A checkpoint says which messages of its topics a job has read, and a broker of its own has new "
                "topics each time: name brokers with --bootstrap, or leave --checkpoint out."
            )


def run_pipeline(options: PipelineOptions) -> None:
    """Run a pipeline until its time is over, SIGTERM or Ctrl-C.

    Args:
        options: What the user asked for.

    Raises:
        LivestateError: It could not start, or ended by itself.
    """
    stop = Stop()
    stop.listen()
    with ExitStack() as resources:
        _run(options, stop, resources)


def _run(options: PipelineOptions, stop: Stop, resources: ExitStack) -> None:
    console, pipeline = Console(markup=False, emoji=False), options.pipeline
    scratch = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="livestate-pipeline-")))
    changelog = options.changelog or (scratch / "changelog").as_uri()
    source, feed = _source(options, scratch, resources)
    notify = options.notify
    host = asker = None
    if options.serve:
        host = resources.enter_context(HostProcess(changelog, scratch, options.port or free_port()))
        notify = replace(notify, uris=(*notify.uris, host.uri))
        asker = Asker(pipeline, notify.with_uri(host.uri), console, host)
        console.print(
            f'Ask it yourself: livestate sql --uri {host.uri} "{pipeline.questions[0].sql}"',
            soft_wrap=True,
        )
    spark = start_session(stop, pipeline.name, options.master, _spark_settings(options))
    if stop.asked.is_set():
        spark.stop()
        return
    job = Job(
        source,
        changelog,
        options.checkpoint or str(scratch / "checkpoint"),
        notify,
        options.tables,
        options.seed,
    )
    query = _start(spark, pipeline, job)
    with (
        Feeder(
            EventWriter(feed, pipeline.topics, options.rate, options.seed),
            lambda error: _give_up(error, stop),
        )
        if feed is not None
        else nullcontext()
    ):
        run_until(stop, query, options.duration, asker or (lambda seconds: None))
    # The rate source never has nothing more.
    failure = end(stop, spark, query, catch_up=options.source != "rate")
    if failure is not None:
        raise Unavailable(_failure_sentence(failure, options))
    # Who ends all processes of the job at once ends the host, too.
    if asker is not None and host is not None and not (stop.asked.is_set() and host.has_ended()):
        asker.ask("At the end")


def _start(spark: SparkSession, pipeline: Pipeline, job: Job) -> StreamingQuery:
    try:
        return start_pipeline(spark, pipeline, job)
    except (Py4JJavaError, PySparkException) as error:
        # Of a checkpoint that cannot be written, say, or of a setting that Spark reads only now.
        raise Unavailable(f"The streaming query did not start: {failure_reason(error)}") from error


def _failure_sentence(failure: str, options: PipelineOptions) -> str:
    # Kafka names no topic.
    reads = f"{options.pipeline.name} reads ({' and '.join(topic.name for topic in options.pipeline.topics)})"
    if _NO_TOPIC in failure:
        return (
            f"The Kafka brokers do not have all topics that {reads}: create them, or have them made and filled "
            "with --feed."
        )
    if _NO_MESSAGES in failure:
        # What Spark advises is an option of a job of one's own, with which messages are passed over.
        return (
            f"The topics that {reads} lack messages that its checkpoint names: they are gone, or a topic was "
            "made anew. Begin with a new checkpoint, which reads all messages that are there; stores that add "
            "up count those that they have already again, so begin with a new changelog, too, if there are any."
        )
    return failure


def _spark_settings(options: PipelineOptions) -> Mapping[str, str]:
    given = dict(options.spark_settings or {})
    if options.source == "kafka" and not any(name in given for name in _JARS_SETTINGS):
        given["spark.jars"] = ",".join(connector_jars())
    return given


def _give_up(error: LivestateError, stop: Stop) -> None:
    # Who ends all processes of the job at once ends its broker, too.
    if not stop.asked.is_set():
        sys.stderr.write(f"Error: {error}\n")
    stop.asked.set()


def _source(options: PipelineOptions, scratch: Path, resources: ExitStack) -> tuple[Source, Feed | None]:
    """Where events come from, and where they are to be written, if they are."""
    if options.source == "rate":
        return RateSource(options.rate, options.seed), None
    feeds = (
        options.feed if options.feed is not None else options.directory is None and options.bootstrap is None
    )
    if options.source == "files":
        directory = options.directory or scratch / "events"
        return FileSource(directory, options.format), FileFeed(directory, options.format) if feeds else None
    if options.bootstrap is not None and not answers(options.bootstrap, _BROKER_SECONDS):
        # Spark would try for minutes, and then say so on many lines.
        raise Unavailable(
            f"No Kafka broker answers at {options.bootstrap}: start it, correct --bootstrap, or leave it out "
            "for a broker of its own."
        )
    bootstrap = options.bootstrap or resources.enter_context(KafkaBroker(scratch / "kafka")).bootstrap
    if not feeds:
        return KafkaSource(bootstrap), None
    from spark_pipeline.pipelines.kafka_feed import KafkaFeed, create_topic  # noqa: PLC0415  only who writes to Kafka needs its client

    for topic in options.pipeline.topics:
        create_topic(bootstrap, topic.name)
    return KafkaSource(bootstrap), KafkaFeed(bootstrap)
