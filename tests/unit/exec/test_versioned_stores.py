"""Versioned stores in SQL: what holds now, what held at a moment, and the history, on one host and on
several.
"""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from engine.access.scope import Grant, scope_of
from engine.changelog import Changelog, open_appender
from engine.errors import InvalidInput, NotFound
from engine.model.kinds import Behaviour, Versioned
from engine.model.read_point import AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName, StoreName, define_store
from engine.service import QueryService, Session
from tests.support.following import OPTIONS
from tests.support.local_cluster import Cluster, following_cluster, host_names

GROUP = GroupName("market")
TIME = pa.timestamp("us", "UTC")
PRICES = define_store(
    "prices",
    pa.schema([("symbol", pa.string()), ("at", TIME), ("price", pa.int64())]),
    ["symbol"],
    partitions=8,
    group=GROUP,
    behaviour=Behaviour(Versioned("at")),
)
TARIFFS = define_store(
    "tariffs",
    pa.schema([("n", pa.int64()), ("since", pa.timestamp("us"))]),
    ["n"],
    partitions=1,
    group=GROUP,
    behaviour=Behaviour(Versioned("since", "until")),
)
OLD_TARIFFS = replace(TARIFFS, name=StoreName('old "tariffs'))
TRADES = define_store(
    "trades",
    pa.schema([("symbol", pa.string()), ("n", pa.int64())]),
    ["symbol", "n"],
    partition_by=["symbol"],
    partitions=8,
    group=GROUP,
)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SYMBOLS = [f"s{number}" for number in range(20)]


def moment_at(hours: int) -> dt.datetime:
    return NOON + dt.timedelta(hours=hours)


def micros(hours: int) -> int:
    return int(moment_at(hours).timestamp()) * 1_000_000


