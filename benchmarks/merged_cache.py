"""What lookups find in the cache after a merge that is as large as the cache.

    python -m benchmarks merged_cache

Two partitions of 1 GiB of Arrow data each share a cache of 1 GiB. Single keys are looked up in both in turn,
four of five in a fifth of the keys, until the cache has what it can have. Then one of the partitions is
merged as a whole, and lookups of the same kind go on.

Checked: each row that was looked up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.report import Figure
from benchmarks.setting import Setting
from benchmarks.workload import check
from engine.model.schema import Epoch, PartitionId, define_store
from engine.state.cache import ColumnCache
from engine.state.cache_places import CacheKey
from engine.state.partition import PartitionStore
from engine.state.state_options import MIB, StateOptions
from engine.state.state_view import StateView

CACHE_BYTES = 1024 * MIB
INPUTS = 8
WARM_UP, LOOKUPS = 20_000, 5_000
HOT_KEYS, HOT_LOOKUPS = 0.2, 0.8
COLUMNS = ("a", "b", "c", "d")
STORE = define_store(
    "t", pa.schema([("k", pa.int64()), *((name, pa.int64()) for name in COLUMNS)]), ["k"], partitions=1
)
OPTIONS = StateOptions(cache_bytes=CACHE_BYTES, fan_out=2 * INPUTS, merge_bytes=4 * CACHE_BYTES)
Numbers = npt.NDArray[np.int64]


class CountingCache(ColumnCache):
    """Counts what was not there and had to be read. What it counts itself has the keys, too, which are asked
    for in each segment.

    Attributes:
        loads: How many blocks of columns were.
    """

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        self.loads = 0

    def put(self, key: CacheKey, entry: Any) -> None:
        """As `ColumnCache.put`."""
        self.loads += 1
        super().put(key, entry)


def run(setting: Setting) -> Iterator[Figure]:
    """The hit rate after the merge, as a part of that before."""
    cache = CountingCache(setting.scale_number(CACHE_BYTES))
    rows = cache.capacity // (8 * (1 + len(COLUMNS)))
    random = np.random.default_rng(12)
    with ExitStack() as stack:
        partitions = [
            stack.enter_context(
                closing(PartitionStore(STORE, PartitionId(0), setting.directory / name, cache, OPTIONS))
            )
            for name in ("merged", "other")
        ]
        for partition in partitions:
            order = random.permutation(rows)
            for epoch in range(INPUTS):
                partition.apply(Epoch(epoch + 1), [_rows(order[epoch::INPUTS])])
        _hit_rate(cache, partitions, _keys(random, rows, setting.scale_number(WARM_UP)))
        before = _hit_rate(cache, partitions, _keys(random, rows, LOOKUPS))
        segments = len(partitions[0].version.segments)
        partitions[0].compact_fully()
        after = _hit_rate(cache, partitions, _keys(random, rows, LOOKUPS))
    note = (
        f"{100 * before:.1f} % of the values of lookups were there before, {100 * after:.1f} % after "
        f"{segments} segments of {rows * 8 * (1 + len(COLUMNS)) >> 20} MiB together became one"
    )
    yield Figure(
        "merged_cache",
        "hit rate after a merge as large as the cache",
        100 * after / before,
        "% of before",
        90.0,
        True,
        note,
        setting.scale,
    )


def _rows(numbers: Numbers) -> pa.RecordBatch:
    values = [pa.array(numbers * factor) for factor in range(1, 2 + len(COLUMNS))]
    return pa.RecordBatch.from_arrays(values, schema=STORE.row_schema)


def _keys(random: np.random.Generator, rows: int, count: int) -> Numbers:
    """Most of them in the first part of the keys."""
    ends = np.where(random.random(count) < HOT_LOOKUPS, int(rows * HOT_KEYS), rows)
    return (random.random(count) * ends).astype(np.int64)


def _hit_rate(cache: CountingCache, partitions: Sequence[PartitionStore], keys: Numbers) -> float:
    """Look keys up; which part of their values the cache had."""
    views = [
        StateView(STORE, Epoch(INPUTS), 0, {PartitionId(0): partition.version}) for partition in partitions
    ]
    loads = cache.loads
    for place, key in enumerate(keys.tolist()):
        points = pa.record_batch({"k": pa.array([key], pa.int64())})
        found = views[place % len(views)].lookup(COLUMNS, points)
        check(f"the row of {key}", found.to_pylist(), [dict(zip(COLUMNS, _factors(key), strict=True))])
    return 1 - (cache.loads - loads) / (len(keys) * len(COLUMNS))


def _factors(key: int) -> Sequence[int]:
    return [key * factor for factor in range(2, 2 + len(COLUMNS))]
