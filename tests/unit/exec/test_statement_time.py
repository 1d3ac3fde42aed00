"""`now()` and its kin are one value for a statement, on all hosts, and a new one for the next; what they and
other constants are is known before rows are read.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.cluster.fragments import FragmentRequest
from engine.errors import LivestateError
from engine.model.schema import GroupName, define_store
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService, Session
from engine.state.state_options import StateOptions
from tests.support.local_cluster import Cluster, following_cluster, host_names, memory_cluster
from tests.support.memory_source import MemorySource, memory_view
from tests.support.oracle import expected_answer

START = dt.datetime(2026, 3, 1, 23, 30, 15, 123456, dt.UTC)
EVENTS = define_store(
    "events",
    pa.schema([("id", pa.int64()), ("day", pa.date32()), ("ts", pa.timestamp("us")), ("n", pa.int64())]),
    ["id", "day"],
    partition_by=["id"],
    partitions=8,
)
DAYS = define_store("days", pa.schema([("day", pa.date32()), ("n", pa.int64())]), ["day"], partitions=8)
ROWS = 400
LIVE = {
    "events": pa.table(
        {
            "id": list(range(ROWS)),
            "day": [(START - dt.timedelta(days=place)).date() for place in range(ROWS)],
            "ts": [(START - dt.timedelta(minutes=place)).replace(tzinfo=None) for place in range(ROWS)],
            "n": list(range(ROWS)),
        },
        EVENTS.schema,
    ),
    "days": pa.table(
        {"day": [(START - dt.timedelta(days=place)).date() for place in range(100)], "n": range(100)},
        DAYS.schema,
    ),
}


class TickingClock:
    """A clock that is an hour later each time that it is read."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> int:
        moment = START + self.readings * dt.timedelta(hours=1)
        self.readings += 1
        return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1) * 1000


_CLOCK = TickingClock()


@pytest.fixture
def clock() -> TickingClock:
    return _CLOCK


@pytest.fixture(autouse=True)
def _set_back(clock: TickingClock) -> None:
    clock.readings = 0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with memory_cluster([EVENTS, DAYS], LIVE, host_names(3), clock=_CLOCK) as found:
        yield found


@pytest.fixture(scope="module")
def alone() -> Iterator[QueryService]:
    views = [memory_view(each, LIVE[each.name]) for each in (EVENTS, DAYS)]
    found = QueryService(MemorySource(views), clock=_CLOCK)
    yield found
    found.close()


def rows(service: QueryService, sql: str, *values: Any, dialect: str = "duckdb") -> list[tuple[Any, ...]]:
    given = (
        pa.record_batch([pa.array([value]) for value in values], list(map(str, values))) if values else None
    )
    with service.execute(sql, given, Session(dialect)) as result:
        table = result.read_all()
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


PLAIN = START.replace(tzinfo=None)
FUNCTIONS = {
    "now()": START,
    "current_timestamp": START,
    "get_current_timestamp()": START,
    "transaction_timestamp()": START,
    "current_localtimestamp()": PLAIN,
    "localtimestamp": PLAIN,
    "current_date": PLAIN.date(),
    "today()": PLAIN.date(),
    "CAST(current_time AS VARCHAR)": "23:30:15.123456+00",
    "CAST(get_current_time() AS VARCHAR)": "23:30:15.123456+00",
    "current_localtime()": PLAIN.time(),
    "localtime": PLAIN.time(),
    "ago(INTERVAL 1 DAY)": START - dt.timedelta(days=1),
    "ago('1 hour')": START - dt.timedelta(hours=1),
    "age(TIMESTAMP '2026-02-27')::VARCHAR": "2 days",
    "age(TIMESTAMPTZ '2026-02-27 00:00:00+00')::VARCHAR": "2 days",
    "list_transform([1], lambda x: now())[1]": START,
}


