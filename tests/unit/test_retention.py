"""What a host can be asked for: its own partitions, at the newest epoch and at those that it retains, and
what it says of that.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.cluster.reports import GroupReport, StoreReport
from engine.errors import LimitExceeded, NotFound, Unavailable
from engine.model.partitioning import partition_of
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from engine.replica import group_views
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.scan import RowFilter
from engine.state.state_options import StateOptions
from tests.support import following as support
from tests.support.following import GROUP, PARTITIONS, contents, define
from tests.support.waiting import wait_until

FOREVER = 3600.0
WAIT_SECONDS = 60.0
OPTIONS = replace(support.OPTIONS, retention_seconds=FOREVER, retained_epochs=1000)
DEBIT, CREDIT = define("debit"), define("credit")
ACCOUNTS = 40


def rows(amount: int) -> pa.Table:
    return pa.table(
        {
            "account": pa.array(range(ACCOUNTS), pa.int64()),
            "amount": pa.array([amount] * ACCOUNTS, pa.int64()),
        }
    )


def held(*numbers: int) -> FollowerOptions:
    return replace(OPTIONS, held=lambda definition: [PartitionId(number) for number in numbers])


def following(
    changelog: Changelog, directory: Path, options: FollowerOptions = OPTIONS
) -> AbstractContextManager[Follower]:
    return support.run_follower(changelog, directory, options)


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [DEBIT])


def read(
    follower: Follower, epoch: Epoch | None = None, partitions: Sequence[int] | None = None
) -> dict[int, int]:
    numbers = None if partitions is None else {DEBIT.name: [PartitionId(number) for number in partitions]}
    with follower.pin_views([DEBIT.name], None if epoch is None else {GROUP: epoch}, numbers) as views:
        assert epoch is None or views[DEBIT.name].epoch == epoch
        return contents(views[DEBIT.name])


def append_each(appender: StoreAppender, follower: Follower, amounts: Sequence[int]) -> dict[Epoch, int]:
    """An epoch for each amount, each seen before the next one is written."""
    found = {}
    for amount in amounts:
        epoch = appender.append({"debit": rows(amount)}).epoch
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        found[epoch] = amount
    return found


def reports_of(follower: Follower) -> tuple[GroupReport, StoreReport]:
    groups, stores = follower.report()
    return groups[GROUP], stores[DEBIT.name]


# ---- epochs


def test_retained_epochs_stay_as_they_were(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data") as follower:
        amounts = append_each(appender, follower, range(30))
        assert follower.wait_until_compact(WAIT_SECONDS)
        for epoch, amount in amounts.items():
            assert read(follower, epoch) == dict.fromkeys(range(ACCOUNTS), amount)
        assert follower.status()[0].segments < 30 * PARTITIONS, "nothing was merged"


def test_the_report_lists_what_can_be_read(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data") as follower:
        amounts = append_each(appender, follower, range(5))
        group, store = reports_of(follower)
        readable = [entry.epoch for entry in group.readable]
        assert readable[-5:] == list(amounts)
        assert (group.newest_known, group.unread_since) == (max(amounts), None)
        for entry in group.readable:
            commit = changelog.read_commit(GROUP, entry.epoch) if entry.epoch else None
            assert entry.committed_at == (commit.committed_at if commit else 0)
            read(follower, entry.epoch)
        assert store.partitions == tuple(range(PARTITIONS))
        assert (store.rows, store.rebuilding) == (ACCOUNTS, ())
        assert store.stored_rows >= store.rows
        wait_until(lambda: reports_of(follower)[0].looked_at > group.looked_at)


def test_only_so_many_epochs_are_retained(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", replace(OPTIONS, retained_epochs=3)) as follower:
        amounts = append_each(appender, follower, range(8))
        kept = list(amounts)[-3:]
        assert [entry.epoch for entry in reports_of(follower)[0].readable] == kept
        assert [read(follower, epoch)[0] for epoch in kept] == [5, 6, 7]
        with pytest.raises(
            Unavailable,
            match=rf"Group bank cannot be read at epoch {kept[0] - 1} .* there are: {kept[0]} to {kept[-1]}\.",
        ):
            read(follower, Epoch(kept[0] - 1))
        with pytest.raises(Unavailable, match=f"at epoch {kept[-1] + 1} "):
            read(follower, Epoch(kept[-1] + 1))


def test_memory_of_retained_epochs_is_bounded(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """Each epoch makes one more row of the first segment dead: a delete vector of its own, which the epochs
    after it do without.
    """
    placed = partition_of([pa.array(range(ACCOUNTS), pa.int64())], PARTITIONS)
    together = [account for account in range(ACCOUNTS) if placed[account] == placed[0]]
    vector_bytes = (len(together) + 7) // 8
    uncompacted = StateOptions(fan_out=1000, dead_share=2.0)
    for retained_bytes, expected in ((0, 1), (2 * vector_bytes, 3), (1 << 20, len(together) - 2)):
        options = replace(OPTIONS, retained_bytes=retained_bytes, state=uncompacted)
        with following(changelog, tmp_path / str(retained_bytes), options) as follower:
            epoch = max(append_each(appender, follower, [retained_bytes]))
            for account in together[:-1]:
                epoch = appender.append({"debit": rows(1).slice(account, 1)}).epoch
                assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
            readable = [entry.epoch for entry in reports_of(follower)[0].readable]
            assert readable[-1] == epoch
            assert len(readable) == expected if retained_bytes < 1 << 20 else len(readable) >= expected


def test_epochs_expire_though_no_newer_ones_come(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(
        changelog, tmp_path / "data", replace(OPTIONS, retention_seconds=0.3, poll_seconds=FOREVER)
    ) as follower:
        first = appender.append({"debit": rows(1)}).epoch
        follower.notify()
        assert follower.wait_for(GROUP, first, WAIT_SECONDS)
        follower.notify()
        second = appender.append({"debit": rows(2)}).epoch
        follower.notify()
        assert follower.wait_for(GROUP, second, WAIT_SECONDS)
        wait_until(lambda: [entry.epoch for entry in reports_of(follower)[0].readable] == [second])
        with pytest.raises(Unavailable, match=f"at epoch {first} "):
            read(follower, first)
        assert read(follower) == read(follower, second) == dict.fromkeys(range(ACCOUNTS), 2)


def test_a_held_epoch_stays_beyond_its_retention(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", replace(OPTIONS, retention_seconds=0.0)) as follower:
        (held,) = append_each(appender, follower, [1])
        follower.hold({GROUP: held}, 600.0)
        follower.hold({GROUP: held}, 0.001)
        later = append_each(appender, follower, [2, 3, 4])
        newest = max(later)
        wait_until(lambda: [entry.epoch for entry in reports_of(follower)[0].readable] == [held, newest])
        assert read(follower, held) == dict.fromkeys(range(ACCOUNTS), 1)
        with pytest.raises(Unavailable, match=f"at epoch {min(later)} .* there are: {held}, {newest}\\."):
            follower.hold({GROUP: min(later)}, 1.0)
        with pytest.raises(NotFound, match="no store group nothing"):
            follower.hold({GroupName("nothing"): held}, 1.0)


def test_a_hold_ends(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    with following(changelog, tmp_path / "data", replace(OPTIONS, retention_seconds=0.0)) as follower:
        (first,) = append_each(appender, follower, [1])
        follower.hold({GROUP: first}, 0.2)
        (second,) = append_each(appender, follower, [2])
        wait_until(lambda: [entry.epoch for entry in reports_of(follower)[0].readable] == [second])


def test_only_so_many_epochs_are_held(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(group_views, "MOST_HELD", 2)
    with following(changelog, tmp_path / "data") as follower:
        first, second, third = append_each(appender, follower, [1, 2, 3])
        follower.hold({GROUP: first}, 600.0)
        follower.hold({GROUP: second}, 600.0)
        follower.hold({GROUP: first}, 600.0)
        with pytest.raises(
            LimitExceeded, match=r"Readers hold 2 epochs of group bank with [\d,]+ bytes, as many as may be"
        ):
            follower.hold({GROUP: third}, 600.0)


def test_held_epochs_take_only_so_much_memory(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", replace(OPTIONS, retained_bytes=0)) as follower:
        (first,) = append_each(appender, follower, [1])
        follower.hold({GROUP: first}, 600.0)
        (second,) = append_each(appender, follower, [2])
        with pytest.raises(
            LimitExceeded,
            match=r"Readers hold 1 epoch of group bank with [1-9][\d,]* bytes, as many as may be",
        ):
            follower.hold({GROUP: second}, 600.0)
        follower.hold({GROUP: first}, 600.0)
        assert read(follower, first) == dict.fromkeys(range(ACCOUNTS), 1)


def test_a_query_keeps_an_epoch_that_has_expired(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", replace(OPTIONS, retention_seconds=0.0)) as follower:
        append_each(appender, follower, [1])
        whole = follower.pin_views([DEBIT.name])
        part = follower.pin_views([DEBIT.name], None, {DEBIT.name: [PartitionId(0)]})
        append_each(appender, follower, range(2, 20))
        with whole as views:
            assert contents(views[DEBIT.name]) == dict.fromkeys(range(ACCOUNTS), 1)
        del whole, views
        assert follower.status()[0].pinned_epochs == 1
        with part as views:
            assert set(contents(views[DEBIT.name]).values()) == {1}
        del part, views
        assert follower.status()[0].pinned_epochs == 0


def test_a_store_is_not_there_before_it_joined(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data") as follower:
        before = max(append_each(appender, follower, [1, 2]))
        both = open_appender(changelog, [DEBIT, CREDIT])
        after = both.append({"debit": rows(3), "credit": rows(-3)}).epoch
        assert follower.wait_for(GROUP, after, WAIT_SECONDS)
        _, stores = follower.report()
        assert stores[DEBIT.name].since <= before < stores[CREDIT.name].since <= after
        with pytest.raises(NotFound, match=f"no store credit at epoch {before}"):
            follower.pin_views([CREDIT.name], {GROUP: before})
        with follower.pin_views([DEBIT.name, CREDIT.name], {GROUP: after}) as views:
            assert {view.epoch for view in views.values()} == {after}


def test_changes_are_told(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    follower = Follower(changelog, tmp_path / "data", OPTIONS)
    seen: list[Epoch] = []
    change_was_told = threading.Event()

    def listener() -> None:
        seen.append(reports_of(follower)[0].readable[-1].epoch)
        change_was_told.set()

    follower.add_listener(listener)
    follower.start()
    try:
        for amount in range(3):
            change_was_told.clear()
            epoch = appender.append({"debit": rows(amount)}).epoch
            wait_until(lambda epoch=epoch: epoch in seen)  # type: ignore[misc]
        assert change_was_told.wait(WAIT_SECONDS)
        assert seen == sorted(seen)
    finally:
        follower.stop()


# ---- partitions


def test_hosts_with_parts_have_the_whole_together(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with (
        following(changelog, tmp_path / "one", held(0, 3)) as one,
        following(changelog, tmp_path / "other", held(1, 2)) as other,
    ):
        epoch = max(append_each(appender, one, range(3)))
        assert other.wait_for(GROUP, epoch, WAIT_SECONDS)
        assert reports_of(one)[1].partitions == (0, 3)
        assert reports_of(other)[1].partitions == (1, 2)
        parts = [read(one, epoch, [0, 3]), read(other, epoch, [1, 2])]
        assert parts[0].keys().isdisjoint(parts[1])
        assert parts[0] | parts[1] == dict.fromkeys(range(ACCOUNTS), 2)
        assert (tmp_path / "one" / "bank" / "debit" / "0").is_dir()
        assert not (tmp_path / "one" / "bank" / "debit" / "1").exists()
        assert (
            sum(
                len(read(host, epoch, [number]))
                for host, number in ((one, 0), (other, 1), (other, 2), (one, 3))
            )
            == ACCOUNTS
        )


def test_a_part_is_never_taken_for_the_whole(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", held(0, 3)) as follower:
        epoch = max(append_each(appender, follower, range(3)))
        with pytest.raises(
            Unavailable, match="Partitions 1, 2 of store debit cannot be read on this host at epoch"
        ):
            read(follower)
        with pytest.raises(
            Unavailable, match="Partition 2 of store debit cannot be read on this host at epoch"
        ):
            read(follower, epoch, [0, 2])
        assert follower.status()[0].partitions == 2


def test_a_store_that_comes_with_a_later_epoch() -> None:
    view = group_views.GroupView(GroupName("bank"), Epoch(73), 0, {})
    with pytest.raises(NotFound) as caught:
        view.store(StoreName("debit"), None)
    assert str(caught.value) == (
        "There is no store debit at epoch 73 of group bank: read a newer epoch, or try again shortly if it was "
        "made just now."
    )


def test_a_view_of_some_partitions(changelog: Changelog, appender: StoreAppender, tmp_path: Path) -> None:
    """Points that fall on other partitions are not there; everything else is as ever."""
    points = pa.record_batch([pa.array([*range(ACCOUNTS), 5])], ["account"])
    with following(changelog, tmp_path / "data") as follower:
        append_each(appender, follower, range(3))
        expected = read(follower, None, [1, 2])
        assert 0 < len(expected) < ACCOUNTS
        with follower.pin_views([DEBIT.name], None, {DEBIT.name: [PartitionId(1), PartitionId(2)]}) as views:
            view = views[DEBIT.name]
            found = view.lookup(["account"], points)
            assert sorted(found.column(0).to_pylist()) == sorted(expected)
            assert view.scan(["account"], RowFilter(points)).to_table().num_rows == len(expected)
            single = [view.lookup(["account"], points.slice(place, 1)).num_rows for place in range(ACCOUNTS)]
            schema = pa.schema([("amount", pa.int64())])
            assert single == [int(account in expected) for account in range(ACCOUNTS)]
            assert [view.row(account, [1], schema) is not None for account in range(ACCOUNTS)] == [
                account in expected for account in range(ACCOUNTS)
            ]
            assert view.scan(["account"]).statistics.partitions == 2
        with follower.pin_views([DEBIT.name], None, {DEBIT.name: []}) as views:
            assert contents(views[DEBIT.name]) == {}
        with follower.pin_views([DEBIT.name], {GROUP: Epoch(999)}, {DEBIT.name: []}) as views:
            assert contents(views[DEBIT.name]) == {}


def test_a_host_without_partitions_of_a_group(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    for amount in range(3):
        appender.append({"debit": rows(amount)})
    with following(changelog, tmp_path / "data", held()) as follower:
        assert follower.definitions() == {DEBIT.name: DEBIT}
        epoch = appender.append({"debit": rows(9)}).epoch
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        group, store = reports_of(follower)
        assert (group.newest_known, store.partitions, store.rows) == (epoch, (), 0)


def test_partitions_that_come_later_are_rebuilt_beside_the_others(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with following(changelog, tmp_path / "data", held(0, 1)) as follower:
        amounts = append_each(appender, follower, range(5))
    lost = next((tmp_path / "changelog").rglob(f"{min(amounts):020d}.commit"))
    away = lost.rename(lost.with_suffix(".away"))
    with following(changelog, tmp_path / "data", held(0, 1, 2)) as follower:
        epoch = appender.append({"debit": rows(77)}).epoch
        wait_until(lambda: reports_of(follower)[0].readable[-1].epoch == epoch)
        group, store = reports_of(follower)
        assert (store.partitions, store.rebuilding) == ((0, 1), (2,))
        assert set(read(follower, epoch, [0, 1]).values()) == {77}
        with pytest.raises(Unavailable, match="Partition 2 of store debit cannot be read"):
            read(follower, epoch, [0, 1, 2])
        assert not follower.wait_for(GROUP, epoch, 0.1)
        (status,) = follower.status()
        assert status.epoch < status.newest_epoch == epoch
        away.rename(lost)
        assert follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        group, store = reports_of(follower)
        assert (store.partitions, store.rebuilding, store.since) == ((0, 1, 2), (), epoch)
        assert set(read(follower, epoch, [0, 1, 2]).values()) == {77}
        assert len(read(follower, epoch, [2])) > 0
        assert group.readable[-1].epoch == epoch
