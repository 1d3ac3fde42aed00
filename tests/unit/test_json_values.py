"""A value of a JSON ticket is that value, or is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from flight_server.server.json_values import json_array

MAP = pa.map_(pa.string(), pa.int64())
PAIR = pa.struct([("x", pa.int64()), ("y", pa.string())])
INT_LIST = pa.list_(pa.int64())
ODD: tuple[Any, ...] = (
    *(None, True, 1, -1, 1.5, 2**63, "", "a", [], {}, [None], [[None]], [[1]], [[1, 2]], {"a": None}),
    *({"a": 1}, {"a": 1.5}, {"x": 1, "y": "a"}, {"x": 1}, {"X": 1, "Y": "a"}, {"x": 1, "y": "a", "z": 2}),
    *([1.5], [True], ["b"], [{"x": 1, "y": None}], [["a", None]], [[None, 1]], [{"a": [1]}], {"": {"": []}}),
)
TYPES = (
    *(pa.int8(), pa.uint64(), pa.float32(), pa.float64(), pa.decimal128(6, 2), pa.bool_(), pa.string()),
    *(pa.binary(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC")),
    *(MAP, PAIR, INT_LIST, pa.list_(MAP), pa.list_(PAIR), pa.struct([("a", MAP)]), pa.map_(pa.int64(), PAIR)),
)


@pytest.mark.parametrize("wanted", TYPES, ids=str)
def test_a_nested_value_is_the_same_in_arrow_or_refused(wanted: pa.DataType) -> None:
    for nested in (pa.list_(wanted), pa.struct([("a", wanted)]), pa.map_(pa.string(), wanted)):
        for value in ODD:
            for around in ([value], {"a": value}):
                try:
                    found = json_array("p", around, nested)[0]
                except InvalidInput as error:
                    assert error.message.startswith("Parameter p cannot be the JSON value ")
                    continue
                assert found.type == nested
                assert _plain(found.as_py(maps_as_pydicts="strict")) in (
                    _plain(around),
                    _plain(_by_key(around)),
                )


def _by_key(value: Any) -> Any:
    """Lists of pairs as objects, wherever they may be entries of a map."""
    if isinstance(value, list) and value and all(isinstance(each, list) and len(each) == 2 for each in value):
        return {key: _by_key(item) for key, item in value}
    if isinstance(value, list):
        return [_by_key(each) for each in value]
    return {key: _by_key(item) for key, item in value.items()} if isinstance(value, dict) else value


def _plain(value: Any) -> Any:
    """What a value is written like: an empty object is an empty map, too."""
    if isinstance(value, list):
        return [_plain(each) for each in value] or "nothing"
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()} or "nothing"
    if isinstance(value, bool | None):
        return value
    if isinstance(value, bytes):
        return value.decode()
    return float(value) if isinstance(value, int | float | Decimal) else str(value)


@pytest.mark.parametrize(
    ("value", "wanted", "found"),
    [
        (1.5, pa.int64(), pa.scalar(1.5)),
        (5, pa.date32(), pa.scalar(5)),
        (2**63, pa.int64(), pa.scalar(2**63, pa.uint64())),
        (2**64, pa.int64(), pa.scalar(Decimal(2**64))),
        (True, pa.int64(), pa.scalar(True)),
        (None, pa.date32(), pa.scalar(None)),
        ("2024-05-17", pa.date32(), pa.scalar(dt.date(2024, 5, 17))),
        ("1.25", pa.decimal128(6, 2), pa.scalar(Decimal("1.25"), pa.decimal128(6, 2))),
        ({"x": 1, "y": None}, PAIR, pa.scalar({"x": 1, "y": None}, PAIR)),
        ({"a": 1}, MAP, pa.scalar([("a", 1)], MAP)),
        ([["a", 1]], MAP, pa.scalar([("a", 1)], MAP)),
        ([1, None], INT_LIST, pa.scalar([1, None], INT_LIST)),
    ],
)
def test_what_a_value_becomes(value: object, wanted: pa.DataType, found: pa.Scalar) -> None:
    assert json_array("p", value, wanted)[0].equals(found)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ([None], MAP),
        ([["a"]], MAP),
        ([[None, 1]], MAP),
        ([1.5], INT_LIST),
        ([True], INT_LIST),
        ([5], pa.list_(pa.date32())),
        ({"X": 1, "Y": "a"}, PAIR),
        ({"x": 1, "y": "a", "z": 5}, PAIR),
        ({"x": 1}, PAIR),
        ({"x": 1.7, "y": "a"}, PAIR),
        ("noon", pa.date32()),
        ([1], pa.int64()),
    ],
)
def test_what_is_refused(value: object, wanted: pa.DataType) -> None:
    with pytest.raises(InvalidInput, match=r"Parameter p cannot be the JSON value .*: the statement wants "):
        json_array("p", value, wanted)


def test_what_nests_as_deeply_as_json_can_is_refused() -> None:
    value: list[Any] = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(InvalidInput, match="cannot be the JSON value"):
        json_array("p", value, MAP)
