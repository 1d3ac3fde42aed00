"""Flight SQL's catalog commands: their schemas to the field, and their rows."""

from __future__ import annotations

import re
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from engine.model.kinds import Behaviour, Versioned
from engine.model.schema import StoreName, define_store
from flight_server.server.catalog import command_table, is_like
from flight_server.wire.messages import new, pack
from tests.protocol.conftest import SONGS, TYPED
from tests.support.memory_source import MemorySource, memory_view

_TEXT, _INT = pa.string(), pa.int32()


def _schema(text: str) -> pa.Schema:
    """`name type` or `name type!` for one that is never null, separated by commas."""
    kinds = {
        "utf8": pa.string(),
        "binary": pa.binary(),
        "int32": pa.int32(),
        "uint8": pa.uint8(),
        "bool": pa.bool_(),
    }
    fields = []
    for part in text.split(","):
        name, kind = part.split()
        fields.append(pa.field(name, kinds[kind.rstrip("!")], nullable=not kind.endswith("!")))
    return pa.schema(fields)


_FOREIGN_KEYS = _schema(
    "pk_catalog_name utf8, pk_db_schema_name utf8, pk_table_name utf8!, pk_column_name utf8!, "
    "fk_catalog_name utf8, fk_db_schema_name utf8,"
    "fk_table_name utf8!, fk_column_name utf8!, key_sequence int32!, fk_key_name utf8, pk_key_name utf8, "
    "update_rule uint8!, delete_rule uint8!"
)
_XDBC = _schema(
    "type_name utf8!, data_type int32!, column_size int32, literal_prefix utf8, literal_suffix utf8, "
    "create_params utf8, nullable int32!,"
    "case_sensitive bool!, searchable int32!, unsigned_attribute bool, fixed_prec_scale bool!, "
    "auto_increment bool, local_type_name utf8,"
    "minimum_scale int32, maximum_scale int32, sql_data_type int32!, datetime_subcode int32, num_prec_radix "
    "int32, interval_precision int32"
).set(5, pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))))
_SQL_INFO = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field(
            "value",
            pa.dense_union(
                [
                    pa.field("string_value", pa.string()),
                    pa.field("bool_value", pa.bool_()),
                    pa.field("bigint_value", pa.int64()),
                    pa.field("int32_bitmask", pa.int32()),
                    pa.field("string_list", pa.list_(pa.string())),
                    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
                ]
            ),
            nullable=False,
        ),
    ]
)
_TABLES = _schema("catalog_name utf8, db_schema_name utf8, table_name utf8!, table_type utf8!")
SCHEMAS: dict[str, tuple[Any, pa.Schema]] = {
    "catalogs": (new("CommandGetCatalogs"), _schema("catalog_name utf8!")),
    "schemas": (new("CommandGetDbSchemas"), _schema("catalog_name utf8, db_schema_name utf8!")),
    "tables": (new("CommandGetTables"), _TABLES),
    "no tables": (new("CommandGetTables", table_name_filter_pattern="nowhere"), _TABLES),
    "tables with schema": (
        new("CommandGetTables", include_schema=True),
        _TABLES.append(pa.field("table_schema", pa.binary(), nullable=False)),
    ),
    "table types": (new("CommandGetTableTypes"), _schema("table_type utf8!")),
    "primary keys": (
        new("CommandGetPrimaryKeys", table="songs"),
        _schema(
            "catalog_name utf8, db_schema_name utf8, table_name utf8!, column_name utf8!, key_name utf8, "
            "key_sequence int32!"
        ),
    ),
    "exported keys": (new("CommandGetExportedKeys", table="songs"), _FOREIGN_KEYS),
    "imported keys": (new("CommandGetImportedKeys", table="songs"), _FOREIGN_KEYS),
    "cross reference": (new("CommandGetCrossReference", pk_table="songs", fk_table="typed"), _FOREIGN_KEYS),
    "types": (new("CommandGetXdbcTypeInfo"), _XDBC),
    "all facts": (new("CommandGetSqlInfo"), _SQL_INFO),
    "one fact": (new("CommandGetSqlInfo", info=[8]), _SQL_INFO),
    "unknown fact": (new("CommandGetSqlInfo", info=[99999]), _SQL_INFO),
}


def ask(client: flight.FlightClient, command: Any) -> pa.Table:
    """The rows of a command, as a driver gets them."""
    info = client.get_flight_info(flight.FlightDescriptor.for_command(pack(command)))
    (endpoint,) = info.endpoints
    table = client.do_get(endpoint.ticket).read_all()
    table.validate(full=True)
    return table


@pytest.mark.parametrize("name", SCHEMAS)
def test_the_schema_is_the_same_in_every_call_and_the_protocols(
    plain: flight.FlightClient, name: str
) -> None:
    command, schema = SCHEMAS[name]
    descriptor = flight.FlightDescriptor.for_command(pack(command))
    assert plain.get_flight_info(descriptor).schema.equals(schema, check_metadata=True)
    assert plain.get_schema(descriptor).schema.equals(schema, check_metadata=True)
    assert ask(plain, command).schema.equals(schema, check_metadata=True)


