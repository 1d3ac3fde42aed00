"""What DuckDB says of a text over tables that are called as the stores are: the names that it gives to the
result's columns, or that it refuses the text.

What runs is another text than the user's: it is generated, reads scans, and casts parameters. Names that the
engine makes out of its expressions would show all that; and sqlglot reads more than DuckDB does, and writes
it so that DuckDB takes it. So the user's own text is bound, never run, over empty tables in a database that
has nothing else.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

import pyarrow as pa
from sqlglot import exp

from engine.deadline import Deadline
from engine.duckdb.binder import Binder
from engine.duckdb.engine_errors import Failure, NotBoundError
from engine.duckdb.growth import needs_worker
from engine.errors import InvalidInput
from engine.model.names import fold
from engine.plan.arguments import suggested_types
from engine.sql.bind import BoundStatement
from engine.sql.diagnose import diagnose
from engine.sql.first_words import EXPLAIN
from engine.sql.lexer import blanks_end
from engine.sql.output_names import has_derived_names
from engine.sql.parsed_statement import StatementClass
from engine.sql.read_columns import has_columns_of_rows
from engine.sql.versions import HISTORY

_log = logging.getLogger(__name__)
_DESCRIBE = re.compile(r"(?:DESCRIBE|DESC)\b", re.IGNORECASE)
_DOUBTFUL = re.compile(
    r"[(!~@^#|&]|<=>|::|(?:[-+*/%,=<>]|\b(?:SELECT|WHERE|ON|AND|OR|WHEN|THEN|ELSE|BY|BETWEEN))\s*\+",
    re.IGNORECASE,
)
"""Calls of functions, types and operators, of which sqlglot knows some that DuckDB does not; a plus before
what it belongs to, which sqlglot leaves out.
"""
UNKNOWN_SAMPLES: Sequence[object] = (0, [], datetime(2000, 1, 1))  # noqa: DTZ001 - a TIMESTAMP has no zone
"""What stands for a parameter whose type nothing tells: a number, which fits most functions, a list and a
moment, which some take alone.
"""
_WORD = re.compile(r"\w+")
_NAMED = (StatementClass.QUERY, StatementClass.DESCRIBE)


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
            The names; None where those that the engine gives will do.

        Raises:
            LivestateError: DuckDB refuses the text, whatever sqlglot makes of it.
        """
        if dialect != "duckdb" or bound.tree is None:
            return None
        begin = blanks_end(bound.source.text, 0)
        prefix = EXPLAIN.match(bound.source.text, begin) or _DESCRIBE.match(bound.source.text, begin)
        start = prefix.end() if prefix else 0
        text = self._checked_text(bound, start, deadline)
        tables = None if has_columns_of_rows(bound.tree) else _tables(bound)
        is_named = bound.statement_class in _NAMED and has_derived_names(bound.tree)
        is_doubtful = _DOUBTFUL.search(text) is not None and not needs_worker(text)
        if tables is None or not (is_named or is_doubtful):
            return None
        for values in _trials(bound):
            try:
                columns = self._binder.columns(text, tables, _named_values(bound, values), deadline)
                return tuple(column.name for column in columns) if is_named else None
            except (NotBoundError, InvalidInput) as error:
                _log.debug("A text is not bound as it stands: %s", error)
        nulls = _named_values(bound, [None] * len(bound.parameters))
        failure = self._binder.binding_failure(text, tables, nulls, deadline)
        if failure is not None and _is_final(failure, bound):
            place = failure.start or 0
            near = text[place : place + failure.length]
            raise diagnose(bound, failure.message, failure.name, near, failure.subtype)
        return None

    def _checked_text(self, bound: BoundStatement, start: int, deadline: Deadline) -> str:
        """The text of a query, which DuckDB's parser takes, too.

        A job that calls a column `at` need not know that DuckDB wants such a name in quotation marks, so it
        has them here.

        Args:
            bound: The text, bound.
            start: Where its query begins.
            deadline: When the statement must end.

        Raises:
            InvalidInput: DuckDB's parser does not take it.
        """
        text = bound.source.text[start:]
        failure = self._binder.syntax_failure(text, deadline)
        if failure is None:
            return text
        reserved = self._reserved_columns(bound, text, deadline)
        places = [place - start for place in _column_places(bound, reserved)]
        if places:
            text = _quote_words(text, places)
            failure = self._binder.syntax_failure(text, deadline)
        if failure is None:
            return text
        offset = None if failure.start is None else start + _unquoted_offset(failure.start, places)
        message = failure.message.split("\n", 1)[0].removesuffix(".")
        raise bound.source.error(f"{message[:1].upper()}{message[1:]}.", offset)

    def _reserved_columns(self, bound: BoundStatement, text: str, deadline: Deadline) -> set[str]:
        """The columns of its stores, in small letters, that a text has as words and SQL has, too."""
        assert bound.tree is not None
        words = set(_WORD.findall(fold(text)))
        columns = {fold(name) for reference in bound.references for name in reference.definition.schema.names}
        if _is_migrated(bound):
            # Any name may be that of a column at another epoch.
            columns |= {fold(name.name) for name in bound.tree.find_all(exp.Identifier)}
        return {
            word
            for word in words & columns
            if self._binder.syntax_failure(f"SELECT {word} FROM t", deadline) is not None
        }


