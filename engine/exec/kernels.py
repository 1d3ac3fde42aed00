"""Answers that need no engine: Arrow kernels on what partition state returns."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from engine.plan.plans import Summary, SummaryColumn
from engine.plan.predicates import Comparison
from engine.plan.row_tests import (
    EVERY_ROW,
    AllTests,
    AnyTest,
    Containment,
    MemberTest,
    NullTest,
    RowTest,
    TextTest,
    ValueTest,
)
from engine.scan import LIVE_COLUMN, Scan, StoreView

_LIVE = pa.scalar(1, pa.uint8())
_COMPARISONS = {
    Comparison.EQUAL: pc.equal,
    Comparison.LESS: pc.less,
    Comparison.LESS_EQUAL: pc.less_equal,
    Comparison.GREATER: pc.greater,
    Comparison.GREATER_EQUAL: pc.greater_equal,
}
_OPERATORS: Mapping[Comparison, Callable[[int, int], bool]] = {
    Comparison.EQUAL: operator.eq,
    Comparison.LESS: operator.lt,
    Comparison.LESS_EQUAL: operator.le,
    Comparison.GREATER: operator.gt,
    Comparison.GREATER_EQUAL: operator.ge,
}
_CONTAINMENTS: Mapping[Containment, Callable[[Any, str], Any]] = {
    Containment.WHOLE: pc.equal,
    Containment.BEGIN: pc.starts_with,
    Containment.END: pc.ends_with,
    Containment.ANYWHERE: pc.match_substring,
}
Rows = TypeVar("Rows", pa.Table, pa.RecordBatch)


def live_rows(
    scan: Scan, places: Sequence[int], schema: pa.Schema, limit: int | None
) -> Iterator[pa.RecordBatch]:
    """The live rows of a scan, as a result.

    Args:
        scan: A scan of columns, each once.
        places: For each result column, its place in the scan.
        schema: Schema of the result.
        limit: How many rows at most; None for all.

    Returns:
        Batches of `schema`; the scan is read no further than needed.
    """
    dead = LIVE_COLUMN in scan.schema.names
    for batch in scan.batches():
        live = batch.filter(pc.equal(batch.column(LIVE_COLUMN), _LIVE)) if dead else batch
        if limit is not None:
            live = live.slice(0, limit)
            limit -= live.num_rows
        if live.num_rows:
            yield pa.RecordBatch.from_arrays([live.column(place) for place in places], schema=schema)
        if limit == 0:
            return


def passing_rows(rows: Rows, test: RowTest) -> Rows:
    """The rows that pass a test.

    Args:
        rows: Have the columns that are tested.
        test: The test.
    """
    if not rows.num_rows or test == EVERY_ROW:
        return rows
    mask = _mask(rows, test)
    return rows if count_true(mask) == rows.num_rows else rows.filter(mask)


def passing_batches(scan: Scan, columns: Sequence[str], test: RowTest) -> Iterator[pa.RecordBatch]:
    """The live rows of a scan that pass a test, block by block. A block of which all do is not copied, and
    there is none for a block of which no row does.

    Args:
        scan: Has the columns, and those that are tested.
        columns: The columns of the batches.
        test: The test.
    """
    has_dead = LIVE_COLUMN in scan.schema.names
    names = list(columns)
    for batch in scan.batches():
        mask = _live_mask(batch, test, has_dead=has_dead)
        passing = batch.num_rows if mask is None else count_true(mask)
        if not passing:
            continue
        if not names:
            yield pa.RecordBatch.from_struct_array(
                pa.StructArray.from_buffers(pa.struct([]), passing, [None])
            )
            continue
        asked = batch.select(names)
        yield asked if passing == batch.num_rows else asked.filter(mask)


def count_passing(scan: Scan, test: RowTest) -> int:
    """How many live rows of a scan pass a test.

    Args:
        scan: Has the columns that are tested, at least one column.
        test: The test.
    """
    has_dead = LIVE_COLUMN in scan.schema.names
    masks = ((batch, _live_mask(batch, test, has_dead=has_dead)) for batch in scan.batches())
    return sum(batch.num_rows if mask is None else count_true(mask) for batch, mask in masks)


def row_passes(values: Mapping[str, pa.Array], test: RowTest) -> bool:
    """Whether a row passes a test.

    Args:
        values: One value of each column that is tested, as an array.
        test: The test; not `EVERY_ROW`.
    """
    known = _passes_by_value(values, test)
    if known is not None:
        return known
    row = pa.RecordBatch.from_arrays(list(values.values()), names=list(values))
    return count_true(_mask(row, test)) > 0


def _passes_by_value(values: Mapping[str, pa.Array], test: RowTest) -> bool | None:
    """What `row_passes` says, without kernels, which take ten times as long for one value; None where Python
    might compare values in another way.
    """
    match test:
        case NullTest(column, passes_null):
            is_null: bool = values[column].null_count > 0
            return is_null == passes_null
        case ValueTest(column, comparison) if test.number is not None:
            found: int | None = values[column][0].as_py()
            return found is not None and _OPERATORS[comparison](found, test.number)
        case ValueTest(column, Comparison.EQUAL, value) if pa.types.is_string(value.type):
            # By their bytes.
            equals: bool = values[column][0].equals(value)
            return equals
        case AllTests(parts) | AnyTest(parts) if parts:
            passes = [_passes_by_value(values, part) for part in parts]
            if None in passes:
                return None
            return all(passes) if isinstance(test, AllTests) else any(passes)
        case _:
            return None


def count_true(mask: pa.BooleanArray | pa.ChunkedArray) -> int:
    """How many values are true, not false and not NULL."""
    if isinstance(mask, pa.ChunkedArray):
        return sum(chunk.true_count for chunk in mask.chunks)
    count: int = mask.true_count
    return count


def _live_mask(batch: pa.RecordBatch, test: RowTest, *, has_dead: bool) -> pa.BooleanArray | None:
    """Whether each row is live and passes a test, or NULL where it does not; None where all do."""
    live = pc.equal(batch.column(LIVE_COLUMN), _LIVE) if has_dead else None
    if test == EVERY_ROW:
        return live
    mask = _mask(batch, test)
    return mask if live is None else pc.and_kleene(live, mask)


def row_mask(rows: pa.RecordBatch, test: RowTest) -> npt.NDArray[np.bool_]:
    """Whether each row passes a test.

    Args:
        rows: As those of `passing_rows`.
        test: The test.
    """
    if test == EVERY_ROW:
        return np.ones(rows.num_rows, np.bool_)
    mask: npt.NDArray[np.bool_] = pc.fill_null(_mask(rows, test), False).to_numpy(zero_copy_only=False)
    return mask


def _mask(rows: pa.Table | pa.RecordBatch, test: RowTest) -> Any:
    """Whether each row passes, or NULL where it does not."""
    match test:
        case NullTest(column, passes_null):
            values = rows.column(column)
            return values.is_null() if passes_null else values.is_valid()
        case ValueTest(column, comparison, value, passes_nan):
            values = rows.column(column)
            passes = _COMPARISONS[comparison](values, value)
            return pc.or_kleene(passes, pc.is_nan(values)) if passes_nan else passes
        case MemberTest(column, values, is_negated):
            found = rows.column(column)
            is_member = pc.is_in(found, value_set=values)
            return pc.and_(found.is_valid(), pc.invert(is_member)) if is_negated else is_member
        case TextTest(column, containment, text, is_negated):
            passes = _CONTAINMENTS[containment](rows.column(column), text)
            return pc.invert(passes) if is_negated else passes
        case AllTests(parts):
            return reduce(pc.and_kleene, (_mask(rows, part) for part in parts))
        case _:
            if not test.parts:
                return pa.repeat(pa.scalar(False), rows.num_rows)
            return reduce(pc.or_kleene, (_mask(rows, part) for part in test.parts))


@dataclass(frozen=True)
class SelectedParts(Generic[Rows]):
    """Rows that were selected.

    Attributes:
        parts: The rows, in order.
        rows_read: How many were read for them.
    """

    parts: Sequence[Rows]
    rows_read: int


def read_selected(
    rows: Iterator[Rows], test: RowTest, needed: int | None, most: int | None
) -> SelectedParts[Rows] | None:
    """Rows that pass a test, read no further than needed.

    Args:
        rows: Live rows.
        test: The test.
        needed: How many rows are needed; None for all.
        most: How many rows may be read for them, about; None for any number.

    Returns:
        At least as many rows as are needed, or all that pass; None if more would have to be read.
    """
    parts: list[Rows] = []
    passed = read = 0
    for part in rows:
        if most is not None and read > most:
            return None
        parts.append(passing_rows(part, test))
        read += part.num_rows
        passed += parts[-1].num_rows
        if needed is not None and passed >= needed:
            break
    return SelectedParts(parts, read)


def live_batches(scan: Scan) -> Iterator[pa.RecordBatch]:
    """The live rows of a scan, block by block, without `LIVE_COLUMN`."""
    has_dead = LIVE_COLUMN in scan.schema.names
    for batch in scan.batches():
        if has_dead:
            live = pc.equal(batch.column(LIVE_COLUMN), _LIVE)
            yield batch.drop_columns([LIVE_COLUMN]).filter(live)
        else:
            yield batch


def join_by_key(
    rows: pa.Table, column: str, view: StoreView, columns: Sequence[str]
) -> tuple[pa.Table, pa.Table]:
    """Rows with the rows of another store whose key they have.

    Args:
        rows: The rows, few of them.
        column: The column with the key.
        view: The other store, whose key is one column of the same type.
        columns: Columns to read of it, each once.

    Returns:
        Those of the rows that have a partner, and for each its partner: the key and the columns.
    """
    (key,) = view.definition.key
    wanted = rows.column(column).drop_null().unique()
    points = pa.RecordBatch.from_arrays([wanted], names=[key])
    found = view.lookup(tuple(dict.fromkeys((key, *columns))), points)
    partners = pc.index_in(rows.column(column), value_set=found.column(key).combine_chunks(), skip_nulls=True)
    return rows.filter(partners.is_valid()), found.take(partners.drop_null())


def summarize(rows: pa.Table, summaries: Sequence[SummaryColumn]) -> list[pa.Array]:
    """Aggregates of rows.

    Args:
        rows: Have the columns that are aggregated.
        summaries: The aggregates.

    Returns:
        An array of one value for each, of the type that the result has.
    """
    return [_summary(rows, summary.summary, summary.column) for summary in summaries]


def _summary(rows: pa.Table, summary: Summary, column: str | None) -> pa.Array:
    if column is None:
        return pa.array([rows.num_rows], pa.int64())
    values = rows.column(column)
    if summary is Summary.COUNT:
        return pa.array([len(values) - values.null_count], pa.int64())
    if summary is Summary.SUM:
        return _sum(values)
    found = pc.min(values) if summary is Summary.MIN else pc.max(values)
    return pa.array([found], values.type)


def _sum(values: pa.ChunkedArray) -> pa.Array:
    known = values.drop_null() if values.null_count else values
    if pa.types.is_floating(values.type):
        # One after the other, as the engine adds them: other orders round in other ways.
        total = None if not len(known) else float(np.add.accumulate(known.to_numpy())[-1]) + 0.0
        return pa.array([total], pa.float64())
    scale = values.type.scale if pa.types.is_decimal(values.type) else 0
    wide = pa.decimal128(38, scale)
    total = pc.sum(known.cast(wide))
    return pa.array([total], wide)
