"""What hosts say of columns, worked out from their rows."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import pyarrow.compute as pc

from engine.cluster.reports import ColumnReport
from engine.model.column_numbers import column_number, has_numbers
from engine.model.distinct_sketch import has_sketch, sketch_of, unite_sketches


def column_reports(rows: pa.Table) -> Mapping[str, ColumnReport]:
    """What the columns of some rows are like."""
    return {name: _column_report(rows[name]) for name in rows.column_names}


def _column_report(column: pa.ChunkedArray) -> ColumnReport:
    low = high = None
    if has_numbers(column.type):
        bounds = pc.min_max(column)
        low, high = column_number(bounds["min"]), column_number(bounds["max"])
    sketch = unite_sketches(list(map(sketch_of, column.chunks))) if has_sketch(column.type) else None
    return ColumnReport(low, high, sketch)
