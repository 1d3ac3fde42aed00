"""What partitions have read of a changelog, and what is left."""

from __future__ import annotations

import pyarrow as pa

from engine.model.schema import Epoch
from engine.replica.build_meter import BuildMeter

HALF = 0.5


class Clock:
    """A clock that is set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def figures(meter: BuildMeter) -> tuple[int, int | None, float | None]:
    found = meter.progress(Epoch(1), Epoch(9), None, HALF)
    return found.bytes_done, found.bytes_left, found.bytes_per_second


def test_a_snapshot_and_the_epochs_behind_it() -> None:
    clock = Clock()
    meter = BuildMeter(clock)
    assert figures(meter) == (0, None, None)
    meter.aim(Epoch(9), 10_000)
    meter.begin_step(written=6_000, nbytes=2_000, own_bytes=1_000)
    assert figures(meter) == (0, 3_000, None)  # half of the snapshot, and of 4,000 bytes behind it
    clock.seconds = 10.0
    meter.count(250)
    assert figures(meter) == (250, 2_750, 25.0)
    meter.count(10**9)  # more than there is, as rows in memory can take
    assert figures(meter)[:2] == (1_000, 2_000)
    meter.end_step()
    assert figures(meter)[:2] == (1_000, 2_000)
    meter.begin_step(written=7_000, nbytes=1_000, own_bytes=0)
    meter.count(100)
    assert figures(meter)[:2] == (1_000, 2_000)
    meter.end_step()
    assert figures(meter)[:2] == (1_500, 1_500)
    meter.rest()
    assert figures(meter) == (0, 1_500, None)


def test_a_step_that_failed_is_counted_once() -> None:
    meter = BuildMeter(Clock())
    meter.aim(Epoch(9), 1_000)
    for _ in range(2):
        meter.begin_step(written=1_000, nbytes=1_000, own_bytes=100)
        meter.count(70)
        assert figures(meter)[:2] == (350, 150)
    meter.end_step()
    assert figures(meter)[:2] == (500, 0)


def test_a_target_whose_size_is_not_known() -> None:
    meter = BuildMeter(Clock())
    meter.begin_step(written=1_000, nbytes=1_000, own_bytes=100)
    meter.aim(Epoch(9), None)
    assert figures(meter)[:2] == (0, None)


def test_rows_are_counted_while_they_are_read() -> None:
    meter = BuildMeter(Clock())
    meter.aim(Epoch(9), 0)
    batch = pa.record_batch({"n": pa.array(range(10), pa.int64())})
    for stored, after in ((100, [40, 50]), (1_000, [40, 500])):
        # They may take more in memory than where they are stored, or less.
        meter.begin_step(written=0, nbytes=stored, own_bytes=stored)
        counted = meter.count_batches([batch, batch], stored)
        found = []
        while next(counted, None) is not None:
            found.append(figures(meter)[0])
        found.append(figures(meter)[0])
        assert found == [0, *after]
