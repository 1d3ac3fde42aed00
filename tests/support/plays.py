"""A store on sixteen partitions, and queries that every host of a deployment takes part in."""

from __future__ import annotations

import pyarrow as pa

from engine.model.schema import define_store

ROWS = 30_000
PARTITIONS = 16
PLAYS = pa.table(
    {
        "song": pa.array(range(ROWS), pa.int64()),
        "genre": pa.array([n % 10 for n in range(ROWS)], pa.int64()),
        "plays": pa.array([2] * ROWS, pa.int64()),
    }
)
STORE = define_store("plays", PLAYS.schema, ["song"], partitions=PARTITIONS)
COUNT = "SELECT count(*) AS n FROM plays"
FAN_OUT = (
    (COUNT, [ROWS]),
    ("SELECT sum(plays) AS n FROM plays GROUP BY genre", [ROWS // 10 * 2] * 10),
    ("SELECT count(*) AS n FROM plays a JOIN plays b ON a.song = b.plays", [ROWS]),
    ("SELECT song AS n FROM plays ORDER BY song DESC LIMIT 3", [ROWS - 1, ROWS - 2, ROWS - 3]),
)
ENDLESS = "SELECT sum(hash(song + r.n)) AS n FROM plays, range(1000000000) r(n)"
"""Runs for hours, on all hosts."""
