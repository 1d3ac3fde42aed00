"""The names that DuckDB gives to a result's columns, over tables that are called as the stores are.

What runs is another text than the user's: it is generated, reads scans, and casts parameters. Names that the
engine makes out of its expressions would show all that. So the user's own text is bound, never run, over
empty tables in a database that has nothing else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence

import pyarrow as pa

from engine.duckdb.binder import Binder
from engine.duckdb.deadline import Deadline
from engine.duckdb.engine_errors import NotBoundError
from engine.errors import InvalidInput
from engine.plan.arguments import suggested_types
from engine.sql.bind import BoundStatement
from engine.sql.lexer import blanks_end
from engine.sql.output_names import has_derived_names
from engine.sql.parse import StatementClass
from engine.sql.read_columns import has_columns_of_rows

_log = logging.getLogger(__name__)
_DESCRIBE = re.compile(r"(?:DESCRIBE|DESC)\b", re.IGNORECASE)


class ColumnNames:
    """Knows the names of results' columns. Safe for threads.

    Args:
        binder: Binds their texts.
    """

    def __init__(self, binder: Binder) -> None:
        self._binder = binder

    def names_of(self, bound: BoundStatement, dialect: str, deadline: Deadline) -> tuple[str, ...] | None:
        """The names of a query's columns.

        Args:
            bound: The query, or DESCRIBE of one.
            dialect: Dialect of its text.
            deadline: When the statement must end.

        Returns:
            The names; None where those that the engine gives will do, or DuckDB does not take the text as it
            stands.
        """
        if (
            dialect != "duckdb"
            or bound.statement_class not in (StatementClass.QUERY, StatementClass.DESCRIBE)
            or not has_derived_names(bound.tree)
            or has_columns_of_rows(bound.tree)
        ):
            return None
        described = (
            _DESCRIBE.match(bound.source.text, blanks_end(bound.source.text, 0))
            if bound.statement_class is StatementClass.DESCRIBE
            else None
        )
        text = bound.source.text[described.end() :] if described else bound.source.text
        tables = _tables(bound)
        if tables is None:
            return None
        for value_of in (_null, _sample) if bound.parameters else (_null,):
            try:
                return tuple(
                    column.name
                    for column in self._binder.columns(text, tables, _values(bound, value_of), deadline)
                )
            except (NotBoundError, InvalidInput) as error:
                _log.debug("A text is not bound as it stands: %s", error)
        return None


def _tables(bound: BoundStatement) -> Mapping[str, pa.Schema] | None:
    """The tables that a text names; None where two names differ in case only, which DuckDB does not tell
    apart.
    """
    tables: dict[str, pa.Schema] = {
        name: definition.schema for name, definition in bound.tables.items()
    } | dict(bound.list_schemas)
    return tables if len({name.lower() for name in tables}) == len(tables) else None


def _values(
    bound: BoundStatement, value_of: Callable[[pa.DataType], object]
) -> Sequence[object] | Mapping[str, object]:
    """Values of its parameters. Names do not show them, but which function is meant may depend on their
    types.
    """
    values = {
        slot.name: value_of(arrow_type)
        for slot, arrow_type in zip(bound.parameters, suggested_types(bound.parameters), strict=True)
    }
    return list(values.values()) if all(name.isdigit() for name in values) else values


def _null(arrow_type: pa.DataType) -> None:
    """What fits nearly every function."""


def _sample(arrow_type: pa.DataType) -> object:
    """Some value of a type."""
    if pa.types.is_nested(arrow_type):
        return []
    if pa.types.is_temporal(arrow_type):
        return pa.scalar(0, arrow_type).as_py()
    text = "" if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type) else "0"
    return pa.scalar(text).cast(arrow_type).as_py()
