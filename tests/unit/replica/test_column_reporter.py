"""What hosts say of columns: put together from segments, and looked at again when enough is new."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.changelog import Changelog, open_appender
from engine.cluster.reports import ColumnReport
from engine.model.distinct_sketch import distinct_values
from engine.model.schema import StoreDefinition, define_store
from engine.replica.follower import Follower
from tests.support.following import run_follower

WAIT_SECONDS = 60.0
ROWS = 4000
SONGS = define_store(
    "songs",
    pa.schema(
        [("song", pa.int64()), ("genre", pa.int32()), ("title", pa.string()), ("tags", pa.list_(pa.string()))]
    ),
    ["song"],
    partitions=2,
)


def songs(first: int, count: int) -> pa.Table:
    numbers = np.arange(first, first + count)
    return pa.table(
        {
            "song": numbers,
            "genre": pa.array(numbers % 7, pa.int32()),
            "title": [f"song {number}" for number in numbers.tolist()],
            "tags": pa.array([["x"]] * count),
        },
        SONGS.schema,
    )


def columns(follower: Follower) -> Mapping[str, ColumnReport]:
    found = follower.report()[1][SONGS.name].columns
    assert found is not None
    return found


def hashes(found: Mapping[str, ColumnReport]) -> list[list[int]]:
    return [each.sketch.tolist() for each in found.values() if each.sketch is not None]


def append(changelog: Changelog, follower: Follower, rows: pa.Table, store: StoreDefinition = SONGS) -> None:
    epoch = open_appender(changelog, [store]).append({store.name: rows}).epoch
    assert follower.wait_for(store.group, epoch, WAIT_SECONDS)


def test_a_report_says_what_columns_are_like(changelog: Changelog, tmp_path: Path) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        append(changelog, follower, songs(0, ROWS))
        found = columns(follower)
        assert (found["song"].low, found["song"].high) == (0, ROWS - 1)
        assert (found["title"].low, found["title"].high) == (None, None)
        assert found["tags"].sketch is None
        numbers = {
            name: distinct_values(each.sketch) for name, each in found.items() if each.sketch is not None
        }
        assert numbers["genre"] == 7
        assert 0.6 * ROWS < numbers["song"] < 1.6 * ROWS
        assert 0.6 * ROWS < numbers["title"] < 1.6 * ROWS
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(SONGS.group, changelog.newest_epoch(SONGS.group), WAIT_SECONDS)
        assert hashes(columns(follower)) == hashes(found)


def test_what_little_is_new_changes_nothing(changelog: Changelog, tmp_path: Path) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        append(changelog, follower, songs(0, ROWS))
        found = columns(follower)
        append(changelog, follower, songs(ROWS, 10))
        assert columns(follower) is found
        append(changelog, follower, songs(ROWS, ROWS))
        assert columns(follower)["song"].high == 2 * ROWS - 1


def test_of_small_segments_only_bounds_are_known(changelog: Changelog, tmp_path: Path) -> None:
    with run_follower(changelog, tmp_path / "data") as follower:
        append(changelog, follower, songs(0, 100))
        assert columns(follower)["song"].high == 99
        assert columns(follower)["song"].sketch is None
