"""The demo itself, with all its processes."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import adbc_driver_flightsql.dbapi as flight_sql
import pytest
from adbc_driver_manager.dbapi import OperationalError, ProgrammingError

from flight_server.host.ports import free_ports
from spark_pipeline.kafka_jars import jars_directory
from tests.support.decoys import decoy_modules
from tests.support.process_family import ENDS, family, runs
from tests.support.waiting import wait_until

SECONDS = 120.0


@contextmanager
def demo(temporary: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The demo as a user starts it, with its temporary files in a place of their own, where files have the
    names of modules, and with the token of hosts elsewhere.
    """
    # As the installed script does, it does not look there itself.
    command = [
        sys.executable,
        "-P",
        "-m",
        "flight_server.cli.main",
        "demo",
        "--port",
        str(free_ports("127.0.0.1", 0, 1)[0]),
        *arguments,
    ]
    files = temporary / "files"
    files.mkdir()
    environment = {**os.environ, "TMPDIR": str(files), "LIVESTATE_TOKEN": "of-a-host-elsewhere"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=decoy_modules(temporary / "decoys"),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                process.terminate()


def connection_string(process: subprocess.Popen[str]) -> str:
    """What the demo prints first of all."""
    assert process.stdout is not None
    found = re.search(r"grpc://127\.0\.0\.1:\d+", process.stdout.readline())
    assert found is not None
    return found[0]


@pytest.mark.parametrize("source", [[], ["--kafka"]], ids=["files", "kafka"])
def test_the_demo_counts_every_play_while_anyone_can_ask(tmp_path: Path, source: list[str]) -> None:
    if source and jars_directory() is None:
        pytest.skip("the jars of Kafka are not on this machine: make kafka, which needs Maven")
    with demo(tmp_path, "--duration", "8", *source) as process:
        uri = connection_string(process)
        genres: list[tuple[str, int]] = []
        with flight_sql.connect(uri, autocommit=True) as connection:

            def charts_are_there() -> bool:
                nonlocal genres
                assert process.poll() is None, "the demo ended too early"
                # A cursor does not prepare again what it could not prepare before.
                with connection.cursor() as cursor, suppress(OperationalError, ProgrammingError):
                    # There is no changelog before the job has begun, and no such store before its first
                    # epoch.
                    cursor.execute(
                        "SELECT genre, plays FROM genre_plays WHERE plays > ? ORDER BY plays DESC", [0]
                    )
                    genres = cursor.fetchall()
                return len(genres) == 12

            wait_until(charts_are_there, SECONDS, pause_seconds=0.05)
        said, failed = process.communicate(timeout=SECONDS)
    assert process.returncode == 0, said + failed
    assert sorted((plays for _, plays in genres), reverse=True) == [plays for _, plays in genres]
    check = re.search(r"check +(.*)", said)
    assert check is not None
    assert re.match(r"passed: the counts of all [\d,]+ songs and 12 genres equal a recount", check[1])
    events = re.search(r"events +([\d,]+) in [\d.]+ s: ([\d,]+) events/s, ([\d,]+) plays counted", said)
    assert events is not None
    made, rate, counted = (int(figure.replace(",", "")) for figure in events.groups())
    assert rate > 0
    assert 0.85 * made < counted < made
    looks = re.search(r"consistency +([\d,]+) of ([\d,]+) looks", said)
    assert looks is not None
    assert looks[1] == looks[2]
    assert re.search(r"freshness +p50 \S+ m?s, p99", said)
    assert failed == ""
    assert list((tmp_path / "files").iterdir()) == [], "temporary files are gone"


def test_ctrl_c_ends_the_demo_and_all_its_processes(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        connection_string(process)
        children = children_of(process.pid)
        assert len(children) == 4, "the host and the job, and a watcher of each"
        process.send_signal(signal.SIGINT)
        said, failed = process.communicate(timeout=SECONDS)
    assert (process.returncode, failed) == (0, "")
    assert "Stopped before the first chart." in said
    assert not [child for child in children if Path(f"/proc/{child}").exists()]
    assert list((tmp_path / "files").iterdir()) == []


# A pipeline is ended by SIGTERM to its family.
@pytest.mark.parametrize("end", ["group SIGTERM", "family SIGINT"])
def test_who_ends_all_processes_at_once_hears_no_complaints(tmp_path: Path, end: str) -> None:
    give, number = ENDS[end]
    with demo(tmp_path) as process:
        assert process.stdout is not None
        # A line of the screen, which comes with the first chart.
        wait_for_line(process.stdout, "events/s")
        members = family(process.pid)
        assert len(members) > 5
        give(process.pid, number)
        said, failed = process.communicate(timeout=SECONDS)
    assert (process.returncode, failed) == (0, "")
    last = (
        "passed: the counts of all "
        if end.startswith("group")
        else "Stopped together with its processes: the counts were not checked."
    )
    assert last in said
    wait_until(lambda: not any(runs(member) for member in members))
    assert list((tmp_path / "files").iterdir()) == []


def wait_for_line(lines: IO[str], words: str) -> None:
    assert any(words in line for line in lines), f"there was no line with {words}"


def test_a_child_that_dies_is_named_and_its_log_is_kept(tmp_path: Path) -> None:
    with demo(tmp_path) as process:
        connection_string(process)
        host = next(
            child
            for child in children_of(process.pid)
            if b"serve" in Path(f"/proc/{child}/cmdline").read_bytes()
        )
        os.kill(host, signal.SIGKILL)
        _, failed = process.communicate(timeout=SECONDS)
    assert process.returncode == 1
    (line,) = failed.splitlines()
    named = re.fullmatch(
        r"Error: The host ended unexpectedly with exit code -9 .*; all that it said is in (.*)\.", line
    )
    assert named is not None, line
    assert Path(named[1]).is_file()
    assert [entry.name for entry in Path(named[1]).parents[1].iterdir()] == ["logs"]


def children_of(parent: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{parent}/task/{parent}/children").read_text().split()]


@pytest.mark.parametrize("arguments", [["--duration", "0"], ["--rate", "0"], ["--port", "99999"]])
def test_impossible_wishes_are_refused(tmp_path: Path, arguments: list[str]) -> None:
    with demo(tmp_path, *arguments) as process:
        _, failed = process.communicate(timeout=SECONDS)
    assert process.returncode == 2
    assert arguments[0] in failed
