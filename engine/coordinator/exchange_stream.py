"""Rows of a fragment that the merge reads while they are still on their way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from engine.coordinator.fragment_runs import FragmentRuns
from engine.coordinator.gather_memory import MemoryReservation
from engine.errors import Defect


class ExchangeStream:
    """Rows that are handed on one batch at a time, once: an `engine.duckdb.engine.Stream`.

    Whoever reads sets the pace: a batch of each host waits here, the others wait at the hosts.

    Args:
        schema: Schema of the rows.
        first: The first batches.
        rest: The others, as they come. Its failures end the runs.
        runs: Where they come from.
        reservation: What batches count as until they are handed on and the next is asked for.

    Attributes:
        schema: Schema of the rows.
    """

    def __init__(
        self,
        schema: pa.Schema,
        first: Sequence[pa.RecordBatch],
        rest: Iterator[pa.RecordBatch],
        runs: FragmentRuns,
        reservation: MemoryReservation,
    ) -> None:
        self.schema = schema
        self._first = list(reversed(first))
        self._rest = rest
        self._runs = runs
        self._reservation = reservation
        self._is_begun = False

    @property
    def error(self) -> BaseException | None:
        """What broke the rows off; None while nothing has."""
        return self._runs.cause if self._runs.has_ended else None

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.RecordBatchReader.from_batches(self.schema, self._batches()).__arrow_c_stream__(
            requested_schema
        )

    def _batches(self) -> Iterator[pa.RecordBatch]:
        if self._is_begun:
            error = Defect(
                "The engine reads the rows of a merge twice, and they come once; please report the statement."
            )
            self._runs.end(error)
            raise error
        self._is_begun = True
        for batch in self._arriving_batches():
            yield batch
            self._reservation.give(batch.nbytes)

    def _arriving_batches(self) -> Iterator[pa.RecordBatch]:
        while self._first:
            yield self._first.pop()
        yield from self._rest
