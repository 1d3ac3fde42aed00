"""Fixtures of the tests with Spark."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture
def uri(tmp_path: Path) -> str:
    """Where the test's changelog is."""
    return (tmp_path / "changelog").as_uri()
