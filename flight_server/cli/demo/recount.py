"""A plain count of the generated events, independent of Spark and of livestate, to check the
stores against.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

TOPIC = "plays"
"""The events: files appear in a directory of this name, messages in a topic."""
SHORTEST_PLAY_SECONDS = 30
"""Plays that are shorter do not count for the charts."""
FILES_KEPT = 300
"""Files that stay after the job has counted them: it needs its last ones again when it restarts."""


class Recount(ABC):
    """Counts events as they appear, each once.

    Args:
        songs: The catalogue, `song_id` counting from 1.

    Attributes:
        events: How many there were so far.
    """

    def __init__(self, songs: pa.Table) -> None:
        self._genre = songs["genre"].to_numpy(zero_copy_only=False)
        self._plays = np.zeros(songs.num_rows + 1, np.int64)
        self._made: tuple[float, float] | None = None
        self.events = 0

    @abstractmethod
    def advance(self) -> None:
        """Count what has appeared since the last call."""

    @abstractmethod
    def drop(self, visible: int) -> None:
        """Delete what the job is done with, so that an endless demo does not fill the disk.

        Args:
            visible: Plays that the stores have counted. The job counts them in their order.
        """

    @property
    def seconds(self) -> float:
        """Time from the first event to the last."""
        return self._made[1] - self._made[0] if self._made is not None else 0.0

    @property
    def counted(self) -> int:
        """Plays of 30 seconds or more so far."""
        return int(self._plays.sum())

    def count(self, events: pa.Table) -> None:
        """Count some events.

        Args:
            events: `song_id`, `duration_seconds`, `event_time`; not empty.
        """
        long_enough = events["duration_seconds"].to_numpy() >= SHORTEST_PLAY_SECONDS
        self._plays += np.bincount(events["song_id"].to_numpy()[long_enough], minlength=len(self._plays))
        self.events += events.num_rows
        first, last = (moment.timestamp() for moment in pc.min_max(events["event_time"]).as_py().values())
        self._made = (
            (first, last) if self._made is None else (min(first, self._made[0]), max(last, self._made[1]))
        )

    def per_song(self) -> dict[int, int]:
        """Song id to its plays; songs without any are left out."""
        (played,) = np.nonzero(self._plays)
        return dict(zip(played.tolist(), self._plays[played].tolist(), strict=True))

    def per_genre(self) -> dict[str, int]:
        """Genre to its plays; genres without any are left out."""
        genres: npt.NDArray[np.str_]
        genres, places = np.unique(self._genre.astype(str), return_inverse=True)
        plays = np.bincount(places, weights=self._plays[1:].astype(np.float64)).astype(np.int64)
        return {str(genre): int(count) for genre, count in zip(genres, plays, strict=True) if count}


class FileRecount(Recount):
    """Counts the files of events.

    Args:
        directory: Where the generator writes files.
        songs: The catalogue, `song_id` counting from 1.
    """

    def __init__(self, directory: Path, songs: pa.Table) -> None:
        super().__init__(songs)
        self._directory = directory
        self._plays_up_to: dict[Path, int] = {}

    def advance(self) -> None:
        """Count the files that have appeared since the last call."""
        for file in sorted(self._directory.glob("*.parquet")):
            if file not in self._plays_up_to:
                self.count(pq.read_table(file, columns=["song_id", "duration_seconds", "event_time"]))
                self._plays_up_to[file] = self.counted

    def drop(self, visible: int) -> None:
        """Delete files; the job counts them in their order."""
        done = [file for file, plays in self._plays_up_to.items() if plays <= visible]
        for file in done[: max(0, len(done) - FILES_KEPT)]:
            file.unlink()
            del self._plays_up_to[file]
