"""`livestate load`: rows of a file become one epoch of a store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from engine.changelog import Changelog, DataFile, open_appender, partition_rows
from engine.errors import Fenced, InvalidInput, LimitExceeded, LivestateError
from engine.model.kinds import PLAIN, Kind, Merge, Session, time_of
from engine.model.schema import Epoch, StoreDefinition, StoreName, define_store
from engine.model.sql_types import parse_sql_type
from engine.producers.partial_rows import partial_rows, session_fragments
from flight_server.cli.behaviour_text import BehaviourText
from flight_server.cli.input_files import FileFormat, format_of, open_rows

DEFAULT_BATCH_ROWS = 250_000
MAX_STAGED_BYTES = 64 << 20
"""Wide rows are staged before they are as many as may be, so that memory stays bounded."""


@dataclass(frozen=True)
class LoadOptions:
    """What to load into.

    Attributes:
        store: Name of the store; created on first use.
        key: Columns that identify a row; empty takes those of the store that is there.
        partition_by: Leading part of the key that places a row; empty takes the whole key, or what the store
            has.
        partitions: How many partitions; None takes 8, or what the store has.
        format: Format of the file; None goes by its name.
        batch_rows: Rows that are read and staged at once, at most.
        types: SQL types of columns by name; the others are those of the file, or inferred.
        behaviour: Kind, retention and placement of a new store; of one that is there, what is given has to be
            so.
        time: Column with the time of the events, for a session store.
        watermark: No event before it is waited for any more, with a time zone: rows that are past their
            retention by then go. None: rows that go by the time of an event stay.
        take_over: Whether to load into a store group that a job has written, which ends the job's term.
    """

    store: str
    key: Sequence[str] = ()
    partition_by: Sequence[str] = ()
    partitions: int | None = None
    format: FileFormat | None = None
    batch_rows: int = DEFAULT_BATCH_ROWS
    types: Mapping[str, str] = field(default_factory=dict)
    behaviour: BehaviourText = field(default_factory=BehaviourText)
    time: str = ""
    watermark: dt.datetime | None = None
    take_over: bool = False


@dataclass(frozen=True)
class Progress:
    """How far a load has come.

    Attributes:
        rows: Rows staged.
        total: Rows of the file, where that is known.
        epoch: The epoch that they are; None until they are committed, and where there are none.
    """

    rows: int = 0
    total: int | None = None
    epoch: Epoch | None = None


def load_file(
    changelog: Changelog,
    file: Path,
    options: LoadOptions,
    report: Callable[[Progress], None] = lambda progress: None,
) -> Progress:
    """Append the rows of a file to a store as one epoch, of whatever size.

    Rows are staged piece by piece, and committed at the end: a load that fails leaves the store as it was. A
    store that merges takes a file of partial rows or session fragments, or one of events, which are
    aggregated first.

    Args:
        changelog: Where the store is, or will be.
        file: The file.
        options: What to load into.
        report: Called after each piece, and at the end.

    Returns:
        What was loaded.

    Raises:
        NotFound: The file cannot be opened.
        InvalidInput: The file, or one of its rows, does not fit; the message says which. Or a job has written
            the store group, and it is not to be taken over.
        Fenced: Another writer took the store over meanwhile.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    there = _existing_store(changelog, file, options)
    file_format = format_of(file, options.format)
    rows = open_rows(file, file_format, _types(there, file_format, options))
    definition = _definition(there, rows.schema, options)
    progress = Progress(total=rows.rows)
    # A file that is refused at its beginning ends no job's term, and leaves nothing of a new changelog.
    parts = _begin(definition, _parts(definition, pieces(rows.batches, options.batch_rows), options.time))
    appender = open_appender(
        changelog,
        [definition],
        writer_id=f"livestate load of {file.name}",
        take_over=options.take_over,
        creates_stores_later=True,
    )
    files: list[DataFile] = []
    try:
        for count, part in parts:
            files.append(appender.stage({definition.name: part}))
            progress = replace(progress, rows=progress.rows + count)
            report(progress)
    except BaseException as error:
        with suppress(LivestateError):
            appender.discard(files)
        if isinstance(error, LivestateError) and files:
            raise type(error)(f"{error.message} Nothing of the file was loaded.") from error
        raise
    if files or there is None:
        try:
            progress = replace(progress, epoch=appender.commit(files, watermark=options.watermark).epoch)
        except (Fenced, InvalidInput, LimitExceeded):
            with suppress(LivestateError):
                appender.discard(files)
            raise
        report(progress)
    return progress


