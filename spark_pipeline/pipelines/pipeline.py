"""What a ready-made pipeline is: topics of events, the stores that they keep up to date, and the questions
that people ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType

from engine.errors import InvalidInput
from engine.model.sql_types import result_type_name, sql_type
from flight_server.client.connection_options import ConnectionOptions
from spark_pipeline import LiveStateSink, StoreOutput, write_store
from spark_pipeline.pipelines.draws import Draws

EVENT_TIME = "event_time"
"""Column of every topic: when an event was made."""


@dataclass(frozen=True)
class Topic:
    """One kind of events, wherever they come from.

    Attributes:
        name: Of the Kafka topic, and of the directory of files.
        columns: Their columns, as Spark's DDL says it.
        key: Column whose value is a message's key in Kafka, so that the events of one thing stay in order.
        make: Makes events: columns by name, each as long as the draws.
        share: How many of these events there are for each one of the pipeline's rate.
    """

    name: str
    columns: str
    key: str
    make: Callable[[Draws], Mapping[str, Any]]
    share: float = 1.0

    @property
    def spark_schema(self) -> StructType:
        """The columns as Spark's types."""
        schema = StructType.fromDDL(self.columns)
        assert isinstance(schema, StructType), "a list of columns is a struct"
        return schema

    def events(self, first: int, count: int, seed: int = 1) -> pa.Table:
        """Events by their numbers.

        Args:
            first: Number of the first, from 0.
            count: How many.
            seed: Equal seeds make equal events.
        """
        return pa.table(dict(self.make(Draws(np.arange(first, first + count, dtype=np.int64), seed))))


@dataclass(frozen=True)
class Reference:
    """A table that changes seldom; the job writes it when it starts.

    Attributes:
        output: Its store.
        make: Makes its rows; equal seeds make equal rows.
    """

    output: StoreOutput
    make: Callable[[int], pa.Table]


@dataclass(frozen=True)
class Question:
    """What people ask a pipeline's stores.

    Attributes:
        words: The question.
        sql: The same in SQL.
    """

    words: str
    sql: str


@dataclass(frozen=True)
class Pipeline:
    """A job with its questions.

    Attributes:
        name: What it is called; its store group and its query are, too.
        summary: One line.
        topics: The events that it reads.
        frame: Makes the streaming frame, one for all stores, of the topics' and the references' frames by
            name.
        stores: What a batch of that frame does to which store; all in one commit.
        questions: What people ask.
        references: Tables that the job writes itself.
        output_mode: Spark's, for the frame.
    """

    name: str
    summary: str
    topics: Sequence[Topic]
    frame: Callable[[Mapping[str, DataFrame], Mapping[str, DataFrame]], DataFrame]
    stores: Sequence[StoreOutput]
    questions: Sequence[Question]
    references: Sequence[Reference] = ()
    output_mode: str = "append"


class Source(Protocol):
    """Where events come from."""

    def read(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """A streaming frame with the columns of a topic."""


@dataclass(frozen=True)
class Job:
    """Where a pipeline reads and writes.

    Attributes:
        source: Where the events come from.
        changelog: URI of the changelog.
        checkpoint: Directory of the streaming query's checkpoint.
        notify: Hosts to tell of each commit: their URIs, or how they are reached.
        tables: Directory of Parquet files, one named after each reference; None to make them up.
        seed: Equal seeds make up equal tables.
    """

    source: Source
    changelog: str
    checkpoint: str
    notify: Sequence[str] | ConnectionOptions = ()
    tables: Path | None = None
    seed: int = 1


def start_pipeline(spark: SparkSession, pipeline: Pipeline, job: Job) -> StreamingQuery:
    """Write the reference tables, and start the streaming query.

    Args:
        spark: The session.
        pipeline: What to run.
        job: Where it reads and writes.

    Returns:
        The running query.

    Raises:
        LivestateError: A store exists and is another one, or the changelog cannot be reached.
    """
    references = {
        reference.output.store: _write_reference(spark, reference, job) for reference in pipeline.references
    }
    streams = {topic.name: job.source.read(spark, topic) for topic in pipeline.topics}
    # What a batch leaves after its aggregation is small enough for the driver, whatever the plan's sizes say.
    sink = LiveStateSink(
        changelog=job.changelog, group=pipeline.name, stores=pipeline.stores, path="driver", notify=job.notify
    )
    writer = (
        pipeline.frame(streams, references)
        .writeStream.queryName(pipeline.name)
        .outputMode(pipeline.output_mode)
    )
    return writer.option("checkpointLocation", job.checkpoint).foreachBatch(sink).start()


def _write_reference(spark: SparkSession, reference: Reference, job: Job) -> DataFrame:
    output = reference.output
    table = reference.make(job.seed)
    if job.tables is not None:
        given = _table(job.tables, output.store)
        _check_table(output, given, table.schema)
        table = given
    frame = spark.createDataFrame(table)
    write_store(
        frame,
        changelog=job.changelog,
        store=output.store,
        key=output.key,
        partitions=output.partitions,
        mode="complete",
        is_global=output.is_global,
        notify=job.notify,
    )
    return frame


def _table(directory: Path, store: str) -> pa.Table:
    file = directory / f"{store}.parquet"
    if not file.exists():
        raise InvalidInput(
            f"The directory of tables has no file {file.name}: put it there, or leave the directory out."
        )
    try:
        return pq.read_table(file)
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput(
            f"The file {file.name} in the directory of tables cannot be read as a Parquet file: put a whole "
            "one there."
        ) from error


def _check_table(output: StoreOutput, table: pa.Table, wanted: pa.Schema) -> None:
    """See that a table can take the place of the one that is made up: the pipeline and its questions read the
    columns, and a key that is there twice would count events twice where they are joined with it.
    """
    for field in wanted:
        found = table.schema.field(field.name).type if table.column_names.count(field.name) == 1 else None
        is_alike = pa.types.is_integer if pa.types.is_integer(field.type) else _is_text
        if found is None or not is_alike(found):
            columns = ", ".join(f"{each.name} {sql_type(each.type)}" for each in wanted)
            raise InvalidInput(
                f"The file {output.store}.parquet in the directory of tables needs the columns {columns}: "
                f"{field.name} is {'not there once' if found is None else result_type_name(found)}."
            )
    [key] = output.key
    if pc.count_distinct(table[key], mode="only_valid").as_py() < len(table) - table[key].null_count:
        raise InvalidInput(
            f"The file {output.store}.parquet in the directory of tables has a {key} twice: leave one row of "
            "each in it."
        )


def _is_text(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(arrow_type) or pa.types.is_large_string(arrow_type))
