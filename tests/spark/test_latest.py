"""The latest row by an order column, and null values as tombstones, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from engine.errors import InvalidInput
from engine.model.kinds import KeyValue
from spark_pipeline import LiveStateSink, StoreOutput
from tests.spark.served import rows_of, serve_group
from tests.spark.streams import FileStream, drain

SCHEMA = "song STRING, seen BIGINT, title STRING"


def test_an_older_row_replaces_nothing_and_a_null_value_removes(
    spark: SparkSession, uri: str, tmp_path: Path
) -> None:
    stream = FileStream(spark, tmp_path / "songs", SCHEMA)
    stream.add(
        [
            {"song": "a", "seen": 5, "title": "five"},
            {"song": "a", "seen": 3, "title": "three"},
            {"song": "b", "seen": 4, "title": "four"},
        ]
    )
    stream.add(
        [
            {"song": "a", "seen": 4, "title": "four"},
            {"song": "b", "seen": 6, "title": None},
            {"song": "c", "seen": 1, "title": None},
        ]
    )
    stream.add([{"song": "b", "seen": 5, "title": "five"}, {"song": "c", "seen": 1, "title": "one"}])
    sink = LiveStateSink(
        changelog=uri,
        store="songs",
        key=["song"],
        kind=KeyValue(order_by="seen"),
        tombstone_when_null="title",
    )
    drain(stream.frame(), sink, tmp_path / "checkpoint", "append")
    with serve_group(uri, tmp_path / "data", "songs") as service:
        found = rows_of(service, "SELECT * FROM songs ORDER BY song")
    assert found == [{"song": "a", "seen": 5, "title": "five"}, {"song": "c", "seen": 1, "title": "one"}]


def test_what_does_not_fit_is_refused(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="either tombstone_column or tombstone_when_null"):
        StoreOutput("songs", key=["song"], tombstone_column="gone", tombstone_when_null="title")
    batch = spark.createDataFrame([("a",)], "song STRING")
    with pytest.raises(
        InvalidInput, match="the column title of tombstone_when_null is not exactly one of the columns song"
    ):
        StoreOutput("songs", key=["song"], tombstone_when_null="title").frame(batch)
