"""One key and a range of times: a slice of its rows, wherever segments begin and end."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.model.schema import Epoch, define_store
from engine.scan import Interval, RowFilter
from tests.support.partitions import new_partition, view_of

TIME = pa.timestamp("us")
SCHEMA = pa.schema([("s", pa.string()), ("start", TIME), ("end", TIME), ("n", pa.int64())])
WINDOWS = define_store("windows", SCHEMA, ["s", "start", "end"], partition_by=["s"], partitions=1)
EVENTS = define_store("events", SCHEMA, ["s", "start"], partition_by=["s"], partitions=1)
Row = tuple[str, int, int]
ROWS = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["a", "a\x00", "b"]), st.integers(0, 6), st.integers(0, 3)), max_size=8
    ),
    min_size=1,
    max_size=6,
)
BOUND = st.none() | st.integers(-1, 7)


def interval(low: int | None, high: int | None, *, is_open: bool) -> Interval:
    low_bound, high_bound = (None if bound is None else pa.scalar(bound, TIME) for bound in (low, high))
    return Interval(low_bound, high_bound, is_open, is_open)


@settings(max_examples=60)
@given(ROWS, BOUND, BOUND, BOUND, st.booleans(), st.lists(st.sampled_from(["a", "b", "c"]), max_size=3))
def test_a_key_and_a_time(
    epochs: list[list[Row]],
    low: int | None,
    high: int | None,
    end: int | None,
    is_open: bool,
    asked: list[str],
) -> None:
    points = pa.RecordBatch.from_arrays([pa.array(asked, pa.string())], ["s"])
    wanted = RowFilter(
        points, {"start": interval(low, high, is_open=is_open), "end": interval(None, end, is_open=is_open)}
    )
    for definition in (WINDOWS, EVENTS):
        expected: dict[Row | tuple[str, int], tuple[Row, int]] = {}
        with new_partition(definition) as store:
            for number, rows in enumerate(epochs):
                columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
                arrays = [
                    pa.array(columns[0], pa.string()),
                    *(pa.array(times, pa.int64()).cast(TIME) for times in columns[1:]),
                ]
                batch = pa.RecordBatch.from_arrays(
                    [*arrays, pa.array([number] * len(rows), pa.int64())], schema=definition.row_schema
                )
                store.apply(Epoch(number + 1), batch if rows else None)
                store.compact()
                expected |= {(row if definition is WINDOWS else row[:2]): (row, number) for row in rows}
            table = view_of(store, definition).scan(SCHEMA.names, wanted).to_table()
        # What lies outside the intervals may be there or not; nothing may be there twice, and nothing of
        # other keys.
        assert pc.all(pc.is_in(table["s"], pa.array(asked, pa.string()))).as_py() in (True, None)
        values = [
            (table[name] if name == "s" else table[name].cast(pa.int64())).to_pylist()
            for name in SCHEMA.names
        ]
        found = [((s, start, last), n) for s, start, last, n in zip(*values, strict=True)]
        assert sorted(
            entry for entry in found if matches(entry[0], low, high, end, is_open=is_open)
        ) == sorted(
            entry
            for entry in expected.values()
            if entry[0][0] in asked and matches(entry[0], low, high, end, is_open=is_open)
        )


def matches(row: Row, low: int | None, high: int | None, end: int | None, *, is_open: bool) -> bool:
    shift = 1 if is_open else 0
    _, start, last = row
    return (
        (low is None or start >= low + shift)
        and (high is None or start <= high - shift)
        and (end is None or last <= end - shift)
    )