def _column_places(bound: BoundStatement, names: Collection[str]) -> Sequence[int]:
    """Where a text has some names without quotation marks as those of columns, in order.

    Args:
        bound: The text, bound.
        names: The names, in small letters.
    """
    assert bound.tree is not None
    found = {
        node.meta["start"]
        for node in (bound.tree.find_all(exp.Identifier) if names else ())
        if "start" in node.meta and not _names_something_else(node)
    }
    text = bound.source.text
    return [
        place
        for place in sorted(found)
        if (word := _WORD.match(text, place)) is not None and fold(word[0]) in names
    ]


def _names_something_else(name: exp.Expr) -> bool:
    """Whether an identifier names a table, or an output; one behind * REPLACE is a column, too."""
    parent = name.parent
    if isinstance(parent, exp.Alias):
        return not isinstance(parent.parent, exp.Star)
    return isinstance(parent, exp.TableAlias | exp.Table)


def _quote_words(text: str, places: Sequence[int]) -> str:
    """A text with the words at some places, which are in order, in quotation marks."""
    parts, behind = [], 0
    for place in places:
        word = _WORD.match(text, place)
        assert word is not None
        parts += [text[behind:place], f'"{word[0]}"']
        behind = word.end()
    return "".join([*parts, text[behind:]])


def _unquoted_offset(offset: int, places: Sequence[int]) -> int:
    """Where in a text that stands which is at an offset once words at some places have quotation marks."""
    return offset - 2 * sum(place + 2 * number < offset for number, place in enumerate(places))


def _is_final(failure: Failure, bound: BoundStatement) -> bool:
    """Whether DuckDB's refusal of a text is about the text, and not about what stands in for what it reads:
    values of parameters that are not known yet, lists that were lifted, and a schema for histories.
    """
    if failure.subtype == "MISSING_ENTRY":
        return failure.entry not in ("", "Table", "Schema", "Catalog")
    reads_history = any(reference.table[0] == HISTORY for reference in bound.references)
    if bound.parameters or bound.list_schemas or reads_history or _is_migrated(bound):
        return False
    return failure.kind in ("binder", "catalog") and failure.subtype != "COLUMN_NOT_FOUND"


def _is_migrated(bound: BoundStatement) -> bool:
    """Whether a store that a text reads has other columns at another epoch, for which the text may be
    right.
    """
    return any(reference.definition.amendment for reference in bound.references)


def _tables(bound: BoundStatement) -> Mapping[str, pa.Schema] | None:
    """The tables that a text names; None where two names differ in case only, which DuckDB does not tell
    apart.
    """
    tables: dict[str, pa.Schema] = {
        name: definition.schema for name, definition in bound.tables.items()
    } | dict(bound.list_schemas)
    return tables if len({fold(name) for name in tables}) == len(tables) else None


def _trials(bound: BoundStatement) -> Iterator[Sequence[object]]:
    """Values for its parameters, the likeliest to be taken first. Names do not show them, but which function
    is meant may depend on their types.
    """
    types = suggested_types(bound.parameters)
    yield [None] * len(types)
    if types:
        yield [sample_value(arrow_type) for arrow_type in types]
    if any(slot.type is None for slot in bound.parameters):
        for unknown in UNKNOWN_SAMPLES:
            yield [
                unknown if slot.type is None else sample_value(arrow_type)
                for slot, arrow_type in zip(bound.parameters, types, strict=True)
            ]


def _named_values(bound: BoundStatement, values: Sequence[object]) -> Sequence[object] | Mapping[str, object]:
    """Values of its parameters as the engine takes them: by name, where these have names."""
    names = [slot.name for slot in bound.parameters]
    return values if all(name.isdigit() for name in names) else dict(zip(names, values, strict=True))


def null_value(arrow_type: pa.DataType | None) -> None:
    """What fits nearly every function."""


def sample_value(arrow_type: pa.DataType | None) -> object:
    """Some value of a type: some functions of a NULL have another type than of others."""
    if arrow_type is None:
        return None
    if pa.types.is_nested(arrow_type):
        return []
    if pa.types.is_temporal(arrow_type):
        return pa.scalar(0, arrow_type).as_py()
    text = "" if pa.types.is_string(arrow_type) or pa.types.is_binary(arrow_type) else "0"
    return pa.scalar(text).cast(arrow_type).as_py()
