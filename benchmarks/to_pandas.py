"""How fast `SELECT *` of 1 M rows comes to pandas, and to Arrow, through the ADBC driver from a host process.

    python -m benchmarks to_pandas

Five columns of 8 bytes: 40 MB of Arrow data, which is what MB/s count (a MB is 10^6 bytes), whatever pandas
makes of it. Each time is from `execute` to the finished frame or table.

Checked: the rows of every call, by count and sums; of the first one all of them, row by row.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
from adbc_driver_manager.dbapi import Cursor

from benchmarks.report import Figure
from benchmarks.serve_processes import HostProcess
from benchmarks.setting import Setting
from benchmarks.timing import median_cpu, median_wall, milliseconds, time_in_turns
from benchmarks.workload import STORE, check, fill_store
from engine.changelog import Changelog

ROWS = 1_000_000
REPETITIONS = 15
TARGET = 300.0
STATEMENT = f"SELECT * FROM {STORE}"


def run(setting: Setting) -> Iterator[Figure]:
    """MB/s to a pandas frame, and to an Arrow table."""
    changelog = str(setting.directory / "changelog")
    _, expected = fill_store(Changelog.open(changelog), setting.scale_number(ROWS))
    all_rows = expected.table().sort_by("song_id")
    sums = int(expected.listens.sum()), float(expected.score.sum())
    with HostProcess(setting.directory, changelog) as host:
        host.wait_until_settled()
        with flight_sql.connect(host.uri, autocommit=True) as connection, connection.cursor() as cursor:
            check("all rows", _table(cursor).sort_by("song_id").equals(all_rows), True)

            def frame() -> None:
                found = _frame(cursor)
                check("the frame", (int(found["listens"].sum()), float(found["score"].sum())), sums)

            def table() -> None:
                check("rows of the table", _table(cursor).num_rows, expected.keys)

            times = time_in_turns(
                {"pandas (fetch_df)": frame, "Arrow (fetch_arrow_table)": table}, REPETITIONS
            )
    for name, spent in times.items():
        wall, cpu = milliseconds(median_wall(spent)), milliseconds(median_cpu(spent))
        note = f"{wall:.0f} ms for {all_rows.nbytes / 1e6:.0f} MB; {cpu:.0f} ms CPU of the client"
        rate = all_rows.nbytes / 1e6 / median_wall(spent)
        yield Figure(
            "to_pandas",
            f"SELECT * of {expected.keys / 1e6:g} M rows, {name}",
            rate,
            "MB/s",
            TARGET,
            True,
            note,
            setting.scale,
        )


def _table(cursor: Cursor) -> Any:
    cursor.execute(STATEMENT)
    return cursor.fetch_arrow_table()


def _frame(cursor: Cursor) -> Any:
    cursor.execute(STATEMENT)
    return cursor.fetch_df()
