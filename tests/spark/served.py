"""What SQL sees of stores that a test's queries wrote."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from engine.changelog import Changelog
from engine.model.schema import GroupName
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService
from tests.support.following import run_follower


@contextmanager
def serve_group(uri: str, directory: Path, group: str) -> Iterator[QueryService]:
    """Answers statements over a store group as its newest epoch left it."""
    changelog, name = Changelog.open(uri), GroupName(group)
    with run_follower(changelog, directory, FollowerOptions(poll_seconds=3600.0)) as follower:
        follower.notify()
        assert follower.wait_for(name, changelog.newest_epoch(name), 60)
        with closing(QueryService(follower)) as service:
            yield service


def rows_of(service: QueryService, sql: str) -> list[dict[str, Any]]:
    """A statement's rows by column name."""
    rows: list[dict[str, Any]] = service.execute(sql).read_all().to_pylist()
    return rows
