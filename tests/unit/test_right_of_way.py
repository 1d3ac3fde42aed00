"""Work that can wait pauses while short calls are answered, and never without end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest

from engine.model.schema import Epoch, PartitionId, define_store
from engine.processes.right_of_way import PIECE_SECONDS, RightOfWay
from engine.state import live_rows, partition, segment_builder, segment_merge, version
from engine.state.cache import ColumnCache
from engine.state.partition import PartitionStore
from engine.state.state_options import StateOptions

LONG = 60.0
PATIENT = RightOfWay(LONG, 1e9, LONG)
"""For which work pauses as long as a test may take."""


def work(seconds: float = 2 * PIECE_SECONDS) -> None:
    """Use the processor for a while."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        pass


def start_work(right_of_way: RightOfWay, done: list[str], began: threading.Event) -> threading.Thread:
    def work_and_give_way() -> None:
        work()
        began.set()
        right_of_way.give_way()
        done.append("work")

    thread = threading.Thread(target=work_and_give_way)
    thread.start()
    return thread


def test_work_waits_for_the_calls_that_are_answered() -> None:
    right_of_way = RightOfWay(LONG, 1e9, LONG)
    done: list[str] = []
    began = threading.Event()
    with right_of_way:
        threads = [start_work(right_of_way, done, began) for _ in range(3)]
        assert began.wait(LONG)
        work(0.05)
        done.append("call")
    for thread in threads:
        thread.join(LONG)
    assert done == ["call", "work", "work", "work"]


def test_work_waits_for_the_last_of_several_calls() -> None:
    right_of_way = RightOfWay(LONG, 1e9, LONG)
    done: list[str] = []
    began, may_end = threading.Event(), threading.Event()

    def answer() -> None:
        with right_of_way:
            may_end.wait(LONG)
            done.append("call")

    call = threading.Thread(target=answer)
    with right_of_way:
        call.start()
        thread = start_work(right_of_way, done, began)
        assert began.wait(LONG)
    work(0.05)
    may_end.set()
    for each in (call, thread):
        each.join(LONG)
    assert done == ["call", "work"]


@pytest.mark.parametrize(
    "right_of_way",
    [
        pytest.param(RightOfWay(LONG, 1e9, 0.001), id="pauses are short"),
        pytest.param(RightOfWay(LONG, 0.001, LONG), id="pauses go by the work"),
        pytest.param(RightOfWay(0.0, 1e9, LONG), id="the call is a long one"),
    ],
)
def test_nothing_waits_without_end(right_of_way: RightOfWay) -> None:
    done: list[str] = []
    with right_of_way:
        thread = start_work(right_of_way, done, threading.Event())
        thread.join(LONG)
        assert done == ["work"]


def test_without_calls_nothing_pauses() -> None:
    done: list[str] = []
    start_work(PATIENT, done, threading.Event()).join(LONG)
    assert done == ["work"]


class _Noted(RightOfWay):
    """Notes who gives way."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    def give_way(self) -> None:
        self.given += 1


def test_epochs_merges_and_snapshots_give_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = _Noted()
    for module in (live_rows, partition, segment_builder, segment_merge, version):
        monkeypatch.setattr(module, "RIGHT_OF_WAY", noted)
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64())])
    definition = define_store("store", schema, ["k"], partitions=1)
    store = PartitionStore(definition, PartitionId(0), tmp_path, ColumnCache(1 << 20), StateOptions())

    def given_since(before: int) -> int:
        return noted.given - before

    # So many that they are written with their epoch.
    rows = pa.record_batch({"k": range(20_000), "v": range(20_000)}, schema=definition.row_schema)
    store.apply(Epoch(1), rows)
    # The one block of rows, and before what becomes visible.
    assert noted.given == 2
    before = noted.given
    store.apply(Epoch(2), rows)
    assert given_since(before) == 3  # and before each segment that is searched
    before = noted.given
    store.compact_fully()
    assert given_since(before) >= 3
    before = noted.given
    list(live_rows.live_rows(store.version, 1 << 20))
    assert given_since(before) == 1
    store.close()
