"""A host that is killed while epochs and migrations land: after each restart it answers a whole epoch, never
an older one, and loses nothing.
"""

from __future__ import annotations

import shutil
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.kinds import Behaviour, Function, Merge, MergedColumn, Session
from engine.model.migration import AddColumn, Change, DropColumn, RenameColumn, WidenColumn
from engine.model.schema import define_store
from flight_server.client.client import Client
from tests.support.lone_host import lone_host
from tests.support.seeds import seeded_random
from tests.support.waiting import wait_until

ACCOUNTS, SEED = 200, 20261120
MINUTE = 60_000_000
TIME = pa.timestamp("us", "UTC")
AMOUNTS = [
    define_store(
        name,
        pa.schema([("account", pa.int64()), ("amount", pa.int64())]),
        ["account"],
        partitions=4,
        group="bank",
    )
    for name in ("debit", "credit")
]
FLOWS = define_store(
    "flows",
    pa.schema([("account", pa.int64()), ("total", pa.int64()), ("moves", pa.int64())]),
    ["account"],
    partitions=4,
    group="bank",
    behaviour=Behaviour(Merge((MergedColumn("total", Function.SUM), MergedColumn("moves", Function.COUNT)))),
)
VISITS = define_store(
    "visits",
    pa.schema(
        [("account", pa.int64()), ("session_start", TIME), ("session_end", TIME), ("moves", pa.int64())]
    ),
    ["account"],
    partitions=4,
    group="bank",
    behaviour=Behaviour(Session(MINUTE, (MergedColumn("moves", Function.COUNT),))),
)
STORES = [*AMOUNTS, FLOWS, VISITS]
MIGRATIONS: list[list[Change]] = [
    [AddColumn("note", pa.int32(), "1")],
    [WidenColumn("note", pa.int64())],
    [RenameColumn("note", "remark"), RenameColumn("account", "holder")],
    [DropColumn("remark"), AddColumn("remark", pa.string(), "none")],
    [AddColumn("note", pa.decimal128(9, 2), "0.5")],
]
"""Of the debits, one before each kill. Whoever writes them goes on in the first shape."""
WHILE_IT_STARTS, FOR_EACH_QUERY, WHILE_IT_DIES = 30, 3, 20
"""Epochs that land."""


class Producer:
    """Moves amounts between accounts, an epoch a move, in a thread: all amounts of both stores always sum to
    zero, and so do all flows. As many epochs land as are due: what a host has to catch up with does not hang
    on the machine.

    Attributes:
        flows: What each account has got and given in all, and how often.
    """

    def __init__(self, appender: StoreAppender) -> None:
        self.flows: dict[int, tuple[int, int]] = {}
        self._appender = appender
        self._random = seeded_random(SEED)
        self._stopping, self._due = threading.Event(), threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run)

    def order(self, epochs: int) -> None:
        """Have so many more epochs land, soon."""
        self._due.release(epochs)

    def __enter__(self) -> Producer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._due.release()
        self._thread.join()

    def _run(self) -> None:
        while self._due.acquire() and not self._stopping.is_set():
            accounts = self._random.sample(range(ACCOUNTS), 20)
            amounts = [self._random.randrange(1000) for _ in accounts]
            debit = pa.table({"account": accounts, "amount": amounts})
            credit = pa.table({"account": accounts, "amount": [-amount for amount in amounts]})
            self._appender.append(
                {"debit": debit, "credit": credit, **self._transfer_tables(accounts, amounts)}
            )

    def _transfer_tables(self, accounts: list[int], amounts: list[int]) -> dict[str, pa.Table]:
        """Each account gets its amount, and the next one gives it, at any minute of a day."""
        moved = [
            *zip(accounts, amounts, strict=True),
            *((account + 1, -amount) for account, amount in zip(accounts, amounts, strict=True)),
        ]
        for account, amount in moved:
            total, moves = self.flows.get(account, (0, 0))
            self.flows[account] = total + amount, moves + 1
        who, once = [account for account, _ in moved], [1] * len(moved)
        times = pa.array([self._random.randrange(1440) * MINUTE for _ in moved]).cast(TIME)
        flows = pa.table({"account": who, "total": [amount for _, amount in moved], "moves": once})
        return {
            "flows": flows,
            "visits": pa.table({"account": who, "session_start": times, "session_end": times, "moves": once}),
        }


TOTAL = """SELECT (SELECT coalesce(sum(amount), 0) FROM debit) + (SELECT coalesce(sum(amount), 0) FROM credit) AS total,
(SELECT coalesce(sum(total), 0) FROM flows) AS flows,
(SELECT coalesce(sum(moves), 0) FROM flows) - (SELECT coalesce(sum(moves), 0) FROM visits) AS moves"""
NOTHING = {"total": 0, "flows": 0, "moves": 0}


def epoch_of(client: Client) -> int:
    return min(int(epoch) for epoch in client.stores()["epoch"].to_pylist())


def has_reached(client: Client, epoch: int) -> Callable[[], bool]:
    return lambda: client.stores().num_rows == len(STORES) and epoch_of(client) >= epoch


def test_killed_while_epochs_land(tmp_path: Path) -> None:
    changelog, data = tmp_path / "changelog", tmp_path / "data"
    appender = open_appender(Changelog.open(str(changelog)), STORES)
    chance = seeded_random(SEED)
    seen = 0
    with Producer(appender) as producer:
        for changes in MIGRATIONS:
            producer.order(WHILE_IT_STARTS)
            with lone_host(changelog, data) as (process, client):
                wait_until(has_reached(client, seen + chance.randrange(1, WHILE_IT_STARTS)))
                Changelog.open(str(changelog)).migrate_store(AMOUNTS[0].name, changes)
                for _ in range(chance.randrange(5, 30)):
                    producer.order(FOR_EACH_QUERY)
                    assert client.query(TOTAL).read_all().to_pylist() == [NOTHING]
                producer.order(WHILE_IT_DIES)
                seen = epoch_of(client)
                process.send_signal(signal.SIGKILL)
    with lone_host(changelog, data) as (_, client):
        wait_until(has_reached(client, appender.epoch))
        kept = answers(client)
        debits = client.query("SELECT * FROM debit").read_all()
        assert debits.schema.names == ["holder", "amount", "remark", "note"]
        assert set(debits["remark"].to_pylist()) == {"none"}
        flows = client.query("SELECT account, total, moves FROM flows").read_all().to_pylist()
        assert {row["account"]: (row["total"], row["moves"]) for row in flows} == producer.flows
    shutil.rmtree(data)
    with lone_host(changelog, data) as (_, client):
        wait_until(has_reached(client, appender.epoch))
        assert answers(client) == kept, "what survived the kills differs from a rebuild out of the changelog"


def answers(client: Client) -> list[object]:
    return [
        client.query(f"SELECT * FROM {store.name} ORDER BY ALL").read_all().to_pylist() for store in STORES
    ]


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_clean_stop_ends_by_itself(tmp_path: Path, stop: signal.Signals) -> None:
    open_appender(Changelog.open(str(tmp_path / "changelog")), STORES)
    with lone_host(tmp_path / "changelog", tmp_path / "data") as (process, client):
        wait_until(lambda: client.stores().num_rows == len(STORES))
        process.send_signal(stop)
        assert process.wait(60) == 0
