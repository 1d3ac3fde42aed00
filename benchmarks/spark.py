"""A Spark session, and a stream whose batches are files of plays."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from benchmarks.workload import KeyType, Plays
from tests.support.spark_session import start_session

_SCHEMA = "song_id bigint, genre bigint, royalty double, listens bigint, score double"


@contextmanager
def spark_session(scratch: Path) -> Iterator[SparkSession]:
    """A local session on two cores with the settings that livestate recommends."""
    session = start_session("livestate-benchmarks", scratch, settings={"spark.driver.memory": "4g"})
    try:
        yield session
    finally:
        session.stop()


@dataclass(frozen=True)
class FileStream:
    """Batches that are there before the stream starts.

    Attributes:
        spark: The session.
        directory: Where their Parquet files are.
        files: How many files make a batch.
    """

    spark: SparkSession
    directory: Path
    files: int

    def write(self, number: int, rows: Plays) -> None:
        """Write the rows of a batch.

        Args:
            number: The batch's number; Spark takes the batches in this order.
            rows: The rows.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        batch = rows.to_arrow(KeyType.INT64)
        size = -(-batch.num_rows // self.files)
        for part in range(self.files):
            file = self.directory / f"{number:05d}-{part}.parquet"
            pq.write_table(
                _table(batch.slice(part * size, size)), file, compression="none", use_dictionary=False
            )
            # Spark takes files in the order of their times.
            os.utime(file, (1_700_000_000 + number * self.files + part,) * 2)

    def run(
        self,
        sink: Callable[[DataFrame, int], None],
        checkpoint: Path,
        mode: str = "append",
        query: Callable[[DataFrame], DataFrame] = lambda frame: frame,
    ) -> Sequence[float]:
        """Run a streaming query over all batches.

        Args:
            sink: For foreachBatch.
            checkpoint: A directory for the query alone.
            mode: The query's output mode.
            query: What it makes of its rows.

        Returns:
            How long each batch took, all of its trigger, in seconds.
        """
        frame = (
            self.spark.readStream.schema(_SCHEMA)
            .option("maxFilesPerTrigger", self.files)
            .parquet(str(self.directory))
        )
        writer = (
            query(frame)
            .writeStream.outputMode(mode)
            .foreachBatch(sink)
            .option("checkpointLocation", str(checkpoint))
        )
        running = writer.trigger(availableNow=True).start()
        running.awaitTermination()
        done = [progress for progress in running.recentProgress if progress.numInputRows]
        return [progress.durationMs["triggerExecution"] / 1e3 for progress in done]


def _table(batch: pa.RecordBatch) -> pa.Table:
    return pa.Table.from_batches([batch])
