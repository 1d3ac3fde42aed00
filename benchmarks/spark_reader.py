"""How fast Spark reads a store: 10 M rows of five columns from one host, on the same two cores.

    python -m benchmarks spark_reader

`spark.read.format("livestate")` in a local session with two cores, whose tasks read eight partitions over
Flight. Each time the frame is loaded anew, and Spark counts its rows and folds every column: the time is from
`load` to the answer, planning included. Beside it the same with two of the columns, chosen with
`spark.read.schema`.

Checked: every answer, with numpy.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from pyspark.sql import DataFrame, SparkSession

from benchmarks.local_store import local_store
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.spark import spark_session
from benchmarks.timing import median_wall, time_in_turns
from benchmarks.workload import KEYS, STORE, Expected, check, key_values
from spark_pipeline import register

REPETITIONS = 3
TARGET = 2e6
ALL = ("count(*)", "bit_xor(song_id)", "sum(genre)", "sum(royalty)", "sum(listens)", "sum(score)")
TWO = ("count(*)", "sum(genre)", "sum(listens)")


def run(setting: Setting) -> Iterator[Figure]:
    """Rows a second of both."""
    with local_store(setting.directory, setting.scale_number(KEYS)) as store:
        expected = store.expected
    with (
        HostProcess(setting.directory, str(setting.directory / "changelog")) as host,
        spark_session(setting.subdirectory("spark")) as spark,
    ):
        host.wait_until_settled()
        register(spark)
        times = time_in_turns(
            {
                "all five columns": lambda: _check(_load(spark, host.uri), ALL, expected),
                "two columns": lambda: _check(
                    _load(spark, host.uri, "genre bigint, listens bigint"), TWO, expected
                ),
            },
            REPETITIONS,
        )
    for name, spent in times.items():
        seconds = median_wall(spent)
        note = f"{seconds:.2f} s for {expected.keys:,} rows"
        yield Figure(
            "spark_reader", name, expected.keys / seconds, "rows/s", TARGET, True, note, setting.scale
        )


def _load(spark: SparkSession, uri: str, schema: str | None = None) -> DataFrame:
    reader = spark.read.format("livestate").options(uri=uri, store=STORE)
    return (reader if schema is None else reader.schema(schema)).load()


def _check(frame: DataFrame, folds: tuple[str, ...], expected: Expected) -> None:
    found = tuple(frame.selectExpr(*folds).first() or ())
    check(f"{', '.join(folds)} in Spark", found, tuple(_expected_fold(fold, expected) for fold in folds))


def _expected_fold(fold: str, expected: Expected) -> Any:
    if fold == "count(*)":
        return expected.keys
    if fold == "bit_xor(song_id)":
        return int(np.bitwise_xor.reduce(key_values(np.arange(expected.keys)).to_numpy()))
    return getattr(expected, fold.removeprefix("sum(").removesuffix(")")).sum().item()
