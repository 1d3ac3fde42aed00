"""How long small statements take: pages, ranges, lists of keys, sums, a join with a global store.

    python -m benchmarks small_statements

10 M rows of five columns, one of them a string of 8 bytes, in 8 partitions of one host; every call asks for
other keys, and is one call of a plain Flight client, from the text to the last row in Arrow. The statements
take turns. Each answer of a first round is compared with numpy's before anything is timed.

    python -m benchmarks.small_statements NAME [SCALE] [CALLS]

runs one of them in this process, by its name below, under a profiler.
"""

from __future__ import annotations

import cProfile
import pstats
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import flight

from benchmarks.local_store import host_like_interpreter
from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess, cpu_seconds
from benchmarks.setting import Setting
from benchmarks.timing import milliseconds, percentile
from benchmarks.workload import EPOCH_ROWS, GENRES, KEYS, PARTITIONS, Numbers, check, key_values, rows_of
from engine.changelog import Changelog, open_appender
from engine.model.kinds import Behaviour
from engine.model.schema import Epoch, GroupName, define_store
from engine.replica.follower import Follower
from engine.replica.follower_options import FollowerOptions
from engine.service import QueryService

CALLS = 300
TURN_CALLS = 10
CHECKED_CALLS = 3
SCHEMA = pa.schema(
    [
        ("song_id", pa.int64()),
        ("genre", pa.int64()),
        ("title", pa.string()),
        ("listens", pa.int64()),
        ("score", pa.float64()),
    ]
)
PLAYS = define_store("plays", SCHEMA, ["song_id"], partitions=PARTITIONS)
GENRE_NAMES = define_store(
    "genres",
    pa.schema([("genre", pa.int64()), ("name", pa.string())]),
    ["genre"],
    partitions=1,
    behaviour=Behaviour(is_global=True),
)
_DIGITS = np.frombuffer(b"".join(b"%02x" % byte for byte in range(256)), np.dtype("S2"))


def _rows(numbers: Numbers) -> pa.RecordBatch:
    """The rows of some keys' numbers: all other columns are made of the number."""
    texts = _DIGITS[numbers.astype(np.uint32).view(np.uint8)].tobytes()
    offsets = np.arange(0, 8 * (len(numbers) + 1), 8, dtype=np.int32)
    title = pa.StringArray.from_buffers(len(numbers), pa.py_buffer(offsets), pa.py_buffer(texts))
    return pa.record_batch(
        [key_values(numbers), numbers % GENRES, title, numbers % 10_007, (numbers % 997) / 256.0],
        schema=SCHEMA,
    )


class Content:
    """What the store has: keys in their order, and the number of each.

    Args:
        keys: How many keys.
    """

    def __init__(self, keys: int) -> None:
        values = key_values(np.arange(keys)).to_numpy()
        self.numbers: Numbers = np.argsort(values)
        self.keys: Numbers = values[self.numbers]

    def __len__(self) -> int:
        return len(self.keys)

    def rows(self, places: Numbers) -> list[tuple[object, ...]]:
        """Rows at places in the order of the keys."""
        return [tuple(row.values()) for row in _rows(self.numbers[places]).to_pylist()]


def _fill(changelog: Changelog, keys: int) -> Mapping[GroupName, Epoch]:
    """Make the stores; returns their newest epochs."""
    order = np.random.default_rng(1).permutation(keys).astype(np.int64)
    appender = open_appender(changelog, [PLAYS])
    for start in range(0, keys, EPOCH_ROWS):
        appender.append({PLAYS.name: _rows(order[start : start + EPOCH_ROWS])})
    genres = np.arange(GENRES)
    names = pa.record_batch([genres, [f"genre {genre}" for genre in genres]], schema=GENRE_NAMES.schema)
    global_appender = open_appender(changelog, [GENRE_NAMES])
    global_appender.append({GENRE_NAMES.name: names})
    return {PLAYS.group: appender.epoch, GENRE_NAMES.group: global_appender.epoch}


@dataclass(frozen=True)
class Statement:
    """A small statement.

    Attributes:
        name: What it is called.
        target: What it should take, ms.
        text: Makes its text of places in the order of the keys.
        expected: Makes its rows of them, in order where `is_ordered`.
        places: How many places it takes: 0 for none, 1, or as many as there are keys in its list.
        is_ordered: Whether its rows have an order.
    """

    name: str
    target: float | None
    text: Callable[[Content, Numbers], str]
    expected: Callable[[Content, Numbers], Sequence[tuple[object, ...]]]
    places: int = 1
    is_ordered: bool = False


def _range(content: Content, places: Numbers) -> str:
    first = int(places[0])
    return f"song_id BETWEEN {content.keys[first]} AND {content.keys[first + 99]}"


