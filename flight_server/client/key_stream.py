"""A stream of keys to a host: many lookups by key in one call of Flight, for services that look rows up all
the time.
"""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from numbers import Number
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.errors import InvalidInput, LivestateError, Unavailable
from flight_server.client.connection import FLIGHT_FAILURES, Connection
from flight_server.wire.key_messages import KeyRequest, parse_key_schema

KEYS_A_MESSAGE = 1000
"""How many keys `get_many` sends at once."""
MOST_UNANSWERED = 8
"""How many batches of keys are on their way at once. A host answers messages one by one and waits where
nobody reads, so whoever sends without end before reading would wait for it and it for him.
"""
MOST_PACKED = 4
"""How many batches travel as one message, up to `KEYS_A_MESSAGE`: to look a few hundred keys up takes a host
little longer than a hundred. While it works on a message, the answer to the one before is read.
"""

_WHOLE = frozenset({int, bool})
_EXACT = {
    **dict.fromkeys((pa.int8(), pa.int16(), pa.int32(), pa.int64()), _WHOLE),
    **dict.fromkeys((pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()), _WHOLE),
    pa.date32(): _WHOLE | {dt.date},
    pa.timestamp("us"): _WHOLE | {dt.datetime},
    pa.timestamp("us", "UTC"): _WHOLE | {dt.datetime},
}
"""Types of values that Arrow takes as they are, or refuses, by the type of the key column. The columns of
other types take all values so.
"""


