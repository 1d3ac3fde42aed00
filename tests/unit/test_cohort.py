"""Where hosts that are behind stop, so that they meet."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.changelog import Changelog, open_appender, partition_rows
from engine.changelog.layout import commit_path
from engine.errors import Unavailable
from engine.model.schema import Epoch, PartitionId, StoreDefinition, StoreName, define_store
from engine.replica.changes import UnreadableRowsError
from engine.replica.cohort import Cohort, CollectedCommits
from engine.replica.commit_queue import ENOUGH_BYTES_TOGETHER, stopping_point
from engine.replica.patience import FEW_EPOCHS, FEW_ROWS
from engine.replica.reached_epoch import fingerprint_of
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import MIB, StateOptions
from tests.support.following import GROUP, define

epochs = st.integers(1, 10_000).map(Epoch)
steps = st.lists(st.integers(1, 64), min_size=300, max_size=300)


def power(epoch: int) -> int:
    """The highest power of two that divides an epoch."""
    return epoch & -epoch


@given(epochs, st.integers(0, 200))
def test_it_is_the_epoch_of_the_highest_power(first: Epoch, more: int) -> None:
    within = range(first, first + more + 1)
    stop = stopping_point(first, Epoch(first + more))
    assert stop in within
    assert all(power(other) < power(stop) for other in within if other != stop)


@given(epochs, st.integers(0, 200), st.integers(0, 200))
def test_more_epochs_never_make_it_stop_earlier(first: Epoch, fewer: int, more: int) -> None:
    assert stopping_point(first, Epoch(first + fewer)) <= stopping_point(first, Epoch(first + fewer + more))


def stops(reaches: list[int], end: int) -> set[int]:
    """Where a host stops that sees so many epochs ahead at each step."""
    at, found = Epoch(0), set[int]()
    for reach in reaches:
        if at >= end:
            break
        at = stopping_point(Epoch(at + 1), Epoch(min(at + reach, end)))
        found.add(at)
    return found


@given(steps, steps)
def test_hosts_that_see_different_stretches_meet(one: list[int], other: list[int]) -> None:
    """Each stops at every epoch of a power as high as its longest stretch, so both stop at those of the
    higher power.
    """
    end = 256
    highest = max(1 << (max(reaches) - 1).bit_length() for reaches in (one, other))
    common = stops(one, end) & stops(other, end)
    assert common >= {epoch for epoch in range(1, end + 1) if epoch % highest == 0}


def empty_partition(store: StoreDefinition, tmp_path: Path, number: int = 0) -> PartitionStore:
    """A partition without rows, in a directory of its own."""
    return PartitionStore(
        store, PartitionId(number), tmp_path / str(number), ColumnCache(MIB), StateOptions()
    )


def take(cohort: Cohort, store: StoreDefinition, *, is_readable: bool = False) -> None:
    """Apply what was found."""
    collected: CollectedCommits | None = None
    for commit in cohort.next_commits():
        following = cohort.collect(commit, {store.name: store}, collected)
        if following is None:
            break
        collected = following
    assert collected is not None
    cohort.apply(collected, is_readable=is_readable)


def epochs_taken(
    changelog: Changelog, store: StoreDefinition, partition: PartitionStore, last: Epoch
) -> list[int]:
    """How many epochs each step takes until the last one is applied."""
    found = []
    with ThreadPoolExecutor(1) as workers:
        cohort = Cohort(GROUP, changelog, workers, lambda partition: None, Epoch(0))
        cohort.partitions[store.name, PartitionId(0)] = partition
        while cohort.epoch < last:
            before = cohort.epoch
            assert cohort.look_ahead()
            take(cohort, store)
            found.append(cohort.epoch - before)
    return found


def test_no_partition_goes_on_behind_a_failure(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next try may be for more epochs: a partition that still came to these would fold rows twice."""
    store = define("debit")
    failed, done = threading.Event(), threading.Event()

    def fail(*_: object, **__: object) -> None:
        failed.set()
        raise Unavailable("The disk does not answer.")

    def wait_for_failure(*_: object, **__: object) -> None:
        failed.wait(60.0)
        done.wait(0.3)  # what does not wait for this is found out
        done.set()

    with open_appender(changelog, [store]) as appender:
        appender.append(
            {
                "debit": pa.table(
                    {"account": pa.array(range(40), pa.int64()), "amount": pa.array(range(40), pa.int64())}
                )
            }
        )
    stores = [empty_partition(store, tmp_path, number) for number in range(2)]
    with ThreadPoolExecutor(2) as workers:
        cohort = Cohort(GROUP, changelog, workers, lambda partition: None, Epoch(0))
        cohort.partitions.update(
            {(store.name, PartitionId(number)): partition for number, partition in enumerate(stores)}
        )
        while cohort.epoch < 1:
            cohort.look_ahead(last=Epoch(1))
            take(cohort, store)
        cohort.look_ahead()
        monkeypatch.setattr(stores[0], "apply", fail)
        monkeypatch.setattr(stores[1], "apply", wait_for_failure)
        with pytest.raises(Unavailable):
            take(cohort, store)
        assert done.is_set()
    for partition in stores:
        partition.close()


