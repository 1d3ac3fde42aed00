"""What a host's log says of how it stands: each change once."""

from __future__ import annotations

from collections.abc import Mapping

from engine.cluster.reports import GroupReport, HostName, ReadableEpoch
from engine.model.schema import Epoch, GroupName
from flight_server.host.host_events import HostEvents, HostLook

SECOND = 1_000_000
GROUP = GroupName("plays")


def _group(
    epoch: int = 5,
    newest: int = 5,
    unread_since: int | None = None,
    generation: int = 0,
    problem: str = "",
) -> GroupReport:
    readable = (ReadableEpoch(Epoch(epoch), 0, generation),)
    return GroupReport(readable, Epoch(newest), unread_since, problem=problem)


def _messages(
    events: HostEvents,
    now: int,
    group: GroupReport | None = None,
    alive: Mapping[HostName, bool | None] | None = None,
    *,
    is_ready: bool = True,
) -> list[str]:
    groups = {} if group is None else {GROUP: group}
    look = HostLook(now * SECOND, is_ready, groups, alive or {}, seconds=float(now))
    return [event.message for event in events.observe(look)]


def test_ready_is_told_once() -> None:
    events = HostEvents()
    assert _messages(events, 0, is_ready=False) == []
    assert _messages(events, 9, is_ready=True) == [
        "The host is ready: it has caught up with the changelog, after 9 seconds."
    ]
    assert _messages(events, 10, is_ready=True) == []


def test_a_clock_that_is_set_back_makes_no_start_end_before_it_began() -> None:
    events = HostEvents()
    events.observe(HostLook(9_000 * SECOND, is_ready=False, groups={}, seconds=0.5))
    (told,) = events.observe(HostLook(5_000 * SECOND, is_ready=True, groups={}, seconds=4.2))
    assert told.message == "The host is ready: it has caught up with the changelog, after 4 seconds."


def test_lag_is_told_when_it_passes_the_limit_and_when_it_is_well_below() -> None:
    events = HostEvents(30.0)
    _messages(events, 0, _group())
    behind = _group(newest=7, unread_since=0)
    told = [_messages(events, second, behind) for second in range(100)]
    assert [second for second, messages in enumerate(told) if messages] == [31]
    assert told[31] == ["Group plays is 31 seconds behind (2 epochs)."]
    assert _messages(events, 100, _group(newest=7, unread_since=80 * SECOND)) == []
    assert _messages(events, 101, _group(7, 7)) == ["Group plays is at epoch 7, and no longer behind."]
    assert _messages(events, 102, _group(7, 7)) == []


def test_a_group_without_any_epoch_is_not_behind() -> None:
    events = HostEvents(30.0)
    _messages(events, 0)
    assert _messages(events, 500, GroupReport((), Epoch(9), 0)) == []


def test_a_migration_is_told_and_what_was_in_effect_at_the_start_is_not() -> None:
    events = HostEvents()
    _messages(events, 0)
    assert _messages(events, 1, _group(generation=1)) == []
    migrated = _group(epoch=6, newest=6, generation=2)
    assert _messages(events, 2, migrated) == [
        "Group plays was migrated: at epoch 6 its stores have shape number 2."
    ]
    assert _messages(events, 3, migrated) == []


def test_a_problem_that_is_over_is_told() -> None:
    events = HostEvents()
    _messages(events, 0)
    told = [
        _messages(events, number, _group(problem=text)) for number, text in enumerate(("", "a", "b", "", ""))
    ]
    assert told == [[], [], [], ["Group plays gets on again."], []]


def test_failover_is_told_once_each_way() -> None:
    events, b = HostEvents(), HostName("b")
    states: list[bool | None] = [None, False, True, True, False, False, True]
    told = [_messages(events, 0, None, {b: alive}) for alive in states]
    _ = told[0].pop()  # ready
    gone = "Host b does not answer any more: statements go on without it."
    assert told == [[], [], ["Host b answers."], [], [gone], [], ["Host b answers again."]]


def test_a_host_that_ends_says_nothing_of_others_that_end_with_it() -> None:
    events, b = HostEvents(), HostName("b")
    events.observe(HostLook(0, is_ready=True, groups={}, alive={b: True}))
    assert events.observe(HostLook(1, is_ready=True, groups={}, alive={b: False}, is_ending=True)) == []
    assert len(events.observe(HostLook(2, is_ready=True, groups={}, alive={b: False}))) == 1
