"""Replicas compare their rows at the epochs of snapshots: what differs is told, built again, and in no
snapshot, and no epoch goes before all have the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from engine.changelog import Changelog, SnapshotRetention, StoreAppender, open_appender
from engine.changelog.snapshot import EPOCH_WEIGHT, HostChecksums, disputed_partitions
from engine.errors import LivestateError
from engine.model.row_checksum import RowChecksum
from engine.model.schema import Epoch, PartitionId, StoreName
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.replica.group_setup import ASIDE
from engine.replica.snapshot_options import SnapshotOptions
from engine.state.formats import encode_block
from engine.state.rocks import Rocks
from engine.state.state_options import StateOptions
from tests.support.following import GROUP, OPTIONS, contents, define, run_follower
from tests.support.waiting import PATIENCE_SECONDS, wait_until

ACCOUNTS = define("accounts")
NUMBERS = 60
EPOCHS_BETWEEN = 8
PARTITION = Path("bank", "accounts", "2")


def options(host: str, hosts: int, silent_seconds: float = 3600.0) -> FollowerOptions:
    """Of a host that has all partitions, as the others do. It waits for none that is not there."""
    snapshots = SnapshotOptions(
        EPOCHS_BETWEEN * EPOCH_WEIGHT,
        SnapshotRetention(kept=1, tail_seconds=0),
        rank=lambda definition, partition: "abc".index(host),
        patience_seconds=min(SnapshotOptions.patience_seconds, silent_seconds),
        look_seconds=0.01,
        replicas=lambda definition, partition: hosts,
        host=host,
        silent_seconds=silent_seconds,
    )
    return replace(OPTIONS, snapshots=snapshots)


def append(appender: StoreAppender, amount: int, times: int = 1) -> Epoch:
    for _ in range(times):
        rows = pa.table({"account": range(NUMBERS), "amount": [amount] * NUMBERS})
        newest = appender.append({"accounts": rows}).epoch
    return newest


def amounts(follower: Follower) -> set[int]:
    """The amounts that a host answers; none where it does not."""
    try:
        with follower.pin_views([ACCOUNTS.name]) as views:
            found = contents(views[ACCOUNTS.name])
    except LivestateError:
        return set()
    assert found.keys() == set(range(NUMBERS))
    return set(found.values())


def alter(directory: Path) -> None:
    """Other amounts, which no checksum on the disk tells from what was written."""
    with closing(Rocks(directory / PARTITION, StateOptions())) as rocks:
        schema = pa.schema([("column", pa.int64())])
        blocks = {key: value for key, value in rocks.pairs(b"b") if int.from_bytes(key[9:11], "big") == 1}
        assert blocks
        rocks.write_atomically(
            [
                (key, encode_block(pc.add(pa.ipc.read_record_batch(pa.py_buffer(value), schema)[0], 1000)))
                for key, value in blocks.items()
            ]
        )


@contextmanager
def run_hosts(
    changelog: Changelog, directory: Path, hosts: str, silent_seconds: float = 3600.0
) -> Iterator[Sequence[Follower]]:
    with ExitStack() as running:
        yield [
            running.enter_context(
                run_follower(changelog, directory / host, options(host, len(hosts), silent_seconds))
            )
            for host in hosts
        ]


def is_aside(directory: Path, host: str) -> bool:
    return (directory / host / ASIDE / PARTITION).exists()


def wait_for_epoch(followers: Sequence[Follower], epoch: Epoch) -> None:
    for follower in followers:
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)


def problems(followers: Sequence[Follower]) -> Callable[[], list[str]]:
    return lambda: [follower.report()[0][GROUP].problem for follower in followers]


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [ACCOUNTS])


def build(changelog: Changelog, appender: StoreAppender, directory: Path, hosts: str) -> None:
    """Data directories with rows, of which those of host b are other ones."""
    with run_hosts(changelog, directory, hosts) as followers:
        wait_for_epoch(followers, append(appender, 1))
    alter(directory / "b")


def test_equal_replicas_make_a_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_hosts(changelog, tmp_path, "ab") as followers:
        wait_for_epoch(followers, append(appender, 1, EPOCHS_BETWEEN))
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
        wait_until(lambda: not changelog.holds(GROUP, Epoch(2)))
        (snapshot,) = changelog.snapshots(GROUP).readable_snapshots()
        assert sum(checksum.rows for checksum in snapshot.checksums.values()) == NUMBERS
        claims = changelog.snapshots(GROUP).checksums(snapshot.epoch, snapshot.digest)
        assert {claim.host for claim in claims} == {"a", "b"}
        assert all(claim.checksums == snapshot.checksums for claim in claims)
        assert problems(followers)() == ["", ""]


@pytest.mark.parametrize("hosts", ["ab", "abc"])
def test_replicas_that_differ_are_built_again(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path, hosts: str
) -> None:
    build(changelog, appender, tmp_path, hosts)
    newest = Epoch(0)
    with run_hosts(changelog, tmp_path, hosts) as followers:
        # Epochs that touch nothing here, so that the rows stay as they were altered.
        assert 1001 in amounts(followers[1]), "nothing tells before"
        for _ in range(EPOCHS_BETWEEN):
            newest = appender.append({"accounts": ACCOUNTS.schema.empty_table()}).epoch
        wait_for_epoch(followers, newest)
        wait_until(lambda: is_aside(tmp_path, "b"))
        wait_for_epoch(followers, newest)
        wrong = ["a", "b"] if hosts == "ab" else ["b"]
        wait_until(lambda: [host for host in hosts if is_aside(tmp_path, host)] == wrong)
        # A host that still builds at the epoch of the next snapshot has nothing to compare there.
        wait_until(lambda: [amounts(follower) for follower in followers] == [{1}] * len(hosts))
        wait_until(lambda: all("different rows of accounts/2" in each for each in problems(followers)()))
        assert changelog.snapshots(GROUP).epochs() == []
        assert changelog.holds(GROUP, Epoch(1))
        newest = append(appender, 2, 2 * EPOCHS_BETWEEN)
        wait_for_epoch(followers, newest)
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
        wait_until(lambda: not any(problems(followers)()))
        wait_until(lambda: [amounts(follower) for follower in followers] == [{2}] * len(hosts))


def test_a_host_that_comes_late_compares_itself_with_the_snapshot(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    build(changelog, appender, tmp_path, "ab")
    for _ in range(EPOCHS_BETWEEN):
        newest = appender.append({"accounts": ACCOUNTS.schema.empty_table()}).epoch
    patient = replace(options("a", 2, 0.0).snapshots, retention=SnapshotRetention(kept=2))
    with run_follower(changelog, tmp_path / "a", replace(OPTIONS, snapshots=patient)):
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
    with run_follower(changelog, tmp_path / "b", options("b", 2)) as follower:
        wait_until(lambda: is_aside(tmp_path, "b"))
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: amounts(follower) == {1})


def test_epochs_stay_until_all_hosts_have_said_what_they_have(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    with run_follower(changelog, tmp_path / "a", options("a", 2, 0.0)) as follower:
        append(appender, 1, EPOCHS_BETWEEN)
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
        wait_until(lambda: "All epochs of group bank stay" in problems([follower])()[0])
        assert changelog.holds(GROUP, Epoch(2))
    with run_hosts(changelog, tmp_path, "ab") as followers:
        wait_for_epoch(followers, append(appender, 2, 2 * EPOCHS_BETWEEN))
        wait_until(lambda: not changelog.holds(GROUP, Epoch(2)))
        wait_until(lambda: problems(followers)() == ["", ""])


def test_a_host_that_was_away_is_waited_for_no_more_once_it_has_said_what_it_has(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """Without another snapshot, which may take days to be due."""
    with run_follower(changelog, tmp_path / "b", options("b", 2, 0.0)) as away:
        wait_for_epoch([away], append(appender, 1, 2))
    with run_follower(changelog, tmp_path / "a", options("a", 2, 0.0)) as follower:
        append(appender, 1, EPOCHS_BETWEEN)
        wait_until(lambda: "All epochs of group bank stay" in problems([follower])()[0])
        with run_follower(changelog, tmp_path / "b", options("b", 2, 0.0)) as back:
            wait_until(lambda: not changelog.holds(GROUP, Epoch(2)))
            wait_until(lambda: problems([follower, back])() == ["", ""])


def test_a_snapshot_of_which_a_late_host_has_other_rows_does_not_count(
    changelog: Changelog, appender: StoreAppender, tmp_path: Path
) -> None:
    """The host that made it may be the wrong one: the epochs are there, and tell."""
    build(changelog, appender, tmp_path, "ab")
    for _ in range(EPOCHS_BETWEEN):
        newest = appender.append({"accounts": ACCOUNTS.schema.empty_table()}).epoch
    with run_follower(changelog, tmp_path / "b", options("b", 2, 0.0)) as follower:
        wait_until(lambda: changelog.snapshots(GROUP).epochs() != [])
        assert 1001 in amounts(follower), "the snapshot has the wrong rows"
    with run_follower(changelog, tmp_path / "a", options("a", 2)) as follower:
        wait_until(lambda: changelog.snapshots(GROUP).epochs() == [])
        assert follower.wait_for(GROUP, newest, PATIENCE_SECONDS)
        wait_until(lambda: amounts(follower) == {1})
    with run_hosts(changelog, tmp_path, "ab") as followers:
        for _ in range(2 * EPOCHS_BETWEEN):
            newest = appender.append({"accounts": ACCOUNTS.schema.empty_table()}).epoch
        wait_for_epoch(followers, newest)
        wait_until(lambda: [amounts(each) for each in followers] == [{1}, {1}])


def test_more_than_half_of_the_hosts_are_right() -> None:
    place, other = (StoreName("s"), PartitionId(0)), (StoreName("s"), PartitionId(1))
    one, two = RowChecksum(1, 1, 1), RowChecksum(1, 2, 2)

    def claims(*checksums: RowChecksum) -> list[HostChecksums]:
        return [
            HostChecksums(str(number), "d", {place: checksum, other: one})
            for number, checksum in enumerate(checksums)
        ]

    assert disputed_partitions([]) == {}
    assert disputed_partitions(claims(one)) == {}
    assert disputed_partitions(claims(one, one)) == {}
    assert disputed_partitions(claims(one, two)) == {place: None}
    assert disputed_partitions(claims(one, two, one)) == {place: one}
    assert disputed_partitions(claims(one, two, RowChecksum())) == {place: None}
    assert disputed_partitions(claims(one, two, one, two)) == {place: None}