@pytest.mark.parametrize("call", FUNCTIONS)
def test_each_function_gives_the_value_and_the_type_of_the_engine(alone: QueryService, call: str) -> None:
    ((value, kind),) = rows(alone, f"SELECT {call}, typeof({call})")
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        (wanted,) = connection.execute(f"SELECT typeof({call})").fetchall()
        name = connection.sql(f"SELECT {call}").columns[0]
    assert kind == wanted[0]
    assert value == FUNCTIONS[call]
    assert alone.prepare(f"SELECT {call}").schema.names == [name]
    with alone.execute(f"SELECT {call}") as result:
        assert result.schema.names == [name]


ONE_VALUE = [
    "SELECT DISTINCT now() AS t FROM events",
    "SELECT DISTINCT t FROM (SELECT now() AS t FROM events UNION ALL SELECT current_timestamp FROM days)",
    "SELECT max(now()) AS t FROM events",
    "SELECT now() AS t FROM events GROUP BY 1",
    "SELECT DISTINCT x.t FROM (SELECT id, now() AS t FROM events) x JOIN days y ON y.n = x.id",
    "SELECT t FROM (SELECT now() AS t, * FROM events ORDER BY n LIMIT 1)",
    "SELECT DISTINCT coalesce(nullif(t, now()), t) FROM (SELECT now() AS t, random() AS r FROM events)",
    "SELECT DISTINCT first_value(now()) OVER (PARTITION BY n) FROM events",
    "SELECT now() AS t",
]


@pytest.mark.parametrize("sql", ONE_VALUE)
def test_a_statement_has_one_time_on_all_hosts_and_the_next_another(
    cluster: Cluster, alone: QueryService, clock: TickingClock, sql: str
) -> None:
    for service in (alone, *cluster.services.values()):
        for _ in range(2):
            # The same text again: it is kept, its time is not.
            wanted = START + clock.readings * dt.timedelta(hours=1)
            assert rows(service, sql) == [(wanted,)]
    assert clock.readings == 8


@pytest.mark.parametrize("dialect", ["spark", "databricks", "postgres", "snowflake"])
def test_other_dialects_have_one_time_too(cluster: Cluster, dialect: str) -> None:
    sql = "SELECT DISTINCT current_timestamp, current_date FROM events WHERE day <= current_date"
    first, second = (rows(cluster.services[host], sql, dialect=dialect) for host in cluster.hosts[:2])
    assert first == [(START, START.date())]
    assert second == [(START + dt.timedelta(hours=1), (START + dt.timedelta(hours=1)).date())]


def test_clocks_of_other_dialects_are_bound_or_refused(alone: QueryService) -> None:
    for dialect, sql in (
        ("snowflake", "SELECT sysdate() AS t"),
        ("spark", "SELECT cast(now() AS timestamp_ntz) AS t"),
    ):
        assert rows(alone, sql, dialect=dialect)[0][0].replace(tzinfo=None).minute == START.minute
    for dialect, call in (
        ("bigquery", "CURRENT_DATETIME()"),
        ("tsql", "SYSDATETIMEOFFSET()"),
        ("mysql", "SYSDATE()"),
        ("postgres", "clock_timestamp()"),
    ):
        with pytest.raises(LivestateError, match=r"no function|does not exist"):
            rows(alone, f"SELECT {call}", dialect=dialect)


def test_parameters_of_clients_stay_theirs(cluster: Cluster) -> None:
    service = cluster.services[cluster.hosts[0]]
    sql = "SELECT count(*) AS n, $1 AS p FROM events WHERE ts > now() - INTERVAL 1 HOUR AND id <> $1"
    assert service.prepare(sql).parameters.names == ["1"]
    assert rows(service, sql, 3) == [(59, 3)]
    assert rows(service, "SELECT now(), $name", "x")[0][1] == "x"


def test_columns_have_the_names_of_the_text(cluster: Cluster) -> None:
    service = cluster.services[cluster.hosts[0]]
    sql = "SELECT now(), date_trunc('day', today()), count(*) FROM events GROUP BY ALL"
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE events (id BIGINT)")
        names = connection.sql(sql).columns
    with service.execute(sql) as result:
        assert result.schema.names == names == service.prepare(sql).schema.names
    assert [row[0] for row in rows(service, f"DESCRIBE {sql}")] == names


