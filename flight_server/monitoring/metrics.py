"""The metrics of a host, in the text format of Prometheus.

All values are read when somebody asks. Labels come from closed lists, but for the names of stores and store
groups: of these the first `MOST_NAMED` in their order have series of their own, and the rest share those
named `OTHERS`. No label has a text of a statement, or the name of somebody who asks.
"""

from __future__ import annotations

import importlib.metadata
import platform
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol, TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from engine.cluster.reports import GroupReport
from engine.exec.fallbacks import Fallback
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import GroupName
from engine.replica.figures import GroupFigures
from engine.telemetry.histogram import Histogram
from flight_server.monitoring.host_figures import HostFigures
from flight_server.monitoring.http_port import Page
from flight_server.monitoring.process_figures import process_figures
from flight_server.monitoring.scheduling_lag import SchedulingLag
from flight_server.server.server_figures import ServerFigures
from flight_server.wire.boundary import KIND_NAMES

MOST_NAMED = 200
"""Stores that have series of their own, and store groups likewise."""
OTHERS = "_others"
KEPT_SECONDS = 1.0
"""For so long a page is given again: whoever asks more often costs the host nothing."""
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MeasuredHost(Protocol):
    """What has metrics; as `flight_server.host.host.Host` is."""

    def figures(self) -> HostFigures:
        """All that is known of it now."""


@dataclass(frozen=True)
class _Labelled:
    """A value with the values of its labels."""

    labels: tuple[str, ...]
    value: float


class MetricsPage:
    """The page of a host's metrics. Safe for threads.

    Args:
        host: The host.
        lag: Knows how late threads are.
    """

    def __init__(self, host: MeasuredHost, lag: SchedulingLag) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_HostCollector(host, lag))
        self._lock = threading.Lock()
        self._made_at = float("-inf")
        self._text = b""

    def page(self) -> Page:
        """The metrics as they are now, or were a moment ago."""
        with self._lock:
            if time.monotonic() - self._made_at >= KEPT_SECONDS:
                self._text = generate_latest(self._registry)
                self._made_at = time.monotonic()
            return Page(HTTPStatus.OK, self._text, CONTENT_TYPE)


class _HostCollector(Collector):
    """Reads a host."""

    def __init__(self, host: MeasuredHost, lag: SchedulingLag) -> None:
        self._host = host
        self._lag = lag
        self._others = _OthersCounters()
        self._started = time.time()
        self._version = importlib.metadata.version("livestate")

    def collect(self) -> Iterator[Metric]:
        figures = self._host.figures()
        yield _gauge(
            "build_info",
            "Always 1; the labels say what runs.",
            [_Labelled((self._version, platform.python_version(), figures.name), 1)],
            ("version", "python", "host"),
        )
        yield _single(
            "start_time_seconds", "When the process began to serve, seconds since 1970.", self._started
        )
        yield from _process_metrics(self._lag.lags())
        yield from _deployment_metrics(figures)
        yield from _store_metrics(figures)
        yield from _group_metrics(figures, self._others)
        yield from _memory_metrics(figures)
        if figures.server is not None:
            yield from _statement_metrics(figures.server)
            yield from _call_metrics(figures.server)


# ---- families


def _gauge(
    name: str, documentation: str, values: Iterable[_Labelled], labels: Sequence[str] = ()
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"livestate_{name}", documentation, labels=labels)
    for each in values:
        family.add_metric(each.labels, each.value)
    return family


def _counter(
    name: str, documentation: str, values: Iterable[_Labelled], labels: Sequence[str] = ()
) -> CounterMetricFamily:
    family = CounterMetricFamily(f"livestate_{name}", documentation, labels=labels)
    for each in values:
        family.add_metric(each.labels, each.value)
    return family


