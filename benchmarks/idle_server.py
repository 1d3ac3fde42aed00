"""A Flight SQL server that does nothing: the same calls as a host's, each answered with the same prepared
bytes, and no SQL behind them.

What a driver needs at the least to run a prepared statement with parameters. The time that a client sees from
it is what Flight, pyarrow and the driver take, and so the least that any Flight SQL host on pyarrow can take.

    python -m benchmarks.idle_server
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import flight

from benchmarks.workload import KeyType, plays
from flight_server.host.process import prepare
from flight_server.wire import sql_info
from flight_server.wire.messages import new, pack

_SQL_INFO = b"CommandGetSqlInfo"
_OPTIONS = pa.ipc.IpcWriteOptions()


class IdleServer(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no types
    """Answers every statement with one row of the store `plays`."""

    def __init__(self) -> None:
        row = plays(np.array([7]), np.random.default_rng(0)).to_arrow(KeyType.INT64)
        self._answer = pa.Table.from_batches([row])
        self._facts = sql_info.table([])
        parameters = pa.schema([pa.field("1", pa.int64())])
        prepared = new(
            "ActionCreatePreparedStatementResult",
            prepared_statement_handle=b"handle",
            dataset_schema=row.schema.serialize().to_pybytes(),
            parameter_schema=parameters.serialize().to_pybytes(),
        )
        self._prepared = pack(prepared)
        self._bound = pa.py_buffer(
            new("DoPutPreparedStatementResult", prepared_statement_handle=b"handle").SerializeToString()
        )
        super().__init__("grpc://127.0.0.1:0")

    def get_flight_info(self, context: Any, descriptor: flight.FlightDescriptor) -> flight.FlightInfo:
        """A ticket."""
        about_server = _SQL_INFO in descriptor.command
        schema = self._facts.schema if about_server else self._answer.schema
        return flight.FlightInfo(
            schema, descriptor, [flight.FlightEndpoint(b"facts" if about_server else b"row", [])]
        )

    def do_get(self, context: Any, ticket: flight.Ticket) -> flight.FlightDataStream:
        """The one row."""
        return flight.RecordBatchStream(self._facts if ticket.ticket == b"facts" else self._answer, _OPTIONS)

    def do_put(
        self,
        context: Any,
        descriptor: Any,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.FlightMetadataWriter,
    ) -> None:
        """Take parameters and forget them."""
        for _ in reader:
            pass
        writer.write(self._bound)

    def do_action(self, context: Any, action: flight.Action) -> Iterable[bytes]:
        """Prepare a statement, or close one."""
        return [self._prepared] if action.type == "CreatePreparedStatement" else []


def main() -> None:
    """Serve until SIGTERM."""
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopping.set())
    prepare()
    server = IdleServer()
    print(f"idle at grpc://127.0.0.1:{server.port}", flush=True)
    stopping.wait()
    server.shutdown()


if __name__ == "__main__":
    main()
