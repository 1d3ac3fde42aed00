"""Merge stores: how fast partial rows are folded, and what a job costs whose state is the store instead of
Spark's.

    python -m benchmarks merge_store

Folding: epochs of 1 M partial rows onto 1 M keys (int64, eight partitions, two threads), five merged columns:
two sums, a count and two maxima. The clock runs from the moment that the follower is told of an epoch until
it can be read and compaction rests; reading the changelog is part of it.

The job: streaming queries in one session on two cores over the same Parquet files, batches of 1 M events onto
1 M keys. One has `LiveStateSink` with a merge store; the other is `groupBy().agg()` of the same five
aggregates on Spark's RocksDB state store, in update mode, with upserts of its results into a key-value store.
The sink writes events as they are, since few keys are twice in a batch (`aggregate_first=False`); a run in
which Spark aggregates each batch first is in the note. Of each the first batch does not count. A follower
then applies what they wrote and rests until it has given back what it does not need; the sizes of its data
directories and of Spark's state are taken.

Checked: the store after each part against DuckDB's aggregation of all rows, row by row.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from benchmarks.local_store import host_like_interpreter
from benchmarks.report import Figure
from benchmarks.setting import Setting
from benchmarks.spark import FileStream, spark_session
from benchmarks.timing import Spent, stopwatch
from benchmarks.workload import PARTITIONS, key_values, random_upserts
from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour
from engine.model.schema import GroupName, define_store
from engine.replica.compactor import REST_SECONDS
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from spark_pipeline import LiveStateSink, merged

KEYS = 1_000_000
EPOCHS = 10
BATCHES = 5
FILES = 4
FOLD_TARGET = 1.5e6
SPEED_TARGET = 5.0
DISK_TARGET = 50.0
SECONDS_TO_GIVE_BACK = 15.0
STORE = "totals"
KIND = merged.columns(
    plays=merged.count(),
    royalty=merged.sum("royalty"),
    listens=merged.sum("listens"),
    best=merged.max("score"),
    genre=merged.max("genre"),
)
AGGREGATES = (
    "count(*)::BIGINT AS plays, sum(royalty) AS royalty, sum(listens)::BIGINT AS listens, "
    "max(score) AS best, max(genre) AS genre"
)
PARTIALS = pa.schema(
    [
        ("song_id", pa.int64()),
        ("plays", pa.int64()),
        ("royalty", pa.float64()),
        ("listens", pa.int64()),
        ("best", pa.float64()),
        ("genre", pa.int64()),
    ]
)
_TIMEOUT_SECONDS = 900.0
_STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def run(setting: Setting) -> Iterator[Figure]:
    """Folding, then the job."""
    yield _measure_folds(setting)
    yield from _job(setting)


# ---- folding


def _measure_folds(setting: Setting) -> Figure:
    directory, keys = setting.subdirectory("folding"), setting.scale_number(KEYS)
    changelog = Changelog.open(str(directory / "changelog"))
    definition = define_store(STORE, PARTIALS, ["song_id"], partitions=PARTITIONS, behaviour=Behaviour(KIND))
    random = np.random.default_rng(7)
    times: list[Spent] = []
    epochs: list[pa.RecordBatch] = []
    with (
        open_appender(changelog, [definition]) as appender,
        _run_follower(changelog, directory / "data", STORE) as apply,
    ):
        for _ in range(EPOCHS + 1):
            epochs.append(_partial_rows(keys, random))
            appender.append({STORE: epochs[-1]})
            with stopwatch() as spent:
                follower = apply()
            times.append(spent)
        with closing(QueryService(follower)) as service:
            found = service.execute(f"SELECT * FROM {STORE} ORDER BY song_id").read_all()
    given = pa.Table.from_batches(epochs).rename_columns(
        ["song_id", "plays", "royalty", "listens", "score", "genre"]
    )
    _check(found, given, AGGREGATES.replace("count(*)", "sum(plays)"))
    total = sum(times[1:], Spent())
    note = (
        f"{EPOCHS * keys / total.cpu / 1e6:.2f} M rows per CPU second; slowest epoch "
        f"{keys / max(t.wall for t in times[1:]) / 1e6:.2f} M rows/s"
    )
    return Figure(
        "merge_store",
        "partial rows folded",
        EPOCHS * keys / total.wall,
        "rows/s",
        FOLD_TARGET,
        True,
        note,
        setting.scale,
    )


def _partial_rows(keys: int, random: np.random.Generator) -> pa.RecordBatch:
    """A partial row for each key, in random order; fractions are multiples of 1/256, whose sums are exact."""
    columns = [
        random.integers(1, 5, keys),
        random.integers(0, 1 << 16, keys) / 256,
        random.integers(0, 10_000, keys),
        random.integers(0, 1 << 16, keys) / 256,
        random.integers(0, 50, keys),
    ]
    return pa.RecordBatch.from_arrays(
        [key_values(random.permutation(keys)), *(pa.array(column) for column in columns)], schema=PARTIALS
    )


@contextmanager
def _run_follower(
    changelog: Changelog, data: Path, group: str, poll_seconds: float = 3600.0
) -> Iterator[Callable[[], Follower]]:
    """A follower; the call that it gives brings it up to date and to rest."""
    follower = Follower(changelog, data, FollowerOptions(poll_seconds=poll_seconds))

    def apply() -> Follower:
        follower.notify()
        newest = changelog.newest_epoch(GroupName(group))
        if not follower.wait_for(
            GroupName(group), newest, _TIMEOUT_SECONDS
        ) or not follower.wait_until_compact(_TIMEOUT_SECONDS):
            raise SystemExit("The follower did not catch up.")
        return follower

    with host_like_interpreter():
        follower.start()
        try:
            yield apply
        finally:
            follower.stop()


def _check(found: pa.Table, events: pa.Table, aggregates: str) -> None:
    """Compare a store with DuckDB's aggregation of all rows that went into it."""
    with duckdb.connect() as connection:
        connection.register("events", events)
        expected = connection.sql(
            f"SELECT song_id, {aggregates} FROM events GROUP BY song_id ORDER BY song_id"
        ).to_arrow_table()
    columns = expected.schema.names
    if not found.select(columns).cast(expected.schema).equals(expected):
        raise SystemExit("The merge store has other rows than DuckDB's aggregation.")


