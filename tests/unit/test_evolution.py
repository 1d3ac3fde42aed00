"""Migrations as functions of definitions and rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.errors import Corrupt, InvalidInput
from engine.model.columns import MAX_COLUMN_NUMBER, Column, widens
from engine.model.kinds import Behaviour, Function, KeyValue, Merge, MergedColumn, Retention, Versioned
from engine.model.migration import (
    AddColumn,
    Change,
    DropColumn,
    RenameColumn,
    WidenColumn,
    convert_rows,
    migrate_definition,
    parse_changes,
)
from engine.model.schema import TOMBSTONE_COLUMN, StoreDefinition, define_store
from engine.model.sql_types import canonical_type
from engine.state.formats import BESIDE_COLUMNS, KEY_COLUMN

PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("day", pa.date32()), ("count", pa.int32()), ("note", pa.string())]),
    ["song", "day"],
    partition_by=["song"],
)


def _rows(definition: StoreDefinition, *rows: tuple[Any, ...]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [dict(zip(definition.row_schema.names, row, strict=True)) for row in rows],
        schema=definition.row_schema,
    )


def _migrate(definition: StoreDefinition, *changes: Change) -> StoreDefinition:
    for generation, change in enumerate(changes, definition.generation + 1):
        definition = migrate_definition(definition, [change], generation)
    return definition


def test_a_column_that_is_added_has_its_default_in_rows_of_before() -> None:
    after = _migrate(
        PLAYS, AddColumn("rating", pa.float64(), "0.5"), AddColumn("tags", pa.list_(pa.string()))
    )
    assert after.schema.names == ["song", "day", "count", "note", "rating", "tags"]
    assert [column.number for column in after.columns] == [0, 1, 2, 3, 4, 5]
    converted = convert_rows(_rows(PLAYS, (1, None, 5, "a")), PLAYS, after)
    assert converted.schema == after.row_schema
    assert converted.to_pylist() == [
        {"song": 1, "day": None, "count": 5, "note": "a", "rating": 0.5, "tags": None}
    ]


def test_a_column_keeps_its_values_under_another_name() -> None:
    after = migrate_definition(PLAYS, [RenameColumn("song", "song_id"), RenameColumn("note", "remark")], 1)
    assert (after.key, after.partition_by) == (("song_id", "day"), ("song_id",))
    assert convert_rows(_rows(PLAYS, (1, None, 5, "a")), PLAYS, after).to_pylist() == [
        {"song_id": 1, "day": None, "count": 5, "remark": "a"}
    ]


def test_a_wider_column_has_the_values_of_the_narrow_one() -> None:
    after = _migrate(PLAYS, WidenColumn("count", pa.int64()), WidenColumn("count", pa.decimal128(25, 2)))
    assert after.column("count") == Column(5, None, ((4, pa.int64()), (2, pa.int32())))
    converted = convert_rows(_rows(PLAYS, (1, None, 5, None), (2, None, None, None)), PLAYS, after)
    assert converted.column("count") == pa.array([5, None], pa.int32()).cast(pa.decimal128(38, 2)).cast(
        pa.decimal128(25, 2)
    )


def test_a_dropped_column_does_not_come_back_under_its_name() -> None:
    after = _migrate(PLAYS, DropColumn("count"), AddColumn("count", pa.int32(), "7"))
    assert after.is_as(replace(after, columns=(), generation=9))
    assert convert_rows(_rows(PLAYS, (1, None, 5, "a")), PLAYS, after).to_pylist() == [
        {"song": 1, "day": None, "note": "a", "count": 7}
    ]


def test_a_default_stays_what_it_was_when_its_column_is_widened() -> None:
    narrow = _migrate(PLAYS, AddColumn("share", pa.float32(), "0.1"))
    wide = _migrate(narrow, WidenColumn("share", pa.float64()))
    old = _rows(PLAYS, (1, None, 5, "a"))
    assert convert_rows(convert_rows(old, PLAYS, narrow), narrow, wide) == convert_rows(old, PLAYS, wide)


def test_tombstones_stay_behind_the_columns() -> None:
    after = _migrate(PLAYS, AddColumn("rating", pa.float64()))
    rows = _rows(PLAYS, (1, None, 5, "a")).append_column(
        pa.field(TOMBSTONE_COLUMN, pa.bool_(), nullable=False), pa.array([True])
    )
    converted = convert_rows(rows, PLAYS, after)
    assert converted.schema.names == [*after.row_schema.names, TOMBSTONE_COLUMN]
    assert converted.column(TOMBSTONE_COLUMN).to_pylist() == [True]


def test_made_and_hidden_columns_keep_their_numbers() -> None:
    rows = pa.schema([("k", pa.int64()), ("since", pa.timestamp("us")), ("v", pa.int64())])
    history = define_store("history", rows, ["k"], behaviour=Behaviour(Versioned("since")))
    kept = define_store("kept", rows, ["k"], behaviour=Behaviour(KeyValue("since"), Retention(10)))
    history, kept = (
        _migrate(history, AddColumn("w", pa.int8())),
        _migrate(kept, AddColumn("w", pa.int8()), RenameColumn("since", "at")),
    )
    assert [(f.name, c.number) for f, c in zip(history.stored_schema, history.columns, strict=True)] == [
        ("k", 0),
        ("since", 1),
        ("v", 2),
        ("w", 4),
        ("valid_to", 3),
    ]
    assert [c.number for c in kept.columns] == [0, 1, 2, 4, 3]
    assert kept.behaviour.kind == KeyValue("at")


def test_a_migrated_definition_is_stored_whole() -> None:
    after = _migrate(
        PLAYS,
        AddColumn("rating", pa.decimal128(10, 2), "1.5"),
        WidenColumn("count", pa.int64()),
        DropColumn("note"),
    )
    assert StoreDefinition.from_json(after.to_json()) == after
    assert StoreDefinition.from_json(PLAYS.to_json()) == PLAYS
    damaged = after.to_json().replace(b'"1.50"', b'"half"')
    assert damaged != after.to_json()
    with pytest.raises(Corrupt, match="not valid: 'half' is no DECIMAL"):
        StoreDefinition.from_json(damaged)


@pytest.mark.parametrize(
    ("change", "cause"),
    [
        (
            AddColumn("NOTE", pa.int8()),
            "there is a column note already, and SQL does not tell upper from lower case",
        ),
        (AddColumn("rating", pa.int8(), "300"), "'300' is no TINYINT"),
        (AddColumn("tags", pa.list_(pa.int8()), "1"), "has no default other than NULL"),
        (AddColumn("remark", pa.string(), "é" * 501), "its default takes 1,002 bytes, and can take 1,000"),
        (AddColumn("__x", pa.int8()), "are reserved"),
        (DropColumn("nothing"), "there is no column nothing"),
        (DropColumn("day"), "day is in the key"),
        (WidenColumn("song", pa.decimal128(38, 0)), "song is in the key"),
        (WidenColumn("count", pa.int16()), "SMALLINT does not have all of its values"),
        (WidenColumn("note", pa.binary()), "BLOB does not have all of its values"),
        (
            RenameColumn("note", "Count"),
            "there is a column count already, and SQL does not tell upper from lower case",
        ),
        (RenameColumn("note", "count"), "there is a column count already. "),
        (RenameColumn("nothing", "something"), "there is no column nothing"),
    ],
)
def test_what_cannot_be_done_is_refused_with_both_definitions(change: Change, cause: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        migrate_definition(PLAYS, [change], 1)
    assert cause in refused.value.message
    assert f"It is: {PLAYS.describe()}. Asked for: plays (" in refused.value.message


def test_columns_that_say_which_rows_there_are_stay() -> None:
    rows = pa.schema([("k", pa.int64()), ("at", pa.timestamp("us")), ("version", pa.int32())])
    store = define_store("s", rows, ["k"], behaviour=Behaviour(KeyValue("version"), Retention(10, "at")))
    for change in (DropColumn("at"), DropColumn("version"), WidenColumn("version", pa.int64())):
        with pytest.raises(InvalidInput, match="says which rows the store has"):
            migrate_definition(store, [change], 1)


def test_columns_that_the_store_makes_stay() -> None:
    rows = pa.schema([("k", pa.int64()), ("since", pa.timestamp("us"))])
    store = define_store("s", rows, ["k", "since"], behaviour=Behaviour(Versioned("since"), Retention(10)))
    for change in (
        DropColumn("valid_to"),
        RenameColumn("valid_to", "until"),
        WidenColumn("valid_to", pa.int64()),
    ):
        with pytest.raises(InvalidInput, match="valid_to is made by the store and stays as it is"):
            migrate_definition(store, [change], 1)
    with pytest.raises(InvalidInput, match="there is no column __written"):
        migrate_definition(store, [DropColumn("__written")], 1)


def test_stores_that_fold_are_built_anew() -> None:
    merge = Behaviour(Merge((MergedColumn("total", Function.SUM, "v"),)))
    store = define_store("s", pa.schema([("k", pa.int64()), ("total", pa.int64())]), ["k"], behaviour=merge)
    with pytest.raises(InvalidInput, match="fill a new store beside it and switch"):
        migrate_definition(store, [AddColumn("x", pa.int8())], 1)


def test_columns_run_out() -> None:
    with pytest.raises(InvalidInput, match="as many columns as one can have"):
        migrate_definition(replace(PLAYS, next_column=MAX_COLUMN_NUMBER + 1), [AddColumn("x", pa.int8())], 1)


def test_no_column_has_a_number_that_means_something_else() -> None:
    """Pages of keys and their filter are stored under such a number."""
    assert min(KEY_COLUMN, *BESIDE_COLUMNS) > MAX_COLUMN_NUMBER
    fields = [("k", pa.int64()), *((f"c{number}", pa.bool_()) for number in range(MAX_COLUMN_NUMBER))]
    assert define_store("wide", pa.schema(fields), ["k"]).columns[-1].number == MAX_COLUMN_NUMBER
    with pytest.raises(
        InvalidInput, match=r"Store wide: it would have 65,533 columns, and 65,532 are possible"
    ):
        define_store("wide", pa.schema([*fields, ("more", pa.bool_())]), ["k"])


def test_changes_are_read_from_text() -> None:
    changes = parse_changes(
        ['"a b" decimal(10,2) default 1.5', "kind VARCHAR DEFAULT 'it''s'", "n BIGINT DEFAULT NULL"],
        ["d"],
        ["a=b"],
        ["c=bigint"],
    )
    assert changes == (
        RenameColumn("a", "b"),
        WidenColumn("c", pa.int64()),
        DropColumn("d"),
        AddColumn("a b", pa.decimal128(10, 2), "1.5"),
        AddColumn("kind", pa.string(), "it's"),
        AddColumn("n", pa.int64(), None),
    )


def test_all_names_can_be_in_quotation_marks() -> None:
    assert parse_changes(
        ['"a ""b""" DOUBLE'], ['"c d"', "e f"], ['"a b"="g h"', "i=j k", '"l"="m"'], ['"n o"=BIGINT']
    ) == (
        RenameColumn("a b", "g h"),
        RenameColumn("i", "j k"),
        RenameColumn("l", "m"),
        WidenColumn("n o", pa.int64()),
        DropColumn("c d"),
        DropColumn("e f"),
        AddColumn('a "b"', pa.float64()),
    )


