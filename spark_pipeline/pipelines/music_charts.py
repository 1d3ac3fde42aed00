"""The music charts of Kafka Streams' Interactive Queries example: plays per song, the top five of each genre
and of all.

    plays (song_id, user_id, duration_seconds, event_time)      songs (song_id, title, artist, genre)
        │                                                          │
        ▼                                                          ├──► global store songs
    plays of 30 s or more, with their genre  ◄─────────────────────┘
        │  each play a partial row of both stores, which count
        ▼
    store song_plays (song_id: plays, last_played) and store genre_plays (genre: plays, last_played), one
    commit

Both stores change in the same epoch, so whoever reads them together finds that the plays of all songs and the
plays of all genres add up to the same number, always. Spark keeps no counts and shuffles nothing: a play is a
partial row, which the stores fold into what they have.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  the name that PySpark's own documentation gives it

from spark_pipeline import StoreOutput, merged
from spark_pipeline.pipelines.draws import Draws
from spark_pipeline.pipelines.pipeline import Pipeline, Question, Reference, Topic
from spark_pipeline.pipelines.songs import SONGS, make_songs
from spark_pipeline.pipelines.text_lookup import text_lookup

SHORTEST_PLAY_SECONDS = 30
USERS = 100_000
EVENTS_PER_SECOND = 50.0
LONGEST_PLAY_SECONDS = 360
EXPONENT = 0.9
"""Of Zipf's law. Over 10,000 songs the first gets about 6 % of all plays, the first hundred 40 %."""
HIT_PLAYS = 32_768
HIT_SHARE = 0.02
"""Of so many plays in a row one song is the hit, with this share of them, so that the charts move."""


def _plays(draws: Draws) -> Mapping[str, Any]:
    # Songs of low numbers are played most.
    songs = draws.zipf("song", SONGS, EXPONENT)
    hits = (draws.numbers // HIT_PLAYS + 1) * 7919 % SONGS
    return {
        "song_id": np.where(draws.uniform("hit") < HIT_SHARE, hits, songs) + 1,
        "user_id": draws.integers("user", USERS) + 1,
        "duration_seconds": (draws.integers("duration", LONGEST_PLAY_SECONDS) + 1).astype(np.int32),
        "event_time": draws.times(EVENTS_PER_SECOND),
    }


def counted_plays(plays: DataFrame, songs: DataFrame) -> DataFrame:
    """The plays that count for the charts, with the genre of their song.

    Args:
        plays: Play events.
        songs: The catalogue; plays of songs that it lacks do not count.

    Returns:
        `song_id`, `genre`, `event_time`, a row for each play of 30 seconds or more.
    """
    long_enough = plays.where(F.col("duration_seconds") >= SHORTEST_PLAY_SECONDS)
    catalogue = songs.select("song_id", "genre")
    table = catalogue.toArrow()
    genre = text_lookup(F.col("song_id"), table["song_id"], table["genre"])
    charted = (
        long_enough.join(F.broadcast(catalogue), "song_id")
        if genre is None
        else long_enough.withColumn("genre", genre).where("genre IS NOT NULL")
    )
    return charted.select("song_id", "genre", "event_time")


_CHART = merged.columns(plays=merged.count(), last_played=merged.max("event_time"))

PIPELINE = Pipeline(
    name="music_charts",
    summary="Music charts: plays per song, the top five of each genre and of all.",
    topics=[
        Topic(
            "plays",
            "song_id bigint, user_id bigint, duration_seconds int, event_time timestamp",
            key="song_id",
            make=_plays,
        )
    ],
    references=[Reference(StoreOutput("songs", key=["song_id"], is_global=True), make_songs)],
    frame=lambda streams, tables: counted_plays(streams["plays"], tables["songs"]),
    stores=[
        StoreOutput("song_plays", key=["song_id"], kind=_CHART, aggregate_first=False),
        StoreOutput("genre_plays", key=["genre"], kind=_CHART, partitions=1, aggregate_first=False),
    ],
    questions=[
        Question(
            "The top five of all songs",
            (
                "SELECT s.title, s.artist, p.plays FROM song_plays AS p JOIN songs AS s USING (song_id) "
                "ORDER BY p.plays DESC, p.song_id LIMIT 5"
            ),
        ),
        Question(
            "The top five of each genre",
            """SELECT s.genre, s.title, s.artist, p.plays FROM song_plays AS p JOIN songs AS s USING (song_id)
               QUALIFY row_number() OVER (PARTITION BY s.genre ORDER BY p.plays DESC, p.song_id) <= 5
               ORDER BY s.genre, p.plays DESC, p.song_id""",
        ),
        Question("The plays of one song", "SELECT plays, last_played FROM song_plays WHERE song_id = 7"),
        Question(
            "The plays of each genre", "SELECT genre, plays FROM genre_plays ORDER BY plays DESC, genre"
        ),
    ],
)
