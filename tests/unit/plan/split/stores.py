"""The stores of these tests, on three hosts, and the check that a split statement answers like
the whole one.
"""

from __future__ import annotations

import pyarrow as pa

from engine.model.schema import StoreDefinition, StoreName, define_store
from engine.plan.split.explain_split import explain_split
from engine.plan.split.sizes import Sizes, StoreSize
from tests.support.oracle import plain_rows
from tests.support.split_runner import SplitRunner
from tests.support.splitting import split_or_gather

HOSTS = 3
_FEW_ROWS, _SOME_ROWS, _MANY_ROWS = (
    StoreSize(1000, 20_000),
    StoreSize(1_000_000, 50_000_000),
    StoreSize(100_000_000, 5_000_000_000),
)
SMALL = frozenset({StoreName("genres"), StoreName("countries"), StoreName("continents")})

SONGS = define_store(
    "songs",
    pa.schema(
        [
            ("song", pa.int64()),
            ("genre", pa.int64()),
            ("title", pa.string()),
            ("seconds", pa.int64()),
            ("tags", pa.list_(pa.string())),
            ("label", pa.struct([("name", pa.string()), ("year", pa.int64())])),
        ]
    ),
    ["song"],
    partitions=8,
)
PLAYS = define_store(
    "plays",
    pa.schema(
        [("song", pa.int64()), ("listener", pa.int64()), ("times", pa.int64()), ("country", pa.string())]
    ),
    ["song", "listener"],
    partition_by=["song"],
    partitions=8,
)
LISTENERS = define_store(
    "listeners",
    pa.schema([("listener", pa.int64()), ("name", pa.string()), ("age", pa.int64())]),
    ["listener"],
    partitions=8,
)
CHARTS = define_store(
    "charts", pa.schema([("song", pa.int64()), ("rank", pa.int64())]), ["song"], partitions=4
)
SHORT_SONGS = define_store(
    "short_songs", pa.schema([("song", pa.int32()), ("seconds", pa.int64())]), ["song"], partitions=8
)
TRACKS = define_store(
    "tracks",
    pa.schema([("album", pa.int64()), ("number", pa.int64()), ("song", pa.int64())]),
    ["album", "number"],
    partitions=8,
)
SLEEVES = define_store(
    "sleeves",
    pa.schema([("album", pa.int64()), ("page", pa.int64()), ("text", pa.string())]),
    ["album", "page"],
    partitions=8,
)
GENRES = define_store(
    "genres", pa.schema([("genre", pa.int64()), ("name", pa.string())]), ["genre"], partitions=2
)
COUNTRIES = define_store(
    "countries", pa.schema([("country", pa.string()), ("continent", pa.string())]), ["country"], partitions=1
)
CONTINENTS = define_store(
    "continents", pa.schema([("continent", pa.string()), ("half", pa.string())]), ["continent"], partitions=1
)
EMPTY = define_store(
    "empty", pa.schema([("song", pa.int64()), ("note", pa.string())]), ["song"], partitions=8
)


def stores() -> dict[StoreName, tuple[StoreDefinition, pa.Table]]:
    """Rows of every store: keys that match and keys that do not, NULLs, duplicates of what is no key, and
    hosts without rows.
    """
    songs: list[tuple[object, ...]] = [
        (
            song,
            song % 4 if song % 5 else None,
            f"t{song % 7}",
            song * 13 % 11 if song % 6 else None,
            [f"g{song % 2}", "x"],
            {"name": "l", "year": song % 3},
        )
        for song in range(40)
    ]
    plays: list[tuple[object, ...]] = [
        (song * 3 % 50, listener, (song + listener) % 6 or None, "AT" if listener % 2 else None)
        for song in range(30)
        for listener in range(3)
    ]
    rows: list[tuple[StoreDefinition, list[tuple[object, ...]]]] = [
        (SONGS, songs),
        (PLAYS, plays),
        (
            LISTENERS,
            [(listener, f"n{listener}", listener * 7 if listener else None) for listener in range(5)],
        ),
        (CHARTS, [(song * 2, song % 4) for song in range(20)]),
        (SHORT_SONGS, [(song, song % 3) for song in range(10, 60)]),
        (
            TRACKS,
            [
                (album, number, (album * 5 + number) % 40 if number else None)
                for album in range(6)
                for number in range(4)
            ],
        ),
        (SLEEVES, [(album, page, f"p{page}") for album in range(3, 9) for page in range(3)]),
        (GENRES, [(genre, f"genre {genre}") for genre in range(3)]),
        (COUNTRIES, [("AT", "Europe"), ("BR", "America")]),
        (CONTINENTS, [("Europe", "north"), ("Asia", "north"), ("Africa", None)]),
        (EMPTY, []),
    ]
    return {definition.name: (definition, _table(found, definition)) for definition, found in rows}


def _table(rows: list[tuple[object, ...]], definition: StoreDefinition) -> pa.Table:
    columns = [
        pa.array([row[place] for row in rows], field.type) for place, field in enumerate(definition.schema)
    ]
    return pa.table(columns, definition.schema)


def sizes_of(small: frozenset[StoreName]) -> Sizes:
    """Sizes that make some stores small, however many rows they have; the others are big, but for listeners,
    of whom conditions leave few enough.
    """
    return Sizes(
        tuple(
            (name, _FEW_ROWS if name in small else _SOME_ROWS if name == LISTENERS.name else _MANY_ROWS)
            for name in sorted(stores())
        )
    )


def check(
    runner: SplitRunner, sql: str, small: frozenset[StoreName] = SMALL, parameters: tuple[object, ...] = ()
) -> tuple[str, ...]:
    """A split statement answers like the whole one: same rows, same types, and the same order where it has
    one.

    Returns:
        The rules.
    """
    bound = runner.bind(sql)
    sizes = sizes_of(small)
    plan = split_or_gather(bound, sizes)
    whole, found = runner.run_whole(bound, parameters), runner.run(plan, bound, parameters)
    ordered = "order by" in sql.lower().rsplit(")", 1)[-1]
    expected, answer = (
        plain_rows(table) if ordered else sorted(plain_rows(table), key=repr) for table in (whole, found)
    )
    text = "\n".join(explain_split(plan))
    assert answer == expected, text
    assert found.schema.types == whole.schema.types, text
    assert explain_split(split_or_gather(runner.bind(sql), sizes)) == explain_split(plan)
    return plan.rules
