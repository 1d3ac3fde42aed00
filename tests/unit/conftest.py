"""What tests of the engine's and the command line's parts share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from engine.changelog import Changelog
from tests.support.s3_server import s3_server


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """An empty changelog in a local directory."""
    return Changelog.open(str(tmp_path / "changelog"))


@pytest.fixture(scope="session")
def s3_options(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """Settings of an S3 server with a bucket called `bucket`."""
    with s3_server(tmp_path_factory.mktemp("moto") / "log") as settings:
        yield settings
