"""Arrow bytes that are small and would become large, wherever a host takes any: a clear refusal, and no
memory for it.
"""

from __future__ import annotations

import json
import struct
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.errors import InvalidInput
from engine.model.schema import define_store
from flight_server.client.connection import FLIGHT_FAILURES
from flight_server.host.arrow_pool import BUFFER_MIB, POOL_MIB
from flight_server.wire.boundary import ERROR_TRAILER
from flight_server.wire.fragment_messages import FORMAT, FRAGMENT_MARK, UPLOAD_SCHEMA
from flight_server.wire.ipc_bytes import MAX_FIELDS, NotPlainError, read_row, read_table
from flight_server.wire.messages import new, pack
from flight_server.wire.tickets import MAX_PARAMETER_VALUES, STATEMENT_MARK, Parameters, Statement
from tests.protocol.conftest import SONGS
from tests.support.host_processes import HostProcess, host_processes
from tests.support.hostile_arrow import LIES, Message, damage, harmless_rows, hostile_rows, write_message
from tests.support.process_family import processor_seconds
from tests.support.processor_time import is_longer
from tests.support.resident import grows_by_at_most
from tests.support.waiting import wait_until

SQL = "SELECT title FROM songs WHERE song_id = ?"
MOST_MIB = 100
REFUSALS = ("InvalidInput", "LimitExceeded")

Refused = Callable[[flight.FlightClient], object]


class _Trailers(flight.ClientMiddlewareFactory):  # type: ignore[misc] # pyarrow has no types
    """What the host says of failures, by its own word."""

    def __init__(self) -> None:
        self.found: list[Mapping[str, str]] = []

    def start_call(self, info: object) -> _Trailer:
        return _Trailer(self.found)


class _Trailer(flight.ClientMiddleware):  # type: ignore[misc] # as above
    def __init__(self, found: list[Mapping[str, str]]) -> None:
        self._found = found

    def received_headers(self, headers: Mapping[str, list[str | bytes]]) -> None:
        self._found.extend(json.loads(value) for value in headers.get(ERROR_TRAILER, ()))


class Served:
    """A host, in a process of its own, that has another host to share fragments with, as it believes."""

    def __init__(self, process: HostProcess) -> None:
        self.process = process
        self._trailers = _Trailers()
        self.client = flight.FlightClient(process.uri, middleware=[self._trailers])

    def refuses(self, call: Refused) -> str:
        """What it says; one of the kinds of refusal, in a sentence without anything of its inside."""
        self._trailers.found.clear()
        with pytest.raises(FLIGHT_FAILURES):
            call(self.client)
        (said, *_) = self._trailers.found
        assert said["kind"] in REFUSALS, said
        assert not any(word in said["message"] for word in ("Traceback", ".py", "incident")), said
        return said["message"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory: Path = tmp_path_factory.mktemp("hostile")
    changelog = (directory / "changelog").as_uri()
    append_table(
        Changelog.open(changelog), define_store("songs", SONGS.schema, ["song_id"], partitions=2), SONGS
    )
    with host_processes(directory, changelog, "a") as hosts:
        served = Served(hosts["a"])
        yield served
        served.client.close()


@pytest.fixture
def host(served: Served) -> Iterator[Served]:
    """The host, which goes on whatever happens."""
    yield served
    wait_until(lambda: running(served) == 0)
    assert titles(served, Statement(SQL).bind(pa.record_batch([pa.array([2], pa.int32())], ["1"]))) == ["two"]


def running(host: Served) -> int:
    (answer,) = host.client.do_action(flight.Action("livestate.health", b""))
    return int(json.loads(answer.body.to_pybytes())["running"])


def titles(host: Served, statement: Statement) -> list[str]:
    found: list[str] = host.client.do_get(flight.Ticket(statement.to_bytes())).read_all()["title"].to_pylist()
    return found


# ---- entrances


def handle(row: Message, **fields: object) -> bytes:
    message = new("StatementHandle", sql=SQL, parameter_schema=row.schema, parameter_row=row.row, **fields)
    return STATEMENT_MARK + bytes(message.SerializeToString())


def ticket(row: Message) -> Refused:
    """The values in a ticket."""
    return lambda client: client.do_get(flight.Ticket(handle(row))).read_all()


def prepared(row: Message) -> Refused:
    """The values in the handle of a prepared statement."""
    command = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=handle(row)))

    def ask(client: flight.FlightClient) -> object:
        info = client.get_flight_info(flight.FlightDescriptor.for_command(command))
        return client.do_get(info.endpoints[0].ticket).read_all()

    return ask