# ---- the job


def _job(setting: Setting) -> Iterator[Figure]:
    directory, rows = setting.subdirectory("job"), setting.scale_number(KEYS)
    batches = [batch.to_arrow() for batch in random_upserts(rows, BATCHES, rows, seed=11)]
    uris = {name: str(directory / f"changelog-{name}") for name in ("merge", "aggregated", "spark")}
    with spark_session(setting.subdirectory("spark")) as spark:
        spark.conf.set("spark.sql.streaming.stateStore.providerClass", _STATE_STORE)
        stream = FileStream(spark, directory / "input", FILES)
        for number, batch in enumerate(random_upserts(rows, BATCHES, rows, seed=11)):
            stream.write(number, batch)
        merging = stream.run(
            _merge_sink(uris["merge"], aggregate_first=False), directory / "checkpoint-merge"
        )[1:]
        aggregating = stream.run(
            _merge_sink(uris["aggregated"], aggregate_first=True), directory / "checkpoint-aggregated"
        )[1:]
        stateful = _run_stateful_job(spark, stream, uris["spark"], directory / "checkpoint-spark")[1:]
    events = pa.Table.from_batches(batches)
    sizes = {name: _state_size(uris[name], directory / f"data-{name}", events) for name in uris}
    sparks_own = _size(directory / "checkpoint-spark" / "state")
    yield _speed_figure(merging, aggregating, stateful, setting)
    yield _disk_figure(sizes["merge"], sizes["spark"], sparks_own, setting)


def _merge_sink(uri: str, *, aggregate_first: bool) -> LiveStateSink:
    return LiveStateSink(
        changelog=uri,
        store=STORE,
        key=["song_id"],
        kind=KIND,
        partitions=PARTITIONS,
        aggregate_first=aggregate_first,
    )


def _run_stateful_job(spark: SparkSession, stream: FileStream, uri: str, checkpoint: Path) -> Sequence[float]:
    """The job that keeps its aggregates in Spark; seconds of its batches."""

    def totals(frame: DataFrame) -> DataFrame:
        aggregates = [
            F.count(F.lit(1)).alias("plays"),
            F.sum("royalty").alias("royalty"),
            F.sum("listens").alias("listens"),
        ]
        return frame.groupBy("song_id").agg(
            *aggregates, F.max("score").alias("best"), F.max("genre").alias("genre")
        )

    return stream.run(
        LiveStateSink(changelog=uri, store=STORE, key=["song_id"], partitions=PARTITIONS),
        checkpoint,
        "update",
        totals,
    )


def _state_size(uri: str, data: Path, events: pa.Table) -> int:
    """Bytes of the data directory of a host that rests, after the store's rows have been checked."""
    changelog = Changelog.open(uri)
    with _run_follower(changelog, data, STORE, poll_seconds=1.0) as apply:
        with closing(QueryService(apply())) as service:
            found = service.execute(f"SELECT * FROM {STORE} ORDER BY song_id").read_all()
        _check(found, events, AGGREGATES)
        time.sleep(REST_SECONDS + SECONDS_TO_GIVE_BACK)
        return _size(data)


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())


def _speed_figure(
    merging: Sequence[float], aggregating: Sequence[float], stateful: Sequence[float], setting: Setting
) -> Figure:
    ours, also, theirs = (statistics.median(seconds) for seconds in (merging, aggregating, stateful))
    note = (
        f"medians of {len(merging)} batches: {ours:.2f} s with the merge store, {also:.2f} s where Spark "
        "aggregates each batch first, "
        f"{theirs:.2f} s with Spark's state store and upserts"
    )
    return Figure(
        "merge_store",
        "1 M events onto 1 M keys",
        theirs / ours,
        "times as fast",
        SPEED_TARGET,
        True,
        note,
        setting.scale,
    )


def _disk_figure(merged_bytes: int, upserted: int, sparks: int, setting: Setting) -> Figure:
    share = 100 * merged_bytes / (upserted + sparks)
    note = (
        f"{merged_bytes / 1e6:.0f} MB; Spark's state {sparks / 1e6:.0f} MB and the upserted store "
        f"{upserted / 1e6:.0f} MB"
    )
    return Figure(
        "merge_store",
        "state on disk",
        share,
        "% of Spark's state and the store",
        DISK_TARGET,
        False,
        note,
        setting.scale,
    )
