"""What keeping a store up to date costs a Spark job, against the same job that only brings its rows to the
driver.

    python -m benchmarks spark_job

Two streaming queries in one session on two cores, over the same Parquet files, in batches of 1 M rows of five
columns: one whose `foreachBatch` is `LiveStateSink`, the other's only calls `toArrow()`. They run in turns
after a first run of each that does not count, and of each run the first batch does not count either. The rate
is rows by the time of whole triggers, Spark's own bookkeeping included. A third query has the sink notify a
host that applies the epochs on the same two cores meanwhile.

Checked: a host's GROUP BY over what the sink wrote.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from pathlib import Path

from pyspark.sql import DataFrame

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.spark import FileStream, spark_session
from benchmarks.workload import BY_GENRE, KEYS, PARTITIONS, STORE, Expected, check_by_genre, random_upserts
from flight_server.client.client import Client
from spark_pipeline import LiveStateSink

BATCH_ROWS = 1_000_000
BATCHES = 6
TURNS = 4
FILES = 4
TARGET_SHARE = 0.75


def run(setting: Setting) -> Iterator[Figure]:
    """The sink's rate as a share of the rate of the job that does nothing with its rows."""
    rows = setting.scale_number(BATCH_ROWS)
    expected = Expected(setting.scale_number(KEYS))
    changelog = str(setting.directory / "changelog")
    with spark_session(setting.subdirectory("spark")) as spark:
        stream = FileStream(spark, setting.directory / "input", FILES)
        for number, batch in enumerate(random_upserts(expected.keys, BATCHES, rows)):
            stream.write(number, batch)
            expected.upsert(batch)
        jobs: dict[str, Callable[[], Callable[[DataFrame, int], None]]] = {
            "toArrow": lambda: _only_to_arrow,
            "sink": lambda: _sink(changelog),
        }
        rates = _take_turns(stream, jobs, setting.subdirectory("alone"), rows)
        with HostProcess(setting.directory, changelog) as host, Client(host.uri) as client:
            host.wait_until_settled()
            served = _take_turns(
                stream, {"sink": lambda: _sink(changelog, host.uri)}, setting.subdirectory("served"), rows
            )
            host.wait_until_ready()
            check_by_genre(client.query(BY_GENRE).read_all(), expected)
    yield from _figures(rates["toArrow"], rates["sink"], served["sink"], setting)


def _only_to_arrow(frame: DataFrame, batch_id: int) -> None:
    frame.toArrow()


def _sink(changelog: str, host: str | None = None) -> LiveStateSink:
    return LiveStateSink(
        changelog=changelog, store=STORE, key=["song_id"], partitions=PARTITIONS, notify=host or ()
    )


def _take_turns(
    stream: FileStream,
    jobs: dict[str, Callable[[], Callable[[DataFrame, int], None]]],
    checkpoints: Path,
    rows: int,
) -> dict[str, list[float]]:
    """Rows a second of each batch that counts, by job."""
    rates: dict[str, list[float]] = {name: [] for name in jobs}
    for turn in range(TURNS + 1):
        for name, sink in jobs.items():
            seconds = stream.run(sink(), checkpoints / f"{name}-{turn}")
            if turn:
                rates[name] += [rows / batch for batch in seconds[1:]]
    return rates


def _figures(
    plain: list[float], sink: list[float], served: list[float], setting: Setting
) -> Iterator[Figure]:
    medians = {
        name: statistics.median(rates)
        for name, rates in (("plain", plain), ("sink", sink), ("served", served))
    }
    note = (
        f"median of {len(sink)} batches: {medians['sink'] / 1e6:.2f} M rows/s, toArrow() alone "
        f"{medians['plain'] / 1e6:.2f} M rows/s"
    )
    share = 100 * medians["sink"] / medians["plain"]
    yield Figure(
        "spark_job",
        "the job with the sink",
        share,
        "% of toArrow()",
        100 * TARGET_SHARE,
        True,
        note,
        setting.scale,
    )
    share = 100 * medians["served"] / medians["plain"]
    note = f"{medians['served'] / 1e6:.2f} M rows/s while a host applies the epochs on the same cores"
    yield Figure(
        "spark_job",
        "the job with the sink and a host",
        share,
        "% of toArrow()",
        None,
        True,
        note,
        setting.scale,
    )
