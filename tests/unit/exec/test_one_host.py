"""A host without peers is a cluster of one: past routing it answers as by a route."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.coordinator.coordinator import Coordinator
from engine.errors import Unavailable
from engine.model.read_point import ReadPoint
from engine.model.schema import Epoch, define_store
from engine.service import QueryMetadata, QueryService, Session
from tests.support.local_cluster import SMALL
from tests.support.memory_source import MemorySource, memory_view

PLAYS = define_store(
    "plays",
    pa.schema([("song_id", pa.int64()), ("genre", pa.string()), ("count", pa.int64())]),
    ["song_id"],
    partitions=8,
)
ROWS = pa.table({"song_id": list(range(100)), "genre": ["rock", "pop"] * 50, "count": list(range(100))})
STATEMENTS = [
    "SELECT * FROM plays WHERE song_id IN (3, 4)",
    "SELECT genre FROM plays",
    "SELECT count(*) FROM plays",
    "SELECT genre, sum(count) FROM plays WHERE song_id > 40 GROUP BY genre",
    "SELECT 1",
    "EXPLAIN SELECT genre FROM plays WHERE song_id = 3",
    "EXPLAIN SELECT 1",
]


@pytest.fixture
def service() -> Iterator[QueryService]:
    answers = QueryService(MemorySource([memory_view(PLAYS, ROWS)]), SMALL)
    yield answers
    answers.close()


def _ask(service: QueryService, sql: str) -> tuple[list[str], QueryMetadata]:
    """Rows and metadata, without what differs from one time to the next."""
    with service.execute(sql) as result:
        rows = sorted(map(str, result.read_all().to_pylist()))
    return rows, replace(result.metadata, seconds={}, age_seconds=0.0, stale_seconds=0.0)


@pytest.mark.parametrize("sql", STATEMENTS)
def test_past_routing_the_answer_is_the_same(
    service: QueryService, monkeypatch: pytest.MonkeyPatch, sql: str
) -> None:
    found = _ask(service, sql)
    assert found[1].hosts == ()
    monkeypatch.setattr(Coordinator, "_answer_newest", lambda *_: None)
    assert _ask(service, sql) == found


def test_an_epoch_that_never_comes_is_told_without_a_host(service: QueryService) -> None:
    session = Session(timeout_seconds=0.1, read_point=ReadPoint(min_epoch=Epoch(99)))
    with pytest.raises(Unavailable) as raised:
        service.execute("SELECT count(*) FROM plays", session=session)
    assert "Host this host" not in raised.value.message
