"""Appending Arrow tables without Spark.

changelog = Changelog.open("file:///var/lib/livestate")
songs = define_store("songs", table.schema, key=["song_id"])
with open_appender(changelog, [songs]) as appender:
    appender.append({"songs": table})
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from engine.changelog.changelog import Changelog
from engine.changelog.codec import RowsByPartition
from engine.changelog.commit import Commit, DataFile
from engine.changelog.rows import partition_rows
from engine.changelog.writer import Writer
from engine.errors import InvalidInput, NotFound
from engine.model.retention import Cutoffs, cutoffs_of, microseconds_of_moment
from engine.model.schema import Epoch, StoreDefinition, StoreName


class StoreAppender:
    """One term of appending Arrow tables to the stores of a group; `open_appender` makes it. Each call is one
    epoch.

    There is nothing to close: the term ends when another writer opens one. As a context manager it only marks
    the scope.
    """

    def __init__(
        self,
        changelog: Changelog,
        definitions: Mapping[StoreName, StoreDefinition],
        writer: Writer,
        new_stores: Mapping[StoreName, StoreDefinition],
    ) -> None:
        self._changelog = changelog
        self._definitions = dict(definitions)
        self._writer = writer
        self._new_stores = dict(new_stores)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    @property
    def epoch(self) -> Epoch:
        """The newest epoch that this appender committed."""
        return self._writer.epoch

    def append(
        self,
        tables: Mapping[str, pa.Table | pa.RecordBatch],
        *,
        tombstone_column: str | None = None,
        replaced: Collection[str] = (),
        query_id: str | None = None,
        batch_id: int | None = None,
        watermark: dt.datetime | None = None,
    ) -> Commit:
        """Commit tables as one epoch: all become visible together, and are durable on return.

        Args:
            tables: Rows by store; columns are found by name, and are those of the store as the appender was
                opened, or as migrations have it. Of rows with one key, the last wins.
            tombstone_column: Boolean column that says which rows remove their key; it counts in the tables
                that have it.
            replaced: Stores whose former rows all go.
            query_id: Names a source whose batches are numbered, to append each once however often it is
                tried.
            batch_id: The batch's number; given if and only if `query_id` is.
            watermark: No event before it is waited for any more, with a time zone: what is past its store's
                retention by then is gone from this epoch on. None: rows that go by the time of an event stay.

        Returns:
            The commit; of a batch that was committed before, the one that is there.

        Raises:
            InvalidInput: Rows do not fit their store; see `partition_rows`. Nothing was committed.
            NotFound: A store was not among those of `open_appender`.
            Fenced: Another writer took the group over.
            Unavailable: The changelog cannot be reached, or its answer was lost; append again: rows that
                turn out to be committed are not committed twice.
            LimitExceeded: The disk is full; nothing was committed.
        """
        if isinstance(replaced, str):
            raise InvalidInput(f"replaced is a list of names of stores, and not the text {replaced!r}.")
        batch_name = "the batch" if batch_id is None else f"batch {batch_id}"
        placed = self._placed_rows(tables, tombstone_column, batch_name)
        cutoffs = self._cutoffs(watermark)
        self._create_new_stores(cutoffs)
        stores = [self._definition(name).name for name in replaced]
        return self._writer.append(
            placed,
            replaced=stores,
            query_id=query_id,
            batch_id=batch_id,
            cutoffs=cutoffs,
        )

    def stage(self, tables: Mapping[str, pa.Table | pa.RecordBatch]) -> DataFile:
        """Write rows durably that `commit` is to make count, with others that are staged before or after.

        Args:
            tables: As for `append`.

        Returns:
            What to hand to `commit` or `discard`.

        Raises:
            LivestateError: As `append`; nothing was staged.
        """
        self._writer.check_term()
        placed = self._placed_rows(tables, None, "the batch")
        return self._changelog.stage(
            self._writer.group,
            self._writer.next_epoch,
            placed,
            task="appender",
            new_stores=self._new_stores,
        )

    def commit(self, files: Sequence[DataFile], *, watermark: dt.datetime | None = None) -> Commit:
        """Commit staged rows as one epoch. Stores that are not there yet are created before.

        Args:
            files: What `stage` returned since the last epoch; of rows with one key, the last wins.
            watermark: As for `append`.

        Returns:
            The commit.

        Raises:
            InvalidInput: Somebody has created the store meanwhile, and it differs; nothing was committed.
            Fenced: Another writer took the group over; nothing was committed.
            Unavailable: The changelog cannot be reached; whether they were committed is not known.
            LimitExceeded: The disk is full; nothing was committed.
        """
        cutoffs = self._cutoffs(watermark)
        self._create_new_stores(cutoffs)
        return self._writer.commit(files, cutoffs=cutoffs)

    def discard(self, files: Sequence[DataFile]) -> None:
        """Delete staged rows that are not to be committed.

        Raises:
            Unavailable: The changelog cannot be reached; the next writer of the group deletes them.
        """
        self._changelog.discard(self._writer.group, files)

    def _create_new_stores(self, cutoffs: Cutoffs) -> None:
        """Create what there is not yet, unless its first commit would be refused: nothing is left then."""
        if self._new_stores:
            self._writer.check_cutoffs(cutoffs)
        for name, definition in list(self._new_stores.items()):
            self._definitions[name] = self._changelog.create_store(definition)
            del self._new_stores[name]

    def _placed_rows(
        self,
        tables: Mapping[str, pa.Table | pa.RecordBatch],
        tombstone_column: str | None,
        batch_name: str,
    ) -> RowsByPartition:
        if tombstone_column is not None and not any(
            tombstone_column in table.schema.names for table in tables.values()
        ):
            raise InvalidInput(f"None of the tables has a column {tombstone_column} to mark tombstones.")
        placed = {}
        for name, table in tables.items():
            column = tombstone_column if tombstone_column in table.schema.names else None
            shape = self._shape(name, [field for field in table.schema.names if field != column])
            try:
                placed[StoreName(name)] = partition_rows(
                    shape, table, tombstone_column=column, batch_name=batch_name
                )
            except InvalidInput as error:
                newest = self._changelog.definition(shape.name)
                if newest is None or newest.generation == shape.generation:
                    raise
                raise InvalidInput(
                    f"{error.message} That is what it was when this appender was opened, or since; by now it "
                    f"is {newest.describe()}: open another appender to write that."
                ) from error
        return placed

    def _cutoffs(self, watermark: dt.datetime | None) -> Cutoffs:
        passed = None if watermark is None else microseconds_of_moment(watermark)
        return cutoffs_of(self._definitions.values(), passed, time.time_ns() // 1000)

    def _shape(self, name: str, columns: Sequence[str]) -> StoreDefinition:
        """The store as it was when some columns were what it has, at its opening or since; if it never had
        these, as it is. Before, a name may have meant another column.
        """
        opened = self._definition(name)
        if sorted(opened.row_schema.names) == sorted(columns):
            return opened
        shapes = self._changelog.shapes(opened.name) or [opened]
        return next(
            (
                shape
                for shape in reversed(shapes)
                if shape.generation >= opened.generation and sorted(shape.row_schema.names) == sorted(columns)
            ),
            shapes[-1],
        )

    def _definition(self, name: str) -> StoreDefinition:
        if name not in self._definitions:
            raise NotFound(
                f"This appender writes {', '.join(sorted(self._definitions))}, and not {name}: open one with "
                "its definition."
            )
        return self._definitions[StoreName(name)]


def open_appender(
    changelog: Changelog,
    definitions: Iterable[StoreDefinition],
    *,
    writer_id: str = "python",
    query_ids: Collection[str] = (),
    take_over: bool = False,
    creates_stores_later: bool = False,
) -> StoreAppender:
    """Create the stores that are not there yet, and begin to write their group. An appender that was opened
    before is refused from then on.

    Args:
        changelog: The changelog.
        definitions: The stores to append to; all of one group.
        writer_id: Who writes, for the message that the former writer gets.
        query_ids: The sources of numbered batches that this appender goes on with.
        take_over: Whether to begin all the same in a group that a streaming query, or another source of
            numbered batches, has written. It is refused from then on, and has to be started again.
        creates_stores_later: Whether stores are created by the first commit only: nothing is left of them if
            there is none.

    Raises:
        InvalidInput: The definitions are none, of several groups, or two of one store, or a store exists and
            differs; or a job has written the group, and it is not to be taken over.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    given = list(definitions)
    stores = {definition.name: definition for definition in given}
    if len(stores) < len(given):
        raise InvalidInput(
            f"An appender has one definition of each store, and two are called alike: give each of "
            f"{', '.join(sorted(stores))} once."
        )
    groups = sorted({definition.group for definition in stores.values()})
    if len(groups) != 1:
        raise InvalidInput(
            f"An appender writes the stores of one store group, not of {', '.join(groups) or 'none'}: give "
            "them the same group."
        )
    if not take_over:
        # Before a store is left behind in a group that is another's.
        changelog.check_no_other_job(groups[0], query_ids)
    new = {
        name: definition
        for name, definition in stores.items()
        if creates_stores_later and changelog.definition(name) is None
    }
    found = {name: changelog.create_store(each) for name, each in stores.items() if name not in new}
    writer = changelog.writer(groups[0], writer_id, take_over=take_over, query_ids=query_ids)
    return StoreAppender(changelog, {**found, **new}, writer, new)


def append_table(
    changelog: Changelog,
    definition: StoreDefinition,
    table: pa.Table | pa.RecordBatch,
    *,
    tombstone_column: str | None = None,
    replace: bool = False,
    writer_id: str = "python",
    take_over: bool = False,
) -> Commit:
    """Append one table as one epoch, with a term of its own; `open_appender` is cheaper for many.

    Args:
        changelog: The changelog.
        definition: The store, which is created if it is not there.
        table: The rows.
        tombstone_column: Boolean column of the table that says which rows remove their key.
        replace: Whether the rows are all that the store has from now on.
        writer_id: Who writes.
        take_over: As in `open_appender`.

    Returns:
        The commit.

    Raises:
        InvalidInput: The rows do not fit the store, or the store exists and differs; or a job has written the
            group, and it is not to be taken over.
        Unavailable: The changelog cannot be reached.
        LimitExceeded: The disk is full.
    """
    appender = open_appender(changelog, [definition], writer_id=writer_id, take_over=take_over)
    return appender.append(
        {definition.name: table},
        tombstone_column=tombstone_column,
        replaced=[definition.name] if replace else [],
    )
