"""Output modes of queries, against what stores make of the rows."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from engine.changelog import Changelog
from engine.errors import InvalidInput
from engine.model.kinds import Session
from spark_pipeline import LiveStateSink, StoreOutput, merged
from spark_pipeline.output_modes import check_output_mode
from tests.spark.streams import FileStream, contents, drain

TOTAL = merged.columns(total=merged.sum("count"))
TOTALS = StoreOutput("totals", ["song"], kind=TOTAL)
PEAKS = StoreOutput("peaks", ["song"], kind=merged.columns(most=merged.max("count")))
ASKED = StoreOutput("asked", ["song"], kind=TOTAL, query=lambda batch: batch)
SESSIONS = StoreOutput("sessions", ["song"], kind=Session(1, TOTAL.columns), time="at")
WHOLE = StoreOutput("whole", ["song"], mode="complete")
WHOLE_TOTALS = StoreOutput("whole_totals", ["song"], kind=TOTAL, mode="complete")
PLAIN = StoreOutput("plain", ["song"])
REMOVED = StoreOutput("removed", ["song"], tombstone_column="gone")


@pytest.mark.parametrize("output", [TOTALS, SESSIONS])
@pytest.mark.parametrize("mode", ["Update", "Complete"])
def test_totals_are_not_added_up_again(output: StoreOutput, mode: str) -> None:
    with pytest.raises(InvalidInput, match=f"Store {output.store} adds up what comes"):
        check_output_mode([PLAIN, output], mode, is_aggregated=True)


def test_changed_rows_are_not_all_that_a_store_has() -> None:
    for output in (WHOLE, WHOLE_TOTALS):
        with pytest.raises(
            InvalidInput, match=f"Store {output.store} has the rows of the newest batch alone"
        ):
            check_output_mode([output], "Update", is_aggregated=True)


def test_rows_that_stay_are_told(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        check_output_mode([PLAIN, PEAKS, REMOVED, WHOLE, WHOLE_TOTALS, ASKED], "Complete", is_aggregated=True)
    assert [record.args for record in caplog.records] == [("plain",), ("peaks",)]


def test_what_fits_is_taken_silently(caplog: pytest.LogCaptureFixture) -> None:
    outputs = [TOTALS, PEAKS, ASKED, SESSIONS, WHOLE, WHOLE_TOTALS, PLAIN, REMOVED]
    with caplog.at_level(logging.WARNING):
        check_output_mode(outputs, "Append", is_aggregated=True)
        check_output_mode(outputs, "Append", is_aggregated=False)
        check_output_mode(outputs, "Update", is_aggregated=False)
        check_output_mode([PLAIN, PEAKS, ASKED, REMOVED], "Update", is_aggregated=True)
    assert not caplog.records


def test_a_query_says_its_output_mode(
    spark: SparkSession, uri: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plays = FileStream(spark, tmp_path / "plays", "song STRING")
    plays.add([{"song": "a"}])
    counts = plays.frame().groupBy("song").count()
    sink = LiveStateSink(changelog=uri, store="totals", key=["song"], kind=TOTAL)
    with pytest.raises(StreamingQueryException, match="Store totals adds up what comes, and in output mode"):
        drain(counts, sink, tmp_path / "refused", "update")
    assert Changelog.open(uri).definitions() == {}
    with caplog.at_level(logging.WARNING, "spark_pipeline.output_modes"):
        sink = LiveStateSink(changelog=uri, store="plays", key=["song"])
        drain(counts, sink, tmp_path / "told", "complete")
        plays.add([{"song": "a"}])
        drain(counts, sink, tmp_path / "told", "complete")
    told = [record for record in caplog.records if record.name == "spark_pipeline.output_modes"]
    assert len(told) == 2, "once in a run"


def test_a_table_that_is_joined_may_be_aggregated(spark: SparkSession, uri: str, tmp_path: Path) -> None:
    plays = FileStream(spark, tmp_path / "plays", "song STRING")
    plays.add([{"song": "a"}])
    weights = spark.createDataFrame([("a", 2), ("a", 3)], "song STRING, n BIGINT")
    weighed = plays.frame().join(weights.groupBy("song").agg(F.sum("n").alias("count")), "song")
    sink = LiveStateSink(changelog=uri, store="totals", key=["song"], kind=TOTAL)
    drain(weighed, sink, tmp_path / "checkpoint", "update")
    assert contents(uri, "totals") == {("a",): {"song": "a", "total": 5}}