def pieces(batches: Iterable[pa.RecordBatch], most_rows: int) -> Iterator[pa.Table]:
    """Cut a stream of batches into tables that fit memory.

    Args:
        batches: Any number of batches of any size.
        most_rows: Rows of a table, at most.

    Yields:
        The same rows in the same order; each table has `most_rows` rows unless it reached 64 MiB before, or
        is the last.
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
            if rows == most_rows or size >= MAX_STAGED_BYTES:
                yield pa.Table.from_batches(held)
                held, rows, size = [], 0, 0
    if held:
        yield pa.Table.from_batches(held)


def _parts(
    definition: StoreDefinition, tables: Iterable[pa.Table], time: str
) -> Iterator[tuple[int, pa.Table]]:
    """Pieces of the file as the store takes them, and how many rows of the file each is."""
    before = 0
    for table in tables:
        _check_keys(definition, table, before, time)
        yield table.num_rows, _rows(definition.name, definition.key, definition.behaviour.kind, table, time)
        before += table.num_rows


def _begin(
    definition: StoreDefinition, parts: Iterator[tuple[int, pa.Table]]
) -> Iterator[tuple[int, pa.Table]]:
    """The same parts; the first is there already, and fits the store."""
    first = next(parts, None)
    if first is None:
        return parts
    partition_rows(definition, first[1])
    return chain((first,), parts)


def _existing_store(changelog: Changelog, file: Path, options: LoadOptions) -> StoreDefinition | None:
    """The store as it is; of the shapes that migrations have given it the newest that has the
    file's columns.
    """
    shapes = changelog.shapes(StoreName(options.store))
    if len(shapes) < 2:
        return shapes[0] if shapes else None
    names = sorted(open_rows(file, format_of(file, options.format), {}).schema.names)
    fitting = [shape for shape in shapes if sorted(shape.row_schema.names) == names]
    return (fitting or shapes)[-1]


def _types(
    there: StoreDefinition | None, file_format: FileFormat, options: LoadOptions
) -> dict[str, pa.DataType]:
    """The types that columns of the file have to have. Other formats than CSV have types of their own, which
    are made to fit those of the store later.
    """
    known = (
        {}
        if there is None or file_format != "csv"
        else {f.name: f.type for f in _file_schema(there) if not pa.types.is_nested(f.type)}
    )
    return known | {name: parse_sql_type(text) for name, text in options.types.items()}


def _file_schema(there: StoreDefinition) -> pa.Schema:
    """The columns that a file for a store has to have: for a store that merges those of its key, as the file
    may have events or partial rows.
    """
    kind = there.behaviour.kind
    if not isinstance(kind, Merge | Session):
        return there.row_schema
    return pa.schema([column for column in there.key_schema if column.name != time_of(kind)])


def _definition(there: StoreDefinition | None, schema: pa.Schema, options: LoadOptions) -> StoreDefinition:
    return _new_store(schema, options) if there is None else _same_store(there, options)


def _new_store(schema: pa.Schema, options: LoadOptions) -> StoreDefinition:
    if not options.key:
        raise InvalidInput(
            f"Store {options.store} does not exist yet: say which columns identify a row, with --key a,b."
        )
    for column in schema:
        if pa.types.is_null(column.type):
            raise InvalidInput(
                f"Store {options.store}: no value tells the type of the column {column.name}: say it, with "
                f"--type {column.name}=VARCHAR."
            )
    behaviour = options.behaviour.behaviour(options.store, PLAIN)
    rows = _rows(options.store, options.key, behaviour.kind, schema.empty_table(), options.time)
    return define_store(
        options.store,
        rows.schema,
        options.key,
        partition_by=options.partition_by or None,
        partitions=8 if options.partitions is None else options.partitions,
        behaviour=behaviour,
    )


def _same_store(there: StoreDefinition, options: LoadOptions) -> StoreDefinition:
    """The store that is there, if it is what is asked for."""
    behaviour = options.behaviour.behaviour(there.name, there.behaviour)
    if behaviour != there.behaviour:
        raise InvalidInput(
            f"Store {there.name} exists and differs. It is: {there.describe()}. Asked for: "
            f"{behaviour.describe() or 'a plain key-value store'}. "
            "Leave the options of its kind, retention and placement out, or load into another store."
        )
    asked = define_store(
        there.name,
        there.row_schema,
        options.key or there.key,
        partition_by=options.partition_by or (there.partition_by if not options.key else None),
        partitions=there.partitions if options.partitions is None else options.partitions,
        group=there.group,
        behaviour=there.behaviour,
    )
    if not asked.is_as(there):
        raise InvalidInput(
            f"Store {there.name} exists and differs. It is: {there.describe()}. Asked for: "
            f"{asked.describe()}. "
            "Leave --key, --partition-by and --partitions out, or load into another store."
        )
    return there


def _rows(store: str, key: Sequence[str], kind: Kind, table: pa.Table, time: str) -> pa.Table:
    """Rows as the store takes them: those of a file of events are aggregated for a store that merges."""
    if not isinstance(kind, Merge | Session) or _are_partial(kind, table.schema.names):
        return table
    if isinstance(kind, Merge):
        return partial_rows(table, key, kind.columns)
    if not time:
        raise InvalidInput(
            f"Store {store}: say which column has the time of the events, with --time, or give {kind.start} "
            f"and {kind.end}."
        )
    return session_fragments(table, [name for name in key if name != kind.start], kind, time)


def _are_partial(kind: Merge | Session, names: Sequence[str]) -> bool:
    """Whether a file has partial rows: all of their columns, and one at least that its events
    could not have.
    """
    times = {kind.start, kind.end} if isinstance(kind, Session) else set()
    partials = {name for column in kind.columns for name in column.partials} | times
    return partials <= set(names) and not partials <= {column.of for column in kind.columns}


def _check_keys(definition: StoreDefinition, table: pa.Table, before: int, time: str) -> None:
    """Refuse null keys here, where the row's number in the file is known."""
    for name in dict.fromkeys([*definition.key, time]):
        if name in table.schema.names and table[name].null_count:
            place = pc.index(pc.is_null(table[name]), True).as_py()
            what = "the key column" if name in definition.key else "the time of the event,"
            raise InvalidInput(
                f"Store {definition.name}, row {before + place + 1:,}: {what} {name} is null; a key must not "
                "be null."
            )
