"""The names that DuckDB gives to a result's columns, over tables that are called as the stores are.

What runs is another text than the user's: it is generated, reads scans, and casts parameters. Names that the engine makes out
of its expressions would show all that. So the user's own text is bound, never run, over empty tables in a database that has nothing else.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa

from engine.errors import InvalidInput
from engine.exec.database import open_database
from engine.schema import StoreDefinition
from engine.sql.bind import CATALOG, SCHEMA, BoundStatement
from engine.sql.columns import has_pivot
from engine.sql.output_names import has_derived_names
from engine.sql.parse import Kind
from engine.sql_types import sql_type

MEMORY_BYTES = 64 << 20
_DESCRIBE = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:DESCRIBE|DESC)\b", re.IGNORECASE | re.DOTALL)


class ColumnNames:
    """Knows the names of results' columns. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._database = open_database(MEMORY_BYTES, 1, before_locking=(f"ATTACH ':memory:' AS {CATALOG}", f"USE {CATALOG}.{SCHEMA}"))
        self._tables: dict[str, pa.Schema] = {}

    def of(self, bound: BoundStatement, dialect: str) -> tuple[str, ...] | None:
        """The names of a query's columns.

        Args:
            bound: The query, or DESCRIBE of one.
            dialect: Dialect of its text.

        Returns:
            The names; None where those that the engine gives will do, or DuckDB does not take the text as it stands.
        """
        if dialect != "duckdb" or bound.kind not in (Kind.QUERY, Kind.DESCRIBE) or not has_derived_names(bound.tree) or has_pivot(bound.tree):
            return None
        described = _DESCRIBE.match(bound.source.text) if bound.kind is Kind.DESCRIBE else None
        text = bound.source.text[described.end() :] if described else bound.source.text
        tables = _tables(bound)
        if tables is None:
            return None
        with self._lock:
            try:
                self._create(tables)
                return self._names(text, _nulls(bound))
            except (duckdb.Error, InvalidInput):
                return None

    def _create(self, tables: Mapping[str, pa.Schema]) -> None:
        for name, schema in tables.items():
            if self._tables.get(name.lower()) != schema:
                columns = ", ".join(f"{_quoted(field.name)} {sql_type(field.type)}" for field in schema)
                self._database.execute(f"CREATE OR REPLACE TABLE {_quoted(name)} ({columns})")
                self._tables[name.lower()] = schema

    def _names(self, sql: str, values: Sequence[None] | Mapping[str, None]) -> tuple[str, ...] | None:
        statements = self._database.extract_statements(sql)
        # What the parser of the check takes for one statement could be two here.
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            return None
        # A relation is bound here and now, and never run. (DESCRIBE forgets the case of an alias that is a column's name as well.)
        relation = self._database.sql(sql, params=values) if values else self._database.sql(sql)
        return tuple(relation.columns)

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            self._database.close()


def _tables(bound: BoundStatement) -> Mapping[str, pa.Schema] | None:
    """The tables that a text names; None where two names differ in case only, which DuckDB does not tell apart."""
    definitions: dict[str, StoreDefinition] = {reference.definition.name: reference.definition for reference in bound.references}
    tables = {name: definition.schema for name, definition in definitions.items()} | dict(bound.list_schemas)
    return tables if len({name.lower() for name in tables}) == len(tables) else None


def _nulls(bound: BoundStatement) -> Sequence[None] | Mapping[str, None]:
    """Values of its parameters, of which only the number counts."""
    slots = bound.parameters
    return [None] * len(slots) if all(slot.name.isdigit() for slot in slots) else {slot.name: None for slot in slots}


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
