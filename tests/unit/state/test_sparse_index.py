"""A search with a sample finds what a plain one finds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine.state.few_values import FEW_VALUES
from engine.state.sparse_index import MANY_NUMBERS, SOME_NEEDLES, STRIDE, SparseIndex


@pytest.mark.parametrize("many", [STRIDE, MANY_NUMBERS])
@pytest.mark.parametrize("rows", [1, STRIDE - 1, STRIDE, STRIDE + 1, 5 * STRIDE, 1000])
@pytest.mark.parametrize("kind", [np.int64, np.uint64, np.int8])
@pytest.mark.parametrize("together", [SOME_NEEDLES - 1, SOME_NEEDLES, FEW_VALUES + 1])
def test_every_number_and_no_other_is_found(
    rows: int,
    kind: type[np.signedinteger[Any] | np.unsignedinteger[Any]],
    together: int,
    many: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of few numbers, too, which are searched without the sample otherwise."""
    monkeypatch.setattr("engine.state.sparse_index.MANY_NUMBERS", many)
    bounds = np.iinfo(kind)
    numbers = np.unique(np.linspace(bounds.min // 2, bounds.max // 2, rows).astype(kind))
    ends = np.array([bounds.min, bounds.max], kind)
    needles = np.unique(np.concatenate([numbers, numbers + kind(1), numbers - kind(1), ends]))
    needles = np.unique(
        np.concatenate([needles, np.linspace(bounds.min, bounds.max // 2, 2 * SOME_NEEDLES).astype(kind)])
    )
    assert len(needles) >= SOME_NEEDLES
    index = SparseIndex.from_numbers(numbers)
    parts = [needles[start : start + together] for start in range(0, len(needles), together)]
    answers = [(part, *index.find(part)) for part in parts]
    assert np.array_equal(np.concatenate([rows for _, _, rows in answers]), np.arange(len(numbers)))
    assert np.array_equal(np.concatenate([part[places] for part, places, _ in answers]), numbers)
    alone = {needle: index.find_one(needle) for needle in needles.tolist()}
    assert {needle: row for needle, row in alone.items() if row is not None} == {
        number: row for row, number in enumerate(numbers.tolist())
    }


def test_few_needles_are_found_too() -> None:
    index = SparseIndex.from_numbers(np.arange(0, 1000, 10))
    places, rows = index.find(np.array([-1, 0, 5, 990, 995]))
    assert places.tolist() == [1, 3]
    assert rows.tolist() == [0, 99]
