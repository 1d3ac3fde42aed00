"""Texts made ready: which stores their names mean, in which shape these are read, and as of when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from engine.deadline import Deadline
from engine.errors import Corrupt, InvalidInput, NotFound, Unavailable
from engine.model.names import find_name, fold
from engine.model.read_point import ReadPoint
from engine.model.schema import GroupName, NamedStores, StoreDefinition, StoreName
from engine.model.table_shapes import UNKNOWN_GROUP, ExpectedShapes, TableShape
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.scan import StoreSource
from engine.sql.as_of import drop_version_moments, resolve_as_of, take_as_of
from engine.sql.bind import BoundStatement, UnknownStoreError
from engine.sql.lexer import with_quoted_names
from engine.sql.literals import lift, likely_template, listed_keys, longest_text_error, split_last_list
from engine.sql.text import SourceText
from engine.sql.versions import NO_MOMENTS, Moments, is_versioned
from engine.statements.statement_cache import MAX_CACHED_LENGTH, ReadyText, StatementCache


class Texts:
    """Makes the texts of clients ready. Safe for threads.

    Args:
        source: The stores, and what names mean.
        statements: Keeps what was made ready.
        max_sql_bytes: Size of the longest text, in UTF-8.
    """

    def __init__(self, source: StoreSource, statements: StatementCache, max_sql_bytes: int) -> None:
        self._source = source
        self._statements = statements
        self._max_sql_bytes = max_sql_bytes

    def ready_text(
        self, text: str, dialect: str, read_point: ReadPoint, deadline: Deadline, user: str = ""
    ) -> tuple[ReadyText, ReadPoint]:
        """Make a text ready. All its names are looked up at one moment.

        Args:
            text: What a client wrote.
            dialect: Its dialect.
            read_point: Which epochs its session may read.
            deadline: When the statement must end.
            user: The name of whoever asks.

        Returns:
            The statement without the epochs that its text asks for, and these in its read point.

        Raises:
            Unavailable: It names a store of which the changelog is damaged.
            LivestateError: The text is not valid, as kind and message say.
        """
        self._check_length(text)
        try:
            return self._ready_text(text, dialect, read_point, deadline, user)
        except UnknownStoreError as error:
            damaged = self._source.damaged_names()
            name = find_name(error.store, damaged)
            if name is None:
                raise
            raise Unavailable(damaged[name]) from error

    def _ready_text(
        self, text: str, dialect: str, read_point: ReadPoint, deadline: Deadline, user: str
    ) -> tuple[ReadyText, ReadPoint]:
        tables = self._source.tables()
        taken = take_as_of(with_quoted_names(text) if dialect == "duckdb" else text, dialect)
        asked = Moments.from_clauses(taken.clauses, read_point)
        # Moments matter for versioned stores only: a statement without these is shared with other moments.
        moments = asked if asked != NO_MOMENTS and _names_versions(taken.text, tables) else NO_MOMENTS
        ready = self._statements.ready_text(taken.text, dialect, tables, deadline, moments, user=user)
        references = ready.statement.bound.references
        if moments != asked and any(is_versioned(each.definition) for each in references):
            moments = asked
            ready = self._statements.ready_text(taken.text, dialect, tables, deadline, moments, user=user)
            references = ready.statement.bound.references
        if not taken.clauses and moments == NO_MOMENTS:
            return ready, read_point
        source = SourceText(taken.marked, taken.marked)
        as_of = resolve_as_of(source, taken.clauses, references, _parsed_text(taken.text, dialect, ready))
        return ready, replace(read_point, as_of={**drop_version_moments(read_point, references), **as_of})

    def rebind_at(
        self, ready: ReadyText, dialect: str, generations: Mapping[GroupName, int], deadline: Deadline
    ) -> ReadyText:
        """A text with what its stores are where other numbers of amendments are in effect. Its names mean the
        same stores.

        Args:
            ready: The text.
            dialect: Its dialect.
            generations: How many amendments of each store group are in effect.
            deadline: When the statement must end.

        Raises:
            NotFound: There is no such store there: it was dropped, or its rows are hidden by a column that it
                lacks there.
            LivestateError: The text is not valid there, or it is not known what the stores are there.
        """
        stores, meant = self._source.definitions_of(generations), ready.statement.bound.tables
        gone = sorted(definition.name for definition in meant.values() if definition.name not in stores)
        if gone:
            raise NotFound(f"There is no store {gone[0]} at the epoch that is to be read.")
        tables = {name: stores[definition.name] for name, definition in meant.items()}
        return self._rebind(ready, dialect, tables, deadline)

    def rebind_as_expected(
        self, ready: ReadyText, dialect: str, expected_shapes: ExpectedShapes, deadline: Deadline
    ) -> ReadyText | None:
        """A text with what its names once meant.

        Args:
            ready: The text with what they mean now.
            dialect: Its dialect.
            expected_shapes: What they meant: `BoundStatement.shapes`.
            deadline: When the statement must end.

        Returns:
            The text; None where a name meant a store that there is not, or was not then.

        Raises:
            InvalidInput: The changelog does not have the migration that made a store what it was.
            LivestateError: The text is not valid so, or it is not known what the stores were.
        """
        stores, meant = self._source.definitions(), {shape.name: shape for shape in expected_shapes}
        tables: dict[StoreName, StoreDefinition] = {}
        for name in ready.statement.bound.tables:
            # An older version says nothing of a name that means the store of that name as it was created.
            shape = meant.get(name, TableShape(name, name, 0, UNKNOWN_GROUP))
            if shape.store not in stores or shape.group not in (UNKNOWN_GROUP, stores[shape.store].group):
                return None
            try:
                found = self._source.definitions_of({stores[shape.store].group: shape.generation})
            except Corrupt as error:
                # A changelog that has lost something says so everywhere; a handle may be one of another
                # changelog at this address.
                raise InvalidInput(
                    f"The changelog does not say what store {shape.store} was when the statement was "
                    "prepared: prepare it again."
                ) from error
            if shape.store not in found or found[shape.store].since > shape.generation:
                # It was another store of that name, which was dropped.
                return None
            tables[name] = found[shape.store]
        return self._rebind(ready, dialect, tables, deadline)

    def _rebind(self, ready: ReadyText, dialect: str, tables: NamedStores, deadline: Deadline) -> ReadyText:
        shapes = tuple(
            (name, definition.name, definition.amendment, definition.group)
            for name, definition in sorted(tables.items())
        )
        rebound = self._statements.ready_text(ready.text, dialect, tables, deadline, ready.moments, shapes)
        # What it reads of the catalog is of all stores, and of the moment when it came.
        return replace(rebound, lists={**rebound.lists, **ready.catalog_rows})

    def _check_length(self, text: str) -> None:
        limit = self._max_sql_bytes
        if len(text) > limit or (len(text) * 4 > limit and len(text.encode(errors="replace")) > limit):
            raise longest_text_error(limit)

    def lookup_by_literal(self, text: str, dialect: str) -> tuple[ReadyStatement, object] | None:
        """A lookup of one row by its key, of a text with one literal, if its like was made ready before.

        Args:
            text: Any text.
            dialect: Its dialect.

        Returns:
            The lookup, whose only parameter is the key, and the literal; None for any other text.
        """
        template = likely_template(text) if dialect == "duckdb" else None
        if template is None:
            return None
        known = self._statements.known_lookup(template.text, self._source.tables())
        return None if known is None or known.key_lookup is None else (known, template.values[0])

    def lookup_by_parameter(
        self, text: str, dialect: str, parameters: pa.RecordBatch | Sequence[object]
    ) -> tuple[ReadyStatement, object] | None:
        """A lookup of one row by its key, of a text with one parameter, if it was made ready before.

        Args:
            text: Any text.
            dialect: Its dialect.
            parameters: One row with a column a parameter, or plain Python values.

        Returns:
            The lookup, and the parameter's value; None for anything else.
        """
        known = self._statements.known_statement(text, dialect, self._source.tables())
        lookup = None if known is None else known.key_lookup
        if known is None or lookup is None:
            return None
        if not isinstance(parameters, pa.RecordBatch):
            return (known, parameters[0]) if len(parameters) == 1 else None
        if parameters.num_rows != 1 or parameters.num_columns != 1:
            return None
        column = parameters.column(0)
        is_fitting = column.type == lookup.key_type or (
            pa.types.is_integer(column.type) and pa.types.is_integer(lookup.key_type)
        )
        return (known, column[0].as_py()) if is_fitting else None

    def lookup_by_list(self, text: str) -> tuple[ReadyStatement, pa.RecordBatch] | None:
        """A lookup of rows by the list of keys that a text ends in, if its like was made ready before.

        Two texts with the same words before their lists, without comments, are one statement but for what is
        in the lists.

        Args:
            text: Any text in DuckDB's dialect.

        Returns:
            The lookup, and the keys; None for any other text.
        """
        if len(text) > MAX_CACHED_LENGTH:
            return None
        parts = split_last_list(text)
        if parts is None:
            return None
        head, body = parts
        known = self._statements.known_list_lookup(head, self._source.tables())
        lookup = None if known is None else known.key_list_lookup
        keys = None if lookup is None else listed_keys(body, lookup.key_type)
        if known is None or lookup is None or keys is None:
            return None
        return known, pa.RecordBatch.from_arrays([keys], names=list(lookup.definition.key))

    def learn_list_lookup(self, text: str, statement: ReadyStatement, arguments: Arguments) -> None:
        """Take note of a text that was answered, if it is a lookup of rows by the list that it ends in.

        Args:
            text: A text in DuckDB's dialect without AS OF.
            statement: Its statement, or that of its template.
            arguments: The values that it was answered with.
        """
        lookup = statement.key_list_lookup
        parts = None if lookup is None or len(text) > MAX_CACHED_LENGTH else split_last_list(text)
        if lookup is None or parts is None:
            return
        head, body = parts
        lists = tuple(arguments.lists.values())
        if len(lists) > 1 or (lists and arguments.parameters):
            return
        used = lists[0].column(0).to_pylist() if lists else [each.as_py() for each in arguments.parameters]
        keys = listed_keys(body, lookup.key_type)
        # That what is read as a list is the one that the statement has, shows in its values.
        if keys is not None and keys.to_pylist() == used:
            self._statements.learn_list_lookup(head, statement)


def switched_names(
    expected_shapes: ExpectedShapes, bound: BoundStatement
) -> Sequence[tuple[StoreName, StoreName]]:
    """Names of a statement that mean other stores now than they meant when its columns were told, in order.

    Args:
        expected_shapes: What they meant then.
        bound: The statement with what they mean now.

    Returns:
        Each name with the store that it means now.
    """
    meant = {shape.name: shape.store for shape in expected_shapes}
    return [
        (name, definition.name)
        for name, definition in sorted(bound.tables.items())
        if meant.get(name, name) != definition.name
    ]


def refuse_outdated(expected_shapes: ExpectedShapes, bound: BoundStatement) -> InvalidInput:
    """The refusal of a statement whose columns are others than were told.

    Args:
        expected_shapes: What its names meant then.
        bound: The statement with what they mean now.
    """
    switched = switched_names(expected_shapes, bound)
    if switched:
        name, store = switched[0]
        return InvalidInput(
            f"The statement was prepared before the name {name} was switched to store {store}: prepare it "
            "again."
        )
    changed = sorted({shape.store for shape in {*expected_shapes} ^ {*bound.shapes}})
    stores = f"store {changed[0]}" if len(changed) == 1 else f"one of the stores {', '.join(changed)}"
    return InvalidInput(
        f"The statement was prepared before {stores} was migrated or made anew: prepare it again."
    )


def _parsed_text(text: str, dialect: str, ready: ReadyText) -> SourceText:
    """What was parsed of a text, with the text's own places: its statement may be that of one with other long
    lists.
    """
    source = ready.statement.bound.source
    return source if source.original == text else lift(text, dialect).source


def _names_versions(text: str, tables: NamedStores) -> bool:
    """Whether the name of a versioned store stands in a text as it is, unlike one with quotes in it."""
    lowered = fold(text)
    return any(is_versioned(definition) and fold(name) in lowered for name, definition in tables.items())
