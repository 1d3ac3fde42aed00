"""`information_schema`, and what functions such as `current_user` tell: small tables that come with the
statement that reads them, as long lists of literals do.

Their columns are those that DuckDB has. Their rows are made anew for each statement, of the stores that exist
for whoever asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.names import fold
from engine.model.schema import NamedStores, StoreDefinition, StoreName
from engine.model.sql_types import sql_type
from engine.model.version import own_version
from engine.sql.versions import HISTORY, is_versioned

INFORMATION_SCHEMA = "information_schema"
SYSTEM = "system"
"""What DuckDB calls the catalog of its `information_schema`."""
_INTEGER_BITS = 2


@dataclass(frozen=True)
class CatalogTable:
    """A table of the catalog.

    Attributes:
        name: Its name.
        schema: Its columns.
        rows: Its rows, of what names mean and who asks, with the columns that are not NULL everywhere.
    """

    name: str
    schema: pa.Schema
    rows: Callable[[NamedStores, str], Sequence[Mapping[str, object]]]

    def batch(self, tables: NamedStores, user: str) -> pa.RecordBatch:
        """The table.

        Args:
            tables: The store that each name means.
            user: The name of whoever asks.
        """
        return pa.RecordBatch.from_pylist(list(self.rows(tables, user)), self.schema)


def catalog_table(schema: str, name: str) -> CatalogTable | None:
    """A table of the catalog by its name.

    Args:
        schema: Name of its schema, in any case.
        name: Its name, likewise.

    Returns:
        The table; None if there is none.
    """
    return TABLES.get(fold(name)) if fold(schema) == INFORMATION_SCHEMA else None


def listed_tables(tables: NamedStores) -> Iterator[tuple[str, StoreName, StoreDefinition]]:
    """The tables that SQL can name: stores, and the histories of those that keep versions.

    Args:
        tables: The store that each name means.

    Yields:
        Schema, name and store of each table, ordered by schema and name.
    """
    for schema in schemas(tables):
        for name, definition in sorted(tables.items()):
            if schema == SCHEMA or is_versioned(definition):
                yield schema, name, definition


def schemas(tables: NamedStores) -> Sequence[str]:
    """The schemas that stores are in, in order; that of histories only where a store has one.

    Args:
        tables: The store that each name means.
    """
    return (HISTORY, SCHEMA) if any(map(is_versioned, tables.values())) else (SCHEMA,)


def key_name(table: StoreName, definition: StoreDefinition) -> str:
    """The name of the primary key of a table.

    Args:
        table: The table's.
        definition: The store that it is.
    """
    return "_".join((table, *definition.key, "pkey"))


def _session_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return [
        {"version": f"livestate {own_version()}", "database": CATALOG, "schema": SCHEMA, "user_name": user}
    ]


def _schemata_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    found = [(CATALOG, schema) for schema in schemas(tables)]
    return [
        {"catalog_name": catalog, "schema_name": schema, "schema_owner": CATALOG}
        for catalog, schema in (*found, (SYSTEM, INFORMATION_SCHEMA))
    ]


def _tables_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return [
        {
            **_place("table", schema, name),
            "table_type": "BASE TABLE",
            "is_insertable_into": "NO",
            "is_typed": "NO",
        }
        for schema, name, _ in listed_tables(tables)
    ]


def _columns_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return [
        {
            **_place("table", schema, name),
            "column_name": field.name,
            "ordinal_position": place,
            "is_nullable": "YES" if field.nullable else "NO",
            "data_type": sql_type(field.type),
            **_numeric_facts(field.type),
            "is_generated": "NEVER",
        }
        for schema, name, definition in listed_tables(tables)
        for place, field in enumerate(definition.schema, 1)
    ]


def _numeric_facts(arrow_type: pa.DataType) -> Mapping[str, int]:
    """Precision, its radix, and scale, where values are numbers."""
    if pa.types.is_decimal(arrow_type):
        facts = (arrow_type.precision, 10, arrow_type.scale)
    elif pa.types.is_signed_integer(arrow_type):
        facts = (arrow_type.bit_width, _INTEGER_BITS, 0)
    elif pa.types.is_floating(arrow_type):
        facts = (24 if pa.types.is_float32(arrow_type) else 53, _INTEGER_BITS, 0)
    else:
        return {}
    names = ("numeric_precision", "numeric_precision_radix", "numeric_scale")
    return dict(zip(names, facts, strict=True))


def _key_column_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return [
        {
            **_constraint(schema, name, definition),
            **_place("table", schema, name),
            "column_name": column,
            "ordinal_position": place,
        }
        for schema, name, definition in listed_tables(tables)
        for place, column in enumerate(definition.key, 1)
    ]


def _constraint_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return [
        {
            **_constraint(schema, name, definition),
            **_place("table", schema, name),
            "constraint_type": "PRIMARY KEY",
            "is_deferrable": "NO",
            "initially_deferred": "NO",
            "enforced": "YES",
            "nulls_distinct": "YES",
        }
        for schema, name, definition in listed_tables(tables)
    ]


def _no_rows(tables: NamedStores, user: str) -> Sequence[Mapping[str, object]]:
    return ()


def _place(kind: str, schema: str, name: str) -> Mapping[str, str]:
    return {f"{kind}_catalog": CATALOG, f"{kind}_schema": schema, f"{kind}_name": str(name)}


def _constraint(schema: str, table: StoreName, definition: StoreDefinition) -> Mapping[str, str]:
    return _place("constraint", schema, key_name(table, definition))


def _columns(names: str, **others: pa.DataType) -> pa.Schema:
    """Columns of text, but for those that are named with a type."""
    return pa.schema([(name, others.get(name, pa.string())) for name in names.split()])


_INT, _BOOL = pa.int32(), pa.bool_()
SESSION = CatalogTable("session", _columns("version database schema user_name"), _session_rows)
"""What the functions of `engine.sql.functions.SESSION_FUNCTIONS` tell; no statement names it. Its columns
are called as no function is, so that what is sent to another host asks nothing again.
"""
TABLES: Mapping[str, CatalogTable] = {
    table.name: table
    for table in (
        CatalogTable(
            "schemata",
            _columns(
                "catalog_name schema_name schema_owner default_character_set_catalog "
                "default_character_set_schema default_character_set_name sql_path"
            ),
            _schemata_rows,
        ),
        CatalogTable(
            "tables",
            _columns(
                "table_catalog table_schema table_name table_type self_referencing_column_name "
                "reference_generation user_defined_type_catalog user_defined_type_schema "
                "user_defined_type_name is_insertable_into is_typed commit_action TABLE_COMMENT"
            ),
            _tables_rows,
        ),
        CatalogTable(
            "columns",
            _columns(
                "table_catalog table_schema table_name column_name ordinal_position column_default "
                "is_nullable data_type character_maximum_length character_octet_length numeric_precision "
                "numeric_precision_radix numeric_scale datetime_precision interval_type interval_precision "
                "character_set_catalog character_set_schema character_set_name collation_catalog "
                "collation_schema collation_name domain_catalog domain_schema domain_name udt_catalog "
                "udt_schema udt_name scope_catalog scope_schema scope_name maximum_cardinality "
                "dtd_identifier is_self_referencing is_identity identity_generation identity_start "
                "identity_increment identity_maximum identity_minimum identity_cycle is_generated "
                "generation_expression is_updatable COLUMN_COMMENT",
                ordinal_position=_INT,
                character_maximum_length=_INT,
                character_octet_length=_INT,
                numeric_precision=_INT,
                numeric_precision_radix=_INT,
                numeric_scale=_INT,
                datetime_precision=_INT,
                interval_precision=_INT,
                maximum_cardinality=pa.int64(),
                is_self_referencing=_BOOL,
                is_identity=_BOOL,
                identity_cycle=_BOOL,
                is_updatable=_BOOL,
            ),
            _columns_rows,
        ),
        CatalogTable(
            "views",
            _columns(
                "table_catalog table_schema table_name view_definition check_option is_updatable "
                "is_insertable_into is_trigger_updatable is_trigger_deletable is_trigger_insertable_into"
            ),
            _no_rows,
        ),
        CatalogTable(
            "key_column_usage",
            _columns(
                "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
                "column_name ordinal_position position_in_unique_constraint",
                ordinal_position=pa.int64(),
                position_in_unique_constraint=pa.int64(),
            ),
            _key_column_rows,
        ),
        CatalogTable(
            "table_constraints",
            _columns(
                "constraint_catalog constraint_schema constraint_name table_catalog table_schema table_name "
                "constraint_type is_deferrable initially_deferred enforced nulls_distinct"
            ),
            _constraint_rows,
        ),
        CatalogTable(
            "referential_constraints",
            _columns(
                "constraint_catalog constraint_schema constraint_name unique_constraint_catalog "
                "unique_constraint_schema unique_constraint_name match_option update_rule delete_rule"
            ),
            _no_rows,
        ),
    )
}
"""The tables of `information_schema`."""