def test_tables_carry_their_schema_and_what_jdbc_wants_of_a_column(plain: flight.FlightClient) -> None:
    (row,) = ask(
        plain, new("CommandGetTables", table_name_filter_pattern="typed", include_schema=True)
    ).to_pylist()
    schema = pa.ipc.read_schema(pa.py_buffer(row["table_schema"]))
    assert schema.equals(TYPED)
    metadata = schema.field("amount").metadata
    assert metadata[b"ARROW:FLIGHT:SQL:TYPE_NAME"] == b"DECIMAL(12,3)"
    assert metadata[b"ARROW:FLIGHT:SQL:PRECISION"] == b"12"
    assert metadata[b"ARROW:FLIGHT:SQL:TABLE_NAME"] == b"typed"


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ({}, ["Odd 100%_name", "big", "songs", "typed"]),
        ({"table_name_filter_pattern": "%g%"}, ["big", "songs"]),
        ({"table_name_filter_pattern": "_ig"}, ["big"]),
        ({"table_name_filter_pattern": "Odd 100\\%\\_name"}, ["Odd 100%_name"]),
        (
            {
                "table_name_filter_pattern": "songs",
                "catalog": "livestate",
                "db_schema_filter_pattern": "main",
            },
            ["songs"],
        ),
        ({"catalog": ""}, []),
        ({"catalog": "other"}, []),
        ({"db_schema_filter_pattern": "other"}, []),
        ({"table_types": ["VIEW"]}, []),
        ({"table_types": ["VIEW", "TABLE"], "table_name_filter_pattern": "songs"}, ["songs"]),
    ],
)
def test_tables_can_be_narrowed(
    plain: flight.FlightClient, filters: dict[str, Any], names: list[str]
) -> None:
    assert ask(plain, new("CommandGetTables", **filters))["table_name"].to_pylist() == names


def test_the_key_of_a_store_is_its_primary_key(plain: flight.FlightClient) -> None:
    (row,) = ask(plain, new("CommandGetPrimaryKeys", table="songs")).to_pylist()
    assert (row["table_name"], row["column_name"], row["key_sequence"]) == ("songs", "song_id", 1)
    assert ask(plain, new("CommandGetPrimaryKeys", table="nowhere")).num_rows == 0
    assert ask(plain, new("CommandGetPrimaryKeys", table="songs", db_schema="other")).num_rows == 0


def test_a_store_that_keeps_versions_is_a_table_of_two_schemas() -> None:
    rows = pa.schema([("symbol", pa.string()), ("at", pa.timestamp("us")), ("price", pa.int64())])
    prices = define_store("prices", rows, ["symbol"], partitions=1, behaviour=Behaviour(Versioned("at")))
    songs = define_store("songs", SONGS.schema, ["song_id"])
    source = MemorySource([memory_view(prices, prices.schema.empty_table()), memory_view(songs, SONGS)])

    def command_rows(name: str, **fields: Any) -> list[tuple[Any, ...]]:
        table = command_table(name, new(name, **fields), source)
        assert table is not None
        return [tuple(row.values())[1:4] for row in table.to_pylist()]

    assert command_rows("CommandGetDbSchemas") == [("history",), ("main",)]
    assert command_rows("CommandGetTables") == [
        ("history", "prices", "TABLE"),
        ("main", "prices", "TABLE"),
        ("main", "songs", "TABLE"),
    ]
    assert command_rows("CommandGetTables", db_schema_filter_pattern="hist%") == [
        ("history", "prices", "TABLE")
    ]
    assert command_rows("CommandGetPrimaryKeys", table="prices", db_schema="history") == [
        ("history", "prices", "symbol"),
        ("history", "prices", "at"),
    ]
    assert command_rows("CommandGetPrimaryKeys", table="songs", db_schema="history") == []

    source.switches = {StoreName("songs"): prices.name}
    assert command_rows("CommandGetTables", table_name_filter_pattern="s%") == [
        ("history", "songs", "TABLE"),
        ("main", "songs", "TABLE"),
    ]
    assert command_rows("CommandGetPrimaryKeys", table="songs") == [
        ("main", "songs", "symbol"),
        ("main", "songs", "at"),
    ]
    table = command_table(
        "CommandGetTables",
        new("CommandGetTables", table_name_filter_pattern="songs", include_schema=True),
        source,
    )
    assert table is not None
    schema = pa.ipc.read_schema(pa.py_buffer(table["table_schema"][0].as_py()))
    assert schema.names == prices.schema.names
    assert schema.field("at").metadata[b"ARROW:FLIGHT:SQL:TABLE_NAME"] == b"songs"


