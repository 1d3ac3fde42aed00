"""How many answers a second a host gives to 16 clients that all ask one aggregate, while epochs land.

    python -m benchmarks dashboard

A store of 10 M rows. Sixteen clients, four to a process, ask one aggregate over all rows as fast as they get
answers; another process appends epochs of 10,000 random upserts twice a second, which the host applies. The
same is done with a host that keeps no answers (`--answers 0`), for a while that is long enough for some.

Checked: no client gets an answer that is older than one that it had before, and after the last epoch the
GROUP BY over all rows.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path

from pyarrow import flight

from benchmarks.epoch_writer import Epochs, writer_process
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, cpu_seconds
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import (
    BY_GENRE,
    KEYS,
    STORE,
    Expected,
    check,
    check_by_genre,
    fill_store,
)
from engine.changelog import Changelog
from flight_server.client.client import Client

CLIENTS, PROCESSES = 16, 4
EPOCHS_A_SECOND = 2.0
EPOCH_ROWS = 10_000
EPOCHS = 20
TARGET = 1500.0


def run(setting: Setting) -> Iterator[Figure]:
    """Answers a second, with answers that are kept and without."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    for number, (what, target, options) in enumerate(
        (("answers", TARGET, ()), ("answers, none of them kept", None, ("--answers", "0")))
    ):
        directory = setting.subdirectory(f"host-{number}")
        yield _measure(what, target, options, directory, changelog, expected, number, setting)


def _measure(
    what: str,
    target: float | None,
    options: Sequence[str],
    directory: Path,
    changelog: str,
    expected: Expected,
    seed: int,
    setting: Setting,
) -> Figure:
    spawning = multiprocessing.get_context("spawn")
    with (
        HostProcess(directory, changelog, options) as host,
        ProcessPoolExecutor(PROCESSES, mp_context=spawning) as processes,
        Client(host.uri) as client,
    ):
        host.wait_until_settled()
        # All processes are there before anything is timed.
        list(processes.map(time.sleep, [0.5] * PROCESSES))
        epochs = Epochs(expected.keys, EPOCHS, EPOCH_ROWS, EPOCHS_A_SECOND, seed)
        with writer_process(changelog, epochs):
            before = cpu_seconds(host.pid)
            ask = partial(_ask, host.uri, epochs.seconds)
            times = [each for found in processes.map(ask, range(PROCESSES)) for each in found]
            cpu = cpu_seconds(host.pid) - before
        epochs.upsert_into(expected)
        host.wait_until_ready()
        check_by_genre(client.query(BY_GENRE).read_all(), expected)
    p50, p99 = (milliseconds(percentile(times, share)) for share in (0.5, 0.99))
    return Figure(
        "dashboard",
        f"{what} to {CLIENTS} clients, {EPOCHS_A_SECOND:g} epochs a second",
        len(times) / epochs.seconds,
        "answers/s",
        target,
        more_is_better=True,
        note=f"p50 {p50:.1f} ms, p99 {p99:.0f} ms; "
        f"{milliseconds(cpu / len(times)):.2f} ms CPU of the host an answer, epochs included",
        scale=setting.scale,
    )


def _ask(uri: str, seconds: float, process: int) -> list[float]:
    """Ask as some clients at once; the time of each answer."""
    clients = CLIENTS // PROCESSES
    with ThreadPoolExecutor(clients) as threads:
        return [
            each for found in threads.map(partial(_ask_alone, uri), [seconds] * clients) for each in found
        ]


def _ask_alone(uri: str, seconds: float) -> list[float]:
    times = []
    newest = 0
    with flight.connect(uri) as client:
        end = time.perf_counter() + seconds
        while (began := time.perf_counter()) < end:
            answer = client.do_get(flight.Ticket(BY_GENRE.encode())).read_all()
            times.append(time.perf_counter() - began)
            epoch = json.loads(answer.schema.metadata[b"livestate"])["epochs"][STORE]
            check("whether an answer is as new as the one before", epoch >= newest, True)
            newest = epoch
    return times
