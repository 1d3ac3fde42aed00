"""The next epoch of a group that had one lately is found without anybody telling, and between two polls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.model.schema import Epoch
from engine.replica import news_watch
from engine.replica.news_watch import WATCHED_SECONDS, NewsWatch
from engine.replica.turn_table import TurnTable
from engine.replica.turns import Lane, Turn, next_turn
from tests.support.following import GROUP, OPTIONS, define, run_follower
from tests.support.waiting import PATIENCE_SECONDS

ROWS = pa.table({"account": [1, 2, 3], "amount": [10, 20, 30]})
NEVER = 3600.0


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    return Changelog.open(str(tmp_path / "changelog"))


@pytest.fixture
def appender(changelog: Changelog) -> StoreAppender:
    return open_appender(changelog, [define("accounts")])


class _Watched:
    """A watch of one group whose turn is far away."""

    def __init__(self, changelog: Changelog) -> None:
        self.clock = _Clock()
        self.table = TurnTable(self.clock)
        self.table.add(Turn(GROUP, NEVER, Lane.QUICK))
        self.watch = NewsWatch(changelog, self.table, NEVER, self.clock)

    def is_due(self) -> bool:
        """Whether the group is to be moved on now, after a look."""
        self.watch.look()
        turns = self.table._turns.values()
        return next_turn(turns, Lane.QUICK, self.clock()) is not None


def test_the_turn_comes_with_the_epoch(changelog: Changelog, appender: StoreAppender) -> None:
    watched = _Watched(changelog)
    watched.watch.expect(GROUP, Epoch(appender.epoch + 1))
    assert not watched.is_due()
    appender.append({"accounts": ROWS})
    assert watched.is_due()


def test_an_epoch_is_not_waited_for_for_ever(changelog: Changelog, appender: StoreAppender) -> None:
    watched = _Watched(changelog)
    expected = Epoch(appender.epoch + 1)
    watched.watch.expect(GROUP, expected)
    watched.clock.now = WATCHED_SECONDS
    assert not watched.is_due()
    appender.append({"accounts": ROWS})
    assert not watched.is_due()
    watched.watch.expect(GROUP, expected)
    assert watched.is_due()


def test_a_changelog_that_is_away_is_left_to_the_turns(
    tmp_path: Path, changelog: Changelog, appender: StoreAppender
) -> None:
    watched = _Watched(changelog)
    appender.append({"accounts": ROWS})
    (tmp_path / "changelog").rename(tmp_path / "elsewhere")
    (tmp_path / "changelog").symlink_to("changelog")  # no directory, and no missing one: an error
    watched.watch.expect(GROUP, Epoch(1))
    assert not watched.is_due()
    (tmp_path / "changelog").unlink()
    (tmp_path / "elsewhere").rename(tmp_path / "changelog")
    assert not watched.is_due(), "it is not asked again"


@pytest.mark.parametrize("is_quick", [True, False])
def test_only_what_answers_at_once_is_watched(is_quick: bool, tmp_path: Path) -> None:
    uri = str(tmp_path / "changelog") if is_quick else "memory://"
    watched = _Watched(Changelog.open(uri))
    watched.watch.start()
    assert watched.watch._thread.is_alive() is is_quick
    watched.watch.stop()
    assert not watched.watch._thread.is_alive()


def test_a_host_needs_neither_a_poll_nor_to_be_told(
    tmp_path: Path, changelog: Changelog, appender: StoreAppender, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news_watch, "LOOKS_A_POLL", 1e9)
    options = replace(OPTIONS, poll_seconds=NEVER, retention_seconds=NEVER)
    with run_follower(changelog, tmp_path / "data", options) as follower:
        epoch = appender.append({"accounts": ROWS}).epoch
        follower.notify(GROUP)
        for _ in range(3):
            assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
            epoch = appender.append({"accounts": ROWS}).epoch
        assert follower.wait_for(GROUP, epoch, PATIENCE_SECONDS)