def test_partitions_are_compacted_once_they_are_to_be_or_an_epoch_has_failed(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges would take the interpreter from what readers wait for. Of a full disk they may make room."""
    store = define("debit")
    with open_appender(changelog, [store]) as appender:
        for account in range(2):
            appender.append({"debit": pa.table({"account": [account], "amount": [account]}, store.schema)})
    found: list[PartitionStore] = []
    with ThreadPoolExecutor(1) as workers, closing(empty_partition(store, tmp_path)) as partition:
        cohort = Cohort(GROUP, changelog, workers, found.append, Epoch(0))
        cohort.partitions.update({(store.name, PartitionId(number)): partition for number in range(2)})
        cohort.look_ahead(last=Epoch(2))
        while cohort.epoch < 2:
            take(cohort, store)
        assert not found
        cohort.request_compaction()
        cohort.request_compaction()
        assert found == [partition]

        def fail(*_: object, **__: object) -> None:
            raise Unavailable("The disk does not answer.")

        monkeypatch.setattr(PartitionStore, "apply", fail)
        cohort.look_ahead()
        with pytest.raises(Unavailable):
            take(cohort, store)
        assert found == [partition] * 2


def test_what_was_found_and_not_seen_to_count_is_not_taken(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind an epoch that was dropped there may be what never counted. What fails before that is known must
    not be passed over.
    """
    store = define("debit")
    with open_appender(changelog, [store]) as appender:
        for account in range(3):
            appender.append({"debit": pa.table({"account": [account], "amount": [account]}, store.schema)})
    partition = empty_partition(store, tmp_path)
    with ThreadPoolExecutor(1) as workers:
        cohort = Cohort(GROUP, changelog, workers, lambda partition: None, Epoch(0))
        cohort.partitions[store.name, PartitionId(0)] = partition
        while cohort.epoch < 2:
            cohort.look_ahead(last=Epoch(2))
            take(cohort, store)
        (tmp_path / "changelog" / commit_path(GROUP, Epoch(2))).unlink()

        def fail(*_: object) -> bool:
            raise RuntimeError("a defect")

        with monkeypatch.context() as patched:
            patched.setattr(Changelog, "holds", fail)
            with pytest.raises(RuntimeError):
                cohort.look_ahead()
        assert cohort.look_ahead() is None
        assert cohort.following is None
    partition.close()


def test_a_commit_that_is_not_there_any_more_is_not_tried_for_ever(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The changelog was restored to before it, and has another one of this epoch."""
    monkeypatch.setattr("engine.replica.commit_queue.LARGE_EPOCH_BYTES", 1)
    store = define("debit")
    writer = changelog.writer(GROUP, "w") if changelog.create_store(store) else None
    assert writer is not None
    rows = pa.table({"account": [1], "amount": [1]}, store.schema)
    staged = changelog.stage(GROUP, Epoch(2), {store.name: partition_rows(store, rows)}, task="t")
    writer.commit([staged])
    place = next(iter(partition_rows(store, rows)))
    partition = empty_partition(store, tmp_path, place)
    with ThreadPoolExecutor(1) as workers, closing(partition):
        cohort = Cohort(GROUP, changelog, workers, lambda partition: None, Epoch(0))
        cohort.partitions[store.name, place] = partition
        cohort.look_ahead(last=Epoch(1))
        take(cohort, store)
        cohort.look_ahead()
        changelog.discard(GROUP, [staged])
        (tmp_path / "changelog" / commit_path(GROUP, Epoch(2))).unlink()
        other = changelog.writer(GROUP, "w").epoch
        with pytest.raises(UnreadableRowsError):
            take(cohort, store)
        cohort.look_ahead()
        take(cohort, store)
        assert cohort.epoch == other == 2


def test_an_epoch_that_fails_is_met_alone(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those before it are applied; and what is too much together is not taken together again."""
    store = define("debit")
    with open_appender(changelog, [store]) as appender:
        for account in range(7):
            appender.append({"debit": pa.table({"account": [account] * 4, "amount": range(4)}, store.schema)})
    apply = PartitionStore.apply

    def fail(
        partition: PartitionStore, epoch: Epoch, rows: Iterable[pa.RecordBatch] | None, **more: Any
    ) -> object:
        if epoch == 8 or sum(batch.num_rows for batch in rows or ()) > 4:
            raise MemoryError
        return apply(partition, epoch, rows, **more)

    monkeypatch.setattr(PartitionStore, "apply", fail)
    partitions = {number: empty_partition(store, tmp_path, number) for number in map(PartitionId, range(4))}
    with ThreadPoolExecutor(1) as workers:
        cohort = Cohort(GROUP, changelog, workers, lambda partition: None, Epoch(0))
        cohort.partitions.update(
            {(store.name, number): partition for number, partition in partitions.items()}
        )
        for _ in range(20):
            with suppress(MemoryError):
                cohort.look_ahead()
                take(cohort, store)
        assert cohort.epoch == 7
        assert sum(partition.version.live_rows for partition in partitions.values()) == 6
    for partition in partitions.values():
        partition.close()


def test_epochs_of_large_rows_are_taken_a_few_at_a_time(changelog: Changelog, tmp_path: Path) -> None:
    store = define_store(
        "debit",
        pa.schema({"account": pa.int64(), "text": pa.string()}),
        ["account"],
        partitions=1,
        group=GROUP,
    )
    large = "x" * (ENOUGH_BYTES_TOGETHER // 4)
    with open_appender(changelog, [store]) as appender:
        for account in range(9):
            appender.append({"debit": pa.table({"account": [account], "text": [large]})})
        last = appender.epoch
    with closing(empty_partition(store, tmp_path)) as partition:
        assert max(epochs_taken(changelog, store, partition, last)) == 4
        assert partition.version.live_rows == 9


@pytest.mark.parametrize(
    ("epochs", "rows", "taken"),
    [
        (FEW_EPOCHS - 1, 1, [1] * FEW_EPOCHS),  # the first epoch has no rows
        (FEW_EPOCHS, 1, [4, 1]),
        (FEW_EPOCHS - 1, FEW_ROWS, [4]),
    ],
)
def test_few_epochs_of_few_rows_can_each_be_read(
    changelog: Changelog, tmp_path: Path, epochs: int, rows: int, taken: list[int]
) -> None:
    schema = pa.schema({"account": pa.int64()})
    store = define_store("debit", schema, ["account"], partitions=1, group=GROUP)
    with open_appender(changelog, [store]) as appender:
        for _ in range(epochs):
            appender.append({"debit": pa.table({"account": range(rows)})})
        last = appender.epoch
    with closing(empty_partition(store, tmp_path)) as partition:
        assert epochs_taken(changelog, store, partition, last) == taken
        assert partition.version.live_rows == rows


def test_one_after_the_other_skips_nothing() -> None:
    assert stops([1] * 10, 10) == set(range(1, 11))
    assert stops([10, 10, 10], 10) == {8, 10}


def test_nothing_is_asked_of_partitions_that_were_let_go_of(changelog: Changelog, tmp_path: Path) -> None:
    store = define("debit")
    with open_appender(changelog, [store]) as appender:
        rows = pa.table({"account": range(100), "amount": range(100)}, store.schema)
        appender.append({"debit": rows})
    compacted: list[PartitionStore] = []
    numbers = map(PartitionId, range(store.partitions))
    partitions = {(store.name, number): empty_partition(store, tmp_path, number) for number in numbers}
    with ThreadPoolExecutor(1) as workers:
        cohort = Cohort(GROUP, changelog, workers, compacted.append, Epoch(0))
        cohort.add(partitions)
        while cohort.look_ahead():
            take(cohort, store, is_readable=True)
        assert not cohort.is_written
        gone, *kept = sorted(partitions)
        partitions[gone].abandon()
        cohort.remove([gone, (StoreName("another"), PartitionId(0))])
        cohort.write()
        cohort.request_compaction()
        assert {each.identity for each in compacted} == set(kept)
        assert cohort.fingerprint == fingerprint_of(compacted)
        for key in kept:
            partitions[key].close()
