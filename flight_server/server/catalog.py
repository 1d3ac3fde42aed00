"""Flight SQL's catalog commands: what stores there are, as clients and tools ask for it.

Stores are tables of one schema in one catalog; those that keep versions are tables of a second one, too, with
all their versions. Result schemas: the comments of `format/FlightSql.proto` of Apache Arrow; clients compare
them field by field.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.schema import StoreDefinition, StoreName
from engine.scan import StoreSource
from engine.sql.catalog_tables import key_name, listed_tables, schemas
from engine.sql.versions import HISTORY, is_versioned
from flight_server.wire import sql_info, xdbc_types
from flight_server.wire.column_metadata import describe_field
from flight_server.wire.messages import Message

TABLE_TYPE = "TABLE"
MAX_PATTERN_LENGTH = 1000
"""Names are shorter."""
_PATTERN_PART = re.compile(r"\\.|.", re.DOTALL)


def _required_field(name: str, arrow_type: pa.DataType) -> pa.Field:
    return pa.field(name, arrow_type, nullable=False)


CATALOGS = pa.schema([_required_field("catalog_name", pa.string())])
DB_SCHEMAS = pa.schema(
    [pa.field("catalog_name", pa.string()), _required_field("db_schema_name", pa.string())]
)
TABLES = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _required_field("table_name", pa.string()),
        _required_field("table_type", pa.string()),
    ]
)
TABLES_WITH_SCHEMA = TABLES.append(_required_field("table_schema", pa.binary()))
TABLE_TYPES = pa.schema([_required_field("table_type", pa.string())])
PRIMARY_KEYS = pa.schema(
    [
        pa.field("catalog_name", pa.string()),
        pa.field("db_schema_name", pa.string()),
        _required_field("table_name", pa.string()),
        _required_field("column_name", pa.string()),
        pa.field("key_name", pa.string()),
        _required_field("key_sequence", pa.int32()),
    ]
)
FOREIGN_KEYS = pa.schema(
    [
        pa.field("pk_catalog_name", pa.string()),
        pa.field("pk_db_schema_name", pa.string()),
        _required_field("pk_table_name", pa.string()),
        _required_field("pk_column_name", pa.string()),
        pa.field("fk_catalog_name", pa.string()),
        pa.field("fk_db_schema_name", pa.string()),
        _required_field("fk_table_name", pa.string()),
        _required_field("fk_column_name", pa.string()),
        _required_field("key_sequence", pa.int32()),
        pa.field("fk_key_name", pa.string()),
        pa.field("pk_key_name", pa.string()),
        _required_field("update_rule", pa.uint8()),
        _required_field("delete_rule", pa.uint8()),
    ]
)


def command_schema(name: str, command: Message) -> pa.Schema | None:
    """The schema of a catalog command's result.

    Args:
        name: The command's message name.
        command: The message.

    Returns:
        The schema; None: it is no catalog command.
    """
    if name == "CommandGetTables" and command.include_schema:
        return TABLES_WITH_SCHEMA
    return _SCHEMAS.get(name)


def command_table(name: str, command: Message, source: StoreSource) -> pa.Table | None:
    """The result of a catalog command.

    Args:
        name: The command's message name.
        command: The message.
        source: The host's stores.

    Returns:
        A table of `command_schema`; None: it is no catalog command.
    """
    answer = _ANSWERS.get(name)
    return None if answer is None else answer(command, source)


def _rows(schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    return pa.table(
        [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)], schema=schema
    )


def _catalogs(command: Message, source: StoreSource) -> pa.Table:
    return _rows(CATALOGS, [(CATALOG,)])


def _db_schemas(command: Message, source: StoreSource) -> pa.Table:
    return _rows(DB_SCHEMAS, [(CATALOG, schema) for schema in _wanted_schemas(command, source)])


def _wanted_schemas(command: Message, source: StoreSource) -> list[str]:
    """The schemas that a pattern matches, in order; that of histories only where a store has one."""
    return [
        schema
        for schema in schemas(source.tables())
        if _is_in_catalog(command) and _matches(command, "db_schema_filter_pattern", schema)
    ]


def _tables(command: Message, source: StoreSource) -> pa.Table:
    wanted = _wanted_tables(command, source)
    if not command.include_schema:
        return _rows(TABLES, [(CATALOG, schema, str(name), TABLE_TYPE) for schema, name, _ in wanted])
    schemas = ((schema, name, table_schema(definition, schema, name)) for schema, name, definition in wanted)
    return _rows(
        TABLES_WITH_SCHEMA,
        [
            (CATALOG, schema, str(name), TABLE_TYPE, found.serialize().to_pybytes())
            for schema, name, found in schemas
        ],
    )


def _wanted_tables(command: Message, source: StoreSource) -> Iterator[tuple[str, StoreName, StoreDefinition]]:
    """Schema, name and store of each table, ordered by schema and name."""
    if command.table_types and TABLE_TYPE not in command.table_types:
        return
    wanted = _wanted_schemas(command, source)
    for schema, name, definition in listed_tables(source.tables()):
        if schema in wanted and _matches(command, "table_name_filter_pattern", name):
            yield schema, name, definition


def _is_in_catalog(command: Message) -> bool:
    return not command.HasField("catalog") or command.catalog == CATALOG


def _matches(command: Message, field: str, name: str) -> bool:
    return not command.HasField(field) or is_like(name, getattr(command, field))


def is_like(name: str, pattern: str) -> bool:
    r"""Whether a name matches an SQL LIKE pattern, in steps of at most the product of their lengths.

    Args:
        name: The name.
        pattern: `%` stands for any text, `_` for one character; a backslash before a character takes its
            meaning away.

    Raises:
        InvalidInput: The pattern is too long.
    """
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidInput(
            f"The pattern for names has {len(pattern):,} characters: write one of at most "
            f"{MAX_PATTERN_LENGTH:,}."
        )
    parts = _PATTERN_PART.findall(pattern)
    place = part = 0
    # Of several %, only the last one that was passed may have to take more: what is before it matched with
    # the shortest texts.
    any_text, taken = -1, 0
    while place < len(name):
        if part < len(parts) and parts[part] == "%":
            any_text, taken = part, place
            part += 1
        elif part < len(parts) and parts[part] in ("_", name[place], "\\" + name[place]):
            place, part = place + 1, part + 1
        elif any_text >= 0:
            taken += 1
            place, part = taken, any_text + 1
        else:
            return False
    return all(rest == "%" for rest in parts[part:])


def table_schema(definition: StoreDefinition, db_schema: str, name: StoreName) -> pa.Schema:
    """A store's schema with what JDBC wants to know of each column.

    Args:
        definition: The store's.
        db_schema: The database schema whose table it is.
        name: The table's name.

    Returns:
        Its schema; fields carry the metadata `ARROW:FLIGHT:SQL:…`.
    """
    return pa.schema([describe_field(field, db_schema, name) for field in definition.schema])


def _table_types(command: Message, source: StoreSource) -> pa.Table:
    return _rows(TABLE_TYPES, [(TABLE_TYPE,)])


def _primary_keys(command: Message, source: StoreSource) -> pa.Table:
    definition = source.tables().get(command.table)
    schema = command.db_schema if command.HasField("db_schema") else SCHEMA
    if (
        definition is None
        or not _is_in_catalog(command)
        or not (schema == SCHEMA or (schema == HISTORY and is_versioned(definition)))
    ):
        return _rows(PRIMARY_KEYS, [])
    name = StoreName(command.table)
    return _rows(
        PRIMARY_KEYS,
        [
            (CATALOG, schema, str(name), column, key_name(name, definition), place)
            for place, column in enumerate(definition.key, start=1)
        ],
    )


def _no_foreign_keys(command: Message, source: StoreSource) -> pa.Table:
    return _rows(FOREIGN_KEYS, [])


_SCHEMAS: Mapping[str, pa.Schema] = {
    "CommandGetCatalogs": CATALOGS,
    "CommandGetDbSchemas": DB_SCHEMAS,
    "CommandGetTables": TABLES,
    "CommandGetTableTypes": TABLE_TYPES,
    "CommandGetPrimaryKeys": PRIMARY_KEYS,
    "CommandGetExportedKeys": FOREIGN_KEYS,
    "CommandGetImportedKeys": FOREIGN_KEYS,
    "CommandGetCrossReference": FOREIGN_KEYS,
    "CommandGetSqlInfo": sql_info.SCHEMA,
    "CommandGetXdbcTypeInfo": xdbc_types.SCHEMA,
}
_ANSWERS: Mapping[str, Callable[[Message, StoreSource], pa.Table]] = {
    "CommandGetCatalogs": _catalogs,
    "CommandGetDbSchemas": _db_schemas,
    "CommandGetTables": _tables,
    "CommandGetTableTypes": _table_types,
    "CommandGetPrimaryKeys": _primary_keys,
    "CommandGetExportedKeys": _no_foreign_keys,
    "CommandGetImportedKeys": _no_foreign_keys,
    "CommandGetCrossReference": _no_foreign_keys,
    "CommandGetSqlInfo": lambda command, source: sql_info.table(command.info),
    "CommandGetXdbcTypeInfo": lambda command, source: xdbc_types.table(
        command.data_type if command.HasField("data_type") else None
    ),
}
