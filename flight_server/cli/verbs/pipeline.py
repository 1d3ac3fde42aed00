"""`livestate pipeline`, `feed`, `kafka` and `broker`: ready-made jobs, and what they need around them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from engine.processes.hidden_modules import show_pandas
from flight_server.cli.extras import HOST, KAFKA, SPARK, check_extra
from flight_server.cli.options import MOST_EVENTS, Number, Seconds
from flight_server.cli.usage import open_changelog

if TYPE_CHECKING:
    from spark_pipeline.pipelines.pipeline import Pipeline

_FILE = click.Path(path_type=Path, exists=True, dir_okay=False, readable=True)
_DIRECTORY = click.Path(path_type=Path, file_okay=False)


class _PipelineName(click.ParamType["Pipeline"]):
    """The name of a ready-made pipeline."""

    name = "pipeline"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Pipeline:
        from spark_pipeline.pipelines.catalogue import PIPELINES  # noqa: PLC0415  it imports pyspark

        if value not in PIPELINES:
            self.fail(f"There is no pipeline {value!r}; there are {', '.join(PIPELINES)}.", param, ctx)
        return PIPELINES[value]


class _PipelineCommand(click.Command):
    """A command about pipelines, whose help lists them."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Add the pipelines to the help, or what they need."""
        with formatter.section("Pipelines"):
            if any(find_spec(module) is None for module in SPARK.modules):
                formatter.write_text(SPARK.sentence("Each of them"))
                return
            from spark_pipeline.pipelines.catalogue import PIPELINES  # noqa: PLC0415  it imports pyspark

            formatter.write_dl([(pipeline.name, pipeline.summary) for pipeline in PIPELINES.values()])


class _Setting(click.ParamType[tuple[str, str]]):
    """`name=value`, of Spark's."""

    name = "name=value"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        name, equals, text = value.partition("=")
        if not (name.startswith("spark.") and equals):
            self.fail(f"{value!r} is not like spark.executor.memory=4g.", param, ctx)
        return name, text


_pipeline_argument = click.argument("pipeline", metavar="PIPELINE", type=_PipelineName())
_seed_option = click.option(
    "--seed", default=1, show_default=True, help="Equal seeds make equal events and tables."
)


@click.command(cls=_PipelineCommand)
@_pipeline_argument
@click.option(
    "--source",
    type=click.Choice(["rate", "files", "kafka"]),
    default="rate",
    show_default=True,
    help="Where events come from.",
)
@click.option("--directory", type=_DIRECTORY, metavar="DIR", help="Where files appear, for --source files.")
@click.option(
    "--format",
    type=click.Choice(["parquet", "json"]),
    default="parquet",
    show_default=True,
    help="Format of the files.",
)
@click.option("--bootstrap", metavar="HOST:PORT", help="The Kafka brokers, for --source kafka.")
@click.option(
    "--feed/--no-feed",
    default=None,
    help="Write events to the directory or the topics, too; by default if neither is named.",
)
@click.option(
    "--rate",
    default=1000,
    show_default=True,
    type=click.IntRange(1, MOST_EVENTS),
    help="Events a second that are made.",
)
@_seed_option
@click.option(
    "--tables",
    type=_DIRECTORY,
    metavar="DIR",
    help="Parquet files of the reference tables, such as songs.parquet; else made up.",
)
@click.option(
    "--changelog",
    metavar="URI",
    envvar="LIVESTATE_CHANGELOG",
    help="Where the stores go: file:///dir, s3://…; a temporary directory by default.",
)
@click.option(
    "--checkpoint",
    metavar="DIR",
    help="Directory of the streaming query's checkpoint; a temporary one by default. A job that is to go on "
    "after a restart needs one.",
)
@click.option(
    "--notify", multiple=True, metavar="URI", help="A host to tell of each commit at once. Repeatable."
)
@click.option(
    "--token-file",
    type=_FILE,
    help="File that holds the hosts' token; else LIVESTATE_TOKEN is taken.",
)
@click.option(
    "--tls-roots",
    type=_FILE,
    envvar="LIVESTATE_TLS_ROOTS",
    help="PEM certificates that vouch for the hosts of --notify.",
)
@click.option(
    "--duration",
    type=Seconds(0, min_open=True),
    metavar="SECONDS",
    help="How long to run; until Ctrl-C or SIGTERM by default.",
)
@click.option("--serve", is_flag=True, help="Start a host too, and show the answers to its questions.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Port of the host of --serve; a free one by default."
)
@click.option(
    "--master",
    default="local[2]",
    show_default=True,
    metavar="URL",
    help="Where Spark runs the job, as spark-submit takes it: local[N], spark://…, yarn, k8s://….",
)
@click.option(
    "--spark-conf",
    "spark_settings",
    multiple=True,
    type=_Setting(),
    metavar="NAME=VALUE",
    help="A setting of Spark's; it wins over the pipeline's own. Repeatable.",
)
def pipeline(
    spark_settings: tuple[tuple[str, str], ...],
    notify: tuple[str, ...],
    token_file: Path | None,
    tls_roots: Path | None,
    **given: Any,
) -> None:
    """Run a ready-made PIPELINE: events -> stores -> questions in SQL.

    \b
    Events come from
      rate    Spark's rate source, which counts; its tasks make the events, and nothing else has to run
      files   files that appear in DIR/TOPIC; without --directory they are written to a temporary one
      kafka   topics; without --bootstrap a broker of its own is started (livestate kafka fetches it)
    They are the same for the same seed, whatever the source.

    With --serve a host runs beside the job, and the pipeline's questions are asked every few seconds. Without
    it, serve the changelog on your own hosts: livestate serve --changelog URI --data DIR.

    \b
    Examples:
      livestate pipeline music_charts --serve --duration 60
      livestate pipeline leaderboard --source kafka --serve
      livestate pipeline music_charts --source kafka --bootstrap broker:9092 \\
          --changelog s3://bucket/livestate --checkpoint s3a://bucket/checkpoints/charts \\
          --master spark://spark:7077 --spark-conf spark.executor.memory=4g
    """
    from flight_server.client.connection_options import ConnectionOptions  # noqa: PLC0415  it imports pyarrow.flight
    from spark_pipeline.pipelines.pipeline_process import PipelineOptions, run_pipeline  # noqa: PLC0415  it imports pyspark

    if given["changelog"] is not None:
        open_changelog(given["changelog"])
    if given["serve"]:
        check_extra(HOST, "--serve")
    show_pandas()
    token = os.environ.get("LIVESTATE_TOKEN") or None if token_file is None else None
    hosts = ConnectionOptions.read(notify, token=token, token_file=token_file, tls_roots=tls_roots)
    run_pipeline(PipelineOptions(notify=hosts, spark_settings=dict(spark_settings), **given))