def test_types_may_have_the_other_names_that_duckdb_has_for_them() -> None:
    assert parse_changes(
        [
            "a int",
            "b TEXT DEFAULT 'x'",
            "c STRING[]",
            "d NUMERIC(5,2)",
            'e MAP(TEXT, STRUCT("at" TIMESTAMPTZ))',
        ],
        widen=["f=REAL", "g=DATETIME", "h=BOOL"],
    ) == (
        WidenColumn("f", pa.float32()),
        WidenColumn("g", pa.timestamp("us")),
        WidenColumn("h", pa.bool_()),
        AddColumn("a", pa.int32()),
        AddColumn("b", pa.string(), "x"),
        AddColumn("c", canonical_type(pa.list_(pa.string()))),
        AddColumn("d", pa.decimal128(5, 2)),
        AddColumn("e", pa.map_(pa.string(), pa.struct({"at": pa.timestamp("us", "UTC")}))),
    )


@pytest.mark.parametrize(
    ("given", "cause"),
    [
        ({"add": ["x"]}, "is no column"),
        ({"add": ["x NUMBER"]}, "is not understood"),
        ({"add": ["x VARCHAR DEFAULT 'a"]}, "is no single value"),
        ({"add": ["x VARCHAR DEFAULT 'a' || 'b'"]}, "is no single value"),
        ({"add": ["x VARCHAR DEFAULT 'a'b'"]}, "is no single value"),
        ({"add": ['x VARCHAR DEFAULT "a"']}, "is no single value"),
        ({"rename": ["x"]}, "write it like --rename old=new"),
        ({"widen": ["x=LONG"]}, "is not understood"),
    ],
)
def test_texts_that_are_no_changes_are_refused(given: dict[str, list[str]], cause: str) -> None:
    with pytest.raises(InvalidInput, match=cause):
        parse_changes(**given)


