"""Every transition of a group that catches up, from every state; what is impossible is refused."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest

from engine.model.schema import Epoch
from engine.replica.catch_up import (
    SECONDS_BETWEEN_DOUBTS,
    CatchUpState,
    Source,
    Stage,
    Track,
    TransitionError,
)

NEWEST, SNAPSHOT = Epoch(9), Epoch(7)
LONG = SECONDS_BETWEEN_DOUBTS
UNSURE, READING, COMMITS, BLOCKED = Source.UNSURE, Source.SNAPSHOT, Source.COMMITS, Source.BLOCKED
OPEN = (Stage.BUILDING, Stage.READABLE)

SOURCES: dict[str, tuple[Callable[[CatchUpState, Track], CatchUpState], Collection[Source], Source]] = {
    "read a snapshot": (
        lambda state, track: state.read_snapshot(track, SNAPSHOT),
        (UNSURE, BLOCKED, READING),
        READING,
    ),
    "abandon a snapshot": (CatchUpState.abandon_snapshot, (UNSURE, BLOCKED, READING), UNSURE),
    "follow commits": (CatchUpState.follow_commits, (UNSURE, BLOCKED, READING), COMMITS),
    "doubt commits": (CatchUpState.doubt_commits, (COMMITS, UNSURE), UNSURE),
    "block": (CatchUpState.block, (COMMITS, UNSURE), BLOCKED),
}
"""A transition of a track's source, from where it is possible, and where it leads."""


PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"
ARROW = re.compile(r"^ +([A-Z]+) --> ([A-Z]+): (\w+)", re.MULTILINE)


def states() -> Iterator[CatchUpState]:
    """Every combination of stage and sources."""
    for stage, main, late in itertools.product(Stage, Source, [None, *Source]):
        reading = SNAPSHOT if READING in (main, late) else None
        yield CatchUpState(stage, NEWEST, main, late, reading)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("track", Track)
def test_a_source_changes_where_that_is_possible(name: str, track: Track) -> None:
    transition, sources, expected = SOURCES[name]
    for state in states():
        if state.stage not in OPEN or state.source(track) not in sources:
            with pytest.raises(TransitionError):
                transition(state, track)
            continue
        after = transition(state, track)
        other = Track.LATE if track is Track.MAIN else Track.MAIN
        assert after.source(track) is expected
        assert after.source(other) is state.source(other)
        assert (after.stage, after.target) == (state.stage, state.target)
        if expected is READING:
            assert after.snapshot == SNAPSHOT
        elif name in ("abandon a snapshot", "follow commits"):
            assert after.snapshot is None


def test_partitions_are_opened_once() -> None:
    for state in states():
        if state.stage is not Stage.WAITING:
            with pytest.raises(TransitionError):
                state.begin(NEWEST)
    begun = CatchUpState().begin(NEWEST)
    assert (begun.stage, begun.target, begun.main, begun.late) == (Stage.BUILDING, NEWEST, UNSURE, None)


def test_what_was_made_of_another_history_is_begun_again() -> None:
    for state in states():
        if state.stage is Stage.WAITING:
            with pytest.raises(TransitionError):
                state.start_over(5.0)
        else:
            assert state.start_over(5.0) == CatchUpState(doubted_at=5.0)
    caught_up = CatchUpState().begin(NEWEST).publish()
    assert caught_up.start_over(5.0).has_caught_up


def test_what_is_not_open_cannot_be_read() -> None:
    for state in states():
        if state.stage is Stage.WAITING:
            with pytest.raises(TransitionError):
                state.publish()
            continue
        after = state.publish()
        assert after.stage is Stage.READABLE
        assert (after.main, after.late) == (state.main, state.late)


def test_late_partitions_join_when_they_have_caught_up() -> None:
    for state in states():
        if state.stage in OPEN:
            assert state.rebuild_late().late is UNSURE
        else:
            with pytest.raises(TransitionError):
                state.rebuild_late()
        if state.stage in OPEN and state.late is COMMITS:
            assert state.join_late().late is None
        else:
            with pytest.raises(TransitionError):
                state.join_late()


def test_a_group_has_caught_up_for_good_once_it_is_read_whole() -> None:
    begun = CatchUpState().begin(NEWEST)
    assert not begun.has_caught_up
    partly = begun.rebuild_late().publish()
    assert not partly.has_caught_up
    whole = partly.follow_commits(Track.LATE).join_late().publish()
    assert whole.has_caught_up
    assert whole.rebuild_late().publish().has_caught_up


def test_commits_are_doubted_when_there_is_no_news_for_long() -> None:
    following = CatchUpState(doubted_at=100.0).begin(NEWEST).follow_commits(Track.MAIN)
    assert following.await_news(100.0 + LONG / 2) is following
    doubting = following.await_news(100.0 + LONG)
    assert (doubting.main, doubting.doubted_at) == (UNSURE, 100.0 + LONG)
    again = doubting.follow_commits(Track.MAIN)
    assert again.await_news(100.0 + 1.5 * LONG) is again


def test_the_refusal_says_what_is_impossible() -> None:
    with pytest.raises(TransitionError, match=r"^A group cannot publish where no partition is open\.$"):
        CatchUpState().publish()
    with pytest.raises(
        TransitionError,
        match=r"^A group cannot join late partitions for those that are far behind, .*: there are none\.$",
    ):
        CatchUpState().begin(NEWEST).join_late()


def test_the_drawing_has_all_transitions_and_no_others() -> None:
    drawn = set(ARROW.findall(PAGE.read_text()))
    stages = {
        ("WAITING", "BUILDING", "begin"),
        ("BUILDING", "READABLE", "publish"),
        ("BUILDING", "WAITING", "start_over"),
        ("READABLE", "WAITING", "start_over"),
    }
    names = {
        "read a snapshot": "read_snapshot",
        "abandon a snapshot": "abandon_snapshot",
        "follow commits": "follow_commits",
        "doubt commits": "doubt_commits",
        "block": "block",
    }
    sources = {
        (before.name, after.name, names[transition])
        for transition, (_, possible, after) in SOURCES.items()
        for before in possible
        if before is not after
    }
    waiting = {("COMMITS", "UNSURE", "await_news")}
    assert drawn == stages | sources | waiting | {("READABLE", "READABLE", "publish")}
