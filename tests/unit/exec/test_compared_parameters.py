"""A column of any type, compared in any way with parameters of its type, gives what one DuckDB gives."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from engine.model.schema import define_store
from engine.service import QueryService
from tests.support.memory_source import MemorySource, memory_view

NAN = float("nan")
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int8(), [-128, 0, 127]),
    "small": (pa.uint16(), [0, 1, 65_535]),
    "whole": (pa.int64(), [-(2**63), 0, 2**63 - 1]),
    "large": (pa.uint64(), [0, 1, 2**64 - 1]),
    "short": (pa.float32(), [-0.0, 1.5, NAN]),
    "real": (pa.float64(), [-0.0, 0.1, NAN]),
    "exact": (pa.decimal128(12, 3), [Decimal("-1.500"), Decimal("0.000"), Decimal("123456789.125")]),
    "text": (pa.string(), ["", "a", "é\n"]),
    "raw": (pa.binary(), [b"", b"\x00", b"\xff"]),
    "flag": (pa.bool_(), [False, True, True]),
    "day": (pa.date32(), [dt.date(1969, 12, 31), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    "moment": (pa.timestamp("us"), [-1, 0, 86_400_000_000]),
    "instant": (pa.timestamp("us", "UTC"), [-1, 0, 86_400_000_000]),
    "items": (pa.list_(pa.int64()), [[], [1], [1, None]]),
    "words": (pa.list_(pa.string()), [[], ["a"], ["a", "b"]]),
    "pair": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        [{"x": 1, "y": "a"}, {"x": 1, "y": None}, {"x": None, "y": "a"}],
    ),
    "named": (pa.map_(pa.string(), pa.int64()), [[], [("a", 1)], [("a", None), ("b", 2)]]),
    "deep": (pa.list_(pa.struct([("x", pa.list_(pa.int64()))])), [[], [{"x": [1]}], [{"x": None}]]),
}
CONDITIONS = (
    *(f"{{0}} {sign} $1" for sign in ("=", "<>", "<", "<=", ">", ">=")),
    *("$1 = {0}", "NOT {0} = $1", "{0} IS DISTINCT FROM $1", "{0} IS NOT DISTINCT FROM $1"),
    *("{0} IN ($1)", "{0} NOT IN ($1)", "{0} IN ($1, $2)", "{0} NOT IN ($1, $2)", "{0} IN ($1, NULL)"),
    *("{0} BETWEEN $1 AND $2", "{0} NOT BETWEEN $1 AND $2", "{0} = $1 OR {0} > $2", "{0} = $1 AND k > 0"),
    *("{0} IN [$1, $2]", "{0} = ANY([$1, $2])", "list_contains([$1, $2], {0})"),
)
"""Conditions on a column; `k` is the key."""
ENGINE_REFUSAL = re.compile(r"Invalid Type \[.*\]: Invalid type for BETWEEN")
"""The engine does not know BETWEEN of nested types with constants."""
UNTYPED_REFUSAL = re.compile(
    r"Parameter \d is .* by its values, and its place does not say what it has within: .*|"
    + ENGINE_REFUSAL.pattern
)
"""Where neither the value nor its place has a type."""
LIST_CONDITIONS = ("{0} IN $1", "{0} NOT IN $1", "{0} = ANY($1)", "list_contains($1, {0})")


def _rows() -> pa.Table:
    arrays = [pa.array([*values, None], arrow_type) for arrow_type, values in COLUMNS.values()]
    return pa.Table.from_arrays([pa.array(range(4)), *arrays], names=["k", *COLUMNS])


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    rows = _rows()
    definition = define_store("t", rows.schema, ["k"], partitions=2)
    found = QueryService(MemorySource([memory_view(definition, rows.cast(definition.schema))]))
    try:
        yield found
    finally:
        found.close()


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as found:
        found.execute("SET TimeZone = 'UTC'")
        found.register("t", _rows())
        yield found


def _compare(
    service: QueryService,
    plain: duckdb.DuckDBPyConnection,
    condition: str,
    row: pa.RecordBatch,
    sent: pa.RecordBatch | None = None,
) -> None:
    """Compare an answer with DuckDB's, which is given the values in the types of their columns; sent may be
    the same values in other types.
    """
    given = row if sent is None else sent
    used = given.select([name for name in given.schema.names if f"${name}" in condition])
    plain.register("given", row)
    said = re.sub(r"\$(\d)", r'"\1"', condition)
    expected = plain.execute(f"SELECT k FROM t, given WHERE {said} ORDER BY k").fetchall()
    try:
        with service.execute(f"SELECT k FROM t WHERE {condition} ORDER BY k", used) as result:
            found = result.read_all().column("k").to_pylist()
    except InvalidInput as error:
        assert pa.types.is_nested(row.schema.field(0).type), (condition, row.to_pylist())
        is_typed = "null" not in str(used.schema)
        refusal = ENGINE_REFUSAL if is_typed else UNTYPED_REFUSAL
        assert refusal.fullmatch(error.message), (condition, row.to_pylist())
    else:
        assert found == [key for (key,) in expected], (condition, row.to_pylist())


@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_column_is_compared_with_values(
    column: str, service: QueryService, plain: duckdb.DuckDBPyConnection
) -> None:
    arrow_type, values = COLUMNS[column]
    for pair in [*pairwise(values), (None, values[1]), (values[1], None)]:
        row = pa.RecordBatch.from_arrays([pa.array([value], arrow_type) for value in pair], names=["1", "2"])
        for condition in CONDITIONS:
            _compare(service, plain, condition.format(column), row)


NESTED = [name for name, (arrow_type, _) in COLUMNS.items() if pa.types.is_nested(arrow_type)]


def _narrow(arrow_type: pa.DataType) -> pa.DataType:
    """A type with TINYINT in the place of BIGINT."""
    if pa.types.is_map(arrow_type):
        return pa.map_(arrow_type.key_type, _narrow(arrow_type.item_type))
    if pa.types.is_list(arrow_type):
        return pa.list_(_narrow(arrow_type.value_type))
    if pa.types.is_struct(arrow_type):
        return pa.struct([(field.name, _narrow(field.type)) for field in arrow_type])
    return pa.int8() if arrow_type == pa.int64() else arrow_type


@pytest.mark.parametrize("column", NESTED)
def test_a_client_need_not_know_the_types_within(
    column: str, service: QueryService, plain: duckdb.DuckDBPyConnection
) -> None:
    """What is NULL, or empty, is of no type for Arrow; and a number is as narrow as a client has it."""
    arrow_type, values = COLUMNS[column]
    for pair in [*pairwise(values), (None, values[1]), (values[1], None)]:
        row = pa.RecordBatch.from_arrays([pa.array([value], arrow_type) for value in pair], names=["1", "2"])
        narrow = [pa.array([value], _narrow(arrow_type)) for value in pair]
        # Arrow takes the entries of a map for lists.
        bare = narrow if pa.types.is_map(arrow_type) else [pa.array([value]) for value in pair]
        for condition in CONDITIONS:
            for sent in (narrow, bare):
                given = pa.RecordBatch.from_arrays(sent, names=["1", "2"])
                _compare(service, plain, condition.format(column), row, given)


@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_value_comes_back_as_it_was(column: str, service: QueryService) -> None:
    arrow_type, values = COLUMNS[column]
    for wrapped in (arrow_type, pa.list_(arrow_type), pa.struct([("in", pa.list_(arrow_type))])):
        for value in [*values, None]:
            item = (
                value if wrapped is arrow_type else [value] if pa.types.is_list(wrapped) else {"in": [value]}
            )
            row = pa.RecordBatch.from_arrays([pa.array([item], wrapped)], names=["1"])
            with service.execute("SELECT $1 AS v, k FROM t WHERE k = 1", row) as result:
                found = result.read_all()
            assert found.schema.field("v").type == wrapped
            assert repr(found.column("v").to_pylist()) == repr(row.column(0).to_pylist())


@pytest.mark.parametrize("column", list(COLUMNS))
def test_a_list_of_values_is_one_parameter(
    column: str, service: QueryService, plain: duckdb.DuckDBPyConnection
) -> None:
    arrow_type, values = COLUMNS[column]
    for listed in (values[:1], values[1:], [values[1], None], [None], []):
        row = pa.RecordBatch.from_arrays([pa.array([listed], pa.list_(arrow_type))], names=["1"])
        # Arrow takes the entries of a map for lists, some moments for others, and no number beyond BIGINT.
        is_bare = column not in ("named", "moment", "instant", "large")
        bare = pa.RecordBatch.from_arrays([pa.array([listed])], names=["1"]) if is_bare else row
        for condition in LIST_CONDITIONS:
            _compare(service, plain, condition.format(column), row)
            _compare(service, plain, condition.format(column), row, bare)
