"""Results on their way to a client: as one table when they are small, batch by batch when they are not."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.exec.query_result import QueryResult
from flight_server.server.running_calls import Call
from flight_server.wire.boundary import wire_error
from flight_server.wire.tickets import METADATA_KEY

TABLE_BYTES = 4 << 20
"""Results up to this size are gathered and sent without Python; larger ones are streamed as they are made."""
WRITE_OPTIONS = pa.ipc.IpcWriteOptions()
"""Given with each stream: without, pyarrow looks for them in the environment, which takes longer than the
rest of making a stream.
"""


class _Sending:
    """The batches of a result. However it ends, read through, given up or failed, the result is closed and
    the call ended.
    """

    def __init__(self, result: QueryResult, call: Call, context: Any) -> None:
        self._result = result
        self._batches = iter(result)
        self._gathered: deque[pa.RecordBatch] = deque()
        self._call = call
        self._context = context

    def gather(self, limit_bytes: int) -> list[pa.RecordBatch] | None:
        """All batches, if they are small together; None if not: then they are still to come from the
        iterator.
        """
        size = 0
        for batch in self._batches:
            self._gathered.append(batch)
            # Rows that are cut out of a column of many count for themselves; that takes longer to find out.
            held = batch.get_total_buffer_size()
            size += held if held <= limit_bytes else batch.nbytes
            if size > limit_bytes:
                return None
        self.close()
        return list(self._gathered)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        try:
            self._call.check()
            return self._gathered.popleft() if self._gathered else next(self._batches)
        except StopIteration:
            self.close()
            raise
        except Exception as error:  # noqa: BLE001 - the last line before the network: what gets past it travels with its traceback
            self.close()
            raise wire_error(error, self._context, streaming=True) from None

    def close(self) -> None:
        self._result.close()
        self._call.end()

    def __del__(self) -> None:
        # Flight drops the stream of a client that went away, without a word; a generator that never began
        # would not clean up.
        self.close()


def table_stream(result: QueryResult) -> flight.FlightDataStream:
    """The stream of a result whose rows are there already.

    Args:
        result: With a table.
    """
    assert result.table is not None
    metadata = {METADATA_KEY: result.metadata.to_json()}
    return flight.RecordBatchStream(result.table.replace_schema_metadata(metadata), WRITE_OPTIONS)


def result_stream(result: QueryResult, call: Call, context: Any) -> flight.FlightDataStream:
    """The stream that answers DoGet.

    Args:
        result: Just begun; closed by the time the stream has been sent or dropped.
        call: Its execution; ended then.
        context: The call's `flight.ServerCallContext`.

    Returns:
        A stream whose schema carries the query's metadata.

    Raises:
        LivestateError: The query failed before its first `TABLE_BYTES`.
    """
    if result.table is not None:
        call.end()
        return table_stream(result)
    metadata = {METADATA_KEY: result.metadata.to_json()}
    schema = result.schema.with_metadata(metadata)
    sending = _Sending(result, call, context)
    gathered = sending.gather(TABLE_BYTES)
    if gathered is None:
        return flight.GeneratorStream(schema, sending, WRITE_OPTIONS)
    return flight.RecordBatchStream(pa.Table.from_batches(gathered, schema), WRITE_OPTIONS)
