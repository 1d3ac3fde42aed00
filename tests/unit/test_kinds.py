"""Definitions of all kinds of stores: stored and read back, their three schemas, and what is refused with
which words.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from engine.errors import InvalidInput
from engine.model.kinds import (
    Behaviour,
    Function,
    KeyValue,
    Kind,
    Merge,
    MergedColumn,
    Retention,
    Session,
    Versioned,
)
from engine.model.schema import StoreDefinition, define_store

TIME = pa.timestamp("us", "UTC")
PARTIAL = [("__average_sum", pa.float64()), ("__average_count", pa.int64())]
AVERAGE = MergedColumn("average", Function.AVG, "rating")
ROWS: dict[str, list[tuple[str, pa.DataType]]] = {
    "key_value": [("k", pa.string()), ("at", TIME), ("n", pa.int64())],
    "merge": [("k", pa.string()), ("n", pa.int64()), *PARTIAL],
    "session": [("k", pa.string()), ("session_start", TIME), ("session_end", TIME), *PARTIAL],
    "versioned": [("k", pa.string()), ("at", TIME), ("n", pa.int64())],
}
BEHAVIOURS = {
    "key_value": Behaviour(KeyValue("at"), Retention(10**6, "at"), is_global=True, in_memory=True),
    "merge": Behaviour(Merge((MergedColumn("n", Function.SUM, "n"), AVERAGE)), Retention(5)),
    "session": Behaviour(Session(60_000_000, (AVERAGE,)), Retention(7, "session_end")),
    "versioned": Behaviour(Versioned("at"), Retention(9, "valid_to")),
}


def define(
    name: str, behaviour: Behaviour | None = None, columns: list[tuple[str, pa.DataType]] | None = None
) -> StoreDefinition:
    return define_store(
        name, pa.schema(columns or ROWS[name]), ["k"], behaviour=behaviour or BEHAVIOURS[name]
    )


@pytest.mark.parametrize("name", ROWS)
def test_a_definition_reads_back(name: str) -> None:
    definition = define(name)
    assert StoreDefinition.from_json(definition.to_json()) == definition
    assert definition.partition_by == ("k",)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (("a\0b", pa.int8()), r"Store odd: The name 'a\\x00b' has a NUL"),
        (("s", pa.struct([("a\0b", pa.int8())])), r"Store odd: The name 'a\\x00b' has a NUL"),
        (("s", pa.struct([("", pa.int8())])), "Store odd: A field of a struct has no name"),
        (("s", pa.map_(pa.int8(), pa.list_(pa.struct([("", pa.int8())])))), "has no name"),
        (("s", pa.dictionary(pa.int8(), pa.struct([("", pa.int8())]))), "has no name"),
    ],
)
def test_names_that_statements_cannot_say_are_refused(column: tuple[str, pa.DataType], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        define_store("odd", pa.schema([("k", pa.int64()), column]), ["k"])


def test_a_store_that_has_such_names_is_read_all_the_same() -> None:
    text = define("key_value").to_json().replace(b'"BIGINT"', rb'"STRUCT(\"\" BIGINT, \"a\u0000b\" BIGINT)"')
    assert StoreDefinition.from_json(text).schema.field("n").type == pa.struct(
        [("", pa.int64()), ("a\0b", pa.int64())]
    )


@pytest.mark.parametrize(
    ("name", "key", "visible", "stored"),
    [
        ("key_value", ("k",), ["k", "at", "n"], ["k", "at", "n"]),
        (
            "merge",
            ("k",),
            ["k", "n", "average"],
            ["k", "n", "average", "__average_sum", "__average_count", "__written"],
        ),
        (
            "session",
            ("k", "session_start"),
            ["k", "session_start", "session_end", "average"],
            ["k", "session_start", "session_end", "average", "__average_sum", "__average_count"],
        ),
        ("versioned", ("k", "at"), ["k", "at", "n", "valid_to"], ["k", "at", "n", "valid_to"]),
    ],
)
def test_three_schemas(name: str, key: tuple[str, ...], visible: list[str], stored: list[str]) -> None:
    definition = define(name)
    assert definition.key == key
    assert definition.row_schema.names == [column for column, _ in ROWS[name]]
    assert definition.schema.names == visible
    assert definition.stored_schema.names == stored


@pytest.mark.parametrize(
    ("name", "kind", "words"),
    [
        ("key_value", KeyValue("nope"), "there is no column nope for order_by"),
        ("merge", Merge((AVERAGE,)), "n is neither in the key nor merged"),
        (
            "key_value",
            Merge((MergedColumn("n", Function.SUM), MergedColumn("m", Function.AVG))),
            "m is folded from __m_sum, __m_count, which the rows lack",
        ),
        ("session", Session(0, (AVERAGE,)), "the gap between sessions must be longer than nothing"),
        (
            "session",
            Session(1.8e9, (AVERAGE,)),  # type: ignore[arg-type]  # as `30 * 60 * 1e6` makes it
            "the gap between sessions is a whole number of microseconds, not 1800000000.0",
        ),
        ("versioned", Versioned("n"), "n is BIGINT, and has to be a TIMESTAMP"),
        ("versioned", Versioned("at", "n"), "the column n is made by the store"),
    ],
)
def test_kinds_that_do_not_fit(name: str, kind: Kind, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        define(name, Behaviour(kind))


@pytest.mark.parametrize(
    ("retention", "words"),
    [
        (Retention(0, "at"), "a retention must be longer than nothing"),
        (Retention(1, "nope"), "there is no column nope among"),
        (Retention(1, "n"), "n is BIGINT, and has to be a TIMESTAMP or DATE"),
    ],
)
def test_retentions_that_do_not_fit(retention: Retention, words: str) -> None:
    with pytest.raises(InvalidInput, match=words):
        define("key_value", Behaviour(retention=retention))


def test_a_time_must_not_place_rows() -> None:
    with pytest.raises(InvalidInput, match="all rows of a key have to lie in one partition"):
        define_store(
            "s",
            pa.schema(ROWS["session"]),
            ["k"],
            partition_by=["k", "session_start"],
            behaviour=BEHAVIOURS["session"],
        )


@pytest.mark.parametrize("key", [["at"], ["at", "k"], ["k", "at", "n"]], ids=", ".join)
def test_a_time_comes_last_in_the_key(key: list[str]) -> None:
    with pytest.raises(InvalidInput, match="and at behind them: name it last, or leave it out"):
        define_store("s", pa.schema(ROWS["versioned"]), key, behaviour=BEHAVIOURS["versioned"])
