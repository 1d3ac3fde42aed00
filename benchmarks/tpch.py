"""The 22 queries of TPC-H at scale factor 1, on one host and on three, against DuckDB over tables of its own.

    python -m benchmarks tpch

`tpchgen-cli` makes the tables, which are loaded into a changelog in some epochs; `lineitem` and `orders` are
partitioned by order key, `part` and `partsupp` by part key. One host process follows all of it, three others
share it, all on the same two cores, with caches that hold all columns. DuckDB, in this process, has the same
rows in tables of its own, in memory. Each process may use two threads. Queries go to the hosts over Flight as
plain text. For each query the three take turns, and the ratios are those of medians; the sums are sums of
medians.

Bytes moved between hosts are what the result's metadata says; bytes scanned are the Arrow bytes of the
columns that EXPLAIN names, over all rows. Planning is what the metadata of results on three hosts says: from
the text's arrival until the first fragment is asked for. A new text is one of these queries behind a comment
that the hosts have not seen, of which nothing is known to the host that plans.

Checked: all answers, on one host and on three, are those of DuckDB, before anything is timed.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, run_deployment
from benchmarks.setting import Setting
from benchmarks.timing import median_wall, milliseconds, time_in_turns
from benchmarks.workload import check
from engine.changelog import Changelog
from flight_server.client.client import Client
from tests.tpch.answers import fetch, wrong
from tests.tpch.stores import LAYOUTS, generate, load, queries, table_file

EPOCHS = 12
REPETITIONS = 5
HOSTS = 3
THREADS = 2
ONE_HOST_OPTIONS = ("--answers", "0", "--threads", f"{THREADS}", "--cache", "4GiB")
MANY_HOSTS_OPTIONS = ("--answers", "0", "--threads", f"{THREADS}", "--cache", "2GiB")
ONE_HOST_TARGET, MANY_HOSTS_TARGET = 1.6, 2.0
PLANNED_AGAIN_TARGET, PLANNED_TARGET = 1.0, 10.0
"""Milliseconds."""
MOVED_TARGET = 5.0
"""Percent of the bytes scanned."""
ON_PARTITION_KEY = frozenset({"q01", "q02", "q04", "q06", "q11", "q12", "q15", "q16", "q21"})
"""Aggregates and top-k whose joins are on the partition key, or with tables of some thousand rows."""
NEW_TEXTS = 3

DUCKDB, ONE_HOST, MANY_HOSTS = "DuckDB", "one host", f"{HOSTS} hosts"


@dataclass
class Measured:
    """What was seen of one query.

    Attributes:
        seconds: Median of each system.
        metadata: What the three hosts say of their result.
        scanned_bytes: Arrow bytes of the columns that the query reads.
    """

    seconds: Mapping[str, float]
    metadata: Mapping[str, Any]
    scanned_bytes: int

    @property
    def moved(self) -> float:
        """Bytes moved between hosts, as percent of the bytes scanned."""
        return 100 * int(self.metadata["bytes_moved"]) / self.scanned_bytes

    @property
    def moved_note(self) -> str:
        """The same in bytes, and by which rules."""
        rules = ", ".join(dict.fromkeys(self.metadata["rules"]))
        return (
            f"{int(self.metadata['bytes_moved']) / 1e6:,.2f} of {self.scanned_bytes / 1e6:,.0f} MB by {rules}"
        )


@dataclass
class Tables:
    """The tables as files, and as DuckDB's own.

    Attributes:
        directory: Of the files.
        own: DuckDB that has them.
        column_bytes: Arrow bytes of each column, by table.
    """

    directory: Path
    own: duckdb.DuckDBPyConnection
    column_bytes: dict[str, dict[str, int]] = field(default_factory=dict)

    def fill(self) -> None:
        """Make DuckDB's tables of the files."""
        for name in LAYOUTS:
            rows = pq.read_table(table_file(self.directory, name))
            self.column_bytes[name] = {column: rows[column].nbytes for column in rows.column_names}
            self.own.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")

    def scanned_bytes(self, plan: Sequence[str]) -> int:
        """Arrow bytes of the columns that a plan names, each reference by itself."""
        total, name = 0, ""
        for line in plan:
            if found := re.match(r"store: (\w+)", line):
                name = found[1]
            elif found := re.match(r"  columns: (.*)", line):
                total += sum(self.column_bytes[name].get(column, 0) for column in found[1].split(", "))
        return total


