"""How soon what Spark hands over can be read: epochs of 10,000 rows, from foreachBatch to a query's answer.

    python -m benchmarks visibility

A streaming query runs batch after batch through `LiveStateSink`, which notifies a host process; the store has
1 M rows before. Once the sink returns, the host is asked for one row every 2 ms (without a pause, the
questions would take the processor from the epoch), until the answer is of this batch. Two times are taken:
from the moment that the rows are in the driver as Arrow, which is when Spark has handed them over; and from
the call of `foreachBatch`, when Spark has not computed them yet.

Checked: each batch's marked row, and the GROUP BY over all rows at the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.spark import FileStream, spark_session
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import (
    BY_GENRE,
    PARTITIONS,
    STORE,
    check_by_genre,
    fill_store,
    key_values,
    random_upserts,
)
from engine.changelog import Changelog
from flight_server.client.client import Client
from spark_pipeline import LiveStateSink

KEYS = 1_000_000
BATCH_ROWS = 10_000
BATCHES = 100
WARM_UP_BATCHES = 10
TARGET_MILLISECONDS = 50.0
SECONDS_BETWEEN_LOOKS = 0.002
PATIENCE_SECONDS = 30.0
MARK = 1_000_000
"""`listens` of the marked row of batch 0; no other row has as many."""


@dataclass(frozen=True)
class Passage:
    """When a batch was where, by `time.perf_counter`.

    Attributes:
        called: foreachBatch was called.
        in_hand: The rows were in the driver, as Arrow.
        committed: The sink returned.
        visible: A query had returned the batch's row.
    """

    called: float
    in_hand: float
    committed: float
    visible: float


@dataclass
class TimedSink:
    """`LiveStateSink`, and then a look for the batch.

    Attributes:
        sink: The sink.
        client: Asks the host.
        passages: Of each batch so far.
    """

    sink: LiveStateSink
    client: Client
    passages: list[Passage] = field(default_factory=list)

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """As the sink, for foreachBatch."""
        called = time.perf_counter()
        in_hand: list[float] = []
        kind = type(frame)
        to_arrow = kind.toArrow

        def convert_and_note_time(rows: DataFrame) -> pa.Table:
            table = to_arrow(rows)
            in_hand.append(time.perf_counter())
            return table

        # The sink calls it once, of a frame of its own; nothing else tells when Spark is done with its part.
        with patch.object(kind, "toArrow", convert_and_note_time):
            self.sink(frame, batch_id)
        committed = time.perf_counter()
        self._wait_for_batch(batch_id)
        self.passages.append(Passage(called, in_hand[0], committed, time.perf_counter()))

    def _wait_for_batch(self, batch_id: int) -> None:
        (key,) = key_values(np.array([0])).to_pylist()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (
            self.client.query(f"SELECT listens FROM {STORE} WHERE song_id = {key}")
            .read_all()["listens"][0]
            .as_py()
            != MARK + batch_id
        ):
            if time.monotonic() > deadline:
                raise TimeoutError(f"Batch {batch_id} cannot be read after {PATIENCE_SECONDS:g} seconds.")
            time.sleep(SECONDS_BETWEEN_LOOKS)


def run(setting: Setting) -> Iterator[Figure]:
    """Medians of both times."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    batches = WARM_UP_BATCHES + setting.scale_number(BATCHES, least=20)
    with (
        HostProcess(setting.directory, changelog) as host,
        Client(host.uri) as client,
        spark_session(setting.subdirectory("spark")) as spark,
    ):
        stream = FileStream(spark, setting.directory / "input", files=1)
        for number, rows in enumerate(random_upserts(expected.keys, batches, BATCH_ROWS)):
            marked = replace(rows, numbers=np.maximum(rows.numbers, 1), listens=rows.listens.copy())
            marked.numbers[-1], marked.listens[-1] = 0, MARK + number
            stream.write(number, marked)
            expected.upsert(marked)
        host.wait_until_settled()
        sink = LiveStateSink(
            changelog=changelog, store=STORE, key=["song_id"], partitions=PARTITIONS, notify=host.uri
        )
        timed = TimedSink(sink, client)
        stream.run(timed, setting.directory / "checkpoint")
        check_by_genre(client.query(BY_GENRE).read_all(), expected)
    yield from _figures(timed.passages[WARM_UP_BATCHES:], setting)


def _figures(passages: Sequence[Passage], setting: Setting) -> Iterator[Figure]:
    handed = [passage.visible - passage.in_hand for passage in passages]
    called = [passage.visible - passage.called for passage in passages]
    steps = {
        "Spark computes the rows": [passage.in_hand - passage.called for passage in passages],
        "placed and committed": [passage.committed - passage.in_hand for passage in passages],
        "committed to visible": [passage.visible - passage.committed for passage in passages],
    }
    shares = "; ".join(
        f"{name} {milliseconds(percentile(seconds, 0.5)):.1f} ms" for name, seconds in steps.items()
    )
    for what, seconds, target in (
        ("rows in hand", handed, TARGET_MILLISECONDS),
        ("foreachBatch called", called, None),
    ):
        note = (
            f"p99 {milliseconds(percentile(seconds, 0.99)):.0f} ms over {len(seconds)} epochs; medians: "
            f"{shares}"
        )
        p50 = milliseconds(percentile(seconds, 0.5))
        yield Figure(
            "visibility",
            f"{what} to visible, {BATCH_ROWS:,} rows, p50",
            p50,
            "ms",
            target,
            note=note,
            scale=setting.scale,
        )
