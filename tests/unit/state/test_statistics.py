"""Blocks that an interval leaves: exactly those whose bounds meet it, whatever type stands for them; unknown
ones always.
"""

from __future__ import annotations

import datetime as dt
from itertools import product
from typing import Any

import pyarrow as pa
import pytest

from engine.scan import Interval
from engine.state.statistics import measure

DAY = dt.date(1969, 12, 31)
MOMENT = dt.datetime(1969, 12, 31, 23, 59, 59, 1, dt.UTC)
VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int8(), [-128, -1, 0, 5, 127]),
    (pa.int64(), [-(2**63), -1, 0, 2**53 + 1, 2**63 - 1]),
    (pa.float64(), [float("-inf"), -1.5, 0.0, 2.5, float("inf")]),
    (pa.date32(), [DAY + dt.timedelta(days) for days in range(-2, 3)]),
    (pa.timestamp("us", "UTC"), [MOMENT + dt.timedelta(microseconds=micros) for micros in range(-2, 3)]),
    (pa.string(), ["", "a", "b", "ba", "c"]),
]


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda value: str(value) if isinstance(value, pa.DataType) else ""
)
@pytest.mark.parametrize("with_null", [False, True])
def test_blocks_that_meet_an_interval_stay(kind: pa.DataType, values: list[Any], with_null: bool) -> None:
    spans = [(low, high) for low, high in product(values, values) if low <= high]
    blocks = [pa.array([low, high], kind) for low, high in spans] + [pa.nulls(2, kind)] * with_null
    statistics = measure(blocks, kind)
    for low, high, low_open, high_open in product(
        [None, *values], [None, *values], [False, True], [False, True]
    ):
        bounds = [None if bound is None else pa.scalar(bound, kind) for bound in (low, high)]
        interval = Interval(bounds[0], bounds[1], low_open, high_open)
        stays = [
            (low is None or (most > low if low_open else most >= low))
            and (high is None or (least < high if high_open else least <= high))
            for least, most in spans
        ]
        assert statistics.may_hold(interval).tolist() == stays + [False] * with_null


def test_not_a_number_keeps_its_block() -> None:
    statistics = measure([pa.array([1.0, float("nan")]), pa.array([1.0, 2.0])], pa.float64())
    assert statistics.may_hold(Interval(low=pa.scalar(5.0))).tolist() == [True, False]
