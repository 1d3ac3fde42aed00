"""What RocksDB is told, and what is on the disk when a write has returned."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions

VALUE = b"livestate" * 20_000
"""Larger than one write call aims at."""


@pytest.fixture
def rocks(tmp_path: Path) -> Iterator[Rocks]:
    storage = Rocks(tmp_path / "db", StateOptions())
    yield storage
    storage.close()


def _logged_bytes(directory: Path) -> int:
    return sum(file.read_bytes().count(b"livestate") for file in directory.glob("*.log"))


def test_what_was_written_is_in_the_log_when_the_call_returns(rocks: Rocks, tmp_path: Path) -> None:
    """So a host that is killed loses nothing. The log is in pieces, which cut some of the words."""
    rocks.write([(b"a", VALUE), (b"b", VALUE), (b"c", b"livestate")])
    assert _logged_bytes(tmp_path / "db") >= 39_900
    rocks.write_atomically([(b"d", VALUE)])
    assert _logged_bytes(tmp_path / "db") >= 59_850


def test_a_write_leaves_the_log_to_a_call_without_the_gil(rocks: Rocks, tmp_path: Path) -> None:
    (told,) = (tmp_path / "db").glob("OPTIONS-*")
    assert "manual_wal_flush=true" in told.read_text()


def test_values_are_read_by_their_keys(rocks: Rocks) -> None:
    rocks.write([(b"a", VALUE)], logged=False)
    assert rocks.get(b"a") == VALUE
    assert rocks.get(b"b") is None
