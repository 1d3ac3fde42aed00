"""The songs of the music charts: made from word lists, the same for the same seed."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_pipeline.pipelines.names import FIRST_NAMES, LAST_NAMES

SONGS = 10_000
GENRES = (
    "Blues",
    "Classical",
    "Country",
    "Electronic",
    "Folk",
    "Hip Hop",
    "Jazz",
    "Metal",
    "Pop",
    "Punk",
    "Reggae",
    "Rock",
)
_ADJECTIVES = (
    *(
        "Amber",
        "Bitter",
        "Borrowed",
        "Broken",
        "Burning",
        "Crystal",
        "Distant",
        "Electric",
        "Empty",
        "Endless",
        "Faded",
        "Fearless",
        "Gentle",
    ),
    *(
        "Golden",
        "Hidden",
        "Hollow",
        "Honest",
        "Lonely",
        "Lost",
        "Lucky",
        "Midnight",
        "Neon",
        "Paper",
        "Quiet",
        "Reckless",
        "Restless",
        "Scarlet",
    ),
    *(
        "Secret",
        "Silver",
        "Sleepless",
        "Slow",
        "Stolen",
        "Sudden",
        "Sweet",
        "Velvet",
        "Wandering",
        "Wild",
        "Winter",
        "Wooden",
        "Young",
    ),
)
_NOUNS = (
    *(
        "Avenue",
        "Backroad",
        "Balcony",
        "Carnival",
        "Cathedral",
        "Circus",
        "City",
        "Coastline",
        "Daylight",
        "Desert",
        "Diamond",
        "Engine",
        "Fever",
    ),
    *(
        "Fire",
        "Garden",
        "Harbour",
        "Heart",
        "Highway",
        "Horizon",
        "Island",
        "Kitchen",
        "Letter",
        "Lighthouse",
        "Machine",
        "Mirror",
        "Mountain",
    ),
    *(
        "Morning",
        "Ocean",
        "Parade",
        "Radio",
        "Rain",
        "River",
        "Satellite",
        "Season",
        "Shadow",
        "Skyline",
        "Station",
        "Summer",
        "Thunder",
        "Window",
    ),
)
_ENDINGS = ("", "", "", " Again", " Blues", " Forever", " in June", " No. 2", " Tonight", " (Live)")


def make_songs(seed: int = 1, count: int = SONGS) -> pa.Table:
    """A catalogue of songs.

    Args:
        seed: Equal seeds give equal songs.
        count: How many songs.

    Returns:
        `song_id` (int64, from 1), `title`, `artist`, `genre` (strings).
    """
    random = np.random.default_rng(seed)
    artists = [f"{first} {last}" for first in FIRST_NAMES for last in LAST_NAMES] + [
        f"The {a} {n}s" for a in _ADJECTIVES for n in _NOUNS[::8]
    ]
    chosen = random.integers(0, len(artists), count)
    return pa.table(
        {
            "song_id": np.arange(1, count + 1, dtype=np.int64),
            "title": _draw_texts(random, count, _ADJECTIVES, _NOUNS, _ENDINGS),
            "artist": np.asarray(artists)[chosen],
            # An artist stays with one genre.
            "genre": np.asarray(GENRES)[chosen % len(GENRES)],
        }
    )


def _draw_texts(
    random: np.random.Generator,
    count: int,
    first: tuple[str, ...],
    second: tuple[str, ...],
    endings: tuple[str, ...],
) -> npt.NDArray[np.str_]:
    """Texts of one word of each list; the last list brings its own spaces."""

    def draw(words: tuple[str, ...]) -> npt.NDArray[np.str_]:
        return np.asarray(words)[random.integers(0, len(words), count)]

    return np.strings.add(np.strings.add(np.strings.add(draw(first), " "), draw(second)), draw(endings))
