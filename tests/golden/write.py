"""Write what the tests keep of this version's formats.

    python -m tests.golden.write NAME

Makes `tests/golden/NAME`, to be committed when a format has changed, and never written again. A changelog has
two store groups with kinds of stores, tombstones, a staged file, a snapshot, a migration and a switch; or, if
the name begins with `further`, what only large partitions have (runs of dead rows, sketches of columns), what
many of a store share, sessions with all functions, and what goes by the time of a row or of its commit. From
a host's data directory come the pairs that its partitions' RocksDB have. `rows.json` has the rows that a host
answers. Times and names drawn at random differ from run to run.
"""

from __future__ import annotations

import datetime as dt
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from unittest import mock

import pyarrow as pa

from engine.changelog import Changelog, open_appender, partition_rows
from engine.model.kinds import (
    Behaviour,
    Function,
    KeyValue,
    Merge,
    MergedColumn,
    Retention,
    Session,
    Versioned,
)
from engine.model.migration import parse_changes
from engine.model.schema import GroupName, StoreDefinition, StoreName, define_store
from engine.producers.partial_rows import partial_rows, session_fragments
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.replica.snapshot_options import SnapshotOptions
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.support.following import live_rows, run_follower
from tests.support.waiting import wait_until

GOLDEN = Path(__file__).parent
MUSIC, SALES = GroupName("music"), GroupName("sales")
OPTIONS = FollowerOptions(
    poll_seconds=0.01,
    state=StateOptions(block_rows=16, paged_rows=8, cache_bytes=256),
    snapshots=SnapshotOptions(after_bytes=5 * 256 * 1024),
)
SONGS = define_store(
    "songs",
    pa.schema(
        [("id", pa.int64()), ("title", pa.string()), ("plays", pa.int32()), ("tags", pa.list_(pa.string()))]
    ),
    ["id"],
    partitions=2,
    group=MUSIC,
)
LATEST = define_store(
    "latest",
    pa.schema([("k", pa.string()), ("seen", pa.timestamp("us")), ("v", pa.float64())]),
    ["k"],
    partitions=2,
    group=MUSIC,
    behaviour=Behaviour(KeyValue("seen")),
)
RATES = define_store(
    "rates",
    pa.schema([("currency", pa.string()), ("at", pa.timestamp("us")), ("rate", pa.decimal128(10, 4))]),
    ["currency"],
    partitions=2,
    group=MUSIC,
    behaviour=Behaviour(Versioned("at")),
)
COLUMNS = (
    MergedColumn("total", Function.SUM, of="amount"),
    MergedColumn("n", Function.COUNT),
    MergedColumn("best", Function.MAX, of="amount"),
)
LARGE, SHARED, VISITS, RECENT = (StoreName(name) for name in ("large", "shared", "visits", "recent"))
VISIT = Session(
    60_000_000,
    (
        *COLUMNS,
        MergedColumn("least", Function.MIN, of="amount"),
        MergedColumn("mean", Function.AVG, of="amount"),
        MergedColumn("opening", Function.FIRST, of="amount", by="at"),
        MergedColumn("closing", Function.LAST, of="amount", by="at"),
        MergedColumn("amounts", Function.COUNT_DISTINCT, of="amount"),
        MergedColumn("middle", Function.QUANTILES, of="amount", ranks=(0.5, 0.9)),
    ),
)


def write(directory: Path) -> None:
    """Make a directory of golden files."""

    def append(changelog: Changelog, host: Follower) -> None:
        _append_music(changelog, host)
        _append_sales(changelog)
        _settle(changelog, host)
        _migrate(changelog, host)

    _write(directory, append)


def write_further(directory: Path) -> None:
    """Make a directory of golden files of what is rare."""
    # As large partitions are.
    with (
        mock.patch("engine.state.delete_vector.BITS_ONLY_ROWS", 16),
        mock.patch("engine.state.segment_builder.LEAST_SKETCHED_ROWS", 16),
    ):
        _write(directory, _append_further)


def _write(directory: Path, append: Callable[[Changelog, Follower], None]) -> None:
    changelog = Changelog.open(str(directory / "changelog"))
    with tempfile.TemporaryDirectory() as data:
        with run_follower(changelog, Path(data), OPTIONS) as host:
            append(changelog, host)
            rows = host_rows(host, sorted(changelog.definitions()))
        _write_pairs(Path(data), directory)
    epochs = {group: changelog.newest_epoch(group) for group in changelog.groups()}
    (directory / "rows.json").write_text(json.dumps({"epochs": epochs, "rows": rows}, indent=1))


def host_rows(host: Follower, stores: Iterable[StoreName]) -> dict[str, list[list[str]]]:
    """All stored rows of stores, as the texts of their values, sorted."""
    with host.pin_views(list(stores)) as views:
        return {
            name: sorted([repr(value) for value in row.values()] for row in live_rows(view).to_pylist())
            for name, view in views.items()
        }


