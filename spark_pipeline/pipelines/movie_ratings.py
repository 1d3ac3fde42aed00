"""Running averages of movie ratings, joined to titles: from the talk on state in Kafka Streams.

    ratings (user_id, movie_id, rating, event_time)      movies (movie_id, title, year)
        │                                                   │
        ▼                                                   ▼
    store movie_ratings (movie_id: ratings, rating)     global store movies (movie_id: title, year)
        └──────────────────────────┬──────────────────────────┘
                    joined when asked: a new title shows at once

The store keeps the sum and the count of a movie's ratings, and shows their average.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws, words
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Reference, Topic

MOVIES = 500
USERS = 20_000
EVENTS_PER_SECOND = 20.0
_WORDS = (
    "Autumn",
    "Bridge",
    "Captain",
    "Desert",
    "Express",
    "Falcon",
    "Garden",
    "Horizon",
    "Island",
    "Journey",
    "Kingdom",
    "Lantern",
)


def _ratings(draws: Draws) -> Mapping[str, Any]:
    movies = draws.skewed_integers("movie", MOVIES)
    # Half stars, more of them for some movies.
    stars = np.clip(draws.integers("stars", 8) + movies % 4, 1, 10) / 2.0
    return {
        "user_id": draws.integers("user", USERS),
        "movie_id": movies + 1,
        "rating": stars,
        "event_time": draws.times(EVENTS_PER_SECOND),
    }


def make_movies(seed: int) -> pa.Table:
    """The movies: `movie_id` (int64, from 1), `title`, `year` (int32)."""
    numbers = np.arange(MOVIES, dtype=np.int64)
    draws = Draws(numbers, seed)
    first, second = (
        words(draws.integers(name, len(_WORDS)), _WORDS).to_pylist() for name in ("first word", "second word")
    )
    titles = [
        f"The {a} and the {b} {number + 1}" for number, (a, b) in enumerate(zip(first, second, strict=True))
    ]
    return pa.table(
        {
            "movie_id": numbers + 1,
            "title": titles,
            "year": (1950 + draws.integers("year", 75)).astype(np.int32),
        }
    )


PIPELINE = Pipeline(
    name="movie_ratings",
    summary="Movie ratings: the running average of each movie, joined to titles.",
    topics=[
        Topic(
            "ratings",
            "user_id bigint, movie_id bigint, rating double, event_time timestamp",
            key="movie_id",
            make=_ratings,
        )
    ],
    references=[Reference(StoreOutput("movies", key=["movie_id"], is_global=True), make_movies)],
    frame=lambda streams, _: streams["ratings"],
    stores=[
        StoreOutput(
            "movie_ratings",
            key=["movie_id"],
            kind=merged.columns(ratings=merged.count(), rating=merged.avg("rating")),
        )
    ],
    questions=[
        Question(
            "One movie",
            "SELECT title, ratings, rating FROM movie_ratings JOIN movies USING (movie_id) WHERE movie_id = 3",
        ),
        Question(
            "The best of those with fifty ratings",
            """SELECT title, year, ratings, rating FROM movie_ratings JOIN movies USING (movie_id)
               WHERE ratings >= 50 ORDER BY rating DESC, movie_id LIMIT 10""",
        ),
        Question(
            "The most rated of each decade",
            """SELECT year // 10 * 10 AS decade, title, ratings, rating FROM movie_ratings JOIN movies USING (movie_id)
               QUALIFY row_number() OVER (PARTITION BY year // 10 ORDER BY ratings DESC, movie_id) = 1 ORDER BY decade""",
        ),
    ],
)
