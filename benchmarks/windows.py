"""Windows on disk: one key's last hour, all keys' last window, and what it takes to let old ones go.

    python -m benchmarks windows

Windows of a minute for 10,000 keys arrive as a job brings them: epochs of ten windows of every key (key,
start and end, a count and an average), all on one host with eight partitions.

Reading: 50 M windows, and a cache a tenth of their size. Each query is for another key; the number of rows of
each answer and the sum of a column are checked.

Expiry: of 10 M windows, all but the last ten of each key go with one epoch; the clock runs from the moment
that the follower is told of it until it can be read. A client asks for one window all the time; the longest
of its queries meanwhile is shown beside that of five seconds before. The size of the data directory is taken
before, and after the next epoch: the epochs before stay readable for a second.
"""

from __future__ import annotations

import datetime as dt
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Event, Thread

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.local_store import host_like_interpreter
from benchmarks.report import Figure
from benchmarks.setting import Setting
from benchmarks.workload import PARTITIONS
from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.kinds import Behaviour, Retention
from engine.model.schema import GroupName, StoreDefinition, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from engine.state.state_options import StateOptions

READ_ROWS = 50_000_000
EXPIRED_ROWS = 10_000_000
KEYS = 10_000
WINDOWS_AN_EPOCH = 10
ROW_BYTES = 40
QUERIES = 100
LAST_HOUR_TARGET = 5.0
EXPIRY_TARGET = 10.0
STOPPED_TARGET = 50.0
STORE = "windows"
_MINUTE = 60_000_000
_HOUR_OF_WINDOWS = 60
_START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_TIME = pa.timestamp("us", "UTC")
_TIMEOUT_SECONDS = 900.0
SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("window_start", _TIME),
        ("window_end", _TIME),
        ("trades", pa.int64()),
        ("average", pa.float64()),
    ]
)


def run(setting: Setting) -> Iterator[Figure]:
    """Reading, then expiry."""
    yield from _measure_reads(setting)
    yield from _expiry(setting)


def _definition() -> StoreDefinition:
    behaviour = Behaviour(retention=Retention(_MINUTE * WINDOWS_AN_EPOCH, "window_end"))
    return define_store(
        STORE,
        SCHEMA,
        ["key", "window_start", "window_end"],
        partition_by=["key"],
        partitions=PARTITIONS,
        behaviour=behaviour,
    )


def _start_of(window: int) -> dt.datetime:
    return _START + dt.timedelta(minutes=window)


def _windows(first: int) -> pa.RecordBatch:
    """The windows of one epoch: of every key, from the one with a given number on."""
    numbers = np.repeat(np.arange(first, first + WINDOWS_AN_EPOCH), KEYS)
    starts = int(_START.timestamp()) * 1_000_000 + numbers * _MINUTE
    keys = np.tile(np.arange(KEYS), WINDOWS_AN_EPOCH)
    times = [pa.array(starts + shift).cast(_TIME) for shift in (0, _MINUTE)]
    return pa.RecordBatch.from_arrays(
        [pa.array(keys), *times, pa.array(keys + numbers), pa.array(numbers / 4)], schema=SCHEMA
    )


@contextmanager
def _fill_follower(
    directory: Path, rows: int, cache_bytes: int
) -> Iterator[tuple[StoreAppender, Follower, QueryService, int]]:
    """A follower that has the windows and rests, and how many windows each key has."""
    windows = rows // KEYS // WINDOWS_AN_EPOCH * WINDOWS_AN_EPOCH
    changelog = Changelog.open(str(directory / "changelog"))
    follower = Follower(
        changelog,
        directory / "data",
        FollowerOptions(
            poll_seconds=3600.0, retention_seconds=1.0, state=StateOptions(cache_bytes=cache_bytes)
        ),
    )
    with open_appender(changelog, [_definition()]) as appender, host_like_interpreter():
        follower.start()
        try:
            for first in range(0, windows, WINDOWS_AN_EPOCH):
                appender.append({STORE: _windows(first)})
                if first // WINDOWS_AN_EPOCH % 10 == 9:
                    _apply(follower, appender)
            _apply(follower, appender)
            with closing(QueryService(follower)) as service:
                yield appender, follower, service, windows
        finally:
            follower.stop()


def _apply(follower: Follower, appender: StoreAppender, *, compact: bool = True) -> None:
    follower.notify()
    if not follower.wait_for(GroupName(STORE), appender.epoch, _TIMEOUT_SECONDS):
        raise SystemExit("The follower did not catch up.")
    if compact and not follower.wait_until_compact(_TIMEOUT_SECONDS):
        raise SystemExit("Compaction did not come to rest.")


# ---- reading


