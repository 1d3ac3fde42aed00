"""How long a host with 10 M rows takes from the start of its process to its first answer.

    python -m benchmarks restart

After a clean stop (SIGTERM) and after SIGKILL in the middle of applying epochs, several times each. The clock
starts when the process is spawned and stops when a row, looked up by its key, is with the client; then a
GROUP BY over all rows follows at once, and its end is taken too. The system's page cache is warm, as after
any restart of a process.

Checked: the answers; after SIGKILL the lookup must show an epoch that was committed, and once it has caught
    up, the GROUP BY all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.workload import (
    BY_GENRE,
    EPOCH_ROWS,
    KEYS,
    STORE,
    Expected,
    KeyType,
    append_all,
    check,
    check_by_genre,
    fill_store,
    random_upserts,
    rows_of,
)
from engine.changelog import Changelog, StoreAppender
from engine.errors import Unavailable
from flight_server.client.client import Client

REPETITIONS = 5
TARGET_SECONDS = 2.0
EPOCHS_BEFORE_KILL = 5
DEADLINE_SECONDS = 60.0


def run(setting: Setting) -> Iterator[Figure]:
    """Seconds to the first lookup and to the first GROUP BY, after each kind of end."""
    changelog = str(setting.directory / "changelog")
    appender, expected = fill_store(Changelog.open(changelog), setting.scale_number(KEYS))
    with HostProcess(setting.directory, changelog) as host:
        host.wait_until_settled()
    clean = [_restart(setting, changelog, appender, expected, kill=False) for _ in range(REPETITIONS)]
    yield from _figures("a clean stop", clean, setting)
    # The first of these starts after a clean stop, like those before.
    killed = [_restart(setting, changelog, appender, expected, kill=True) for _ in range(REPETITIONS + 1)][1:]
    yield from _figures("SIGKILL while it applied epochs", killed, setting)


def _restart(
    setting: Setting, changelog: str, appender: StoreAppender, expected: Expected, *, kill: bool
) -> tuple[float, float]:
    """Seconds to the first lookup and to the first GROUP BY of a host that is then ended, in the way that the
    next start is to follow.
    """
    host = HostProcess(setting.directory, changelog)
    with host, Client(host.uri) as client:
        row = expected.row(expected.keys // 2)
        found = _first_answer(client, f"SELECT * FROM {STORE} WHERE song_id = {row[0]}")
        to_lookup = time.perf_counter() - host.spawned
        client.query(BY_GENRE).read_all()
        to_group_by = time.perf_counter() - host.spawned
        check("rows of a key", len(found), 1)
        host.wait_until_ready()
        check(
            "the row when caught up",
            rows_of(client.query(f"SELECT * FROM {STORE} WHERE song_id = {row[0]}").read_all()),
            [row],
        )
        check_by_genre(client.query(BY_GENRE).read_all(), expected)
        if kill:
            append_all(
                appender,
                random_upserts(expected.keys, EPOCHS_BEFORE_KILL, EPOCH_ROWS, appender.epoch),
                KeyType.INT64,
                expected.upsert,
            )
            host.kill()
    return to_lookup, to_group_by


def _first_answer(client: Client, sql: str) -> list[tuple[object, ...]]:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while True:
        try:
            return rows_of(client.query(sql).read_all())
        except Unavailable:
            # The host may not listen yet.
            if time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _figures(after: str, times: list[tuple[float, float]], setting: Setting) -> Iterator[Figure]:
    to_lookup, to_group_by = ([pair[place] for pair in times] for place in (0, 1))
    worst = f"the slowest of {len(times)}: {max(to_lookup):.2f} s"
    yield Figure(
        "restart",
        f"spawn to first lookup, after {after}",
        statistics.median(to_lookup),
        "s",
        TARGET_SECONDS,
        note=worst,
        scale=setting.scale,
    )
    worst = f"the slowest of {len(times)}: {max(to_group_by):.2f} s"
    yield Figure(
        "restart",
        f"spawn to first GROUP BY, after {after}",
        statistics.median(to_group_by),
        "s",
        note=worst,
        scale=setting.scale,
    )
