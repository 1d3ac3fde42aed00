"""What one epoch that is much larger than memory may be costs a host.

    python -m benchmarks large_epoch

8 GB of Arrow data (75 M rows of 104 bytes, a text of 60 among them) is staged in files of 62 MB of 8
partitions and committed as one epoch behind a small one. A host with a cache of 128 MiB follows. Counts are
asked twice a second meanwhile: each is that of the small epoch or that of both. Checked at the end: count and
sum over all rows, and single rows.
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
from benchmarks.workload import check, rows_of
from engine.changelog import Changelog, DataFile, StoreAppender, open_appender
from engine.model.schema import StoreDefinition, define_store
from flight_server.client.client import Client

ROWS = 75_000_000
FILE_ROWS = 600_000
CACHE = "128MiB"
GROWTH_TARGET = 1000.0
SCHEMA = pa.schema(
    [("k", pa.int64()), *((f"n{number}", pa.int64()) for number in range(4)), ("text", pa.string())]
)
COUNT = "SELECT count(*) FROM wide"
TEXT_LENGTH = 60


def run(setting: Setting) -> Iterator[Figure]:
    """Growth of resident memory, and the time until the epoch can be read."""
    rows = setting.scale_number(ROWS, FILE_ROWS)
    changelog = str(setting.directory / "changelog")
    appender = open_appender(Changelog.open(changelog), [_definition()])
    appender.append({"wide": _table(np.arange(-1000, 0))})
    began = time.perf_counter()
    files = [
        appender.stage({"wide": _table(np.arange(start, min(start + FILE_ROWS, rows)))})
        for start in range(0, rows, FILE_ROWS)
    ]
    staged = time.perf_counter() - began
    with (
        HostProcess(setting.directory, changelog, ["--cache", CACHE]) as host,
        Client(host.uri) as client,
    ):
        host.wait_until_ready()
        check("the small epoch", rows_of(client.query(COUNT).read_all()), [(1000,)])
        floor = memory_bytes(host.pid)
        began = time.perf_counter()
        _commit_and_watch(appender, files, client, rows)
        seconds = time.perf_counter() - began
        grown = (memory_bytes(host.pid, "VmHWM") - floor) / 1e6
        _check_rows(client, rows)
    nbytes = rows * (5 * 8 + TEXT_LENGTH + 4)
    note = f"{nbytes / 1e9:.1f} GB in one epoch, cache {CACHE}, {floor / 1e6:.0f} MB before"
    yield Figure(
        "large_epoch",
        "growth of resident memory, at most",
        grown,
        "MB",
        GROWTH_TARGET,
        note=note,
        scale=setting.scale,
    )
    yield Figure(
        "large_epoch",
        "committed to visible",
        seconds,
        "s",
        note=f"{nbytes / 1e6 / seconds:.0f} MB/s; staged in {staged:.0f} s",
        scale=setting.scale,
    )


def _definition() -> StoreDefinition:
    return define_store("wide", SCHEMA, ["k"], partitions=8)


def _table(keys: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Table:
    """Rows whose columns follow from the key."""
    text = pc.utf8_lpad(pa.array(np.abs(keys)).cast(pa.string()), TEXT_LENGTH, "0")
    return pa.table([keys, keys + 1, keys * 3, keys % 1000, keys // 7, text], schema=SCHEMA)


def _commit_and_watch(appender: StoreAppender, files: list[DataFile], client: Client, rows: int) -> None:
    appender.commit(files)
    while True:
        ((count,),) = rows_of(client.query(COUNT).read_all())
        check("rows of whole epochs", count in (1000, rows + 1000), True)
        if count == rows + 1000:
            return
        time.sleep(0.5)


def _check_rows(client: Client, rows: int) -> None:
    keys = np.arange(-1000, rows)
    found = client.query("SELECT count(*), sum(n0), min(k), max(length(text)) FROM wide").read_all()
    check("all rows", rows_of(found), [(len(keys), int(keys.sum()) + len(keys), -1000, TEXT_LENGTH)])
    for key in np.random.default_rng(3).integers(0, rows, 20).tolist():
        found = client.query(f"SELECT n1, text FROM wide WHERE k = {key}").read_all()
        check("a row", rows_of(found), [(key * 3, str(key).zfill(TEXT_LENGTH))])
