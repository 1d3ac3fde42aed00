"""An epoch whose rows do not fit one Arrow batch: it is applied in pieces, and seen as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog
from engine.changelog.rows import partition_rows
from engine.model.schema import Epoch, GroupName, define_store
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


def rows(first: int, count: int, letter: str) -> pa.Table:
    urls = [f"page {number}" for number in range(first, first + count)]
    return pa.table({"url": urls, "text": [letter * ROW_BYTES] * count}, PAGES.schema)


def test_an_epoch_of_many_files_is_applied_in_pieces_and_seen_as_one(
    changelog: Changelog, tmp_path: Path
) -> None:
    changelog.create_store(PAGES)
    writer = changelog.writer(GROUP, "w")
    small = writer.append({PAGES.name: partition_rows(PAGES, rows(0, 3, "a"))})
    options = replace(OPTIONS, state=replace(OPTIONS.state, apply_bytes=MOST_BYTES))
    seen: set[tuple[Epoch, int]] = set()
    with run_follower(changelog, tmp_path / "data", options) as follower:
        assert follower.wait_for(GROUP, small.epoch, PATIENCE_SECONDS)

        def look() -> bool:
            with follower.snapshot([PAGES.name]) as views:
                seen.add((views[PAGES.name].epoch, views[PAGES.name].live_rows))
                return views[PAGES.name].epoch == large.epoch

        # Later files win over earlier ones: each writes the first page of the one before once more.
        files = [
            changelog.stage(
                GROUP,
                writer.next_epoch,
                {PAGES.name: partition_rows(PAGES, rows(task, 2, chr(ord("b") + task % 20)))},
                task=str(task),
            )
            for task in range(TASKS)
        ]
        large = writer.commit(files)
        wait_until(look)
        assert seen <= {(small.epoch, 3), (large.epoch, TASKS + 1)}
        assert follower.status()[0].problem == ""
        expected = {f"page {TASKS}": chr(ord("b") + (TASKS - 1) % 20)} | {
            f"page {task}": chr(ord("b") + task % 20) for task in range(TASKS)
        }
        with follower.snapshot([PAGES.name]) as views:
            found = live_rows(views[PAGES.name]).to_pylist()
        assert {row["url"]: row["text"] for row in found} == {
            url: letter * ROW_BYTES for url, letter in expected.items()
        }
    with (
        run_follower(changelog, tmp_path / "data", options) as follower,
        follower.snapshot([PAGES.name]) as views,
    ):
        assert len(live_rows(views[PAGES.name])) == TASKS + 1
