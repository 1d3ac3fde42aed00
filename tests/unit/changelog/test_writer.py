"""Exactly once, one writer, and crashes between the steps."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterator, Sequence

import pyarrow as pa
import pytest

from engine.changelog import Changelog, Commit, Writer, append_table, open_appender, partition_rows
from engine.changelog.objects import Objects, open_objects
from engine.changelog.writer import MAX_QUERIES
from engine.errors import Fenced, InvalidInput, NotFound, Unavailable
from engine.model.schema import Epoch, define_store
from tests.unit.changelog.conftest import PLAYS, read, rows

Reopen = Callable[[], Changelog]


def write_to(changelog: Changelog, writer_id: str = "w") -> Writer:
    changelog.create_store(PLAYS)
    return changelog.writer(PLAYS.group, writer_id)


def test_a_batch_is_committed_once_over_restarts(reopen: Reopen) -> None:
    tables = {PLAYS.name: partition_rows(PLAYS, rows(1))}
    first = write_to(reopen())
    assert first.committed_epoch("q", 0) is None
    zero = first.append(tables, query_id="q", batch_id=0)
    one = first.append(tables, query_id="q", batch_id=1)
    assert first.append(tables, query_id="q", batch_id=1) == one

    second = write_to(reopen())
    assert (
        second.committed_epoch("q", 0),
        second.committed_epoch("q", 1),
        second.committed_epoch("q", 2),
    ) == (
        one.epoch,
        one.epoch,
        None,
    )
    assert second.append(tables, query_id="q", batch_id=1) == one
    assert second.commit([], query_id="q", batch_id=0) == one
    assert zero.epoch < one.epoch
    assert reopen().newest_epoch(PLAYS.group) == second.epoch == 4
    assert second.append(tables, query_id="q", batch_id=2).epoch == 5


def test_when_batches_were_planned_is_kept(reopen: Reopen) -> None:
    first = write_to(reopen())
    first.append({}, query_id="q", batch_id=0, planned_at=123)
    first.commit([], query_id="r", batch_id=7, planned_at=456)
    first.append({}, query_id="s", batch_id=1)
    second = write_to(reopen())
    kept = {query: second.last_batch(query) for query in "qrs"}
    assert {query: batch and batch.planned_at for query, batch in kept.items()} == {
        "q": 123,
        "r": 456,
        "s": None,
    }


def test_each_commit_names_the_one_before(reopen: Reopen) -> None:
    digests = []
    for _ in range(2):
        writer = write_to(reopen())
        digests += [writer.append({PLAYS.name: partition_rows(PLAYS, rows(1))}).digest for _ in range(2)]
    read = [reopen().read_commit(PLAYS.group, Epoch(epoch)) for epoch in range(1, 7)]
    commits = [commit for commit in read if commit is not None]
    assert [commits[number].digest for number in (1, 2, 4, 5)] == digests
    assert [commit.before for commit in commits] == [None, *(commit.digest for commit in commits[:-1])]
    assert len({commit.digest for commit in commits}) == 6


def test_a_job_is_taken_over_when_asked_for_and_by_itself(reopen: Reopen) -> None:
    first = open_appender(reopen(), [PLAYS])
    # Nobody who numbers batches has written yet.
    job = open_appender(reopen(), [PLAYS], query_ids=["q"])
    assert job.append({"plays": rows(1)}, query_id="q", batch_id=0).epoch == 3
    more = define_store("more", PLAYS.schema, PLAYS.key, group=PLAYS.group)
    for definition in (PLAYS, more):
        with pytest.raises(
            InvalidInput, match=r"A job writes store group plays: its last batch is epoch 3.*take_over=True"
        ):
            open_appender(reopen(), [definition], query_ids=["another"])
    with pytest.raises(InvalidInput, match="A job writes store group plays"):
        append_table(reopen(), PLAYS, rows(2))
    assert reopen().definition(more.name) is None
    assert job.append({"plays": rows(2)}, query_id="q", batch_id=1).epoch == 4

    again = open_appender(reopen(), [PLAYS], query_ids=["q"])
    assert again.append({"plays": rows(2)}, query_id="q", batch_id=1).epoch == 4
    assert append_table(reopen(), PLAYS, rows(3), take_over=True).epoch == 7
    for fenced in (first, job, again):
        with pytest.raises(Fenced):
            fenced.append({"plays": rows(4)}, query_id="q", batch_id=9)


def test_a_new_checkpoint_starts_at_batch_0_again(reopen: Reopen) -> None:
    writer = write_to(reopen())
    writer.append({}, query_id="old", batch_id=41)
    assert writer.committed_epoch("new", 0) is None
    assert writer.append({}, query_id="new", batch_id=0).epoch == 3
    assert write_to(reopen()).committed_epoch("old", 41) == 2


def test_the_queries_that_committed_last_are_remembered() -> None:
    """And those that go on."""
    changelog = Changelog.open("memory://")
    writer = write_to(changelog)
    for number in range(MAX_QUERIES):
        writer.append({}, query_id=f"q{number}", batch_id=0)
    with pytest.raises(InvalidInput, match=r"256 sources .* store group plays would have 257: number the"):
        writer.append({}, query_id="one more", batch_id=0)
    writer.append({}, query_id="q0", batch_id=1)
    again = changelog.writer(PLAYS.group, "w", query_ids=["q1", "one more"])
    again.append({}, query_id="one more", batch_id=0)
    again.append({}, query_id="q3", batch_id=1)
    last = write_to(changelog)
    assert last.committed_epoch("q2", 0) is None
    for query in {f"q{number}" for number in range(MAX_QUERIES)} - {"q2"} | {"one more"}:
        assert last.committed_epoch(query, 0) is not None


def test_all_sources_that_go_on_are_remembered_however_many() -> None:
    """After a crash each of them repeats its last batch."""
    changelog, queries = Changelog.open("memory://"), [f"q{number}" for number in range(MAX_QUERIES)]
    epochs: dict[str, Epoch] = {}
    for _ in range(3):
        writer = changelog.writer(PLAYS.group, "w", query_ids=queries)
        for query in queries:
            epochs.setdefault(query, writer.append({}, query_id=query, batch_id=0).epoch)
            assert writer.committed_epoch(query, 0) == epochs[query]
    assert changelog.newest_epoch(PLAYS.group) == MAX_QUERIES + 3
    with pytest.raises(InvalidInput, match="would have 257"):
        changelog.writer(PLAYS.group, "w", query_ids=[*queries, "one more"])
    assert changelog.newest_epoch(PLAYS.group) == MAX_QUERIES + 3


def test_a_batch_needs_both_its_names(reopen: Reopen) -> None:
    writer = write_to(reopen())
    with pytest.raises(InvalidInput, match="both or none"):
        writer.append({}, query_id="q")
    with pytest.raises(InvalidInput, match="both or none"):
        writer.commit([], batch_id=1)
    with pytest.raises(InvalidInput, match="id of printable characters"):
        reopen().writer(PLAYS.group, "")


def test_jobs_that_end_each_other_for_ever_are_told_so(
    local: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each is started again whenever the other has taken the group over. Once is no reason to say so."""
    tables = {PLAYS.name: partition_rows(PLAYS, rows(1))}
    clock = itertools.count(1_700_000_000_000_000, 20_000_000)
    monkeypatch.setattr("engine.changelog.writer._wall_clock", lambda: next(clock))
    monkeypatch.setattr("engine.changelog.writer.check_clock", lambda *_: None)

    def message(before: Writer) -> str:
        with pytest.raises(Fenced) as fenced:
            before.append(tables)
        return fenced.value.message

    first = write_to(local, "a, process 1")
    second = write_to(local, "b, process 2")
    assert message(first).endswith("with token 1 is too late and must stop.")
    second.append(tables)
    third = write_to(local, "a, process 3")
    assert message(second).endswith("must stop.")
    fourth = write_to(local, "b, process 4")
    said = message(third)
    assert re.search(r"must stop\. It was taken over 3 times within \d+ s: if two jobs write it, each", said)
    assert said.endswith("Stop one of them, or give it a store group of its own.")
    for _ in range(40):
        next(clock)
    write_to(local, "c")
    assert message(fourth).endswith("must stop.")


