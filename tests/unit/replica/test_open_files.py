"""A host says when the system lets it have too few files open for its partitions."""

from __future__ import annotations

import resource
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.errors import LimitExceeded
from engine.model.schema import PartitionId, define_store
from engine.replica.open_files import (
    OTHER_FILES,
    FileNeed,
    check_open_files,
    file_need,
    raise_open_files_limit,
)
from engine.replica.partition_places import place_of
from tests.support.following import run_follower

SCHEMA = pa.schema([("account", pa.int64())])


def need_of(stores: int, partitions: int) -> FileNeed:
    """The files of some stores, each with some partitions."""
    definitions = [
        define_store(f"s{number}", SCHEMA, ["account"], partitions=partitions) for number in range(stores)
    ]
    return file_need(
        place_of(Path("nowhere"), each, PartitionId(number))
        for each in definitions
        for number in range(partitions)
    )


def test_as_many_as_there_may_be() -> None:
    check_open_files(need_of(2_000, 1), 20_000)
    check_open_files(need_of(10_000, 1), -1)
    with pytest.raises(
        LimitExceeded, match=r"4,096 partitions .* 33,280 open files, .* allows 20,000: raise"
    ):
        check_open_files(need_of(4_096, 1), 20_000)


def test_partitions_of_one_store_share_files() -> None:
    need = need_of(1, 4_096)
    assert need.partitions == 4_096
    assert need.files + OTHER_FILES < 10_000
    check_open_files(need, 20_000)


def test_the_limit_of_this_process_is_raised_as_far_as_may_be() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, 1024) if soft > 0 else 1024, hard))
    try:
        assert raise_open_files_limit() == hard
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_group_with_too_many_partitions_is_not_opened_and_others_are(
    changelog: Changelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wide = define_store("wide", SCHEMA, ["account"], partitions=16, group="wide")
    small = define_store("small", SCHEMA, ["account"], partitions=2, group="small")
    newest = open_appender(changelog, [small]).append({"small": pa.table({"account": [1]}, SCHEMA)}).epoch
    open_appender(changelog, [wide])
    monkeypatch.setattr("engine.replica.open_files.OTHER_FILES", 0)
    monkeypatch.setattr("engine.replica.follower.raise_open_files_limit", lambda: 100)
    with run_follower(changelog, tmp_path / "data") as follower:
        assert follower.wait_for(small.group, newest, 60)
        problems = {status.group: status.problem for status in follower.status()}
    assert problems[small.group] == ""
    assert "open files, and the system allows 100" in problems[wide.group]
