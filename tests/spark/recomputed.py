"""The questions of each pipeline as plain SQL over every event, in the order of the questions: what the
stores have to answer.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from spark_pipeline.pipelines.pipeline import Pipeline
from tests.support.answers import hosts_of, plain_rows, rows_of

_PLAYS = "plays WHERE duration_seconds >= 30"

_POSITIONS = """(SELECT account_id, asset, sum(quantity) AS quantity, sum(quantity * price_cents) AS cost FROM account_trades GROUP BY ALL)"""
_PRICES = """(SELECT asset, (arg_max(bid_cents, event_time) + arg_max(ask_cents, event_time)) / 2 AS price FROM quotes GROUP BY asset)"""

_WINDOWS = """(
    SELECT symbol, window_start, window_start + INTERVAL 5 SECONDS AS window_end, count(*) AS trades, avg(price_cents) AS average_cents,
        min(price_cents) AS lowest_cents, max(price_cents) AS highest_cents
    FROM (SELECT *, time_bucket(INTERVAL 1 SECOND, event_time) - to_seconds(back) AS window_start FROM stock_trades, range(5) AS slides(back))
    GROUP BY symbol, window_start)"""

_MOVIES = (
    "(SELECT movie_id, title, year, count(*) AS ratings, avg(rating) AS rating FROM ratings JOIN "
    "movies USING (movie_id) GROUP BY ALL)"
)

_RANKED = """(
    SELECT player_id, sum(points) AS score, rank() OVER (ORDER BY sum(points) DESC) AS place,
        row_number() OVER (ORDER BY sum(points) DESC, player_id) AS line
    FROM scores WHERE game = 'Galaga' GROUP BY player_id)"""

_SESSIONS = """(
    SELECT user_id, min(event_time) AS session_start, max(event_time) AS session_end, count(*) AS events, arg_max(page, event_time) AS last_page
    FROM (
        SELECT *, sum(begins) OVER (PARTITION BY user_id ORDER BY event_time) AS number
        FROM (
            SELECT *, CAST(moment - lag(moment, 1, 0) OVER (PARTITION BY user_id ORDER BY moment) > 1800e6 AS INT) AS begins
            FROM (SELECT *, epoch_us(event_time) AS moment FROM activity)))
    GROUP BY user_id, number)"""

RECOMPUTED: dict[str, list[str]] = {
    "music_charts": [
        f"""SELECT title, artist, count(*) AS plays FROM (SELECT song_id FROM {_PLAYS}) JOIN songs USING (song_id)
            GROUP BY song_id, title, artist ORDER BY plays DESC, song_id LIMIT 5""",
        f"""SELECT genre, title, artist, plays FROM (
                SELECT song_id, genre, title, artist, count(*) AS plays,
                    row_number() OVER (PARTITION BY genre ORDER BY count(*) DESC, song_id) AS place
                FROM (SELECT song_id FROM {_PLAYS}) JOIN songs USING (song_id) GROUP BY song_id, genre, title, artist)
            WHERE place <= 5 ORDER BY genre, plays DESC, song_id""",
        f"SELECT count(*) AS plays, max(event_time) AS last_played FROM {_PLAYS} AND song_id = 7",
        (
            f"SELECT genre, count(*) AS plays FROM (SELECT song_id FROM {_PLAYS}) JOIN songs USING (song_id) "
            "GROUP BY genre ORDER BY plays DESC, genre"
        ),
    ],
    "event_counts": [
        """SELECT count(*) AS readings, CAST(sum(value) AS BIGINT) AS total, min(value) AS smallest, max(value) AS largest,
               max(event_time) AS last_seen
           FROM readings WHERE sensor_id = 42 GROUP BY sensor_id""",
        "SELECT count(*) AS readings, CAST(sum(value) AS BIGINT) AS total FROM readings",
        (
            "SELECT sensor_id, count(*) AS readings, max(event_time) AS last_seen FROM readings GROUP BY 1 "
            "ORDER BY 2 DESC, 1 LIMIT 5"
        ),
    ],
    "risk": [
        f"""SELECT asset, CAST(quantity AS BIGINT) AS quantity, CAST(quantity * price AS DOUBLE) AS value_cents,
                CAST(quantity * price - cost AS DOUBLE) AS gain_cents
            FROM {_POSITIONS} JOIN {_PRICES} USING (asset) WHERE account_id = 42 ORDER BY asset""",
        f"""SELECT portfolio, sum(abs(quantity * price)) AS gross_cents, sum(quantity * price) AS net_cents
            FROM {_POSITIONS} JOIN {_PRICES} USING (asset) JOIN accounts USING (account_id) GROUP BY portfolio ORDER BY portfolio""",
        """SELECT arg_max(bid_cents, event_time) AS bid_cents, arg_max(ask_cents, event_time) AS ask_cents, max(event_time) AS quoted_at,
               count(*) AS quotes,
               min(bid_cents) AS lowest_bid_cents, max(ask_cents) AS highest_ask_cents, avg(ask_cents - bid_cents) AS spread_cents
           FROM quotes WHERE asset = 'AKX'""",
        f"""SELECT asset, sum(abs(quantity * price)) AS gross_cents, count(*) AS holders FROM {_POSITIONS} JOIN {_PRICES} USING (asset)
            GROUP BY asset ORDER BY gross_cents DESC, asset LIMIT 5""",
    ],
    "stock_trades": [
        f"SELECT * EXCLUDE (symbol) FROM {_WINDOWS} WHERE symbol = 'ADG' ORDER BY window_start DESC LIMIT 5",
        f"""SELECT window_start, trades, average_cents FROM {_WINDOWS}
            WHERE symbol = 'BEH' AND epoch(window_start) - epoch(TIMESTAMPTZ '2026-01-01 00:00:00+00') BETWEEN 20 AND 29 ORDER BY window_start""",
        f"""SELECT symbol, trades, average_cents FROM {_WINDOWS}
            WHERE window_start = (SELECT time_bucket(INTERVAL 1 SECOND, max(event_time)) FROM stock_trades) - INTERVAL 5 SECONDS
            ORDER BY trades DESC, symbol LIMIT 5""",
    ],
    "movie_ratings": [
        f"SELECT title, ratings, rating FROM {_MOVIES} WHERE movie_id = 3",
        (
            f"SELECT title, year, ratings, rating FROM {_MOVIES} WHERE ratings >= 50 ORDER BY rating DESC, "
            "movie_id LIMIT 10"
        ),
        f"""SELECT decade, arg_min(title, place) AS title, arg_min(ratings, place) AS ratings, arg_min(rating, place) AS rating
            FROM (SELECT *, year // 10 * 10 AS decade, row_number() OVER (ORDER BY ratings DESC, movie_id) AS place FROM {_MOVIES})
            GROUP BY decade ORDER BY decade""",
    ],
    "leaderboard": [
        (
            "SELECT CAST(sum(points) AS BIGINT) AS score, max(points) AS best, count(*) AS games FROM scores "
            "WHERE game = 'Galaga' AND player_id = 77"
        ),
        f"SELECT place, CAST(score AS BIGINT) AS score FROM {_RANKED} WHERE player_id = 77",
        (
            f"SELECT place, name, country, CAST(score AS BIGINT) AS score FROM {_RANKED} JOIN players USING "
            "(player_id) WHERE line <= 10 ORDER BY line"
        ),
        f"""SELECT place, name, CAST(score AS BIGINT) AS score FROM {_RANKED} AS ranked JOIN players USING (player_id)
            WHERE abs(line - (SELECT line FROM {_RANKED} WHERE player_id = 77)) <= 2 ORDER BY line""",
        """SELECT game, CAST(max(score) AS BIGINT) AS score FROM (SELECT game, sum(points) AS score FROM scores GROUP BY game, player_id)
           GROUP BY game ORDER BY game""",
    ],
    "user_sessions": [
        f"SELECT * EXCLUDE (user_id) FROM {_SESSIONS} WHERE user_id = 42 ORDER BY session_start DESC LIMIT 10",
        f"""SELECT user_id, session_start, session_end AS last_activity, events FROM {_SESSIONS}
            WHERE epoch_us(session_end) > (SELECT max(epoch_us(event_time)) - 1800e6 FROM activity) ORDER BY user_id""",
        f"""SELECT session_start, session_end, events FROM {_SESSIONS}
            WHERE user_id = 68 AND TIMESTAMPTZ '2026-01-01 12:00:00+00' BETWEEN session_start AND session_end""",
        f"""SELECT user_id, session_start, events, date_diff('second', session_start, session_end) AS seconds FROM {_SESSIONS}
            ORDER BY events DESC, user_id, session_start LIMIT 5""",
    ],
}


def check_answers(pipeline: Pipeline, uri: str, events: dict[str, pa.Table], directory: Path) -> None:
    """Every host gives every answer as the recomputation does."""
    tables = events | {reference.output.store: reference.make(1) for reference in pipeline.references}
    with hosts_of(uri, directory) as cluster:
        for question, sql in zip(pipeline.questions, RECOMPUTED[pipeline.name], strict=True):
            expected = plain_rows(tables, sql)
            assert rows_of(cluster, question.sql) == expected, question.words
