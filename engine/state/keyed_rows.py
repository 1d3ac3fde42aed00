"""Rows of many whole keys: each partition is searched once for all of its keys, and what is found is copied
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from engine.model.schema import PartitionId
from engine.state import keys as sort_keys
from engine.state.cache import BlockTable
from engine.state.keys import Keys, Rows
from engine.state.picked_rows import Pick, gather
from engine.state.version import Version

NO_ROW = -1
"""Place of the row of a key that has none."""


class KeyedPicks(NamedTuple):
    """The live rows of some keys.

    Attributes:
        picks: The rows, each once.
        places: For each key, the place of its row among those of all picks; `NO_ROW` where it has none.
    """

    picks: list[Pick]
    places: Rows


def copy_rows(picks: Sequence[Pick], columns: Sequence[int], schema: pa.Schema) -> pa.RecordBatch:
    """Columns of picked rows, in one batch and in the order of the picks.

    Args:
        picks: The rows.
        columns: Places of the columns in the store; at least one.
        schema: Schema of the result, a field a column.
    """
    tables = [pick.segment.whole_table(columns, schema) for pick in picks]
    whole = [table for table in tables if table is not None]
    if tables and len(whole) == len(tables):
        rows = [pick.rows for pick in picks]
        arrays = [_joined_column(place, field.type, whole, rows) for place, field in enumerate(schema)]
    else:
        table = gather(picks, columns, schema).combine_chunks()
        arrays = [
            column.chunk(0) if column.num_chunks else pa.array([], column.type) for column in table.columns
        ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _joined_column(
    place: int, arrow_type: pa.DataType, tables: Sequence[BlockTable], rows: Sequence[Rows]
) -> pa.Array:
    """A column of rows of several tables.

    Args:
        place: Place of the column in the tables.
        arrow_type: Its type.
        tables: The tables.
        rows: For each table, rows of it.
    """
    numbers = [values for table in tables if (values := table.numbers[place]) is not None]
    if len(numbers) < len(tables):
        parts = [
            table.batch.column(place).take(pa.array(some)) for table, some in zip(tables, rows, strict=True)
        ]
        return pa.concat_arrays(parts)
    total = sum(map(len, rows))
    copy = np.empty(total, numbers[0].dtype)
    start = 0
    for values, some in zip(numbers, rows, strict=True):
        stop = start + len(some)
        # Rows are within the table, so nothing is clipped; without a mode numpy copies the target back and
        # forth to spare it from a bad row.
        values.take(some, out=copy[start:stop], mode="clip")
        start = stop
    return pa.Array.from_buffers(arrow_type, total, [None, pa.py_buffer(copy)])


def find_keyed_rows(
    versions: Mapping[PartitionId, Version], needles: Keys, placed: npt.NDArray[np.int32], partitions: int
) -> KeyedPicks:
    """The live rows of whole keys.

    Args:
        versions: The partitions that are seen.
        needles: Sort keys, at least one; they may repeat.
        placed: The partition of each.
        partitions: How many partitions there are.
    """
    distinct, groups = sort_keys.groups_of(needles)
    placed = placed[distinct]
    # By partition, and in each of them by key.
    order = np.argsort(placed, kind="stable")
    needles = sort_keys.take(needles, distinct[order])
    bounds = np.searchsorted(placed[order], np.arange(partitions + 1)).tolist()
    picks: list[Pick] = []
    found: list[Rows] = []
    for number, (start, stop) in enumerate(pairwise(bounds)):
        version = versions.get(PartitionId(number)) if start < stop else None
        if version is None:
            continue
        left, wanted = needles[start:stop], order[start:stop]
        for entry in version.searched:
            there, rows = entry.find_live(left)
            if not len(rows):
                continue
            picks.append(Pick(entry.segment, rows))
            if len(rows) == len(wanted):
                found.append(wanted)
                break
            found.append(wanted[there])
            is_left = np.ones(len(wanted), np.bool_)
            is_left[there] = False
            others = np.flatnonzero(is_left)
            left, wanted = sort_keys.take(left, others), wanted[others]
    places = np.full(len(distinct), NO_ROW)
    if found:
        # Rows come in the order of the picks.
        in_order = np.concatenate(found)
        places[in_order] = np.arange(len(in_order))
    return KeyedPicks(picks, places[groups])
