"""The names that DuckDB gives to a result's columns, over tables that are called as the stores are.

What runs is another text than the user's: it is generated, reads scans, and casts parameters. Names that the engine makes out
of its expressions would show all that. So the user's own text is bound, never run, over empty tables in a database that has nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from engine.errors import InvalidInput
from engine.exec.binder import Binder, NotBoundError
from engine.sql.bind import BoundStatement
from engine.sql.columns import has_columns_of_rows
from engine.sql.output_names import has_derived_names
from engine.sql.parse import Kind

_DESCRIBE = re.compile(r"(?:\s|--[^\n]*\n|/\*.*?\*/)*(?:DESCRIBE|DESC)\b", re.IGNORECASE | re.DOTALL)


class ColumnNames:
    """Knows the names of results' columns. Safe for threads.

    Args:
        binder: Binds their texts.
    """

    def __init__(self, binder: Binder) -> None:
        self._binder = binder

    def of(self, bound: BoundStatement, dialect: str) -> tuple[str, ...] | None:
        """The names of a query's columns.

        Args:
            bound: The query, or DESCRIBE of one.
            dialect: Dialect of its text.

        Returns:
            The names; None where those that the engine gives will do, or DuckDB does not take the text as it stands.
        """
        if (
            dialect != "duckdb"
            or bound.kind not in (Kind.QUERY, Kind.DESCRIBE)
            or not has_derived_names(bound.tree)
            or has_columns_of_rows(bound.tree)
        ):
            return None
        described = _DESCRIBE.match(bound.source.text) if bound.kind is Kind.DESCRIBE else None
        text = bound.source.text[described.end() :] if described else bound.source.text
        tables = _tables(bound)
        if tables is None:
            return None
        try:
            return tuple(column.name for column in self._binder.columns(text, tables, _nulls(bound)))
        except (NotBoundError, InvalidInput):
            return None


def _tables(bound: BoundStatement) -> Mapping[str, pa.Schema] | None:
    """The tables that a text names; None where two names differ in case only, which DuckDB does not tell apart."""
    tables: dict[str, pa.Schema] = {name: definition.schema for name, definition in bound.tables.items()} | dict(bound.list_schemas)
    return tables if len({name.lower() for name in tables}) == len(tables) else None


def _nulls(bound: BoundStatement) -> Sequence[None] | Mapping[str, None]:
    """Values of its parameters, of which only the number counts."""
    slots = bound.parameters
    return [None] * len(slots) if all(slot.name.isdigit() for slot in slots) else {slot.name: None for slot in slots}
