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

import time
from collections.abc import Iterator
from functools import partial

import numpy as np
from pyarrow import flight

from benchmarks.epoch_writer import Epochs, writer_process
from benchmarks.many_clients import rates
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import (
    BY_GENRE,
    KEYS,
    STORE,
    check,
    check_by_genre,
    fill_store,
    key_values,
)
from engine.changelog import Changelog
from flight_server.client.client import Client

SECONDS = 4.0
WRITTEN_EPOCHS = 30
TARGETS = {8: 2300.0}
"""Lookups a second, by clients."""


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
                TARGETS.get(rate.clients),
                more_is_better=True,
                note=rate.note,
                scale=setting.scale,
            )
        yield _latency("nothing else going on", _ask(host.uri, expected.keys, 2 * SECONDS, seed=1), setting)
        epochs = Epochs(expected.keys, WRITTEN_EPOCHS)
        times = _ask_while_epochs_land(host, changelog, epochs)
        note = f"{epochs.each_second:g} epochs of {epochs.rows:,} rows a second"
        yield _latency("epochs landing", times, setting, note)
        epochs.upsert_into(expected)
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


def _ask_while_epochs_land(host: HostProcess, changelog: str, epochs: Epochs) -> list[float]:
    """Times of one client's calls while another process appends epochs."""
    times: list[float] = []
    with writer_process(changelog, epochs) as writer:
        while writer.is_alive():
            times += _ask(host.uri, epochs.keys, 0.5, seed=len(times))
    return times


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
