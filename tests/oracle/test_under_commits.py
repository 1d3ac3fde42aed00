"""Every answer is of one epoch, however many land while it is made."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from engine.model.partitioning import partition_of
from engine.model.read_point import ReadPoint
from engine.service import Session
from tests.oracle.under_commits import WAIT_SECONDS, ask_of, ask_processes, ask_under_commits, bank_cluster
from tests.support.bank import ACCOUNTS, GROUP, INVARIANTS, STORES, Invariant, check
from tests.support.oracle import expected_answer

QUERIES = 320
OVER_THE_NETWORK = 200


def test_sums_stay_zero_while_epochs_land(tmp_path: Path) -> None:
    with bank_cluster(tmp_path, 3) as (bank, cluster):
        seen = ask_under_commits(bank, [ask_of(cluster.services[host]) for host in cluster.hosts], QUERIES)
    assert seen.epochs >= 5
    assert seen.versions >= 3


def test_sums_stay_zero_in_host_processes_while_epochs_land(tmp_path: Path) -> None:
    seen, _ = ask_processes(tmp_path, 3, OVER_THE_NETWORK, 2, kill=False)
    assert seen.epochs >= 5
    assert seen.versions >= 3


def test_sums_stay_zero_while_a_host_is_killed_again_and_again(tmp_path: Path) -> None:
    seen, losses = ask_processes(tmp_path, 3, OVER_THE_NETWORK, 2, kill=True)
    assert seen.epochs >= 5
    assert losses >= 1


def test_whoever_wrote_an_epoch_reads_it_on_any_host(tmp_path: Path) -> None:
    with bank_cluster(tmp_path, 3) as (bank, cluster):
        for number in range(12):
            session = Session(read_point=ReadPoint(min_epoch=bank.step()))
            service = cluster.services[cluster.hosts[number % 3]]
            with service.execute(
                "SELECT max(version) AS v, sum(balance) AS s FROM accounts", session=session
            ) as result:
                assert result.read_all().to_pylist() == [{"v": bank.version, "s": 0}]


def test_an_answer_of_two_epochs_would_be_noticed(tmp_path: Path) -> None:
    """Half of the partitions of one store an epoch behind: that is what the checks are there to see."""
    with bank_cluster(tmp_path, 1) as (bank, cluster):
        ask = ask_of(cluster.services[cluster.hosts[0]])
        older: dict[str, pa.Table] = {store.name: ask(f"SELECT * FROM {store.name}") for store in STORES}
        cluster.wait_for({GROUP: bank.step()}, WAIT_SECONDS)
        newer: dict[str, pa.Table] = {store.name: ask(f"SELECT * FROM {store.name}") for store in STORES}
    assert all(_holds(invariant, tables) for invariant in INVARIANTS for tables in (older, newer))
    mixed = newer | {ACCOUNTS.name: _half(older[ACCOUNTS.name], newer[ACCOUNTS.name])}
    noticed = [invariant for invariant in INVARIANTS if not _holds(invariant, mixed)]
    assert len(noticed) >= len(INVARIANTS) - 4


def _half(older: pa.Table, newer: pa.Table) -> pa.Table:
    def partitions(rows: pa.Table, odd: bool) -> pa.Table:
        return rows.filter(
            pa.array(partition_of([rows.column("account")], ACCOUNTS.partitions) % 2 == int(odd))
        )

    return pa.concat_tables([partitions(older, odd=True), partitions(newer, odd=False)])


def _holds(invariant: Invariant, tables: Mapping[str, pa.Table]) -> bool:
    try:
        check(invariant, lambda sql: expected_answer(sql, tables))
    except AssertionError:
        return False
    return True
