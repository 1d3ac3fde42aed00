"""Rows of one store by their keys, many times over: what is worked out once when a client opens a stream of
keys, and used for each of its messages.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.cached_property import cached_property
from engine.coordinator.answer_memory import AnswerShare
from engine.coordinator.coordinator import Coordinator
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.gather_memory import MemoryPool
from engine.coordinator.lag_limit import LagLimit
from engine.deadline import Deadline, Slot
from engine.errors import InvalidInput, LimitExceeded, NotFound, Unavailable, Unsupported
from engine.exec.read_metadata import age_seconds, stale_seconds
from engine.model.names import find_name
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, GroupName, StoreDefinition, StoreName
from engine.model.sql_types import quote_identifier
from engine.plan.row_widths import RowWidths
from engine.plan.statement import ReadyStatement, make_ready
from engine.plan.values import Arguments
from engine.processes.call_core import CALL_CORE
from engine.scan import FOUND_COLUMN, BuildingError, KeyedRows, StoreSource, StoreView
from engine.sql.literals import LIST_PREFIX, LiftedText, LiteralList
from engine.sql.text import SourceText, did_you_mean
from engine.sql.versions import is_versioned
from engine.statements.request import Request
from engine.statements.statement_cache import ReadyText

FEW_KEYS = 16
"""Up to so many keys are found faster one by one than together."""
MAX_ANSWER_BYTES = 256 << 20
"""Arrow bytes of the rows that answer one batch of keys."""
PART_BYTES = 8 << 20
"""What the rows take at the most that are picked out at once where their bytes are not known before."""
_Name = TypeVar("_Name", bound=str)
_KEYS = f"{LIST_PREFIX}keys"


@dataclass(frozen=True)
class KeyAnswer:
    """What a batch of keys has.

    Attributes:
        rows: A row for each key, in their order: `FOUND_COLUMN`, then the columns that were asked for, all of
            them NULL where the key has no row.
        epochs: The epoch of the store's group.
        age_seconds: Age of that epoch.
        stale_seconds: As `QueryMetadata.stale_seconds`.
        digests: As `QueryMetadata.digests`.
        nbytes: What the rows take, as `RowWidths` counts it.
    """

    rows: pa.RecordBatch
    epochs: Mapping[GroupName, Epoch]
    age_seconds: float
    stale_seconds: float | None
    digests: Mapping[GroupName, str]
    nbytes: int


@dataclass(frozen=True)
class KeyColumns:
    """Columns of a store, to be found by its key.

    Attributes:
        name: What SQL calls the store.
        definition: The store.
        columns: The columns, at least one.
    """

    name: StoreName
    definition: StoreDefinition
    columns: tuple[str, ...]

    @cached_property
    def key_schema(self) -> pa.Schema:
        """Names and types of the key columns, as keys come."""
        return pa.schema([pa.field(field.name, field.type) for field in self.definition.key_schema])

    @cached_property
    def schema(self) -> pa.Schema:
        """Schema of the answers."""
        return pa.schema([pa.field(FOUND_COLUMN, pa.bool_(), nullable=False), *self.row_schema])

    @cached_property
    def widths(self) -> RowWidths:
        """What the answers take."""
        return RowWidths(self.schema)

    @cached_property
    def row_widths(self) -> RowWidths:
        """What rows of the columns take."""
        return RowWidths(self.row_schema)

    @cached_property
    def row_schema(self) -> pa.Schema:
        """Names and types of the columns."""
        stored = self.definition.schema
        return pa.schema([pa.field(name, stored.field(name).type) for name in self.columns])

    @cached_property
    def places(self) -> tuple[int, ...]:
        """For each column, its place in the store's schema."""
        return tuple(self.definition.schema.get_field_index(name) for name in self.columns)

    @cached_property
    def read(self) -> tuple[str, ...]:
        """What is read of the store, each column once: the key comes first."""
        return tuple(dict.fromkeys((*self.definition.key, *self.columns)))

    @cached_property
    def has_plain_key(self) -> bool:
        """Whether `StoreView.found_row` knows such keys."""
        types = self.key_schema.types
        return len(types) == 1 and (pa.types.is_integer(types[0]) or pa.types.is_string(types[0]))

    @cached_property
    def statement(self) -> ReadyStatement:
        """The question as SQL, with the keys as a list."""
        key, columns = (", ".join(map(quote_identifier, names)) for names in (self.definition.key, self.read))
        listed = "col0" if len(self.definition.key) == 1 else "*"
        store = quote_identifier(self.name)
        text = f'SELECT {columns} FROM {store} WHERE ({key}) IN (SELECT {listed} FROM "{_KEYS}")'
        keys = LiteralList(_KEYS, self.list_of(self.key_schema.empty_table().to_batches()))
        return make_ready(LiftedText(SourceText(text, text), (keys,)), "duckdb", {self.name: self.definition})

    def list_of(self, keys: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        """Keys as the list that `statement` reads."""
        names = [f"col{place}" for place in range(len(self.key_schema))]
        arrays = (
            keys[0].columns if keys else [pa.array([], arrow_type) for arrow_type in self.key_schema.types]
        )
        return pa.RecordBatch.from_arrays(arrays, names=names)

    @cached_property
    def missing_row(self) -> pa.RecordBatch:
        """The answer for a key that has no row."""
        return pa.RecordBatch.from_arrays(
            [pa.array([False]), *(pa.nulls(1, field.type) for field in self.row_schema)], schema=self.schema
        )

    def answer_of_statement(
        self, keys: pa.RecordBatch, found: pa.Table, share: AnswerShare
    ) -> pa.RecordBatch:
        """The answer for keys from the answer to `statement`.

        Args:
            keys: The keys.
            found: Their rows in any order, each once, with the columns `read`.
            share: Gets to hold the answer.

        Raises:
            LimitExceeded: It is larger than an answer may be.
        """
        found = found.combine_chunks()
        arrays = {name: _array_of(found.column(place)) for place, name in enumerate(self.read)}
        places = _places_of_keys(keys.columns, [arrays[name] for name in self.definition.key])
        rows = pa.RecordBatch.from_arrays([arrays[name] for name in self.columns], schema=self.row_schema)
        return self.answer_of_rows(KeyedRows(rows, places), share)

    def answer_of_few(self, found: Sequence[pa.RecordBatch | None], share: AnswerShare) -> pa.RecordBatch:
        """The answer for a few keys.

        Args:
            found: The answer for each, as `StoreView.found_row` has it.
            share: Gets to hold the answer.

        Raises:
            LimitExceeded: It is larger than an answer may be.
        """
        rows = [self.missing_row if row is None else row for row in found]
        if len(rows) == 1:
            return rows[0]
        nbytes = sum(map(self.widths.table_bytes, rows))
        if nbytes > MAX_ANSWER_BYTES:
            raise _too_large(len(rows))
        share.take(nbytes)
        return pa.concat_batches(rows)

    def answer_of_rows(self, found: KeyedRows, share: AnswerShare) -> pa.RecordBatch:
        """The answer for keys.

        Args:
            found: Their rows, of `row_schema`.
            share: Gets to hold the answer.

        Raises:
            LimitExceeded: It is larger than an answer may be.
        """
        rows, places = found.rows, found.places
        nbytes = self.row_widths.picked_bytes(rows, places)
        if nbytes is None:
            values = self._take_in_parts(rows, places, share)
        elif nbytes > MAX_ANSWER_BYTES:
            raise _too_large(len(places))
        else:
            share.take(nbytes)
            values = rows.take(places)
        return pa.RecordBatch.from_arrays([places.is_valid(), *values.columns], schema=self.schema)

    def _take_in_parts(self, rows: pa.RecordBatch, places: pa.Array, share: AnswerShare) -> pa.RecordBatch:
        """Rows by their places, so many at a time: a row that many keys share is counted before it is copied
        for all of them.
        """
        parts: list[pa.RecordBatch] = []
        nbytes, most = 0, max(1, PART_BYTES // max(1, self.row_widths.table_bytes(rows)))
        for start in range(0, len(places), most):
            parts.append(rows.take(places.slice(start, most)))
            nbytes += parts[-1].nbytes
            if nbytes > MAX_ANSWER_BYTES:
                raise _too_large(len(places))
            # There are two of each while they are joined.
            share.take(2 * parts[-1].nbytes)
        joined = pa.concat_batches(parts)
        share.give(nbytes)
        return joined


def _too_large(keys: int) -> LimitExceeded:
    return LimitExceeded(
        f"The rows of {keys} keys take more than {MAX_ANSWER_BYTES >> 20} MiB: send fewer keys in a message."
    )


def _array_of(column: pa.ChunkedArray) -> pa.Array:
    """A column of at most one chunk."""
    return column.chunk(0) if column.num_chunks else pa.array([], column.type)


def _places_of_keys(wanted: Sequence[pa.Array], found: Sequence[pa.Array]) -> pa.Array:
    """For each key, the place of its row among those that were found; NULL where there is none.

    Args:
        wanted: The columns of the keys.
        found: The key columns of the rows.
    """
    if len(wanted) == 1:
        return pc.index_in(wanted[0], value_set=found[0])
    # Equal keys, and no others, get equal numbers, column by column; they stay below the number of both.
    numbers = np.zeros(len(wanted[0]) + len(found[0]), np.int64)
    for asked, there in zip(wanted, found, strict=True):
        values = pa.concat_arrays([asked, there]).dictionary_encode()
        digits = values.indices.to_numpy(zero_copy_only=False)
        numbers = np.unique(numbers * max(1, len(values.dictionary)) + digits, return_inverse=True)[1]
    split = len(wanted[0])
    return pc.index_in(pa.array(numbers[:split]), value_set=pa.array(numbers[split:]))


def key_columns(
    tables: Mapping[StoreName, StoreDefinition],
    damaged: Mapping[StoreName, str],
    store: str,
    columns: Sequence[str] | None,
) -> KeyColumns:
    """What a client asks for, with the names that stores have; upper and lower case are the same, as in SQL.

    Args:
        tables: The store that each name means.
        damaged: As `StoreSource.damaged_names`.
        store: The name of a store.
        columns: Names of its columns; None for all.

    Raises:
        NotFound: There is no such store or column.
        Unavailable: The changelog is damaged where it says what the store is.
        InvalidInput: There are no columns, or one is there twice.
        Unsupported: The store keeps versions.
    """
    name = find_name(store, tables)
    if name is None:
        broken = find_name(store, damaged)
        if broken is not None:
            raise Unavailable(damaged[broken])
        raise NotFound(f"There is no store {store[:100]!r}.{did_you_mean(store[:100], tables)}")
    definition = tables[name]
    if is_versioned(definition):
        raise Unsupported(f"Store {name} is versioned, so a key of it means many rows: ask for them in SQL.")
    stored = definition.schema.names
    found = [*stored] if columns is None else [find_name(column, stored) for column in columns]
    known = tuple(column for column in found if column is not None)
    if columns is not None and len(known) < len(columns):
        missing = next(column for column, match in zip(columns, found, strict=True) if match is None)
        raise NotFound(f"Store {name} has no column {missing[:100]!r}; it has {', '.join(stored)}.")
    if not known or len(set(known)) < len(known):
        raise InvalidInput("Name at least one column, and each of them once.")
    return KeyColumns(name, definition, known)


class KeyStream:
    """Rows of one store by their keys. One thread at a time uses it.

    Args:
        source: The stores.
        coordinator: Answers where other hosts, or other epochs than the newest, are asked for.
        asked: The columns, as the client was told.
        read_point: Which epochs will do.
        lag_limit: How far behind what is read without a route may be.
        memory: What answers may take that clients have not taken yet.
        has_peers: Whether there are other hosts.

    Attributes:
        answers_alone: Whether keys are looked up here, without asking anybody, unless what is here will not
            do.
    """

    def __init__(
        self,
        source: StoreSource,
        coordinator: Coordinator,
        asked: KeyColumns,
        read_point: ReadPoint,
        lag_limit: LagLimit,
        memory: MemoryPool,
        *,
        has_peers: bool,
    ) -> None:
        self._share = AnswerShare(memory)
        self._source = source
        self._lag_limit = lag_limit
        self._coordinator = coordinator
        self._asked = self._current = asked
        self._read_point = read_point
        self.answers_alone = not has_peers and read_point.is_newest

    @property
    def key_schema(self) -> pa.Schema:
        """Names and types of the key columns, as keys come."""
        return self._asked.key_schema

    @property
    def schema(self) -> pa.Schema:
        """Schema of the answers."""
        return self._asked.schema

    def answer(
        self,
        keys: pa.RecordBatch,
        timeout_seconds: float | None,
        cancelled: Callable[[], bool] | None = None,
        slot: Slot | None = None,
    ) -> KeyAnswer:
        """Look keys up, at the newest epoch that can be read now and that the read point allows.

        Args:
            keys: At least one, of `key_schema`, without NULLs; may repeat.
            timeout_seconds: How long it may take; None for no limit.
            cancelled: Tells, from any thread, whether nobody waits any more; only asked where other hosts or
                a later epoch are waited for.
            slot: What is held while keys are looked up; None for nothing.

        Returns:
            A row for each key. `free_answer` is to be called when the client has them.

        Raises:
            InvalidInput: The columns are others now than the client was told.
            LivestateError: The keys cannot be looked up, as kind and message say.
        """
        columns = self._current_columns()
        if self.answers_alone:
            answer = self._answer_here(columns, keys)
            if answer is not None:
                return answer
        deadline = Deadline(timeout_seconds, cancelled, slot)
        return self._answer_by_statement(columns, keys, deadline)

    def _current_columns(self) -> KeyColumns:
        """The columns with what the store is now."""
        name, current = self._asked.name, self._current
        definition = self._source.tables().get(name)
        if definition is current.definition:
            return current
        if definition is None:
            raise NotFound(f"Store {name} does not exist any more: the stream of its keys ends.")
        if definition != current.definition:
            current = replace(current, definition=definition)
            if not _means_the_same(current, self._asked):
                raise InvalidInput(
                    f"Store {name} was migrated or switched, and its key or the columns of this stream are "
                    "others now: open another stream."
                )
            self._current = current
        return current

    def _answer_here(self, columns: KeyColumns, keys: pa.RecordBatch) -> KeyAnswer | None:
        """The answer of a host that has everything; None where the store is being built, is too far behind,
        or was migrated just now.
        """
        store = columns.definition.name
        until = self._lag_limit.complete_until((store,), self._read_point)
        if until is None:
            return None
        try:
            with self._source.pin_views((store,)) as views:
                view = views[store]
                if not view.definition.has_shape_of(columns.definition):
                    return None
                rows = _rows_of_keys(view, columns, keys, self._share)
                group = view.definition.group
                return KeyAnswer(
                    rows,
                    {group: view.epoch},
                    age_seconds(view.committed_at),
                    stale_seconds(until),
                    {group: view.digest} if view.digest else {},
                    columns.widths.table_bytes(rows),
                )
        except BuildingError:
            return None

    def _answer_by_statement(
        self, columns: KeyColumns, keys: pa.RecordBatch, deadline: Deadline
    ) -> KeyAnswer:
        """The answer of the hosts that have the keys, as to a statement with a list of them."""
        CALL_CORE.leave()
        statement = columns.statement
        listed = {_KEYS: columns.list_of([keys])}
        request = Request(
            "duckdb",
            ReadyText(statement.bound.source.text, statement, listed),
            Arguments((), listed),
            deadline,
            time.perf_counter(),
            self._read_point,
            has_expected_shapes=True,
        )
        query = DistributedQuery(request, self._source.definitions())
        with self._coordinator.answer(query).result as result:
            found, metadata = result.read_all(), result.metadata
        rows = columns.answer_of_statement(keys, found, self._share)
        return KeyAnswer(
            rows,
            metadata.epochs,
            metadata.age_seconds,
            metadata.stale_seconds,
            metadata.digests,
            columns.widths.table_bytes(rows),
        )

    def free_answer(self) -> None:
        """Take note that the client has the last answer, or will never get it. May be called again."""
        self._share.free()


def _rows_of_keys(
    view: StoreView, columns: KeyColumns, keys: pa.RecordBatch, share: AnswerShare
) -> pa.RecordBatch:
    if keys.num_rows <= FEW_KEYS and columns.has_plain_key:
        found = [
            view.found_row(key, columns.places, columns.row_schema) for key in keys.column(0).to_pylist()
        ]
        return columns.answer_of_few(found, share)
    return columns.answer_of_rows(view.keyed_rows(keys, columns.places, columns.row_schema), share)


def _means_the_same(one: KeyColumns, other: KeyColumns) -> bool:
    """Whether keys and columns have the same names and types in two shapes of a store."""
    if not set(other.columns) <= set(one.definition.schema.names):
        return False
    return bool(one.key_schema == other.key_schema and one.row_schema == other.row_schema)