def planned(row: Message) -> Refused:
    """The values in a handle whose result may have several endpoints, for which they are looked at."""
    command = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=handle(row, parallel=True)))
    return lambda client: client.get_flight_info(flight.FlightDescriptor.for_command(command))


def fragment(row: Message) -> bytes:
    message = new(
        "FragmentRequest",
        format=FORMAT,
        sql="SELECT title FROM songs WHERE song_id = ?",
        epochs={"songs": 2},
        partitions={"songs": new("PartitionList", partitions=[0, 1])},
        parameter_schema=row.schema,
        parameter_row=row.row,
        timeout=20.0,
    )
    return FRAGMENT_MARK + bytes(message.SerializeToString())


def endpoint(row: Message) -> Refused:
    """The values in the ticket of an endpoint."""
    return lambda client: client.do_get(flight.Ticket(fragment(row))).read_all()


def exchanged_values(row: Message) -> Refused:
    """The values in the command of a fragment of another host."""
    return lambda client: exchange(client, fragment(row), [])


def cancelled(row: Message) -> Refused:
    """The values in a ticket that is to be cancelled."""
    info = flight.FlightInfo(
        pa.schema([]), flight.FlightDescriptor.for_command(b""), [flight.FlightEndpoint(fragment(row), [])]
    )
    body = new("CancelFlightInfoRequest", info=info.serialize()).SerializeToString()
    return lambda client: list(client.do_action(flight.Action("CancelFlightInfo", body)))


def uploaded(row: Message) -> Refused:
    """Rows that come along with a fragment."""
    command = new("FragmentRequest", format=FORMAT, sql='SELECT * FROM "one"', inputs=["one"], timeout=20.0)
    return lambda client: exchange(
        client, FRAGMENT_MARK + bytes(command.SerializeToString()), [bytes(8) + row.stream]
    )


ENTRANCES: Mapping[str, Callable[[Message], Refused]] = {
    made.__name__: made
    for made in (ticket, prepared, planned, endpoint, exchanged_values, cancelled, uploaded)
}


def exchange(client: flight.FlightClient, command: bytes, pieces: Sequence[bytes]) -> pa.Table:
    writer, reader = client.do_exchange(flight.FlightDescriptor.for_command(command))
    try:
        with suppress(*FLIGHT_FAILURES):
            writer.begin(UPLOAD_SCHEMA)
            for piece in pieces:
                writer.write_metadata(piece)
            writer.done_writing()
        return reader.read_all()
    finally:
        with suppress(*FLIGHT_FAILURES):
            writer.close()


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_entrance_takes_hostile_rows(host: Served, entrance: str) -> None:
    with grows_by_at_most(host.process.pid, MOST_MIB):
        for name, row in hostile_rows().items():
            # A handle without a schema is one without values.
            if row.schema or entrance == "uploaded":
                assert host.refuses(ENTRANCES[entrance](row)), name


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_no_entrance_takes_hostile_rows_of_many_at_once(host: Served, entrance: str) -> None:
    bombs = [
        hostile_rows()[name]
        for name in ("zstd", "zstd, once for each column", "a dictionary of one", "nulls", "a list of nulls")
    ]

    def send() -> None:
        with flight.connect(host.process.uri) as client:
            for bomb in bombs:
                with suppress(*FLIGHT_FAILURES):
                    ENTRANCES[entrance](bomb)(client)

    threads = [threading.Thread(target=send) for _ in range(16)]
    with grows_by_at_most(host.process.pid, MOST_MIB):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


# ---- values that are bound: Flight itself makes rows of them