RECENT = {
    "ts > now() - INTERVAL 1 HOUR": 60,
    "ts > now() - INTERVAL '60 minutes'": 60,
    "ts >= ago(INTERVAL 1 HOUR)": 61,
    "ts BETWEEN now() - INTERVAL 10 MINUTE AND now()": 11,
    "ts > localtimestamp - to_minutes(5)": 5,
    "now() - INTERVAL 1 HOUR < ts": 60,
    "day = current_date": 1,
    "day = today() - 1": 1,
    "day IN (current_date, current_date - 1)": 2,
    "day > current_date - INTERVAL 2 DAY": 2,
    "day >= now() - INTERVAL 2 DAY": 2,
    "day > date_trunc('month', now())": 0,
    "id = 2 + 3": 1,
    "id = CAST(5 AS BIGINT)": 1,
    "id = 5::INTEGER": 1,
    "id IN (1 + 1, 2 * 2, 7)": 3,
    "id = length('abcde')": 1,
    "id BETWEEN 2 + 1 AND 10 - 5": 3,
    "id = abs(-7) AND n > 1 + 1": 1,
}


@pytest.mark.parametrize("condition", RECENT)
def test_pruning_reads_what_constants_are(cluster: Cluster, alone: QueryService, condition: str) -> None:
    """Each condition bounds its column as a literal does, on the coordinator and on the hosts it asks."""
    sql = f"SELECT count(*) AS n FROM events WHERE {condition}"
    # As if no time had passed.
    first = cluster.services[cluster.hosts[0]]
    assert rows(first, sql) == [(RECENT[condition],)]
    (*explained,) = (line for (line,) in rows(alone, f"EXPLAIN {sql}"))
    assert any(line.startswith(("  interval: ", "  points: ")) for line in explained), explained
    spread = [line for (line,) in rows(first, f"EXPLAIN {sql}")]
    assert any(line.startswith(("  interval: ", "  points: ")) for line in spread), spread


def test_partitions_are_pruned_by_constants(cluster: Cluster) -> None:
    service = cluster.services[cluster.hosts[0]]
    for condition in ("day = current_date", "day = today() - 2", "day = DATE '2026-02-27' + 1"):
        with service.execute(f"SELECT sum(n) FROM days WHERE {condition}") as result:
            assert result.read_all().num_rows == 1
        assert (result.metadata.partitions_read, result.metadata.partitions) == (1, 8), condition
    with service.execute("SELECT * FROM events WHERE id = 2 + 3") as result:
        assert result.read_all().column("n").to_pylist() == [5]
    assert result.metadata.partitions_read == 1


def test_blocks_are_pruned_by_the_statements_time(tmp_path: Path, clock: TickingClock) -> None:
    events = define_store("events", EVENTS.schema, ["id", "day"])
    changelog = Changelog.open(str(tmp_path / "changelog"))
    appender = open_appender(changelog, [events])
    appender.append({"events": LIVE["events"]})
    follow = FollowerOptions(poll_seconds=0.01, state=StateOptions(block_rows=16))
    read = []
    with (
        following_cluster(changelog, tmp_path / "data", host_names(1), follow) as cluster,
        closing(QueryService(cluster.sources[cluster.hosts[0]], clock=clock)) as service,
    ):
        cluster.wait_for({GroupName("events"): appender.epoch}, 60.0)
        for moment in (f"TIMESTAMP '{PLAIN}'", "now()"):
            sql = f"SELECT count(*) AS n FROM events WHERE ts > {moment} - INTERVAL 1 HOUR"
            with service.execute(sql) as result:
                assert result.read_all().to_pylist() == [{"n": 60}]
            read.append(result.metadata.blocks_read)
    assert 0 < read[0] == read[1] < result.metadata.blocks


FAILING = [
    "id = CAST('x' AS BIGINT)",
    "id = 1 // (1 - 1)",
    "id = 9223372036854775807 + 1",
    "id = NULL::BIGINT",
    "ts > TIMESTAMP '2026-01-01' + CAST(NULL AS INTERVAL)",
    "ts > now() - INTERVAL '300000 years'",
]


