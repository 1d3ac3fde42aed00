"""`livestate load`: rows of a file become epochs of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.errors import InvalidInput, LivestateError
from engine.kinds import Merge
from engine.partials import partial_rows
from engine.schema import Epoch, StoreDefinition, StoreName, define_store
from engine.sql_types import arrow_type
from flight_server.files import FileFormat, format_of, open_rows

DEFAULT_BATCH_ROWS = 250_000
MAX_EPOCH_BYTES = 64 << 20
"""Wide rows end an epoch before it has its number of rows, so that memory stays bounded."""


@dataclass(frozen=True)
class LoadOptions:
    """What to load into.

    Attributes:
        store: Name of the store; created on first use.
        key: Columns that identify a row; empty takes those of the store that is there.
        partition_by: Leading part of the key that places a row; empty takes the whole key, or what the store has.
        partitions: How many partitions; None takes 8, or what the store has.
        format: Format of the file; None goes by its name.
        batch_rows: Rows of an epoch, at most.
        types: SQL types of CSV columns by name.
    """

    store: str
    key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    partitions: int | None = None
    format: FileFormat | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    types: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """How far a load has come.

    Attributes:
        rows: Rows committed.
        total: Rows of the file, where that is known.
        epochs: Epochs committed by this load.
        epoch: The newest of them; None before the first.
    """

    rows: int = 0
    total: int | None = None
    epochs: int = 0
    epoch: Epoch | None = None


def load_file(changelog: Changelog, file: Path, options: LoadOptions, report: Callable[[Progress], None] = lambda progress: None) -> Progress:
    """Append the rows of a file to a store, epoch by epoch.

    In a key-value store a row replaces the one with the same key, so a load that failed underway can simply be run again. A merge store that is there
    already is fed too: from a file of partial rows, or from one of events, which are aggregated first.

    Args:
        changelog: Where the store is, or will be.
        file: The file.
        options: What to load into.
        report: Called after each epoch.

    Returns:
        What was loaded.

    Raises:
        NotFound: The file cannot be opened.
        InvalidInput: The file, or one of its rows, does not fit; the message says which, and how much was loaded before it.
        Fenced: Another writer took the store over meanwhile.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    there = changelog.definition(StoreName(options.store))
    rows = open_rows(file, format_of(file, options.format), _csv_types(there, options))
    definition = _definition(there, rows.schema, options)
    progress = Progress(total=rows.rows)
    appender = open_appender(changelog, [definition], writer_id=f"livestate load of {file.name}")
    try:
        for table in epochs(rows.batches, options.batch_rows):
            progress = _append(appender, definition, table, progress)
            report(progress)
    except LivestateError as error:
        if progress.rows:
            again = "counts them twice" if isinstance(definition.behaviour.kind, Merge) else "replaces them"
            raise type(error)(f"{error.message} The {progress.rows:,} rows before it are loaded; loading the file again {again}.") from error
        raise
    return progress


def epochs(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.Table]:
    """Cut a stream of batches into tables of a size that suits an epoch.

    Args:
        batches: Any number of batches of any size.
        most_rows: Rows of a table, at most.

    Yields:
        The same rows in the same order; each table has `most_rows` rows unless it reached 64 MiB before, or is the last.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        rest = batch
        while rest.num_rows:
            piece = rest.slice(0, most_rows - rows)
            rest = rest.slice(piece.num_rows)
            held.append(piece)
            rows, size = rows + piece.num_rows, size + piece.nbytes
            if rows == most_rows or size >= MAX_EPOCH_BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _csv_types(there: StoreDefinition | None, options: LoadOptions) -> dict[str, pa.DataType]:
    known = {} if there is None else {f.name: f.type for f in there.row_schema if not pa.types.is_nested(f.type)}
    return known | {name: arrow_type(text.upper()) for name, text in options.types.items()}


def _definition(there: StoreDefinition | None, schema: pa.Schema, options: LoadOptions) -> StoreDefinition:
    if there is None:
        if not options.key:
            raise InvalidInput(f"Store {options.store} does not exist yet: say which columns identify a row, with --key a,b.")
        for column in schema:
            if pa.types.is_null(column.type):
                raise InvalidInput(
                    f"Store {options.store}: no value tells the type of the column {column.name}: say it, with --type {column.name}=VARCHAR."
                )
        partitions = 8 if options.partitions is None else options.partitions
        return define_store(options.store, schema, options.key, partition_by=options.partition_by or None, partitions=partitions)
    asked = define_store(
        there.name,
        there.row_schema,
        options.key or there.key,
        partition_by=options.partition_by or (there.partition_by if not options.key else None),
        partitions=there.partitions if options.partitions is None else options.partitions,
        group=there.group,
        behaviour=there.behaviour,
    )
    if asked != there:
        raise InvalidInput(
            f"Store {there.name} exists and differs. It is: {there.describe()}. Asked for: {asked.describe()}. "
            "Leave --key, --partition-by and --partitions out, or load into another store."
        )
    return there


def _append(appender: StoreAppender, definition: StoreDefinition, table: pa.Table, progress: Progress) -> Progress:
    _check_keys(definition, table, progress.rows)
    commit = appender.append({definition.name: _partial(definition, table)})
    return Progress(progress.rows + table.num_rows, progress.total, progress.epochs + 1, commit.epoch)


def _partial(definition: StoreDefinition, table: pa.Table) -> pa.Table:
    """Rows for a merge store: as they are if they have the columns of partial rows, else aggregated."""
    kind = definition.behaviour.kind
    if not isinstance(kind, Merge) or set(definition.row_schema.names) <= set(table.schema.names):
        return table
    return partial_rows(table, definition.key, kind.columns)


def _check_keys(definition: StoreDefinition, table: pa.Table, before: int) -> None:
    """Refuse null keys here, where the row's number in the file is known."""
    for name in definition.key:
        if name in table.schema.names and table[name].null_count:
            place = pc.index(pc.is_null(table[name]), True).as_py()
            raise InvalidInput(f"Store {definition.name}, row {before + place + 1:,}: the key column {name} is null; a key must not be null.")