def _range_places(places: Numbers) -> Numbers:
    return np.arange(places[0], places[0] + 100)


def _list(content: Content, places: Numbers) -> str:
    return ", ".join(map(str, content.keys[places].tolist()))


def _sum_of(content: Content, places: Numbers) -> tuple[object, ...]:
    rows = content.rows(places)
    return (sum(row[3] for row in rows), float(sum(row[4] for row in rows)))  # type: ignore[misc]


def _list_statement(name: str, keys: int, target: float, condition: str = "") -> Statement:
    return Statement(
        name,
        target,
        lambda content, places: f"SELECT * FROM plays WHERE song_id IN ({_list(content, places)}){condition}",
        lambda content, places: [
            row
            for row in content.rows(places)
            if not condition or row[3] < 5000  # type: ignore[operator]
        ],
        keys,
    )


STATEMENTS = (
    Statement("SELECT 1", 0.6, lambda content, places: "SELECT 1", lambda content, places: [(1,)], 0),
    Statement(
        "range of 100 keys",
        1.5,
        lambda content, places: f"SELECT * FROM plays WHERE {_range(content, places)}",
        lambda content, places: content.rows(_range_places(places)),
    ),
    Statement(
        "sum over 100 keys",
        2.0,
        lambda content, places: (
            f"SELECT sum(listens) AS l, sum(score) AS s FROM plays WHERE {_range(content, places)}"
        ),
        lambda content, places: [_sum_of(content, _range_places(places))],
    ),
    _list_statement("IN 10", 10, 0.9),
    _list_statement("IN 200", 200, 2.5),
    _list_statement("IN 10,000", 10_000, 15.0),
    _list_statement("IN 10 and a condition", 10, 0.9, " AND listens < 5000"),
    Statement(
        "next 20 rows",
        1.5,
        lambda content, places: (
            f"SELECT * FROM plays WHERE song_id > {content.keys[places[0]]} ORDER BY song_id LIMIT 20"
        ),
        lambda content, places: content.rows(np.arange(places[0] + 1, places[0] + 21)),
        is_ordered=True,
    ),
    Statement(
        "previous 20 rows",
        1.5,
        lambda content, places: (
            f"SELECT * FROM plays WHERE song_id < {content.keys[places[0]]} ORDER BY song_id DESC LIMIT 20"
        ),
        lambda content, places: content.rows(np.arange(places[0] - 1, places[0] - 21, -1)),
        is_ordered=True,
    ),
    Statement(
        "key with a global store",
        2.5,
        lambda content, places: (
            "SELECT p.*, g.name FROM plays p JOIN genres g ON p.genre = g.genre "
            f"WHERE p.song_id = {content.keys[places[0]]}"
        ),
        lambda content, places: [(*row, f"genre {row[1]}") for row in content.rows(places)],
    ),
    Statement(
        "aggregate, same text",
        None,
        lambda content, places: _genre_query(content, np.array([len(content) // 2])),
        lambda content, places: _genres(content, np.array([len(content) // 2])),
        0,
        is_ordered=True,
    ),
    Statement(
        "aggregate, new literals",
        None,
        lambda content, places: _genre_query(content, places),  # noqa: PLW0108 - defined below
        lambda content, places: _genres(content, places),  # noqa: PLW0108
        is_ordered=True,
    ),
)


def _genre_query(content: Content, places: Numbers) -> str:
    first = int(places[0])
    return (
        "SELECT genre, count(*) AS n, sum(listens) AS l FROM plays "
        f"WHERE song_id >= {content.keys[first]} AND song_id < {content.keys[first + 2000]} "
        f"AND listens < {9000 + first % 1000} GROUP BY genre ORDER BY genre"
    )


def _genres(content: Content, places: Numbers) -> list[tuple[object, ...]]:
    first = int(places[0])
    numbers = content.numbers[first : first + 2000]
    listens = numbers % 10_007
    kept = listens < 9000 + first % 1000
    genres, listens = numbers[kept] % GENRES, listens[kept]
    return [
        (int(genre), int((genres == genre).sum()), int(listens[genres == genre].sum()))
        for genre in np.unique(genres)
    ]


Ask = Callable[[str], pa.Table]


def _places(statement: Statement, content: Content, random: np.random.Generator) -> Numbers:
    if statement.places > 1:
        return random.choice(len(content), statement.places, replace=False)
    return random.integers(100, len(content) - 3000, 1)


def _check(statement: Statement, content: Content, ask: Ask, random: np.random.Generator) -> None:
    for _ in range(CHECKED_CALLS):
        places = _places(statement, content, random)
        found, expected = (
            rows_of(ask(statement.text(content, places))),
            list(statement.expected(content, places)),
        )
        if not statement.is_ordered:
            found, expected = sorted(found), sorted(expected)
        check(statement.name, found, expected)


def run(setting: Setting) -> Iterator[Figure]:
    """The median time of each statement."""
    uri = str(setting.directory / "changelog")
    keys = setting.scale_number(KEYS, least=20_000)
    _fill(Changelog.open(uri), keys)
    content = Content(keys)
    times: dict[str, list[float]] = {}
    cpu: dict[str, float] = {}
    aggregates = [statement for statement in STATEMENTS if statement.name.startswith("aggregate")]
    others = [statement for statement in STATEMENTS if statement not in aggregates]
    # The same text would be answered with what was kept, which says nothing of what new literals cost.
    for statements, options in ((others, ()), (aggregates, ("--answers", "0"))):
        with HostProcess(setting.directory, uri, options) as host, flight.connect(host.uri) as client:
            host.wait_until_settled()
            found = _measure(statements, content, client, host.pid, setting.scale_number(CALLS, least=100))
            times |= found[0]
            cpu |= found[1]
    for statement in STATEMENTS:
        taken = times[statement.name]
        yield Figure(
            "small_statements",
            statement.name,
            milliseconds(percentile(taken, 0.5)),
            "ms",
            statement.target,
            note=(
                f"p99 {milliseconds(percentile(taken, 0.99)):.1f} ms; "
                f"{milliseconds(cpu[statement.name] / len(taken)):.2f} ms CPU of the host a call"
            ),
            scale=setting.scale,
        )
    ratio = percentile(times["aggregate, new literals"], 0.5) / percentile(times["aggregate, same text"], 0.5)
    yield Figure(
        "small_statements",
        "aggregate with new literals",
        ratio,
        "times the same text",
        1.2,
        scale=setting.scale,
    )


def _measure(
    statements: Sequence[Statement], content: Content, client: flight.FlightClient, pid: int, calls: int
) -> tuple[dict[str, list[float]], dict[str, float]]:
    """Check statements, and ask them in turns.

    Args:
        statements: The statements.
        content: What the store has.
        client: Asks the host.
        pid: Process of the host.
        calls: How often each is asked.

    Returns:
        The time of each call, and the processor time that the host took for all of them, by statement; in
        seconds.
    """
    random = np.random.default_rng(7)

    def ask(text: str) -> pa.Table:
        return client.do_get(flight.Ticket(text.encode())).read_all()

    for statement in statements:
        _check(statement, content, ask, random)
    times: dict[str, list[float]] = {statement.name: [] for statement in statements}
    cpu = dict.fromkeys(times, 0.0)
    for _ in range(calls // TURN_CALLS):
        for statement in statements:
            texts = [statement.text(content, _places(statement, content, random)) for _ in range(TURN_CALLS)]
            before = cpu_seconds(pid)
            for text in texts:
                began = time.perf_counter()
                ask(text)
                times[statement.name].append(time.perf_counter() - began)
            cpu[statement.name] += cpu_seconds(pid) - before
    return times, cpu


def profile(name: str, scale: float, calls: int) -> None:
    """Run one statement in this process, and show where its time goes.

    Args:
        name: Its name.
        scale: Size of the store.
        calls: How often it is asked.
    """
    statement = next(each for each in STATEMENTS if each.name == name)
    random = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as scratch:
        changelog = Changelog.open(str(Path(scratch) / "changelog"))
        content = Content(max(20_000, round(KEYS * scale)))
        epochs = _fill(changelog, len(content))
        follower = Follower(changelog, Path(scratch) / "data", FollowerOptions(poll_seconds=3600.0))
        with host_like_interpreter(), closing(QueryService(follower)) as service:
            follower.start()
            try:
                follower.notify()
                for group, epoch in epochs.items():
                    follower.wait_for(group, epoch, 600.0)
                follower.wait_until_compact(600.0)
                _profile(statement, content, lambda text: service.execute(text).read_all(), random, calls)
            finally:
                follower.stop()


def _profile(
    statement: Statement, content: Content, ask: Ask, random: np.random.Generator, calls: int
) -> None:
    _check(statement, content, ask, random)
    texts = [statement.text(content, _places(statement, content, random)) for _ in range(2 * calls)]
    times = []
    for text in texts[:calls]:
        began = time.perf_counter()
        ask(text)
        times.append(time.perf_counter() - began)
    print(f"{statement.name}: p50 {milliseconds(percentile(times, 0.5)):.3f} ms in this process")
    with cProfile.Profile() as profiler:
        for text in texts[calls:]:
            ask(text)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(35)


if __name__ == "__main__":
    profile(
        sys.argv[1],
        float(sys.argv[2]) if len(sys.argv) > 2 else 0.1,
        int(sys.argv[3]) if len(sys.argv) > 3 else 200,
    )
