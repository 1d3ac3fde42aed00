"""A fragment that runs on another host: its inputs on their way there, its rows on their way here.

It is a DoExchange, also where there are no inputs: DoGet returns when the schema is there, and until then
nothing can be cancelled. Both take as long (0.34 ms for one row, measured with handlers that do nothing).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.cluster.reports import HostName
from engine.errors import Cancelled, DeadlineExceeded, LivestateError, Unauthenticated, Unavailable
from flight_server.client.connection import FLIGHT_FAILURES, Trailer
from flight_server.wire.boundary import livestate_error
from flight_server.wire.dictionary_encoding import decode, decoded_schema
from flight_server.wire.fragment_messages import UPLOAD_SCHEMA, piece_batch, upload_pieces
from flight_server.wire.result_metadata import METADATA_KEY


class PeerRows:
    """Implements `engine.cluster.fragments.FragmentRows`. `open` comes first.

    Args:
        host: Where the fragment runs.
        writer: The exchange's way there.
        reader: The exchange's way back.
        trailer: Where the host's word on a failure comes in.
        lost: Called when the host turns out not to be there.

    Attributes:
        nbytes: Arrow bytes of the batches so far, as they came.
    """

    def __init__(
        self,
        host: HostName,
        writer: flight.FlightStreamWriter,
        reader: flight.FlightStreamReader,
        trailer: Trailer | None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        self._host = host
        self._writer = writer
        self._reader = reader
        self._trailer = trailer
        self._lost = lost
        self._busy = threading.RLock()
        self._cancelled = False
        self._gone: LivestateError | None = None
        self._ended = False
        self._schema: pa.Schema | None = None
        self._metadata: Mapping[str, Any] = {}
        self.nbytes = 0

    def open(self, inputs: Mapping[str, pa.Table]) -> None:
        """Send the inputs and wait for the schema.

        Args:
            inputs: The tables that the request names.

        Raises:
            LivestateError: What the host said, by its kind.
            Cancelled: `close` was called meanwhile.
            DeadlineExceeded: The host did not answer in time.
            Unavailable: There is no such host, or it went away.
        """
        with self._busy:
            try:
                unsent = self._send(inputs)
                schema = self._reader.schema
                metadata = _metadata_of(schema)
            except FLIGHT_FAILURES as error:
                raise self._end_with(error) from error
            if unsent is not None:
                raise self._end_with(unsent) from unsent
        self._metadata = metadata
        self._schema = decoded_schema(schema)

    def _send(self, inputs: Mapping[str, pa.Table]) -> Exception | None:
        """Send the inputs; what went wrong with that is said better by the answer, if there is one."""
        try:
            if inputs:
                self._writer.begin(UPLOAD_SCHEMA)
                for piece in upload_pieces(inputs):
                    self._writer.write_batch(piece_batch(piece))
            self._writer.done_writing()
        except FLIGHT_FAILURES as error:
            return error
        return None

    @property
    def schema(self) -> pa.Schema:
        """Schema of the batches."""
        assert self._schema is not None, "rows are handed out when they are open"
        return self._schema

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the host read."""
        return self._metadata

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """The batches, as they arrive.

        Raises:
            LivestateError: The fragment failed underway, by its kind.
        """
        while True:
            with self._busy:
                if self._ended:
                    if self._cancelled:
                        raise _cancelled_error()
                    return
                try:
                    chunk = self._reader.read_chunk()
                except StopIteration:
                    self._end()
                    return
                except FLIGHT_FAILURES as error:
                    raise self._end_with(error) from error
            self.nbytes += chunk.data.nbytes
            yield decode(chunk.data, self.schema)

    def close(self) -> None:
        """Tell the host that no more rows are wanted. May be called again, and from any thread."""
        if self._ended:
            return
        # Ends a read in another thread at once, which then lets go of the lock.
        self._cancelled = True
        self._reader.cancel()
        with self._busy:
            self._end()

    def fail(self, error: LivestateError) -> None:
        """Give the host up: whoever reads, now or later, gets this error. From any thread; does not wait for
        anybody.

        Args:
            error: Says why.
        """
        if not self._ended:
            self._gone = error
            self._reader.cancel()

    def _end(self) -> None:
        self._ended = True
        with suppress(*FLIGHT_FAILURES):
            # Left to the destructor, Arrow would report the end of a cancelled call on standard error.
            self._writer.close()

    def _end_with(self, error: Exception) -> LivestateError:
        """What to raise for a failure of the exchange, which is over with it."""
        self._reader.cancel()
        self._end()
        if self._cancelled:
            return _cancelled_error()
        if self._gone is not None:
            return self._gone
        if is_lost(error, self._trailer):
            self._lost()
        return peer_error(self._host, error, self._trailer)

    def __del__(self) -> None:
        # An exchange that is forgotten would wait for the host's last word.
        self.close()


def _metadata_of(schema: pa.Schema) -> Mapping[str, Any]:
    """What a host says of its rows; what cannot be read is as if it had broken off."""
    try:
        found = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}").decode())
    except (ValueError, RecursionError) as error:
        raise flight.FlightUnavailableError("What the host says of its rows is no JSON.") from error
    if not isinstance(found, dict):
        raise flight.FlightUnavailableError("What the host says of its rows is no JSON object.")
    return found


def _cancelled_error() -> Cancelled:
    return Cancelled("The fragment was cancelled.")


def is_lost(error: Exception, trailer: Trailer | None) -> bool:
    """Whether a failed call means that there is no such host (any more): nobody listens there, or the
    connection broke.
    """
    return isinstance(error, flight.FlightUnavailableError) and (trailer is None or trailer.detail is None)


def peer_error(host: HostName, error: Exception, trailer: Trailer | None) -> LivestateError:
    """What a failed call to another host means.

    Args:
        host: The other host.
        error: What pyarrow raised.
        trailer: The call's; it holds the host's own word, if there was any.

    Returns:
        The error that the host meant; else one that names the host.
    """
    if trailer is not None and trailer.detail is not None:
        return livestate_error(error, trailer.detail)
    if isinstance(error, flight.FlightTimedOutError):
        return DeadlineExceeded(
            f"Host {host} did not answer in the time that the query had left: ask for less, or allow more "
            "time."
        )
    if isinstance(error, flight.FlightUnauthenticatedError | flight.FlightUnauthorizedError):
        return Unauthenticated(
            f"Host {host} does not take the token of the host that asks it: give all hosts of the deployment "
            "the same one."
        )
    return Unavailable(f"Host {host} does not answer; try again shortly.")
