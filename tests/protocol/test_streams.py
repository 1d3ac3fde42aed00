"""Results underway: clients that vanish, cancel or do not read, and a stop in the midst of it."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.service import QueryService
from flight_server.host.host import Host
from flight_server.server.server import LivestateServer
from flight_server.wire.messages import new, pack, parse, unpack
from tests.protocol.conftest import BIG_ROWS
from tests.support.waiting import wait_until

SLOW = "SELECT count(*) FROM big a, big b, big c WHERE a.id + b.id + c.id = -1"
LARGE = "SELECT a.*, b.pad AS more FROM big a, (SELECT pad FROM big LIMIT 20) b"
_READ_ONE_BATCH_AND_HANG = """
import sys
from pyarrow import flight
reader = flight.connect(sys.argv[1]).do_get(flight.Ticket(sys.argv[2]))
reader.read_chunk()
print("reading", flush=True)
sys.stdin.read()
"""


def _count(client: flight.FlightClient) -> int:
    count: int = client.do_get(flight.Ticket("SELECT count(*) AS n FROM big")).read_all()["n"][0].as_py()
    return count


def test_a_client_killed_in_mid_result_leaves_nothing_behind(
    uri: str, host: Host, plain: flight.FlightClient
) -> None:
    arguments = [sys.executable, "-c", _READ_ONE_BATCH_AND_HANG, uri, LARGE]
    with subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"reading\n"
        assert host.running_queries == 1
        client.kill()
    wait_until(lambda: host.running_queries == 0)
    assert _count(plain) == BIG_ROWS


def test_a_reader_that_is_dropped_ends_its_query(uri: str, host: Host, plain: flight.FlightClient) -> None:
    with flight.connect(uri) as client:
        reader = client.do_get(flight.Ticket(LARGE))
        reader.read_chunk()
        assert host.running_queries == 1
        reader.cancel()
        del reader
    wait_until(lambda: host.running_queries == 0)
    assert _count(plain) == BIG_ROWS


def _info(client: flight.FlightClient, sql: str) -> flight.FlightInfo:
    return client.get_flight_info(
        flight.FlightDescriptor.for_command(pack(new("CommandStatementQuery", query=sql)))
    )


def test_flight_info_has_the_schema_of_the_stream_and_one_endpoint(plain: flight.FlightClient) -> None:
    for sql in (
        "SELECT * FROM typed",
        "SELECT count(*) AS n, max(title) AS t FROM songs",
        "SELECT * FROM big",
        "SHOW STORES",
        "VALUES (1, 'a')",
    ):
        info = _info(plain, sql)
        (endpoint,) = info.endpoints
        assert endpoint.locations == []
        assert plain.do_get(endpoint.ticket).read_all().schema.equals(info.schema)


def test_a_ticket_can_be_redeemed_again(plain: flight.FlightClient) -> None:
    (endpoint,) = _info(plain, "SELECT * FROM songs").endpoints
    assert plain.do_get(endpoint.ticket).read_all().num_rows == 3
    assert plain.do_get(endpoint.ticket).read_all().num_rows == 3


@pytest.mark.parametrize("action", ["CancelFlightInfo", "CancelQuery"])
def test_another_connection_cancels_a_query_by_its_info(
    uri: str, host: Host, plain: flight.FlightClient, action: str
) -> None:
    info = _info(plain, SLOW)
    if action == "CancelFlightInfo":
        body = new("CancelFlightInfoRequest", info=info.serialize()).SerializeToString()
    else:
        body = pack(new("ActionCancelQueryRequest", info=info.serialize()))
    with flight.connect(uri) as other, ThreadPoolExecutor(1) as pool:
        running = pool.submit(lambda: plain.do_get(info.endpoints[0].ticket).read_all())
        wait_until(lambda: host.running_queries == 1)
        (result,) = other.do_action(flight.Action(action, body))
        with pytest.raises(flight.FlightCancelledError, match="cancelled"):
            running.result(timeout=60)
        wait_until(lambda: host.running_queries == 0)
        with pytest.raises(pa.ArrowKeyError, match="does not run"):
            list(other.do_action(flight.Action(action, body)))
    data = result.body.to_pybytes()
    assert (
        parse("CancelFlightInfoResult", data).status
        if action == "CancelFlightInfo"
        else unpack(data)[1].result
    ) == 2


def test_a_cancel_in_mid_result_is_no_keyboard_interrupt(
    uri: str, host: Host, plain: flight.FlightClient
) -> None:
    info = _info(plain, LARGE)
    reader = plain.do_get(info.endpoints[0].ticket)
    reader.read_chunk()
    with flight.connect(uri) as other:
        list(
            other.do_action(
                flight.Action(
                    "CancelFlightInfo",
                    new("CancelFlightInfoRequest", info=info.serialize()).SerializeToString(),
                )
            )
        )
    with pytest.raises(flight.FlightServerError, match="cancelled"):
        reader.read_all()
    wait_until(lambda: host.running_queries == 0)


def test_a_stop_lets_short_queries_end_and_cancels_long_ones(host: Host) -> None:
    service = QueryService(host.source)
    server = LivestateServer("grpc://127.0.0.1:0", service, host.source.notify)
    with flight.connect(f"grpc://127.0.0.1:{server.port}") as client, ThreadPoolExecutor(2) as pool:
        running = pool.submit(lambda: client.do_get(flight.Ticket(SLOW)).read_all())
        wait_until(lambda: server.running == 1)
        stopping = pool.submit(server.stop, 0.5)
        with pytest.raises(flight.FlightError):
            running.result(timeout=60)
        assert stopping.result(timeout=60)
        with pytest.raises(flight.FlightUnavailableError):
            client.do_get(flight.Ticket("SELECT 1")).read_all()
    service.close()
