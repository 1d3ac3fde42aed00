"""Which epoch is read where: examples, each with the words that a user gets when there is no way."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pytest

from engine.cluster.reports import GroupReport, HostName, HostReport, Progress, ReadableEpoch
from engine.cluster.routing import NoRoute, Route, route
from engine.errors import InvalidInput, NotFound, Unavailable
from engine.model.read_point import NEWEST, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, PartitionId, StoreName
from tests.unit.cluster.reporting import SECOND, committed_at, group_report, host_report, store

A, B, C = HostName("a"), HostName("b"), HostName("c")
DEFINITIONS = {
    each.name: each
    for each in (
        store("plays", "music", 4),
        store("likes", "music", 4),
        store("songs", "music", 2),
        store("trips", "cars", 4),
    )
}
G = GroupName("music")
ORDER = {4: [(A, B, C), (B, C, A), (C, A, B), (A, C, B)], 2: [(B, A, C), (C, B, A)]}


def order(partitions: int) -> Sequence[tuple[HostName, ...]]:
    return ORDER[partitions]


def ask(
    reports: Sequence[HostReport],
    needs: Mapping[str, Collection[int]],
    here: HostName = A,
    read_point: ReadPoint = NEWEST,
    now: int = 0,
    max_lag: float | None = None,
) -> Route | NoRoute:
    wanted = {StoreName(name): [PartitionId(number) for number in numbers] for name, numbers in needs.items()}
    by_host = {report.host: report for report in reports}
    return route(wanted, DEFINITIONS, by_host, here, order, read_point, now, max_lag)


def assert_route(found: Route | NoRoute) -> Route:
    assert isinstance(found, Route), found
    return found


def assert_refusal(found: Route | NoRoute, kind: type[Exception], *, may_come: bool) -> str:
    assert isinstance(found, NoRoute), found
    assert type(found.error) is kind
    assert found.may_come == may_come
    assert "\n" not in found.error.message
    return found.error.message


def spread(*epochs: Collection[int]) -> list[HostReport]:
    """Hosts a, b, c …, each with the partitions of `plays` that it should have, at these epochs."""
    hosts = [A, B, C][: len(epochs)]
    held = {
        host: [
            number for number in range(4) if next(each for each in ORDER[4][number] if each in hosts) == host
        ]
        for host in hosts
    }
    return [
        host_report(host, {"music": group_report(there)}, {"plays": held[host]})
        for host, there in zip(hosts, epochs, strict=True)
    ]


EVERYTHING = {"plays": range(4)}


def test_each_partition_at_its_host_at_the_newest_common_epoch() -> None:
    found = assert_route(ask(spread([5, 6, 7], [6, 7, 8], [4, 5, 6, 7]), EVERYTHING))
    assert found.epochs == {"music": 7}
    assert found.committed_at == {"music": committed_at(7)}
    assert found.partitions == {A: {"plays": (0, 3)}, B: {"plays": (1,)}, C: {"plays": (2,)}}
    assert found.hosts == (A, B, C)


def test_only_the_hosts_of_needed_partitions_count() -> None:
    found = assert_route(ask(spread([5], [9], [8, 9]), {"plays": [1, 2]}))
    assert found.epochs == {"music": 9}
    assert found.hosts == (B, C)


def test_this_host_answers_alone_if_it_can() -> None:
    whole = {"plays": range(4)}
    reports = [host_report(host, {"music": group_report([3])}, whole) for host in (A, B)]
    for here in (A, B):
        assert assert_route(ask(reports, EVERYTHING, here)).partitions == {here: {"plays": (0, 1, 2, 3)}}


def test_another_host_that_has_everything_is_better_than_several() -> None:
    reports = [
        host_report(A, {"music": group_report([3])}, {"plays": [0, 3]}),
        host_report(B, {"music": group_report([3])}, {"plays": [0, 1, 2, 3]}),
        host_report(C, {"music": group_report([3])}, {"plays": [1, 2]}),
    ]
    assert assert_route(ask(reports, EVERYTHING)).hosts == (B,)


def test_a_newer_epoch_is_better_than_one_host() -> None:
    reports = [
        host_report(A, {"music": group_report([3])}, {"plays": [0, 1, 2, 3]}),
        host_report(B, {"music": group_report([3, 4])}, {"plays": [0, 1]}),
        host_report(C, {"music": group_report([3, 4])}, {"plays": [2, 3]}),
    ]
    assert assert_route(ask(reports, EVERYTHING)).epochs == {"music": 4}
    assert assert_route(ask(reports, EVERYTHING)).hosts == (B, C)


def test_standbys_answer_for_the_dead_and_the_slow() -> None:
    reports = [
        host_report(B, {"music": group_report([3, 4])}, {"plays": [1, 0, 3]}),
        host_report(C, {"music": group_report([3])}, {"plays": [1, 2, 3]}),
    ]
    found = assert_route(ask(reports, {"plays": [0, 1, 3]}, here=C))
    assert found.epochs == {"music": 4}
    assert found.hosts == (B,)
    assert assert_route(ask(reports, EVERYTHING, here=C)).partitions == {
        B: {"plays": (0, 1)},
        C: {"plays": (2, 3)},
    }


def test_hosts_that_drain_answer_only_what_no_other_host_has() -> None:
    here = host_report(A, {"music": group_report([3, 4])}, {"plays": [0, 1, 2, 3]})
    staying = host_report(B, {"music": group_report([3])}, {"plays": [0, 1]})
    reports = [replace(here, is_draining=True), staying]
    # An older epoch that others have is better than a host that may be gone at any moment.
    found = assert_route(ask(reports, {"plays": [0, 1]}))
    assert (found.hosts, found.epochs) == ((B,), {"music": 3})
    newest = ReadPoint(min_epoch=Epoch(4))
    assert assert_route(ask(reports, {"plays": [0, 1]}, read_point=newest)).hosts == (A,)
    assert assert_route(ask(reports, EVERYTHING)).hosts == (A,)
    assert assert_route(ask([here, staying], {"plays": [0, 1]})).hosts == (A,)


def test_a_host_that_should_not_have_it_any_more_still_answers() -> None:
    stranger = HostName("z")
    reports = [host_report(stranger, {"music": group_report([3])}, {"plays": range(4)})]
    assert assert_route(ask(reports, EVERYTHING)).hosts == (stranger,)


def test_equal_numbers_of_equal_counts_stay_together() -> None:
    reports = [
        host_report(A, {"music": group_report([3])}, {"plays": [0, 1], "likes": [0], "songs": [0, 1]}),
        host_report(B, {"music": group_report([3])}, {"plays": [1, 2, 3], "likes": [1, 2, 3], "songs": [0]}),
    ]
    found = assert_route(ask(reports, {"plays": range(4), "likes": range(4), "songs": [0]}))
    assert found.partitions == {
        A: {"plays": (0,), "likes": (0,), "songs": ()},
        B: {"plays": (1, 2, 3), "likes": (1, 2, 3), "songs": (0,)},
    }


def test_stores_may_need_different_partitions() -> None:
    reports = [
        host_report(A, {"music": group_report([3])}, {"plays": [0, 1], "likes": []}),
        host_report(B, {"music": group_report([3])}, {"plays": [0, 2, 3], "likes": range(4)}),
    ]
    found = assert_route(ask(reports, {"plays": [0, 1], "likes": [0, 2]}))
    assert found.partitions == {A: {"plays": (1,), "likes": ()}, B: {"plays": (0,), "likes": (0, 2)}}


def test_nothing_is_needed_of_a_store() -> None:
    found = assert_route(ask(spread([5], [6], [7]), {"plays": []}, here=B))
    assert found.partitions == {B: {"plays": ()}}
    assert found.epochs == {"music": 7}


def test_no_store_at_all() -> None:
    assert assert_route(ask(spread([5], [6], [7]), {}, here=B)).partitions == {B: {}}


def test_groups_have_epochs_of_their_own() -> None:
    held = {"plays": range(4), "trips": range(4)}
    reports = [
        host_report(A, {"music": group_report([5, 6]), "cars": group_report([1])}, held),
        host_report(B, {"music": group_report([5]), "cars": group_report([1, 2])}, held),
    ]
    found = assert_route(ask(reports, {"plays": [0], "trips": [0]}, here=B))
    assert found.epochs == {"cars": 2, "music": 5}
    assert found.hosts == (B,)


def test_hosts_that_are_behind_in_different_groups() -> None:
    held = {"plays": [0], "trips": [0]}
    reports = [
        host_report(A, {"music": group_report([6]), "cars": group_report([1])}, held),
        host_report(B, {"music": group_report([5]), "cars": group_report([2])}, held),
    ]
    assert assert_route(ask(reports, {"plays": [0], "trips": [0]})).epochs == {"cars": 2, "music": 5}
    read_point = ReadPoint(as_of={G: AsOfEpoch(Epoch(6)), GroupName("cars"): AsOfEpoch(Epoch(2))})
    message = assert_refusal(
        ask(reports, {"plays": [0], "trips": [0]}, read_point=read_point), Unavailable, may_come=True
    )
    assert message.startswith(
        "The groups cars and music have no epochs that the hosts of their partitions can read together"
    )


def test_a_store_that_joined_later_is_not_there_before() -> None:
    reports = [
        host_report(A, {"music": group_report([3, 4, 5])}, {"plays": [0, 3]}, since={"plays": 5}),
        host_report(B, {"music": group_report([3, 4])}, {"plays": [1, 2]}),
    ]
    assert "partition 0 of store plays can be read" in assert_refusal(
        ask(reports, EVERYTHING, read_point=ReadPoint(as_of={G: AsOfEpoch(Epoch(4))})),
        NotFound,
        may_come=False,
    )
    assert_refusal(ask(reports, EVERYTHING), Unavailable, may_come=True)


# ---- a partition is missing


def test_a_partition_on_no_living_host() -> None:
    message = assert_refusal(ask(spread([5], [5], [5])[:2], EVERYTHING), Unavailable, may_come=True)
    assert message == (
        "Partition 2 of store plays is on no host that is alive: host c is not alive, and epoch 5 of "
        "group music is needed."
    )


def test_a_partition_that_its_host_does_not_have_yet() -> None:
    reports = [host_report(A, {"music": group_report([5])}, {"plays": [0, 1, 2]})]
    assert (
        "Partition 3 of store plays is on no host that is alive: host a does not hold it (yet)"
        in assert_refusal(ask(reports, EVERYTHING), Unavailable, may_come=True)
    )


def test_a_partition_that_is_being_rebuilt() -> None:
    reports = [host_report(A, {"music": group_report([5])}, {"plays": [0, 1, 2]}, rebuilding={"plays": [3]})]
    message = assert_refusal(ask(reports, EVERYTHING), Unavailable, may_come=True)
    assert message == (
        "Partition 3 of store plays is being rebuilt on host a, on its way to epoch 5 of group music: try "
        "again later."
    )


def test_stores_that_are_not_together() -> None:
    reports = [
        host_report(A, {"music": group_report([5])}, {"plays": [0], "likes": []}),
        host_report(B, {"music": group_report([5])}, {"plays": [], "likes": [0]}),
    ]
    assert "Partition 0 of the stores likes and plays is on no host together" in assert_refusal(
        ask(reports, {"plays": [0], "likes": [0]}), Unavailable, may_come=True
    )


def test_no_common_epoch() -> None:
    message = assert_refusal(ask(spread([5, 6], [8, 9], [9]), EVERYTHING), Unavailable, may_come=True)
    assert (
        message
        == "Partition 0 of store plays is at epoch 6 on host a, and epoch 9 is wanted: try again shortly."
    )


def test_hosts_with_other_commits_of_an_epoch_are_not_read_together() -> None:
    held = {A: [0, 3], B: [1, 2]}

    def reports(*groups: GroupReport) -> list[HostReport]:
        return [
            host_report(host, {"music": group}, {"plays": held[host]})
            for host, group in zip((A, B), groups, strict=True)
        ]

    same = reports(group_report([5, 6], digest="x"), group_report([5, 6], digest="x"))
    assert assert_route(ask(same, EVERYTHING)).epochs == {G: 6}
    older = reports(group_report([5, 6], digest="x"), group_report([5, 6]))
    assert assert_route(ask(older, EVERYTHING)).epochs == {G: 6}
    other = group_report([5], digest="x")
    forked = replace(
        other, readable=(*other.readable, replace(other.readable[0], epoch=Epoch(6), digest="y"))
    )
    assert assert_route(ask(reports(same[0].groups[G], forked), EVERYTHING)).epochs == {G: 5}
    strange = reports(group_report([6], digest="x"), group_report([6], digest="y"))
    assert_refusal(ask(strange, EVERYTHING), Unavailable, may_come=True)


def test_nobody_has_the_group() -> None:
    assert "No host that is alive can read group music yet" in assert_refusal(
        ask([host_report(A, {}, {})], {"plays": []}), Unavailable, may_come=True
    )


# ---- read points


def test_min_epoch() -> None:
    reports = spread([5, 6, 7], [6, 7, 8], [4, 5, 6])
    assert assert_route(ask(reports, EVERYTHING, read_point=ReadPoint(min_epoch=Epoch(6)))).epochs == {
        "music": 6
    }
    message = assert_refusal(
        ask(reports, EVERYTHING, read_point=ReadPoint(min_epoch=Epoch(7))), Unavailable, may_come=True
    )
    assert (
        message
        == "Partition 2 of store plays is at epoch 6 on host c, and epoch 7 is wanted: try again shortly."
    )
    assert_refusal(
        ask(reports, EVERYTHING, read_point=ReadPoint(min_epoch=Epoch(70))), Unavailable, may_come=True
    )


def test_as_of_epoch() -> None:
    reports = spread([5, 6, 7], [6, 7, 8], [6, 7])
    read_point = ReadPoint(as_of={G: AsOfEpoch(Epoch(6))}, min_epoch=Epoch(7), max_staleness_seconds=0.0)
    assert assert_route(ask(reports, EVERYTHING, read_point=read_point)).epochs == {"music": 6}
    read_point = ReadPoint(as_of_default=AsOfEpoch(Epoch(6)))
    assert assert_route(ask(reports, EVERYTHING, read_point=read_point)).epochs == {"music": 6}


@pytest.mark.parametrize(
    ("epoch", "kind", "may_come", "message"),
    [
        (
            5,
            NotFound,
            False,
            (
                "Epoch 5 of group music is not retained: partition 1 of store plays can be read on host b at "
                "epochs 6 to 8."
            ),
        ),
        (
            8,
            Unavailable,
            True,
            "Partition 0 of store plays is at epoch 7 on host a, and epoch 8 is wanted: try again shortly.",
        ),
        (
            9,
            NotFound,
            False,
            (
                "Epoch 9 of group music is not known to be committed; the newest known one is 8. If it was "
                "committed just now, ask again shortly, or ask for min_epoch, which waits."
            ),
        ),
    ],
)
def test_as_of_an_epoch_that_is_not_there(
    epoch: int, kind: type[Exception], may_come: bool, message: str
) -> None:
    read_point = ReadPoint(as_of={G: AsOfEpoch(Epoch(epoch))})
    assert (
        assert_refusal(
            ask(spread([5, 6, 7], [6, 7, 8], [6, 7]), EVERYTHING, read_point=read_point),
            kind,
            may_come=may_come,
        )
        == message
    )


def test_as_of_an_epoch_of_several_groups() -> None:
    held = {"plays": range(4), "trips": range(4)}
    reports = [host_report(A, {"music": group_report([5]), "cars": group_report([5])}, held)]
    read_point = ReadPoint(as_of_default=AsOfEpoch(Epoch(5)))
    assert "groups cars and music" in assert_refusal(
        ask(reports, {"plays": [0], "trips": [0]}, read_point=read_point), InvalidInput, may_come=False
    )
    assert assert_route(ask(reports, {"plays": [0]}, read_point=read_point)).epochs == {"music": 5}


def as_of(seconds: float) -> ReadPoint:
    return ReadPoint(as_of_default=AsOfTimestamp(int(seconds * SECOND)))


def test_as_of_timestamp() -> None:
    reports = spread([4, 5, 6, 8], [4, 5, 6, 7, 8], [5, 6, 7, 8])
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(6))).epochs == {"music": 6}
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(6.9))).epochs == {"music": 6}
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(7))).epochs == {"music": 6}, (
        "host a has skipped epoch 7"
    )
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(100))).epochs == {"music": 8}


def test_as_of_a_timestamp_that_a_host_is_on_the_way_to() -> None:
    reports = spread([5, 6, 7], [5, 6], [6, 7])
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(6.5))).epochs == {"music": 6}
    message = assert_refusal(ask(reports, EVERYTHING, read_point=as_of(7)), Unavailable, may_come=True)
    assert (
        message
        == "Partition 1 of store plays is at epoch 6 on host b, and epoch 7 is wanted: try again shortly."
    )


def test_as_of_a_timestamp_before_which_more_is_committed_than_applied() -> None:
    reports = [
        host_report(
            A,
            {"music": group_report([5, 6], newest_known=9, unread_since=committed_at(7))},
            {"plays": range(4)},
        )
    ]
    assert assert_route(ask(reports, EVERYTHING, read_point=as_of(6.5))).epochs == {"music": 6}
    message = assert_refusal(ask(reports, EVERYTHING, read_point=as_of(7.5)), Unavailable, may_come=True)
    assert message.startswith(
        "Host a is at epoch 6 of group music, and epoch 7 was committed by 1970-01-01 00:00:07.5"
    )


def test_as_of_a_timestamp_before_everything() -> None:
    message = assert_refusal(
        ask(spread([5, 6], [5, 6], [6]), EVERYTHING, read_point=as_of(4)), NotFound, may_come=False
    )
    assert message == (
        "No epoch of group music is retained as of 1970-01-01 00:00:04+00:00: the oldest, 5, is of "
        "1970-01-01 00:00:05+00:00."
    )
    assert "on all hosts" in assert_refusal(
        ask(spread([5, 6], [5, 6], [6]), EVERYTHING, read_point=as_of(5)), NotFound, may_come=False
    )


def stale(seconds: float) -> ReadPoint:
    return ReadPoint(max_staleness_seconds=seconds)


def test_max_staleness_of_what_is_newest() -> None:
    """An epoch that is old and the newest is not stale, as long as somebody has looked."""
    reports = [host_report(A, {"music": group_report([5], looked_at=99 * SECOND)}, {"plays": range(4)})]
    assert assert_route(ask(reports, EVERYTHING, read_point=stale(2), now=100 * SECOND)).epochs == {
        "music": 5
    }
    message = assert_refusal(
        ask(reports, EVERYTHING, read_point=stale(0.5), now=100 * SECOND), Unavailable, may_come=True
    )
    assert message == (
        "Group music can be read at epoch 5, and may lack commits of the last 1 seconds; max_staleness is "
        "0.5."
    )


def test_max_staleness_counts_from_when_the_query_began() -> None:
    """So 0 seconds are met by the next look; how far hosts may be behind counts from now."""
    held = {"plays": range(4)}
    reports = [host_report(A, {"music": group_report([5], looked_at=99 * SECOND)}, held)]
    by_host = {report.host: report for report in reports}
    needs = {StoreName("plays"): [PartitionId(number) for number in range(4)]}

    def ask_later(began: int, max_lag: float | None = None) -> Route | NoRoute:
        return route(needs, DEFINITIONS, by_host, A, order, stale(0), 103 * SECOND, max_lag, began)

    assert assert_route(ask_later(99 * SECOND)).epochs == {"music": 5}
    assert_refusal(ask_later(99 * SECOND + 1), Unavailable, may_come=True)
    assert assert_route(ask_later(99 * SECOND, max_lag=4.0)).epochs == {"music": 5}
    assert_refusal(ask_later(99 * SECOND, max_lag=3.9), Unavailable, may_come=False)


def test_max_staleness_of_a_host_that_is_behind() -> None:
    reports = [
        host_report(A, {"music": group_report([5, 6, 7], looked_at=8 * SECOND)}, {"plays": [0, 1]}),
        host_report(
            B, {"music": group_report([5], newest_known=7, unread_since=committed_at(6))}, {"plays": [2, 3]}
        ),
    ]
    assert assert_route(ask(reports, EVERYTHING, read_point=stale(3), now=8 * SECOND)).epochs == {"music": 5}
    message = assert_refusal(
        ask(reports, EVERYTHING, read_point=stale(1.5), now=8 * SECOND), Unavailable, may_come=True
    )
    assert (
        message
        == "Partition 2 of store plays is at epoch 5 on host b, and epoch 7 is wanted: try again shortly."
    )


def test_max_staleness_where_the_next_commit_is_not_known() -> None:
    """Epoch 6 was committed right after 5, for all that is known."""
    reports = [
        host_report(A, {"music": group_report([5, 8], looked_at=9 * SECOND)}, {"plays": [0, 1]}),
        host_report(B, {"music": group_report([5])}, {"plays": [2, 3]}),
    ]
    assert_refusal(
        ask(reports, EVERYTHING, read_point=stale(3.9), now=9 * SECOND), Unavailable, may_come=True
    )
    assert assert_route(ask(reports, EVERYTHING, read_point=stale(4), now=9 * SECOND)).epochs == {"music": 5}


def test_what_a_host_that_is_further_has_not_read_says_nothing_of_an_epoch_that_it_passed_by() -> None:
    """Host a took epochs 6 to 8 together, and knows of epoch 9 since second 9; host b has not looked since it
    had epoch 5.
    """
    ahead = group_report([5, 8], newest_known=9, unread_since=9 * SECOND, looked_at=9 * SECOND)
    reports = [
        host_report(A, {"music": ahead}, {"plays": [0, 1]}),
        host_report(B, {"music": group_report([5], looked_at=5 * SECOND)}, {"plays": [2, 3]}),
    ]
    assert_refusal(
        ask(reports, EVERYTHING, read_point=stale(3.9), now=9 * SECOND), Unavailable, may_come=True
    )
    found = assert_route(ask(reports, EVERYTHING, read_point=stale(4), now=9 * SECOND))
    assert (found.epochs, found.complete_until) == ({"music": 5}, 5 * SECOND)


def test_a_commit_of_tomorrow_is_measured_by_the_clocks_of_hosts() -> None:
    """Host a has read it; host b is cut off from the changelog since second 9, or knows that it is there."""
    at = {Epoch(5): 5 * SECOND, Epoch(6): 99_999 * SECOND}
    readable = tuple(ReadableEpoch(epoch, moment) for epoch, moment in at.items())
    read = host_report(
        A, {"music": GroupReport(readable, Epoch(6), looked_at=20 * SECOND)}, {"plays": [0, 1]}
    )
    cut_off = group_report([5], looked_at=9 * SECOND)
    behind = group_report([5], newest_known=6, unread_since=12 * SECOND, looked_at=20 * SECOND)
    for other, seconds in ((cut_off, 11.0), (behind, 8.0)):
        reports = [read, host_report(B, {"music": other}, {"plays": [2, 3]})]
        found = assert_route(ask(reports, EVERYTHING, read_point=stale(seconds), now=20 * SECOND))
        assert found.epochs == {"music": 5}
        too_old = stale(seconds - 0.1)
        assert_refusal(
            ask(reports, EVERYTHING, read_point=too_old, now=20 * SECOND), Unavailable, may_come=True
        )
        refused = ask(reports, EVERYTHING, now=20 * SECOND, max_lag=seconds - 0.1)
        assert "more than the max_lag of" in assert_refusal(refused, Unavailable, may_come=False)
    # Nor is an epoch of before taken to be newer than what is behind it.
    stuck = GroupReport(readable, Epoch(7), unread_since=12 * SECOND, looked_at=20 * SECOND)
    reports = [host_report(A, {"music": stuck}, {"plays": range(4)})]
    assert assert_route(ask(reports, EVERYTHING, now=20 * SECOND, max_lag=8.0)).epochs == {"music": 6}
    refused = ask(reports, EVERYTHING, now=20 * SECOND, max_lag=7.9)
    assert "more than the max_lag of" in assert_refusal(refused, Unavailable, may_come=False)


def migrated_report(epochs: Mapping[int, int]) -> GroupReport:
    """Epochs with the number of migrations in effect."""
    return GroupReport(
        tuple(ReadableEpoch(Epoch(epoch), committed_at(epoch), made) for epoch, made in epochs.items()),
        Epoch(max(epochs)),
    )


def generations_point(start: int, stop: int = sys.maxsize) -> ReadPoint:
    return ReadPoint(allowed_generations={G: range(start, stop)})


def test_a_route_says_how_many_migrations_are_in_effect() -> None:
    reports = [
        host_report("a", {"music": migrated_report({5: 0, 6: 1, 7: 3})}, {"plays": [0, 3]}),
        host_report("b", {"music": migrated_report({5: 0, 6: 1})}, {"plays": [1, 2]}),
    ]
    assert assert_route(ask(reports, EVERYTHING)).generations == {"music": 1}
    assert assert_route(ask(reports, {"plays": [0]})).migrated == {"music": 3}
    assert (
        assert_route(
            ask(reports, EVERYTHING, read_point=ReadPoint(as_of_default=AsOfEpoch(Epoch(5))))
        ).migrated
        == {}
    )


def test_columns_that_were_told_are_read_where_stores_have_them() -> None:
    reports = [
        host_report("a", {"music": migrated_report({5: 0, 6: 1, 7: 1, 8: 2})}, {"plays": [0, 3]}),
        host_report("b", {"music": migrated_report({5: 0, 6: 1, 7: 1, 8: 2})}, {"plays": [1, 2]}),
    ]
    assert assert_route(ask(reports, EVERYTHING, read_point=generations_point(0, 1))).epochs == {"music": 5}
    assert assert_route(ask(reports, EVERYTHING, read_point=generations_point(0, 2))).epochs == {"music": 7}
    assert assert_route(ask(reports, EVERYTHING, read_point=generations_point(1))).epochs == {"music": 8}
    other = ReadPoint(as_of={G: AsOfEpoch(Epoch(5))}, allowed_generations={G: range(1, 9)})
    assert "other columns than it has at epoch 5" in assert_refusal(
        ask(reports, EVERYTHING, read_point=other), InvalidInput, may_come=False
    )
    gone = assert_refusal(
        ask(
            reports[:1],
            {"plays": [0]},
            read_point=ReadPoint(min_epoch=Epoch(8), allowed_generations={G: range(2)}),
        ),
        InvalidInput,
        may_come=False,
    )
    assert gone == (
        "The statement was prepared before store plays was migrated or made anew: prepare it again."
    )
    needs = {"plays": [0], "likes": [0]}
    both = [host_report("a", {"music": migrated_report({8: 2})}, {"plays": [0], "likes": [0]})]
    assert "before one of the stores likes, plays was migrated" in assert_refusal(
        ask(both, needs, read_point=generations_point(0, 2)), InvalidInput, may_come=False
    )


def test_columns_that_some_hosts_have_not_yet_are_waited_for() -> None:
    reports = [
        host_report("a", {"music": migrated_report({5: 0, 6: 1})}, {"plays": [0, 3]}),
        host_report("b", {"music": migrated_report({4: 0, 5: 0})}, {"plays": [1, 2]}),
    ]
    later = assert_refusal(
        ask(reports, EVERYTHING, read_point=generations_point(1)), Unavailable, may_come=True
    )
    assert later == (
        "Group music can be read at epoch 5, and the statement's columns are those that store plays has "
        "since: try again shortly."
    )
    assert assert_route(ask(reports, {"plays": [0]}, read_point=generations_point(1))).epochs == {"music": 6}


def test_an_epoch_of_another_history_is_refused() -> None:
    held = {"plays": range(4)}
    reports = [host_report("a", {G: group_report([5, 6], looked_at=7 * SECOND, digest="ab")}, held)]
    for digest in ("", "ab6"):
        read_point = ReadPoint(as_of={G: AsOfEpoch(Epoch(6), digest)})
        assert assert_route(ask(reports, held, read_point=read_point)).epochs == {"music": 6}
    # Neither another digest, nor the right one of another epoch; nor what nobody knows the digest of.
    unknown = [host_report("a", {G: group_report([5, 6])}, held)]
    for given, digest in ((reports, "cd6"), (reports, "ab5"), (unknown, "ab6")):
        read_point = ReadPoint(as_of_default=AsOfEpoch(Epoch(6), digest))
        assert assert_refusal(ask(given, held, read_point=read_point), NotFound, may_come=False) == (
            "Epoch 6 of group music is not the one that is meant, but of another history of the changelog, "
            "which was restored or has lost its end: read the newest epoch instead."
        )


def behind_report(progress: Progress | None = None, problem: str = "") -> GroupReport:
    """Of a host that has epoch 10 of 30, and knows of epoch 11 since second 12."""
    report = group_report(range(8, 11), newest_known=30, unread_since=12 * SECOND, looked_at=100 * SECOND)
    return replace(report, catching_up=progress, problem=problem)


def test_a_host_that_is_too_far_behind_is_refused_with_its_progress() -> None:
    held = {"plays": range(4)}
    progress = Progress(Epoch(10), Epoch(30), None, 3 << 20, 9 << 20, float(1 << 20))
    reports = [host_report("a", {G: behind_report(progress)}, held)]
    assert assert_route(ask(reports, held, now=72 * SECOND, max_lag=60.0)).epochs == {"music": 10}
    now = 73 * SECOND
    assert assert_refusal(ask(reports, held, now=now, max_lag=60.0), Unavailable, may_come=False) == (
        "Group music is 1 minute 1 second behind, more than the max_lag of 60 seconds: it can be read at "
        "epoch 10 of 30; host a: 25 %, 1.0 MiB/s, about 9 seconds left: try again later, or say allow_stale "
        "to read what there is."
    )
    stuck = [host_report("a", {G: behind_report(None, "The disk is full.")}, held)]
    assert assert_refusal(ask(stuck, held, now=now, max_lag=60.0), Unavailable, may_come=False).endswith(
        "epoch 10 of 30, and does not get on: The disk is full. Say allow_stale to read what there is."
    )
    found = assert_route(ask(reports, held, now=now, max_lag=60.0, read_point=ReadPoint(allow_stale=True)))
    assert (found.epochs, found.complete_until) == ({"music": 10}, 12 * SECOND)
    # What the statement itself asks for is waited for, as far as it can come.
    for read_point in (ReadPoint(min_epoch=Epoch(11)), ReadPoint(max_staleness_seconds=5.0)):
        for allow_stale in (False, True):
            point = replace(read_point, allow_stale=allow_stale)
            assert_refusal(
                ask(reports, held, now=now, max_lag=60.0, read_point=point), Unavailable, may_come=True
            )


def test_a_replica_that_is_not_behind_is_asked() -> None:
    held = {"plays": range(4)}
    other = host_report("b", {G: group_report([28, 29, 30], looked_at=100 * SECOND)}, held)
    reports = [host_report("a", {G: behind_report()}, held), other]
    found = assert_route(ask(reports, held, now=101 * SECOND, max_lag=60.0))
    assert (found.epochs, found.hosts) == ({"music": 30}, (B,))
    # An epoch of before is not read in its place.
    half = host_report("b", {G: group_report([10, 29, 30], looked_at=100 * SECOND)}, {"plays": [0, 1]})
    refused = ask([reports[0], half], held, now=101 * SECOND, max_lag=60.0)
    assert "Group music is 1 minute 29 seconds behind" in assert_refusal(refused, Unavailable, may_come=False)


def test_hosts_that_have_not_looked_do_not_know_that_they_are_behind() -> None:
    held = {"plays": range(4)}
    reports = [host_report("a", {G: group_report([5, 6], looked_at=9 * SECOND)}, held)]
    refused = ask(reports, held, now=7209 * SECOND, max_lag=60.0)
    assert assert_refusal(refused, Unavailable, may_come=False) == (
        "Group music can be read at epoch 6, and whether there is a newer one was last seen 2 hours ago, "
        "more than the max_lag of 60 seconds: try again later, or say allow_stale to read what there is."
    )


def test_the_limit_counts_for_the_moment_that_is_asked_for() -> None:
    held = {"plays": range(4)}
    reports = [host_report("a", {G: group_report([5, 6], looked_at=9 * SECOND)}, held)]
    for moment, is_answered in ((8, True), (69, True), (70, False)):
        point = ReadPoint(as_of_default=AsOfTimestamp(moment * SECOND))
        found = ask(reports, held, now=7200 * SECOND, max_lag=60.0, read_point=point)
        assert isinstance(found, Route) == is_answered
    # A group of which one epoch is asked for is not what is behind.
    both = held | {"trips": range(4)}
    reports = [
        host_report(
            "a",
            {
                G: group_report([5, 6], newest_known=9, unread_since=6 * SECOND),
                "cars": group_report([3], looked_at=9 * SECOND),
            },
            both,
        )
    ]
    point = ReadPoint(as_of={G: AsOfEpoch(Epoch(5))})
    refused = ask(reports, both, now=7200 * SECOND, max_lag=60.0, read_point=point)
    assert "Group cars can be read at epoch 3" in assert_refusal(refused, Unavailable, may_come=False)
