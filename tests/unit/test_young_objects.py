"""How a host has garbage collected."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from engine.sql.literals import lift
from engine.sql.parse import parse
from flight_server.host.process import settle


@pytest.fixture
def settled() -> Iterator[None]:
    before = gc.get_threshold()
    settle()
    yield
    gc.set_threshold(*before)
    gc.unfreeze()


@pytest.mark.usefixtures("settled")
def test_trees_die_young() -> None:
    """With Python's own thresholds, 38 collections of older objects look for them."""
    text = "SELECT " + ", ".join(f"a + {number}" for number in range(200))
    before = gc.get_stats()[1]["collections"]
    for _ in range(100):
        parse(lift(text, "duckdb"), "duckdb")
    assert gc.get_stats()[1]["collections"] - before < 15
