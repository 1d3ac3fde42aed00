"""Stock trade statistics, as Kafka Streams' talk on state computes them: windows of 5 seconds, a new one
every second.

    stock_trades (symbol, price_cents, shares, event_time)
        │  window(event_time, 5 seconds, 1 second): each trade is in five windows
        ▼
    store trade_windows (symbol, window_start, window_end: trades, average_cents, lowest_cents,
    highest_cents), for an hour

A window store has the windows of a symbol on one partition, sorted by time: "this symbol, this minute" is one
slice of it, and "all symbols, this minute" skips all else. Trades may be up to 8 seconds late.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from spark_pipeline import StoreOutput
from spark_pipeline.pipelines.draws import Draws, words
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Topic

SYMBOLS = tuple(f"{first}{second}{third}" for first in "ABC" for second in "DEF" for third in "GHI")
EVENTS_PER_SECOND = 100.0
LATE_SECONDS = 8.0
WINDOW = "5 seconds"
SLIDE = "1 second"
RETENTION = "1 hour"
"""Behind the watermark; Spark itself forgets a window as soon as the watermark has passed it."""


def _trades(draws: Draws) -> Mapping[str, Any]:
    symbols = draws.skewed_integers("symbol", len(SYMBOLS))
    wave = 1 + 0.05 * np.sin(draws.numbers / EVENTS_PER_SECOND / 60 + symbols)
    return {
        "symbol": words(symbols, SYMBOLS),
        "price_cents": ((2_000 + 900 * symbols) * wave).astype(np.int64) + draws.integers("noise", 41) - 20,
        "shares": draws.integers("shares", 500) + 1,
        "event_time": draws.times(EVENTS_PER_SECOND, late_share=0.1, late_seconds=LATE_SECONDS),
    }


def aggregate(trades: DataFrame) -> DataFrame:
    """Trades, and average, lowest and highest price, per symbol and window."""
    return (
        trades.withWatermark("event_time", f"{LATE_SECONDS + 2:.0f} seconds")
        .groupBy("symbol", F.window("event_time", WINDOW, SLIDE))
        .agg(
            F.count(F.lit(1)).alias("trades"),
            F.avg("price_cents").alias("average_cents"),
            F.min("price_cents").alias("lowest_cents"),
            F.max("price_cents").alias("highest_cents"),
        )
    )


PIPELINE = Pipeline(
    name="stock_trades",
    summary="Stock trade statistics: windows of 5 seconds every second, with their average price.",
    topics=[
        Topic(
            "stock_trades",
            "symbol string, price_cents bigint, shares bigint, event_time timestamp",
            key="symbol",
            make=_trades,
        )
    ],
    frame=lambda streams, _: aggregate(streams["stock_trades"]),
    output_mode="update",
    stores=[StoreOutput("trade_windows", key=["symbol"], window="window", retention=RETENTION)],
    questions=[
        Question(
            "One symbol's newest windows",
            """SELECT window_start, window_end, trades, average_cents, lowest_cents, highest_cents FROM trade_windows
               WHERE symbol = 'ADG' ORDER BY window_start DESC LIMIT 5""",
        ),
        Question(
            "One symbol, ten seconds",
            """SELECT window_start, trades, average_cents FROM trade_windows
               WHERE symbol = 'BEH' AND window_start >= TIMESTAMPTZ '2026-01-01 00:00:20+00' AND window_start < TIMESTAMPTZ '2026-01-01 00:00:30+00'
               ORDER BY window_start""",
        ),
        Question(
            "All symbols in the newest whole window",
            """SELECT symbol, trades, average_cents FROM trade_windows
               WHERE window_start = (SELECT max(window_start) - INTERVAL 5 SECONDS FROM trade_windows) ORDER BY trades DESC, symbol LIMIT 5""",
        ),
    ],
)
