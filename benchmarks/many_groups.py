"""Hosts with many store groups and partitions, and a changelog whose requests take 20 ms each.

    python -m benchmarks many_groups

The changelog is a local directory behind a pause before each request; lists and deletes take one for each
1,000 objects. 100 groups are followed in this process: an epoch of ten rows comes to one of them, of which
the host is told or is not, until it can be read. Then a process that follows 20 groups is killed and started
again, until all can be read. Then 100,000 epochs are dropped. Last, `livestate serve` has 4,096 partitions of
one store on a plain local changelog; fewer, if the system does not let it have as many files open.

Checked: the rows of each epoch that is waited for, and that nothing is left of what was dropped.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import pyarrow as pa

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, wait_until
from benchmarks.setting import Setting
from benchmarks.slow_objects import SlowObjects, slow_changelog
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import check
from engine.changelog import Changelog, StoreAppender, open_appender
from engine.changelog.definitions import Definitions
from engine.changelog.epochs import Epochs
from engine.changelog.layout import commit_path
from engine.changelog.objects import Objects, open_objects
from engine.model.schema import Epoch, GroupName, PartitionId, StoreDefinition, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.replica.open_files import (
    FILES_A_PARTITION,
    OTHER_FILES,
    file_need,
    raise_open_files_limit,
)
from engine.replica.partition_places import place_of
from flight_server.client.client import Client

GROUPS, RESTARTED_GROUPS = 100, 20
LOOKS = 40
ROWS = 10
EPOCHS_BEFORE_KILL = 50
DROPPED = 100_000
PARTITIONS = 4096
PATIENCE_SECONDS = 120.0
SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])


def run(setting: Setting) -> Iterator[Figure]:
    """Times of epochs, restarts and drops."""
    yield from _epochs_of_many_groups(setting)
    yield _restart_after_kill(setting)
    yield _drop(setting)
    yield from _many_partitions(setting)


def _define(number: int, partitions: int = 2) -> StoreDefinition:
    name = f"store{number:03}"
    return define_store(name, SCHEMA, ["account"], partitions=partitions, group=f"group{number:03}")


def _append(appender: StoreAppender, store: StoreDefinition, first: int, rows: int = ROWS) -> Epoch:
    accounts = list(range(first, first + rows))
    return appender.append({store.name: pa.table({"account": accounts, "amount": accounts}, SCHEMA)}).epoch


def _check_rows(follower: Follower, store: StoreDefinition, rows: int) -> None:
    with follower.pin_views([store.name]) as views:
        check(f"rows of {store.name}", views[store.name].live_rows, rows)


def _epochs_of_many_groups(setting: Setting) -> Iterator[Figure]:
    uri = str(setting.directory / "groups")
    stores = [_define(number) for number in range(setting.scale_number(GROUPS, least=4))]
    appenders = [open_appender(Changelog.open(uri), [store]) for store in stores]
    rows = [ROWS] * len(stores)
    for store, appender in zip(stores, appenders, strict=True):
        _append(appender, store, 0)
    follower = Follower(slow_changelog(uri), setting.directory / "groups-data")
    follower.start()
    try:
        for store, appender in zip(stores, appenders, strict=True):
            _wait(follower, store, appender.epoch)
        times: dict[bool, list[float]] = {True: [], False: []}
        for look in range(setting.scale_number(LOOKS, least=10)):
            is_told, place = look % 2 == 0, look * 37 % len(stores)
            store, appender = stores[place], appenders[place]
            epoch = _append(appender, store, rows[place])
            rows[place] += ROWS
            committed = time.perf_counter()
            if is_told:
                follower.notify(store.group)
            _wait(follower, store, epoch)
            times[is_told].append(time.perf_counter() - committed)
            _check_rows(follower, store, rows[place])
    finally:
        follower.stop()
    for is_told, what, target in (
        (True, "an epoch that the host is told of, p50", 150.0),
        (False, "an epoch that it is not told of, slowest", 1000.0),
    ):
        found = times[is_told]
        value = percentile(found, 0.5) if is_told else max(found)
        yield _figure(
            f"{len(stores)} groups, 20 ms a request: {what}",
            milliseconds(value),
            "ms",
            target,
            f"p50 {milliseconds(percentile(found, 0.5)):.0f} ms, "
            f"slowest {milliseconds(max(found)):.0f} ms of {len(found)}",
            setting,
        )


def _wait(follower: Follower, store: StoreDefinition, epoch: Epoch) -> None:
    if not follower.wait_for(store.group, epoch, PATIENCE_SECONDS):
        raise SystemExit(f"Epoch {epoch} of {store.group} cannot be read: {follower.status()[0].problem}")


def _figure(what: str, value: float, unit: str, target: float | None, note: str, setting: Setting) -> Figure:
    return Figure("many_groups", what, value, unit, target, note=note, scale=setting.scale)


def _follow(uri: str, data: Path, newest: Sequence[tuple[GroupName, Epoch]], answers: Connection) -> None:
    """A host process: says when the first group, and when all groups can be read, and goes on."""
    follower = Follower(slow_changelog(uri), data, FollowerOptions())
    follower.start()
    wait_until(lambda: any(follower.wait_for(group, epoch, 0.0) for group, epoch in newest), PATIENCE_SECONDS)
    answers.send("first")
    for group, epoch in newest:
        if not follower.wait_for(group, epoch, PATIENCE_SECONDS):
            raise SystemExit(f"{group} is not there.")
    answers.send("all")
    time.sleep(PATIENCE_SECONDS)


def _start_process(
    uri: str, data: Path, newest: Sequence[tuple[GroupName, Epoch]]
) -> tuple[multiprocessing.process.BaseProcess, float, float]:
    """A host process, and the seconds from its spawn to the first group and to all."""
    spawning = multiprocessing.get_context("spawn")
    here, there = spawning.Pipe()
    process = spawning.Process(target=_follow, args=(uri, data, newest, there), daemon=True)
    spawned = time.perf_counter()
    process.start()
    check("the first answer", here.recv(), "first")
    to_first = time.perf_counter() - spawned
    check("the second answer", here.recv(), "all")
    return process, to_first, time.perf_counter() - spawned


def _restart_after_kill(setting: Setting) -> Figure:
    uri, data = str(setting.directory / "restarted"), setting.directory / "restarted-data"
    stores = [_define(number) for number in range(setting.scale_number(RESTARTED_GROUPS, least=2))]
    appenders = [open_appender(Changelog.open(uri), [store]) for store in stores]
    for store, appender in zip(stores, appenders, strict=True):
        _append(appender, store, 0)

    for _ in range(setting.scale_number(EPOCHS_BEFORE_KILL, least=10)):
        for store, appender in zip(stores, appenders, strict=True):
            # One key, so that one partition alone notes the epoch.
            _append(appender, store, ROWS, rows=1)
    newest = [(store.group, appender.epoch) for store, appender in zip(stores, appenders, strict=True)]
    process, _, _ = _start_process(uri, data, newest)
    process.kill()
    process.join()
    process, to_first, to_all = _start_process(uri, data, newest)
    process.kill()
    process.join()
    note = f"to all {len(stores)} groups {to_all:.2f} s, the start of Python included"
    return _figure(
        f"{len(stores)} groups, 20 ms a request: after SIGKILL to the first query",
        to_first,
        "s",
        3.0,
        note,
        setting,
    )


def _drop(setting: Setting) -> Figure:
    count, group = setting.scale_number(DROPPED, least=100), GroupName("dropped")
    objects = open_objects("memory://", {})
    for epoch in range(1, count + 2):
        objects.create(commit_path(group, Epoch(epoch)), [pa.py_buffer(b"")])
    slow = cast("Objects", SlowObjects(objects))
    epochs = Epochs(slow, group, Definitions(slow))
    began = time.perf_counter()
    dropped = epochs.drop(Epoch(count + 1))
    seconds = time.perf_counter() - began
    check("dropped epochs", dropped, count)
    check("epochs that are left", epochs.committed_epochs(), [Epoch(count + 1)])
    return _figure(f"20 ms a request: dropping {count:,} epochs", seconds, "s", 60.0, "", setting)


def _many_partitions(setting: Setting) -> Iterator[Figure]:
    uri = str(setting.directory / "wide")
    limit = raise_open_files_limit()
    store = _define(0, setting.scale_number(PARTITIONS, least=64))
    need = file_need(
        place_of(setting.directory, store, PartitionId(number)) for number in range(store.partitions)
    )
    if 0 <= limit < need.files + OTHER_FILES:
        store = _define(0, (limit - OTHER_FILES) // FILES_A_PARTITION)
    appender = open_appender(Changelog.open(uri), [store])
    rows = 4 * store.partitions
    _append(appender, store, 0, rows)
    with HostProcess(setting.directory, uri) as host:
        host.wait_until_ready()
    with HostProcess(setting.directory, uri) as host, Client(host.uri) as client:
        host.wait_until_ready()
        started = time.perf_counter() - host.spawned
        files = len(list(Path(f"/proc/{host.pid}/fd").iterdir()))
        times = []
        for look in range(setting.scale_number(LOOKS, least=10)):
            _append(appender, store, rows + look * ROWS)
            committed = time.perf_counter()
            client.notify(store.group)
            sql = f"SELECT amount FROM {store.name} WHERE account = {rows + look * ROWS}"
            while client.query(sql).read_all().num_rows == 0:
                time.sleep(0.002)
            times.append(time.perf_counter() - committed)
        total = client.query(f"SELECT count(*) AS n FROM {store.name}").read_all()["n"][0].as_py()
        check("rows", total, rows + len(times) * ROWS)
    yield _figure(f"{store.partitions:,} partitions: start", started, "s", 15.0, "", setting)
    yield _figure(
        f"{store.partitions:,} partitions: open files", float(files), "files", 20_000.0, "", setting
    )
    note = f"slowest {milliseconds(max(times)):.0f} ms of {len(times)}"
    p50 = milliseconds(percentile(times, 0.5))
    yield _figure(
        f"{store.partitions:,} partitions: an epoch of 10 rows, p50", p50, "ms", 60.0, note, setting
    )
