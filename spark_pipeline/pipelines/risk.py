"""Real-time risk, from the announcement of Kafka Streams' Interactive Queries: positions, live prices,
bid/ask statistics, exposure.

    account_trades (account_id, asset, quantity, price_cents, event_time)     quotes (asset, bid_cents, ask_cents, event_time)
        │                                                                        │
        └──────────────────────────────┬─────────────────────────────────────────┘
                                       ▼  one query, one commit
    store positions (account_id, asset: quantity, cost_cents, trades), together with its account on one partition
    store prices    (asset: bid_cents, ask_cents, quoted_at, quotes, lowest_bid_cents, highest_ask_cents, spread_cents)
    global store accounts (account_id: holder, portfolio)

Positions and prices change in the same epoch, so an exposure never mixes the positions of one moment with the
prices of another. Money is in whole cents: sums are exact.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws, Integers, words
from spark_pipeline.pipelines.names import LAST_NAMES
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Reference, Topic

ACCOUNTS = 1_000
ASSETS = tuple(f"{first}{second}X" for first in "ABCDEFGH" for second in "KLMNP")
PORTFOLIOS = ("Growth", "Income", "Index", "Macro", "Small caps", "Value")
TRADES_PER_SECOND = 40.0
QUOTES_PER_SECOND = 80.0
_IS_TRADE = "is_trade"
_HOLDERS = LAST_NAMES[:12]
_BASE_CENTS = 1_000
_STEP_CENTS = 700
_WAVE_SECONDS = 300.0


def _mid_cents(assets: Integers, seconds: np.ndarray[Any, np.dtype[np.float64]]) -> Integers:
    """What an asset costs at a time: a wave around its usual price, each asset at another point of it."""
    usual = _BASE_CENTS + _STEP_CENTS * assets
    return (usual * (1 + 0.1 * np.sin(seconds / _WAVE_SECONDS + assets))).astype(np.int64)


def _trades(draws: Draws) -> Mapping[str, Any]:
    assets = draws.skewed_integers("asset", len(ASSETS))
    bought = draws.integers("quantity", 200) - 90
    return {
        "account_id": draws.integers("account", ACCOUNTS),
        "asset": words(assets, ASSETS),
        "quantity": np.where(bought == 0, 1, bought),
        "price_cents": _mid_cents(assets, draws.numbers / TRADES_PER_SECOND),
        "event_time": draws.times(TRADES_PER_SECOND),
    }


def _quotes(draws: Draws) -> Mapping[str, Any]:
    # In turns, so that every asset has a price soon.
    assets = draws.numbers % len(ASSETS)
    middle = _mid_cents(assets, draws.numbers / QUOTES_PER_SECOND) + draws.integers("noise", 21) - 10
    return {
        "asset": words(assets, ASSETS),
        "bid_cents": middle - draws.integers("bid", 10) - 1,
        "ask_cents": middle + draws.integers("ask", 10) + 1,
        "event_time": draws.times(QUOTES_PER_SECOND),
    }


def make_accounts(seed: int) -> pa.Table:
    """The accounts: `account_id` (int64, from 0), `holder`, `portfolio`."""
    numbers = np.arange(ACCOUNTS, dtype=np.int64)
    draws = Draws(numbers, seed)
    holders, portfolios = (
        words(draws.integers(name, len(choices)), choices)
        for name, choices in (("holder", _HOLDERS), ("portfolio", PORTFOLIOS))
    )
    return pa.table({"account_id": numbers, "holder": holders, "portfolio": portfolios})


def _both(trades: DataFrame, quotes: DataFrame) -> DataFrame:
    """One stream of both. A column tells them apart, as an event may lack any other, its account too."""
    marked = [
        events.withColumn(_IS_TRADE, F.lit(is_trade))
        for events, is_trade in ((trades, True), (quotes, False))
    ]
    return marked[0].unionByName(marked[1], allowMissingColumns=True)


def _trades_of(batch: DataFrame) -> DataFrame:
    return batch.where(F.col(_IS_TRADE)).withColumn("cost_cents", F.col("quantity") * F.col("price_cents"))


def _quotes_of(batch: DataFrame) -> DataFrame:
    return batch.where(~F.col(_IS_TRADE)).withColumn("spread_cents", F.col("ask_cents") - F.col("bid_cents"))


_POSITION = merged.columns(
    quantity=merged.sum("quantity"), cost_cents=merged.sum("cost_cents"), trades=merged.count()
)
_PRICE = merged.columns(
    bid_cents=merged.last("bid_cents", by="event_time"),
    ask_cents=merged.last("ask_cents", by="event_time"),
    quoted_at=merged.max("event_time"),
    quotes=merged.count(),
    lowest_bid_cents=merged.min("bid_cents"),
    highest_ask_cents=merged.max("ask_cents"),
    spread_cents=merged.avg("spread_cents"),
)

_MONEY = "CAST(sum({}) AS DOUBLE) / 2"
"""Twice the middle of bid and ask is a whole number of cents."""
_NET = _MONEY.format("quantity * (bid_cents + ask_cents)")
_GROSS = _MONEY.format("abs(quantity * (bid_cents + ask_cents))")

PIPELINE = Pipeline(
    name="risk",
    summary="Real-time risk: positions, live prices, bid/ask statistics, exposure per portfolio.",
    topics=[
        Topic(
            "account_trades",
            "account_id bigint, asset string, quantity bigint, price_cents bigint, event_time timestamp",
            key="account_id",
            make=_trades,
            share=0.5,
        ),
        Topic(
            "quotes",
            "asset string, bid_cents bigint, ask_cents bigint, event_time timestamp",
            key="asset",
            make=_quotes,
            share=0.5,
        ),
    ],
    references=[Reference(StoreOutput("accounts", key=["account_id"], is_global=True), make_accounts)],
    frame=lambda streams, _: _both(streams["account_trades"], streams["quotes"]),
    stores=[
        StoreOutput(
            "positions",
            key=["account_id", "asset"],
            partition_by=["account_id"],
            query=_trades_of,
            kind=_POSITION,
        ),
        StoreOutput("prices", key=["asset"], query=_quotes_of, kind=_PRICE, partitions=2),
    ],
    questions=[
        Question(
            "One account's positions at live prices",
            """SELECT asset, quantity, quantity * (bid_cents + ask_cents) / 2 AS value_cents,
                   quantity * (bid_cents + ask_cents) / 2 - cost_cents AS gain_cents
               FROM positions JOIN prices USING (asset) WHERE account_id = 42 ORDER BY asset""",
        ),
        Question(
            "Exposure per portfolio",
            f"""SELECT portfolio, {_GROSS} AS gross_cents, {_NET} AS net_cents
                FROM positions JOIN prices USING (asset) JOIN accounts USING (account_id) GROUP BY portfolio ORDER BY portfolio""",
        ),
        Question(
            "Bid and ask of one asset",
            (
                "SELECT bid_cents, ask_cents, quoted_at, quotes, lowest_bid_cents, highest_ask_cents, "
                "spread_cents FROM prices WHERE asset = 'AKX'"
            ),
        ),
        Question(
            "The assets with the largest exposure",
            f"""SELECT asset, {_GROSS} AS gross_cents, count(*) AS holders FROM positions JOIN prices USING (asset)
                GROUP BY asset ORDER BY gross_cents DESC, asset LIMIT 5""",
        ),
    ],
)
