"""A host process without a disk is asked from its first moment on, killed on its way, and asked again: no
answer is from before its start.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.errors import LivestateError
from engine.model.schema import GroupName, StoreDefinition, define_store
from flight_server.client.client import Client
from tests.support.lone_host import lone_host
from tests.support.quick_directory import quick_directory
from tests.support.seeds import seeded_random
from tests.support.waiting import PATIENCE_SECONDS

EPOCHS, SEED = 1500, 20261121
SCHEMA = pa.schema([("account", pa.int64()), ("amount", pa.int64())])
BANK, SHOP = GroupName("bank"), GroupName("shop")
ACCOUNTS = define_store("accounts", SCHEMA, ["account"], partitions=4, group=BANK)
SALES = define_store("sales", SCHEMA, ["account"], partitions=2, group=SHOP)
STATEMENTS = [
    "SELECT count(*) AS n FROM accounts",
    "SELECT sum(amount) AS n FROM accounts",
    "SELECT amount AS n FROM accounts WHERE account = 0",
    "SELECT count(*) AS n FROM accounts JOIN sales USING (account)",
    "SELECT count(*) AS n FROM sales",
]
ASKERS, ANSWERS = 3, 12


def append(appender: StoreAppender, store: StoreDefinition, number: int) -> None:
    appender.append({store.name: pa.table({"account": [0, number], "amount": [number, 1]}, SCHEMA)})


@contextmanager
def producing(appender: StoreAppender) -> Iterator[None]:
    """Epochs come all the time, meanwhile."""
    stopping = threading.Event()

    def produce() -> None:
        number = EPOCHS
        # Hosts take them together, and get on.
        while not stopping.wait(0.01):
            append(appender, ACCOUNTS, number)
            number += 1

    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(produce)
        try:
            yield
        finally:
            stopping.set()
            running.result(PATIENCE_SECONDS)


def ask(uri: str, seed: int, answers: list[dict[str, int]]) -> None:
    """Ask until the host is gone, or has answered often enough; note the epochs of each answer."""
    chance = seeded_random(seed)
    with Client(uri, timeout_seconds=PATIENCE_SECONDS) as client, suppress(LivestateError):
        for _ in range(ANSWERS):
            rows = client.query(chance.choice(STATEMENTS))
            assert len(rows.read_all()) == 1
            answers.append(rows.metadata["epochs"])


@pytest.fixture
def directory() -> Iterator[Path]:
    with quick_directory() as made:
        yield made


def test_no_answer_is_from_before_the_start(directory: Path) -> None:
    changelog, data, chance = directory / "changelog", directory / "data", seeded_random(SEED)
    sales, accounts = (open_appender(Changelog.open(str(changelog)), [store]) for store in (SALES, ACCOUNTS))
    for number in range(1, EPOCHS):
        append(accounts, ACCOUNTS, number)
        if not number % 100:
            append(sales, SALES, number)
    with producing(accounts):
        for seconds in (0.0, chance.uniform(0.0, 0.5), None):
            least = {BANK: accounts.epoch, SHOP: sales.epoch}
            answers: list[dict[str, int]] = []
            with lone_host(changelog, data) as (process, client), ThreadPoolExecutor(ASKERS) as pool:
                asking = [pool.submit(ask, client.uri, SEED + number, answers) for number in range(ASKERS)]
                if seconds is not None:
                    threading.Event().wait(seconds)
                    process.kill()
                for each in asking:
                    each.result(PATIENCE_SECONDS)
            assert all(
                epoch >= least[GroupName(group)] for epochs in answers for group, epoch in epochs.items()
            ), (least, answers)
    assert len(answers) == ASKERS * ANSWERS, "a host that is left alone did not answer"
