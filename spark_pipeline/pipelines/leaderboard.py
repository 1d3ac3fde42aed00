"""A leaderboard, as the guide to Kafka Streams' state stores builds one: score, rank, top N, and who is
around me.

    scores (player_id, game, points, event_time)                       players (player_id, name, country)
        │                                                                 │
        ▼                                                                 ▼
    store game_scores (game, player_id: score, best, games), by game   global store players (player_id: name, country)

All players of a game are on one partition: its ranks are computed where they are, from one slice of sorted
rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws, words
from spark_pipeline.pipelines.names import FIRST_NAMES
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Reference, Topic

PLAYERS = 1_000
GAMES = ("Asteroids", "Breakout", "Centipede", "Defender", "Frogger", "Galaga")
COUNTRIES = ("Brazil", "Canada", "France", "India", "Japan", "Kenya", "Norway", "Poland")
EVENTS_PER_SECOND = 30.0
_NAMES = FIRST_NAMES[:14]


def _scores(draws: Draws) -> Mapping[str, Any]:
    return {
        "player_id": draws.integers("player", PLAYERS),
        "game": words(draws.integers("game", len(GAMES)), GAMES),
        "points": (draws.uniform("points") ** 3 * 1_000).astype(np.int64),
        "event_time": draws.times(EVENTS_PER_SECOND),
    }


def make_players(seed: int) -> pa.Table:
    """The players: `player_id` (int64, from 0), `name`, `country`."""
    numbers = np.arange(PLAYERS, dtype=np.int64)
    draws = Draws(numbers, seed)
    names = [
        f"{name} {number}"
        for number, name in enumerate(words(draws.integers("name", len(_NAMES)), _NAMES).to_pylist())
    ]
    return pa.table(
        {
            "player_id": numbers,
            "name": names,
            "country": words(draws.integers("country", len(COUNTRIES)), COUNTRIES),
        }
    )


_RANKED = """ranked AS (
    SELECT player_id, score, rank() OVER (ORDER BY score DESC) AS place, row_number() OVER (ORDER BY score DESC, player_id) AS line
    FROM game_scores WHERE game = 'Galaga')"""

PIPELINE = Pipeline(
    name="leaderboard",
    summary="Leaderboard: score, rank, the top ten, and who is around me.",
    topics=[
        Topic(
            "scores",
            "player_id bigint, game string, points bigint, event_time timestamp",
            key="player_id",
            make=_scores,
        )
    ],
    references=[Reference(StoreOutput("players", key=["player_id"], is_global=True), make_players)],
    frame=lambda streams, _: streams["scores"],
    stores=[
        StoreOutput(
            "game_scores",
            key=["game", "player_id"],
            partition_by=["game"],
            kind=merged.columns(score=merged.sum("points"), best=merged.max("points"), games=merged.count()),
        )
    ],
    questions=[
        Question(
            "My score", "SELECT score, best, games FROM game_scores WHERE game = 'Galaga' AND player_id = 77"
        ),
        Question("My rank", f"WITH {_RANKED} SELECT place, score FROM ranked WHERE player_id = 77"),
        Question(
            "The top ten",
            (
                f"WITH {_RANKED} SELECT place, name, country, score FROM ranked JOIN players USING "
                "(player_id) ORDER BY line LIMIT 10"
            ),
        ),
        Question(
            "Around me",
            f"""WITH {_RANKED}, me AS (SELECT line FROM ranked WHERE player_id = 77)
                SELECT place, name, score FROM ranked JOIN players USING (player_id), me
                WHERE ranked.line BETWEEN me.line - 2 AND me.line + 2 ORDER BY ranked.line""",
        ),
        Question(
            "The best player of each game",
            "SELECT game, max(score) AS score FROM game_scores GROUP BY game ORDER BY game",
        ),
    ],
)
