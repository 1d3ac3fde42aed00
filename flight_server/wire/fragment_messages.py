"""Fragments on the wire: the bytes of a request, and its input tables as a stream of pieces.

A request is the message `FragmentRequest` (`flight_server.wire.messages`) behind the two bytes `00 46` (NUL,
`F`). It travels as the ticket of a DoGet when it has no inputs, or as the command of a DoExchange, whose
upload carries the inputs: a Flight stream without columns, whose messages have a piece each as their
application metadata. Flight hands that on as it came, whereas it makes rows of rows before anybody can count
them. A piece is the number of an input (64 bits, little-endian) and an Arrow IPC stream of some rows of it,
schema included, so that any input can be read from any number of pieces, and an input without rows has one
piece. The schema of the answer carries the metadata that results have everywhere.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.access.principal import EngineLimit, Limit
from engine.access.scope import Scope
from engine.cluster.fragments import FragmentRequest
from engine.errors import InvalidInput, LimitExceeded
from engine.model.schema import MAX_PARTITIONS, Epoch, GroupName, PartitionId, StoreName
from flight_server.wire.ipc_bytes import NotPlainError, read_table
from flight_server.wire.messages import Message, new, parse
from flight_server.wire.scope_messages import parse_scope, scope_bytes
from flight_server.wire.tickets import Parameters, checked_timeout

FRAGMENT_MARK = b"\x00F"
FORMAT = 4
"""Format 1 had no generations; up to format 2 pieces were rows, and in format 3 metadata of messages. Digests
may be left out, as an older version does, and nothing is compared then.
"""
SCOPED_FORMAT = 5
"""That of fragments for whose principals a part of the stores exists alone: an older host, which would run
them over all rows, refuses them.
"""
LIMITED_FORMAT = 6
"""That of fragments for whose principals the engine may take so much alone, with a scope or without: an older
host would let them take more, and refuses them.
"""
PIECE_BYTES = 4 << 20
"""About how large a piece of an input is."""
UPLOAD_SCHEMA = pa.schema([("piece", pa.binary())])
_NUMBER = struct.Struct("<q")

_DAMAGED_INPUT = "The inputs of the fragment are damaged or cut off."


@dataclass(frozen=True)
class FragmentTicket:
    """A request on its way, whose inputs come separately.

    Attributes:
        request: The fragment, without its inputs.
        inputs: Names of the inputs that the upload holds, in the order of their numbers there.
        call_id: What tells this execution from all others, so that it can be cancelled by it; empty: it
            cannot.
    """

    request: FragmentRequest
    inputs: tuple[str, ...] = ()
    call_id: bytes = b""

    @staticmethod
    def from_request(request: FragmentRequest, call_id: bytes = b"") -> FragmentTicket:
        """The ticket of a request.

        Args:
            request: A fragment; its inputs stay behind but for their names.
            call_id: As the attribute.
        """
        return FragmentTicket(request, tuple(request.inputs), call_id)

    def to_bytes(self) -> bytes:
        """The bytes that `parse_fragment` reads back.

        Raises:
            InvalidInput: The parameters are larger than 16 MiB.
        """
        request = self.request
        lists = {
            store: new("PartitionList", partitions=partitions)
            for store, partitions in request.partitions.items()
        }
        message = new(
            "FragmentRequest",
            format=_format(request),
            sql=request.sql,
            epochs=dict(request.epochs),
            partitions=lists,
            inputs=self.inputs,
            timeout=request.timeout_seconds,
            call_id=self.call_id,
            generations=request.generations,
            digests=request.digests,
            complete_until=request.complete_until,
            scope=b"" if request.scope is None else scope_bytes(request.scope),
            engine_limit=_limit_message(request.engine_limit),
        )
        if request.parameters is not None:
            packed = Parameters.from_batch(request.parameters)
            message.parameter_schema, message.parameter_row = packed.schema, packed.row
        return FRAGMENT_MARK + bytes(message.SerializeToString())


def parse_fragment(data: bytes) -> FragmentTicket:
    """The request of a ticket or a descriptor's command.

    Args:
        data: What `FragmentTicket.to_bytes` made.

    Returns:
        The request, without its inputs.

    Raises:
        InvalidInput: The bytes are no such request, or one of a format that this host does not know.
    """
    if not data.startswith(FRAGMENT_MARK):
        raise InvalidInput(
            "These bytes are neither a fragment of a host nor the JSON of a stream of keys, which DoExchange "
            "is for: send SQL with DoGet."
        )
    message: Message = parse("FragmentRequest", data[len(FRAGMENT_MARK) :])
    if message.format not in (FORMAT, SCOPED_FORMAT, LIMITED_FORMAT):
        raise InvalidInput(
            f"The fragment has format {message.format}, and this host reads {FORMAT}: run one version of "
            "livestate on all hosts."
        )
    parameters = (
        Parameters(message.parameter_schema, message.parameter_row).batch()
        if message.parameter_schema
        else None
    )
    request = FragmentRequest(
        sql=message.sql,
        epochs={GroupName(group): _epoch(group, epoch) for group, epoch in message.epochs.items()},
        partitions={
            StoreName(store): _partitions(store, each.partitions)
            for store, each in message.partitions.items()
        },
        parameters=parameters,
        timeout_seconds=checked_timeout(message.timeout if message.HasField("timeout") else None),
        generations={
            GroupName(group): _generation(group, generation)
            for group, generation in message.generations.items()
        },
        digests={GroupName(group): digest for group, digest in message.digests.items()},
        complete_until=message.complete_until,
        scope=_scope(message),
        engine_limit=_engine_limit(message.engine_limit) if message.format == LIMITED_FORMAT else None,
    )
    inputs = tuple(message.inputs)
    if not all(inputs) or len(set(inputs)) < len(inputs):
        raise InvalidInput("The inputs of a fragment must have names, each its own.")
    return FragmentTicket(request, inputs, message.call_id)


def _format(request: FragmentRequest) -> int:
    if request.engine_limit is not None:
        return LIMITED_FORMAT
    return FORMAT if request.scope is None else SCOPED_FORMAT


def _scope(message: Message) -> Scope | None:
    is_scoped = message.format == SCOPED_FORMAT or (message.format == LIMITED_FORMAT and message.scope)
    return parse_scope(message.scope) if is_scoped else None


def _limit_message(found: EngineLimit | None) -> Message | None:
    if found is None:
        return None
    return new("EngineLimit", owner=found.owner, bytes=found.limit.most, role=found.limit.role)


def _engine_limit(message: Message) -> EngineLimit:
    if message.bytes < 1 or not message.owner:
        raise InvalidInput(
            "The fragment does not say what the engine may take for it: run one version of livestate on all "
            "hosts."
        )
    return EngineLimit(message.owner, Limit(message.bytes, message.role))


def _epoch(group: str, epoch: int) -> Epoch:
    if epoch < 0:
        raise InvalidInput(f"The fragment asks for epoch {epoch} of group {group!r}; there is none below 0.")
    return Epoch(epoch)


def _generation(group: str, generation: int) -> int:
    if generation < 1:
        raise InvalidInput(
            f"The fragment asks for generation {generation} of group {group!r}; those that it names begin at "
            "1."
        )
    return generation


def _partitions(store: str, given: Sequence[int]) -> tuple[PartitionId, ...]:
    partitions = tuple(map(PartitionId, given))
    ascending = all(before < after for before, after in pairwise(partitions))
    if partitions and not (ascending and partitions[0] >= 0 and partitions[-1] < MAX_PARTITIONS):
        raise InvalidInput(
            f"The fragment must list the partitions of {store!r} in ascending order, each from 0 to "
            f"{MAX_PARTITIONS - 1}."
        )
    return partitions


# ---- inputs


def upload_pieces(inputs: Mapping[str, pa.Table]) -> Iterator[pa.Buffer]:
    """The upload that carries input tables.

    Args:
        inputs: The tables, in the order of the request.

    Yields:
        Pieces.
    """
    for number, table in enumerate(inputs.values()):
        for part in _cut_table(table):
            yield _encode_piece(number, part)


def _cut_table(table: pa.Table) -> Iterator[pa.Table]:
    rows = max(1, PIECE_BYTES * table.num_rows // max(1, table.nbytes))
    for begin in range(0, max(1, table.num_rows), rows):
        yield table.slice(begin, rows)


def _encode_piece(number: int, part: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    sink.write(_NUMBER.pack(number))
    with pa.ipc.new_stream(sink, part.schema) as writer:
        writer.write_table(part)
    return sink.getvalue()


def piece_batch(piece: pa.Buffer) -> pa.RecordBatch:
    """A piece as it travels: one value of `UPLOAD_SCHEMA`, which refers to its bytes.

    As metadata of a message, which a host takes as well, some pieces end the process that sends them: Flight
    26 fails to lay such a message out, and gRPC takes that for impossible.

    Args:
        piece: The piece.
    """
    offsets = pa.array([0, piece.size], pa.int32()).buffers()[1]
    values = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, piece])
    return pa.RecordBatch.from_arrays([values], schema=UPLOAD_SCHEMA)


def _piece_of(batch: pa.RecordBatch) -> pa.Buffer | None:
    batch.validate(full=True)
    if (batch.num_columns, batch.num_rows) != (1, 1) or batch.column(0).null_count:
        return None
    return batch.column(0)[0].as_buffer()


class InputSpace:
    """The memory that uploaded inputs take on this host. Safe for threads.

    Args:
        limit_bytes: How much all uploads may take together; what comes on top is refused.
    """

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._taken = 0
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        """Take some of it.

        Args:
            size: Bytes.

        Raises:
            LimitExceeded: There is not as much left.
        """
        with self._lock:
            if self._taken + size > self._limit_bytes:
                raise LimitExceeded(
                    "The rows that queries send to this host exceed its max_input_bytes "
                    f"({self._limit_bytes:,} bytes): "
                    "ask for less at a time, or raise the limit."
                )
            self._taken += size

    def give(self, size: int) -> None:
        """Give back what was taken."""
        with self._lock:
            self._taken -= size

    @property
    def taken(self) -> int:
        """Bytes taken now."""
        return self._taken


class Upload:
    """The inputs of one fragment, as they come in. Safe for threads; a context that gives the memory back.

    Args:
        names: Names of the inputs, by their numbers.
        space: Where their memory is counted.
    """

    def __init__(self, names: Sequence[str], space: InputSpace) -> None:
        self._names = names
        self._space = space
        self._lock = threading.Lock()
        self._is_open = True
        self._size = 0
        self._pieces: list[list[pa.Table]] = [[] for _ in names]

    def read(
        self, reader: flight.MetadataRecordBatchReader, check: Callable[[], None]
    ) -> Mapping[str, pa.Table]:
        """Read the upload to its end.

        Args:
            reader: The upload.
            check: Called with each piece; raises when the fragment is not wanted any more.

        Returns:
            Each input by its name.

        Raises:
            InvalidInput: The upload does not hold the inputs, or is damaged.
            LimitExceeded: It is larger than the space for uploads.
        """
        if not self._names:
            return {}
        try:
            # Flight makes rows of what comes by this schema: of bytes there is little to make.
            if len(reader.schema) and reader.schema != UPLOAD_SCHEMA:
                raise InvalidInput(_DAMAGED_INPUT)
            for chunk in reader:
                check()
                self._add(chunk)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(_DAMAGED_INPUT) from error
        with self._lock:
            pieces = list(self._pieces)
        check()
        if not all(pieces):
            raise InvalidInput("The upload lacks an input that the fragment names.")
        return {name: _join_pieces(name, tables) for name, tables in zip(self._names, pieces, strict=True)}

    def _add(self, chunk: flight.FlightStreamChunk) -> None:
        piece = chunk.app_metadata if chunk.data is None else _piece_of(chunk.data)
        if piece is None or piece.size < _NUMBER.size:
            raise InvalidInput(_DAMAGED_INPUT)
        (number,) = _NUMBER.unpack_from(piece)
        if not 0 <= number < len(self._names):
            raise InvalidInput(_DAMAGED_INPUT)
        self._take(piece.size)
        table = _decode_piece(piece.slice(_NUMBER.size))
        with self._lock:
            if self._is_open:
                self._pieces[number].append(table)

    def _take(self, size: int) -> None:
        with self._lock:
            if self._is_open:
                self._space.take(size)
                self._size += size

    def close(self) -> None:
        """Keep nothing more of it, and give the memory back. May be called again, and while another thread
        reads.
        """
        with self._lock:
            self._is_open = False
            self._pieces = [[] for _ in self._names]
            size, self._size = self._size, 0
        self._space.give(size)

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *unused: Any) -> None:
        self.close()


def _decode_piece(piece: pa.Buffer) -> pa.Table:
    try:
        return read_table(piece)
    except NotPlainError as error:
        raise InvalidInput(f"The inputs of the fragment cannot be read: {error}.") from error


def _join_pieces(name: str, pieces: Sequence[pa.Table]) -> pa.Table:
    if not all(piece.schema.equals(pieces[0].schema) for piece in pieces):
        raise InvalidInput(f"The pieces of the input {name!r} have different columns.")
    return pa.concat_tables(pieces)
