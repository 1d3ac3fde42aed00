"""A crash at any point leaves epoch N or N-1, whole, and in the shape that the store has there; where epochs
stay in memory for a while, one that was written, or a later one.
"""

from __future__ import annotations

import signal
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest

from engine.model.schema import Epoch, PartitionId
from engine.state.partition import PartitionStore
from engine.state.state_view import StateView
from tests.chaos.partition_process import EPOCHS, all_rows_until, apply_epochs, open_stores, rows_of, shape_at
from tests.support.following import live_rows
from tests.support.waiting import PATIENCE_SECONDS

PROCESSES = get_context("forkserver")
"""Each process is forked off one that has imported everything, and has opened nothing."""
PROCESSES.set_forkserver_preload(["pytest", "tests.chaos.partition_process"])


def run_and_die(
    directory: Path, partitions: int, die_at: int, when: str, *, is_buffered: bool
) -> tuple[int | None, int, int]:
    """Run the process; its exit code, the last epoch it began and the last it finished and wrote."""
    progress, told = PROCESSES.Pipe(duplex=False)
    arguments = (directory, partitions, die_at, when == "after", is_buffered, told)
    process = PROCESSES.Process(target=apply_epochs, args=arguments)
    process.start()
    told.close()
    latest = {"begin": 0, "done": 0}
    with progress, suppress(EOFError):
        while progress.poll(PATIENCE_SECONDS):
            word, number = progress.recv()
            latest[word] = number
    process.join(PATIENCE_SECONDS)
    assert process.exitcode in {0, -signal.SIGKILL}, "the process failed: see what it has printed"
    return process.exitcode, latest["begin"], latest["done"]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("is_buffered", [False, True], ids=["written", "held"])
def test_killed_at_every_write_leaves_a_whole_epoch(
    tmp_path: Path, when: str, partitions: int, is_buffered: bool
) -> None:
    code: int | None = -signal.SIGKILL
    die_at = 1
    while code != 0:
        directory = tmp_path / str(die_at)
        code, begun, done = run_and_die(directory, partitions, die_at, when, is_buffered=is_buffered)
        for store in open_stores(directory, partitions):
            try:
                assert done <= store.applied <= begun
                assert held(store) == all_rows_until(store.applied)
                for epoch in range(store.applied + 1, EPOCHS + 1):
                    store.apply(Epoch(epoch), rows_of(epoch), migrated=shape_at(epoch))
                assert held(store) == all_rows_until(EPOCHS)
            finally:
                store.close()
        die_at += 3 * partitions + partitions // 2
    assert die_at > 12, "the process was never killed"


def held(store: PartitionStore) -> dict[int, dict[str, object]]:
    """The rows in the shape that the store has at the epoch, by key."""
    definition = shape_at(max(store.applied, 1)).definition
    view = StateView(definition, store.version.epoch, 0, {PartitionId(0): store.version})
    return {row[definition.key[0]]: row for row in live_rows(view).to_pylist()}
