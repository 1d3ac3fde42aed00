"""A query service over two small stores in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.model.schema import define_store
from engine.service import QueryOptions, QueryService
from tests.support.memory_source import MemorySource, memory_view

PLAYS = define_store(
    "plays", pa.schema([("song_id", pa.int64()), ("genre", pa.string()), ("count", pa.int64())]), ["song_id"]
)
SONGS = define_store("My Songs", pa.schema([("Song Id", pa.int64()), ("title", pa.string())]), ["Song Id"])
ROWS = pa.table(
    {
        "song_id": list(range(20)),
        "genre": ["rock", "pop"] * 10,
        "count": [place * 3 % 11 for place in range(20)],
    }
)
DEAD = pa.table({"song_id": list(range(5)), "genre": ["old"] * 5, "count": [1000] * 5})
TITLES = pa.table({"Song Id": list(range(5)), "title": ["a", "b", "c", "d", "e"]})


@pytest.fixture(scope="module")
def source() -> MemorySource:
    return MemorySource([memory_view(PLAYS, ROWS, DEAD), memory_view(SONGS, TITLES)])


@pytest.fixture(scope="module")
def service(source: MemorySource) -> Iterator[QueryService]:
    found = QueryService(source, QueryOptions(memory_limit_bytes=200 << 20, threads=2))
    yield found
    found.close()
