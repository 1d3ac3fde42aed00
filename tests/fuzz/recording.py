"""Real messages: what the project's client, its hosts and the ADBC driver send to a host, taken down between
the two.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import grpc
from adbc_driver_flightsql import DatabaseOptions

from engine.errors import Forbidden
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from tests.fuzz.calls import CHANNEL_OPTIONS

Recorded = tuple[str, tuple[bytes, ...]]
"""Name of an RPC, and the messages that were sent."""


class _Proxy(grpc.GenericRpcHandler):  # type: ignore[misc] # grpc has no types
    def __init__(self, uri: str) -> None:
        self._channel = grpc.insecure_channel(uri.removeprefix("grpc://"), options=CHANNEL_OPTIONS)
        self._lock = threading.Lock()
        self.found: dict[Recorded, None] = {}

    def service(self, details: Any) -> Any:
        return grpc.stream_stream_rpc_method_handler(
            self._pass_on(details.method, details.invocation_metadata)
        )

    def _pass_on(self, method: str, metadata: Any) -> Callable[[Iterator[bytes], Any], Iterator[bytes]]:
        def handle(sent: Iterator[bytes], context: Any) -> Iterator[bytes]:
            messages: list[bytes] = []

            def taken_down() -> Iterator[bytes]:
                for message in sent:
                    messages.append(message)
                    yield message

            headers = [(name, value) for name, value in metadata if not name.startswith("grpc-")]
            answer = self._channel.stream_stream(method)(taken_down(), metadata=headers)
            try:
                yield from answer
            except grpc.RpcError as error:
                context.set_trailing_metadata(error.trailing_metadata() or ())
                context.abort(error.code(), error.details())
            finally:
                with self._lock:
                    self.found[method.rpartition("/")[2], tuple(messages)] = None

        return handle

    def close(self) -> None:
        self._channel.close()


@contextmanager
def _proxy(uri: str) -> Iterator[tuple[str, _Proxy]]:
    handler = _Proxy(uri)
    server = grpc.server(ThreadPoolExecutor(16), handlers=[handler])
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"grpc://127.0.0.1:{port}", handler
    finally:
        server.stop(1.0).wait()
        handler.close()


def record(uri: str, token: str = "") -> list[Recorded]:
    """What clients send to a host with the stores of `tests.fuzz.host`.

    Args:
        uri: Of the host.
        token: What they present; empty: nothing.
    """
    header = {DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {token}"} if token else {}
    with _proxy(uri) as (middle, handler):
        with Client(ConnectionOptions((middle,), token or None)) as client:
            for parameters in ([], [7], [7, "s7"], {"1": 7}):
                marks = " AND ".join(["a >= ?", "s <> ?"][: len(parameters)])
                with suppress(Exception):
                    client.query(
                        f"SELECT * FROM t{f' WHERE {marks}' if marks else ''} LIMIT 3", parameters
                    ).read_all()
            for ask in (client.hosts, client.replicas, client.notify):
                with suppress(Forbidden):
                    ask()
        with flight_sql.connect(middle, header, autocommit=True) as connection:
            connection.adbc_get_objects(depth="all").read_all()
            connection.adbc_get_table_schema("t")
            connection.adbc_get_info()
            connection.adbc_get_table_types()
            with connection.cursor() as cursor:
                for sql, values in (
                    ("SELECT * FROM t WHERE k = ?", [3]),
                    ("SELECT count(*) FROM u WHERE s = ? AND a > ?", ["s", 1.5]),
                    ("SELECT len(?::BIGINT[]) AS n", [[1, 2, 3]]),
                ):
                    with suppress(flight_sql.Error):
                        cursor.execute(sql, values)
                        cursor.fetchall()
                with suppress(flight_sql.Error):
                    cursor.adbc_prepare("SELECT a FROM t WHERE s = ?")
                cursor.adbc_execute_partitions("SELECT * FROM t")
        return list(handler.found)
