"""SHOW STORES and DESCRIBE of stores of all kinds, and what `livestate stores` makes of it."""

from __future__ import annotations

import io

import pyarrow as pa
import pytest
from rich.console import Console

from engine.catalog.show import STORES_SCHEMA, describe_store, show_stores
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
from engine.model.schema import Epoch, StoreDefinition, StoreName, define_store
from engine.scan import StoreStatus
from flight_server.cli.store_tables import stores_table

DAY = 86_400_000_000
TIME = pa.timestamp("us", "UTC")
COLUMNS = {"shop": pa.string(), "item": pa.string(), "at": TIME, "price": pa.float64()}
LAST = MergedColumn("title", Function.LAST, "name", "at")
PLAIN = define_store("plain", pa.schema(COLUMNS), ["shop", "item"], partition_by=["shop"])
LATEST = define_store(
    "latest",
    pa.schema(COLUMNS),
    ["shop"],
    behaviour=Behaviour(KeyValue("at"), Retention(7 * DAY, "at"), is_global=True),
)
MERGED = define_store(
    "merged",
    pa.schema({"shop": pa.string(), "title": pa.string(), "__title_at": TIME, "sales": pa.int64()}),
    ["shop"],
    behaviour=Behaviour(Merge((LAST, MergedColumn("sales", Function.COUNT))), Retention(DAY), in_memory=True),
)
SESSIONS = define_store(
    "sessions",
    pa.schema({"shop": pa.string(), "session_start": TIME, "session_end": TIME}),
    ["shop"],
    behaviour=Behaviour(Session(1_800_000_000), Retention(DAY, "session_end")),
)
VERSIONS = define_store("versions", pa.schema(COLUMNS), ["shop"], behaviour=Behaviour(Versioned("at")))
STORES = {store.name: store for store in (PLAIN, LATEST, MERGED, SESSIONS, VERSIONS)}


def status(definition: StoreDefinition) -> StoreStatus:
    return StoreStatus(definition.name, definition.group, Epoch(3), Epoch(4), 0.5, 10, 12, 100, 8, 9, "")


SHOWN = show_stores([status(store) for store in STORES.values()], STORES, STORES)


def test_a_store_that_is_found_at_this_moment_is_shown_later() -> None:
    first, *others = STORES
    known = {name: STORES[name] for name in others}
    shown = show_stores([status(store) for store in STORES.values()], known, known)
    assert first not in shown["store"].to_pylist()
    assert shown.num_rows == len(others)


def test_show_stores_says_what_the_stores_are() -> None:
    assert SHOWN.schema == STORES_SCHEMA
    names = ["kind", "key", "partition_by", "retention", "is_global", "in_memory"]
    assert [tuple(row.values()) for row in SHOWN.select(names).to_pylist()] == [
        ("key-value", "shop, item", "shop", None, False, False),
        ("key-value, latest by at", "shop", "shop", "7 days by at", True, False),
        ("merge", "shop", "shop", "1 day by commit", False, True),
        ("session, gap 30 minutes", "shop, session_start", "shop", "1 day by session_end", False, False),
        ("versioned by at", "shop, at", "shop", None, False, False),
    ]
    assert SHOWN.slice(0, 1).drop_columns(names).to_pylist() == [
        {
            "store": "plain",
            "store_group": "plain",
            "sql_names": "plain",
            "epoch": 3,
            "newest_epoch": 4,
            "lag_seconds": 0.5,
            "rows": 10,
            "stored_rows": 12,
            "bytes": 100,
            "partitions": 8,
            "segments": 9,
            "problem": "",
            "skipped": None,
        }
    ]


@pytest.mark.parametrize(
    ("definition", "extra"),
    [
        (PLAIN, {"shop": "places rows"}),
        (LATEST, {"shop": "places rows", "at": "latest wins, retention 7 days"}),
        (MERGED, {"shop": "places rows", "title": "last(name by at)", "sales": "count()"}),
        (
            SESSIONS,
            {
                "shop": "places rows",
                "session_start": "start of the session",
                "session_end": "end of the session, retention 1 day",
            },
        ),
        (VERSIONS, {"shop": "places rows", "at": "start of the version", "valid_to": "end of the version"}),
    ],
    ids=list(STORES),
)
def test_describe_says_what_columns_are_for(definition: StoreDefinition, extra: dict[str, str]) -> None:
    described = describe_store(definition).to_pylist()
    assert [row["column_name"] for row in described] == definition.schema.names
    assert {row["column_name"]: row["extra"] for row in described if row["extra"]} == extra


def print_stores(status: pa.Table) -> list[str]:
    console = Console(file=io.StringIO(), width=110)
    console.print(stores_table(status))
    assert isinstance(console.file, io.StringIO)
    return [" ".join(line.split()) for line in console.file.getvalue().splitlines()]


def test_switched_names_are_told() -> None:
    shown = show_stores(
        [status(PLAIN), status(LATEST), status(VERSIONS)],
        STORES,
        STORES | {PLAIN.name: LATEST, StoreName("best"): VERSIONS},
    )
    assert shown.column("sql_names").to_pylist() == [None, "latest, plain", "best, versions"]
    assert print_stores(shown)[2:5] == [
        "plain no name key-value shop, item shop for ever",
        "latest latest, plain key-value, latest by at, global shop shop 7 days by at",
        "versions best, versions versioned by at shop, at shop for ever",
    ]


def test_a_terminal_shows_it_on_lines_of_their_own() -> None:
    assert print_stores(SHOWN)[2:7] == [
        "plain key-value shop, item shop for ever",
        "latest key-value, latest by at, global shop shop 7 days by at",
        "merged merge, in memory shop shop 1 day by commit",
        "sessions session, gap 30 minutes shop, session_start shop 1 day by session_end",
        "versions versioned by at shop, at shop for ever",
    ]
