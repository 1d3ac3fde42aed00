"""SQL by names that mean other stores: on one host and on several, each statement sees one store
by a name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from engine.cluster.reports import HostName
from engine.errors import InvalidInput, NotFound
from engine.model.kinds import Behaviour, Versioned
from engine.model.schema import StoreName, define_store
from engine.service import QueryOptions, QueryService
from tests.support.held_source import HeldSource
from tests.support.local_cluster import host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view

OPTIONS = QueryOptions(memory_limit_bytes=200 << 20, threads=1)
OLD = define_store("plays", pa.schema([("song", pa.int64()), ("n", pa.int64())]), ["song"])
NEW = define_store(
    "new plays",
    pa.schema([("country", pa.string()), ("song", pa.int64()), ("n", pa.int64())]),
    ["country", "song"],
    group="new",
)
PRICES = define_store(
    "prices",
    pa.schema([("song", pa.int64()), ("at", pa.timestamp("us"))]),
    ["song"],
    behaviour=Behaviour(Versioned("at")),
)
ROWS = {
    "plays": pa.table({"song": [1, 2, 3], "n": [10, 20, 30]}),
    "new plays": pa.table({"country": ["de", "fr"], "song": [1, 1], "n": [5, 6]}),
    "prices": pa.table(
        {
            "song": pa.array([], pa.int64()),
            "at": pa.array([], pa.timestamp("us")),
            "valid_to": pa.array([], pa.timestamp("us")),
        }
    ),
}

Switch = Callable[[Mapping[str, str]], None]


@contextmanager
def one_host() -> Iterator[tuple[QueryService, Switch]]:
    source = MemorySource([memory_view(store, ROWS[store.name]) for store in (OLD, NEW, PRICES)])
    service = QueryService(source, OPTIONS)
    yield service, lambda switches: setattr(source, "switches", switches)
    service.close()


@contextmanager
def three_hosts() -> Iterator[tuple[QueryService, Switch]]:
    """Only the host that is asked knows of the switches: those that run fragments need not."""
    with memory_cluster([OLD, NEW, PRICES], ROWS, host_names(3)) as cluster:
        source = cluster.sources[HostName("a")]
        assert isinstance(source, HeldSource)
        yield cluster.services[HostName("a")], lambda switches: setattr(source, "switches", switches)


@pytest.fixture(params=[one_host, three_hosts])
def asked(request: pytest.FixtureRequest) -> Iterator[tuple[QueryService, Switch]]:
    with request.param() as opened:
        yield opened


def rows(service: QueryService, sql: str, *values: object) -> list[tuple[Any, ...]]:
    parameters = (
        pa.record_batch(
            [pa.array([value]) for value in values], [str(number) for number, _ in enumerate(values, 1)]
        )
        if values
        else None
    )
    with service.execute(sql, parameters) as result:
        return sorted(zip(*(column.to_pylist() for column in result.read_all().columns), strict=True))


def test_a_name_means_another_store_and_back(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    for _ in range(2):
        assert rows(service, "SELECT * FROM plays") == [(1, 10), (2, 20), (3, 30)]
        assert rows(service, "SELECT sum(n) FROM plays WHERE song = 1") == [(10,)]
        switch({"plays": "new plays"})
        assert rows(service, "SELECT * FROM plays") == [("de", 1, 5), ("fr", 1, 6)]
        assert rows(service, "SELECT sum(n) FROM plays WHERE song = 1") == [(11,)]
        switch({})


def test_lookups_and_their_shapes_follow(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    for _ in range(2):
        for _ in range(3):
            assert rows(service, "SELECT n FROM plays WHERE song = 1") == [(10,)]
            assert rows(service, "SELECT n FROM plays WHERE song = ?", 2) == [(20,)]
            with pytest.raises((InvalidInput, NotFound), match="country"):
                rows(service, "SELECT n FROM plays WHERE country = 'fr' AND song = 1")
        switch({"plays": "new plays"})
        for _ in range(3):
            assert rows(service, "SELECT n FROM plays WHERE song = 1") == [(5,), (6,)]
            assert rows(service, "SELECT n FROM plays WHERE song = ?", 2) == []
            assert rows(service, "SELECT n FROM plays WHERE country = 'fr' AND song = 1") == [(6,)]
        switch({})


def test_both_stores_can_be_read_by_other_names(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    switch({"plays": "new plays", "old": "plays", "New Plays": "prices"})
    assert rows(service, "SELECT plays.n, main.old.n FROM plays JOIN main.old USING (song)") == [
        (5, 10),
        (6, 10),
    ]
    assert rows(service, "SELECT count(*) FROM PLAYS a, Plays b, old c") == [(12,)]
    assert rows(service, "WITH old AS (SELECT 7 AS n) SELECT n FROM old") == [(7,)]
    assert rows(service, 'SELECT count(*) FROM "new plays"') == [(2,)]
    assert rows(service, 'SELECT count(*) FROM history."New Plays"') == [(0,)]
    with pytest.raises(NotFound, match="plays keeps no versions"):
        rows(service, "FROM history.plays")
    with pytest.raises(NotFound, match="Did you mean old"):
        rows(service, "FROM olt")


def test_names_that_change_places(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    switch({"plays": "new plays", "new plays": "plays"})
    assert rows(service, 'SELECT count(*), (SELECT count(*) FROM "new plays") FROM plays') == [(2, 3)]
    assert rows(
        service, 'SELECT max(p.n), max(q.n), count(*) FROM plays p JOIN "new plays" q ON p.song = q.song'
    ) == [(6, 10, 2)]


def test_as_of_stands_behind_the_name_in_the_text(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    switch({"plays": "new plays", "costs": "prices", "old": "plays"})
    assert rows(service, "SELECT count(*) FROM plays AS OF EPOCH 1, old AS OF EPOCH 1") == [(6,)]
    assert rows(service, "SELECT count(*) FROM costs AS OF TIMESTAMP '2026-01-01'") == [(0,)]
    with pytest.raises(NotFound, match="Epoch 7 of group new"):
        rows(service, "SELECT count(*) FROM plays AS OF EPOCH 7")
    with pytest.raises(InvalidInput, match="x is no store"):
        rows(service, "WITH x AS (SELECT 1) SELECT * FROM x AS OF EPOCH 1, plays")


def test_the_catalog_knows_the_names(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    switch({"plays": "new plays", "old": "plays"})
    assert rows(service, "SHOW TABLES") == [("new plays",), ("old",), ("plays",), ("prices",)]
    with service.execute("SHOW STORES") as shown:
        names = {row["store"]: row["sql_names"] for row in shown.read_all().to_pylist()}
    assert names == {"new plays": "new plays, plays", "plays": "old", "prices": "prices"}
    assert [row[0] for row in rows(service, "DESCRIBE plays")] == ["country", "n", "song"]
    assert [row[0] for row in rows(service, "DESCRIBE SELECT * FROM old")] == ["n", "song"]
    with service.execute("EXPLAIN SELECT sum(n) FROM plays") as explained:
        assert "store: new plays as plays" in explained.read_all().column(0).to_pylist()


def test_columns_are_named_as_the_text_has_them(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    switch({"plays": "new plays"})
    with service.execute("SELECT count(*), max(plays.n), n + 1 FROM plays GROUP BY ALL") as result:
        assert result.schema.names == ["count_star()", "max(plays.n)", "(n + 1)"]


def test_preparing_follows(asked: tuple[QueryService, Switch]) -> None:
    service, switch = asked
    for _ in range(2):
        assert service.prepare("SELECT * FROM plays").schema.names == ["song", "n"]
        switch({"plays": "new plays"})
        assert service.prepare("SELECT * FROM plays").schema.names == ["country", "song", "n"]
        switch({})


def test_a_text_that_the_engine_refuses_at_first_is_tried_with_the_same_stores(
    asked: tuple[QueryService, Switch],
) -> None:
    service, switch = asked
    switch({"plays": "new plays"})
    assert rows(service, "SELECT plays FROM plays WHERE n = 5") == [({"country": "de", "song": 1, "n": 5},)]
    assert rows(service, "SELECT COLUMNS(lambda c: c = 'country') FROM plays WHERE n = 5") == [("de",)]


def test_a_store_called_as_a_name_that_was_switched_is_read_by_its_own_name_elsewhere(
    asked: tuple[QueryService, Switch],
) -> None:
    service, switch = asked
    switch({"old": "plays", StoreName("plays"): "new plays"})
    assert rows(service, "SELECT sum(n) FROM old") == [(60,)]
    assert rows(service, "SELECT n FROM old WHERE song = 2") == [(20,)]
