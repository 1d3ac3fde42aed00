"""Answers that are kept: never of another epoch, never of what chance or a clock has a part in."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine.changelog import Changelog, StoreAppender, open_appender
from engine.deadline import Deadline
from engine.errors import Cancelled, InvalidInput, LivestateError
from engine.exec.kept_answers import Computation, KeptAnswer, KeptAnswers, Question
from engine.exec.local_executor import LocalExecutor
from engine.exec.query_result import QueryMetadata, QueryResult
from engine.exec.read_metadata import EpochRead
from engine.model.migration import parse_changes
from engine.model.read_point import AsOfEpoch, ReadPoint
from engine.model.schema import Epoch, GroupName, StoreName, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryOptions, QueryService, Session
from engine.statements.request import Request
from tests.support.following import run_follower
from tests.support.local_cluster import following_cluster, host_names

GROUP = GroupName("music")
PLAYS = define_store(
    "plays",
    pa.schema([("song", pa.int64()), ("genre", pa.string()), ("n", pa.int64())]),
    ["song"],
    partitions=4,
    group=GROUP,
)
SONGS = 40
OPTIONS = QueryOptions(memory_limit_bytes=200 << 20, threads=1)
TOTAL = "SELECT sum(n) AS n FROM plays"
BY_GENRE = "SELECT genre, sum(n) AS n FROM plays GROUP BY genre ORDER BY genre"
WAIT_SECONDS = 60.0


@dataclass
class Lone:
    """A host that has everything, and who writes."""

    changelog: Changelog
    appender: StoreAppender
    follower: Follower
    service: QueryService

    def append(self, n: int) -> Epoch:
        """Give every song a number of plays."""
        rows = {"song": range(SONGS), "genre": ["rock", "jazz"] * (SONGS // 2), "n": [n] * SONGS}
        epoch = self.appender.append({"plays": pa.table(rows)}).epoch
        assert self.follower.wait_for(GROUP, epoch, WAIT_SECONDS)
        return epoch


@contextmanager
def lone_host(directory: Path, options: QueryOptions = OPTIONS) -> Iterator[Lone]:
    changelog = Changelog.open(str(directory / "changelog"))
    appender = open_appender(changelog, [PLAYS])
    with run_follower(changelog, directory / "data", FollowerOptions(poll_seconds=0.01)) as follower:
        service = QueryService(follower, options)
        yield Lone(changelog, appender, follower, service)
        service.close()


@pytest.fixture
def lone(tmp_path: Path) -> Iterator[Lone]:
    with lone_host(tmp_path) as host:
        yield host


def ask(
    service: QueryService, sql: str, *values: object, session: Session | None = None
) -> tuple[list[dict[str, Any]], QueryMetadata]:
    """Rows and metadata."""
    names = [str(number) for number, _ in enumerate(values, 1)]
    parameters = pa.record_batch([pa.array([value]) for value in values], names) if values else None
    with service.execute(sql, parameters, session or Session(timeout_seconds=WAIT_SECONDS)) as result:
        return result.read_all().to_pylist(), result.metadata


def are_kept(service: QueryService, sql: str, *values: object, session: Session | None = None) -> list[bool]:
    """Whether each of three answers to the same was kept."""
    return [ask(service, sql, *values, session=session)[1].kept for _ in range(3)]


def test_the_third_who_asks_gets_what_was_kept(lone: Lone) -> None:
    epoch = lone.append(3)
    answers = [ask(lone.service, BY_GENRE) for _ in range(4)]
    assert all(rows == [{"genre": "jazz", "n": 60}, {"genre": "rock", "n": 60}] for rows, _ in answers)
    assert [metadata.kept for _, metadata in answers] == [False, False, True, True]
    computed, first, second = (metadata for _, metadata in answers[1:])
    assert first.epochs == {GROUP: epoch}
    # What was read is told as before; the age is that of the moment.
    assert replace(first, age_seconds=0.0, seconds={}, kept=False, stale_seconds=0.0) == replace(
        computed, age_seconds=0.0, seconds={}, stale_seconds=0.0
    )
    assert computed.age_seconds < first.age_seconds < second.age_seconds


def test_no_answer_is_of_another_epoch(lone: Lone) -> None:
    for n in range(1, 6):
        lone.append(n)
        for _ in range(3):
            rows, metadata = ask(lone.service, TOTAL)
            assert rows == [{"n": n * SONGS}]
        assert metadata.kept
    # Epochs of before have answers of their own, also while the newest is asked for.
    for _ in range(3):
        for epoch in (3, 4):
            at = Session(read_point=ReadPoint(as_of={GROUP: AsOfEpoch(Epoch(epoch))}))
            rows, metadata = ask(lone.service, TOTAL, session=at)
            assert metadata.epochs == {GROUP: epoch}
            said, told = ask(lone.service, f"SELECT sum(n) AS n FROM plays AS OF EPOCH {epoch}")
            assert (said, told.epochs) == (rows, metadata.epochs)
        assert ask(lone.service, TOTAL)[0] == [{"n": 5 * SONGS}]


@pytest.mark.parametrize("is_list", [False, True])
def test_values_of_dictionaries_tell_questions_apart(lone: Lone, is_list: bool) -> None:
    lone.append(1)
    sql = f"SELECT count(*) AS n FROM plays WHERE genre {'= ANY(?)' if is_list else '= ?'}"

    def count_of(genre: str) -> int:
        column = pa.array([genre]).dictionary_encode()
        if is_list:
            column = pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), column)
        with lone.service.execute(sql, pa.record_batch([column], ["1"])) as result:
            return int(result.read_all()["n"][0].as_py())

    for _ in range(4):
        assert [count_of(genre) for genre in ("rock", "none")] == [SONGS // 2, 0]


def test_values_and_dialects_tell_questions_apart(lone: Lone) -> None:
    lone.append(1)
    above = "SELECT count(*) + 0 AS n FROM plays WHERE song + 0 > ?"
    for _ in range(3):
        for value in (5, 6, 5.5, 38):
            assert ask(lone.service, above, value)[0] == [{"n": len(range(int(value) + 1, SONGS))}]
    assert are_kept(lone.service, above, 5) == [True] * 3
    # 0.0 and -0.0 are equal, and have other inverses.
    inverse = "SELECT max(n / ?::DOUBLE) AS n FROM plays"
    for _ in range(3):
        assert ask(lone.service, inverse, 0.0)[0] == [{"n": float("inf")}]
        assert ask(lone.service, inverse, -0.0)[0] == [{"n": float("-inf")}]
    quoted = 'SELECT max("n") AS n FROM plays'
    for _ in range(3):
        assert ask(lone.service, quoted)[0] == [{"n": 1}]
        assert ask(lone.service, quoted, session=Session("mysql"))[0] == [{"n": "n"}]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT sum(n) + random() AS n FROM plays",
        "SELECT max(now()) AS n FROM plays",
        "SELECT count(*) AS n FROM plays WHERE current_timestamp > TIMESTAMP '2020-01-01'",
        "SELECT count(*) AS n FROM plays WHERE current_date > DATE '2020-01-01'",
        "SELECT max(age(TIMESTAMP '2020-01-01')) AS n FROM plays",
        "SELECT max(uuid()) AS n FROM plays",
        "SELECT count(*) AS n FROM plays TABLESAMPLE 50 PERCENT (bernoulli)",
        "SELECT count(*) AS n FROM (SELECT * FROM plays USING SAMPLE 3)",
        "SELECT * FROM plays WHERE song = 3",
        "SELECT * FROM plays",
        "SELECT random() AS n",
        "SELECT now() AS n",
        "SELECT uuid() AS n FROM range(3)",
        "SHOW STORES",
        f"EXPLAIN ANALYZE {TOTAL}",
    ],
)
def test_what_may_differ_is_not_kept(lone: Lone, sql: str) -> None:
    lone.append(1)
    assert are_kept(lone.service, sql) == [False] * 3


def test_what_reads_no_store_is_kept(lone: Lone) -> None:
    # It is the same at all epochs.
    for sql, expected in (
        ("SELECT 1 AS n", [{"n": 1}]),
        ("SELECT range AS n FROM range(2)", [{"n": 0}, {"n": 1}]),
    ):
        assert are_kept(lone.service, sql) == [False, False, True]
        lone.append(1)
        rows, metadata = ask(lone.service, sql)
        assert (rows, metadata.kept, metadata.epochs) == (expected, True, {})


def test_texts_with_values_are_at_hand_as_they_are_written(lone: Lone) -> None:
    lone.append(1)
    above = "SELECT genre, count(*) AS n FROM plays WHERE song >= {} GROUP BY genre ORDER BY genre"
    for least in (10, 20):
        assert are_kept(lone.service, above.format(least)) == [False, False, True]
    for least in (10, 20):
        found = lone.service.answer_at_hand(above.format(least), None)
        assert found is not None
        half = (SONGS - least) // 2
        assert found.read_all().to_pylist() == [{"genre": "jazz", "n": half}, {"genre": "rock", "n": half}]
    lone.append(2)
    assert lone.service.answer_at_hand(above.format(10), None) is None


def test_other_dialects_have_other_words_for_the_clock(lone: Lone) -> None:
    lone.append(1)
    session = Session("mysql")
    for clock in ("UTC_TIMESTAMP()", "SYSDATE()", "CURDATE()", "UTC_DATE()"):
        sql = f"SELECT count(*) AS n FROM plays WHERE {clock} > '2020-01-01'"
        try:
            ask(lone.service, sql, session=session)
        except LivestateError:
            continue
        assert are_kept(lone.service, sql, session=session) == [False] * 3


def test_a_migration_changes_the_answer(lone: Lone) -> None:
    lone.append(1)
    assert are_kept(lone.service, "SELECT max(p) AS p FROM plays p")[2]
    before, _ = ask(lone.service, "SELECT max(p) AS p FROM plays p")
    lone.changelog.migrate_store(StoreName("plays"), parse_changes(add=["year INTEGER DEFAULT 7"]))
    lone.append(1)
    after, metadata = ask(lone.service, "SELECT max(p) AS p FROM plays p")
    assert not metadata.kept
    assert after == [{"p": {**before[0]["p"], "year": 7}}]


def test_errors_are_not_kept(lone: Lone) -> None:
    lone.append(1)
    fails = "SELECT sum(CAST(genre AS INTEGER)) AS n FROM plays"
    for _ in range(4):
        with pytest.raises(InvalidInput):
            ask(lone.service, fails)
    assert not any(asked.answer for asked in lone.service._answers._asked.values())


def test_memory_has_a_bound(tmp_path: Path) -> None:
    with lone_host(tmp_path, replace(OPTIONS, answer_bytes=40_000)) as lone:
        lone.append(1)
        answers = lone.service._answers
        for number in range(50):
            for _ in range(3):
                ask(lone.service, f"SELECT sum(n + {number}) AS n FROM plays")
            assert answers.nbytes <= 40_000
        assert 2 <= len(answers) < 20
        # An answer of more than an eighth of it is passed on, and neither kept nor lost.
        large = "SELECT p.song, q.song AS other FROM plays p, plays q ORDER BY ALL"
        for _ in range(3):
            rows, metadata = ask(lone.service, large)
            assert (len(rows), metadata.kept) == (SONGS * SONGS, False)
            assert answers.nbytes <= 40_000


def test_nothing_is_kept_where_that_is_off(tmp_path: Path) -> None:
    with lone_host(tmp_path, replace(OPTIONS, answer_bytes=0)) as lone:
        lone.append(1)
        assert are_kept(lone.service, TOTAL) == [False] * 3
        assert len(lone.service._answers) == 0


class Gate:
    """Holds computations up, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computed = 0
        self.begun = threading.Semaphore(0)
        self.opened = threading.Event()
        self.errors: list[Exception] = []
        compute = LocalExecutor.answer

        def wait_and_answer(executor: LocalExecutor, request: Request) -> QueryResult:
            self.computed += 1
            self.begun.release()
            assert self.opened.wait(WAIT_SECONDS)
            if self.errors:
                raise self.errors.pop()
            return compute(executor, request)

        monkeypatch.setattr(LocalExecutor, "answer", wait_and_answer)


