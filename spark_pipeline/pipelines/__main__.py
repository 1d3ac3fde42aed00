"""Runs a ready-made pipeline: `python -m spark_pipeline.pipelines --help`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path

from rich.console import Console

from engine.errors import InvalidInput, LivestateError, Unavailable
from spark_pipeline.addresses import answers, free_port
from spark_pipeline.kafka_broker import KafkaBroker, connector_jars
from spark_pipeline.pipelines.asking import Asker, HostProcess
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.feeding import EventWriter, Feed, Feeder, FileFeed
from spark_pipeline.pipelines.pipeline import Job, Pipeline, Source, start_pipeline
from spark_pipeline.pipelines.running import Stop, end, run_until, start_session
from spark_pipeline.pipelines.sources import FileSource, KafkaSource, RateSource

_BROKER_SECONDS = 15.0
_DESCRIPTION = """\
Run a ready-made pipeline: events -> stores -> questions in SQL.

pipelines:
{pipelines}

sources:
  rate    Spark's rate source counts, and its tasks make the events; nothing else has to run
  files   files that appear in DIR/TOPIC; without --directory they are written to a temporary one
  kafka   Kafka topics; without --bootstrap a broker of its own is started (make kafka fetches it)

The events are the same for the same seed, whatever the source.
"""
_EXAMPLES = """\
examples:
  python -m spark_pipeline.pipelines music_charts --serve --duration 60
  python -m spark_pipeline.pipelines leaderboard --source kafka --serve
  python -m spark_pipeline.pipelines music_charts --source kafka --bootstrap broker:9092 \\
      --changelog file:///var/lib/livestate --checkpoint /var/lib/checkpoints/charts
With --serve a host runs beside the job, and the pipeline's questions are asked every few seconds. Without it, serve the changelog
on your own hosts: livestate serve --changelog URI --data DIR
"""


def _parser() -> argparse.ArgumentParser:
    pipelines = "\n".join(f"  {pipeline.name:<16}{pipeline.summary}" for pipeline in PIPELINES.values())
    parser = argparse.ArgumentParser(
        prog="python -m spark_pipeline.pipelines",
        description=_DESCRIPTION.format(pipelines=pipelines),
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("pipeline", choices=list(PIPELINES), metavar="PIPELINE", help="one of those above")
    events = parser.add_argument_group("events")
    events.add_argument(
        "--source",
        choices=["rate", "files", "kafka"],
        default="rate",
        help="where events come from; rate by default",
    )
    events.add_argument(
        "--directory", type=Path, metavar="DIR", help="where files appear, for --source files"
    )
    events.add_argument(
        "--format", choices=["parquet", "json"], default="parquet", help="of the files; parquet by default"
    )
    events.add_argument("--bootstrap", metavar="HOST:PORT", help="the Kafka brokers, for --source kafka")
    events.add_argument(
        "--feed",
        action=argparse.BooleanOptionalAction,
        default=None,
        help=(
            "write events to the directory or the topics, too; by default if neither --directory nor "
            "--bootstrap is given"
        ),
    )
    events.add_argument(
        "--rate", type=int, default=1000, help="events a second that are made; 1000 by default"
    )
    events.add_argument("--seed", type=int, default=1, help="equal seeds make equal events and tables")
    events.add_argument(
        "--tables",
        type=Path,
        metavar="DIR",
        help="Parquet files of the reference tables, such as songs.parquet; else made up",
    )
    job = parser.add_argument_group("job")
    job.add_argument(
        "--changelog",
        metavar="URI",
        help="where the stores go: file:///dir, s3://…; a temporary directory by default",
    )
    job.add_argument(
        "--checkpoint",
        metavar="DIR",
        help="of the streaming query; temporary by default. Needed to go on after a restart",
    )
    job.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="URI",
        help="Flight URI of a host to tell of each commit; repeatable",
    )
    job.add_argument(
        "--duration", type=float, metavar="SECONDS", help="how long to run; until Ctrl-C by default"
    )
    job.add_argument(
        "--serve",
        action="store_true",
        help="start a host too, and show the answers to the pipeline's questions",
    )
    job.add_argument("--port", type=int, help="of that host; a free one by default")
    return parser


def main(arguments: Sequence[str]) -> int:
    """Run a pipeline until its time is over, SIGTERM or Ctrl-C.

    Args:
        arguments: The command line, without the program.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    stop = Stop()
    stop.listen()
    try:
        with ExitStack() as resources:
            return _run(PIPELINES[options.pipeline], options, stop, resources)
    except LivestateError as error:
        sys.stderr.write(f"Error: {error}\n")
        return 1


def _run(pipeline: Pipeline, options: argparse.Namespace, stop: Stop, resources: ExitStack) -> int:
    console = Console()
    scratch = Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="livestate-pipeline-")))
    changelog = options.changelog or (scratch / "changelog").as_uri()
    source, feed = _source(options, scratch, resources)
    notify = list(options.notify)
    host = asker = None
    if options.serve:
        host = resources.enter_context(HostProcess(changelog, scratch, options.port or free_port()))
        notify.append(host.uri)
        asker = Asker(pipeline, host.uri, console)
        console.print(
            f'Ask it yourself: livestate sql --uri {host.uri} "{pipeline.questions[0].sql}"',
            markup=False,
            soft_wrap=True,
        )
    spark = start_session(stop, pipeline.name, connector_jars() if options.source == "kafka" else ())
    if stop.asked.is_set():
        spark.stop()
        return 0
    job = Job(
        source,
        changelog,
        options.checkpoint or str(scratch / "checkpoint"),
        notify,
        options.tables,
        options.seed,
    )
    query = start_pipeline(spark, pipeline, job)
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
    # Who ends all processes of the job at once ends the host, too.
    is_answering = host is not None and not (stop.asked.is_set() and host.has_ended())
    if asker is not None and is_answering and failure is None:
        asker.ask("At the end")
    if failure is not None:
        sys.stderr.write(f"Error: {failure}\n")
    return 0 if failure is None else 1


def _give_up(error: LivestateError, stop: Stop) -> None:
    # Who ends all processes of the job at once ends its broker, too.
    if not stop.asked.is_set():
        sys.stderr.write(f"Error: {error}\n")
    stop.asked.set()


def _source(options: argparse.Namespace, scratch: Path, resources: ExitStack) -> tuple[Source, Feed | None]:
    """Where events come from, and where they are to be written, if they are."""
    if options.rate < 1:
        raise InvalidInput("The rate must be at least one event a second.")
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
    pipeline = PIPELINES[options.pipeline]
    if not feeds:
        return KafkaSource(bootstrap), None
    from spark_pipeline.pipelines.kafka_feed import KafkaFeed, create_topic  # noqa: PLC0415  only who writes to Kafka needs its client

    for topic in pipeline.topics:
        create_topic(bootstrap, topic.name)
    return KafkaSource(bootstrap), KafkaFeed(bootstrap)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
