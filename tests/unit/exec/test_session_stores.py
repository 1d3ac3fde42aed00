"""Sessions in SQL: by key, by key and time, active now; while events are late, on one host and on several."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator

import pyarrow as pa
import pytest

from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour, Function, MergedColumn, Session
from engine.model.schema import GroupName, define_store
from engine.service import QueryService
from tests.support.following import OPTIONS
from tests.support.local_cluster import Cluster, following_cluster, host_names

GROUP = GroupName("web")
TIME = pa.timestamp("us", "UTC")
MINUTE = 60_000_000
COLUMNS = (MergedColumn("events", Function.COUNT), MergedColumn("last_page", Function.LAST, by="seen"))
ROWS = pa.schema(
    [
        ("user", pa.int64()),
        ("session_start", TIME),
        ("session_end", TIME),
        ("events", pa.int64()),
        ("last_page", pa.string()),
        ("__last_page_at", TIME),
    ]
)
SESSIONS = define_store(
    "sessions", ROWS, ["user"], partitions=8, group=GROUP, behaviour=Behaviour(Session(30 * MINUTE, COLUMNS))
)
USERS = range(40)
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def noon_and(minute: int) -> dt.datetime:
    return NOON + dt.timedelta(minutes=minute)


def fragments(start: int, end: int, *, gone: bool = False, users: range = USERS) -> pa.Table:
    """A fragment of each user: one event at its start, one at its end."""
    times = [pa.array([noon_and(minute)] * len(users), TIME) for minute in (start, end)]
    page = [f"page {end}"] * len(users)
    columns = [
        pa.array(users, pa.int64()),
        *times,
        pa.array([2] * len(users), pa.int64()),
        pa.array(page),
        times[1],
        pa.array([gone] * len(users)),
    ]
    return pa.table(columns, [*ROWS.names, "gone"])


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Each user is there from 12:00 to 12:20, at 13:00 and at 15:00; that they were at 12:40 comes late. User
    0's session of 15:00 is removed.
    """
    directory = tmp_path_factory.mktemp("sessions")
    changelog = Changelog.open(str(directory / "changelog"))
    with following_cluster(changelog, directory, host_names(request.param), OPTIONS) as running:
        with open_appender(changelog, [SESSIONS]) as appender:
            for table in (
                fragments(0, 20),
                fragments(60, 60),
                fragments(180, 180),
                fragments(40, 40),
                fragments(170, 180, gone=True, users=range(1)),
            ):
                epoch = appender.append({"sessions": table}, tombstone_column="gone").epoch
                running.wait_for({GROUP: epoch}, 60.0)
        yield running


@pytest.fixture
def service(cluster: Cluster) -> QueryService:
    return cluster.services[cluster.hosts[0]]


BY_KEY = (
    "SELECT session_start, session_end, events, last_page FROM sessions WHERE user = 7 ORDER BY session_start"
)
BY_TIME = """SELECT session_start, session_end FROM sessions
    WHERE user = 7 AND session_start <= TIMESTAMPTZ '2026-01-01 13:30:00+00' AND session_end >= TIMESTAMPTZ '2026-01-01 12:50:00+00'"""
ACTIVE = "SELECT count(*), min(user) FROM sessions WHERE session_end > TIMESTAMPTZ '2026-01-01 14:50:00+00'"


@pytest.mark.parametrize(
    ("sql", "rows"),
    [
        (BY_KEY, [(noon_and(0), noon_and(60), 6, "page 60"), (noon_and(180), noon_and(180), 2, "page 180")]),
        (BY_TIME, [(noon_and(0), noon_and(60))]),
        (ACTIVE, [(39, 1)]),
        ("SELECT count(*), sum(events) FROM sessions", [(79, 40 * 8 - 2)]),
    ],
)
def test_answers(service: QueryService, sql: str, rows: list[tuple[object, ...]]) -> None:
    with service.execute(sql) as result:
        columns = [column.to_pylist() for column in result.read_all().columns]
    assert list(zip(*columns, strict=True)) == rows


@pytest.mark.parametrize("sql", [BY_KEY, BY_TIME])
def test_one_key_is_one_partition(cluster: Cluster, service: QueryService, sql: str) -> None:
    with service.execute(f"EXPLAIN {sql}") as result:
        lines = result.read_all()["plan"].to_pylist()
    (reads,) = [line for line in lines if line.startswith("  reads: ")]
    assert reads.startswith("  reads: 1 of ")
    cluster.asked.clear()
    service.execute(sql).read_all()
    assert cluster.asked.total() <= 1


def test_times_skip_blocks(service: QueryService) -> None:
    with service.execute(f"EXPLAIN {ACTIVE}") as result:
        assert "  interval: 2026-01-01 14:50:00+00:00 < session_end" in result.read_all()["plan"].to_pylist()
