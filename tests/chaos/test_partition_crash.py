"""A crash at any point leaves epoch N or N-1, whole, and in the shape that the store has there."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine.model.schema import Epoch, PartitionId
from engine.state.partition import PartitionStore
from engine.state.view import StateView
from tests.chaos.partition_process import EPOCHS, all_rows_until, at, open_store, rows_of
from tests.support.following import live_rows


def run_and_die(directory: Path, die_at: int, when: str) -> tuple[int, int, int]:
    """Run the process; its exit code, the last epoch it began and the last it finished."""
    command = [sys.executable, "-m", "tests.chaos.partition_process", str(directory), str(die_at), when]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    said = [line.split() for line in run.stdout.splitlines()]
    begun = max((int(number) for word, number in said if word == "begin"), default=0)
    done = max((int(number) for word, number in said if word == "done"), default=0)
    assert run.returncode in {0, -signal.SIGKILL}, run.stderr
    return run.returncode, begun, done


@pytest.mark.parametrize("when", ["before", "after"])
def test_killed_at_every_write_leaves_a_whole_epoch(tmp_path: Path, when: str) -> None:
    code, die_at = -signal.SIGKILL, 1
    while code != 0:
        directory = tmp_path / str(die_at)
        code, begun, done = run_and_die(directory, die_at, when)
        store = open_store(directory)
        try:
            assert done <= store.applied <= begun
            assert held(store) == all_rows_until(store.applied)
            for epoch in range(store.applied + 1, EPOCHS + 1):
                store.apply(Epoch(epoch), rows_of(epoch), migrated=at(epoch))
            assert held(store) == all_rows_until(EPOCHS)
        finally:
            store.close()
        die_at += 3
    assert die_at > 12, "the process was never killed"


def held(store: PartitionStore) -> dict[int, dict[str, object]]:
    """The rows in the shape that the store has at the epoch, by key."""
    definition = at(max(store.applied, 1)).definition
    view = StateView(definition, store.version.epoch, 0, {PartitionId(0): store.version})
    return {row[definition.key[0]]: row for row in live_rows(view).to_pylist()}
