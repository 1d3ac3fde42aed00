"""What tests of the follower share with others that need a changelog."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.changelog import Changelog


@pytest.fixture
def changelog(tmp_path: Path) -> Changelog:
    """An empty changelog in a local directory."""
    return Changelog.open(str(tmp_path / "changelog"))
