"""One action of Spark's for several stores: what it stores is what an action for each stores."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.model.kinds import KeyValue, Session, Versioned
from engine.model.schema import PartitionId, StoreName
from spark_pipeline import LiveStateSink, StoreOutput, merged
from spark_pipeline.row_plans import plan_rows
from tests.spark.streams import PATHS, FileStream, commits, contents, drain

TRADES = (
    "id BIGINT, symbol STRING, at TIMESTAMP, day DATE, price DOUBLE, single FLOAT, amount DECIMAL(8,2), "
    "lots INT, small SMALLINT, tiny TINYINT, raw BINARY, gone BOOLEAN, tags ARRAY<TIMESTAMP>, "
    "place STRUCT<x: INT, y: STRING>, `odd name` BIGINT"
)
MINUTE = 60_000_000
MERGED = merged.columns(
    trades=merged.count(),
    priced=merged.count("price"),
    lots=merged.sum("lots"),
    amount=merged.sum("amount"),
    low=merged.min("price"),
    high=merged.max("price"),
    price=merged.avg("price"),
    opening=merged.first("price", by="at"),
    closing=merged.last("raw", by="at"),
    odd=merged.sum("odd name"),
)
PROJECTIONS = [
    StoreOutput("plain", key=["id"]),
    StoreOutput("tombstones", key=["symbol"], tombstone_column="gone"),
    StoreOutput("nulls", key=["symbol"], tombstone_when_null="price"),
    StoreOutput("replaced", key=["id"], mode="complete"),
    StoreOutput("latest", key=["symbol"], kind=KeyValue(order_by="at")),
    StoreOutput("windows", key=["symbol"], window="window"),
    StoreOutput("versions", key=["symbol"], kind=Versioned("at")),
    StoreOutput("merged", key=["symbol"], kind=MERGED, aggregate_first=False),
    StoreOutput("merged_windows", key=["symbol"], kind=MERGED, window="window", aggregate_first=False),
    StoreOutput(
        "sessions",
        key=["symbol"],
        kind=Session(MINUTE, MERGED.columns),
        time="at",
        aggregate_first=False,
    ),
]


@pytest.fixture
def trades(spark: SparkSession, tmp_path: Path) -> FileStream:
    """Three batches, the last of them empty; some values are null."""
    stream = FileStream(spark, tmp_path / "trades", TRADES)
    for batch in range(2):
        stream.add([_trade(100 * batch + i) for i in range(40)])
    stream.add([])
    return stream


def _trade(number: int) -> dict[str, Any]:
    trade = {
        "id": number,
        "symbol": f"S{number % 7}",
        "at": f"2026-01-01 10:{number % 60:02}:00",
        "day": f"2026-01-{1 + number % 28:02}",
        "price": number / 8,
        "single": number / 4,
        "amount": f"{number}.25",
        "lots": number % 5,
        "small": -number,
        "tiny": number % 100,
        "raw": "AAEC",
        "gone": number % 9 == 0,
        "tags": ["2026-01-01 00:00:00", None],
        "place": {"x": number, "y": None},
        "odd name": number,
    }
    kept = {"id", "symbol", "at"}
    return {
        name: value
        for place, (name, value) in enumerate(trade.items())
        if name in kept or (number + place) % 6
    }


def _windowed_frame(stream: FileStream) -> DataFrame:
    """Trades in windows, with a struct that may be null though its fields may not."""
    spot = F.when(F.col("lots") > 1, F.struct(F.lit(1).alias("x"), F.array(F.lit("a")).alias("names")))
    return stream.frame().withColumn("window", F.window("at", "10 minutes")).withColumn("spot", spot)


def _hide_projections(outputs: Sequence[StoreOutput]) -> list[StoreOutput]:
    """The same stores, whose rows need an action each: nothing is known of a query."""
    return [replace(output, query=lambda batch: batch) for output in outputs]


@pytest.mark.parametrize("path", PATHS)
def test_one_action_stores_what_several_store(trades: FileStream, tmp_path: Path, path: str) -> None:
    found = []
    for name, outputs in {"one": PROJECTIONS, "several": _hide_projections(PROJECTIONS)}.items():
        uri = (tmp_path / name).as_uri()
        sink = LiveStateSink(changelog=uri, group="g", stores=outputs, path=path)
        drain(_windowed_frame(trades), sink, tmp_path / f"checkpoint-{name}", "append")
        changelog = Changelog.open(uri)
        definitions = changelog.definitions()
        rows = [changelog.read_rows(commit, definitions) for commit in commits(uri, "g")]
        found.append((definitions, [commit.replaced for commit in commits(uri, "g")], rows))
    one, several = found
    assert one[:2] == several[:2]
    assert len(one[2]) == len(several[2]) == 3
    for together, apart in zip(one[2], several[2], strict=True):
        assert together.keys() == apart.keys()
        assert all(table.equals(apart[place]) for place, table in together.items())
    assert {store for store, _ in one[2][0]} == {output.store for output in PROJECTIONS}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("counted", [False, True], ids=["one action", "two actions"])
def test_all_stores_get_the_same_rows(
    trades: FileStream, uri: str, tmp_path: Path, path: str, counted: bool
) -> None:
    """Each time that a batch is computed, other ids come out."""
    computed = trades.spark.sparkContext.accumulator(0)

    def note(lots: int) -> int:
        computed.add(1)
        return lots

    frame = trades.frame().select(
        F.expr("uuid()").alias("id"), "symbol", F.udf(note, "int", useArrow=False)("lots").alias("lots")
    )
    stores = [
        StoreOutput("first", key=["id"]),
        StoreOutput("second", key=["id"], tombstone_when_null="symbol"),
    ]
    if counted:
        kind = merged.columns(trades=merged.count())
        stores.append(StoreOutput("third", key=["id"], kind=kind))
    assert len(plan_rows(stores, trades.spark.createDataFrame([], frame.schema))) == 1 + counted
    drain(frame, LiveStateSink(changelog=uri, group="g", stores=stores, path=path), tmp_path / "c", "append")
    found = [contents(uri, output.store).keys() for output in stores]
    assert len(found[0]) == 80
    assert all(ids == found[0] for ids in found)
    assert computed.value == 80, "a batch was computed more than once"


def test_a_frame_that_the_user_persisted_stays_so(trades: FileStream, uri: str, tmp_path: Path) -> None:
    outputs = [
        StoreOutput("plain", key=["id"]),
        StoreOutput("asked", key=["id"], query=lambda batch: batch.where("lots > 1")),
    ]
    sink = LiveStateSink(changelog=uri, group="g", stores=outputs)
    kept: list[tuple[bool, bool]] = []

    def write(batch: DataFrame, number: int) -> None:
        sink(batch, number)
        before = batch.storageLevel.useMemory
        batch.persist()
        # The batch is given to another group, as a job that feeds two has it.
        other(batch, number)
        kept.append((before, batch.storageLevel.useMemory))
        batch.unpersist()

    other = LiveStateSink(changelog=uri, group="h", stores=[replace(o, store=o.store + "2") for o in outputs])
    drain(trades.frame(), write, tmp_path / "checkpoint", "append")
    assert kept == [(False, True)] * 3


def test_stores_with_work_of_their_own_have_an_action_of_their_own(trades: FileStream) -> None:
    own = [
        StoreOutput("asked", key=["id"], query=lambda batch: batch.where("lots > 1")),
        StoreOutput("counted", key=["symbol"], kind=merged.columns(trades=merged.count())),
    ]
    batch = trades.spark.createDataFrame([], _windowed_frame(trades).schema)

    def plans(*outputs: StoreOutput) -> list[list[str]]:
        return [[output.store for output in plan.outputs] for plan in plan_rows(outputs, batch)]

    assert plans(*PROJECTIONS) == [[output.store for output in PROJECTIONS]]
    assert plans(*PROJECTIONS[:2], *own) == [["asked"], ["counted"], ["plain", "tombstones"]]
    assert plans(PROJECTIONS[0], *own) == [["asked"], ["counted"], ["plain"]]
    partial = StoreOutput(
        "partial", key=["id"], kind=merged.columns(lots=merged.max("lots")), is_partial=True
    )
    assert plans(partial, PROJECTIONS[0]) == [["partial", "plain"]]


def test_several_stores_too_big_for_the_driver_go_from_the_executors(
    spark: SparkSession, uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = FileStream(spark, tmp_path / "numbers", "number BIGINT")
    stream.add([{"number": i} for i in range(500)])
    stream.add([{"number": 1000}])
    # 50 MB for two stores, more than maxResultSize, of which the plan says nothing.
    many = (
        stream.frame()
        .withColumn("copy", F.explode(F.sequence(F.lit(0), F.lit(499))))
        .withColumn("text", F.repeat(F.lit("x"), 100))
    )
    stores = [StoreOutput(store, key=["number", "copy"], partitions=2) for store in ("first", "second")]
    # The first batch is larger than what goes through the driver, so that the second does not try it.
    sink = LiveStateSink(changelog=uri, group="g", stores=stores, driver_bytes=1 << 20)
    with caplog.at_level(logging.WARNING, "spark_pipeline"):
        drain(many, sink, tmp_path / "checkpoint", "append")
    assert caplog.text.count("from the executors instead") == 1
    found = commits(uri, "g")
    assert [commit.rows for commit in found] == [500_000, 1000]
    assert all(part.name.startswith("task-") for commit in found for part in commit.files)
    changelog = Changelog.open(uri)
    for commit in found:
        rows = changelog.read_rows(commit, changelog.definitions())
        first, second = (
            [rows[StoreName(store), PartitionId(number)] for number in range(2)]
            for store in ("first", "second")
        )
        assert all(one.equals(other) for one, other in zip(first, second, strict=True))
