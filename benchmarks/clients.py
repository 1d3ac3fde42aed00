"""How many point lookups a second a host answers to 1, 8 and 64 clients, and what epochs that land meanwhile
do to them.

    python -m benchmarks clients

Each client is a plain Flight connection with a thread of its own, all in this process; every call looks up
another random key of 10 M with the SQL as the ticket. Clients and host share the two cores, so this is the
whole system on one small machine, not the host's limit. For the second part one client asks while another
process appends epochs of 100,000 random upserts at a steady pace, which the host applies and compacts.

Checked: each answer is one row of the right key; after the epochs, the GROUP BY over all rows.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from functools import partial
from multiprocessing.synchronize import Event

import numpy as np
from pyarrow import flight

from benchmarks.many_clients import rates
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import (
    BY_GENRE,
    EPOCH_ROWS,
    KEYS,
    STORE,
    KeyType,
    check,
    check_by_genre,
    definition,
    fill_store,
    key_values,
    random_upserts,
)
from engine.changelog import Changelog, open_appender
from flight_server.client.client import Client

SECONDS = 4.0
EPOCHS_A_SECOND = 3.0
WRITTEN_EPOCHS = 30
SEED = 9


def run(setting: Setting) -> Iterator[Figure]:
    """Calls a second by clients; then the percentiles with and without epochs."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    with HostProcess(setting.directory, changelog) as host, Client(host.uri) as client:
        host.wait_until_settled()
        for rate in rates(host, SECONDS, partial(_ask, host.uri, expected.keys, SECONDS)):
            what = f"lookups by {rate.clients} clients"
            yield Figure(
                "clients",
                what,
                rate.calls,
                "calls/s",
                more_is_better=True,
                note=rate.note,
                scale=setting.scale,
            )
        yield _latency("nothing else going on", _ask(host.uri, expected.keys, 2 * SECONDS, seed=1), setting)
        times = _while_epochs_land(host, changelog, expected.keys)
        note = f"{EPOCHS_A_SECOND:g} epochs of {EPOCH_ROWS:,} rows a second"
        yield _latency("epochs landing", times, setting, note)
        for rows in random_upserts(expected.keys, WRITTEN_EPOCHS, EPOCH_ROWS, SEED):
            expected.upsert(rows)
        host.wait_until_ready()
        check_by_genre(client.query(BY_GENRE).read_all(), expected)


def _ask(uri: str, keys: int, seconds: float, seed: int) -> list[float]:
    """Look rows up for a while; the time of each call, in seconds."""
    numbers = np.random.default_rng(seed).integers(0, keys, 100_000)
    times = []
    with flight.connect(uri) as client:
        end = time.perf_counter() + seconds
        for key in key_values(numbers).to_pylist():
            began = time.perf_counter()
            if began > end:
                break
            answer = client.do_get(
                flight.Ticket(f"SELECT * FROM {STORE} WHERE song_id = {key}".encode())
            ).read_all()
            times.append(time.perf_counter() - began)
            check("the key of the row", answer["song_id"].to_pylist(), [key])
    return times


def _while_epochs_land(host: HostProcess, changelog: str, keys: int) -> list[float]:
    """Times of one client's calls while another process appends `WRITTEN_EPOCHS`."""
    spawning = multiprocessing.get_context("spawn")
    writing = spawning.Event()
    writer = spawning.Process(target=_write, args=(changelog, keys, writing))
    writer.start()
    writing.wait()
    times: list[float] = []
    while writer.is_alive():
        times += _ask(host.uri, keys, 0.5, seed=len(times))
    writer.join()
    check("exit code of the writer", writer.exitcode, 0)
    return times


def _write(changelog: str, keys: int, writing: Event) -> None:
    appender = open_appender(Changelog.open(changelog), [definition()])
    batches = [
        rows.to_arrow(KeyType.INT64) for rows in random_upserts(keys, WRITTEN_EPOCHS, EPOCH_ROWS, SEED)
    ]
    writing.set()
    start = time.monotonic()
    for number, batch in enumerate(batches):
        time.sleep(max(0.0, start + number / EPOCHS_A_SECOND - time.monotonic()))
        appender.append({STORE: batch})


def _latency(what: str, times: list[float], setting: Setting, note: str = "") -> Figure:
    p50, p90, p999 = (milliseconds(percentile(times, share)) for share in (0.5, 0.9, 0.999))
    spread = f"p50 {p50:.2f} ms, p90 {p90:.1f} ms, p99.9 {p999:.0f} ms over {len(times):,} calls"
    seen = f"{spread}; {note}" if note else spread
    return Figure(
        "clients",
        f"lookups, {what}, p99",
        milliseconds(percentile(times, 0.99)),
        "ms",
        note=seen,
        scale=setting.scale,
    )
