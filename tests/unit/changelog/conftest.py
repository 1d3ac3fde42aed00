"""Changelogs on every kind of storage, a real S3 server on loopback among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest

from engine.changelog import Changelog
from engine.changelog.objects import open_objects
from engine.model.schema import PartitionId, StoreDefinition, StoreName, define_store

PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("title", pa.string()), ("plays", pa.int32())]),
    ["song"],
    partitions=4,
)


@dataclass(frozen=True)
class Root:
    """A place for one changelog, which any number of `Changelog` objects can open, as processes would.

    Attributes:
        uri: Root URI.
        options: Settings of the store.
        memory: Whether it is in memory, where each opening of the URI would be another one.
    """

    uri: str
    options: Mapping[str, str] = field(default_factory=dict)
    memory: bool = False

    def opener(self) -> Callable[[], Changelog]:
        if not self.memory:
            return lambda: Changelog.open(self.uri, self.options)
        objects = open_objects(self.uri, {})
        return lambda: Changelog(self.uri, {}, objects)


@pytest.fixture(params=["file", "memory", "s3"])
def reopen(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Changelog]:
    """Opens one and the same changelog, empty at first, on each kind of storage."""
    if request.param == "file":
        return Root((tmp_path / "root").as_uri()).opener()
    if request.param == "memory":
        return Root("memory://", memory=True).opener()
    return Root(f"s3://bucket/{uuid4()}", request.getfixturevalue("s3_options")).opener()


@pytest.fixture
def local(tmp_path: Path) -> Changelog:
    """A changelog in a local directory."""
    return Changelog.open(str(tmp_path / "root"))


def rows(*songs: int, title: str = "t", plays: int = 1) -> pa.Table:
    """Rows of `PLAYS`."""
    return pa.table(
        {"song": songs, "title": [title] * len(songs), "plays": [plays] * len(songs)}, PLAYS.schema
    )


def read(
    changelog: Changelog, commit_epoch: int, definition: StoreDefinition = PLAYS
) -> list[tuple[object, ...]]:
    """All rows of one epoch of one store as sorted tuples."""
    commit = changelog.read_commit(definition.group, commit_epoch)  # type: ignore[arg-type]  # an int will do in a test
    assert commit is not None
    return flat(changelog.read_rows(commit, {definition.name: definition}))


def flat(found: Mapping[tuple[StoreName, PartitionId], pa.Table]) -> list[tuple[object, ...]]:
    """The rows of all partitions as sorted tuples."""
    return sorted((tuple(row.values()) for table in found.values() for row in table.to_pylist()), key=repr)
