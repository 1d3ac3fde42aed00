"""Rows of a host that wait for what reads them: in memory, and in a file where memory may hold no more."""

from __future__ import annotations

import pyarrow as pa

from engine.coordinator.gather_memory import MemoryReservation
from engine.duckdb.spill import SpillDirectory
from engine.errors import LimitExceeded


class GatheredRows:
    """The rows of one run, as they come. Not safe for several threads.

    Args:
        schema: Schema of the rows.
        reservation: What they count as.
    """

    def __init__(self, schema: pa.Schema, reservation: MemoryReservation) -> None:
        self._schema = schema
        self._reservation = reservation
        self._batches: list[pa.RecordBatch] = []
        self._file: RowsFile | None = None

    def add(self, batch: pa.RecordBatch) -> None:
        """Take a batch.

        Raises:
            LimitExceeded: Neither memory nor disk may hold it.
        """
        spill = self._reservation.spill
        if spill is None:
            self._reservation.take(batch.nbytes)
            self._batches.append(batch)
        elif self._file is None and self._reservation.fits(batch.nbytes):
            self._batches.append(batch)
        else:
            self._reservation.take_on_disk(batch.nbytes)
            if self._file is None:
                self._file = RowsFile(spill, self._schema)
            self._file.write(batch)

    def batches(self) -> list[pa.RecordBatch]:
        """All batches; what is in a file is read when it is looked at. Nothing can be added any more."""
        found = self._batches if self._file is None else [*self._batches, *self._file.batches()]
        self._batches, self._file = [], None
        return found

    def close(self) -> None:
        """Let go of what nobody asked for."""
        if self._file is not None:
            self._file.close()


class RowsFile:
    """Rows in a file, which nobody else opens, and whose disk space is free when nothing refers to them.

    Args:
        spill: Where to.
        schema: Schema of the rows.

    Raises:
        LimitExceeded: The disk takes no file.
    """

    def __init__(self, spill: SpillDirectory, schema: pa.Schema) -> None:
        try:
            self._path = spill.rows_file()
            self._sink = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_file(self._sink, schema)
        except OSError as error:
            raise _full_disk() from error

    def write(self, batch: pa.RecordBatch) -> None:
        """Write a batch.

        Raises:
            LimitExceeded: The disk takes no more.
        """
        try:
            self._writer.write_batch(batch)
        except OSError as error:
            raise _full_disk() from error

    def batches(self) -> list[pa.RecordBatch]:
        """The batches, as parts of the file, which has no name any more.

        Raises:
            LimitExceeded: The disk takes no more.
        """
        try:
            self._writer.close()
            self._sink.close()
            reader = pa.ipc.open_file(pa.memory_map(str(self._path)))
            return [reader.get_batch(index) for index in range(reader.num_record_batches)]
        except OSError as error:
            raise _full_disk() from error
        finally:
            self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Remove the file."""
        self._sink.close()
        self._path.unlink(missing_ok=True)


def _full_disk() -> LimitExceeded:
    return LimitExceeded(
        "The statement gathers more rows of other hosts than memory may hold, and the disk takes no more of "
        "them: ask for less, raise gather_limit_bytes, or free disk space."
    )
