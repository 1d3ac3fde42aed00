"""Calls have the right of way while they are answered."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import flight

from engine.processes.right_of_way import RightOfWay
from flight_server.client.client import Client
from flight_server.server import key_streams, server


class _Noted(RightOfWay):
    """Counts the calls that held it."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __enter__(self) -> None:
        self.calls += 1
        super().__enter__()


def test_statements_and_messages_of_keys_hold_it(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = _Noted()
    for module in (key_streams, server):
        monkeypatch.setattr(module, "RIGHT_OF_WAY", noted)
    with flight.connect(uri) as plain:
        plain.do_get(flight.Ticket(b"SELECT 1")).read_all()
        with pytest.raises(pa.ArrowKeyError):
            plain.do_get(flight.Ticket(b"SELECT nothing")).read_all()
    assert noted.calls == 2
    with Client(uri) as client, client.keys("songs") as keys:
        keys.get(1)
        keys.get(2)
    assert noted.calls == 4
    assert not noted.has_short_calls()
