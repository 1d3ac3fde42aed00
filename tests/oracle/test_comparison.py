"""What the oracle takes for the same answer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from tests.oracle.comparison import difference
from tests.oracle.kinds import Trust

NAN = float("nan")
LISTS = pa.list_(pa.float64())


@pytest.mark.parametrize(
    ("kind", "wanted", "found", "is_same"),
    [
        (pa.float64(), [NAN, 1.0, None], [NAN, 1.0, None], True),
        (pa.float64(), [NAN, 1.0, None], [None, NAN, 1.0], True),
        (pa.float64(), [0.0], [-0.0], False),
        (pa.float32(), [0.5, None], [0.5, None], True),
        (pa.float32(), [0.5, None], [0.5, 0.25], False),
        (LISTS, [[0.0]], [[-0.0]], False),
        (LISTS, [[NAN]], [[NAN]], True),
        (pa.string(), ["a", "b"], ["b", "a"], True),
        (pa.string(), ["a", "b"], ["a", "c"], False),
    ],
)
def test_exact_columns(kind: pa.DataType, wanted: list[Any], found: list[Any], is_same: bool) -> None:
    one, other = (pa.table({"v": pa.array(values, kind)}) for values in (wanted, found))
    assert (difference(one, other, (Trust.EXACT,), ()) is None) == is_same


def test_the_order_counts_where_rows_are_ordered() -> None:
    one, other = (pa.table({"v": values}) for values in (["a", "b"], ["b", "a"]))
    assert difference(one, one, (Trust.EXACT,), (0,)) is None
    assert difference(one, other, (Trust.EXACT,), (0,)) is not None
