"""`livestate top`: what it makes of what hosts say, in how much room, and how it ends."""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import termios
from datetime import UTC, datetime
from typing import Any

import pytest
from rich.console import Console

from flight_server.cli.top import Rates, Sample, frame, rates_between
from tests.support.waiting import PATIENCE_SECONDS
from tests.unit.cli.conftest import livestate

NOON = datetime(2026, 11, 23, 12, tzinfo=UTC)
URI = "grpc://127.0.0.1:8815"


def _host(
    name: str, epoch: int, lag: float = 0.0, *, alive: bool = True, problem: str = ""
) -> dict[str, Any]:
    return {
        "host": name,
        "uri": URI,
        "alive": alive,
        "store_group": "plays",
        "epoch": epoch,
        "newest_epoch": epoch + (lag > 0),
        "lag_seconds": lag,
        "partitions": 4,
        "state": "behind" if lag else "readable",
        "percent": None,
        "bytes_per_second": None,
        "seconds_left": None,
        "problem": problem,
    }


def _store(name: str, rows: int, lag: float = 0.0, problem: str = "") -> dict[str, Any]:
    figures = {"rows": rows, "bytes": rows * 8, "segments": 3, "epoch": 7, "newest_epoch": 7}
    return {"store": name, "kind": "key-value", "lag_seconds": lag, "problem": problem, **figures}


def _statement(number: int, seconds: float) -> dict[str, Any]:
    return {
        "id": f"{number:016x}",
        "host": "a",
        "principal": "ann",
        "state": "running",
        "seconds": seconds,
        "rows_sent": 10,
        "bytes_sent": 80,
        "statement": f"SELECT\n  {number}, '\x1b[31m' FROM plays WHERE a_long_condition = '{'x' * 90}'",
    }


def _sample(hosts: int = 3, stores: int = 2, statements: int = 2, problems: tuple[str, ...] = ()) -> Sample:
    return Sample(
        10.0,
        [_host(f"host-{number}", 7, 40.0 if number == hosts - 1 else 0.0) for number in range(hosts)],
        [_store(f"store_{number}", number * 1000) for number in range(stores)],
        [_statement(number, float(number)) for number in range(statements)],
        {("a", "ann", "x"): 5},
        problems,
    )


def _lines(sample: Sample, width: int = 120, height: int = 40, rates: Rates | None = None) -> list[str]:
    written = io.StringIO()
    console = Console(file=written, width=width, height=height, color_system=None)
    console.print(frame(sample, rates or Rates(), URI, width, height, NOON))
    return written.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(40, 18), (60, 24), (80, 24), (100, 30), (200, 60)])
@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_a_picture_fits_into_its_terminal(width: int, height: int, count: int) -> None:
    lines = _lines(_sample(count, count, count, ("Sessions are not shown: " + "x" * 300,)), width, height)
    assert max(len(line.rstrip()) for line in lines) <= width
    assert len(lines) <= max(height, 3 * 7 + 2)
    assert not any("\x1b" in line for line in lines), "what clients send moves no cursor"


def test_what_matters_stays_when_there_is_room_for_little() -> None:
    shown = "\n".join(_lines(_sample(50, 50, 50), 80, 24))
    assert "host-49" in shown, "the group that is furthest behind"
    assert f"{49:016x}" in shown, "the statement that runs longest"
    assert "store_49" in shown, "the largest store"
    assert "47 more" in shown


def test_rates_are_those_between_two_samples() -> None:
    before = Sample(10.0, [_host("a", 7)], [_store("plays", 1000)], (), {("a", "ann", "x"): 5})
    now = Sample(
        12.0,
        [_host("a", 11), _host("b", 3)],
        [_store("plays", 900), _store("new", 10)],
        (),
        {("a", "ann", "x"): 9, ("a", "bob", "y"): 2, ("b", "ann", "z"): 0},
    )
    assert rates_between(None, now) == rates_between(now, now) == Rates()
    assert rates_between(before, now) == Rates({("a", "plays"): 2.0}, {"plays": -50.0}, {"a": 3.0, "b": 0.0})


def test_a_host_that_is_away_and_what_is_wrong_are_seen() -> None:
    sample = Sample(
        1.0,
        [_host("a", 7), _host("b", 7, alive=False), _host("c", 7, problem="The disk is full.")],
        [_store("plays", 5, problem="Partition 3 is damaged.")],
    )
    shown = "\n".join(_lines(sample))
    assert "hosts 2/3" in shown
    for text in ("away", "The disk is full.", "Partition 3 is damaged."):
        assert text in shown


def test_one_frame_of_a_host(host_uri: str) -> None:
    shown = livestate("top", "--once", "--uri", host_uri)
    assert shown.exit_code == 0, shown.stderr
    assert "songs" in shown.stdout
    assert "statements\nnone" in shown.stdout, "its own are not among them"
    away = livestate("top", "--once", "--uri", "grpc://127.0.0.1:1")
    assert (away.exit_code, "cannot be reached" in away.stderr) == (1, True)


@pytest.mark.parametrize("key", [b"q", b"\x03", b"\x04"], ids=["q", "Ctrl-C", "Ctrl-D"])
def test_a_key_ends_it_and_the_terminal_is_as_it_was(host_uri: str, key: bytes) -> None:
    ours, theirs = pty.openpty()
    before = termios.tcgetattr(ours)
    command = [sys.executable, "-m", "flight_server.cli.main", "top", "--uri", host_uri, "--every", "60"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "90", "LINES": "30"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        seen = b""
        while b"songs" not in seen:
            seen += os.read(ours, 65536)
        os.write(ours, key)
        try:
            while chunk := os.read(ours, 65536):
                seen += chunk
        except OSError:
            pass  # so a terminal says that nobody has it open any more
        assert process.wait(PATIENCE_SECONDS) == 0
    assert termios.tcgetattr(ours) == before
    os.close(ours)
    assert seen.rstrip().endswith(b"\x1b[?25h") or b"\x1b[?1049l" in seen, "the screen is given back"
    assert b"Traceback" not in seen