def _single(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return _gauge(name, documentation, [_Labelled((), value)])


def _total(name: str, documentation: str, value: float) -> CounterMetricFamily:
    return _counter(name, documentation, [_Labelled((), value)])


def _histogram(
    name: str, documentation: str, values: Mapping[tuple[str, ...], Histogram], labels: Sequence[str] = ()
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(f"livestate_{name}", documentation, labels=labels)
    for each, histogram in values.items():
        family.add_metric(each, _cumulative_buckets(histogram), histogram.total)
    return family


def _cumulative_buckets(histogram: Histogram) -> list[tuple[str, float]]:
    """Buckets as Prometheus wants them: each counts those below it, too."""
    buckets, count = [], 0
    for bound, more in zip((*map(str, histogram.bounds), "+Inf"), histogram.counts, strict=True):
        count += more
        buckets.append((bound, float(count)))
    return buckets


# ---- what they say


def _process_metrics(lags: Histogram) -> Iterator[Metric]:
    process = process_figures()
    yield _total("cpu_seconds", "Processor time of the process.", process.cpu_seconds)
    yield _single("resident_memory_bytes", "Memory of the process.", process.resident_bytes)
    yield _single("arrow_memory_bytes", "What of it Arrow has allocated.", process.arrow_bytes)
    yield _single("threads", "Threads of Python.", process.threads)
    yield _single("open_files", "Open files and connections.", process.open_files)
    yield _histogram(
        "scheduling_lag_seconds",
        "How late a thread got its turn: it waits for the interpreter, and for a processor.",
        {(): lags},
    )


def _deployment_metrics(figures: HostFigures) -> Iterator[Metric]:
    yield _single("ready", "1 where clients may ask this host (/readyz).", figures.is_ready)
    is_draining = figures.server is not None and figures.server.is_draining
    yield _single("draining", "1 where the host takes no new statements.", is_draining)
    yield _single("hosts", "Hosts of the deployment, this one among them.", figures.hosts)
    yield _single("hosts_alive", "Hosts that this one has heard of lately, and itself.", figures.hosts_alive)


_STORE_SIZES = {
    "rows": "Live rows of the store's partitions on this host.",
    "stored_rows": "Rows in segments, dead ones included.",
    "bytes": "Their Arrow bytes.",
    "segments": "Segments.",
}


def _store_metrics(figures: HostFigures) -> Iterator[Metric]:
    stores = sorted(figures.stores.items())
    yield _single("stores", "Stores that this host knows.", len(stores))
    yield _single(
        "stores_unreadable",
        "Stores and names that are damaged in the changelog; livestate stores says how.",
        figures.replica.unreadable,
    )
    groups = {name: definition.group for name, definition in figures.definitions.items()}
    counted: list[tuple[tuple[str, str], dict[str, float]]] = [
        (
            (name, groups.get(name, "")),
            {
                **{size: float(getattr(store, size)) for size in _STORE_SIZES},
                "partitions": float(len(store.partitions)),
                "missing_partitions": float(len(store.rebuilding)),
            },
        )
        for name, store in stores
    ]
    # A store may be called like the rest; two series of the same labels are none.
    own = [each for each in counted if each[0][0] != OTHERS]
    named, rest = own[:MOST_NAMED], [*own[MOST_NAMED:], *(each for each in counted if each[0][0] == OTHERS)]
    if rest:
        named.append(((OTHERS, OTHERS), {size: sum(each[size] for _, each in rest) for size in rest[0][1]}))
    documentation = {
        **_STORE_SIZES,
        "partitions": "Partitions that can be read on this host.",
        "missing_partitions": "Partitions that this host builds, and that cannot be read yet.",
    }
    for size, said in documentation.items():
        yield _gauge(
            f"store_{size}",
            said,
            [_Labelled(labels, each[size]) for labels, each in named],
            ("store", "group"),
        )


class _OthersCounters:
    """Counts what groups that share a series have counted while they did: as groups come and go, what they
    have counted so far would rise and fall with them, and a counter never falls.
    """

    def __init__(self) -> None:
        self._seen: Mapping[str, Mapping[str, float]] = {}
        self._totals: dict[str, float] = {}

    def update(
        self, values: Mapping[str, Mapping[str, float]], others: Collection[str]
    ) -> Mapping[str, float]:
        """What was counted so far.

        Args:
            values: What each group has counted by now.
            others: Those that share the series.
        """
        for name in others:
            before = self._seen.get(name, {})
            for key, value in values[name].items():
                grown = value - before.get(key, 0.0)
                # One that was dropped and made anew begins at nothing.
                self._totals[key] = self._totals.get(key, 0.0) + (grown if grown >= 0 else value)
        self._seen = values
        return dict(self._totals)


def _group_metrics(figures: HostFigures, counters: _OthersCounters) -> Iterator[Metric]:
    now = time.time()
    known: dict[str, dict[str, float]] = {
        name: _group_values(name, report, figures.replica.groups, now)
        for name, report in sorted(figures.groups.items())
    }
    own = [name for name in known if name != OTHERS][:MOST_NAMED]
    others = known.keys() - set(own)
    counts = {name: {key: each[key] for key in _SUMMED if key in each} for name, each in known.items()}
    shared = counters.update(counts, others)
    named = {name: known[name] for name in own}
    if others:
        named[OTHERS] = {**_worst([known[name] for name in others]), **shared}
    for key, said in _GROUP_GAUGES.items():
        values = [_Labelled((name,), each[key]) for name, each in named.items() if key in each]
        yield _gauge(f"group_{key}", said, values, ("group",))
    for key, said in _SUMMED.items():
        values = [_Labelled((name,), each[key]) for name, each in named.items() if key in each]
        yield _counter(f"group_{key}", said, values, ("group",))


def _worst(groups: Sequence[Mapping[str, float]]) -> Mapping[str, float]:
    """Of groups that share a series the largest values, and the bytes of the one whose changelog has grown
    furthest beyond its snapshot.
    """
    found: dict[str, float] = {}
    for key in _WORST:
        values = [each[key] for each in groups if key in each]
        if values:
            found[key] = max(values)
    grown = max(groups, key=_growth)
    return found | {key: grown[key] for key in ("changelog_bytes", "snapshot_bytes") if key in grown}


def _growth(values: Mapping[str, float]) -> float:
    """How far a changelog has grown beyond what is right (LivestateChangelogGrows)."""
    return values.get("changelog_bytes", 0.0) - 4 * values.get("snapshot_bytes", 0.0)


_WORST = ("lag_epochs", "lag_seconds", "look_age_seconds", "problem", "building", "snapshot_age_seconds")
"""Of groups that share a series the largest value counts."""
_GROUP_GAUGES = {
    "epoch": "Newest epoch that can be read.",
    "newest_epoch": "Newest epoch that is known to be committed.",
    "lag_epochs": "Epochs that are committed and cannot be read yet.",
    "lag_seconds": "Age of the oldest of these; 0 where there is none.",
    "look_age_seconds": "How long ago the host last saw what the changelog has.",
    "problem": "1 where the group does not get on; livestate stores says why.",
    "building": "1 where partitions are built that cannot be read yet.",
    "building_ratio": "How much of the way is done, 0 to 1; only while something is built.",
    "snapshot_age_seconds": "How long ago the epoch of the newest snapshot was committed.",
    "snapshot_bytes": "Bytes of the newest snapshot.",
    "changelog_bytes": "Bytes of the epochs since then: what a host without a disk reads beside it.",
}
_SUMMED = {
    "epochs_applied": "Epochs that were applied.",
    "apply_seconds": "How long that took.",
    "merges": "Merges of segments (compaction).",
    "merge_seconds": "How long they took.",
}


def _group_values(
    name: GroupName, report: GroupReport, groups: Mapping[GroupName, GroupFigures], now: float
) -> dict[str, float]:
    unread, looked_at = report.unread_since, report.looked_at
    values = {
        "epoch": float(report.newest),
        "newest_epoch": float(max(report.newest_known, report.newest)),
        "lag_epochs": float(max(0, report.newest_known - report.newest)),
        "lag_seconds": 0.0 if unread is None else max(0.0, now - unread / MICROSECONDS_PER_SECOND),
        "problem": float(bool(report.problem)),
        "building": float(report.building is not None),
    }
    if looked_at:
        values["look_age_seconds"] = max(0.0, now - looked_at / MICROSECONDS_PER_SECOND)
    if report.building is not None:
        values["building_ratio"] = report.building.percent / 100
    own = groups.get(name)
    if own is not None:
        values |= {
            "epochs_applied": own.work.epochs,
            "apply_seconds": own.work.seconds,
            "merges": own.merging.merges,
            "merge_seconds": own.merging.seconds,
        }
        if own.unsaved_bytes is not None:
            values["changelog_bytes"] = own.unsaved_bytes
        if own.snapshot is not None:
            values["snapshot_age_seconds"] = max(
                0.0, now - own.snapshot.committed_at / MICROSECONDS_PER_SECOND
            )
            values["snapshot_bytes"] = own.snapshot.nbytes
    return values


def _memory_metrics(figures: HostFigures) -> Iterator[Metric]:
    replica, service, server = figures.replica, figures.service, figures.server
    rocksdb = replica.rocksdb
    memory = {
        "columns": replica.cache_bytes,
        "memtables": rocksdb.get("size-all-mem-tables", 0),
        "table_readers": rocksdb.get("estimate-table-readers-mem", 0),
        "answers": service.answer_bytes if service else 0,
        "gathered": service.gathered_bytes if service else 0,
        "engine": service.engine_bytes if service else 0,
        "inputs": server.input_bytes if server else 0,
    }
    disk = {
        "tables": rocksdb.get("total-sst-files-size", 0),
        "blobs": rocksdb.get("total-blob-file-size", 0),
        "gathered": service.gathered_disk_bytes if service else 0,
        "engine": service.engine_disk_bytes if service else 0,
    }
    yield _gauge("memory_bytes", "Memory, by what it is for.", _labelled_values(memory), ("account",))
    yield _gauge("disk_bytes", "Disk, by what it is for.", _labelled_values(disk), ("account",))
    yield _single("cache_limit_bytes", "What decoded columns may take (--cache).", replica.cache_limit_bytes)
    yield _total("cache_hits", "How often a decoded column was there.", replica.cache_hits)
    yield _total("cache_misses", "How often it had to be read.", replica.cache_misses)
    yield _single(
        "answers", "Questions that are known to the kept answers.", service.answers if service else 0
    )
    yield _total(
        "retries", "Statements that were begun anew after a host failed.", service.retries if service else 0
    )
    yield _gauge(
        "rocksdb_property",
        "RocksDB's own properties, summed over partitions.",
        _labelled_values({name.replace("-", "_"): value for name, value in rocksdb.items()}),
        ("property",),
    )


_Name = TypeVar("_Name", bound=str)


def _labelled_values(values: Mapping[_Name, float]) -> list[_Labelled]:
    return [_Labelled((name,), value) for name, value in values.items()]


def _statement_metrics(server: ServerFigures) -> Iterator[Metric]:
    classes = server.totals.classes
    yield _histogram(
        "statement_seconds",
        "How long statements took until their last row was sent, by how they were answered.",
        {(name.value,): each.seconds for name, each in classes.items()},
        ("class",),
    )
    for name, said, values in (
        ("rows", "Rows that were sent.", {each: totals.rows for each, totals in classes.items()}),
        ("bytes", "Their Arrow bytes.", {each: totals.size for each, totals in classes.items()}),
        (
            "moved_bytes",
            "Arrow bytes that went between hosts for them.",
            {each: totals.moved for each, totals in classes.items()},
        ),
        (
            "read_rows",
            "Stored rows that were read.",
            {each: totals.rows_read for each, totals in classes.items()},
        ),
        (
            "partitions",
            "Partitions of the stores that were named.",
            {each: totals.partitions for each, totals in classes.items()},
        ),
        (
            "pruned_partitions",
            "How many of these were not read.",
            {each: totals.pruned for each, totals in classes.items()},
        ),
    ):
        yield _counter(f"statement_{name}", said, _labelled_values(values), ("class",))
    fallbacks = {each.value: server.totals.fallbacks.get(each.value, 0) for each in Fallback}
    yield _counter(
        "fallbacks",
        "How often a plan could not run and the next was tried.",
        _labelled_values(fallbacks),
        ("fallback",),
    )
    failures = {kind: server.totals.failures.get(kind, 0) for kind in KIND_NAMES}
    yield _counter(
        "failures", "Calls that were refused or failed, by kind.", _labelled_values(failures), ("kind",)
    )


def _call_metrics(server: ServerFigures) -> Iterator[Metric]:
    slots = {"statements": server.statements, "fragments": server.fragments, "endpoints": server.endpoints}
    yield _single("running", "Statements and fragments that run, or whose rows are read.", server.running)
    yield _single("key_streams", "Streams of keys that are open.", server.key_streams)
    yield _single(
        "connections", "Connections by which somebody has called in the last 15 minutes.", server.connections
    )
    for name, said, values in (
        ("slots", "Requests that may be computed at once.", {each: of.limit for each, of in slots.items()}),
        ("slots_held", "Requests that are computed.", {each: of.held for each, of in slots.items()}),
        ("slots_waiting", "Requests that wait for that.", {each: of.waiting for each, of in slots.items()}),
    ):
        yield _gauge(name, said, _labelled_values(values), ("kind",))