def run(setting: Setting) -> Iterator[Figure]:
    """Ratios of each query and of the sums; bytes moved; times of planning."""
    files, changelog = setting.subdirectory("tables"), str(setting.directory / "changelog")
    generate(files, setting.scale)
    load(Changelog.open(changelog), files, EPOCHS)
    with ExitStack() as running:
        tables = Tables(files, running.enter_context(duckdb.connect(config={"threads": THREADS})))
        tables.fill()
        alone = running.enter_context(HostProcess(setting.subdirectory("alone"), changelog, ONE_HOST_OPTIONS))
        hosts = running.enter_context(
            run_deployment(setting.subdirectory("shared"), changelog, HOSTS, MANY_HOSTS_OPTIONS)
        )
        for host in (alone, *hosts):
            host.wait_until_settled()
        one, many = (running.enter_context(Client(uri)) for uri in (alone.uri, hosts[0].uri))
        _check_answers(tables.own, one, many)
        measured = {name: _measure(sql, tables, one, many) for name, sql in queries().items()}
        planned = _time_planning(many)
    yield from _ratios(measured, setting)
    yield from _moved_figures(measured, setting)
    yield from _planning_figures(planned, setting)


def _check_answers(own: duckdb.DuckDBPyConnection, *clients: Client) -> None:
    for name, sql in queries().items():
        expected = fetch(own, sql)
        for client in clients:
            check(name, wrong(sql, client.query(sql).read_all(), expected), None)


def _measure(sql: str, tables: Tables, one: Client, many: Client) -> Measured:
    plan = many.query(f"EXPLAIN {sql}").read_all().column(0).to_pylist()
    answer = many.query(sql)
    answer.read_all()
    ways: dict[str, Callable[[], pa.Table]] = {
        DUCKDB: lambda: tables.own.sql(sql).to_arrow_table(),
        ONE_HOST: lambda: one.query(sql).read_all(),
        MANY_HOSTS: lambda: many.query(sql).read_all(),
    }
    times = time_in_turns(ways, REPETITIONS)
    return Measured(
        {name: median_wall(spent) for name, spent in times.items()},
        answer.metadata,
        tables.scanned_bytes(plan),
    )


def _ratios(measured: Mapping[str, Measured], setting: Setting) -> Iterator[Figure]:
    sums = {
        system: sum(each.seconds[system] for each in measured.values())
        for system in (DUCKDB, ONE_HOST, MANY_HOSTS)
    }
    for system, target in ((ONE_HOST, ONE_HOST_TARGET), (MANY_HOSTS, MANY_HOSTS_TARGET)):
        note = _note_times(sums, system)
        yield Figure(
            "tpch",
            f"all queries, {system}",
            sums[system] / sums[DUCKDB],
            "times DuckDB",
            target,
            note=note,
            scale=setting.scale,
        )
        for name, each in measured.items():
            note = _note_times(each.seconds, system)
            if system == MANY_HOSTS and name not in ON_PARTITION_KEY:
                note += f"; moved {each.moved_note}"
            yield Figure(
                "tpch",
                f"{name}, {system}",
                each.seconds[system] / each.seconds[DUCKDB],
                "times DuckDB",
                note=note,
                scale=setting.scale,
            )


def _note_times(seconds: Mapping[str, float], system: str) -> str:
    return (
        f"livestate {milliseconds(seconds[system]):,.0f} ms, DuckDB {milliseconds(seconds[DUCKDB]):,.0f} ms"
    )


def _moved_figures(measured: Mapping[str, Measured], setting: Setting) -> Iterator[Figure]:
    for name in sorted(ON_PARTITION_KEY):
        each = measured[name]
        yield Figure(
            "tpch",
            f"{name}, moved between hosts",
            each.moved,
            "% of bytes scanned",
            MOVED_TARGET,
            note=each.moved_note,
            scale=setting.scale,
        )


@dataclass
class Planned:
    """Times of planning, milliseconds.

    Attributes:
        first: Of texts that the host had not seen.
        again: Of texts that it had.
    """

    first: list[float] = field(default_factory=list)
    again: list[float] = field(default_factory=list)


def _time_planning(client: Client) -> Planned:
    """Ask each query under texts that are new, and each of these once more; the host says how long it
    planned.
    """
    planned = Planned()
    for number in range(NEW_TEXTS):
        for sql in queries().values():
            for times in (planned.first, planned.again):
                answer = client.query(f"-- {number}\n{sql}")
                answer.read_all()
                times.append(milliseconds(answer.metadata["seconds"]["plan"]))
    return planned


def _planning_figures(planned: Planned, setting: Setting) -> Iterator[Figure]:
    for what, times, target in (
        ("planning, a new query", planned.first, PLANNED_TARGET),
        ("planning, a known query", planned.again, PLANNED_AGAIN_TARGET),
    ):
        note = f"the slowest {max(times):.1f} ms; {HOSTS} hosts"
        yield Figure(
            "tpch", f"{what}, median", statistics.median(times), "ms", target, note=note, scale=setting.scale
        )