def prices(price: int, hours: int, symbols: list[str], *, gone: bool = False) -> pa.Table:
    columns = {
        "symbol": symbols,
        "at": pa.array([moment_at(hours)] * len(symbols), TIME),
        "price": pa.array([price] * len(symbols), pa.int64()),
    }
    return pa.table(columns | {"gone": [gone] * len(symbols)})


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Every symbol costs 10 from noon and 30 from 14:00 on; 20 from 13:00 comes late; s0 is gone from 15:00
    on.
    """
    directory = tmp_path_factory.mktemp("versioned")
    changelog = Changelog.open(str(directory / "changelog"))
    with following_cluster(
        changelog, directory, host_names(request.param), replace(OPTIONS, retention_seconds=3600.0)
    ) as running:
        with open_appender(changelog, [PRICES, TARIFFS, OLD_TARIFFS, TRADES]) as appender:

            def append(tables: dict[str, pa.Table]) -> None:
                running.wait_for({GROUP: appender.append(tables, tombstone_column="gone").epoch}, 60.0)

            trades = pa.table({"symbol": SYMBOLS * 2, "n": [1] * 20 + [2] * 20, "gone": [False] * 40})
            append({"prices": prices(10, 0, SYMBOLS), "trades": trades})
            append({"prices": prices(30, 2, SYMBOLS)})
            tariffs = pa.table(
                {"n": [1, 1], "since": pa.array([0, 86_400_000_000], pa.timestamp("us")), "gone": [False] * 2}
            )
            append({"prices": prices(20, 1, SYMBOLS), "tariffs": tariffs, OLD_TARIFFS.name: tariffs})
            append({"prices": prices(0, 3, SYMBOLS[:1], gone=True)})
        yield running


@pytest.fixture
def service(cluster: Cluster) -> QueryService:
    return cluster.services[cluster.hosts[0]]


def ask(
    service: QueryService, sql: str, *parameters: object, session: Session | None = None
) -> list[tuple[object, ...]]:
    row = (
        pa.RecordBatch.from_pylist([{str(place): value for place, value in enumerate(parameters, 1)}])
        if parameters
        else None
    )
    with service.execute(sql, row, session or Session()) as result:
        columns = [column.to_pylist() for column in result.read_all().columns]
    return list(zip(*columns, strict=True))


def lines(service: QueryService, sql: str) -> list[str]:
    return [str(row[0]) for row in ask(service, f"EXPLAIN {sql}")]


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        ("SELECT symbol, price FROM prices WHERE symbol = 's7'", [("s7", 30)]),
        ("SELECT * FROM prices WHERE symbol = 's7'", [("s7", moment_at(2), 30, None)]),
        ("SELECT * FROM prices WHERE symbol = 's0'", []),
        ("SELECT count(*), sum(price), min(valid_to) FROM prices", [(19, 570, None)]),
        ("SELECT p.price FROM main.prices AS p WHERE p.symbol IN ('s1', 's2')", [(30,), (30,)]),
        ("SELECT prices.price FROM prices WHERE prices.symbol = 's1'", [(30,)]),
        (
            "SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 13:59:59.999999' WHERE symbol = 's7'",
            [(20,)],
        ),
        ("SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 14:00:00' WHERE symbol = 's7'", [(30,)]),
        ('SELECT n FROM "old ""tariffs" AS OF TIMESTAMP \'1970-01-01 12:00:00\'', [(1,)]),
        (
            "SELECT price FROM prices p AS OF TIMESTAMP '2026-01-01 15:30:00+02:00' WHERE p.symbol = 's7'",
            [(20,)],
        ),
        ("SELECT count(*), sum(price) FROM prices AS OF TIMESTAMP '2026-01-01 12:30'", [(20, 200)]),
        ("SELECT count(*) FROM prices AT (TIMESTAMP => '2026-01-01 11:00')", [(0,)]),
        ("SELECT count(*) FROM prices AS OF TIMESTAMP '2026-01-01 14:59' WHERE symbol = 's0'", [(1,)]),
        ("SELECT count(*) FROM prices AS OF TIMESTAMP '2026-01-01 15:00' WHERE symbol = 's0'", [(0,)]),
        (
            """SELECT a.price, b.price FROM prices a AS OF TIMESTAMP '2026-01-01 12:30'
               JOIN prices b AS OF TIMESTAMP '2026-01-01 13:30' USING (symbol) WHERE symbol = 's3'""",
            [(10, 20)],
        ),
        (
            (
                "SELECT a.price, b.price FROM prices a JOIN prices AS OF TIMESTAMP '2026-01-01 13:30' b "
                "USING (symbol) WHERE symbol = 's3'"
            ),
            [(30, 20)],
        ),
        (
            (
                "SELECT now.price - past.price FROM prices now JOIN prices AS OF TIMESTAMP '2026-01-01 "
                "12:30' past USING (symbol) WHERE symbol = 's3'"
            ),
            [(20,)],
        ),
        ("SELECT sum(price) FROM trades JOIN prices USING (symbol)", [(19 * 2 * 30,)]),
        ("SELECT sum(price), count(*) FROM trades LEFT JOIN prices USING (symbol)", [(19 * 2 * 30, 40)]),
        (
            (
                "SELECT count(*) FROM trades WHERE NOT EXISTS (SELECT 1 FROM prices WHERE prices.symbol = "
                "trades.symbol)"
            ),
            [(2,)],
        ),
        (
            (
                "SELECT count(*) FROM trades JOIN prices AS OF TIMESTAMP '2026-01-01 12:30' USING (symbol) "
                "WHERE price = 10"
            ),
            [(40,)],
        ),
        (
            "WITH now AS (SELECT price, count(*) AS n FROM prices GROUP BY price) SELECT * FROM now",
            [(30, 19)],
        ),
        (
            "SELECT price FROM (SELECT * FROM prices AS OF TIMESTAMP '2026-01-01 12:30') WHERE symbol = 's1'",
            [(10,)],
        ),
        ("SELECT count(*) FROM history.prices", [(61,)]),
        (
            "SELECT price, valid_to FROM history.prices WHERE symbol = 's7' ORDER BY at",
            [(10, moment_at(1)), (20, moment_at(2)), (30, None)],
        ),
        (
            (
                "SELECT price, valid_to = at FROM livestate.history.prices h WHERE h.symbol = 's0' AND "
                "h.at >= '2026-01-01 14:00:00+00' ORDER BY at"
            ),
            [(30, False), (None, True)],
        ),
        (
            (
                "SELECT h.price, p.price FROM history.prices h JOIN prices p USING (symbol) WHERE symbol = "
                "'s9' ORDER BY 1"
            ),
            [(10, 30), (20, 30), (30, 30)],
        ),
        (
            (
                "SELECT history.prices.price, main.prices.price FROM history.prices JOIN main.prices ON "
                "history.prices.symbol = main.prices.symbol WHERE main.prices.symbol = 's9' ORDER BY 1"
            ),
            [(10, 30), (20, 30), (30, 30)],
        ),
        (
            "FROM history.prices JOIN prices USING (symbol) WHERE symbol = 's7' AND history.prices.price=10",
            [("s7", moment_at(0), 10, moment_at(1), moment_at(2), 30, None)],
        ),
        (
            (
                "SELECT count(*) FROM livestate.history.prices, main.prices AS OF TIMESTAMP "
                "'2026-01-01 12:30' WHERE livestate.history.prices.symbol = livestate.main.prices.symbol AND "
                "EXISTS (FROM trades t WHERE t.symbol = history.prices.symbol AND main.prices.price = 10)"
            ),
            [(61,)],
        ),
        (
            (
                "SELECT sum(main.prices.price) FROM history.prices, main.prices WHERE history.prices.symbol "
                "= 's1' AND main.prices.symbol IN (SELECT prices.symbol FROM prices WHERE symbol = 's2')"
            ),
            [(90,)],
        ),
        ("SELECT count(*) FROM tariffs", [(1,)]),
        ("SELECT since FROM tariffs AS OF TIMESTAMP '1970-01-01 23:00'", [(dt.datetime(1970, 1, 1),)]),  # noqa: DTZ001 - a column without a zone
        ("SELECT count(*) FROM tariffs, trades AS OF TIMESTAMP '2999-01-01'", [(40,)]),
        ("SELECT count(*) FROM prices AS OF EPOCH 3 WHERE symbol = 's7' AND price = 10", [(0,)]),
        (
            "DESCRIBE history.prices",
            [
                ("symbol", "VARCHAR", "NO", "PRI 1", "places rows"),
                ("at", "TIMESTAMP WITH TIME ZONE", "NO", "PRI 2", "start of the version"),
                ("price", "BIGINT", "YES", None, None),
                ("valid_to", "TIMESTAMP WITH TIME ZONE", "YES", None, "end of the version"),
            ],
        ),
    ],
)
def test_answers(service: QueryService, sql: str, rows: list[tuple[object, ...]]) -> None:
    assert ask(service, sql) == rows


@pytest.mark.parametrize(
    ("sql", "values", "rows"),
    [
        ("SELECT price FROM prices AS OF TIMESTAMP ? WHERE symbol = ?", (moment_at(1), "s7"), [(20,)]),
        ("SELECT price FROM prices AS OF TIMESTAMP ? WHERE symbol = ?", (moment_at(2), "s0"), [(30,)]),
        ("SELECT price FROM prices AS OF TIMESTAMP ? WHERE symbol = ?", (moment_at(3), "s0"), []),
        (
            "SELECT price, ? FROM prices AS OF TIMESTAMP ? WHERE symbol = ? AND price < ?",
            (5, moment_at(0), "s7", 15),
            [(10, 5)],
        ),
        ("SELECT price FROM prices AS OF TIMESTAMP $2 WHERE symbol = $1", ("s7", moment_at(1)), [(20,)]),
        ("SELECT price FROM prices AT (TIMESTAMP => $1) WHERE symbol = 's7'", (moment_at(0),), [(10,)]),
        ("SELECT count(*) FROM tariffs AS OF TIMESTAMP ?", (dt.datetime(1970, 1, 5),), [(1,)]),  # noqa: DTZ001 - a column without a zone
    ],
)
def test_a_moment_is_a_parameter(
    service: QueryService, sql: str, values: tuple[object, ...], rows: list[tuple[object, ...]]
) -> None:
    assert len(service.prepare(sql).parameters) == len(values)
    assert ask(service, sql, *values) == rows
    assert ask(service, sql, *values) == rows, "the kept plan"


def test_the_moment_of_a_session_is_that_of_the_versions(service: QueryService) -> None:
    session = Session(read_point=ReadPoint(as_of_default=AsOfTimestamp(micros(1))))
    assert ask(service, "SELECT price FROM prices WHERE symbol = 's7'", session=session) == [(20,)]
    assert ask(
        service,
        "SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 12:30' WHERE symbol = 's7'",
        session=session,
    ) == [(10,)]
    session = Session(read_point=ReadPoint(as_of={GROUP: AsOfTimestamp(micros(0))}))
    assert ask(service, "SELECT price FROM prices WHERE symbol = 's7'", session=session) == [(10,)]
    assert ask(service, "SELECT price FROM prices WHERE symbol = 's7'") == [(30,)]


def test_an_epoch_shows_what_held_then_as_far_as_it_was_known(service: QueryService) -> None:
    """The second epoch knows of 10 and 30; that it was 20 in between comes with the third."""
    found = []
    for epoch, hours in itertools.product((2, 3), (1, 2)):
        session = Session(
            read_point=ReadPoint(as_of={GROUP: AsOfEpoch(Epoch(epoch + 1))})
        )  # the first one opens the writer
        sql = f"SELECT price FROM prices AS OF TIMESTAMP '{moment_at(hours)}' WHERE symbol = 's7'"
        found.append(ask(service, sql, session=session))
    assert found == [[(10,)], [(30,)], [(20,)], [(30,)]]


def test_one_key_is_one_partition(cluster: Cluster, service: QueryService) -> None:
    for sql in (
        "SELECT * FROM prices WHERE symbol = 's7'",
        "SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 12:30' WHERE symbol = 's7'",
        "SELECT * FROM history.prices WHERE symbol = 's7' AND at < '2026-01-01 14:00:00+00'",
        "SELECT n, price FROM prices JOIN trades USING (symbol) WHERE symbol = 's7'",
    ):
        found = [line for line in lines(service, sql) if line.startswith("  reads: ")]
        assert found, sql
        assert all(line.startswith("  reads: 1 of ") for line in found), (sql, found)
        cluster.asked.clear()
        ask(service, sql)
        assert cluster.asked.total() <= 1


def test_what_is_asked_for_can_be_seen(cluster: Cluster, service: QueryService) -> None:
    found = lines(service, "SELECT price FROM prices AS OF TIMESTAMP '2026-01-01 12:30' WHERE symbol = 's7'")
    assert "store: prices" in found
    assert "store: history.prices as h" in lines(
        service, "SELECT h.price FROM history.prices h WHERE h.symbol = 's7'"
    )
    assert "  interval: at <= 2026-01-01 12:30:00+00:00" in found
    joined = lines(service, "SELECT count(*) FROM prices JOIN trades USING (symbol)")
    if len(cluster.hosts) > 1:
        assert any("co-partitioned" in line or "two-phase" in line for line in joined), joined
        assert not any("gather" in line for line in joined), joined


@pytest.mark.parametrize(
    ("sql", "kind", "message"),
    [
        (
            "SELECT prices.price FROM history.prices, main.prices",
            InvalidInput,
            "Ambiguous reference to table .?prices",
        ),
        ("SELECT * FROM history.trades", NotFound, "keeps no versions"),
        ("SELECT * FROM history.nothing", NotFound, "There is no store nothing"),
        ("SELECT * FROM trades AS OF TIMESTAMP ?", InvalidInput, "takes a parameter for these only"),
        ("SELECT * FROM prices AS OF EPOCH ?", InvalidInput, "AS OF needs a whole number"),
    ],
)
def test_refused(service: QueryService, sql: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        service.execute(sql)


def test_the_end_of_a_version_says_that_there_is_another_one_even_if_that_is_hidden(
    service: QueryService,
) -> None:
    """docs/security.md says so. A condition on the key hides all versions of a key or none; there is no store
    without `valid_to`, by which it is read.
    """
    history = "SELECT price, valid_to FROM history.prices WHERE symbol IN ('s7', 's8') ORDER BY price"

    def restricted(rows: str, *columns: str) -> QueryService:
        return service.restrict(scope_of([Grant(("prices",), columns or ("*",), rows)], "ann", {}))

    assert ask(restricted("price = 10"), history) == [(10, moment_at(1))] * 2
    assert ask(restricted("symbol = 's7'"), history) == [(10, moment_at(1)), (20, moment_at(2)), (30, None)]
    for sql in (history, "SELECT price FROM prices", "SELECT price FROM history.prices"):
        with pytest.raises(NotFound, match="There is no store"):
            ask(restricted("price = 10", "symbol", "at", "price"), sql)
