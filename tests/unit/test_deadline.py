"""The watch over statements: one that cannot be asked or ended leaves all others their time limits."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

from engine.deadline import Deadline, DeadlineWatcher
from engine.errors import DeadlineExceeded
from tests.support.waiting import PATIENCE_SECONDS


def test_a_statement_that_cannot_be_ended_keeps_no_other_from_its_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ended = threading.Event()

    def ask() -> bool:
        raise RuntimeError("a defect of the transport")

    def interrupt() -> None:
        raise MemoryError

    with closing(DeadlineWatcher()) as watcher:
        cannot_be_asked = watcher.watch(Deadline(None, ask), lambda: None)
        cannot_be_ended = watcher.watch(Deadline(0.0), interrupt)
        late = watcher.watch(Deadline(0.3), ended.set)
        with cannot_be_asked, cannot_be_ended, late:
            assert ended.wait(PATIENCE_SECONDS)
        assert isinstance(late.error, DeadlineExceeded)
        # Also those that come later.
        ended.clear()
        with watcher.watch(Deadline(0.0), ended.set):
            assert ended.wait(PATIENCE_SECONDS)
    assert len([record for record in caplog.records if "could not be asked" in record.message]) == 2