class Waiting:
    """The slot of statements of which one after the other waits for another one."""

    def __init__(self) -> None:
        self._waits = threading.Semaphore(0)

    gather_limit = None
    engine_limit = None

    @contextmanager
    def idle(self, until: float | None) -> Iterator[None]:
        self._waits.release()
        yield

    def lend(self) -> None:
        """It is nobody's."""

    def reclaim(self, until: float | None) -> None:
        """Likewise."""

    def occupy(self, until: float | None) -> AbstractContextManager[None]:
        return nullcontext()

    def wait_for(self, count: int) -> None:
        """Wait until so many wait."""
        for _ in range(count):
            assert self._waits.acquire(timeout=WAIT_SECONDS)


@pytest.mark.parametrize("error", [None, Cancelled("gone"), InvalidInput("wrong")])
def test_one_computes_for_all_who_ask_meanwhile(
    lone: Lone, monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    lone.append(2)
    ask(lone.service, TOTAL)
    gate = Gate(monkeypatch)
    gate.errors = [] if error is None else [error]
    waiting = Waiting()

    def run() -> tuple[list[dict[str, Any]], bool]:
        with lone.service.execute(TOTAL, slot=waiting) as result:
            return result.read_all().to_pylist(), result.metadata.kept

    with ThreadPoolExecutor(8) as threads:
        first = threads.submit(run)
        assert gate.begun.acquire(timeout=WAIT_SECONDS)
        others = [threads.submit(run) for _ in range(7)]
        waiting.wait_for(7)
        gate.opened.set()
        if error is None:
            assert first.result() == ([{"n": 2 * SONGS}], False)
        else:
            with pytest.raises(type(error)):
                first.result()
        answers = [other.result() for other in others]
    assert all(rows == [{"n": 2 * SONGS}] for rows, _ in answers)
    # Who has gone leaves it to another one; after another error everybody sees for himself.
    expected = 1 if error is None else {Cancelled: 2, InvalidInput: 8}[type(error)]
    assert gate.computed == expected


def test_who_waits_keeps_his_own_time(lone: Lone, monkeypatch: pytest.MonkeyPatch) -> None:
    lone.append(2)
    ask(lone.service, TOTAL)
    gate = Gate(monkeypatch)
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(ask, lone.service, TOTAL)
        assert gate.begun.acquire(timeout=WAIT_SECONDS)
        with pytest.raises(LivestateError, match="time-out"):
            ask(lone.service, TOTAL, session=Session(timeout_seconds=0.05))
        with pytest.raises(Cancelled):
            lone.service.execute(TOTAL, cancelled=lambda: True)
        gate.opened.set()
        assert first.result()[0] == [{"n": 2 * SONGS}]
    assert gate.computed == 1


def test_an_older_computation_leaves_a_newer_answer(lone: Lone) -> None:
    lone.append(2)
    answers = KeptAnswers(1 << 20)
    with lone.service.execute(TOTAL) as result:
        result.read_all()
    question, deadline = Question(TOTAL, "duckdb"), Deadline(None)
    ready = lone.service._texts.ready_text(TOTAL, "duckdb", ReadPoint(), deadline)[0].statement
    older, newer = ((EpochRead(GROUP, Epoch(number), number, ""),) for number in (1, 2))

    def result_at(epoch: int) -> QueryResult:
        table = pa.table({"n": [epoch]})
        return QueryResult(table.schema, QueryMetadata("engine", {GROUP: Epoch(epoch)}), table)

    assert answers.begin(question, ready, older, deadline) is None
    slow = answers.begin(question, ready, older, deadline)
    quick = answers.begin(question, ready, newer, deadline)
    assert isinstance(slow, Computation)
    assert isinstance(quick, Computation)
    with quick:
        quick.keep(result_at(2))
    with slow:
        slow.keep(result_at(1))
    found = answers.find(question)
    assert found is not None
    assert found.epochs == newer


def test_an_answer_of_a_lost_history_is_never_given_again(lone: Lone) -> None:
    lone.append(2)
    answers = KeptAnswers(1 << 20)
    question, deadline = Question(TOTAL, "duckdb"), Deadline(None)
    ready = lone.service._texts.ready_text(TOTAL, "duckdb", ReadPoint(), deadline)[0].statement
    # A log that was restored can have another commit of the same number and the same time.
    lost, restored = ((EpochRead(GROUP, Epoch(2), 5, digest),) for digest in ("ab", "cd"))
    table = pa.table({"n": [1]})
    assert answers.begin(question, ready, lost, deadline) is None

    def compute(epochs: tuple[EpochRead, ...], digest: str) -> None:
        turn = answers.begin(question, ready, epochs, deadline)
        assert isinstance(turn, Computation)
        with turn:
            metadata = QueryMetadata("engine", {GROUP: Epoch(2)}, digests={GROUP: digest})
            turn.keep(QueryResult(table.schema, metadata, table))

    compute(lost, "cd")  # the host has moved while it computed: that is nobody's answer
    assert answers.find(question) is None
    compute(lost, "ab")
    assert isinstance(answers.begin(question, ready, lost, deadline), KeptAnswer)
    compute(restored, "cd")


def test_hosts_of_a_deployment_keep_what_they_have_put_together(tmp_path: Path) -> None:
    changelog = Changelog.open(str(tmp_path / "changelog"))
    appender = open_appender(changelog, [PLAYS])
    follow = FollowerOptions(poll_seconds=0.01)
    with following_cluster(changelog, tmp_path, host_names(3), follow) as cluster:
        service = cluster.services[cluster.hosts[0]]
        for n in (1, 2):
            rows = {"song": range(SONGS), "genre": ["rock", "jazz"] * (SONGS // 2), "n": [n] * SONGS}
            epoch = appender.append({"plays": pa.table(rows)}).epoch
            cluster.wait_for({GROUP: epoch}, WAIT_SECONDS)
            session = Session(timeout_seconds=WAIT_SECONDS, read_point=ReadPoint(min_epoch=epoch))
            found = [ask(service, BY_GENRE, session=session) for _ in range(3)]
            asked = cluster.asked.total()
            for _ in range(3):
                rows_again, metadata = ask(service, BY_GENRE, session=session)
                assert rows_again == [{"genre": "jazz", "n": 20 * n}, {"genre": "rock", "n": 20 * n}]
                assert metadata.kept
                assert metadata.epochs == {GROUP: epoch}
            assert cluster.asked.total() == asked
            assert [metadata.kept for _, metadata in found] == [False, False, True]
