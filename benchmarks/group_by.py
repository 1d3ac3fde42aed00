"""How fast 50 groups are summed over 10 M live rows while a fifth of the stored rows is superseded, against
DuckDB's own table of the live rows.

    python -m benchmarks group_by

12.5 M rows are stored: one for each of 10 M keys, and another one for 2.5 M of them, the older of which are
dead. Compaction is set so that it leaves them (the default would, too, as long as fewer than 45 % of a
segment are dead), and the benchmark makes sure of it. DuckDB has the same number of threads and the 10 M live
rows in a table of its own, in memory. The two take turns; the ratio is that of the medians.

Checked: both answer as a recomputation in numpy does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import duckdb
import numpy as np

from benchmarks.local_store import local_store, opened_store
from benchmarks.report import Figure
from benchmarks.setting import Setting
from benchmarks.timing import median_cpu, median_wall, milliseconds, time_in_turns
from benchmarks.workload import (
    BY_GENRE,
    KEYS,
    STORE,
    KeyType,
    append_all,
    check,
    check_by_genre,
    plays,
    rows_of,
)
from engine.service import QueryOptions, QueryService
from engine.state.state_options import StateOptions

REPETITIONS = 15
TARGET_RATIO = 1.5
DEAD_SHARE = 0.2
UPSERT_ROWS = 500_000
LEFT_ALONE = StateOptions(fan_out=1000, dead_share=1.0)


def run(setting: Setting) -> Iterator[Figure]:
    """One figure: how many times DuckDB's own time."""
    with local_store(setting.directory, setting.scale_number(KEYS)) as loaded:
        appender, expected = loaded.appender, loaded.expected
    with opened_store(setting.directory, appender, expected, state=LEFT_ALONE) as store:
        random = np.random.default_rng(3)
        superseded = random.permutation(expected.keys)[: round(expected.keys * DEAD_SHARE / (1 - DEAD_SHARE))]
        pieces = [superseded[start : start + UPSERT_ROWS] for start in range(0, len(superseded), UPSERT_ROWS)]
        append_all(appender, (plays(piece, random) for piece in pieces), KeyType.INT64, expected.upsert)
        store.apply()
        store.compact()
        (status,) = store.follower.status()
        check("share of dead rows", round(1 - status.rows / status.stored_rows, 3), DEAD_SHARE)
        with (
            closing(QueryService(store.follower, QueryOptions(threads=2, answer_bytes=0))) as service,
            duckdb.connect(config={"threads": 2}) as own,
        ):
            live = expected.table()
            own.execute(f"CREATE TABLE {STORE} AS SELECT * FROM live")
            del live
            check_by_genre(service.execute(BY_GENRE).read_all(), expected)
            check("DuckDB's own table", rows_of(own.sql(BY_GENRE).to_arrow_table()), expected.by_genre())
            times = time_in_turns(
                {
                    "livestate": lambda: service.execute(BY_GENRE).read_all(),
                    "duckdb": lambda: own.sql(BY_GENRE).to_arrow_table(),
                },
                REPETITIONS,
            )
    ours, theirs = median_wall(times["livestate"]), median_wall(times["duckdb"])
    note = (
        f"livestate {milliseconds(ours):.1f} ms, DuckDB {milliseconds(theirs):.1f} ms; by CPU time "
        f"{median_cpu(times['livestate']) / median_cpu(times['duckdb']):.2f} times; {status.stored_rows:,} "
        f"rows stored in {status.segments} segments"
    )
    yield Figure(
        "group_by",
        f"GROUP BY of {status.rows / 1e6:g} M live rows",
        ours / theirs,
        "times DuckDB",
        TARGET_RATIO,
        note=note,
        scale=setting.scale,
    )