def _append_music(changelog: Changelog, host: Follower) -> None:
    definitions = [SONGS, LATEST, RATES]
    appender = open_appender(changelog, definitions)
    first = [
        (number, f"title {number}", number * 2, ["x", None] if number % 3 else None) for number in range(60)
    ]
    appender.append({"songs": _table(SONGS, first)})
    appender.append(
        {
            "latest": _table(LATEST, [("a", _second(3), 1.5), ("b", _second(1), None), ("c", None, 2.0)]),
            "rates": _table(
                RATES, [("EUR", _second(1), Decimal("1.1000")), ("USD", _second(1), Decimal("0.9000"))]
            ),
        }
    )
    _settle(changelog, host)
    writer = changelog.writer(MUSIC, "a task")
    placed = partition_rows(
        SONGS, _table(SONGS, [(number, "again", -number, []) for number in range(10, 20)])
    )
    writer.commit([changelog.stage(MUSIC, writer.next_epoch, {SONGS.name: placed}, task="task")])
    appender = open_appender(changelog, definitions)
    gone = _table(SONGS, [(number, "", 0, None) for number in (1, 2, 30)]).append_column("gone", [[True] * 3])
    appender.append({"songs": gone}, tombstone_column="gone", query_id="job", batch_id=4)
    appender.append(
        {
            "latest": _table(LATEST, [("a", _second(2), 9.0), ("b", _second(5), 8.0)]),
            "rates": _table(RATES, [("EUR", _second(9), Decimal("1.2000"))]),
        }
    )


def _append_sales(changelog: Changelog) -> None:
    first = _partial_sales(("a", 5), ("b", 7), ("a", 2))
    store = define_store(
        "sales", first.schema, ["shop"], partitions=2, group=SALES, behaviour=Behaviour(Merge(COLUMNS))
    )
    appender = open_appender(changelog, [store])
    appender.append({"sales": first})
    appender.append({"sales": _partial_sales(("a", 50), ("c", 1))})


def _partial_sales(*events: tuple[str, int]) -> pa.Table:
    shops, amounts = zip(*events, strict=True)
    return partial_rows(pa.table({"shop": shops, "amount": pa.array(amounts, pa.int64())}), ["shop"], COLUMNS)


def _append_further(changelog: Changelog, host: Follower) -> None:
    numbered = pa.schema([("k", pa.int64()), ("v", pa.string())])
    for name, partitions in ((LARGE, 1), (SHARED, 256)):
        appender = open_appender(changelog, [define_store(name, numbered, ["k"], partitions=partitions)])
        for first, count, value in ((0, 120, "a"), (40, 2, "b"), (90, 1, "c")):
            keys = range(first, first + count)
            appender.append({name: pa.table({"k": keys, "v": [f"{value}{key % 7}" for key in keys]})})
            _settle(changelog, host)
    events = pa.table(
        {
            "user": ["ann", "ann", "bob", "ann"],
            "at": pa.array([_second(number) for number in (0, 30, 40, 200)], pa.timestamp("us")),
            "amount": pa.array([5, 7, 1, 2], pa.int64()),
        }
    )
    fragments = session_fragments(events, ["user"], VISIT, "at")
    visits = define_store(
        VISITS,
        fragments.schema,
        ["user"],
        partitions=1,
        behaviour=Behaviour(VISIT, Retention(3_600_000_000, VISIT.end)),
    )
    appender = open_appender(changelog, [visits])
    appender.append({VISITS: fragments})
    watermark = dt.datetime.fromtimestamp(_second(3_635) / 1e6, dt.UTC)
    appender.append({VISITS: fragments.slice(2)}, watermark=watermark)
    kept = Behaviour(retention=Retention(86_400_000_000_000), is_global=True)
    recent = define_store(RECENT, numbered, ["k"], partitions=1, behaviour=kept)
    open_appender(changelog, [recent]).append({RECENT: pa.table({"k": [1, 2], "v": ["x", None]})})
    _settle(changelog, host)


def _migrate(changelog: Changelog, host: Follower) -> None:
    wait_until(lambda: bool(changelog.snapshots(MUSIC).epochs()))
    changes = parse_changes(["rating DOUBLE DEFAULT 0.5"], [], ["title=name"], ["plays=BIGINT"])
    changelog.migrate_store(SONGS.name, changes)
    newest = changelog.definition(SONGS.name)
    assert newest is not None
    rows = [(7, "seven", 7, ["t"], 1.0), (70, "seventy", 2**40, None, None)]
    open_appender(changelog, [newest], query_ids=["job"]).append({"songs": _table(newest, rows)})
    changelog.switch(StoreName("charts"), SONGS.name)
    _settle(changelog, host)


def _table(store: StoreDefinition, rows: Sequence[tuple[object, ...]]) -> pa.Table:
    schema = store.row_schema
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)


def _second(number: int) -> int:
    """A second of 2026-05-01 12:00 UTC, microseconds since 1970."""
    return (1_777_636_800 + number) * 1_000_000


def _settle(changelog: Changelog, host: Follower) -> None:
    for group in changelog.groups():
        assert host.wait_for(group, changelog.newest_epoch(group), 60)


def _write_pairs(data: Path, directory: Path) -> None:
    """The pairs of all partitions of a data directory, and what else is in it."""
    pairs = []
    for current in sorted(data.rglob("CURRENT")):
        with closing(Rocks(current.parent, OPTIONS.state)) as rocks:
            place = str(current.parent.relative_to(data))
            pairs += [{"partition": place, "key": key, "value": value} for key, value in rocks.pairs(b"")]
    schema = pa.schema([("partition", pa.string()), ("key", pa.binary()), ("value", pa.binary())])
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_file(str(directory / "pairs.arrow"), schema, options=options) as writer:
        writer.write_table(pa.Table.from_pylist(pairs, schema=schema))
    shutil.copy(data / "livestate.json", directory / "livestate.json")


if __name__ == "__main__":
    (write_further if sys.argv[1].startswith("further") else write)(GOLDEN / sys.argv[1])
