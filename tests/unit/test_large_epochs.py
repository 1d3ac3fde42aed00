"""An epoch whose rows do not fit one Arrow batch: it is applied in pieces, and seen as one."""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, DataFile
from engine.changelog.layout import data_path
from engine.changelog.rows import partition_rows
from engine.model.schema import Epoch, GroupName, define_store
from engine.replica.commit_queue import LARGE_EPOCH_BYTES
from tests.support.following import OPTIONS, live_rows, run_follower
from tests.support.waiting import PATIENCE_SECONDS, wait_until

MOST_BYTES, ROW_BYTES, TASKS = 1 << 16, 1 << 12, 40
"""What stands for the 2 GiB of text that a batch has at the most; and rows that are more than
that together.
"""
GROUP = GroupName("pages")
PAGES = define_store(
    "pages", pa.schema([("url", pa.string()), ("text", pa.string())]), ["url"], partitions=1, group=GROUP
)


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow refuses to put more rows into a batch than it can have."""
    concatenate = pa.concat_batches

    def concatenate_within_limit(batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
        batches = list(batches)
        if sum(batch.nbytes for batch in batches) > MOST_BYTES:
            raise pa.ArrowInvalid(
                "offset overflow while concatenating arrays, consider casting input from `string` to "
                "`large_string` first."
            )
        return concatenate(batches)

    monkeypatch.setattr(pa, "concat_batches", concatenate_within_limit)


def stage_files(changelog: Changelog, epoch: Epoch) -> list[DataFile]:
    """Files of an epoch. Later ones win over earlier ones: each writes the first page of the one before once
    more.
    """
    return [
        changelog.stage(
            GROUP,
            epoch,
            {PAGES.name: partition_rows(PAGES, rows(task, 2, chr(ord("b") + task % 20)))},
            task=str(task),
        )
        for task in range(TASKS)
    ]


def stage_pages(changelog: Changelog) -> Commit:
    """One epoch of all the files."""
    writer = changelog.writer(GROUP, "w")
    return writer.commit(stage_files(changelog, writer.next_epoch))


def rows(first: int, count: int, letter: str) -> pa.Table:
    urls = [f"page {number}" for number in range(first, first + count)]
    return pa.table({"url": urls, "text": [letter * ROW_BYTES] * count}, PAGES.schema)


@pytest.mark.parametrize("large_bytes", [MOST_BYTES, LARGE_EPOCH_BYTES])
def test_an_epoch_of_many_files_is_applied_in_pieces_and_seen_as_one(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    """Whether its rows are read before it is applied, or meanwhile."""
    monkeypatch.setattr("engine.replica.commit_queue.LARGE_EPOCH_BYTES", large_bytes)
    changelog.create_store(PAGES)
    writer = changelog.writer(GROUP, "w")
    small = writer.append({PAGES.name: partition_rows(PAGES, rows(0, 3, "a"))})
    options = replace(OPTIONS, state=replace(OPTIONS.state, apply_bytes=MOST_BYTES))
    seen: set[tuple[Epoch, int]] = set()
    with run_follower(changelog, tmp_path / "data", options) as follower:
        assert follower.wait_for(GROUP, small.epoch, PATIENCE_SECONDS)

        def look() -> bool:
            with follower.pin_views([PAGES.name]) as views:
                seen.add((views[PAGES.name].epoch, views[PAGES.name].live_rows))
                return views[PAGES.name].epoch == large.epoch

        large = writer.commit(stage_files(changelog, writer.next_epoch))
        wait_until(look)
        assert seen <= {(small.epoch, 3), (large.epoch, TASKS + 1)}
        assert follower.status()[0].problem == ""
        expected = {f"page {TASKS}": chr(ord("b") + (TASKS - 1) % 20)} | {
            f"page {task}": chr(ord("b") + task % 20) for task in range(TASKS)
        }
        with follower.pin_views([PAGES.name]) as views:
            found = live_rows(views[PAGES.name]).to_pylist()
        assert {row["url"]: row["text"] for row in found} == {
            url: letter * ROW_BYTES for url, letter in expected.items()
        }
    with (
        run_follower(changelog, tmp_path / "data", options) as follower,
        follower.pin_views([PAGES.name]) as views,
    ):
        assert len(live_rows(views[PAGES.name])) == TASKS + 1


def test_a_large_epoch_is_never_read_whole(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of 40 files, each is read when the rows of the one before it are applied."""
    monkeypatch.setattr("engine.replica.commit_queue.LARGE_EPOCH_BYTES", 1)
    changelog.create_store(PAGES)
    stage_pages(changelog)
    given: list[weakref.ref[pa.RecordBatch]] = []
    most = 0
    read = Changelog.read_batches

    def watch(*arguments: Any) -> Iterator[pa.RecordBatch]:
        nonlocal most
        for batch in read(*arguments):
            given.append(weakref.ref(batch))
            most = max(most, sum(each.nbytes for each in (found() for found in given) if each is not None))
            yield batch

    monkeypatch.setattr(Changelog, "read_batches", watch)
    options = replace(OPTIONS, state=replace(OPTIONS.state, apply_bytes=MOST_BYTES))
    with run_follower(changelog, tmp_path / "data", options) as follower:
        assert follower.wait_for(GROUP, Epoch(2), PATIENCE_SECONDS)
        with follower.pin_views([PAGES.name]) as views:
            assert views[PAGES.name].live_rows == TASKS + 1
    # A piece, and the batch behind it: of a piece that was joined, nothing is left.
    assert 0 < most < 1.5 * MOST_BYTES < TASKS * 2 * ROW_BYTES


def test_damaged_rows_of_a_large_epoch_are_named_and_the_epoch_waits_for_better_ones(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("engine.replica.commit_queue.LARGE_EPOCH_BYTES", 1)
    changelog.create_store(PAGES)
    commit = stage_pages(changelog)
    path = data_path(GROUP, commit.epoch, commit.files[-1].name)
    whole = changelog.objects.get(path)
    assert whole is not None
    changelog.objects.delete([path])
    changelog.objects.put(path, [whole.slice(0, whole.size - 1), pa.py_buffer(b"?")])
    options = replace(OPTIONS, state=replace(OPTIONS.state, apply_bytes=MOST_BYTES))
    with run_follower(changelog, tmp_path / "data", options) as follower:
        wait_until(lambda: "are damaged" in follower.status()[0].problem)
        assert "The rows of store pages, partition 0, in epoch 2" in follower.status()[0].problem
        changelog.objects.delete([path])
        changelog.objects.put(path, [whole])
        assert follower.wait_for(GROUP, commit.epoch, PATIENCE_SECONDS)
        wait_until(lambda: follower.status()[0].problem == "")
        with follower.pin_views([PAGES.name]) as views:
            assert views[PAGES.name].live_rows == TASKS + 1
