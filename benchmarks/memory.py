"""How much memory a host takes for 10 M rows, and whether state four times its cache still answers.

    python -m benchmarks memory

A host process starts over an empty changelog and answers a query: what is resident then is the floor. Then 10
M rows are written, the host applies and compacts them, and the growth of its resident memory counts; once
more after a GROUP BY over all rows and a thousand lookups. The host's cache may hold all rows (1 GiB, the
default).

The second host has a cache of a quarter of the rows' Arrow size and the same data directory.

Checked: GROUP BY over all rows, single rows, a range and a whole scan, on both hosts.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, memory_bytes
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import (
    BY_GENRE,
    KEYS,
    STORE,
    Expected,
    KeyType,
    append_all,
    check,
    check_by_genre,
    definition,
    every_key,
    key_values,
    rows_of,
)
from engine.changelog import Changelog, open_appender
from flight_server.client.client import Client

LOOKUPS = 1000
TARGET_RATIO = 2.0
CACHE_SHARE = 4


def run(setting: Setting) -> Iterator[Figure]:
    """Growth over Arrow size; then times of a host whose cache is too small."""
    changelog = str(setting.directory / "changelog")
    appender = open_appender(Changelog.open(changelog), [definition()])
    expected = Expected(setting.scale_number(KEYS))
    with HostProcess(setting.directory, changelog) as host, Client(host.uri) as client:
        host.wait_until_ready()
        check("an empty store", client.query(BY_GENRE).read_all().num_rows, 0)
        floor = memory_bytes(host.pid)
        append_all(appender, every_key(expected.keys), KeyType.INT64, expected.upsert)
        host.wait_until_settled()
        arrow = expected.table().nbytes
        yield _growth(host, floor, arrow, "after load and compaction", setting)
        _ask_everything(client, expected)
        yield _growth(host, floor, arrow, "after queries over all rows", setting)
    cache = arrow // CACHE_SHARE
    with (
        HostProcess(setting.directory, changelog, ["--cache", str(cache)]) as host,
        Client(host.uri) as client,
    ):
        host.wait_until_ready()
        times = _ask_everything(client, expected)
        note = (
            f"{cache / 1e6:.0f} MB of cache for {arrow / 1e6:.0f} MB; {_resident_text(host)}; "
            "all answers right"
        )
    for what, seconds in times.items():
        yield Figure(
            "memory",
            f"state {CACHE_SHARE} times the cache: {what}",
            milliseconds(seconds),
            "ms",
            note=note,
            scale=setting.scale,
        )


def _growth(host: HostProcess, floor: int, arrow: int, when: str, setting: Setting) -> Figure:
    grown = memory_bytes(host.pid) - floor
    note = (
        f"{grown / 1e6:.0f} MB beyond {floor / 1e6:.0f} MB, for {arrow / 1e6:.0f} MB of Arrow data; "
        f"{_resident_text(host)}"
    )
    return Figure(
        "memory",
        f"growth of resident memory {when}",
        grown / arrow,
        "times Arrow size",
        TARGET_RATIO,
        note=note,
        scale=setting.scale,
    )


def _resident_text(host: HostProcess) -> str:
    parts = {what: memory_bytes(host.pid, what) / 1e6 for what in ("VmRSS", "RssAnon", "RssFile", "VmHWM")}
    return (
        f"resident {parts['VmRSS']:.0f} MB ({parts['RssAnon']:.0f} anonymous, {parts['RssFile']:.0f} of "
        f"files), at the most {parts['VmHWM']:.0f} MB"
    )


def _ask_everything(client: Client, expected: Expected) -> dict[str, float]:
    """Ask all kinds of questions and check the answers; seconds of each."""
    times: dict[str, float] = {}
    answer, times["GROUP BY over all rows"] = _time_query(client, BY_GENRE)
    check_by_genre(answer, expected)
    lookups = []
    for number in np.random.default_rng(6).integers(0, expected.keys, LOOKUPS).tolist():
        (key, *_) = row = expected.row(number)
        answer, seconds = _time_query(client, f"SELECT * FROM {STORE} WHERE song_id = {key}")
        lookups.append(seconds)
        check(f"the row of key number {number}", rows_of(answer), [row])
    times["point lookup, p50"], times["point lookup, p99"] = (
        percentile(lookups, 0.5),
        percentile(lookups, 0.99),
    )
    low, high = 0, 2**64 // 100
    answer, times["a hundredth of the key range"] = _time_query(
        client, f"SELECT count(*), sum(listens) FROM {STORE} WHERE song_id BETWEEN {low} AND {high}"
    )
    keys = key_values(np.arange(expected.keys))
    inside = pc.and_(pc.greater_equal(keys, low), pc.less_equal(keys, high))
    check(
        "a range of keys",
        rows_of(answer),
        [(pc.sum(inside).as_py(), pc.sum(pc.filter(pa.array(expected.listens), inside)).as_py())],
    )
    answer, times["SELECT * of all rows"] = _time_query(client, f"SELECT * FROM {STORE}")
    check(
        "all rows",
        (answer.num_rows, pc.sum(answer["listens"]).as_py()),
        (expected.keys, int(expected.listens.sum())),
    )
    return times


def _time_query(client: Client, sql: str) -> tuple[pa.Table, float]:
    began = time.perf_counter()
    answer = client.query(sql).read_all()
    return answer, time.perf_counter() - began