def bound(host: Served, values: pa.Array | pa.RecordBatch, compression: str | None = None) -> bytes:
    """The handle of the statement with a value."""
    command = pack(new("CommandPreparedStatementQuery", prepared_statement_handle=Statement(SQL).to_bytes()))
    options = flight.FlightCallOptions(write_options=pa.ipc.IpcWriteOptions(compression=compression))
    batch = values if isinstance(values, pa.RecordBatch) else pa.record_batch([values], ["1"])
    writer, reader = host.client.do_put(flight.FlightDescriptor.for_command(command), batch.schema, options)
    with writer:
        # Once the host has refused, writing fails too; the end of the call has the reason.
        with suppress(*FLIGHT_FAILURES):
            writer.write_batch(batch)
            writer.done_writing()
        read = reader.read()
    # A raw message with one field: a tag, a length, and the handle.
    answer = bytes(read.to_pybytes())
    return answer[answer.index(STATEMENT_MARK) :]


def text_of_zeros(size: int) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), 1, [None, pa.py_buffer(struct.pack("<ii", 0, size)), pa.py_buffer(bytes(size))]
    )


def test_values_that_unfold_are_not_bound(host: Served) -> None:
    with grows_by_at_most(host.process.pid, MOST_MIB):
        for mebibytes in (20, 2 * BUFFER_MIB, 2 * POOL_MIB, 1023):
            zeros = text_of_zeros(mebibytes << 20)
            for compression in ("zstd", "lz4"):
                assert "16,777,216 bytes" in host.refuses(lambda _: bound(host, zeros, compression))  # noqa: B023  called at once
    with grows_by_at_most(host.process.pid, MOST_MIB):
        for values in (MAX_PARAMETER_VALUES + 1, (1 << 31) - 1):
            nulls = pa.ListArray.from_arrays(pa.array([0, values], pa.int32()), pa.nulls(values))
            for column in (nulls, pa.StructArray.from_arrays([nulls], ["x"])):
                assert "2,097,152 values" in host.refuses(lambda _: bound(host, column))  # noqa: B023  likewise
    batches = {name: pa.ipc.open_stream(hostile_rows()[name].stream).read_next_batch() for name in UNFOLDING}
    with grows_by_at_most(host.process.pid, MOST_MIB):
        for batch in batches.values():
            host.refuses(lambda _: bound(host, batch))  # noqa: B023  called at once


MOST_SECONDS = 5.0
"""Of the processor's time on a usual machine."""


def test_views_are_counted_before_they_are_looked_at(host: Served) -> None:
    """A hundred thousand views of a mebibyte each took 25 s."""
    texts = pa.ipc.open_stream(hostile_rows()["views"].stream).read_next_batch()
    before = processor_seconds(host.process.pid)
    for column in (texts.column(0), pa.DictionaryArray.from_arrays([0], texts.column(0).values)):
        assert "16,777,216 bytes" in host.refuses(lambda _: bound(host, column))  # noqa: B023  called at once
    assert not is_longer(processor_seconds(host.process.pid) - before, MOST_SECONDS)


UNFOLDING = (
    "a dictionary",
    "runs",
    "views",
    "views of lists",
    "a union",
    "an extension",
    "a list of nulls",
    "deep lists",
    "months",
)


def test_what_drivers_bind_is_bound_whatever_its_form(host: Served) -> None:
    for column in (
        pa.array([2], pa.int32()),
        pa.array([2]).dictionary_encode(),
        pa.array([2], pa.decimal128(5)),
    ):
        handle = bound(host, column, "zstd")
        assert host.client.do_get(flight.Ticket(handle)).read_all()["title"].to_pylist() == ["two"]
    for text in (pa.string_view(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())):
        column = pa.array(["two"]).cast(text) if text != pa.string_view() else pa.array(["two"], text)
        handle = bound(host, column)
        statement = handle.replace(SQL.encode(), b"SELECT title FROM songs WHERE title = ?  ")
        assert host.client.do_get(flight.Ticket(statement)).read_all()["title"].to_pylist() == ["two"], text


