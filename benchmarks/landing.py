"""How long small statements take while epochs land.

    python -m benchmarks landing

A store of 10 M rows. One client in a process of its own asks small statements in turns, each with other keys:
a row by its key, a list of 10 keys, a range of 100 keys, a sum over one, the next 20 rows behind a key, and a
key of an open stream. Another process appends epochs of 100,000 random upserts three times a second, which
the host applies and compacts. Before that the same is asked with nothing else going on. Three processes share
the two cores.

Checked: how many rows each answer has, and the keys of lookups; after the epochs, the GROUP BY over all rows.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from pyarrow import flight

from benchmarks.epoch_writer import Epochs, writer_process
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import BY_GENRE, KEYS, STORE, check, check_by_genre, fill_store, key_values
from engine.changelog import Changelog
from flight_server.client.client import Client
from flight_server.client.key_stream import KeyStream

SECONDS = 8.0
WRITTEN_EPOCHS = 60
TARGET = 8.0
"""Milliseconds, p99, while epochs land."""
LISTED, RANGE, PAGE = 10, 100, 20
Ask = Callable[[int], None]
"""Asks one statement, by a number, and checks its answer."""


def run(setting: Setting) -> Iterator[Figure]:
    """The 99th percentile of each kind of statement, alone and while epochs land."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    epochs = Epochs(expected.keys, WRITTEN_EPOCHS)
    spawning = multiprocessing.get_context("spawn")
    with (
        HostProcess(setting.directory, changelog) as host,
        ProcessPoolExecutor(1, mp_context=spawning) as processes,
        Client(host.uri) as client,
    ):
        host.wait_until_settled()
        alone = processes.submit(_ask_in_turns, host.uri, expected.keys, SECONDS, 1).result()
        with writer_process(changelog, epochs):
            landing = processes.submit(_ask_in_turns, host.uri, expected.keys, epochs.seconds, 2).result()
        epochs.upsert_into(expected)
        host.wait_until_ready()
        check_by_genre(client.query(BY_GENRE).read_all(), expected)
    for what, times in landing.items():
        yield _figure(what, times, alone[what], setting)
    everything = [each for times in landing.values() for each in times]
    yield _figure("all of them", everything, [each for times in alone.values() for each in times], setting)


def _figure(what: str, times: Sequence[float], alone: Sequence[float], setting: Setting) -> Figure:
    p50, p90, p999 = (milliseconds(percentile(times, share)) for share in (0.5, 0.9, 0.999))
    alone_p50, alone_p99 = (milliseconds(percentile(alone, share)) for share in (0.5, 0.99))
    return Figure(
        "landing",
        f"{what}, epochs landing, p99",
        milliseconds(percentile(times, 0.99)),
        "ms",
        TARGET,
        note=f"p50 {p50:.2f} ms, p90 {p90:.1f} ms, p99.9 {p999:.0f} ms over {len(times):,} calls; "
        f"without epochs p50 {alone_p50:.2f} ms, p99 {alone_p99:.1f} ms",
        scale=setting.scale,
    )


def _ask_in_turns(uri: str, keys: int, seconds: float, seed: int) -> Mapping[str, Sequence[float]]:
    """Ask each kind of statement in turns, for a while; the times of each, in seconds."""
    numbers = np.random.default_rng(seed).integers(0, keys, 200_000)
    in_order = np.sort(key_values(np.arange(keys)).to_numpy())
    with flight.connect(uri) as client, Client(uri) as connection, connection.keys(STORE) as stream:
        kinds = _kinds(client, stream, in_order)
        times: dict[str, list[float]] = {what: [] for what in kinds}
        # The host has seen each kind before anything is timed.
        for number in range(5):
            for ask in kinds.values():
                ask(number)
        end = time.perf_counter() + seconds
        for number in numbers.tolist():
            for what, ask in kinds.items():
                began = time.perf_counter()
                ask(number)
                times[what].append(time.perf_counter() - began)
            if time.perf_counter() > end:
                break
    return times


def _kinds(client: flight.FlightClient, stream: KeyStream, in_order: np.ndarray) -> Mapping[str, Ask]:
    """What is asked, by what it is called.

    Args:
        client: A connection.
        stream: A stream of keys of the store.
        in_order: All keys, sorted.
    """

    def rows_of(sql: str) -> list[int]:
        keys: list[int] = client.do_get(flight.Ticket(sql.encode())).read_all().column(0).to_pylist()
        return keys

    def ask_row(number: int) -> None:
        key = int(in_order[number])
        check("a row", rows_of(f"SELECT song_id, genre FROM {STORE} WHERE song_id = {key}"), [key])

    def ask_list(number: int) -> None:
        step = max(1, len(in_order) // LISTED)
        keys = [int(in_order[(number + each * step) % len(in_order)]) for each in range(LISTED)]
        listed = json.dumps(keys)[1:-1]
        found = rows_of(f"SELECT song_id, genre, listens FROM {STORE} WHERE song_id IN ({listed})")
        check("a list", sorted(found), sorted(keys))

    def ask_range(number: int) -> None:
        wanted = in_order[number : number + RANGE]
        text = f"SELECT song_id, score FROM {STORE} WHERE song_id BETWEEN {wanted[0]} AND {wanted[-1]}"
        check("a range", len(rows_of(text)), len(wanted))

    def ask_sum(number: int) -> None:
        wanted = in_order[number : number + RANGE]
        text = (
            f"SELECT count(*), sum(listens) FROM {STORE} WHERE song_id BETWEEN {wanted[0]} AND {wanted[-1]}"
        )
        check("a sum", rows_of(text), [len(wanted)])

    def ask_page(number: int) -> None:
        wanted = in_order[number + 1 : number + 1 + PAGE].tolist()
        text = (
            f"SELECT song_id, genre FROM {STORE} WHERE song_id > {in_order[number]} "
            f"ORDER BY song_id LIMIT {PAGE}"
        )
        check("a page", rows_of(text), wanted)

    def ask_stream(number: int) -> None:
        key = int(in_order[number])
        row = stream.get(key)
        check("a key of a stream", None if row is None else row["song_id"], key)

    return {
        "a row by its key": ask_row,
        f"{LISTED} keys": ask_list,
        f"range of {RANGE} keys": ask_range,
        f"sum over {RANGE} keys": ask_sum,
        f"next {PAGE} rows": ask_page,
        "a key of a stream": ask_stream,
    }