def test_quick_jobs_that_end_each_other_for_ever_are_told_so(
    local: Changelog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commits many epochs before the other one is there again."""
    clock = itertools.count(1_700_000_000_000_000, 1_000_000)
    monkeypatch.setattr("engine.changelog.writer._wall_clock", lambda: next(clock))
    monkeypatch.setattr("engine.changelog.writer.check_clock", lambda *_: None)
    before, said = write_to(local, "a"), []
    for name in "babac":
        for _ in range(45):
            before.append({})
        after = write_to(local, name)
        with pytest.raises(Fenced) as fenced:
            before.append({})
        said.append(re.search(r"It was taken over (\d+) times within \d+ s", fenced.value.message))
        before = after
    assert said[:2] == [None, None]
    assert [found[1] for found in said[2:] if found] == ["3", "4", "5"]


def test_an_older_writer_is_fenced_and_stays_so(reopen: Reopen) -> None:
    tables = {PLAYS.name: partition_rows(PLAYS, rows(1))}
    old = write_to(reopen(), "old driver")
    old.append(tables)
    new = write_to(reopen(), "new driver")
    assert (old.token, new.token) == (1, 2)
    for _ in range(2):
        with pytest.raises(Fenced, match=r"new driver with token 2 .* old driver with token 1"):
            old.append(tables)
    with pytest.raises(Fenced):
        old.append({PLAYS.name: partition_rows(PLAYS, rows(*range(30_000)))})
    assert data_files(reopen()) == []
    with pytest.raises(Fenced):
        old.commit([])
    assert new.append(tables).epoch == 4
    assert [commit.token for commit in commits(reopen())] == [1, 1, 2, 2]


def test_what_a_zombie_staged_is_ignored_and_collected(reopen: Reopen) -> None:
    old = write_to(reopen(), "old")
    tables = {PLAYS.name: partition_rows(PLAYS, rows(1))}
    before = reopen().stage(PLAYS.group, old.next_epoch, tables, task="before")
    new = write_to(reopen(), "new")
    reopen().stage(PLAYS.group, old.next_epoch, tables, task="after")
    with pytest.raises(Fenced):
        old.commit([before])
    alive = reopen().stage(PLAYS.group, new.next_epoch, tables, task="alive")
    assert data_files(reopen()) == ["after", "alive"]
    assert reopen().collect(PLAYS.group) == 1
    new.commit([alive])
    assert data_files(reopen()) == ["alive"]
    assert [read(reopen(), epoch) for epoch in (1, 2, 3)] == [[], [], [(1, "t", 1)]]


def test_a_crash_between_stage_and_commit_leaves_the_epoch_before(reopen: Reopen) -> None:
    crashed = write_to(reopen())
    crashed.append({PLAYS.name: partition_rows(PLAYS, rows(1))}, query_id="q", batch_id=0)
    reopen().stage(PLAYS.group, crashed.next_epoch, {PLAYS.name: partition_rows(PLAYS, rows(2))}, task="0")
    assert reopen().newest_epoch(PLAYS.group) == 2
    restarted = write_to(reopen())
    assert restarted.committed_epoch("q", 1) is None
    assert data_files(reopen()) == []
    restarted.append({PLAYS.name: partition_rows(PLAYS, rows(2))}, query_id="q", batch_id=1)
    assert [read(reopen(), epoch) for epoch in (2, 3, 4)] == [[(1, "t", 1)], [], [(2, "t", 1)]]


@pytest.mark.parametrize("uri", ["file", "memory"])
def test_writers_that_race_get_terms_of_their_own(uri: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    changelog = Changelog.open("memory://" if uri == "memory" else str(tmp_path_factory.mktemp("race")))
    changelog.create_store(PLAYS)
    start = threading.Barrier(6)
    outcomes: list[tuple[int, list[int]]] = []

    def run(number: int) -> None:
        start.wait()
        writer = changelog.writer(PLAYS.group, f"w{number}")
        mine: list[int] = []
        try:
            for _ in range(5):
                mine.append(writer.append({}).epoch)  # noqa: PERF401  what was committed before the fencing counts
        except Fenced:
            pass
        outcomes.append((writer.token, mine))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(token for token, _ in outcomes) == [1, 2, 3, 4, 5, 6]
    found = commits(changelog)
    assert [commit.token for commit in found] == sorted(commit.token for commit in found)
    for token, mine in outcomes:
        assert [commit.epoch for commit in found if commit.token == token][1:] == mine


class LostAnswers:
    """Objects behind a network that carries out creates of commits and loses the answers, when told to.

    Attributes:
        losses: How many creates are carried out without an answer from now on.
        retries: How many creates are carried out, repeated by the client, and so answered with "exists", from
            now on.
        silent: How many reads fail from now on.
    """

    requests_at_once = 1

    def __init__(self, inner: Objects) -> None:
        self._inner = inner
        self.losses = 0
        self.retries = 0
        self.silent = 0

    def create(self, path: str, chunks: Sequence[pa.Buffer]) -> bool:
        won = self._inner.create(path, chunks)
        if self.losses:
            self.losses -= 1
            raise Unavailable("The answer was lost.")
        if self.retries:
            self.retries -= 1
            return False
        return won

    def get(self, path: str) -> pa.Buffer | None:
        if self.silent:
            self.silent -= 1
            raise Unavailable("No answer.")
        return self._inner.get(path)

    def get_ranges(self, path: str, size: int, ranges: Sequence[tuple[int, int]]) -> list[pa.Buffer] | None:
        return self._inner.get_ranges(path, size, ranges)

    def exists(self, path: str) -> bool:
        return self._inner.exists(path)

    def put(self, path: str, chunks: Sequence[pa.Buffer]) -> None:
        self._inner.put(path, chunks)

    def settle(self, path: str) -> None:
        self._inner.settle(path)

    def list(self, directory: str, behind: str = "") -> Iterator[str]:
        return self._inner.list(directory, behind)

    def dated_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        return self._inner.dated_objects(directory)

    def unfinished_objects(self, directory: str) -> Iterator[tuple[str, int]]:
        return self._inner.unfinished_objects(directory)

    def delete(self, paths: Collection[str]) -> None:
        self._inner.delete(paths)

    def current_time(self) -> int:
        return self._inner.current_time()


def test_a_commit_whose_answer_was_lost_is_recognised() -> None:
    objects = LostAnswers(open_objects("memory://", {}))
    writer = write_to(Changelog("memory://", {}, objects))
    objects.losses = 1
    assert writer.append({}).epoch == 2
    objects.retries = 1
    assert writer.append({}).epoch == 3
    assert writer.append({}).epoch == 4


@pytest.mark.parametrize("batch_id", [0, 1])
def test_a_commit_of_unknown_outcome_is_found_by_the_next_call(batch_id: int) -> None:
    objects = LostAnswers(open_objects("memory://", {}))
    changelog = Changelog("memory://", {}, objects)
    writer = write_to(changelog)
    objects.losses = objects.silent = 1
    with pytest.raises(Unavailable):
        writer.append({}, query_id="q", batch_id=0)
    if batch_id == 0:
        assert writer.append({}, query_id="q", batch_id=0).epoch == 2
    else:
        with pytest.raises(Unavailable, match="of no rows, had taken place after all, as epoch 2; this one"):
            writer.append({}, query_id="q", batch_id=1)
        assert writer.append({}, query_id="q", batch_id=1).epoch == 3
    assert [commit.batch_id for commit in commits(changelog)] == [None, *range(batch_id + 1)]


@pytest.mark.parametrize("tries", [1, 3])
@pytest.mark.parametrize("is_staged", [False, True])
def test_rows_of_unknown_outcome_are_not_appended_twice(tries: int, is_staged: bool) -> None:
    """They have no number: the rows themselves tell."""
    objects = LostAnswers(open_objects("memory://", {}))
    changelog = Changelog("memory://", {}, objects)
    writer = write_to(changelog)

    def append(*songs: int) -> Commit:
        placed = {PLAYS.name: partition_rows(PLAYS, rows(*songs))}
        if not is_staged:
            return writer.append(placed)
        return writer.commit([changelog.stage(PLAYS.group, writer.next_epoch, placed, task="t")])

    for _ in range(tries):
        objects.losses = objects.silent = 1
        with pytest.raises(Unavailable):
            append(1, 2)
    assert append(1, 2).epoch == 2
    assert append(1, 2).epoch == 3, "rows that were appended once more on purpose"
    objects.losses = objects.silent = 1
    with pytest.raises(Unavailable):
        append(7)
    with pytest.raises(
        Unavailable, match="of 1 row of plays, had taken place after all, as epoch 4; this one"
    ):
        append(8)
    assert append(8).epoch == 5
    assert [sum(part.rows for file in each.files for part in file.slices) for each in commits(changelog)] == [
        0,
        2,
        2,
        1,
        1,
    ]


def test_a_fence_whose_answer_was_lost_is_recognised() -> None:
    objects = LostAnswers(open_objects("memory://", {}))
    changelog = Changelog("memory://", {}, objects)
    changelog.create_store(PLAYS)
    objects.losses = 1
    assert changelog.writer(PLAYS.group, "w").epoch == 1


def test_an_appender_knows_its_stores(reopen: Reopen) -> None:
    other = define_store("other", PLAYS.schema, ["song"])
    with pytest.raises(InvalidInput, match="not of other, plays"):
        open_appender(reopen(), [PLAYS, other])
    with pytest.raises(InvalidInput, match="not of none"):
        open_appender(reopen(), [])
    with open_appender(reopen(), [PLAYS]) as appender:
        with pytest.raises(NotFound, match="writes plays, and not other"):
            appender.append({"other": rows(1)})
        with pytest.raises(InvalidInput, match="None of the tables has a column gone"):
            appender.append({"plays": rows(1)}, tombstone_column="gone")
        assert appender.epoch == 1
    wider = define_store("plays", PLAYS.schema.append(pa.field("more", pa.string())), ["song"])
    with pytest.raises(InvalidInput, match="two are called alike: give each of plays once"):
        open_appender(reopen(), [PLAYS, wider])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"query_id": "q", "batch_id": 1.5}, r"A batch id is a whole number from 0 on, and not 1\.5"),
        ({"query_id": "q", "batch_id": -1}, "and not -1"),
        ({"query_id": "q", "batch_id": "7"}, "and not '7'"),
        ({"query_id": "q", "batch_id": True}, "and not True"),
        ({"query_id": "q", "batch_id": 2**63}, "A batch id is a whole number"),
        ({"query_id": 5, "batch_id": 1}, "A query id is a text that is not empty, and not 5"),
        ({"query_id": "", "batch_id": 1}, "A query id is a text that is not empty, and not ''"),
        ({"watermark": "today"}, "A watermark is a datetime with a time zone, and not 'today'"),
        ({"replaced": "plays"}, "replaced is a list of names of stores, and not the text 'plays'"),
    ],
)
def test_what_an_appender_is_told_is_checked(
    reopen: Reopen, arguments: dict[str, object], message: str
) -> None:
    with open_appender(reopen(), [PLAYS]) as appender:
        appender.append({"plays": rows(1)}, query_id="q", batch_id=0)
        with pytest.raises(InvalidInput, match=message):
            appender.append({"plays": rows(2)}, **arguments)  # type: ignore[arg-type]
        assert appender.epoch == 2


def commits(changelog: Changelog) -> list[Commit]:
    found = [
        changelog.read_commit(PLAYS.group, Epoch(epoch))
        for epoch in range(1, changelog.newest_epoch(PLAYS.group) + 1)
    ]
    return [commit for commit in found if commit is not None]


def data_files(changelog: Changelog) -> list[str]:
    paths = changelog.objects.list(f"groups/{PLAYS.group}")
    return sorted(path.rpartition("/")[2].rpartition("-")[0] for path in paths if path.endswith(".arrow"))
