"""Processes beside a job: they end with it, also where it cannot end them."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine.errors import InvalidInput
from engine.processes.watcher import Watcher
from spark_pipeline.addresses import answers, free_port
from spark_pipeline.kafka_jars import jars_directory
from tests.support.process_family import runs
from tests.support.waiting import wait_until

_PARENT = """
import subprocess, sys, time
from engine.processes.watcher import Watcher
child = subprocess.Popen([sys.executable, "-c", "{}"], stdout=subprocess.PIPE)
child.stdout.readline()
watcher = Watcher(child.pid, 1)
print(child.pid, flush=True)
time.sleep(600)
"""
BROKER = ("-m", "flight_server.cli.main", "broker")
_WAITS = "import time; print('ready', flush=True); time.sleep(600)"
_IGNORES = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
    "time.sleep(600)"
)


@contextmanager
def start(*command: str) -> Iterator[subprocess.Popen[str]]:
    with subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


@pytest.mark.parametrize("child", [_WAITS, _IGNORES], ids=["in order", "at once"])
def test_a_watched_process_ends_with_a_parent_that_is_killed(child: str) -> None:
    with start("-c", _PARENT.format(child)) as parent:
        watched = int(said(parent))
        assert runs(watched)
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: not runs(watched))


def test_what_is_let_go_of_runs_on() -> None:
    with start("-c", _WAITS) as process:
        assert said(process) == "ready\n"
        watcher = Watcher(process.pid)
        watcher.stop()
        assert process.poll() is None


def test_a_kafka_broker_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    if jars_directory() is None:
        pytest.skip("the jars of Kafka are not on this machine: make kafka, which needs Maven")
    port = free_port()
    with start(*BROKER, "--port", str(port), "--data", str(tmp_path)) as parent:
        assert said(parent) == f"Kafka serves 127.0.0.1:{port}\n"
        parent.send_signal(signal.SIGKILL)
        wait_until(lambda: not answers(f"127.0.0.1:{port}", 1.0), pause_seconds=0.1)


def test_who_answers() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answers(f"127.0.0.1:{port}", 5.0)
        assert answers(f"127.0.0.1:1, localhost:{port}", 5.0)
    assert not answers(f"127.0.0.1:{port}", 5.0)
    assert not answers("[::1]:1", 5.0)
    for nowhere in ("127.0.0.1:99999", "a..b:9092", f"{'x' * 64}:9092"):
        assert not answers(nowhere, 1.0)
    for strange in ("", "broker", "broker:", ":9092", "a:1,b", "a:1,"):
        with pytest.raises(InvalidInput, match="write it as host:port"):
            answers(strange, 1.0)