@click.command(cls=_PipelineCommand)
@_pipeline_argument
@click.option("--directory", type=_DIRECTORY, metavar="DIR", help="Write files to DIR/TOPIC.")
@click.option("--bootstrap", metavar="HOST:PORT", help="Write to these Kafka brokers, which have the topics.")
@click.option(
    "--rate",
    default=1000.0,
    show_default=True,
    type=Number(0, MOST_EVENTS, min_open=True),
    help="Events a second.",
)
@_seed_option
def feed(pipeline: Pipeline, directory: Path | None, bootstrap: str | None, rate: float, seed: int) -> None:
    """Write the events of PIPELINE as they happen, until SIGTERM, for a job that runs elsewhere.

    \b
    Examples:
      livestate feed music_charts --directory /var/lib/events
      livestate feed music_charts --bootstrap broker:9092 --rate 5000
    """
    from spark_pipeline.pipelines.feed import run_feed  # noqa: PLC0415  it imports pyspark

    if (directory is None) == (bootstrap is None):
        raise click.UsageError("Say where events go: either --directory or --bootstrap.")
    run_feed(pipeline, directory, bootstrap, rate, seed)


@click.command()
@click.option(
    "--directory",
    type=_DIRECTORY,
    metavar="DIR",
    help="Where the jars go; by default where livestate looks for them (LIVESTATE_KAFKA_JARS).",
)
@click.option("--coordinates", is_flag=True, help="Print what would be fetched, and fetch nothing.")
def kafka(directory: Path | None, coordinates: bool) -> None:
    """Fetch Kafka's jars with Maven: a broker of one node, and Spark's connector to Kafka.

    After that nothing is downloaded. A job of your own needs no jars of these if its session fetches the
    connector itself: name its coordinates in spark.jars.packages.

    \b
    Examples:
      livestate kafka
      livestate kafka --coordinates
      livestate kafka --directory /opt/kafka-jars
    """
    from spark_pipeline.kafka_jars import fetch_jars, jars_place, maven_coordinates  # noqa: PLC0415  it imports pyspark

    if coordinates:
        click.echo("\n".join(maven_coordinates()))
        return
    place = directory or jars_place()
    click.echo(f"{fetch_jars(place)} jars are in {place}")


@click.command()
@click.option(
    "--port", default=9092, show_default=True, type=click.IntRange(1, 65535), help="Port for clients."
)
@click.option("--data", type=_DIRECTORY, help="Directory in which topics stay; a temporary one by default.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME", help="A topic to have from the start. Repeatable."
)
@click.option(
    "--retention",
    "retention_seconds",
    type=click.IntRange(1),
    metavar="SECONDS",
    help="How long messages stay; a week by default.",
)
def broker(port: int, data: Path | None, topics: tuple[str, ...], retention_seconds: int | None) -> None:
    """Run a Kafka broker of one node on this machine until SIGTERM or Ctrl-C, for demos and tests.

    Its jars are fetched by `livestate kafka`. It listens on loopback, and asks for no password.

    \b
    Examples:
      livestate broker
      livestate broker --data /var/lib/kafka --topic plays --retention 600
    """
    from spark_pipeline.kafka_broker import run_broker  # noqa: PLC0415  it imports pyspark

    if topics:
        check_extra(KAFKA, "--topic")
    run_broker(port, data, topics, retention_seconds)


PIPELINE_VERBS = (pipeline, feed, kafka, broker)
