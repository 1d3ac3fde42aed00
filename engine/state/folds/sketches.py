"""Sketches by group. They are merged one after the other in Python: a few microseconds each, where all other
aggregates take nanoseconds.

Distinct counts are HyperLogLog sketches of Apache DataSketches as Spark's `hll_sketch_agg` makes them,
quantiles are KLL sketches of doubles as `kll_sketch_agg_double` does. Bytes that are no sketch count as null:
whatever a job wrote must not stop a partition.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np
import pyarrow as pa
from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

from engine.state.folds.distinct_sketch import is_distinct_sketch
from engine.state.folds.grouping import Grouping, valid_rows
from engine.state.folds.quantile_sketch import QuantileSketch

_Sketch = TypeVar("_Sketch")
_FLAGS, _IS_COMPACT = 5, 8
"""Byte and bit of a HyperLogLog sketch that say whether it is compact (PreambleUtil in https://github.com/apache/datasketches-java)."""


def merged_distinct(values: pa.Array, rows: Grouping) -> pa.Array:
    """Merge the HyperLogLog sketches of each group.

    Args:
        values: Serialised sketches, shape (rows,), binary.
        rows: Their groups.

    Returns:
        Shape (groups,); null for a group that has none.
    """
    return _merge_sketches(values, rows, _read_distinct, _union)


def merged_quantiles(values: pa.Array, rows: Grouping) -> pa.Array:
    """Merge the KLL sketches of each group; as `merged_distinct`."""
    return _merge_sketches(values, rows, _read_quantiles, _quantile_bytes)


def distinct_counts(values: pa.Array) -> pa.Array:
    """About how many distinct values each sketch has seen, as `int64`; 0 for null.

    Args:
        values: Serialised sketches, as `merged_distinct` gives them.
    """
    return pa.array([0 if data is None else _estimate(data) for data in values.to_pylist()], pa.int64())


def _estimate(data: bytes) -> int:
    try:
        estimate: float = hll_sketch.deserialize(data).get_estimate()
    except RuntimeError:
        return 0  # its values are such as no hash gives: there is no estimate for them
    return round(estimate)


def quantiles(values: pa.Array, ranks: Sequence[float]) -> pa.Array:
    """Values at some ranks.

    Args:
        values: Serialised KLL sketches.
        ranks: From 0 to 1: the value at a rank is the smallest one that this share of all values does not
            exceed.

    Returns:
        Doubles for one rank, lists of doubles for more; null for null.
    """
    found = [
        None if data is None else kll_doubles_sketch.deserialize(data).get_quantiles(ranks, True)
        for data in values.to_pylist()
    ]
    if len(ranks) == 1:
        return pa.array([None if row is None else float(row[0]) for row in found], pa.float64())
    return pa.array(
        [None if row is None else [float(value) for value in row] for row in found], pa.list_(pa.float64())
    )


def _merge_sketches(
    values: pa.Array,
    rows: Grouping,
    read: Callable[[bytes], _Sketch | None],
    merge: Callable[[Sequence[_Sketch]], bytes],
) -> pa.Array:
    valid = valid_rows(values)
    kept = np.arange(len(values)) if valid is None else np.flatnonzero(valid)
    groups = rows.groups[kept]
    order = np.argsort(groups, kind="stable")
    sketches = [read(data) for data in values.take(pa.array(kept[order])).to_pylist()]
    bounds = np.searchsorted(groups[order], np.arange(rows.count + 1)).tolist()
    merged: list[bytes | None] = []
    for start, stop in pairwise(bounds):
        found = [sketch for sketch in sketches[start:stop] if sketch is not None]
        merged.append(merge(found) if found else None)
    return pa.array(merged, pa.binary())


def _read_distinct(data: bytes) -> bytes | None:
    """A sketch's bytes, in compact form: those of a compact sketch itself, since reading and writing it would
    order its entries anew. None where they are no sketch.
    """
    if not is_distinct_sketch(data):
        return None
    compact: bytes = data if data[_FLAGS] & _IS_COMPACT else hll_sketch.deserialize(data).serialize_compact()
    return compact


def _union(sketches: Sequence[bytes]) -> bytes:
    """The union of sketches, at the precision of the first.

    A union of three is not bit for bit that of two and then one, whose bytes were stored in between; so every
    step goes through bytes.
    """
    return functools.reduce(_union_of_two, sketches)


def _union_of_two(data: bytes, other: bytes) -> bytes:
    sketch = hll_sketch.deserialize(data)
    union = hll_union(sketch.lg_config_k)
    union.update(sketch)
    union.update(hll_sketch.deserialize(other))
    merged: bytes = union.get_result(tgt_hll_type.HLL_8).serialize_compact()
    return merged


def _read_quantiles(data: bytes) -> QuantileSketch | None:
    try:
        return QuantileSketch.from_bytes(data)
    except ValueError:
        return None


def _quantile_bytes(sketches: Sequence[QuantileSketch]) -> bytes:
    return functools.reduce(QuantileSketch.merge, sketches).to_bytes()
