"""Ties the names of a checked statement to stores, and rewrites it to read scans instead.

Every place where a store stands in a FROM clause is a reference with a scan of its own: a self join has two.
The engine stays the judge of types and scopes; this module only needs to know which columns each reference
can touch at most.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.errors import LimitExceeded, NotFound, Unsupported
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.names import fold
from engine.model.result_width import type_width
from engine.model.schema import StoreDefinition, StoreName
from engine.model.table_shapes import TableShape
from engine.scan import LIVE_COLUMN
from engine.sql.catalog_tables import (
    INFORMATION_SCHEMA,
    SESSION,
    SYSTEM,
    TABLES,
    CatalogTable,
    catalog_table,
)
from engine.sql.functions import SESSION_FUNCTIONS, session_column
from engine.sql.literals import LiteralList
from engine.sql.output_names import name_outputs_around
from engine.sql.parameters import ParameterSlot, bind_parameters
from engine.sql.parsed_statement import ParsedStatement, StatementClass
from engine.sql.query_widths import QueryColumn, query_widths
from engine.sql.read_columns import ALL_COLUMNS, needed_columns
from engine.sql.statement_time import bind_statement_time
from engine.sql.text import SourceText, did_you_mean, offset_of
from engine.sql.versions import HISTORY, NO_MOMENTS, Moments, add_time_columns, is_versioned, read_at

MAX_SESSION_CALLS = 100
"""Calls of functions that tell something of the session; each becomes a query of its own."""
_SESSION_VALUES = frozenset(SESSION_FUNCTIONS) - {"version", "current_version", "current_database"}
"""Functions that are called without brackets, too."""
_RECURRING = "recurring"
"""The schema by which a recursive common table expression reads all rows that it has so far."""
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
        offset: Characters of the parsed text before the store, with its schema; -1 where that is not known.
    """

    scan: str
    alias: str
    definition: StoreDefinition
    columns: tuple[str, ...]
    is_held: bool
    name: StoreName
    offset: int = field(default=-1, compare=False)

    @property
    def table(self) -> tuple[str, str]:
        """Schema and name of the table that has all rows of the scan, whatever was switched."""
        return HISTORY if is_versioned(self.definition) else SCHEMA, self.definition.name


