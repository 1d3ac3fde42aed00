"""Which epochs a host takes one by one: a job that commits, and a host that applies, simulated in time."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cached_property import cached_property
from engine.changelog import Changelog, open_appender
from engine.model.schema import Epoch
from engine.replica.commit_queue import MOST_EPOCHS_TOGETHER, stopping_point
from engine.replica.patience import (
    FEW_EPOCHS,
    FEW_ROWS,
    MOST_PATIENCE,
    YOUNG_SECONDS,
    Backlog,
    Patience,
)
from tests.support.following import GROUP, define, run_follower
from tests.support.gated import Gate, gate_changelog

NO_PATIENCE = Patience(float("-inf"))
"""As who takes all but little together: the rule that there was before."""


@dataclass(frozen=True)
class Host:
    """What applying takes.

    Attributes:
        step_seconds: Whatever is applied together.
        epoch_seconds: Beside that, each epoch.
        stalls: When it does nothing: begin and end.
        spread: Standard deviation of the logarithm of how long a step takes, by chance; 0 for no chance.
    """

    step_seconds: float = 0.015
    epoch_seconds: float = 0.005
    stalls: tuple[tuple[float, float], ...] = ()
    spread: float = 0.0

    @cached_property
    def chance(self) -> Random:
        return Random(7)

    def end_of(self, began: float, epochs: int) -> float:
        """When a step ends."""
        factor = self.chance.lognormvariate(-(self.spread**2) / 2, self.spread)
        end = began + (self.step_seconds + epochs * self.epoch_seconds) * factor
        for first, last in self.stalls:
            if began < last and end > first:
                end += last - max(first, began)
        return end


@dataclass(frozen=True)
class Course:
    """What came of it.

    Attributes:
        readable: The epochs that could be read.
        delays: For each epoch, the seconds from its commit until it or a later one could be read.
    """

    readable: list[int]
    delays: list[float]

    def longest_delay(self, first: int) -> float:
        return max(self.delays[first:])


def run(
    host: Host, patience: Patience, *, epochs: int = 400, apart: float = 0.05, rows: int = 1000
) -> Course:
    """A host that follows a job which commits an epoch every so many seconds."""
    commits = [number * apart for number in range(1, epochs + 1)]
    now, reached = 0.0, 0
    readable: list[int] = []
    delays: list[float] = []
    while reached < epochs:
        now = max(now, commits[reached])
        waiting = [at for at in commits[reached:] if at <= now][:MOST_EPOCHS_TOGETHER]
        backlog = Backlog(
            len(waiting),
            len(waiting) * rows,
            rows,
            waiting[-1] - waiting[0],
            len(waiting) >= MOST_EPOCHS_TOGETHER,
        )
        is_alone = patience.takes_one(backlog)
        if patience is not NO_PATIENCE:
            patience = patience.patience_left(backlog)
        stop = reached + 1 if is_alone else stopping_point(Epoch(reached + 1), Epoch(reached + len(waiting)))
        now = host.end_of(now, stop - reached)
        delays += [now - at for at in commits[reached:stop]]
        reached = int(stop)
        readable.append(reached)
    return Course(readable, delays)


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.9])
def test_nothing_is_skipped_on_account_of_a_hiccup(seconds: float) -> None:
    stalls = tuple((at, at + seconds) for at in (2.0, 8.0, 14.0))
    patient, before = run(Host(stalls=stalls), Patience()), run(Host(stalls=stalls), NO_PATIENCE)
    assert patient.readable == list(range(1, 401))
    assert max(patient.delays) <= max(before.delays) + 0.1
    if seconds > 0.2:
        assert len(before.readable) < 400


def test_who_was_away_catches_up_as_fast_as_before() -> None:
    stalls = ((2.0, 14.0),)
    patient, before = run(Host(stalls=stalls), Patience()), run(Host(stalls=stalls), NO_PATIENCE)
    level = next(number for number in range(240, 400) if before.delays[number] < 0.1)
    assert max(patient.delays[level + 40 :]) < 0.1
    assert max(patient.delays) <= max(before.delays) + 0.01
    assert sum(patient.delays) <= sum(before.delays) * 1.02


def test_who_is_too_slow_for_each_epoch_gives_it_up() -> None:
    """A step takes longer than the job takes for the next epoch."""
    slow = Host(step_seconds=0.08)
    patient, before = run(slow, Patience(), epochs=4000), run(slow, NO_PATIENCE, epochs=4000)
    assert max(patient.delays) <= YOUNG_SECONDS + 0.5
    behind = patient.longest_delay(1000)
    assert behind <= 1.1 * before.longest_delay(1000)
    assert len(patient.readable) <= 1.1 * len(before.readable) + MOST_PATIENCE


@pytest.mark.parametrize("busy", [0.7, 0.9, 1.2, 2.2])
def test_where_steps_take_long_by_chance_more_can_be_read_and_nothing_comes_much_later(busy: float) -> None:
    patient, before = (
        run(Host(busy * 0.05 - 0.005, spread=1.0), patience, epochs=4000)
        for patience in (Patience(), NO_PATIENCE)
    )
    gained = len(patient.readable) - len(before.readable)
    assert gained >= (100 if busy < 1.0 else -0.02 * len(before.readable))
    assert max(patient.delays) <= max(before.delays) + YOUNG_SECONDS
    assert sum(patient.delays) <= 1.4 * sum(before.delays)


def test_rows_use_patience_up() -> None:
    stalls = ((2.0, 2.9),)
    small = run(Host(stalls=stalls), Patience(), rows=1000)
    large = run(Host(stalls=stalls), Patience(), rows=FEW_ROWS)
    huge = run(Host(stalls=stalls), Patience(), rows=FEW_ROWS + 1)
    assert len(small.readable) == 400
    assert len(huge.readable) < len(large.readable) < 400
    assert huge == run(Host(stalls=stalls), NO_PATIENCE, rows=FEW_ROWS + 1)


BACKLOGS = st.builds(
    Backlog,
    st.integers(1, 64),
    st.integers(0, 10 * FEW_ROWS),
    st.integers(0, 2 * FEW_ROWS),
    st.floats(-1.0, 3.0),
    st.booleans(),
)


@given(st.lists(BACKLOGS, max_size=300))
def test_patience_is_bounded(backlogs: list[Backlog]) -> None:
    patience = Patience()
    taken = level = 0
    for backlog in backlogs:
        is_alone, is_little = patience.takes_one(backlog), backlog.is_little
        assert is_alone or not is_little
        taken += is_alone and not is_little
        level += backlog.epochs == 1
        patience = patience.patience_left(backlog)
        assert 0.0 <= patience.left <= MOST_PATIENCE
    assert taken <= MOST_PATIENCE + level / 4


def test_who_has_a_backlog_that_is_old_or_was_cut_has_none() -> None:
    for backlog in (
        Backlog(FEW_EPOCHS + 1, 5, 1, YOUNG_SECONDS + 0.1),
        Backlog(FEW_EPOCHS + 1, 5, 1, 0.1, is_cut=True),
        Backlog(2, FEW_ROWS + 2, FEW_ROWS + 1, 0.1),
    ):
        assert not Patience().takes_one(backlog)
        assert Patience().patience_left(backlog) == Patience()


@given(st.lists(st.tuples(st.integers(0, 39), st.booleans()), min_size=1, max_size=40))
def test_hosts_still_meet(steps: list[tuple[int, bool]]) -> None:
    """Who takes some epochs one by one stops at every epoch at which it would have stopped without."""
    reached, stops = 0, {0}
    for more, is_alone in steps:
        last = reached + 1 + more
        reached = reached + 1 if is_alone else int(stopping_point(Epoch(reached + 1), Epoch(last)))
        stops.add(reached)
    for before, after in pairwise(sorted(stops)):
        powers = [epoch & -epoch for epoch in range(before + 1, after)]
        assert all(power < after & -after for power in powers)


def test_each_epoch_can_be_read_that_came_while_the_host_was_held_up(
    changelog: Changelog, tmp_path: Path
) -> None:
    store = define("accounts")

    def append(number: int) -> Epoch:
        return appender.append({"accounts": pa.table({"account": [number], "amount": [number]})}).epoch

    with open_appender(changelog, [store]) as appender:
        first = append(0)
        gate = Gate(GROUP, Epoch(first + 1))
        with gate_changelog(changelog.uri, gate) as gated, run_follower(gated, tmp_path / "data") as follower:
            assert follower.wait_for(GROUP, first, 60)
            last = append(1)
            assert gate.reached.wait(60)
            for number in range(2, 12):
                last = append(number)
            gate.open()
            assert follower.wait_for(GROUP, last, 60)
            for epoch in range(first, last + 1):
                with follower.pin_views([store.name], {GROUP: Epoch(epoch)}) as views:
                    assert views[store.name].live_rows == 1 + epoch - first
