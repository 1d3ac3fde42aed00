"""How soon a statement that nobody wants any more has ended on every host: cancelled by its call, or its
client killed with SIGKILL.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

from benchmarks.report import Figure
from benchmarks.serve_processes import ServeProcess, wait_until
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import STORE, check
from engine.errors import LivestateError
from flight_server.client.client import Client

LONG = f"SELECT count(*) FROM {STORE} s, range(1000000000) r(i) WHERE hash(s.song_id + i) % 7 = 1"
"""Hours of work on every host."""
TIMES = 20
TARGET = 200.0
"""Milliseconds."""
WAIT_SECONDS = 60.0
_ASK = (
    "import sys; from flight_server.client.client import Client; "
    "Client(sys.argv[1]).query(sys.argv[2]).read_all()"
)


def endings(hosts: Sequence[ServeProcess], setting: Setting) -> Iterator[Figure]:
    """Times until no host runs anything any more, from the cancel and from the client's death."""
    with ExitStack() as resources:
        clients = [resources.enter_context(Client(host.uri)) for host in hosts]
        threads = resources.enter_context(ThreadPoolExecutor(1))
        times = setting.scale_number(TIMES, least=3)
        ways: Mapping[str, Callable[[int], float]] = {
            "a cancel": lambda number: _time_after_cancel(clients, threads, number),
            "the death of its client": lambda number: _time_after_kill(clients, hosts[0].uri),
        }
        for what, ended in ways.items():
            seconds = [ended(number) for number in range(times)]
            note = (
                f"median {milliseconds(percentile(seconds, 0.5)):.0f} ms, {times} times, {len(hosts)} hosts"
            )
            yield Figure(
                "distributed",
                f"hosts at rest after {what}, longest",
                milliseconds(max(seconds)),
                "ms",
                TARGET,
                note=note,
                scale=setting.scale,
            )


def _time_after_cancel(clients: Sequence[Client], threads: ThreadPoolExecutor, number: int) -> float:
    call_id = f"ending {number}".encode()

    def ask() -> None:
        with suppress(LivestateError):
            clients[0].query(LONG, call_id=call_id).read_all()

    asked = threads.submit(ask)
    seconds = _time_to_rest(clients, lambda: clients[0].cancel(call_id))
    asked.result(WAIT_SECONDS)
    return seconds


def _time_after_kill(clients: Sequence[Client], uri: str) -> float:
    with subprocess.Popen([sys.executable, "-c", _ASK, uri, LONG]) as asking:
        return _time_to_rest(clients, asking.kill)


def _time_to_rest(clients: Sequence[Client], end: Callable[[], None]) -> float:
    """Seconds from the end of a statement that all hosts work on to the moment when none of them does."""
    wait_until(lambda: all(client.health()["running"] for client in clients), WAIT_SECONDS)
    began = time.perf_counter()
    end()
    while any(client.health()["running"] for client in clients):
        check("hosts come to rest", time.perf_counter() - began < WAIT_SECONDS, True)
        time.sleep(0.002)
    return time.perf_counter() - began
