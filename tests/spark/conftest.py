"""Fixtures of the tests with Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from tests.spark.frames import TYPED, TYPED_ROWS, serve_directory
from tests.support.many_hosts import three_hosts


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where the test's changelog is."""
    return (tmp_path / "changelog").as_uri()


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The addresses of three hosts that share the store `plays`."""
    with three_hosts(tmp_path_factory.mktemp("three")) as hosts:
        yield ",".join(host.uri for host in hosts.values())


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A host alone, with a column of each type."""
    directory = tmp_path_factory.mktemp("typed")
    append_table(
        Changelog.open(str(directory / "changelog")),
        define_store("typed", TYPED, ["id"], partitions=3),
        pa.Table.from_pylist(TYPED_ROWS, TYPED),
    )
    with serve_directory(directory) as host:
        yield host.uri
