"""When a host has first seen epochs, and since when they can be missing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from engine.model.schema import Epoch
from engine.replica.sightings import MOST_SIGHTINGS, Sightings

TOMORROW = 10**9


def test_a_commit_is_as_old_as_it_says_unless_it_was_seen_before() -> None:
    sightings = Sightings()
    assert sightings.unread_since(Epoch(4), 70) == 70
    sightings.note(Epoch(5), 100)
    sightings.note(Epoch(5), 200)
    sightings.note(Epoch(8), 300)
    assert sightings.unread_since(Epoch(4), 70) == 70
    assert [sightings.unread_since(Epoch(epoch), TOMORROW) for epoch in range(4, 10)] == [
        *(100, 100, 300, 300, 300),
        TOMORROW,
    ]


def test_what_the_changelog_has_lost_was_not_seen() -> None:
    sightings = Sightings()
    sightings.note(Epoch(5), 100)
    sightings.note(Epoch(9), 200)
    sightings.lower(Epoch(7))
    sightings.note(Epoch(8), 300)
    assert [sightings.unread_since(Epoch(epoch), TOMORROW) for epoch in range(5, 9)] == [100, 200, 200, 300]
    sightings.lower(Epoch(8))
    assert sightings.unread_since(Epoch(8), TOMORROW) == 300


@given(st.integers(1, 3 * MOST_SIGHTINGS), st.integers(1, 5))
def test_a_host_that_is_far_behind_keeps_few_and_never_takes_a_lag_for_a_shorter_one(
    looks: int, epochs: int
) -> None:
    """Each look finds some epochs more, a second later; none is read meanwhile."""
    sightings = Sightings()
    for look in range(1, looks + 1):
        sightings.note(Epoch(look * epochs), look)
        assert len(sightings._seen) < MOST_SIGHTINGS
    for look in range(1, looks + 1, 97):
        found = sightings.unread_since(Epoch(look * epochs), TOMORROW)
        assert found <= look
        assert found == look or looks >= MOST_SIGHTINGS
        assert look - found < 16
