"""Sketches are merged alike however they are cut, stay within their errors, and are those of Apache
DataSketches.
"""

from __future__ import annotations

import math
import struct
from dataclasses import replace
from itertools import pairwise
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from datasketches import hll_sketch, hll_union, kll_doubles_sketch, tgt_hll_type

from engine.state.folds.distinct_sketch import is_distinct_sketch
from engine.state.folds.grouping import Grouping
from engine.state.folds.quantile_sketch import QuantileSketch
from engine.state.folds.sketches import distinct_counts, merged_distinct, merged_quantiles, quantiles
from tests.support.seeds import seeded_generator, seeded_random


def distinct_sketch(values: range, *, is_compact: bool = True) -> bytes:
    sketch = hll_sketch(12, tgt_hll_type.HLL_8)
    for value in values:
        sketch.update(value)
    data: bytes = sketch.serialize_compact() if is_compact else sketch.serialize_updatable()
    return data


def quantile_sketch(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> bytes:
    sketch = kll_doubles_sketch(200)
    sketch.update(values)
    data: bytes = sketch.serialize()
    return data


def one_group(count: int) -> Grouping:
    return Grouping(np.zeros(count, np.intp), 1)


def merge_in_steps(sketches: list[bytes], cuts: list[int], *, distinct: bool) -> bytes:
    """One sketch of all, made a few at a time."""
    merge = merged_distinct if distinct else merged_quantiles
    held: list[bytes] = []
    for start, stop in pairwise([0, *cuts, len(sketches)]):
        part = [*held, *sketches[start:stop]]
        held = merge(pa.array(part, pa.binary()), one_group(len(part))).to_pylist()
    return held[0]


@pytest.mark.parametrize("seed", range(30))
def test_steps_do_not_matter(seed: int) -> None:
    numbers = seeded_random(seed)
    ranges = [
        range(start := numbers.randrange(9000), start + numbers.choice([1, 3, 40, 400, 4000]))
        for _ in range(6)
    ]
    counted = [distinct_sketch(values, is_compact=numbers.random() < 0.5) for values in ranges]
    ordered = [quantile_sketch(np.array(values, np.float64)) for values in ranges]
    cuts = sorted(numbers.sample(range(1, 6), numbers.randint(1, 5)))
    for sketches, distinct in ((counted, True), (ordered, False)):
        assert merge_in_steps(sketches, cuts, distinct=distinct) == merge_in_steps(
            sketches, [], distinct=distinct
        )


def test_distinct_counts_are_close() -> None:
    sketches = [distinct_sketch(range(start, start + 5000)) for start in range(0, 50_000, 2500)]
    merged = merged_distinct(pa.array(sketches), one_group(len(sketches)))
    assert distinct_counts(merged)[0].as_py() == pytest.approx(52_500, rel=0.05)
    few = merged_distinct(pa.array([distinct_sketch(range(7)), distinct_sketch(range(5, 9))]), one_group(2))
    assert distinct_counts(few).to_pylist() == [9]


@pytest.mark.parametrize(("parts", "rows"), [(2, 1), (40, 3), (300, 50), (60, 3000)])
def test_quantiles_are_close_and_data_sketches_reads_them(parts: int, rows: int) -> None:
    values = seeded_generator(parts).normal(size=(parts, rows))
    merged = merged_quantiles(pa.array([quantile_sketch(part) for part in values]), one_group(parts))
    theirs = kll_doubles_sketch.deserialize(merged[0].as_py())
    ordered = np.sort(values.ravel())
    assert (theirs.n, theirs.get_min_value(), theirs.get_max_value()) == (
        len(ordered),
        ordered[0],
        ordered[-1],
    )
    ranks = np.linspace(0.01, 0.99, 99)
    found = quantiles(merged, ranks.tolist())[0].as_py()
    low, high = (
        np.searchsorted(ordered, found, "left") / len(ordered),
        np.searchsorted(ordered, found, "right") / len(ordered),
    )
    allowed = theirs.normalized_rank_error(False)
    assert np.all(low - allowed <= ranks)
    assert np.all(ranks <= high + allowed)


def test_a_quantile_sketch_is_read_and_written_as_it_was() -> None:
    for rows in (1, 2, 199, 5000):
        data = quantile_sketch(np.sort(seeded_generator(rows).normal(size=rows)))
        sketch = QuantileSketch.from_bytes(data)
        assert sketch is not None
        again = QuantileSketch.from_bytes(sketch.to_bytes())
        assert again is not None
        assert again.to_bytes() == sketch.to_bytes()
        assert kll_doubles_sketch.deserialize(sketch.to_bytes()).get_quantiles([0.1, 0.5, 1.0]) == (
            kll_doubles_sketch.deserialize(data).get_quantiles([0.1, 0.5, 1.0])
        )


@pytest.mark.parametrize(
    ("place", "value"), [(4, 0), (8, 7), (16, 200), (18, 0), (18, 2), (18, 200), (20, 255), (21, 1)]
)
def test_a_quantile_sketch_that_does_not_fit_together_counts_as_null(place: int, value: int) -> None:
    """Size, values seen, smallest size, levels, and where levels begin, by their bytes in the preamble."""
    data = bytearray(quantile_sketch(np.arange(300.0)))
    data[place] = value
    merged = merged_quantiles(
        pa.array([bytes(data), quantile_sketch(np.arange(3.0))], pa.binary()), one_group(2)
    )
    found = quantiles(merged, [0.0])[0].as_py()
    assert found == 0.0
    assert kll_doubles_sketch.deserialize(merged[0].as_py()).n in (3, 303)


def test_what_is_no_sketch_counts_as_null() -> None:
    bad = [
        b"",
        b"\x00",
        b"no sketch at all",
        None,
        distinct_sketch(range(3))[:9],
        quantile_sketch(np.arange(500.0))[:40],
    ]
    good, empty = quantile_sketch(np.arange(3.0)), kll_doubles_sketch(200).serialize()
    assert merged_quantiles(pa.array(bad, pa.binary()), one_group(len(bad))).to_pylist() == [None]
    assert quantiles(
        merged_quantiles(pa.array([*bad, good, empty], pa.binary()), one_group(len(bad) + 2)), [0.5]
    ).to_pylist() == [1.0]
    counted = merged_distinct(
        pa.array([*bad, distinct_sketch(range(4))], pa.binary()), one_group(len(bad) + 1)
    )
    assert distinct_counts(counted).to_pylist() == [4]
    assert distinct_counts(merged_distinct(pa.array(bad, pa.binary()), one_group(len(bad)))).to_pylist() == [
        0
    ]


KINDS = (tgt_hll_type.HLL_4, tgt_hll_type.HLL_6, tgt_hll_type.HLL_8)


def any_sketch(numbers: Random, *, distinct: bool) -> bytes:
    """A sound sketch, of any form that there is."""
    if not distinct:
        return quantile_sketch(np.arange(numbers.choice([1, 2, 100, 3000]), dtype=np.float64))
    sketch = hll_sketch(numbers.choice([4, 7, 8, 12]), numbers.choice(KINDS))
    for value in range(numbers.choice([0, 1, 3, 7, 20, 200, 3000, 20_000])):
        sketch.update(value * 31)
    data: bytes = sketch.serialize_compact() if numbers.random() < 0.6 else sketch.serialize_updatable()
    return data


def damage(data: bytes, numbers: Random) -> bytes:
    """Bytes with a few of them changed, most often in the preamble, or cut off."""
    found = bytearray(data)
    for _ in range(numbers.choice([1, 1, 2, 4])):
        if not found:
            break
        place = numbers.randrange(min(len(found), numbers.choice([8, 48, len(found)])))
        match numbers.randrange(4):
            case 0:
                found[place] = numbers.choice([0, 1, 15, 128, 255])
            case 1:
                value = numbers.choice([math.nan, math.inf, -1.0, 1e300, 0.0])
                found[place : place + 8] = struct.pack("<d", value)
            case 2:
                del found[place:]
            case _:
                found[place] = numbers.randrange(256)
    return bytes(found)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("distinct", [True, False])
def test_damaged_sketches_harm_nobody(seed: int, distinct: bool) -> None:
    """DataSketches itself reads beyond its memory: a process that dies here says that something was let
    through.
    """
    numbers = seeded_random(seed)
    merge = merged_distinct if distinct else merged_quantiles
    for _ in range(250):
        sketches = [damage(any_sketch(numbers, distinct=distinct), numbers)]
        if numbers.random() < 0.6:
            sketches.insert(numbers.randrange(2), any_sketch(numbers, distinct=distinct))
        merged = merge(pa.array(sketches, pa.binary()), one_group(len(sketches)))
        if distinct:
            assert distinct_counts(merged)[0].as_py() >= 0
        else:
            quantiles(merged, (0.0, 0.5, 1.0))


@pytest.mark.parametrize("kind", KINDS)
def test_every_form_of_a_distinct_sketch_is_taken(kind: tgt_hll_type) -> None:
    for lg_k in (4, 7, 8, 12):
        sketch = hll_sketch(lg_k, kind)
        for value in range(30_000):
            if value < 50 or value % 1499 == 0:
                assert is_distinct_sketch(sketch.serialize_compact())
                assert is_distinct_sketch(sketch.serialize_updatable())
            sketch.update(value * 31)
        union = hll_union(lg_k)
        union.update(sketch)
        union.update(hll_sketch.deserialize(distinct_sketch(range(500))))
        assert is_distinct_sketch(union.get_result(kind).serialize_compact())


def test_a_sketch_of_more_values_than_can_be_seen_counts_as_null() -> None:
    one, other = (QuantileSketch.from_bytes(quantile_sketch(np.arange(9.0))) for _ in range(2))
    assert one is not None
    assert other is not None
    huge = replace(one, seen=1 << 60)
    assert other.merge(huge) is other
    assert huge.merge(other) is huge
