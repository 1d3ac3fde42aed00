"""A real file stream whose batches are exactly the files added to it, and the contents of stores read back
from the changelog.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from engine.changelog import Changelog, Commit
from engine.model.partitioning import partition_of
from engine.model.schema import TOMBSTONE_COLUMN, Epoch, GroupName, StoreName

Row = dict[str, Any]
PATHS = ["driver", "executors"]


@dataclass
class FileStream:
    """JSON files in a directory; Spark makes one batch of each, in the order in which they were added."""

    spark: SparkSession
    directory: Path
    schema: str
    added: list[list[Row]] = field(default_factory=list)

    def add(self, rows: Sequence[Row]) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        number = len(self.added)
        file = self.directory / f".{number:05d}"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(file, (1_700_000_000 + number,) * 2)
        # Spark overlooks names that start with a dot, so it sees whole files only.
        file.rename(self.directory / f"{number:05d}.json")
        self.added.append(list(rows))

    def frame(self) -> DataFrame:
        return (
            self.spark.readStream.schema(self.schema)
            .option("maxFilesPerTrigger", 1)
            .json(str(self.directory))
        )


def start(
    frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path, mode: str = "update"
) -> StreamingQuery:
    return (
        frame.writeStream.outputMode(mode)
        .foreachBatch(sink)
        .option("checkpointLocation", str(checkpoint))
        .start()
    )


def drain(
    frame: DataFrame, sink: Callable[[DataFrame, int], None], checkpoint: Path, mode: str = "update"
) -> None:
    """Run a query until it has done every file there is."""
    query = start(frame, sink, checkpoint, mode)
    try:
        query.processAllAvailable()
    finally:
        query.stop()


def commits(uri: str, group: str) -> list[Commit]:
    """All commits of a group but the fences."""
    changelog = Changelog.open(uri)
    name = GroupName(group)
    found = [
        changelog.read_commit(name, Epoch(epoch)) for epoch in range(1, changelog.newest_epoch(name) + 1)
    ]
    assert all(commit is not None for commit in found)
    return [
        commit for commit in found if commit is not None and (commit.query_id is not None or commit.files)
    ]


def contents(uri: str, store: str) -> dict[tuple[Any, ...], Row]:
    """A store's rows by key, folded from its epochs, each checked to be on the partition that its
    key says.
    """
    changelog = Changelog.open(uri)
    definition = changelog.definition(StoreName(store))
    assert definition is not None
    live: dict[tuple[Any, ...], Row] = {}
    for commit in commits(uri, definition.group):
        if store in commit.replaced:
            live.clear()
        for (_, partition), table in changelog.read_rows(
            commit, changelog.definitions(), lambda name, _: name == store
        ).items():
            for batch in table.to_batches():
                placed = partition_of(
                    [batch.column(name) for name in definition.partition_by], definition.partitions
                )
                assert set(placed.tolist()) == {partition}
            for row in table.to_pylist():
                key = tuple(row[name] for name in definition.key)
                live.pop(key, None)
                if not row.pop(TOMBSTONE_COLUMN, False):
                    live[key] = row
    return live


def sort_by_key(rows: Sequence[Mapping[str, Any]], *key: str) -> dict[tuple[Any, ...], Row]:
    """What a store is to contain: of rows with one key, the last."""
    return {tuple(row[name] for name in key): dict(row) for row in rows}
