"""Whether two answers are the same, as far as a query determines its answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from tests.oracle.kinds import Trust

_DAY_NANOSECONDS = 86_400_000_000_000
RELATIVE = 1e-9
ABSOLUTE = 1e-9
"""Sums of rounded values may cancel out: next to zero nothing but their size counts. The generator's numbers
are up to some thousands.
"""


def difference(
    expected: pa.Table, found: pa.Table, trusts: Sequence[Trust], ordered: Sequence[int]
) -> str | None:
    """How an answer differs from the expected one.

    Args:
        expected: What it should be.
        found: The answer.
        trusts: How surely each column is determined.
        ordered: Places of columns that rows are ordered by.

    Returns:
        One line that says what differs; None for equal answers. Names and types are compared exactly, rows as
        a multiset, their order as far as the ordered columns show it. -0.0 differs from 0.0 in columns that
        are exact, floats may be rounded in columns that are close.
    """
    if expected.schema.names != found.schema.names:
        return f"columns {found.schema.names} instead of {expected.schema.names}"
    if expected.schema.types != found.schema.types:
        return (
            f"types {[str(kind) for kind in found.schema.types]} instead of "
            f"{[str(kind) for kind in expected.schema.types]}"
        )
    if expected.num_rows != found.num_rows:
        return f"{found.num_rows} rows instead of {expected.num_rows}"
    if all(map(_are_identical, expected.columns, found.columns)):
        return None
    wanted, got = rows_of(expected, trusts), rows_of(found, trusts)
    if ordered:
        for place, (one, other) in enumerate(zip(wanted, got, strict=True)):
            if any(not _tie(one[column], other[column]) for column in ordered):
                return f"row {place} is {other} instead of {one}: the order differs"
    return _compare_unordered(wanted, got, trusts)


def _are_identical(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns of one type have the same bits in the same order; False where that is not told."""
    kind = one.type
    if pa.types.is_floating(kind):
        bits = pa.int64() if pa.types.is_float64(kind) else pa.int32()
        return bool(one.combine_chunks().view(bits).equals(other.combine_chunks().view(bits)))
    # Arrow takes -0.0 for 0.0 inside of lists and structs.
    return not pa.types.is_nested(kind) and bool(one.equals(other))


def _tie(one: Any, other: Any) -> bool:
    """Whether rows with these values may stand in each other's place: -0.0 ties with 0.0."""
    return bool(one == other or {one, other} == {"-0.0", 0.0})


def _compare_unordered(
    wanted: list[tuple[Any, ...]], got: list[tuple[Any, ...]], trusts: Sequence[Trust]
) -> str | None:
    exact = [place for place, trust in enumerate(trusts) if trust is not Trust.CLOSE]

    def order(row: tuple[Any, ...]) -> tuple[str, str]:
        close = [value for place, value in enumerate(row) if place not in exact]
        return repr([row[place] for place in exact]), repr([_round(value) for value in close])

    for one, other in zip(sorted(wanted, key=order), sorted(got, key=order), strict=True):
        if any(not _same(a, b, trust) for a, b, trust in zip(one, other, trusts, strict=True)):
            return f"a row is {other} instead of {one}"
    return None


def _round(value: Any) -> Any:
    """Close values next to each other, mostly, when rows are sorted by them."""
    if isinstance(value, float) and math.isfinite(value):
        return f"{0.0 if abs(value) < ABSOLUTE else value:+.5e}"
    return value


def rows_of(table: pa.Table, trusts: Sequence[Trust] = ()) -> list[tuple[Any, ...]]:
    """Rows as values that are equal if and only if they mean the same: NaN is itself, and -0.0 is not 0.0,
    nor a day 24 hours, unless they may be.
    """
    columns = []
    for place, column in enumerate(table.columns):
        is_exact = place >= len(trusts) or trusts[place] is Trust.EXACT
        columns.append([_plain(value, is_exact=is_exact) for value in _countable(column).to_pylist()])
    return list(zip(*columns, strict=True)) if columns else [()] * table.num_rows


def _countable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates and times as numbers: years that Python lacks can be among them."""
    kind = column.type
    if pa.types.is_date32(kind):
        return column.cast(pa.int32())
    if pa.types.is_timestamp(kind) or pa.types.is_time64(kind):
        return column.cast(pa.int64())
    if pa.types.is_list(kind) and (
        pa.types.is_date32(kind.value_type) or pa.types.is_timestamp(kind.value_type)
    ):
        return column.cast(pa.list_(pa.int32() if pa.types.is_date32(kind.value_type) else pa.int64()))
    return column


def _plain(value: Any, *, is_exact: bool) -> Any:
    if isinstance(value, float):
        if math.isnan(value):
            return "NaN"
        return "-0.0" if is_exact and value == 0 and math.copysign(1, value) < 0 else value + 0.0
    if isinstance(value, pa.MonthDayNano) and not is_exact:
        return ((30 * value.months + value.days) * _DAY_NANOSECONDS + value.nanoseconds,)
    if isinstance(value, list | tuple):
        return tuple(_plain(item, is_exact=is_exact) for item in value)
    if isinstance(value, dict):
        return tuple((name, _plain(item, is_exact=is_exact)) for name, item in value.items())
    return value


def _same(one: Any, other: Any, trust: Trust) -> bool:
    if trust is Trust.CLOSE and isinstance(one, float) and isinstance(other, float):
        return one == other or math.isclose(one, other, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(_same(a, b, trust) for a, b in zip(one, other, strict=True))
    return bool(one == other and type(one) is type(other))