@pytest.mark.parametrize(
    "type_name",
    [
        *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "UBIGINT", "FLOAT", "DOUBLE"),
        *("DECIMAL(9,2)", "VARCHAR", "BLOB", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMPTZ"),
    ],
)
def test_a_default_is_what_sql_reads_or_is_refused(type_name: str) -> None:
    texts = [
        *("", "a", "it's", '"a"', "1", "-1", " 1", "1.5", "5.0", "1.005", "0.1", "1e2", "1e300", "-1e400"),
        *("1e-400", "inf", "-Infinity", "nan", "true", "T", "300", "16777217", "18446744073709551615"),
        *("2026-01-05", "2026-01-05 10:00:00.5", "2026-01-05T10:00:00", "2026-01-05 10:00:00+02"),
        *(r"\xAA", r"\x41", r"a\b"),
    ]
    accepted = 0
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for text in texts:
            literal = "'" + text.replace("'", "''") + "'"
            try:
                changes = parse_changes(add=[f"added {type_name} DEFAULT {literal}"])
                after = migrate_definition(PLAYS, changes, 1)
            except InvalidInput:
                continue
            accepted += 1
            (field,) = [each for each in after.schema if each.name == "added"]
            read = connection.sql(f"SELECT CAST({literal} AS {type_name})").to_arrow_table().column(0)
            found = after.column("added").default_value(field.type)
            assert repr(found.as_py()) == repr(read[0].cast(field.type).as_py()), literal
    assert accepted


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        (pa.int8(), pa.int16(), True),
        (pa.int8(), pa.uint16(), False),
        (pa.uint8(), pa.int16(), True),
        (pa.uint64(), pa.decimal128(20, 0), True),
        (pa.uint64(), pa.decimal128(19, 0), False),
        (pa.int64(), pa.decimal128(19, 0), True),
        (pa.int64(), pa.float64(), False),
        (pa.int32(), pa.float64(), True),
        (pa.int32(), pa.float32(), False),
        (pa.float32(), pa.float64(), True),
        (pa.float64(), pa.float32(), False),
        (pa.decimal128(10, 2), pa.decimal128(12, 4), True),
        (pa.decimal128(10, 2), pa.decimal128(11, 4), False),
        (pa.decimal128(10, 2), pa.decimal128(10, 2), False),
        (pa.int32(), pa.int32(), False),
        (pa.date32(), pa.timestamp("us"), False),
    ],
)
def test_widening(source: pa.DataType, target: pa.DataType, expected: bool) -> None:
    assert widens(source, target) is expected
