"""How rows get from Spark to the changelog: through the driver, or straight from the executors.

Both run the plan of a frame once, and both give the same rows in the same order. Through the driver is faster
for what fits there: no Python process is needed on the executors, and small epochs travel inside their
commit. From the executors, each task writes its rows itself, and only the names of its data files come to the
driver.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from engine.changelog import Changelog, DataFile, RowsByPartition, decode_file, encode_file, partition_rows
from engine.errors import InvalidInput, LivestateError, Unavailable
from engine.model.schema import Epoch, StoreDefinition
from flight_server.wire.boundary import error_of_kind, kind_name
from spark_pipeline.python_workers import keep_modules
from spark_pipeline.type_mapping import is_required_in_nullable, nullable_type
from spark_pipeline.watermark import uses_connect
from spark_pipeline.window_columns import named_column

DEFAULT_DRIVER_BYTES = 128 << 20
"""Batches up to this many bytes go through the driver by default: 2 to 3 M rows of 5 columns, well below
Spark's `maxResultSize` of 1 GiB.
"""

_FILE_BYTES = 256 << 20
"""A task starts another data file when it holds this many bytes of rows, so that its memory stays bounded."""

_PIECE_ROWS = 1 << 18
"""Larger batches are written from the driver in pieces of this many rows, side by side: while one is on its
way to the disk the next is placed.
"""

_DRIVER_THREADS = 2

_UNKNOWN_BYTES = 1 << 50
"""Spark's estimate of what it knows nothing about is 2^63 - 1 bytes, times or by something for each step of
the plan: more than any batch has.
"""

_STAGED_COLUMNS = "file binary, kind string, message string"
_STAGED_SCHEMA = pa.schema([("file", pa.binary()), ("kind", pa.string()), ("message", pa.string())])


class TransferPath(StrEnum):
    """How rows get to the changelog."""

    AUTO = "auto"
    """By the size of the batch, as far as it is known beforehand."""
    DRIVER = "driver"
    EXECUTORS = "executors"


@dataclass(frozen=True)
class Target:
    """A store that rows go to.

    Attributes:
        definition: The store.
        tombstone_column: Column of its rows that marks tombstones, if there is one.
    """

    definition: StoreDefinition
    tombstone_column: str | None


@dataclass(frozen=True)
class Destination:
    """Where rows of a batch go. Can be sent to the executors.

    Attributes:
        changelog: The changelog.
        targets: The stores, of one group.
        batch_name: What messages call the batch.
    """

    changelog: Changelog
    targets: tuple[Target, ...]
    batch_name: str

    def partition(self, rows: pa.Table) -> RowsByPartition:
        """Rows by store and partition, checked.

        Args:
            rows: Those of the store; of several stores, a struct column for each.

        Raises:
            LivestateError: As `partition_rows`.
        """
        tables = [rows] if len(self.targets) == 1 else [_unfold(column) for column in rows.columns]
        return {
            target.definition.name: partition_rows(
                target.definition, table, tombstone_column=target.tombstone_column, batch_name=self.batch_name
            )
            for target, table in zip(self.targets, tables, strict=True)
        }

    def stage(self, rows: pa.Table, epoch: Epoch, task: str) -> DataFile:
        """Rows as a data file of an epoch; raises as `partition_rows` and `Changelog.stage`."""
        group = self.targets[0].definition.group
        return self.changelog.stage(group, epoch, self.partition(rows), task=task)


def _unfold(structs: pa.ChunkedArray) -> pa.Table:
    """The fields of structs as columns; no struct is null."""
    return pa.Table.from_arrays(structs.flatten(), schema=pa.schema(list(structs.type)))


@dataclass(frozen=True)
class BatchRows:
    """The rows that a batch has for one store, or for several, yet to be computed.

    Attributes:
        frame: The rows, as `Destination.partition` takes them.
        destination: Where they go.
    """

    frame: DataFrame
    destination: Destination


@dataclass(frozen=True)
class _StageTask:
    """What one task does: data files from its rows, whose columns come by number and get their names here.
    Sent to the executors, with the identity of the changelog that the driver writes.

    Errors that another attempt would meet again come back as rows, so that they reach the user as they are
    and at once; Unavailable is raised, so that Spark tries the task again.
    """

    destination: Destination
    epoch: Epoch
    names: tuple[str, ...]
    identity: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            self.check_changelog()
            files = [
                self.destination.stage(rows.rename_columns(self.names), self.epoch, _task_name())
                for rows in _bounded_tables(batches)
            ]
            staged: list[dict[str, str | bytes]] = [{"file": encode_file(file)} for file in files]
        except Unavailable:
            raise
        except LivestateError as error:
            staged = [{"kind": kind_name(error), "message": error.message}]
        if staged:
            yield pa.RecordBatch.from_pylist(staged, schema=_STAGED_SCHEMA)
        keep_modules()

    def check_changelog(self) -> None:
        """See that this machine writes where the driver commits: files elsewhere would be lost.

        Raises:
            InvalidInput: It does not.
            Unavailable: The changelog cannot be reached.
        """
        changelog = self.destination.changelog
        found = changelog.identity()
        if found != self.identity:
            there = "no changelog" if found is None else "another changelog"
            raise InvalidInput(
                f"An executor finds {there} at {changelog.uri}: driver and executors have to share it, as an "
                "object store, or as a directory that is mounted on all of their machines. Nothing of "
                f"{self.destination.batch_name} was committed."
            )


def _bounded_tables(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches gathered into tables of a bounded size; none of them is empty."""
    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            gathered.append(batch)
            size += batch.nbytes
        if size >= _FILE_BYTES:
            yield pa.Table.from_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.Table.from_batches(gathered)


