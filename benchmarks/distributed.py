"""What it costs that a store's partitions are on several hosts: lookups through another host, a count over
many partitions; and small queries.

    python -m benchmarks distributed

Four host processes share a store of 1 M rows in 512 partitions, on two cores together with the clients:
- one row by its key, asked of the host that has it and, in turns, of one that has not;
- `count(*)` of the whole store, and one with a condition that every row has to be read for;
- how long ranges and aggregates are planned, from the text's arrival until the first fragment is asked for,
  as the metadata of results says;
- how long hosts still work on a statement that was cancelled, or whose client was killed.

One host has the same rows in 8 partitions to itself, and answers small queries of 1, 8 and 64 clients, each a
plain Flight connection with a thread of its own in this process: one row by its key; ten rows of a range of
keys; count and sum over a range of a thousand keys.

Checked: every row looked up, the counts, and every answer of the small queries.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pyarrow as pa
from pyarrow import flight

from benchmarks.ending import endings
from benchmarks.many_clients import rates
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, ServeProcess, run_deployment
from benchmarks.setting import Setting
from benchmarks.timing import median_wall, milliseconds, percentile, time_in_turns
from benchmarks.workload import (
    STORE,
    Expected,
    KeyType,
    Numbers,
    Row,
    append_all,
    check,
    definition,
    every_key,
    fill_store,
    key_values,
    rows_of,
)
from engine.changelog import Changelog, open_appender
from engine.cluster.assignment import Assignment
from engine.cluster.reports import HostName
from engine.model.partitioning import partition_of
from flight_server.client.client import Client

KEYS = 1_000_000
HOSTS = 4
PARTITIONS = 512
LOOKUPS = 2000
TURN_LOOKUPS = 50
WARM_UP_LOOKUPS = 400
THROUGH_TARGET = 2.5
COUNTS = 40
COUNT_TARGET = 20.0
PLANNED = 40
PLANNED_TARGET, PLANNED_AGAIN_TARGET = 10.0, 1.0
"""Milliseconds."""
SECONDS = 3.0
SHORT_RANGE, LONG_RANGE = 10, 1000


def run(setting: Setting) -> Iterator[Figure]:
    """Lookups and counts on four hosts, then small queries on one."""
    shared, alone = setting.subdirectory("shared"), setting.subdirectory("alone")
    changelog = str(shared / "changelog")
    expected = _fill(Changelog.open(changelog), setting.scale_number(KEYS))
    with ExitStack() as running:
        hosts = running.enter_context(run_deployment(shared, changelog, HOSTS))
        for host in hosts:
            host.wait_until_settled()
        yield from _lookups(hosts, expected, setting)
        yield from _counts(hosts, expected, setting)
        yield from _planning_times(hosts, expected, setting)
        yield from endings(hosts, setting)
    changelog = str(alone / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    with HostProcess(alone, changelog) as host:
        host.wait_until_settled()
        for query in _questions(expected):
            for rate in rates(host, SECONDS, partial(_ask, host.uri, query)):
                what = f"{query.name} queries by {rate.clients} clients"
                yield Figure(
                    "distributed",
                    what,
                    rate.calls,
                    "queries/s",
                    more_is_better=True,
                    note=rate.note,
                    scale=setting.scale,
                )


def _fill(changelog: Changelog, keys: int) -> Expected:
    expected = Expected(keys)
    appender = open_appender(changelog, [replace(definition(), partitions=PARTITIONS)])
    append_all(appender, every_key(keys), KeyType.INT64, expected.upsert)
    return expected


def _lookups(hosts: Sequence[ServeProcess], expected: Expected, setting: Setting) -> Iterator[Figure]:
    """One row by its key, from the host that has it and through the next one."""
    holder = _holders(len(hosts))
    random = np.random.default_rng(6)
    times: dict[str, list[float]] = {"direct": [], "through another host": []}
    with ExitStack() as open_clients:
        clients = [open_clients.enter_context(flight.connect(host.uri)) for host in hosts]

        def turn(numbers: Numbers, offset: int) -> list[float]:
            taken = []
            for number, key, partition in zip(
                numbers.tolist(), key_values(numbers).to_pylist(), _partitions(numbers), strict=True
            ):
                client = clients[(holder[partition] + offset) % len(clients)]
                began = time.perf_counter()
                answer = client.do_get(
                    flight.Ticket(f"SELECT * FROM {STORE} WHERE song_id = {key}".encode())
                ).read_all()
                taken.append(time.perf_counter() - began)
                check("row by key", rows_of(answer), [expected.row(number)])
            return taken

        for offset in range(2):
            turn(random.integers(0, expected.keys, WARM_UP_LOOKUPS), offset)
        for _ in range(setting.scale_number(LOOKUPS, least=4 * TURN_LOOKUPS) // TURN_LOOKUPS):
            for offset, way in enumerate(times):
                times[way] += turn(random.integers(0, expected.keys, TURN_LOOKUPS), offset)
    medians = {way: percentile(seconds, 0.5) for way, seconds in times.items()}
    for way, seconds in times.items():
        note = f"p99 {milliseconds(percentile(seconds, 0.99)):.2f} ms over {len(seconds):,} calls"
        yield Figure(
            "distributed",
            f"lookup, {way}, p50",
            milliseconds(medians[way]),
            "ms",
            note=note,
            scale=setting.scale,
        )
    ratio = medians["through another host"] / medians["direct"]
    yield Figure(
        "distributed",
        "lookup through another host, p50",
        ratio,
        "times direct",
        THROUGH_TARGET,
        scale=setting.scale,
    )


def _holders(hosts: int) -> Mapping[int, int]:
    """The place of the host that holds each partition."""
    names = tuple(HostName(f"{number}") for number in range(1, hosts + 1))
    store = replace(definition(), partitions=PARTITIONS)
    assignment = Assignment(names)
    return {
        partition: place
        for place, name in enumerate(names)
        for partition in assignment.held_partitions(name, store)
    }


def _partitions(numbers: Numbers) -> list[int]:
    found: list[int] = partition_of([key_values(numbers)], PARTITIONS).tolist()
    return found


def _counts(hosts: Sequence[ServeProcess], expected: Expected, setting: Setting) -> Iterator[Figure]:
    everything = f"SELECT count(*) FROM {STORE}"
    loved = f"SELECT count(*) FROM {STORE} WHERE score > 128"
    wanted = {everything: expected.keys, loved: int((expected.score > 128).sum())}
    with Client(hosts[0].uri) as client:
        for sql, count in wanted.items():
            answer = client.query(sql)
            check(sql, rows_of(answer.read_all()), [(count,)])
            check(f"hosts of {sql}", len(answer.metadata["hosts"]), len(hosts))
        times = time_in_turns({sql: partial(_read, client, sql) for sql in wanted}, COUNTS)
    for sql, counted, target in (
        (everything, "count(*)", COUNT_TARGET),
        (loved, "count(*) of half of the rows, by a condition", None),
    ):
        spread = (
            f"p99 {milliseconds(percentile([spent.wall for spent in times[sql]], 0.99)):.1f} ms; "
            f"{expected.keys:,} rows"
        )
        what = f"{counted} over {PARTITIONS} partitions on {len(hosts)} hosts"
        yield Figure(
            "distributed",
            what,
            milliseconds(median_wall(times[sql])),
            "ms",
            target,
            note=spread,
            scale=setting.scale,
        )


def _planning_times(hosts: Sequence[ServeProcess], expected: Expected, setting: Setting) -> Iterator[Figure]:
    """Texts that the host has not seen, and each of them once more."""
    random = np.random.default_rng(7)
    with Client(hosts[0].uri) as client:
        for query in _questions(expected)[1:]:
            times: dict[str, list[float]] = {"new": [], "known": []}
            for _ in range(PLANNED):
                sql, wanted = query.make(random)
                for taken in times.values():
                    answer = client.query(sql)
                    check(sql, rows_of(answer.read_all()), wanted)
                    taken.append(answer.metadata["seconds"]["plan"])
            for seen, target in (("new", PLANNED_TARGET), ("known", PLANNED_AGAIN_TARGET)):
                note = f"the slowest {milliseconds(max(times[seen])):.1f} ms; {len(hosts)} hosts"
                median = milliseconds(percentile(times[seen], 0.5))
                yield Figure(
                    "distributed",
                    f"planning, {query.name}, {seen} text, median",
                    median,
                    "ms",
                    target,
                    note=note,
                    scale=setting.scale,
                )


def _read(client: Client, sql: str) -> pa.Table:
    return client.query(sql).read_all()


@dataclass(frozen=True)
class SmallQuery:
    """A small query, of which many are asked.

    Attributes:
        name: What it is called.
        make: A query and its answer, rows sorted, from a random generator.
    """

    name: str
    make: Callable[[np.random.Generator], tuple[str, list[Row]]]


def _questions(expected: Expected) -> Sequence[SmallQuery]:
    keys = key_values(np.arange(expected.keys)).to_numpy()
    order = np.argsort(keys)
    ascending = keys[order]
    sums = np.concatenate([[0], np.cumsum(expected.listens[order])])

    def by_key(random: np.random.Generator) -> tuple[str, list[Row]]:
        number = int(random.integers(expected.keys))
        return f"SELECT * FROM {STORE} WHERE song_id = {keys[number]}", [expected.row(number)]

    def by_range(random: np.random.Generator) -> tuple[str, list[Row]]:
        first = int(random.integers(expected.keys - SHORT_RANGE))
        between = f"song_id BETWEEN {ascending[first]} AND {ascending[first + SHORT_RANGE - 1]}"
        rows = [
            (int(keys[number]), int(expected.listens[number]))
            for number in order[first : first + SHORT_RANGE]
        ]
        return f"SELECT song_id, listens FROM {STORE} WHERE {between} ORDER BY song_id", rows

    def aggregate(random: np.random.Generator) -> tuple[str, list[Row]]:
        first = int(random.integers(expected.keys - LONG_RANGE))
        between = f"song_id BETWEEN {ascending[first]} AND {ascending[first + LONG_RANGE - 1]}"
        answer = (LONG_RANGE, int(sums[first + LONG_RANGE] - sums[first]))
        return f"SELECT count(*), sum(listens) FROM {STORE} WHERE {between}", [answer]

    return SmallQuery("point", by_key), SmallQuery("range", by_range), SmallQuery("aggregate", aggregate)


def _ask(uri: str, query: SmallQuery, seed: int) -> list[float]:
    """Ask for a while; the time of each query, in seconds."""
    random = np.random.default_rng(seed)
    times: list[float] = []
    with flight.connect(uri) as client:
        end = time.perf_counter() + SECONDS
        while True:
            sql, wanted = query.make(random)
            began = time.perf_counter()
            if began > end:
                return times
            answer = client.do_get(flight.Ticket(sql.encode())).read_all()
            times.append(time.perf_counter() - began)
            check(sql, rows_of(answer), wanted)
