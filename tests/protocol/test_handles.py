"""Handles carry values of every type, and the only value of most lookups as a plain field."""

from __future__ import annotations

import decimal
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from engine.model.schema import GroupName, StoreName
from engine.model.table_shapes import TableShape
from flight_server.wire.tickets import Parameters, PlainValue, Statement, execution_ticket, parse_handle

STATEMENT = Statement("SELECT ?", "spark", 2.5)


@pytest.mark.parametrize("value", [0, 7, -(1 << 63), (1 << 63) - 1, "", "é\0'", "x" * 100_000])
def test_one_integer_or_text_is_a_field(value: int | str) -> None:
    bound = STATEMENT.bind(pa.record_batch([pa.array([value])], ["x"]))
    assert bound.parameters == PlainValue(value)
    parsed = parse_handle(bound.to_bytes())
    assert parsed == bound
    assert isinstance(parsed.parameters, PlainValue)
    batch = parsed.parameters.batch()
    assert batch.equals(pa.record_batch([pa.array([value])], ["1"]))


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([7], pa.int32())],
        [pa.array([None], pa.int64())],
        [pa.array([None], pa.string())],
        [pa.nulls(1)],
        [pa.array([True])],
        [pa.array([0.5])],
        [pa.array([decimal.Decimal("1.5")])],
        [pa.array([[1, 2]])],
        [pa.array([7]), pa.array([8])],
    ],
    ids=lambda columns: ", ".join(str(column.type) for column in columns),
)
def test_everything_else_keeps_its_arrow_type(columns: list[pa.Array]) -> None:
    batch = pa.record_batch(columns, [f"p{place}" for place in range(len(columns))])
    parsed = parse_handle(STATEMENT.bind(batch).to_bytes())
    assert isinstance(parsed.parameters, Parameters)
    assert parsed.parameters.batch().equals(batch)


def test_a_value_bound_later_takes_the_place_of_the_first() -> None:
    first = STATEMENT.bind(pa.record_batch({"1": [1]}))
    again = parse_handle(first.bind(pa.record_batch({"1": [0.5]})).to_bytes())
    assert isinstance(again.parameters, Parameters)
    assert parse_handle(again.bind(pa.record_batch({"1": ["a"]})).to_bytes()).parameters == PlainValue("a")


def test_a_ticket_is_the_handle_with_an_id() -> None:
    handle = STATEMENT.bind(pa.record_batch({"1": [1]})).to_bytes()
    parsed = parse_handle(execution_ticket(handle, None))
    assert len(parsed.call_id) == 8
    assert (parsed.sql, parsed.parameters, parsed.expected_shapes) == ("SELECT ?", PlainValue(1), None)


@pytest.mark.parametrize(
    "expected_shapes",
    [
        (),
        (
            TableShape(StoreName("plays"), StoreName("new plays"), 3, GroupName("plays")),
            TableShape(StoreName("x"), StoreName("x"), 2**40, GroupName("y")),
        ),
    ],
)
def test_what_a_client_was_told_goes_with_its_statement(expected_shapes: tuple[TableShape, ...]) -> None:
    assert (
        parse_handle(execution_ticket(STATEMENT.to_bytes(), expected_shapes)).expected_shapes
        == expected_shapes
    )
    bound = replace(STATEMENT, expected_shapes=expected_shapes).bind(pa.record_batch({"1": [1]}))
    assert parse_handle(bound.to_bytes()) == bound
    assert parse_handle(execution_ticket(bound.to_bytes(), None)).expected_shapes == expected_shapes


def test_a_handle_of_a_shape_that_cannot_be_is_refused() -> None:
    name = StoreName("plays")
    damaged = TableShape(name, name, -1, GroupName("plays"))
    with pytest.raises(InvalidInput, match="damaged"):
        parse_handle(replace(STATEMENT, expected_shapes=(damaged,)).to_bytes())