@pytest.mark.parametrize("condition", FAILING)
def test_expressions_that_fail_are_left_to_the_engine(
    cluster: Cluster, alone: QueryService, condition: str
) -> None:
    """It raises its error when a row reaches the expression, and only then."""
    for guard in ("n >= 0 AND", "n < 0 AND"):
        sql = f"SELECT count(*) AS n FROM events WHERE {guard} {condition}"
        try:
            wanted = expected_answer(sql, LIVE).to_pylist()
        except duckdb.Error:
            wanted = None
        for service in (alone, cluster.services[cluster.hosts[0]]):
            if wanted is None:
                with pytest.raises(LivestateError):
                    rows(service, sql)
            else:
                assert rows(service, sql) == [(wanted[0]["n"],)]


@pytest.mark.parametrize("condition", ["id = DATE '2026-01-01'", "id = 'x' || 'y'", "ts = CAST(1 AS BIGINT)"])
def test_what_the_engine_refuses_is_refused(alone: QueryService, condition: str) -> None:
    with pytest.raises(LivestateError):
        rows(alone, f"SELECT * FROM events WHERE {condition}")


def test_what_moves_within_a_statement_stays_volatile(cluster: Cluster) -> None:
    service = cluster.services[cluster.hosts[0]]
    for call in ("random()", "uuid()", "gen_random_uuid()"):
        assert len(set(rows(service, f"SELECT {call} FROM events"))) == ROWS
        assert len(rows(service, f"EXPLAIN SELECT count(*) FROM events WHERE {call}::VARCHAR > 'a'")) > 1


def test_lookups_of_one_shape_have_their_own_times(
    cluster: Cluster, alone: QueryService, clock: TickingClock
) -> None:
    """Their template is not shared: its plan would lack the time."""
    for service in (alone, *cluster.services.values()):
        for key in (5, 6, 7, 100):
            sql = f"SELECT id FROM events WHERE id = {key} AND ts > now() - INTERVAL 3 HOUR"
            wanted = clock.readings * 60 + key < 180
            assert rows(service, sql) == ([(key,)] if wanted else [])
            assert rows(service, f"SELECT id FROM events WHERE id = {key} + 1") == [(key + 1,)]


def test_a_fragment_that_reads_the_clock_has_the_time_of_its_host(cluster: Cluster) -> None:
    """As those of an older coordinator, which send such text to one host at most."""
    service = cluster.services[cluster.hosts[0]]
    request = FragmentRequest("SELECT now() AS t, $1 AS p", {}, {}, pa.record_batch([[3]], ["1"]), {}, None)
    with service.execute_fragment(request) as result:
        assert result.read_all().to_pylist() == [{"t": START, "p": 3}]


def test_explain_as_json(alone: QueryService) -> None:
    sql = "SELECT count(*) FROM events WHERE id > 1 + 1"
    ((text,),) = rows(alone, f"EXPLAIN (FORMAT JSON) {sql}")
    assert json.loads(text) == [line for (line,) in rows(alone, f"EXPLAIN (FORMAT TEXT) {sql}")]
    assert any(line.startswith("rows: ") for (line,) in rows(alone, f"EXPLAIN (ANALYZE) {sql}"))
    with pytest.raises(LivestateError, match="EXPLAIN has no format graphviz"):
        rows(alone, f"EXPLAIN (FORMAT graphviz) {sql}")


def test_a_column_may_be_called_as_what_a_session_has() -> None:
    people = define_store("people", pa.schema([("user", pa.string()), ("n", pa.int64())]), ["user"])
    view = memory_view(people, pa.table({"user": ["x"], "n": [1]}, people.schema))
    with closing(QueryService(MemorySource([view]))) as service:
        assert rows(service, "SELECT user FROM people") == [("x",)]
        assert rows(service, "SELECT max(user) FROM people") == [("x",)]
        assert rows(service, "SELECT user FROM (SELECT n AS user FROM people)") == [(1,)]
        assert rows(service, "SELECT user, current_schema") == [("anybody", "main")]
        assert rows(service, "SELECT user, current_user FROM people") == [("x", "anybody")]