def test_facts_come_whole_or_as_asked_for(plain: flight.FlightClient) -> None:
    facts = {row["info_name"]: row["value"] for row in ask(plain, new("CommandGetSqlInfo")).to_pylist()}
    assert set(facts) == {*range(12), 100, 101, *range(500, 577)}
    assert (facts[0], facts[3], facts[8], facts[504]) == ("livestate", True, 0, '"')
    asked = ask(plain, new("CommandGetSqlInfo", info=[504, 8, 99999])).to_pylist()
    assert [(row["info_name"], row["value"]) for row in asked] == [(504, '"'), (8, 0)]


RESERVED_BY_SQL = (
    "ALL AND ANY ARRAY AS ASYMMETRIC AT AUTHORIZATION BINARY BOTH BY CASE CAST CHECK COLLATE COLUMN "
    "CONSTRAINT CREATE CROSS DEFAULT DISTINCT ELSE END EXCEPT FETCH FOR FOREIGN FROM FULL GROUP HAVING IN "
    "INNER INTERSECT INTO IS JOIN LATERAL LEADING LEFT LIKE NATURAL NOT ON ONLY OR ORDER OUTER OVERLAPS "
    "PRIMARY REFERENCES RIGHT SELECT SIMILAR SOME SYMMETRIC TABLE THEN TO TRAILING UNION UNIQUE USING WHEN "
    "WHERE WINDOW WITH"
)
"""Of SQL:2003's words those that are none of a column in DuckDB."""


def test_tools_are_told_which_names_need_quotation_marks(plain: flight.FlightClient) -> None:
    (row,) = ask(plain, new("CommandGetSqlInfo", info=[508])).to_pylist()
    known = {*row["value"], *RESERVED_BY_SQL.split()}
    with duckdb.connect() as connection:
        words = connection.execute("SELECT upper(keyword_name) FROM duckdb_keywords()").fetchall()
        for (word,) in words:
            try:
                connection.execute(f'SELECT {word} FROM (SELECT 1 AS "{word}")')
            except duckdb.Error:
                assert word in known, word


def test_types_are_ordered_and_can_be_narrowed(plain: flight.FlightClient) -> None:
    rows = ask(plain, new("CommandGetXdbcTypeInfo")).to_pylist()
    assert [(row["data_type"], row["type_name"]) for row in rows] == sorted(
        (row["data_type"], row["type_name"]) for row in rows
    )
    assert {"HUGEINT", "TIME", "INTERVAL", "LIST", "STRUCT", "MAP"} < {row["type_name"] for row in rows}
    assert [
        row["type_name"] for row in ask(plain, new("CommandGetXdbcTypeInfo", data_type=12)).to_pylist()
    ] == ["VARCHAR"]


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("%", "", True),
        ("_", "", False),
        ("a.c", "abc", False),
        ("a_c", "a\nc", True),
        ("100\\%", "100%", True),
        ("100\\%", "1000", False),
        ("\\\\", "\\", True),
        ("a\\", "a\\", True),
        ("(", "(", True),
    ],
)
def test_patterns_are_those_of_like(pattern: str, name: str, matches: bool) -> None:
    assert is_like(name, pattern) == matches


def as_expression(pattern: str) -> str:
    """A LIKE pattern as a regular expression, for short ones: the time that it takes grows with the power of
    its marks.
    """
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    marks = {"%": ".*", "_": "."}
    return "".join(marks.get(part) or re.escape(part[1:] if len(part) > 1 else part) for part in parts)


@given(st.text("ab%_\\", max_size=8), st.text("ab%_\\\n", max_size=8))
def test_patterns_are_those_of_regular_expressions(pattern: str, name: str) -> None:
    assert is_like(name, pattern) == (re.fullmatch(as_expression(pattern), name, re.DOTALL) is not None)


@pytest.mark.parametrize(
    ("pattern", "matches"),
    [
        ("%_" * 40 + "b", False),
        ("%_" * 40, True),
        ("%" * 1000, True),
        ("_%" * 100 + "b%", False),
        ("%a%a" * 250, False),
        ("%b" * 100, False),
    ],
)
def test_a_pattern_of_many_marks_takes_few_steps(pattern: str, matches: bool) -> None:
    definition = define_store("a" * 200, SONGS.schema, ["song_id"])
    source = MemorySource([memory_view(definition, SONGS)])
    found = command_table(
        "CommandGetTables", new("CommandGetTables", table_name_filter_pattern=pattern), source
    )
    assert found is not None
    assert (found.num_rows == 1) == matches


def test_a_pattern_that_no_name_needs_is_refused(plain: flight.FlightClient) -> None:
    for field in ("table_name_filter_pattern", "db_schema_filter_pattern"):
        with pytest.raises(pa.ArrowInvalid, match="1,001 characters: write one of at most 1,000"):
            ask(plain, new("CommandGetTables", **{field: "%" * 1001}))
    with pytest.raises(pa.ArrowInvalid, match="1,001 characters"):
        ask(plain, new("CommandGetDbSchemas", db_schema_filter_pattern="%" * 1001))
