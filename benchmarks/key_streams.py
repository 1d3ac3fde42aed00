"""How many keys a second a host looks up for clients that keep a stream of keys open.

    python -m benchmarks key_streams

A store of 10 M rows. Each client is a process of its own, with one stream: it sends one key and waits for the
row, or hands over batches of 100 keys, several of them on their way; the client packs up to four into a
message (`MOST_PACKED`). Every key is another random one. Clients and host share the two cores, so this is the
whole system on one small machine, not the host's limit.

Checked: the key of every row that came back.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, cpu_seconds
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import KEYS, STORE, check, fill_store, key_values
from engine.changelog import Changelog
from flight_server.client.client import Client
from flight_server.client.key_stream import KeyStream

SECONDS = 3.0
ROUNDS = 3
KEYS_A_BATCH = 100
TARGETS = {(1, 1): 2300.0, (8, 1): 6000.0, (1, KEYS_A_BATCH): 250_000.0, (8, KEYS_A_BATCH): None}
"""Keys a second, by clients and keys a batch."""


def run(setting: Setting) -> Iterator[Figure]:
    """Keys a second of each number of clients and keys a batch."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    spawning = multiprocessing.get_context("spawn")
    with (
        HostProcess(setting.directory, changelog) as host,
        ProcessPoolExecutor(8, mp_context=spawning) as processes,
    ):
        host.wait_until_settled()
        rates: dict[tuple[int, int], list[float]] = {way: [] for way in TARGETS}
        times: dict[tuple[int, int], list[float]] = {way: [] for way in TARGETS}
        cpu = dict.fromkeys(TARGETS, 0.0)
        # All processes are there before anything is timed.
        list(processes.map(time.sleep, [0.5] * 8))
        for turn in range(ROUNDS):
            for way in TARGETS:
                clients, batch = way
                before = cpu_seconds(host.pid)
                ask = partial(_ask, host.uri, expected.keys, batch)
                taken = list(processes.map(ask, range(turn * 100, turn * 100 + clients)))
                cpu[way] += cpu_seconds(host.pid) - before
                rates[way].append(sum(map(len, taken)) * batch / SECONDS)
                times[way] += [each for client in taken for each in client]
        for (clients, batch), found in rates.items():
            way = clients, batch
            yield _figure(way, median(found), times[way], cpu[way] / len(times[way]), setting)


def _figure(
    way: tuple[int, int], rate: float, times: Sequence[float], cpu: float, setting: Setting
) -> Figure:
    clients, batch = way
    p50, p99 = (milliseconds(percentile(times, share)) for share in (0.5, 0.99))
    asked = "one key a message" if batch == 1 else f"batches of {batch} keys"
    return Figure(
        "key_streams",
        f"{asked}, {clients} client{'s' if clients > 1 else ''}",
        rate,
        "keys/s",
        TARGETS[way],
        more_is_better=True,
        note=f"p50 {p50:.2f} ms, p99 {p99:.1f} ms a batch; {milliseconds(cpu):.3f} ms CPU of the host",
        scale=setting.scale,
    )


def _ask(uri: str, keys: int, batch: int, seed: int) -> list[float]:
    """Look keys up for a while; the time between the answers, in seconds."""
    values = key_values(np.random.default_rng(seed).integers(0, keys, 200_000))
    with Client(uri) as client, client.keys(STORE) as stream:
        stream.get(values[0].as_py())
        end = time.perf_counter() + SECONDS
        if batch == 1:
            return _ask_one_by_one(stream, values.to_pylist(), end)
        return _ask_many(stream, values, batch, end)


def _ask_one_by_one(stream: KeyStream, keys: Sequence[int], end: float) -> list[float]:
    times = []
    for key in keys:
        began = time.perf_counter()
        if began > end:
            break
        row = stream.get(key)
        times.append(time.perf_counter() - began)
        check("the key of the row", None if row is None else row["song_id"], key)
    return times


def _ask_many(stream: KeyStream, keys: pa.Array, batch: int, end: float) -> list[float]:
    sent: deque[pa.RecordBatch] = deque()

    def messages() -> Iterator[pa.RecordBatch]:
        for start in itertools.cycle(range(0, len(keys) - batch, batch)):
            if time.perf_counter() > end:
                return
            sent.append(pa.RecordBatch.from_arrays([keys.slice(start, batch)], schema=stream.key_schema))
            yield sent[-1]

    times, place = [], stream.columns.index("song_id") + 1
    began = time.perf_counter()
    for answer in stream.answers(messages()):
        times.append(time.perf_counter() - began)
        check("the keys of the rows", answer.column(place).equals(sent.popleft().column(0)), True)
        began = time.perf_counter()
    return times