class KeyStream:
    """Rows of one store by their keys. One thread at a time uses it: a service with several threads opens a
    stream for each. A context that closes it.

    An error of the host or of the connection ends the stream: open another one.

    Args:
        connection: To the host.
        request: What is asked for.

    Attributes:
        key_schema: Names and types of the key columns.
        columns: Names of the columns of a row.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """

    def __init__(self, connection: Connection, request: KeyRequest) -> None:
        self._connection = connection
        self._is_open = True
        self._unread = 0
        descriptor = flight.FlightDescriptor.for_command(request.to_bytes())
        with connection.translate_errors():
            self._writer, self._reader = connection.client.do_exchange(descriptor, connection.stream_options)
            self._trailer = connection.latest_trailer()
        try:
            with connection.translate_errors(self._trailer):
                # The host answers the descriptor with its schema.
                schema = self._reader.schema
                self.key_schema: pa.Schema = parse_key_schema(schema)
                self._writer.begin(self.key_schema)
        except BaseException:
            self._let_go()
            raise
        self._schema = schema.remove_metadata()
        self.columns: tuple[str, ...] = tuple(schema.names[1:])
        self._metadata: pa.Buffer | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What the host said of its last answer: the epoch of the store's group, and its age."""
        if self._metadata is None:
            return {}
        return self._connection.document(self._metadata.to_pybytes())

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of a key.

        Args:
            key: A value; for a key of several columns a tuple of values, in the order of the key.

        Returns:
            The row, by column; None where there is none.

        Raises:
            InvalidInput: It is no such key.
            LivestateError: What the host said, by its kind.
        """
        self._check_read()
        self._send(self._batch([key]))
        found, *values = self._receive().columns
        if not found[0].as_py():
            return None
        return {name: value[0].as_py() for name, value in zip(self.columns, values, strict=True)}

    def get_many(self, keys: Iterable[Any]) -> pa.Table:
        """The rows of many keys. Each thousand of them is read at one epoch.

        Args:
            keys: As those of `get`; or an Arrow array, batch or table of them.

        Returns:
            A row for each key, in their order: whether it was found, in the column `__found`, and its
            columns, all of them NULL where it was not.

        Raises:
            InvalidInput: One is no such key.
            LivestateError: What the host said, by its kind.
        """
        return pa.Table.from_batches(list(self.answers(self._batches(keys))), self._schema)

    def answers(self, messages: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Send batches of keys and read their answers, several of them on their way at once. Small ones that
        follow each other travel together.

        Args:
            messages: Batches of `key_schema`, of up to 10,000 keys each; they are taken as there is room.

        Yields:
            The answer to each of them, as `get_many` has it. Nothing else can be asked until all are read;
            whoever stops before has closed the stream.

        Raises:
            InvalidInput: A batch is not of `key_schema`.
            LivestateError: What the host said, by its kind.
        """
        self._check_read()
        sent: deque[Sequence[int]] = deque()
        try:
            for batches in self._packs(messages):
                self._send(batches[0] if len(batches) == 1 else pa.concat_batches(batches))
                sent.append([batch.num_rows for batch in batches])
                while sum(map(len, sent)) > MOST_UNANSWERED - MOST_PACKED:
                    yield from _split(self._receive(), sent.popleft())
            while sent:
                yield from _split(self._receive(), sent.popleft())
        finally:
            if self._unread:
                self.close()

    def _packs(self, messages: Iterable[pa.RecordBatch]) -> Iterator[Sequence[pa.RecordBatch]]:
        """The batches of each message."""
        pack: list[pa.RecordBatch] = []
        rows = 0
        for batch in messages:
            if not batch.schema.equals(self.key_schema):
                raise self._key_error()
            if pack and rows + batch.num_rows > KEYS_A_MESSAGE:
                yield pack
                pack, rows = [], 0
            pack.append(batch)
            rows += batch.num_rows
            if len(pack) == MOST_PACKED:
                yield pack
                pack, rows = [], 0
        if pack:
            yield pack

    def _check_read(self) -> None:
        if self._unread:
            raise InvalidInput("Answers of this stream of keys are still to be read.")

    def _batches(self, keys: Iterable[Any]) -> Iterator[pa.RecordBatch]:
        if isinstance(keys, pa.Array | pa.ChunkedArray):
            keys = pa.table([keys], names=self.key_schema.names[:1])
        elif isinstance(keys, pa.RecordBatch):
            keys = pa.Table.from_batches([keys])
        if isinstance(keys, pa.Table):
            yield from self._cast(keys).to_batches(KEYS_A_MESSAGE)
            return
        rest = iter(keys)
        while part := list(islice(rest, KEYS_A_MESSAGE)):
            yield self._batch(part)

    def _cast(self, keys: pa.Table) -> pa.Table:
        try:
            cast = keys.cast(self.key_schema)
            for given, taken in zip(keys.columns, cast.columns, strict=True):
                # The one cast that loses something without a word.
                if pa.types.is_timestamp(given.type) and pa.types.is_date(taken.type):
                    moments = pa.timestamp(given.type.unit)
                    if not given.cast(moments).equals(taken.cast(moments)):
                        raise self._key_error()
        except (pa.ArrowException, ValueError) as error:
            raise self._key_error() from error
        return cast

    def _batch(self, keys: Sequence[Any]) -> pa.RecordBatch:
        schema = self.key_schema
        try:
            columns = [keys] if len(schema) == 1 else list(zip(*keys, strict=True))
            arrays = [_key_column(values, field.type) for values, field in zip(columns, schema, strict=True)]
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise self._key_error() from error
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _key_error(self) -> InvalidInput:
        wanted = ", ".join(f"{field.name} {field.type}" for field in self.key_schema)
        return InvalidInput(f"A key does not fit the key of the store ({wanted}).")

    def _send(self, batch: pa.RecordBatch) -> None:
        if not self._is_open:
            raise Unavailable("The stream of keys is closed, or has failed before: open another one.")
        try:
            self._writer.write_batch(batch)
        except FLIGHT_FAILURES as error:
            # Why the host takes nothing more is said by what it sends.
            while self._unread >= 0:
                self._receive()
            raise Unavailable("The host has ended the stream of keys: open another one.") from error
        self._unread += 1

    def _receive(self) -> pa.RecordBatch:
        try:
            with self._connection.translate_errors(self._trailer):
                chunk = self._reader.read_chunk()
        except StopIteration:
            self._let_go()
            raise Unavailable("The host has ended the stream of keys: open another one.") from None
        except LivestateError:
            self._let_go()
            raise
        self._unread -= 1
        self._metadata = chunk.app_metadata
        return chunk.data

    def _let_go(self) -> None:
        self._is_open, self._unread = False, 0
        # Left to itself, the writer complains about a call that has failed.
        with suppress(*FLIGHT_FAILURES):
            self._writer.close()

    def close(self) -> None:
        """Let the host's thread go. May be called again."""
        if not self._is_open:
            return
        with suppress(*FLIGHT_FAILURES, StopIteration):
            if self._unread:
                self._reader.cancel()
            self._writer.done_writing()
            while True:
                self._reader.read_chunk()
        self._let_go()

    def __enter__(self) -> KeyStream:
        return self

    def __exit__(
        self,
        error_type: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()


def _key_column(values: Sequence[Any], arrow_type: pa.DataType) -> pa.Array:
    """Key values as Arrow has them. None becomes another one: Arrow by itself takes 1.5 for 1, and a moment
    for its day.
    """
    exact = _EXACT.get(arrow_type)
    if exact and not exact.issuperset(map(type, values)):
        for value in values:
            if not _is_kept(value, arrow_type):
                raise ValueError("This value would become another one.")
    return pa.array(values, arrow_type)


def _is_kept(value: Any, arrow_type: pa.DataType) -> bool:
    """Whether a column of whole numbers or times has the value as it is, if it takes it."""
    if isinstance(value, dt.datetime):
        is_midnight = value.time() == dt.time()
        return not getattr(value, "nanosecond", 0) and (is_midnight or not pa.types.is_date(arrow_type))
    return not isinstance(value, Number) or bool(value == int(value))  # type: ignore[call-overload]


def _split(answer: pa.RecordBatch, sizes: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """The answers to the batches of one message."""
    start = 0
    for size in sizes:
        yield answer.slice(start, size)
        start += size
