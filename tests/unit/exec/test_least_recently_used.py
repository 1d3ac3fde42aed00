"""What is kept of statements has bounds in number and in bytes."""

from __future__ import annotations

import gc
import sys
from contextlib import closing

import pytest

from engine.exec.query_options import QueryOptions
from engine.service import QueryService
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed, statement_bytes
from tests.support.memory_source import MemorySource


def test_what_was_not_asked_for_longest_goes_first() -> None:
    kept: LeastRecentlyUsed[str] = LeastRecentlyUsed(CacheLimits(2, 1000))
    kept.put("a", "A", 10)
    kept.put("b", "B", 10)
    assert kept.get("a") == "A"
    kept.put("c", "C", 10)
    assert (kept.get("a"), kept.get("b"), kept.get("c")) == ("A", None, "C")
    assert kept.nbytes == 20


def test_bytes_are_bounded_as_well_as_numbers() -> None:
    kept: LeastRecentlyUsed[int] = LeastRecentlyUsed(CacheLimits(100, 100))
    for number in range(10):
        kept.put(number, number, 20)
    assert [number for number in range(10) if kept.get(number) is not None] == [5, 6, 7, 8, 9]
    assert kept.nbytes == 100


def test_what_would_leave_no_room_for_others_is_not_kept() -> None:
    kept: LeastRecentlyUsed[str] = LeastRecentlyUsed(CacheLimits(10, 100))
    kept.put("a", "A", 20)
    kept.put("b", "B", 26)
    assert (kept.get("a"), kept.get("b")) == ("A", None)
    # Nor is what it replaces.
    kept.put("a", "larger", 26)
    assert kept.get("a") is None
    assert kept.nbytes == 0


def test_a_value_that_is_put_again_counts_once() -> None:
    kept: LeastRecentlyUsed[str] = LeastRecentlyUsed(CacheLimits(10, 100))
    for size in (20, 10):
        kept.put("a", "A", size)
        assert kept.nbytes == size


@pytest.mark.parametrize("terms", [40, 300])
def test_many_texts_leave_little_behind(terms: int) -> None:
    """Bounded in number alone, they leave 370,000 blocks of memory."""
    options = QueryOptions(memory_limit_bytes=64 << 20)
    with closing(QueryService(MemorySource([]), options)) as service:
        blocks = []
        for number in range(12_000 // terms):
            service.execute(
                "SELECT " + ", ".join(f"{number} + {place} AS c{place}" for place in range(terms))
            )
            if number in (2, 12_000 // terms - 1):
                gc.collect()
                blocks.append(sys.getallocatedblocks())
    assert blocks[1] - blocks[0] < 100_000


def test_what_a_statement_takes_is_told_by_its_length() -> None:
    assert statement_bytes("") < statement_bytes("SELECT 1") < statement_bytes("SELECT 1 FROM t")
