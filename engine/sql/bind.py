"""Ties the names of a checked statement to stores, and rewrites it to read scans instead.

Every place where a store stands in a FROM clause is a reference with a scan of its own: a self join has two.
The engine stays the judge of types and scopes; this module only needs to know which columns each reference
can touch at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa
from sqlglot import exp

from engine.errors import NotFound, Unsupported
from engine.model.schema import StoreDefinition, StoreName
from engine.sql.literals import LiteralList
from engine.sql.output_names import name_outputs_around
from engine.sql.parameters import ParameterSlot, bind_parameters
from engine.sql.parse import ParsedStatement, StatementClass
from engine.sql.read_columns import ALL_COLUMNS, needed_columns
from engine.sql.statement_time import bind_statement_time
from engine.sql.text import SourceText, did_you_mean, offset_of
from engine.sql.versions import HISTORY, NO_MOMENTS, Moments, add_time_columns, is_versioned, read_at

CATALOG = "livestate"
SCHEMA = "main"
_SESSION_VALUES = frozenset(
    {"user", "current_user", "session_user", "current_role", "current_catalog", "current_schema"}
)
"""Functions that the engine calls without brackets, and that no statement may call."""
_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias", "joins", "sample", "pivots"})


@dataclass(frozen=True)
class StoreReference:
    """One place in a statement where a store is read.

    Attributes:
        scan: Name of the table that stands for it in the rewritten tree.
        alias: Name that qualifies its columns in the statement.
        definition: The store.
        columns: Columns of the store that the statement can touch, in the store's order; may be empty.
        is_held: Whether the store keeps versions and the tree reads only those that hold at a moment.
        name: What the statement calls the store, as it is written among all names; another name than the
            store's own after a switch.
    """

    scan: str
    alias: str
    definition: StoreDefinition
    columns: tuple[str, ...]
    is_held: bool
    name: StoreName

    @property
    def table(self) -> tuple[str, str]:
        """Schema and name of the table that has all rows of the scan, whatever was switched."""
        return HISTORY if is_versioned(self.definition) else SCHEMA, self.definition.name


@dataclass(frozen=True)
class TableShape:
    """What a name of a statement means.

    Attributes:
        name: The name, as it is written among all names.
        store: The store.
        generation: Which of the store's shapes: `StoreDefinition.generation`.
    """

    name: StoreName
    store: StoreName
    generation: int


@dataclass(frozen=True)
class BoundStatement:
    """A statement whose names are known.

    Attributes:
        statement_class: What it asks for.
        source: The text, for places in errors.
        tree: The tree, reading scans; None for SHOW and for DESCRIBE of a store. Never changed.
        references: Where stores are read.
        parameters: Parameters in the order of their numbers.
        list_schemas: Columns of the long literal lists that the tree reads as tables, by name.
        described: The store that DESCRIBE names.
        is_json: Whether an EXPLAIN is to be one JSON value.
        reads_time: Whether the tree reads the statement's time: as one more parameter, the last one, which no
            client sees.
    """

    statement_class: StatementClass
    source: SourceText
    tree: exp.Expr | None
    references: tuple[StoreReference, ...] = ()
    parameters: tuple[ParameterSlot, ...] = ()
    list_schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    described: StoreDefinition | None = None
    is_json: bool = False
    reads_time: bool = False

    @property
    def stores(self) -> frozenset[StoreName]:
        """Names of the stores that are read."""
        return frozenset(reference.definition.name for reference in self.references)

    @cached_property
    def shapes(self) -> tuple[TableShape, ...]:
        """What its names mean, in order of name; without those that mean the store of that name as it was
        created.
        """
        found = (
            TableShape(name, definition.name, definition.generation)
            for name, definition in sorted(self.tables.items())
        )
        return tuple(shape for shape in found if shape.generation or shape.store != shape.name)

    @cached_property
    def definitions(self) -> Mapping[StoreName, StoreDefinition]:
        """The stores that are read, by their own names."""
        return {reference.definition.name: reference.definition for reference in self.references}

    @cached_property
    def tables(self) -> Mapping[StoreName, StoreDefinition]:
        """What the statement's names of stores mean: whoever binds its text with these reads the
        same stores.
        """
        return {reference.name: reference.definition for reference in self.references}


def bind(
    parsed: ParsedStatement,
    lists: tuple[LiteralList, ...],
    tables: Mapping[StoreName, StoreDefinition],
    *,
    all_columns: bool = False,
    moments: Moments = NO_MOMENTS,
) -> BoundStatement:
    """Tie the names of a statement to stores.

    Args:
        parsed: A checked statement; its tree is taken over.
        lists: Lists that were lifted out of its text.
        tables: The store that each name means.
        all_columns: Give every reference all columns, whatever the statement seems to touch.
        moments: For which moments versioned stores are to be read.

    Returns:
        The bound statement.

    Raises:
        NotFound: A store does not exist; with its place and near names in the message.
        InvalidInput: Parameters are mixed up.
        Unsupported: A table is read in a way that stores cannot be.
    """
    if parsed.tree is None:
        return BoundStatement(parsed.statement_class, parsed.source, None)
    names = _StoreNames(tables, parsed.source)
    if isinstance(parsed.tree, exp.Summarize) and isinstance(parsed.tree.this, exp.Table):
        parsed.tree.set("this", exp.select("*").from_(parsed.tree.this))
    if parsed.statement_class is StatementClass.DESCRIBE and isinstance(parsed.tree, exp.Table):
        return BoundStatement(
            parsed.statement_class, parsed.source, None, described=names.find(parsed.tree)[1]
        )
    listed = {entry.name: entry.rows.schema for entry in lists}
    found = [(table, *names.find(table)) for table in _store_tables(parsed.tree, listed)]
    wanted = needed_columns(parsed.tree, [(table, definition) for table, _, definition in found])
    name_outputs_around(table for table, _, _ in found)
    prefix = _unused_prefix(parsed.source.text)
    places = [
        (name, definition.group, _offset_in_text(parsed.source, table)) for table, name, definition in found
    ]
    references = []
    for number, ((table, name, definition), moment) in enumerate(
        zip(found, moments.moments_of(places), strict=True)
    ):
        columns = (
            tuple(definition.schema.names)
            if all_columns or wanted[number] is ALL_COLUMNS
            else tuple(wanted[number])
        )
        is_held = is_versioned(definition) and table.db.lower() != HISTORY
        columns = add_time_columns(columns, definition) if is_held else columns
        references.append(
            StoreReference(f"{prefix}{number}", table.alias_or_name, definition, columns, is_held, name)
        )
        _rename(table, references[-1])
        if is_held:
            read_at(table, references[-1].alias, definition, moment)
    _drop_schema_qualifiers(parsed.tree, references)
    _refuse_values_of_sessions(parsed.source, parsed.tree, references)
    parameters = bind_parameters(parsed.source, parsed.tree, references)
    reads_time = bind_statement_time(parsed.tree, len(parameters) + 1)
    return BoundStatement(
        parsed.statement_class,
        parsed.source,
        parsed.tree,
        tuple(references),
        parameters,
        listed,
        is_json=parsed.is_json,
        reads_time=reads_time,
    )


def _refuse_values_of_sessions(
    source: SourceText, tree: exp.Expr, references: Sequence[StoreReference]
) -> None:
    """Refuse names that the engine takes for functions of its session where no column has such a name."""
    columns = [column for column in tree.find_all(exp.Column) if _names_session(column)]
    if not columns:
        return
    known = {name.lower() for reference in references for name in reference.definition.schema.names}
    for node in tree.find_all(exp.Identifier, exp.Literal):
        if not isinstance(node.parent, exp.Column):
            known.add(node.name.lower())
    for column in columns:
        if column.name.lower() not in known:
            raise source.error(
                f"The function {column.name} is not allowed: it reaches beyond its arguments.",
                offset_of(column),
            )


def _names_session(column: exp.Column) -> bool:
    return not column.table and column.name.lower() in _SESSION_VALUES


class _StoreNames:
    """Finds stores by name: exactly first, then without regard to case."""

    def __init__(self, tables: Mapping[StoreName, StoreDefinition], source: SourceText) -> None:
        self._tables = tables
        self._source = source

    def find(self, table: exp.Table) -> tuple[StoreName, StoreDefinition]:
        """A name as it is written among all names, and the store that it means."""
        schema = table.db.lower() or SCHEMA
        if schema not in (SCHEMA, HISTORY) or (table.catalog and table.catalog.lower() != CATALOG):
            raise self._not_found_error(
                table,
                (
                    f"There is no schema {'.'.join(part for part in (table.catalog, table.db) if part)}: "
                    f"stores are in {CATALOG}.{SCHEMA}."
                ),
            )
        name = self._store_name(table)
        found = self._tables[name]
        if schema == HISTORY and not is_versioned(found):
            raise self._not_found_error(
                table, f"The store {name} keeps no versions, so it has no history: ask {SCHEMA}.{name}."
            )
        return name, found

    def _store_name(self, table: exp.Table) -> StoreName:
        name = StoreName(table.name)
        if name in self._tables:
            return name
        matches = [known for known in self._tables if known.lower() == name.lower()]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise self._not_found_error(
                table,
                (
                    f"The name {name} could be any of the stores {', '.join(sorted(matches))}: quote it as "
                    "it is written."
                ),
            )
        raise self._not_found_error(table, f"There is no store {name}.{did_you_mean(name, self._tables)}")

    def _not_found_error(self, table: exp.Table, message: str) -> NotFound:
        return self._source.not_found_error(message, offset_of(table))


def _store_tables(tree: exp.Expr, listed: Collection[str]) -> Iterator[exp.Table]:
    """Tables of a statement that name stores: neither functions, nor lists, nor common table expressions."""
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.name in listed or _is_cte(table):
            continue
        strange = [name for name, value in table.args.items() if value and name not in _TABLE_PARTS]
        if strange:
            raise Unsupported(
                f"The table {table.name} is read with {strange[0].upper()}, which is not supported."
            )
        yield table


def _is_cte(table: exp.Table) -> bool:
    """Whether a table's name is that of a common table expression it can see.

    A common table expression sees those before it, and itself if the WITH is RECURSIVE; the query of the WITH
    sees all.
    """
    if table.db:
        return False
    name = table.name.lower()
    child: exp.Expr = table
    node = table.parent
    inside: exp.Expr | None = None
    while node is not None:
        if isinstance(node, exp.CTE):
            inside = node
        clause = node.args.get("with_")
        if clause is not None:
            visible = list(clause.expressions)
            if child is clause:
                index = next(index for index, cte in enumerate(visible) if cte is inside)
                visible = visible[: index + 1] if clause.args.get("recursive") else visible[:index]
            if any(cte.alias.lower() == name for cte in visible):
                return True
        child, node = node, node.parent
    return False


def _offset_in_text(source: SourceText, table: exp.Table) -> int:
    """Characters of the user's text before a table's name."""
    offset = offset_of(table)
    return -1 if offset is None else source.position(offset).offset


def _unused_prefix(text: str) -> str:
    prefix = "__scan_"
    lowered = text.lower()
    while prefix in lowered:
        prefix = f"_{prefix}"
    return prefix


def _rename(table: exp.Table, reference: StoreReference) -> None:
    """Make a table read its scan under the name that the statement knows it by."""
    alias = table.args.get("alias") or exp.TableAlias()
    if not alias.this:
        alias.set("this", exp.to_identifier(reference.alias, quoted=True))
    table.set("this", exp.to_identifier(reference.scan, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
    table.set("alias", alias)


def _drop_schema_qualifiers(tree: exp.Expr, references: list[StoreReference]) -> None:
    """`main.plays.song_id` reads `plays.song_id` once `plays` is an alias, and so does
    `history.plays.song_id`.
    """
    aliases = {reference.alias.lower() for reference in references}
    for column in tree.find_all(exp.Column):
        if (
            column.table
            and column.table.lower() in aliases
            and column.db
            and column.db.lower() in (SCHEMA, HISTORY)
        ):
            column.set("db", None)
            column.set("catalog", None)