# ---- the reading itself


def test_the_bombs_are_such_as_arrow_reads() -> None:
    for name in (
        "nulls",
        "a struct without fields",
        "no columns",
        "texts of no bytes",
        "lists of no length",
        "columns that overlap",
        "runs",
    ):
        batch = pa.ipc.open_stream(hostile_rows()[name].stream).read_next_batch()
        assert (
            max(batch.num_rows, batch.num_columns, len(batch.column(0).values) if name == "runs" else 0) > 800
        ), name
    for name in ("a list of nulls", "views", "views of lists", "a dictionary", "a union"):
        assert (
            len(pa.ipc.open_stream(hostile_rows()[name].stream).read_next_batch().column(0).values) >= 100_000
        ), name
    assert pa.ipc.open_stream(hostile_rows()["zstd"].stream).read_next_batch().nbytes > 256 << 20


def test_what_hosts_send_is_read() -> None:
    for column in harmless_rows():
        row = write_message(column)
        batch = pa.record_batch([column], ["1"])
        assert read_row(row.schema, row.row, MAX_PARAMETER_VALUES).equals(batch)
        assert Parameters.from_batch(batch).batch().equals(batch)
        if not pa.types.is_null(column.type):
            assert read_table(pa.py_buffer(row.stream)).equals(pa.Table.from_batches([batch]))
    two = Message(write_message(pa.array([1])).schema, (LIES["two rows"],))
    assert read_table(pa.py_buffer(two.stream)).num_rows == 2
    with pytest.raises(NotPlainError, match="not one row"):
        read_row(two.schema, two.row, MAX_PARAMETER_VALUES)


def test_a_schema_has_not_too_many_fields() -> None:
    def schema(fields: int) -> Message:
        row = pa.StructArray.from_arrays([pa.array([1])] * fields, [f"{place:x}" for place in range(fields)])
        return write_message(row)

    fits, larger = schema(1000), schema(MAX_FIELDS)
    assert read_row(fits.schema, fits.row, MAX_PARAMETER_VALUES).num_rows == 1
    with pytest.raises(NotPlainError, match="more than 20,000 fields"):
        read_row(larger.schema, larger.row, MAX_PARAMETER_VALUES)


def test_a_parameter_has_not_too_many_values() -> None:
    def packed(values: int) -> Parameters:
        return Parameters.from_batch(
            pa.record_batch([pa.ListArray.from_arrays([0, values], pa.array([True] * values))], ["1"])
        )

    assert packed(MAX_PARAMETER_VALUES - 1).batch().num_rows == 1
    with pytest.raises(InvalidInput, match="more than 2,097,152 values"):
        packed(MAX_PARAMETER_VALUES)


NUMBERS = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.sampled_from([0, 1, 2, 3, 7, 8, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00100000])
        | st.integers(0, (1 << 32) - 1),
    ),
    min_size=1,
    max_size=3,
)
MESSAGES = [write_message(column) for column in harmless_rows()]


@given(st.sampled_from(MESSAGES), NUMBERS, st.booleans())
@settings(max_examples=1500)
def test_damaged_rows_are_refused_or_no_larger_than_they_are(
    message: Message, numbers: list[tuple[int, int]], in_schema: bool
) -> None:
    places, values = zip(*numbers, strict=True)
    schema = damage(message.schema, places, values) if in_schema else message.schema
    row = message.row if in_schema else damage(message.row, places, values)
    stream = Message(schema, (row,)).stream
    with suppress(NotPlainError):
        assert _size(read_row(schema, row, MAX_PARAMETER_VALUES)) <= len(row)
    with suppress(NotPlainError):
        assert _size(read_table(pa.py_buffer(stream))) <= len(stream)


def _size(rows: pa.RecordBatch | pa.Table) -> int:
    columns = (
        rows.columns
        if isinstance(rows, pa.RecordBatch)
        else [chunk for column in rows.columns for chunk in column.chunks]
    )
    assert len(str(rows.schema)) < 10_000
    return sum(buffer.size for column in columns for buffer in column.buffers() if buffer is not None)