def _measure_reads(setting: Setting) -> Iterator[Figure]:
    rows = setting.scale_number(READ_ROWS)
    directory = setting.subdirectory("reading")
    with _fill_follower(directory, rows, rows * ROW_BYTES // 10) as (_, _, service, windows):
        since = _start_of(windows - _HOUR_OF_WINDOWS)
        keys = np.random.default_rng(3).permutation(KEYS)[:QUERIES].tolist()
        hours = [
            _time_query(
                service,
                _last_hour(key, since),
                *_expected_answer(key, key, windows - _HOUR_OF_WINDOWS, windows),
            )
            for key in keys
        ]
        lasts = [
            _time_query(service, _last_window(windows), *_expected_answer(0, KEYS - 1, windows - 1, windows))
            for _ in range(10)
        ]
    on_disk, cache = _size(directory / "data") / 1e6, rows * ROW_BYTES / 1e7
    note = (
        f"p99 {np.percentile(hours, 99):.1f} ms; {rows:,} windows, {on_disk:.0f} MB on disk, cache "
        f"{cache:.0f} MB"
    )
    yield Figure(
        "windows",
        "one key's last hour, p50",
        statistics.median(hours),
        "ms",
        LAST_HOUR_TARGET,
        False,
        note,
        setting.scale,
    )
    note = f"{KEYS:,} windows out of {rows:,}; {statistics.median(lasts) / KEYS * 1e3:.1f} µs a window"
    yield Figure(
        "windows",
        "last window of all keys, p50",
        statistics.median(lasts),
        "ms",
        None,
        False,
        note,
        setting.scale,
    )


def _last_hour(key: int, since: dt.datetime) -> str:
    return (
        f"SELECT window_start, trades, average FROM {STORE} WHERE key = {key} AND window_start >= "
        f"TIMESTAMPTZ '{since.isoformat()}'"
    )


def _last_window(windows: int) -> str:
    return (
        f"SELECT key, trades, average FROM {STORE} WHERE window_start = TIMESTAMPTZ "
        f"'{_start_of(windows - 1).isoformat()}'"
    )


def _expected_answer(first: int, last: int, begin: int, end: int) -> tuple[int, int]:
    """How many windows there are of some keys and times, and the sum of their trades."""
    keys, numbers = np.arange(first, last + 1), np.arange(begin, end)
    return len(keys) * len(numbers), int(keys.sum() * len(numbers) + numbers.sum() * len(keys))


def _time_query(service: QueryService, sql: str, windows: int, trades: int) -> float:
    """Milliseconds of a query, whose answer is checked."""
    begin = time.perf_counter()
    answer = service.execute(sql).read_all()
    spent = (time.perf_counter() - begin) * 1e3
    if (answer.num_rows, pc.sum(answer["trades"]).as_py()) != (windows, trades):
        raise SystemExit(f"{sql} has another answer than it should.")
    return spent


# ---- expiry


class _Client:
    """Asks for one window all the time, until it is stopped."""

    def __init__(self, service: QueryService, window: int) -> None:
        self.spent: list[float] = []
        self._service = service
        self._window = window
        self._stopping = Event()
        self._thread = Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        key = 0
        while not self._stopping.wait(0.001):
            key = (key + 7919) % KEYS
            start = _start_of(self._window)
            where = f"key = {key} AND window_start = TIMESTAMPTZ '{start.isoformat()}'"
            sql = f"SELECT trades, average FROM {STORE} WHERE {where}"
            self.spent.append(
                _time_query(self._service, sql, *_expected_answer(key, key, self._window, self._window + 1))
            )

    def __enter__(self) -> Sequence[float]:
        self._thread.start()
        return self.spent

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()


def _expiry(setting: Setting) -> Iterator[Figure]:
    rows = setting.scale_number(EXPIRED_ROWS)
    directory = setting.subdirectory("expiry")
    with _fill_follower(directory, rows, StateOptions().cache_bytes) as (
        appender,
        follower,
        service,
        windows,
    ):
        before_bytes = _size(directory / "data")
        with _Client(service, windows - 1) as before:
            time.sleep(5.0)
        appender.append({}, watermark=_start_of(windows))
        with _Client(service, windows - 1) as during:
            begin = time.perf_counter()
            _apply(follower, appender, compact=False)
            spent = time.perf_counter() - begin
            time.sleep(3.0)
        left = service.execute(f"SELECT count(*) AS windows FROM {STORE}").read_all()["windows"][0].as_py()
        if left != KEYS * (WINDOWS_AN_EPOCH + 1):
            raise SystemExit(f"{left:,} windows are left.")
        appender.append({STORE: _windows(windows)})
        _apply(follower, appender)
        after_bytes = _size(directory / "data")
    note = (
        f"{rows - left:,} windows went; disk {before_bytes / 1e6:.0f} MB before, {after_bytes / 1e6:.0f} "
        "MB after"
    )
    yield Figure("windows", "expiry", spent, "s", EXPIRY_TARGET, False, note, setting.scale)
    medians = f"medians {statistics.median(before):.1f} and {statistics.median(during):.1f} ms"
    note = f"longest query {max(before):.0f} ms before, {max(during):.0f} ms during; {medians}"
    yield Figure(
        "windows",
        "longest query while windows expire",
        max(during),
        "ms",
        STOPPED_TARGET,
        False,
        note,
        setting.scale,
    )


def _size(directory: Path) -> int:
    return sum(file.stat().st_size for file in directory.rglob("*") if file.is_file())
