"""A connection that threads share."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine.errors import Unavailable
from flight_server.client import Client

ROUNDS = 40


def test_a_connection_may_be_closed_under_statements(uri: str) -> None:
    for _ in range(ROUNDS):
        client = Client(uri)
        started = threading.Barrier(4)

        def ask(client: Client = client, started: threading.Barrier = started) -> str:
            started.wait()
            while True:
                try:
                    assert client.query("SELECT 1 AS one").read_all().to_pylist() == [{"one": 1}]
                except Unavailable as error:
                    return str(error)

        with ThreadPoolExecutor(3) as pool:
            asking = [pool.submit(ask) for _ in range(3)]
            started.wait()
            client.close()
            assert {done.result() for done in asking} == {f"The connection to {uri} is closed; open another one."}


def test_rows_that_were_begun_are_read_to_their_end_after_closing(uri: str) -> None:
    client = Client(uri)
    rows = client.query("SELECT count(*) AS n FROM range(3) UNION ALL SELECT 7")
    client.close()
    client.close()
    assert rows.read_all()["n"].to_pylist() == [3, 7]
    with pytest.raises(Unavailable, match="is closed"):
        client.notify()
