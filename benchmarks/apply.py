"""How fast a follower applies upserts: random over 10 M keys, in epochs of 100,000 rows, compaction included.

    python -m benchmarks apply

A store of 10 M rows is applied and compact. Then, in several rounds, epochs are written to the changelog
while the follower rests, and the clock runs from the moment that it is told until all of them can be read and
compaction has come to rest: "behind". A follower that is behind takes several epochs at once. "One at a time"
tells it of each epoch as it is written, waits until it can be read and until compaction rests again, and
times only that: what a job costs a host that keeps up with it.

Checked: after all rounds the store answers a GROUP BY over all rows as a recomputation in numpy does.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing

from benchmarks.local_store import LocalStore, local_store
from benchmarks.report import Figure
from benchmarks.setting import Setting
from benchmarks.timing import Spent, milliseconds, percentile, stopwatch
from benchmarks.workload import BY_GENRE, EPOCH_ROWS, KEYS, KeyType, check_by_genre
from engine.service import QueryService

ROUNDS = 4
EPOCHS_A_ROUND = 50
PACED_EPOCHS = 40
TARGETS = {KeyType.INT64: 2e6, KeyType.STRING: 1e6}


def run(setting: Setting) -> Iterator[Figure]:
    """Both key types, one after the other."""
    for key_type in KeyType:
        with local_store(setting.subdirectory(key_type.name), setting.scale_number(KEYS), key_type) as store:
            yield _measure_backlog(store, setting)
            yield from _one_at_a_time(store, setting)
            with closing(QueryService(store.follower)) as service:
                check_by_genre(service.execute(BY_GENRE).read_all(), store.expected)


def _measure_backlog(store: LocalStore, setting: Setting) -> Figure:
    epochs, rows = setting.scale_number(EPOCHS_A_ROUND, least=5), EPOCH_ROWS
    rounds: list[Spent] = []
    until_readable = 0.0
    for number in range(ROUNDS):
        store.append_upserts(epochs, rows, seed=100 + number)
        with stopwatch() as spent:
            began = time.perf_counter()
            store.apply()
            until_readable += time.perf_counter() - began
            store.compact()
        rounds.append(spent)
    total = sum(rounds, Spent())
    upserts = ROUNDS * epochs * rows
    rates = ", ".join(f"{epochs * rows / spent.wall / 1e6:.2f}" for spent in rounds)
    note = (
        f"{upserts / total.cpu / 1e6:.2f} M rows per CPU second, {total.cpu / total.wall:.2f} cores busy; "
        f"until all can be read, with compaction still to be done, {upserts / until_readable / 1e6:.2f} M "
        f"rows/s; rounds {rates} M"
    )
    return Figure(
        "apply",
        f"upserts, {store.key_type} keys, behind",
        upserts / total.wall,
        "rows/s",
        TARGETS[store.key_type],
        True,
        note,
        setting.scale,
    )


def _one_at_a_time(store: LocalStore, setting: Setting) -> Iterator[Figure]:
    epochs = setting.scale_number(PACED_EPOCHS, least=8)
    readable: list[float] = []
    total = Spent()
    for number in range(epochs):
        store.append_upserts(1, EPOCH_ROWS, seed=1000 + number)
        with stopwatch() as spent:
            began = time.perf_counter()
            store.apply()
            readable.append(time.perf_counter() - began)
            store.compact()
        total += spent
    note = (
        f"{epochs * EPOCH_ROWS / total.cpu / 1e6:.2f} M rows per CPU second; apply alone "
        f"{epochs * EPOCH_ROWS / sum(readable) / 1e6:.2f} M rows/s"
    )
    yield Figure(
        "apply",
        f"upserts, {store.key_type} keys, one epoch at a time",
        epochs * EPOCH_ROWS / total.wall,
        "rows/s",
        note=note,
        scale=setting.scale,
    )
    p50, p99 = (milliseconds(percentile(readable, share)) for share in (0.5, 0.99))
    yield Figure(
        "apply",
        f"notice to readable, {EPOCH_ROWS:,} rows, {store.key_type} keys, p50",
        p50,
        "ms",
        note=f"p99 {p99:.0f} ms",
        scale=setting.scale,
    )
