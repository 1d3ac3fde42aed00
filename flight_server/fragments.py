"""Fragments on the wire: the bytes of a request, and its input tables as a stream of pieces.

A request is the message `FragmentRequest` (`flight_server.messages`) behind the two bytes `00 46` (NUL, `F`). It travels as the ticket of
a DoGet when it has no inputs, or as the command of a DoExchange, whose upload carries the inputs: one Flight stream of `UPLOAD_SCHEMA`
with a row a piece. A piece is an Arrow IPC stream of some rows of one input, schema included, so that any input can be read from
any number of pieces, and an input without rows has one piece. The schema of the answer carries the metadata that results have everywhere.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyarrow import flight

from engine.cluster.fragments import FragmentRequest
from engine.errors import InvalidInput, LimitExceeded
from engine.schema import MAX_PARTITIONS, Epoch, GroupName, PartitionId, StoreName
from flight_server.messages import Message, new, parse
from flight_server.tickets import Parameters, checked_timeout

FRAGMENT_MARK = b"\x00F"
FORMAT = 2
"""Format 1 had no generations."""
PIECE_BYTES = 4 << 20
"""About how large a piece of an input is."""
UPLOAD_SCHEMA = pa.schema([pa.field("input", pa.int32(), nullable=False), pa.field("piece", pa.large_binary(), nullable=False)])

_DAMAGED_INPUT = "The inputs of the fragment are damaged or cut off."


@dataclass(frozen=True)
class FragmentTicket:
    """A request on its way, whose inputs come separately.

    Attributes:
        request: The fragment, without its inputs.
        inputs: Names of the inputs that the upload holds, in the order of their numbers there.
        call_id: What tells this execution from all others, so that it can be cancelled by it; empty: it cannot.
    """

    request: FragmentRequest
    inputs: tuple[str, ...] = ()
    call_id: bytes = b""

    @staticmethod
    def of(request: FragmentRequest, call_id: bytes = b"") -> FragmentTicket:
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
        lists = {store: new("PartitionList", partitions=partitions) for store, partitions in request.partitions.items()}
        message = new(
            "FragmentRequest",
            format=FORMAT,
            sql=request.sql,
            epochs=dict(request.epochs),
            partitions=lists,
            inputs=self.inputs,
            timeout=request.timeout_seconds,
            call_id=self.call_id,
            generations=request.generations,
        )
        if request.parameters is not None:
            packed = Parameters.of(request.parameters)
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
        raise InvalidInput("These bytes are no fragment of a host: DoExchange is for hosts among each other; send SQL with DoGet.")
    message: Message = parse("FragmentRequest", data[len(FRAGMENT_MARK) :])
    if message.format != FORMAT:
        raise InvalidInput(f"The fragment has format {message.format}, and this host reads {FORMAT}: run one version of livestate on all hosts.")
    parameters = Parameters(message.parameter_schema, message.parameter_row).batch() if message.parameter_schema else None
    request = FragmentRequest(
        sql=message.sql,
        epochs={GroupName(group): _epoch(group, epoch) for group, epoch in message.epochs.items()},
        partitions={StoreName(store): _partitions(store, each.partitions) for store, each in message.partitions.items()},
        parameters=parameters,
        timeout_seconds=checked_timeout(message.timeout if message.HasField("timeout") else None),
        generations={GroupName(group): _generation(group, generation) for group, generation in message.generations.items()},
    )
    inputs = tuple(message.inputs)
    if not all(inputs) or len(set(inputs)) < len(inputs):
        raise InvalidInput("The inputs of a fragment must have names, each its own.")
    return FragmentTicket(request, inputs, message.call_id)


def _epoch(group: str, epoch: int) -> Epoch:
    if epoch < 0:
        raise InvalidInput(f"The fragment asks for epoch {epoch} of group {group!r}; there is none below 0.")
    return Epoch(epoch)


def _generation(group: str, generation: int) -> int:
    if generation < 1:
        raise InvalidInput(f"The fragment asks for generation {generation} of group {group!r}; those that it names begin at 1.")
    return generation


def _partitions(store: str, given: Sequence[int]) -> tuple[PartitionId, ...]:
    partitions = tuple(map(PartitionId, given))
    ascending = all(before < after for before, after in pairwise(partitions))
    if partitions and not (ascending and partitions[0] >= 0 and partitions[-1] < MAX_PARTITIONS):
        raise InvalidInput(f"The fragment must list the partitions of {store!r} in ascending order, each from 0 to {MAX_PARTITIONS - 1}.")
    return partitions


# ---- inputs


def upload_pieces(inputs: Mapping[str, pa.Table]) -> Iterator[pa.RecordBatch]:
    """The upload that carries input tables.

    Args:
        inputs: The tables, in the order of the request.

    Yields:
        Batches of `UPLOAD_SCHEMA`, each with one piece.
    """
    for number, table in enumerate(inputs.values()):
        for part in _parts(table):
            yield _piece(number, part)


def _parts(table: pa.Table) -> Iterator[pa.Table]:
    rows = max(1, PIECE_BYTES * table.num_rows // max(1, table.nbytes))
    for begin in range(0, max(1, table.num_rows), rows):
        yield table.slice(begin, rows)


def _piece(number: int, part: pa.Table) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, part.schema) as writer:
        writer.write_table(part)
    body = sink.getvalue()
    offsets = pa.array([0, body.size], pa.int64()).buffers()[1]
    # Over the bytes as they are: `pa.array([bytes])` would copy them twice.
    piece = pa.Array.from_buffers(pa.large_binary(), 1, [None, offsets, body])
    return pa.record_batch([pa.array([number], pa.int32()), piece], schema=UPLOAD_SCHEMA)


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
                    f"The rows that queries send to this host exceed its max_input_bytes ({self._limit_bytes:,} bytes): "
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
    """The inputs of one fragment, as they come in; a context that gives the memory back.

    Args:
        names: Names of the inputs, by their numbers.
        space: Where their memory is counted.
    """

    def __init__(self, names: Sequence[str], space: InputSpace) -> None:
        self._names = names
        self._space = space
        self._size = 0
        self._pieces: list[list[pa.Table]] = [[] for _ in names]

    def read(self, reader: flight.MetadataRecordBatchReader, check: Callable[[], None]) -> Mapping[str, pa.Table]:
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
            for chunk in reader:
                check()
                self._add(chunk.data)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise InvalidInput(_DAMAGED_INPUT) from error
        if not all(self._pieces):
            raise InvalidInput("The upload lacks an input that the fragment names.")
        return {name: _whole(name, pieces) for name, pieces in zip(self._names, self._pieces, strict=True)}

    def _add(self, batch: pa.RecordBatch | None) -> None:
        if batch is None or not batch.schema.equals(UPLOAD_SCHEMA):
            raise InvalidInput(_DAMAGED_INPUT)
        size = batch.get_total_buffer_size()
        self._space.take(size)
        self._size += size
        batch.validate(full=True)
        for number, piece in zip(batch.column(0).to_pylist(), batch.column(1), strict=True):
            if number is None or not 0 <= number < len(self._names) or not piece.is_valid:
                raise InvalidInput(_DAMAGED_INPUT)
            self._pieces[number].append(_read_piece(piece.as_buffer()))

    def __enter__(self) -> Upload:
        return self

    def __exit__(self, *unused: Any) -> None:
        self._pieces.clear()
        self._space.give(self._size)


def _read_piece(piece: pa.Buffer) -> pa.Table:
    with pa.ipc.open_stream(piece) as reader:
        table = reader.read_all()
    table.validate(full=True)
    # Arrow does not look at names; Python does, when somebody asks for them.
    assert len(table.schema.names) == table.num_columns
    return table


def _whole(name: str, pieces: Sequence[pa.Table]) -> pa.Table:
    if not all(piece.schema.equals(pieces[0].schema) for piece in pieces):
        raise InvalidInput(f"The pieces of the input {name!r} have different columns.")
    return pa.concat_tables(pieces)
