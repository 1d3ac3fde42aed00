"""Answers about the stores themselves: SHOW, DESCRIBE and the table that EXPLAIN returns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa

from engine.errors import InvalidInput
from engine.scan import StoreStatus
from engine.schema import StoreDefinition
from engine.sql_types import sql_type

TABLES_SCHEMA = pa.schema([pa.field("name", pa.string())])
STORES_SCHEMA = pa.schema(
    [
        pa.field("store", pa.string()),
        pa.field("store_group", pa.string()),
        pa.field("epoch", pa.int64()),
        pa.field("newest_epoch", pa.int64()),
        pa.field("lag_seconds", pa.float64()),
        pa.field("rows", pa.int64()),
        pa.field("stored_rows", pa.int64()),
        pa.field("bytes", pa.int64()),
        pa.field("partitions", pa.int64()),
        pa.field("segments", pa.int64()),
        pa.field("problem", pa.string()),
    ]
)
COLUMNS_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in ("column_name", "column_type", "null", "key")])
PLAN_SCHEMA = pa.schema([pa.field("plan", pa.string())])


def show_tables(definitions: Iterable[StoreDefinition]) -> pa.Table:
    """SHOW TABLES.

    Args:
        definitions: All stores.

    Returns:
        Their names, in order.
    """
    return pa.table([pa.array(sorted(definition.name for definition in definitions), pa.string())], schema=TABLES_SCHEMA)


def show_stores(statuses: Sequence[StoreStatus]) -> pa.Table:
    """SHOW STORES.

    Args:
        statuses: How the stores stand.

    Returns:
        One row a store.
    """
    rows = [
        (
            each.store,
            each.group,
            each.epoch,
            each.newest_epoch,
            each.lag_seconds,
            each.rows,
            each.stored_rows,
            each.bytes,
            each.partitions,
            each.segments,
            each.problem,
        )
        for each in statuses
    ]
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(STORES_SCHEMA)]
    return pa.Table.from_arrays(columns, schema=STORES_SCHEMA)


def describe_store(definition: StoreDefinition) -> pa.Table:
    """DESCRIBE of a store.

    Args:
        definition: The store.

    Returns:
        One row a column: its type, whether it can be NULL (YES, NO), and its place in the key (PRI, 1 and so on) if it has one.
    """
    places = {name: f"PRI {place}" for place, name in enumerate(definition.key, 1)}
    rows = [(field.name, sql_type(field.type), "YES" if field.nullable else "NO", places.get(field.name)) for field in definition.schema]
    return _columns_table(rows)


def describe_schema(schema: pa.Schema) -> pa.Table:
    """DESCRIBE of a query.

    Args:
        schema: Schema of its result.

    Returns:
        One row a column.
    """
    return _columns_table([(field.name, _type_name(field.type), "YES", None) for field in schema])


def _type_name(kind: pa.DataType) -> str:
    try:
        return sql_type(kind)
    except InvalidInput:
        return str(kind).upper()


def _columns_table(rows: Sequence[tuple[str, str, str, str | None]]) -> pa.Table:
    return pa.Table.from_arrays([pa.array([row[place] for row in rows], pa.string()) for place in range(4)], schema=COLUMNS_SCHEMA)


def plan_text(lines: Sequence[str]) -> pa.Table:
    """EXPLAIN.

    Args:
        lines: The text.

    Returns:
        One row a line.
    """
    return pa.Table.from_arrays([pa.array(lines, pa.string())], schema=PLAN_SCHEMA)
