"""What the demo asks and measures, by SQL over Flight alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from engine.errors import LivestateError
from flight_server.client.client import Client

TOP_FIVE = """
SELECT s.genre, s.title, s.artist, p.plays
FROM song_plays AS p JOIN songs AS s USING (song_id)
QUALIFY row_number() OVER (PARTITION BY s.genre ORDER BY p.plays DESC, p.song_id) <= 5
ORDER BY s.genre, p.plays DESC, p.song_id"""
PROGRESS = """
SELECT CAST((SELECT sum(plays) FROM song_plays) AS BIGINT) AS of_songs, CAST(sum(plays) AS BIGINT) AS of_genres, max(last_played) AS newest
FROM genre_plays"""
LOOKUP = "SELECT plays FROM song_plays WHERE song_id = {song_id}"


@dataclass(frozen=True)
class ChartRow:
    """One line of the charts: a song and its plays."""

    genre: str
    title: str
    artist: str
    plays: int


@dataclass(frozen=True)
class Observation:
    """What one look at the stores shows.

    Attributes:
        plays: Plays that are counted and visible.
        whole: The plays of all songs and those of all genres add up to the same: both stores were read at one
            epoch.
        freshness: Age of the newest play that is visible, seconds: from the moment the generator made the
            event to this answer.
        epoch: Epoch of the charts that was read.
    """

    plays: int
    whole: bool
    freshness: float
    epoch: int


@dataclass(frozen=True)
class Percentiles:
    """The middle and the far end of some measurements, in their unit."""

    p50: float
    p99: float

    @staticmethod
    def from_samples(samples: Sequence[float]) -> Percentiles | None:
        """Of at least one measurement; None of none."""
        return Percentiles(*np.percentile(samples, [50, 99]).tolist()) if samples else None


@dataclass
class Measurements:
    """What was measured so far, in seconds; looks that were taken while everything warmed up are left out.

    Attributes:
        freshness: Age of the newest visible play, at each look.
        chart_query: Time of each top-five query, rows included.
        lookup: Time of each lookup of one song's plays.
        looks: How many looks were taken, warm-up included.
        torn: How many of them saw two stores at different epochs. Always 0.
    """

    freshness: list[float] = field(default_factory=list)
    chart_query: list[float] = field(default_factory=list)
    lookup: list[float] = field(default_factory=list)
    looks: int = 0
    torn: int = 0


class Observer:
    """Looks at the stores the way any client can.

    Args:
        client: Connection to the host.
        now: Gives the time, seconds since 1970 UTC; the generator's clock.
    """

    def __init__(self, client: Client, now: Callable[[], float] = time.time) -> None:
        self._client = client
        self._now = now

    def songs(self) -> pa.Table:
        """The catalogue: `song_id`, counting from 1, and `genre`.

        Raises:
            LivestateError: There is no answer.
        """
        return self._client.query("SELECT song_id, genre FROM songs ORDER BY song_id").read_all()

    def look(self) -> Observation | None:
        """See how far the counts are; None before the first play.

        Raises:
            LivestateError: There is no answer.
        """
        rows = self._client.query(PROGRESS)
        (row,) = rows.read_all().to_pylist()
        if row["newest"] is None:
            return None
        freshness = self._now() - row["newest"].timestamp()
        return Observation(
            row["of_genres"],
            row["of_songs"] == row["of_genres"],
            freshness,
            int(max(rows.metadata["epochs"].values())),
        )

    def charts(self) -> tuple[list[ChartRow], float]:
        """The top five songs of every genre, and the seconds that the query took.

        Raises:
            LivestateError: There is no answer.
        """
        started = time.perf_counter()
        table = self._client.query(TOP_FIVE).read_all()
        seconds = time.perf_counter() - started
        return [ChartRow(**row) for row in table.to_pylist()], seconds

    def lookup(self, song_id: int) -> float:
        """Look up one song's plays; gives the seconds that it took.

        Raises:
            LivestateError: There is no answer.
        """
        started = time.perf_counter()
        self._client.query(LOOKUP.format(song_id=int(song_id))).read_all()
        return time.perf_counter() - started

    def counts(self) -> tuple[dict[int, int], dict[str, int]]:
        """All plays by song id, and all plays by genre.

        Raises:
            LivestateError: There is no answer.
        """
        songs = self._client.query("SELECT song_id, plays FROM song_plays").read_all()
        genres = self._client.query("SELECT genre, plays FROM genre_plays").read_all()
        return (
            dict(zip(songs[0].to_pylist(), songs[1].to_pylist(), strict=True)),
            dict(zip(genres[0].to_pylist(), genres[1].to_pylist(), strict=True)),
        )


def answers(ask: Callable[[], object]) -> bool:
    """Whether a question to the host has an answer that is not empty, or 0, yet."""
    try:
        return bool(ask())
    except LivestateError:
        return False
