"""Joins that look keys up: the engine's answers, without the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import pyarrow as pa
import pytest

from engine.model.schema import define_store
from engine.service import QueryOptions, QueryService
from tests.support.memory_source import MemorySource, memory_view

PLAYS = define_store(
    "plays",
    pa.schema(
        [("song", pa.int64()), ("genre", pa.int32()), ("artist", pa.string()), ("n", pa.int64())],
    ),
    ["song"],
    partitions=4,
)
GENRES = define_store("genres", pa.schema([("genre", pa.int32()), ("name", pa.string())]), ["genre"])
ARTISTS = define_store(
    "artists", pa.schema([("id", pa.string()), ("country", pa.string()), ("genre", pa.int64())]), ["id"]
)
COUNTRIES = define_store("countries", pa.schema([("id", pa.string()), ("country", pa.string())]), ["id"])
PLAYS_ROWS = pa.table(
    {
        "song": list(range(30)),
        "genre": [None if song % 7 == 3 else song % 6 for song in range(30)],
        "artist": [None if song % 5 == 4 else f"ä{song % 4}" for song in range(30)],
        "n": [song * 3 % 11 for song in range(30)],
    },
    PLAYS.schema,
)
# Some genres and artists are nobody's, and some have no row.
GENRES_ROWS = pa.table(
    {"genre": [0, 1, 2, 4, 9], "name": ["rock", None, "jazz", "rock", "pop"]}, GENRES.schema
)
ARTISTS_ROWS = pa.table(
    {"id": ["ä0", "ä1", "ä3", ""], "country": ["AT", "AT", None, "FR"], "genre": [0, 1, 2, 3]}, ARTISTS.schema
)
COUNTRIES_ROWS = ARTISTS_ROWS.select(["id", "country"])
DEAD = pa.table({"genre": [5, 2], "name": ["dead", "old"]}, GENRES.schema)
BY_GENRE = "FROM plays p JOIN genres g ON p.genre = g.genre WHERE"
BY_ARTIST = "FROM plays p JOIN artists a ON a.id = p.artist WHERE"


@pytest.fixture(scope="module")
def service() -> Iterator[QueryService]:
    views = [
        memory_view(PLAYS, PLAYS_ROWS),
        memory_view(GENRES, GENRES_ROWS, DEAD),
        memory_view(ARTISTS, ARTISTS_ROWS),
        memory_view(COUNTRIES, COUNTRIES_ROWS),
    ]
    found = QueryService(
        MemorySource(views), QueryOptions(memory_limit_bytes=200 << 20, threads=1, answer_bytes=0)
    )
    yield found
    found.close()


@pytest.fixture(scope="module")
def own() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        for name, table in (
            ("plays", PLAYS_ROWS),
            ("genres", GENRES_ROWS),
            ("artists", ARTISTS_ROWS),
            ("countries", COUNTRIES_ROWS),
        ):
            connection.register(name, table)
        yield connection


def _asked(sql: str, songs: Sequence[int]) -> str:
    return sql.replace("SONGS", ", ".join(map(str, songs))).replace("SONG", str(songs[0]))


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT p.*, g.name {BY_GENRE} p.song = SONG",
        f"SELECT p.*, g.name {BY_GENRE} p.song IN (SONGS)",
        f"SELECT name, song {BY_GENRE} song IN (SONGS)",
        f"SELECT g.*, p.n AS plays_n {BY_GENRE} p.song IN (SONGS) AND p.n > 2",
        f"SELECT * {BY_ARTIST.replace('artists', 'countries')} p.song IN (SONGS)",
        f"SELECT P.Song, G.NAME {BY_GENRE} P.soNG = SONG",
        f"SELECT p.song, p.song AS again, g.genre {BY_GENRE} p.song IN (SONGS) AND p.artist IS NOT NULL",
        f"SELECT song, country {BY_ARTIST} song IN (SONGS)",
        f"SELECT a.* {BY_ARTIST} song IN (SONGS) AND (n < 3 OR n = 5)",
        "SELECT p.song, g.name FROM genres g INNER JOIN plays p ON g.genre = p.genre WHERE p.song IN (SONGS)",
        "SELECT * FROM countries a JOIN plays p ON p.artist = a.id WHERE p.song IN (SONGS)",
    ],
)
def test_joins_without_the_engine(service: QueryService, own: duckdb.DuckDBPyConnection, sql: str) -> None:
    for songs in ([0], [3], [5], [9, 29, 12, 1], [100], list(range(-2, 40))):
        text = _asked(sql, songs)
        with service.execute(text) as result:
            found = result.read_all()
        assert result.metadata.plan == "rows", text
        expected = own.sql(text).to_arrow_table()
        # The engine's schema, with its names for columns of one name.
        assert found.schema.types == expected.schema.types
        assert found.schema.names == expected.schema.names
        rows = [tuple(row) for row in zip(*(column.to_pylist() for column in found.columns), strict=True)]
        wanted = [
            tuple(row) for row in zip(*(column.to_pylist() for column in expected.columns), strict=True)
        ]
        assert sorted(rows, key=str) == sorted(wanted, key=str), text


@pytest.mark.parametrize(
    "sql",
    [
        # Conditions on both stores, or on none by its key.
        f"SELECT p.song {BY_GENRE} p.song = 1 AND g.name = 'rock'",
        f"SELECT p.song {BY_GENRE} p.n = 3",
        f"SELECT p.song {BY_GENRE} p.song > 3",
        # Types that differ, keys of more meaning, other joins.
        "SELECT p.song FROM plays p JOIN artists a ON p.genre = a.genre WHERE p.song = 1",
        "SELECT p.song FROM plays p LEFT JOIN genres g ON p.genre = g.genre WHERE p.song = 1",
        "SELECT p.song FROM plays p JOIN genres g ON p.genre = g.genre + 0 WHERE p.song = 1",
        "SELECT p.song FROM plays p JOIN genres g ON p.genre = g.genre AND g.name = 'x' WHERE p.song = 1",
        "SELECT p.song FROM plays p JOIN artists a ON p.artist = a.id COLLATE NOCASE WHERE p.song = 1",
        "SELECT song FROM plays JOIN genres USING (genre) WHERE song = 1",
        "SELECT p.song FROM plays p SEMI JOIN genres g ON p.genre = g.genre WHERE p.song = 1",
        # What is more than columns, and names that may mean more than one thing.
        f"SELECT p.song + 1 AS s {BY_GENRE} p.song = 1",
        f"SELECT DISTINCT p.song {BY_GENRE} p.song = 1",
        f"SELECT p.song {BY_GENRE} p.song = 1 ORDER BY 1",
        f"SELECT p.song {BY_GENRE} p.song = 1 LIMIT 1",
        f"SELECT count(*) AS n {BY_GENRE} p.song = 1",
        f"SELECT p.n AS song {BY_GENRE} song = 1",
        f"SELECT * EXCLUDE (name) {BY_GENRE} p.song = 1",
        f"SELECT p {BY_GENRE} p.song = 1",
        f"SELECT * {BY_GENRE} p.song = 1",
        f"SELECT p.genre, g.genre {BY_GENRE} p.song = 1",
        "SELECT n.song FROM plays n JOIN genres g ON n.genre = g.genre WHERE n.song = 1",
    ],
)
def test_other_joins_are_left_to_the_engine(
    service: QueryService, own: duckdb.DuckDBPyConnection, sql: str
) -> None:
    with service.execute(sql) as result:
        found = result.read_all()
    assert result.metadata.plan == "engine"
    expected = own.sql(sql).to_arrow_table()
    assert found.to_pylist() == expected.to_pylist()


def test_explain_names_the_plan(service: QueryService) -> None:
    for sql, plan in (
        (f"SELECT g.name {BY_GENRE} p.song = 1", "rows"),
        (f"SELECT g.name {BY_GENRE} n = 1", "engine"),
    ):
        with service.execute(f"EXPLAIN {sql}") as result:
            (line, *_) = result.read_all().column(0).to_pylist()[0].splitlines()
        assert plan in line
