"""How long one row takes by its key, from 10 M rows, in a host process of its own.

    python -m benchmarks point_lookup

The ways, in turns, each call for another random key:
- one call of a plain pyarrow Flight client whose ticket is the SQL with the key as a literal;
- the same with the key as a parameter (a JSON ticket);
- a prepared statement with a parameter over ADBC, three calls of Flight: bind, plan, get;
- the first and the last of these with a Flight SQL server that does nothing (`benchmarks.idle_server`), also
  a process of its own. The difference of the medians is what livestate adds.

Client and host share the two cores; a second round keeps the servers on the first and the client on the
second. Checked: every row that a timed call of the host returned is the right one.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import adbc_driver_flightsql.dbapi as flight_sql
import numpy as np
import pyarrow as pa
from adbc_driver_manager.dbapi import Cursor
from pyarrow import flight

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, ServerProcess, cpu_seconds, pin
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import KEYS, STORE, Expected, Numbers, check, fill_store, key_values, rows_of
from engine.changelog import Changelog

CALLS = 4000
WARM_UP_CALLS = 300
TURN_CALLS = 50
BY_KEY = f"SELECT * FROM {STORE} WHERE song_id = "


@dataclass
class Way:
    """One way to look a row up.

    Attributes:
        ask: Takes a key and returns its row.
        pid: The server's process.
        answers: Whether it answers with the row; the server that does nothing does not.
        times: Of each call, seconds.
        cpu: Processor time of the server, seconds.
    """

    ask: Callable[[int], pa.Table]
    pid: int
    answers: bool = True
    times: list[float] = field(default_factory=list)
    cpu: float = 0.0

    def turn(self, numbers: Numbers, expected: Expected) -> None:
        """Make some calls, and check what came back."""
        found = []
        cpu = cpu_seconds(self.pid)
        for key in key_values(numbers).to_pylist():
            began = time.perf_counter()
            answer = self.ask(key)
            self.times.append(time.perf_counter() - began)
            found.append(answer)
        self.cpu += cpu_seconds(self.pid) - cpu
        if self.answers:
            check(
                "rows by key",
                [rows_of(answer) for answer in found],
                [[expected.row(number)] for number in numbers.tolist()],
            )


def run(setting: Setting) -> Iterator[Figure]:
    """Percentiles of each way."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    with (
        HostProcess(setting.directory, changelog) as host,
        ServerProcess(["-m", "benchmarks.idle_server"], setting.directory / "idle.log") as idle,
        flight.connect(host.uri) as plain,
        flight_sql.connect(host.uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        flight.connect(idle.uri) as idle_plain,
        flight_sql.connect(idle.uri, autocommit=True) as idle_connection,
        idle_connection.cursor() as idle_cursor,
    ):
        host.wait_until_settled()
        ask = {
            "literal": lambda key: plain.do_get(flight.Ticket(f"{BY_KEY}{key}".encode())).read_all(),
            "parameter": lambda key: plain.do_get(_ticket(key)).read_all(),
            "adbc": lambda key: _ask_prepared(cursor, key),
            "idle_plain": lambda key: idle_plain.do_get(flight.Ticket(f"{BY_KEY}{key}".encode())).read_all(),
            "idle": lambda key: _ask_prepared(idle_cursor, key),
        }
        shared, apart = ({name: _make_way(name, ask[name], host, idle) for name in ask} for _ in range(2))
        _take_turns(shared, setting, expected)
        cores = sorted(os.sched_getaffinity(0))
        for pid, core in ((host.pid, cores[0]), (idle.pid, cores[0]), (os.getpid(), cores[-1])):
            pin(pid, {core})
        _take_turns(apart, setting, expected)
    yield from _figures(shared, setting)
    yield from _figures_apart(apart, setting)


def _make_way(name: str, ask: Callable[[int], pa.Table], host: HostProcess, idle: ServerProcess) -> Way:
    return Way(ask, idle.pid, answers=False) if name.startswith("idle") else Way(ask, host.pid)


def _ticket(key: int) -> flight.Ticket:
    return flight.Ticket(json.dumps({"sql": f"{BY_KEY}?", "parameters": [key]}))


def _ask_prepared(cursor: Cursor, key: int) -> pa.Table:
    # The cursor prepares a text once, and again only when another text comes.
    cursor.execute(f"{BY_KEY}?", (key,))
    return cursor.fetch_arrow_table()


def _take_turns(ways: Mapping[str, Way], setting: Setting, expected: Expected) -> None:
    random = np.random.default_rng(4)
    for way in ways.values():
        for key in key_values(random.integers(0, expected.keys, WARM_UP_CALLS)).to_pylist():
            way.ask(key)
    for _ in range(setting.scale_number(CALLS, least=10 * TURN_CALLS) // TURN_CALLS):
        for way in ways.values():
            way.turn(random.integers(0, expected.keys, TURN_CALLS), expected)


def _figures_apart(ways: Mapping[str, Way], setting: Setting) -> Iterator[Figure]:
    for name, what in {
        "literal": "one call, key as a literal",
        "idle_plain": "one call of a server that does nothing",
    }.items():
        yield _figure(
            f"{what}, p50, a core for each side", percentile(ways[name].times, 0.5), None, ways[name], setting
        )
    beyond = percentile(ways["adbc"].times, 0.5) - percentile(ways["idle"].times, 0.5)
    yield _figure(
        "prepared over ADBC, p50, beyond a server that does nothing, a core for each side",
        beyond,
        None,
        ways["adbc"],
        setting,
    )


def _figure(what: str, value: float, target: float | None, way: Way, setting: Setting) -> Figure:
    note = (
        f"{len(way.times):,} calls; {milliseconds(way.cpu / len(way.times)):.2f} ms CPU of the server a call"
    )
    return Figure("point_lookup", what, milliseconds(value), "ms", target, note=note, scale=setting.scale)


def _figures(ways: Mapping[str, Way], setting: Setting) -> Iterator[Figure]:
    def figure(what: str, value: float, target: float | None, way: Way) -> Figure:
        return _figure(what, value, target, way, setting)

    for name, what, target in (
        ("literal", "one call, key as a literal", 0.5),
        ("parameter", "one call, key as a parameter", 0.6),
    ):
        yield figure(f"{what}, p50", percentile(ways[name].times, 0.5), target, ways[name])
        yield figure(f"{what}, p99", percentile(ways[name].times, 0.99), 3.0, ways[name])
    yield figure(
        "one call of a server that does nothing, p50",
        percentile(ways["idle_plain"].times, 0.5),
        None,
        ways["idle_plain"],
    )
    literal, plain = (percentile(ways[name].times, 0.5) for name in ("literal", "idle_plain"))
    yield figure(
        "one call, key as a literal, p50, beyond a server that does nothing",
        literal - plain,
        None,
        ways["literal"],
    )
    adbc, idle = (percentile(ways[name].times, 0.5) for name in ("adbc", "idle"))
    yield figure("prepared over ADBC, p50", adbc, None, ways["adbc"])
    yield figure("prepared over ADBC from a server that does nothing, p50", idle, None, ways["idle"])
    yield figure("prepared over ADBC, p50, beyond a server that does nothing", adbc - idle, 0.4, ways["adbc"])
