"""Where a pipeline's events come from: Spark's rate source, a directory of files that grows, or Kafka. They
are the same events everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.errors import Unavailable
from spark_pipeline.pipelines.draws import Draws
from spark_pipeline.pipelines.pipeline import Topic
from spark_pipeline.type_mapping import arrow_schema

REMOVED = "removed"
"""Column of a compacted topic that says which rows are tombstones."""
_SIGNS = re.compile(r"[\\{}\[\]*?]")
"""What Spark takes for a pattern of names in a path, unless a backslash stands before."""

MESSAGES_PER_BATCH = 1_000_000
_BYTES_PER_BATCH = 16 << 20
"""Of files, which hold up to some two million events then. A batch may go through the driver as it is, and a
job that was away finds all that has come meanwhile.
"""


@dataclass(frozen=True)
class RateSource:
    """Events that Spark counts and its tasks make: nothing else has to run.

    Attributes:
        rows_per_second: How many.
        seed: Equal seeds make equal events.
    """

    rows_per_second: int = 1000
    seed: int = 1

    def read(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """See `Source`."""
        rows = max(1, round(self.rows_per_second * topic.share))
        counted = (
            spark.readStream.format("rate").option("rowsPerSecond", rows).option("numPartitions", 1).load()
        )
        return counted.select("value").mapInArrow(
            _Maker(topic.make, arrow_schema(topic.spark_schema, store=topic.name), self.seed), topic.columns
        )


@dataclass(frozen=True)
class _Maker:
    """Makes the events that have these numbers. Sent to the executors."""

    make: Callable[[Draws], Mapping[str, Any]]
    schema: pa.Schema
    seed: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            events = pa.table(dict(self.make(Draws(batch.column(0).to_numpy(), self.seed))))
            yield from events.cast(self.schema).to_batches()


@dataclass(frozen=True)
class FileSource:
    """Files that appear in a directory, below it one for each topic.

    Attributes:
        directory: Where.
        form: "parquet" or "json", lines of it.
        files_per_batch: How many files a batch has at most; None for as many as have 16 MiB together, or one.
    """

    directory: Path
    form: str = "parquet"
    files_per_batch: int | None = None

    def read(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """See `Source`.

        Raises:
            Unavailable: The directory is not there, and cannot be made.
        """
        directory = self.directory / topic.name
        try:
            # Spark wants it to be there.
            directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Unavailable(
                f"The directory {directory}, where events appear, cannot be made: {error.strerror}."
            ) from error
        reader = spark.readStream.schema(topic.columns).format(self.form)
        # Spark takes one of the two.
        if self.files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", self.files_per_batch)
        else:
            reader = reader.option("maxBytesPerTrigger", _BYTES_PER_BATCH)
        return reader.load(_SIGNS.sub(r"\\\g<0>", str(directory.absolute())))


@dataclass(frozen=True)
class KafkaSource:
    """A topic in Kafka; each message's value is an event as a JSON object.

    Attributes:
        bootstrap: Where brokers are: `host:port`, or several with commas.
        messages_per_batch: How many messages of the topic a batch has at most.
    """

    bootstrap: str
    messages_per_batch: int = MESSAGES_PER_BATCH

    def read(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """See `Source`. Messages without a value have no event and are left out."""
        return _events(self._messages(spark, topic), topic).where("value IS NOT NULL").select("event.*")

    def read_compacted(self, spark: SparkSession, topic: Topic) -> DataFrame:
        """A compacted topic as rows for a store with `tombstone_column`: a message without a value removes
        its key.

        Args:
            spark: The session.
            topic: The topic; its key is a text or a number, written as text.

        Returns:
            The topic's columns, and `removed` (boolean).
        """
        kinds = topic.spark_schema
        key = F.col("key").cast("string").cast(kinds[topic.key].dataType).alias(topic.key)
        others = [F.col("event")[name].alias(name) for name in kinds.names if name != topic.key]
        return _events(self._messages(spark, topic), topic).select(
            key, *others, F.col("value").isNull().alias(REMOVED)
        )

    def _messages(self, spark: SparkSession, topic: Topic) -> DataFrame:
        reader = (
            spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.bootstrap)
            .option("subscribe", topic.name)
            .option("maxOffsetsPerTrigger", self.messages_per_batch)
        )
        # Only a new checkpoint starts here; from then on offsets are Spark's, in the checkpoint.
        return reader.option("startingOffsets", "earliest").load()


def _events(messages: DataFrame, topic: Topic) -> DataFrame:
    return messages.withColumn("event", F.from_json(F.col("value").cast("string"), topic.spark_schema))
