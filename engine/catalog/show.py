"""Answers about the stores themselves: SHOW, DESCRIBE and the table that EXPLAIN returns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

import pyarrow as pa

from engine.errors import NotFound
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.durations import duration_in_words
from engine.model.kinds import KeyValue, Kind, Merge, Session, Versioned
from engine.model.schema import NamedStores, StoreDefinition, StoreName
from engine.model.sql_types import result_type_name, sql_type
from engine.scan import StoreStatus
from engine.sql.catalog_tables import INFORMATION_SCHEMA, listed_tables, schemas
from engine.sql.catalog_tables import TABLES as CATALOG_TABLES

TABLES_SCHEMA = pa.schema([pa.field("name", pa.string())])
SCHEMAS_SCHEMA = pa.schema(
    [("database_name", pa.string()), ("schema_name", pa.string()), ("current", pa.bool_())]
)
DATABASES_SCHEMA = pa.schema([("database_name", pa.string())])
ALL_TABLES_SCHEMA = pa.schema(
    [
        ("database", pa.string()),
        ("schema", pa.string()),
        ("name", pa.string()),
        ("column_names", pa.list_(pa.string())),
        ("column_types", pa.list_(pa.string())),
        ("temporary", pa.bool_()),
    ]
)
SUCCESS_SCHEMA = pa.schema([("Success", pa.bool_())])
"""What a statement answers that has nothing to tell: no rows."""
STORES_SCHEMA = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("store_group", pa.string()),
        pa.field("sql_names", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("key", pa.string()),
        pa.field("partition_by", pa.string()),
        pa.field("retention", pa.string()),
        pa.field("is_global", pa.bool_()),
        pa.field("in_memory", pa.bool_()),
        pa.field("epoch", pa.int64()),
        pa.field("newest_epoch", pa.int64()),
        pa.field("lag_seconds", pa.float64()),
        pa.field("rows", pa.int64()),
        pa.field("stored_rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("partitions", pa.int64()),
        pa.field("segments", pa.int64()),
        pa.field("problem", pa.string()),
        pa.field("skipped", pa.string()),
    ]
)
SIZE_COLUMNS = ("rows", "stored_rows", "bytes", "segments", "problem", "skipped")
"""Columns of `STORES_SCHEMA` that tell how much stores hold, or may name other stores of the group."""
COLUMNS_SCHEMA = pa.schema(
    [pa.field(name, pa.string()) for name in ("column_name", "column_type", "null", "key", "extra")]
)
PLAN_SCHEMA = pa.schema([pa.field("plan", pa.string())])


def show_tables(tables: NamedStores, schema: str) -> pa.Table:
    """SHOW TABLES.

    Args:
        tables: The store that each name means.
        schema: The schema whose tables are shown.

    Returns:
        Their names, in order.

    Raises:
        NotFound: There is no such schema.
    """
    if schema == INFORMATION_SCHEMA:
        names = sorted(CATALOG_TABLES)
    elif schema in schemas(tables):
        names = [name for place, name, _ in listed_tables(tables) if place == schema]
    else:
        raise NotFound(f"There is no schema {schema[:100]}: there are {', '.join(schemas(tables))}.")
    return pa.table([pa.array(names, pa.string())], schema=TABLES_SCHEMA)


def show_schemas(tables: NamedStores) -> pa.Table:
    """SHOW SCHEMAS.

    Args:
        tables: The store that each name means.

    Returns:
        One row a schema that stores are in.
    """
    return pa.Table.from_pylist(
        [
            {"database_name": CATALOG, "schema_name": schema, "current": schema == SCHEMA}
            for schema in schemas(tables)
        ],
        SCHEMAS_SCHEMA,
    )


def show_databases() -> pa.Table:
    """SHOW DATABASES."""
    return pa.Table.from_pylist([{"database_name": CATALOG}], DATABASES_SCHEMA)


def show_all_tables(tables: NamedStores) -> pa.Table:
    """SHOW ALL TABLES.

    Args:
        tables: The store that each name means.

    Returns:
        One row a table, with its columns.
    """
    return pa.Table.from_pylist(
        [
            {
                "database": CATALOG,
                "schema": schema,
                "name": name,
                "column_names": definition.schema.names,
                "column_types": [sql_type(field.type) for field in definition.schema],
                "temporary": False,
            }
            for schema, name, definition in listed_tables(tables)
        ],
        ALL_TABLES_SCHEMA,
    )


def show_stores(
    statuses: Sequence[StoreStatus],
    definitions: Mapping[StoreName, StoreDefinition],
    tables: Mapping[StoreName, StoreDefinition],
) -> pa.Table:
    """SHOW STORES.

    Args:
        statuses: How the stores stand.
        definitions: The stores. One that is found at this moment may have a status already, and is shown
            once it is here; one of which nobody knows what it is has a problem and nothing else.
        tables: The store that each name means.

    Returns:
        One row a store. `sql_names` are the names by which SQL reads it; NULL where a switch has left it
        none.
    """
    names: dict[StoreName, list[str]] = defaultdict(list)
    for name, definition in sorted(tables.items()):
        names[definition.name].append(name)
    rows = [
        {
            **asdict(each),
            "store_group": each.group or None,
            "sql_names": ", ".join(names[each.store]) or None,
            "skipped": each.skipped or None,
            **(_definition_rows(definitions[each.store]) if each.store in definitions else {}),
        }
        for each in statuses
        if each.store in definitions or not each.group
    ]
    return pa.Table.from_pylist(rows, STORES_SCHEMA)


def blank_columns(table: pa.Table, columns: Iterable[str]) -> pa.Table:
    """A table with NULL in some of its columns.

    Args:
        table: Any.
        columns: Names of the columns.
    """
    for name in columns:
        place = table.schema.get_field_index(name)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.nulls(table.num_rows, field.type))
    return table


def _definition_rows(definition: StoreDefinition) -> dict[str, str | bool | None]:
    """What a store is, in a few words."""
    behaviour = definition.behaviour
    retention = behaviour.retention
    return {
        "kind": _kind(behaviour.kind),
        "key": ", ".join(definition.key),
        "partition_by": ", ".join(definition.partition_by),
        "retention": None
        if retention is None
        else f"{duration_in_words(retention.microseconds)} by {retention.column or 'commit'}",
        "is_global": behaviour.is_global,
        "in_memory": behaviour.in_memory,
    }


def _kind(kind: Kind) -> str:
    match kind:
        case KeyValue():
            return f"key-value, latest by {kind.order_by}" if kind.order_by else "key-value"
        case Merge():
            return "merge"
        case Session():
            return f"session, gap {duration_in_words(kind.gap_microseconds)}"
        case Versioned():
            return f"versioned by {kind.valid_from}"


def describe_store(definition: StoreDefinition) -> pa.Table:
    """DESCRIBE of a store.

    Args:
        definition: The store.

    Returns:
        One row a column: its type, whether it can be NULL (YES, NO), its place in the key (PRI, 1 and so on)
        if it has one, and what else it is for.
    """
    places = {name: f"PRI {place}" for place, name in enumerate(definition.key, 1)}
    parts = _column_roles(definition)
    rows = [
        (
            field.name,
            sql_type(field.type),
            "YES" if field.nullable else "NO",
            places.get(field.name),
            ", ".join(parts[field.name]) or None,
        )
        for field in definition.schema
    ]
    return _columns_table(rows)


def _column_roles(definition: StoreDefinition) -> Mapping[str, Sequence[str]]:
    """The parts that columns play besides that in the key."""
    kind, retention = definition.behaviour.kind, definition.behaviour.retention
    parts: dict[str, list[str]] = defaultdict(list)
    for name in definition.partition_by:
        parts[name].append("places rows")
    match kind:
        case KeyValue() if kind.order_by:
            parts[kind.order_by].append("latest wins")
        case Session():
            parts[kind.start].append("start of the session")
            parts[kind.end].append("end of the session")
        case Versioned():
            parts[kind.valid_from].append("start of the version")
            parts[kind.valid_to].append("end of the version")
    for column in kind.columns if isinstance(kind, Merge | Session) else ():
        parts[column.name].append(column.expression)
    if retention is not None and retention.column:
        parts[retention.column].append(f"retention {duration_in_words(retention.microseconds)}")
    return parts


def describe_schema(schema: pa.Schema) -> pa.Table:
    """DESCRIBE of a query.

    Args:
        schema: Schema of its result.

    Returns:
        One row a column.
    """
    return _columns_table([(field.name, result_type_name(field.type), "YES", None, None) for field in schema])


def _columns_table(rows: Sequence[tuple[str, str, str, str | None, str | None]]) -> pa.Table:
    return pa.Table.from_arrays(
        [pa.array([row[index] for row in rows], pa.string()) for index in range(len(COLUMNS_SCHEMA))],
        schema=COLUMNS_SCHEMA,
    )


def plan_text(lines: Sequence[str]) -> pa.Table:
    """EXPLAIN.

    Args:
        lines: The text.

    Returns:
        One row a line.
    """
    return pa.Table.from_arrays([pa.array(lines, pa.string())], schema=PLAN_SCHEMA)
