"""Small stores that go the ways of large ones.

Hosts do less for few rows: they read small stores of joins whole, encode no columns of them, write small
segments through the log, and so on. The stores of tests have few rows, so without this only what is done for
few rows would be tested.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from random import Random
from unittest.mock import patch

from engine.state.state_options import KIB, StateOptions

QUERY_LIMITS: Mapping[str, int] = {
    "engine.coordinator.key_streams.FEW_KEYS": 0,
    "engine.duckdb.engine.FEW_ROWS": 0,
    "engine.duckdb.handover.COMBINED_BYTES": 64,
    "engine.duckdb.handover.MOST_LONG_ROWS": 4,
    "engine.duckdb.handover.MOST_ROWS": 16,
    "engine.exec.engine_query.FEW_JOINED_ROWS": 0,
    "engine.exec.row_selections.MOST_ROWS": 8,
    "engine.plan.partition_pruning.MOST_ENUMERATED": 4,
    "engine.plan.wanted_rows.MOST_POINTS": 4,
    "engine.state.keyed_rows.FEW_KEYS": 0,
    "engine.state.keyed_rows.FEW_KEYS_OF_PARTITION": 1,
    "engine.state.picked_rows.FEW_TEXTS": 2,
    "engine.state.scan_encoding.LEAST_REPEATS": 1,
    "engine.state.scan_pieces.LEAST_ENCODED_ROWS": 1,
    "engine.state.segment.FEW_FLAGS": 4,
    "engine.state.segment_keys.MANY_FILTERED_KEYS": 1,
    "engine.state.sparse_index.MANY_NUMBERS": 32,
    "engine.state.sparse_index.SOME_NEEDLES": 1,
    "engine.state.state_view.POINTS_A_BATCH": 3,
    "engine.state.state_view.SMALL_SCAN_BYTES": 0,
}
"""Limits of what is read, by where they are, and what each is lowered to."""
STATE_LIMITS: Mapping[str, int] = {
    "engine.replica.cohort.EPOCHS_BETWEEN_ADVANCES": 2,
    "engine.replica.cohort.MOST_SEGMENTS": 2,
    "engine.replica.commit_queue.ENOUGH_ROWS_TOGETHER": 2,
    "engine.replica.commit_queue.MOST_EPOCHS_TOGETHER": 2,
    "engine.replica.group_partitions.FAR_BEHIND": 2,
    "engine.replica.recovery.FEW_EPOCHS": 1,
    "engine.state.compaction.SMALLEST_CLASS_ROWS": 4,
    "engine.state.delete_vector.BITS_ONLY_ROWS": 0,
    "engine.state.delete_vector.ROWS_PER_DEAD": 1,
    "engine.state.partition.BUFFERED_BYTES": 1,
    "engine.state.partition.EPOCHS_BETWEEN_NOTES": 2,
    "engine.state.partition.UNLOGGED_BYTES": 1,
    "engine.state.segment_builder.LARGE_SEGMENT_ROWS": 4,
    "engine.state.segment_builder.LEAST_SKETCHED_ROWS": 1,
    "engine.state.segment_store.BUFFERED_BYTES": 1,
    "engine.state.segment_store.UNLOGGED_BYTES": 1,
}
"""Likewise, of what is stored."""
BLOCKS = StateOptions(block_rows=8, fan_out=3)
PAGES = StateOptions(block_rows=8, fan_out=3, paged_rows=8, page_bytes=64, cache_bytes=4 * KIB)
"""Keys do not fit the cache, and are read in pages."""


@contextmanager
def large_ways(random: Random, limits: Mapping[str, int]) -> Iterator[None]:
    """Three times in four lower some of the limits, as chance says."""
    with ExitStack() as resources:
        if random.random() < 0.75:
            for place, limit in limits.items():
                if random.random() < 0.6:
                    resources.enter_context(patch(place, limit))
        yield


def state_options(random: Random) -> StateOptions:
    """How a host lays out what it stores."""
    return PAGES if random.random() < 0.4 else BLOCKS