def _task_name() -> str:
    context = TaskContext.get()
    assert context is not None
    return f"task-{context.partitionId()}-{context.attemptNumber()}"


def stage_from_executors(rows: Sequence[BatchRows], epoch: Epoch) -> list[DataFile]:
    """Have each task write its rows; of a task that ran more than once, one attempt counts.

    Args:
        rows: What to write; the changelog must be reachable from the executors.
        epoch: The epoch that the files are for.

    Returns:
        The files to commit, in the order of the rows.

    Raises:
        LivestateError: As `partition_rows` and `Changelog.stage`, from any task.
    """
    files: list[DataFile] = []
    for part in rows:
        names = part.frame.columns
        task = _StageTask(part.destination, epoch, tuple(names), part.destination.changelog.identity())
        # PySpark takes names for expressions here: dots, backticks and stars would mean something.
        numbered = part.frame.toDF(*(f"c{number}" for number in range(len(names))))
        for row in numbered.mapInArrow(task, _STAGED_COLUMNS).collect():
            if row.kind is not None:
                raise error_of_kind(row.kind, row.message)
            files.append(decode_file(bytes(row.file)))
    return files


def bring_to_driver(rows: Sequence[BatchRows], epoch: Epoch) -> RowsByPartition | list[DataFile]:
    """Bring the rows of one commit to the driver, and write them from there if they are many.

    Args:
        rows: What to bring; of distinct stores.
        epoch: The epoch that files are for.

    Returns:
        Few rows as tables for `Writer.append`; many as files for `Writer.commit`.

    Raises:
        LivestateError: As `partition_rows` and `Changelog.stage`.
    """
    tables = [(part, _with_null_structs(part.frame).toArrow()) for part in rows]
    if sum(table.num_rows * len(part.destination.targets) for part, table in tables) <= _PIECE_ROWS:
        return {
            store: placed
            for part, table in tables
            for store, placed in part.destination.partition(table).items()
        }
    pieces = [
        (part, table.slice(start, _PIECE_ROWS))
        for part, table in tables
        for start in range(0, table.num_rows, _PIECE_ROWS)
    ]
    with ThreadPoolExecutor(_DRIVER_THREADS, "livestate-stage") as threads:
        staged = [threads.submit(part.destination.stage, piece, epoch, "driver") for part, piece in pieces]
        return [file.result() for file in staged]


def _with_null_structs(frame: DataFrame) -> DataFrame:
    """A frame whose structs may be null whatever their fields are: PySpark's `toArrow` fails on a null struct
    with a field that must not be null, as an outer join or a `when` without `otherwise` makes it.
    """
    needed = {
        field.name: named_column(field.name).cast(nullable_type(field.dataType)).alias(field.name)
        for field in frame.schema.fields
        if is_required_in_nullable(field.dataType, field.nullable)
    }
    if not needed:
        return frame
    return frame.select(*(needed.get(name, named_column(name)) for name in frame.columns))


def planned_bytes(frame: DataFrame) -> int | None:
    """How large Spark's optimiser thinks a frame is, without computing it.

    Args:
        frame: Any frame.

    Returns:
        Bytes; None where it does not know, as for most streams, or does not tell, as with Spark Connect.
    """
    if uses_connect(frame):
        return None
    statistics = frame._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001  PySpark has no public way to a plan's statistics
    size = int(statistics.sizeInBytes())
    return size if size < _UNKNOWN_BYTES else None


class PathChooser:
    """Which way the next batch should take: a guess from sizes, which may be wrong and is never harmful.

    Args:
        path: What the user asked for.
        driver_bytes: Batches up to this size go through the driver.
        unknown: The way of a batch whose size nothing tells.

    Raises:
        InvalidInput: There is no such path, or the size is no number of bytes.
    """

    def __init__(self, path: str, driver_bytes: int, unknown: TransferPath) -> None:
        if path not in tuple(TransferPath):
            raise InvalidInput(f"The path {path!r} is none of {', '.join(TransferPath)}.")
        if type(driver_bytes) is not int or driver_bytes < 0:
            raise InvalidInput(
                f"driver_bytes must be a whole number of bytes, such as {DEFAULT_DRIVER_BYTES}, and not "
                f"{driver_bytes!r}."
            )
        self._path = TransferPath(path)
        self._driver_bytes = driver_bytes
        self._unknown = unknown
        self._last_bytes: int | None = None

    @property
    def may_change(self) -> bool:
        """Whether the user left the choice open."""
        return self._path is TransferPath.AUTO

    def choose(self, frames: list[DataFrame]) -> TransferPath:
        """The way for a batch that has these rows for its stores.

        The batch before is the best guess, since a job's batches are alike. The first is judged by its plan:
        files have sizes, streams do not.
        """
        if self._path is not TransferPath.AUTO:
            return self._path
        size = (
            self._last_bytes
            if self._last_bytes is not None
            else _sum([planned_bytes(frame) for frame in frames])
        )
        if size is None:
            return self._unknown
        return TransferPath.DRIVER if size <= self._driver_bytes else TransferPath.EXECUTORS

    def note_size(self, size: int) -> None:
        """A batch had this many bytes of Arrow data."""
        self._last_bytes = size


def _sum(sizes: list[int | None]) -> int | None:
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None