@dataclass(frozen=True)
class BoundStatement:
    """A statement whose names are known.

    Attributes:
        statement_class: What it asks for.
        source: The text, for places in errors.
        tree: The tree, reading scans; None for SHOW and for DESCRIBE of a store. Never changed.
        references: Where stores are read.
        parameters: Parameters in the order of their numbers.
        list_schemas: Columns of the long literal lists that the tree reads as tables, by name, and of the
            tables of the catalog.
        catalog_tables: The tables of the catalog that the tree reads, by the names that it has for them.
        described: The store that DESCRIBE names, or the table of the catalog.
        shown_schema: As `ParsedStatement.shown_schema`.
        is_json: Whether an EXPLAIN is to be one JSON value.
        reads_time: Whether the tree reads the statement's time: as one more parameter, the last one, which no
            client sees.
        row_width: How many columns, and parts of them, the widest row has that stands as a value in the tree.
    """

    statement_class: StatementClass
    source: SourceText
    tree: exp.Expr | None
    references: tuple[StoreReference, ...] = ()
    parameters: tuple[ParameterSlot, ...] = ()
    list_schemas: Mapping[str, pa.Schema] = field(default_factory=dict)
    catalog_tables: Mapping[str, CatalogTable] = field(default_factory=dict)
    described: StoreDefinition | CatalogTable | None = None
    is_json: bool = False
    shown_schema: str = SCHEMA
    reads_time: bool = False
    row_width: int = 0

    @property
    def stores(self) -> frozenset[StoreName]:
        """Names of the stores that are read."""
        return frozenset(reference.definition.name for reference in self.references)

    @cached_property
    def shapes(self) -> tuple[TableShape, ...]:
        """What its names mean, in order of name."""
        return tuple(
            TableShape(name, definition.name, definition.amendment, definition.group)
            for name, definition in sorted(self.tables.items())
        )

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
        UnknownStoreError: A store does not exist; with its place and near names in the message.
        InvalidInput: Parameters are mixed up.
        Unsupported: A table is read in a way that stores cannot be.
        LimitExceeded: A query of it has too many columns.
    """
    if parsed.tree is None:
        return BoundStatement(parsed.statement_class, parsed.source, None, shown_schema=parsed.shown_schema)
    names = _StoreNames(tables, parsed.source)
    tree = parsed.tree
    for summary in tree.find_all(exp.Summarize):
        if isinstance(summary.this, exp.Table):
            summary.set("this", exp.select("*").from_(summary.this))
            summary.set("table", None)
    if parsed.statement_class is StatementClass.DESCRIBE and isinstance(tree, exp.Table):
        described = _catalog_table(parsed.source, tree) if _is_of_catalog(tree) else names.find(tree)[1]
        return BoundStatement(parsed.statement_class, parsed.source, None, described=described)
    listed = {entry.name: entry.rows.schema for entry in lists}
    # Of the whole text: with its lists in place, it has the same names for what it reads.
    prefix = _unused_prefix(parsed.source.original)
    names_live_column = LIVE_COLUMN in fold(parsed.source.original)
    named = list(_named_tables(tree, listed))
    of_catalog = [table for table in named if _is_of_catalog(table)]
    found = [(table, *names.find(table)) for table in named if not _is_of_catalog(table)]
    _name_histories(parsed.source, [table for table, _, _ in found], prefix)
    session_calls = _session_calls(tree, [definition for _, _, definition in found])
    wanted = needed_columns(tree, [(table, definition) for table, _, definition in found])
    name_outputs_around([*(table for table, _, _ in found), *of_catalog, *session_calls])
    catalog_tables = _read_catalog(parsed.source, of_catalog, prefix)
    if session_calls:
        catalog_tables = {**catalog_tables, f"{prefix}{SESSION.name}": SESSION}
        _read_session(session_calls, f"{prefix}{SESSION.name}")
    offsets = [offset_of(table) for table, _, _ in found]
    places = [
        (name, definition.group, -1 if offset is None else parsed.source.position(offset).offset)
        for (_, name, definition), offset in zip(found, offsets, strict=True)
    ]
    references = []
    for number, ((table, name, definition), moment, offset) in enumerate(
        zip(found, moments.moments_of(places), offsets, strict=True)
    ):
        columns = (
            tuple(definition.schema.names)
            if all_columns or wanted[number] is ALL_COLUMNS
            else tuple(wanted[number])
        )
        if names_live_column and not columns:
            # A scan without columns has that one, which is no column of the store's.
            columns = definition.key[:1]
        is_held = is_versioned(definition) and fold(table.db) != HISTORY
        columns = add_time_columns(columns, definition) if is_held else columns
        references.append(
            StoreReference(
                f"{prefix}{number}",
                table.alias_or_name,
                definition,
                columns,
                is_held,
                name,
                -1 if offset is None else offset,
            )
        )
        _rename(table, references[-1].scan, references[-1].alias)
        if is_held:
            read_at(table, references[-1].alias, definition, moment)
    _drop_schema_qualifiers(tree, {*(each.alias for each in references), *map(_alias, of_catalog)})
    list_schemas = listed | {name: table.schema for name, table in catalog_tables.items()}
    widths = query_widths(
        tree,
        {reference.scan: _columns(reference.definition.schema) for reference in references}
        | {name: _columns(schema) for name, schema in list_schemas.items()},
    )
    parameters = bind_parameters(parsed.source, tree, references)
    reads_time = bind_statement_time(tree, len(parameters) + 1)
    return BoundStatement(
        parsed.statement_class,
        parsed.source,
        tree,
        tuple(references),
        parameters,
        list_schemas,
        catalog_tables,
        is_json=parsed.is_json,
        reads_time=reads_time,
        row_width=widths.row,
    )


def _columns(schema: pa.Schema) -> Sequence[QueryColumn]:
    return [QueryColumn(fold(field.name), type_width(field.type), 1) for field in schema]


def _name_histories(source: SourceText, tables: Sequence[exp.Table], prefix: str) -> None:
    """Give histories a name of their own where a FROM has the store, too, and both would have its name."""
    alike: dict[tuple[int, str], list[exp.Table]] = {}
    for table in tables:
        select = table.find_ancestor(exp.Select)
        if select is not None and not table.alias:
            alike.setdefault((id(select), fold(table.name)), []).append(table)
    for (_, name), found in alike.items():
        histories = [table for table in found if fold(table.db) == HISTORY]
        if len(histories) == 1 and len(found) == 2:
            select = histories[0].find_ancestor(exp.Select)
            assert select is not None
            alias = f"{prefix}{HISTORY}_{name}"
            for column in _columns_of(select, name):
                if not column.db:
                    raise source.error(
                        f"Ambiguous reference to table {column.table}: write {HISTORY}.{column.table} or "
                        f"{SCHEMA}.{column.table}.",
                        offset_of(column),
                    )
                if fold(column.db) == HISTORY:
                    column.set("table", exp.to_identifier(alias, quoted=True))
                    column.set("db", None)
                    column.set("catalog", None)
            histories[0].set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))


def _columns_of(select: exp.Select, table: str) -> Iterator[exp.Column]:
    """Columns that name a table of a FROM, also in queries within its query that have none of that name."""
    for column in list(select.find_all(exp.Column)):
        inner = column.find_ancestor(exp.Select)
        while inner is not None and inner is not select and not _has_table(inner, table):
            inner = inner.find_ancestor(exp.Select)
        if inner is select and fold(column.table) == table:
            yield column


def _has_table(select: exp.Select, name: str) -> bool:
    sources = [select.args.get("from_"), *(select.args.get("joins") or ())]
    return any(fold(each.this.alias_or_name) == name for each in sources if each is not None)


def _is_of_catalog(table: exp.Table) -> bool:
    return bool(fold(table.db) == INFORMATION_SCHEMA)


def _catalog_table(source: SourceText, table: exp.Table) -> CatalogTable:
    """The table of the catalog that a statement names."""
    known = catalog_table(table.db, table.name)
    if known is None or fold(table.catalog) not in ("", CATALOG, SYSTEM):
        raise source.not_found_error(
            f"There is no table {table.sql(dialect='duckdb')[:100]}: {INFORMATION_SCHEMA} has "
            f"{', '.join(TABLES)}.",
            offset_of(table),
        )
    return known


def _read_catalog(source: SourceText, tables: Sequence[exp.Table], prefix: str) -> Mapping[str, CatalogTable]:
    """Have tables of the catalog read under names that nothing else has."""
    found = {}
    for table in tables:
        known = _catalog_table(source, table)
        name = f"{prefix}{INFORMATION_SCHEMA}_{known.name}"
        _rename(table, name, table.alias_or_name)
        found[name] = known
    return found


def _session_calls(tree: exp.Expr, definitions: Sequence[StoreDefinition]) -> Sequence[exp.Expr]:
    """Calls of functions that tell something of the session: also those that look like a column that nothing
    has.
    """
    found: list[exp.Expr] = [call for call in tree.find_all(exp.Func) if session_column(call) is not None]
    columns = [
        column
        for column in tree.find_all(exp.Column)
        if not column.table and fold(column.name) in _SESSION_VALUES
    ]
    if columns:
        known = {fold(name) for definition in definitions for name in definition.schema.names}
        for node in tree.find_all(exp.Identifier, exp.Literal):
            if not isinstance(node.parent, exp.Column):
                known.add(fold(node.name))
        found += [column for column in columns if fold(column.name) not in known]
    if len(found) > MAX_SESSION_CALLS:
        raise LimitExceeded(
            f"The statement asks more than {MAX_SESSION_CALLS} times for the user, the schema or the like: "
            "ask once, in a common table expression."
        )
    return found


def _read_session(calls: Sequence[exp.Expr], name: str) -> None:
    """Have calls of functions that tell something of the session read the table that has it."""
    for call in calls:
        column = SESSION_FUNCTIONS[fold(call.name)] if isinstance(call, exp.Column) else session_column(call)
        assert column is not None
        table = exp.Table(this=exp.to_identifier(name, quoted=True))
        query = exp.Subquery(this=exp.select(exp.column(column, quoted=True)).from_(table))
        is_output = isinstance(call.parent, exp.Select) and call.arg_key == "expressions"
        is_named = isinstance(call, exp.Column) and is_output
        call.replace(exp.alias_(query, call.name, quoted=True) if is_named else query)


class UnknownStoreError(NotFound):
    """A statement names a store that there is not.

    Args:
        store: The name, as it is written.
        found: What is told of it.

    Attributes:
        store: As the argument.
    """

    def __init__(self, store: StoreName, found: NotFound) -> None:
        super().__init__(found.message, found.position)
        self.store = store


class _StoreNames:
    """Finds stores by name: exactly first, then without regard to case."""

    def __init__(self, tables: Mapping[StoreName, StoreDefinition], source: SourceText) -> None:
        self._tables = tables
        self._source = source

    def find(self, table: exp.Table) -> tuple[StoreName, StoreDefinition]:
        """A name as it is written among all names, and the store that it means."""
        schema = fold(table.db) or SCHEMA
        if schema not in (SCHEMA, HISTORY) or (table.catalog and fold(table.catalog) != CATALOG):
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
        matches = [known for known in self._tables if fold(known) == fold(name)]
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
        found = self._not_found_error(table, f"There is no store {name}.{did_you_mean(name, self._tables)}")
        raise UnknownStoreError(name, found)

    def _not_found_error(self, table: exp.Table, message: str) -> NotFound:
        return self._source.not_found_error(message, offset_of(table))


def _named_tables(tree: exp.Expr, listed: Collection[str]) -> Iterator[exp.Table]:
    """Tables of a statement that name stores or tables of the catalog: neither functions, nor lists, nor
    common table expressions.
    """
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.name in listed:
            continue
        if _is_cte(table) or _is_recurring(table):
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
    name = fold(table.name)
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
            if any(fold(cte.alias) == name for cte in visible):
                return True
        child, node = node, node.parent
    return False


def _is_recurring(table: exp.Table) -> bool:
    """Whether a table is all rows so far of a recursive common table expression that it stands in."""
    name, node = fold(table.name), table.parent
    if table.catalog or fold(table.db) != _RECURRING:
        return False
    while node is not None:
        clause = node.parent if isinstance(node, exp.CTE) else None
        if clause is not None and clause.args.get("recursive") and fold(node.alias) == name:
            return True
        node = node.parent
    return False


def _unused_prefix(text: str) -> str:
    prefix = "__scan_"
    lowered = fold(text)
    while prefix in lowered:
        prefix = f"_{prefix}"
    return prefix


def _alias(table: exp.Table) -> str:
    name: str = table.alias_or_name
    return name


def _rename(table: exp.Table, name: str, known_as: str) -> None:
    """Make a table read another one under the name that the statement knows it by."""
    alias = table.args.get("alias") or exp.TableAlias()
    if not alias.this:
        alias.set("this", exp.to_identifier(known_as, quoted=True))
    table.set("this", exp.to_identifier(name, quoted=True))
    table.set("db", None)
    table.set("catalog", None)
    table.set("alias", alias)


def _drop_schema_qualifiers(tree: exp.Expr, aliases: Collection[str]) -> None:
    """`main.plays.song_id` reads `plays.song_id` once `plays` is an alias, and so does
    `history.plays.song_id`.
    """
    lowered = {fold(alias) for alias in aliases}
    for column in tree.find_all(exp.Column):
        if (
            column.table
            and fold(column.table) in lowered
            and column.db
            and fold(column.db) in (SCHEMA, HISTORY, INFORMATION_SCHEMA)
        ):
            column.set("db", None)
            column.set("catalog", None)
