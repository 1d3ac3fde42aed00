"""What epochs and lookups cost on a store whose keys are far larger than the cache.

    python -m benchmarks large_state

Two stores of 40 bytes a row in 8 partitions, of 10 M and of 200 M rows (8 GB of Arrow data), are loaded as
one commit each, and served by a host with a cache of 512 MiB, one after the other. At a smaller scale the
cache is smaller alike.

- Epochs of 10,000 random upserts are committed one by one, and the host is told of none. A client asks for a
  marked row every 2 ms until it is that of the epoch. The store of 10 M rows gives the time to compare with.
- A new host looks single keys up in the 200 M rows, each another one, with nothing in its cache at first.
- A follower in this process takes 20 epochs of 1,000 upserts a second for 10 seconds; then all epochs that
  can be read are read, and the memory of their delete vectors is counted, what they share once. It retains
  epochs for 15 seconds, not for 10, so that those that are counted are not just past that.

Checked: the marked rows, count and sums over all rows, each row that was looked up, and count and sum at some
epochs that can be read.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, memory_bytes
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import check, key_values, rows_of
from engine.changelog import Changelog, StoreAppender, open_appender
from engine.errors import Unavailable
from engine.model.schema import Epoch, GroupName, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.state.state_options import MIB, StateOptions
from engine.state.state_view import StateView
from flight_server.client.client import Client

SMALL_ROWS, LARGE_ROWS = 10_000_000, 200_000_000
CACHE_MIB = 512
FILE_ROWS = 2_000_000
EPOCH_ROWS = 10_000
WARM_UP_EPOCHS, EPOCHS = 10, 60
LOOKUPS = 300
PACED_EPOCHS, EPOCHS_A_SECOND, PACED_ROWS = 200, 20.0, 1000
RETENTION_SECONDS = 15.0
SECONDS_BETWEEN_LOOKS = 0.002
PATIENCE_SECONDS = 1200.0
STORE = "large"
SCHEMA = pa.schema([("k", pa.int64()), *((f"n{number}", pa.int64()) for number in range(4))])
DEFINITION = define_store(STORE, SCHEMA, ["k"], partitions=8)
Numbers = npt.NDArray[np.int64]


@dataclass
class Fed:
    """A store, and what it must contain: the row of number n has n in `n1` and in `n0` the number of the last
    epoch that wrote it, 0 being the load.

    Attributes:
        directory: Where its changelog is.
        rows: How many rows it has.
        appender: Appends epochs.
        upserted: The numbers of each epoch.
    """

    directory: Path
    rows: int
    appender: StoreAppender
    upserted: list[Numbers] = field(default_factory=list)

    @property
    def changelog(self) -> str:
        """URI of its changelog."""
        return str(self.directory / "changelog")

    def append(self, rows: int) -> Epoch:
        """Commit an epoch of random upserts; row 0 is always among them."""
        random = np.random.default_rng(len(self.upserted))
        numbers = random.integers(0, self.rows, rows)
        numbers[-1] = 0
        self.upserted.append(np.unique(numbers))
        return self.appender.append({STORE: _batch(numbers, len(self.upserted))}).epoch

    def sums(self) -> Sequence[int]:
        """Sum of `n0` after each epoch, the load first."""
        last = np.zeros(self.rows, np.int16)
        sums = [0]
        for epoch, numbers in enumerate(self.upserted, 1):
            sums.append(sums[-1] + int(len(numbers) * epoch - last[numbers].sum(dtype=np.int64)))
            last[numbers] = epoch
        return sums


def run(setting: Setting) -> Iterator[Figure]:
    """Both stores, the small one first."""
    cache = max(4, round(CACHE_MIB * setting.scale)) * MIB
    small = _load(setting, "small", setting.scale_number(SMALL_ROWS))
    with HostProcess(small.directory, small.changelog, ["--cache", str(cache)]) as host:
        base = _time_epochs(small, host)
    large = _load(setting, "large", setting.scale_number(LARGE_ROWS))
    began = time.perf_counter()
    with HostProcess(large.directory, large.changelog, ["--cache", str(cache)]) as host:
        host.wait_until_settled(PATIENCE_SECONDS)
        loaded = time.perf_counter() - began
        loading = memory_bytes(host.pid, "VmHWM")
        timed = _time_epochs(large, host)
    size = f"{large.rows:,} rows, cache {cache >> 20} MiB"
    p50, p50_of_base = (percentile(each.seconds, 0.5) for each in (timed, base))
    note = (
        f"{size}: {milliseconds(p50):.0f} ms; {small.rows:,} rows: {milliseconds(p50_of_base):.0f} ms; "
        f"p90 {milliseconds(percentile(timed.seconds, 0.9)):.0f} and "
        f"{milliseconds(percentile(base.seconds, 0.9)):.0f} ms; read and compact after {loaded:.0f} s"
    )
    ratio = p50 / p50_of_base
    yield _figure(setting, "epoch committed to visible, p50", ratio, "times the small store", 2.5, note)
    slowest = max(timed.seconds)
    yield _figure(setting, "epoch committed to visible, slowest", slowest, "s", 1.0, f"of {EPOCHS} epochs")
    note = f"{size}; while it was read {loading / 1e6:.0f} MB"
    yield _figure(setting, "resident while epochs come", timed.resident / 1e6, "MB", 3000.0, note)
    yield _time_lookups(setting, large, cache)
    yield from _count_readable(setting, large, cache)


def _figure(setting: Setting, what: str, value: float, unit: str, target: float, note: str) -> Figure:
    return Figure("large_state", what, value, unit, target, note=note, scale=setting.scale)


def _batch(numbers: Numbers, epoch: int) -> pa.RecordBatch:
    columns = [np.full(len(numbers), epoch), numbers, numbers * 3, numbers % 1000]
    return pa.RecordBatch.from_arrays([key_values(numbers), *map(pa.array, columns)], schema=SCHEMA)


def _load(setting: Setting, name: str, rows: int) -> Fed:
    """A changelog with all rows in one commit."""
    directory = setting.subdirectory(name)
    appender = open_appender(Changelog.open(str(directory / "changelog")), [DEFINITION])
    files = [
        appender.stage(
            {STORE: pa.Table.from_batches([_batch(np.arange(start, min(start + FILE_ROWS, rows)), 0)])}
        )
        for start in range(0, rows, FILE_ROWS)
    ]
    appender.commit(files)
    return Fed(directory, rows, appender)


@dataclass(frozen=True)
class _Timed:
    """How a host took epochs.

    Attributes:
        seconds: From the commit of each until it could be read.
        resident: The most memory that it had in between.
    """

    seconds: Sequence[float]
    resident: int


def _time_epochs(fed: Fed, host: HostProcess) -> _Timed:
    host.wait_until_settled(PATIENCE_SECONDS)
    seconds, resident = [], 0
    with Client(host.uri) as client:
        for _ in range(WARM_UP_EPOCHS + EPOCHS):
            fed.append(EPOCH_ROWS)
            began = time.perf_counter()
            _wait_for_mark(client, len(fed.upserted))
            seconds.append(time.perf_counter() - began)
            resident = max(resident, memory_bytes(host.pid))
        found = client.query(f"SELECT count(*), sum(n0), sum(n1) FROM {STORE}").read_all()
    check("all rows", rows_of(found), [(fed.rows, fed.sums()[-1], fed.rows * (fed.rows - 1) // 2)])
    return _Timed(seconds[WARM_UP_EPOCHS:], resident)


def _wait_for_mark(client: Client, epoch: int) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while rows_of(client.query(f"SELECT n0 FROM {STORE} WHERE k = 0").read_all()) != [(epoch,)]:
        check("an epoch that comes in time", time.monotonic() < deadline, True)
        time.sleep(SECONDS_BETWEEN_LOOKS)


def _time_lookups(setting: Setting, fed: Fed, cache: int) -> Figure:
    """A new host, asked for one key after the other."""
    numbers = np.random.default_rng(77).choice(fed.rows, LOOKUPS, replace=False)
    seconds = []
    with (
        HostProcess(fed.directory, fed.changelog, ["--cache", str(cache)]) as host,
        Client(host.uri) as client,
    ):
        host.wait_until_settled(PATIENCE_SECONDS)
        for key, number in zip(key_values(numbers).to_pylist(), numbers.tolist(), strict=True):
            began = time.perf_counter()
            found = client.query(f"SELECT * FROM {STORE} WHERE k = {key}").read_all()
            seconds.append(time.perf_counter() - began)
            check("a row", (found["n1"].to_pylist(), found["n2"].to_pylist()), ([number], [number * 3]))
    p50, p99 = (milliseconds(percentile(seconds, share)) for share in (0.5, 0.99))
    note = f"p99 {p99:.1f} ms over {LOOKUPS} keys; the first {milliseconds(seconds[0]):.1f} ms"
    return _figure(setting, "one key, cold cache, p50", p50, "ms", 3.0, note)


def _count_readable(setting: Setting, fed: Fed, cache: int) -> Iterator[Figure]:
    options = FollowerOptions(retention_seconds=RETENTION_SECONDS, state=StateOptions(cache_bytes=cache))
    follower = Follower(Changelog.open(fed.changelog), fed.directory / "data", options)
    follower.start()
    try:
        group = GroupName(STORE)
        check("the store", follower.wait_for(group, fed.appender.epoch, PATIENCE_SECONDS), True)
        first, began = len(fed.upserted) + 1, time.monotonic()
        for number in range(PACED_EPOCHS):
            time.sleep(max(0.0, began + number / EPOCHS_A_SECOND - time.monotonic()))
            epoch = fed.append(PACED_ROWS)
            follower.notify(group)
        seconds = time.monotonic() - began
        check("the epochs", follower.wait_for(group, epoch, PATIENCE_SECONDS), True)
        late = time.monotonic() - began - seconds
        views = _views(follower, group, range(epoch - PACED_EPOCHS + 1, epoch + 1))
        nbytes = _vector_bytes(list(views.values()))
        sums = fed.sums()
        for at, view in list(views.items())[:: max(1, len(views) // 4)]:
            live = view.scan(["n0"]).live_rows()["n0"]
            found = (len(live), int(pc.sum(live).as_py()))
            check("an epoch's rows", found, (fed.rows, sums[first - 1 + at - epoch + PACED_EPOCHS]))
    finally:
        follower.stop()
    note = f"of {PACED_EPOCHS} in {seconds:.1f} s, the last there {late:.2f} s after its commit"
    yield replace(
        _figure(setting, "readable epochs", float(len(views)), "epochs", PACED_EPOCHS, note),
        more_is_better=True,
    )
    yield _figure(
        setting, "delete vectors of readable epochs", nbytes / MIB, "MiB", 64.0, f"{len(views)} epochs"
    )


def _views(follower: Follower, group: GroupName, epochs: range) -> dict[int, StateView]:
    """The store at each of some epochs, of those that can be read."""
    found = {}
    for epoch in epochs:
        with suppress(Unavailable), follower.pin_views([DEFINITION.name], {group: Epoch(epoch)}) as views:
            view = views[DEFINITION.name]
            assert isinstance(view, StateView)
            found[epoch] = view
    return found


def _vector_bytes(views: Sequence[StateView]) -> int:
    """Memory of the delete vectors of some epochs."""
    arrays = {
        id(array): array.nbytes
        for view in views
        for version in view.versions.values()
        for entry in version.segments
        if entry.dead is not None
        for array in entry.dead.arrays
    }
    return sum(arrays.values())
