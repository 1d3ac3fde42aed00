"""The stores of the SQL fixtures: their definitions, the epochs that make them, and what is live in the end.

Every value type is there, with NULLs, extremes and values that print alike. Rows come in several epochs:
upserts that supersede, tombstones, and keys that come back.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.model.kinds import Behaviour, Function, Merge, MergedColumn
from engine.model.schema import StoreDefinition, define_store
from tests.support.merged_rows import fold_rows, visible_row

REMOVED = "removed"
"""Column of an epoch's tables that marks tombstones."""

PLAYS = define_store(
    "plays",
    pa.schema(
        [
            ("song_id", pa.int64()),
            ("title", pa.string()),
            ("genre", pa.string()),
            ("plays", pa.int64()),
            ("seconds", pa.float64()),
            ("price", pa.decimal128(8, 2)),
            ("released", pa.date32()),
            ("last_played", pa.timestamp("us")),
            ("seen", pa.timestamp("us", "UTC")),
            ("explicit", pa.bool_()),
        ]
    ),
    ["song_id"],
    partitions=4,
    group="music",
)
ARTISTS = define_store(
    "artists",
    pa.schema(
        [
            ("country", pa.string()),
            ("name", pa.string()),
            ("founded", pa.int32()),
            ("members", pa.list_(pa.string())),
        ]
    ),
    ["country", "name"],
    partition_by=["country"],
    partitions=3,
    group="music",
)
SONG_ARTISTS = define_store(
    "song_artists",
    pa.schema(
        [
            ("song_id", pa.int64()),
            ("country", pa.string()),
            ("name", pa.string()),
            ("share", pa.decimal128(5, 4)),
        ]
    ),
    ["song_id", "country", "name"],
    partition_by=["song_id"],
    partitions=4,
    group="music",
)
MY_SONGS = define_store(
    "My Songs",
    pa.schema(
        [
            ("Song Id", pa.int64()),
            ('The "Best" Title', pa.string()),
            ("order", pa.int32()),
            ("select", pa.bool_()),
        ]
    ),
    ["Song Id"],
    partitions=2,
)
READINGS = define_store(
    "readings",
    pa.schema(
        [
            ("sensor", pa.string()),
            ("moment", pa.timestamp("us")),
            ("value", pa.float64()),
            ("small", pa.float32()),
            ("tags", pa.map_(pa.string(), pa.int64())),
            ("place", pa.struct([("x", pa.float64()), ("labels", pa.list_(pa.string()))])),
            ("raw", pa.binary()),
            ("t", pa.int8()),
            ("s", pa.int16()),
            ("ut", pa.uint8()),
            ("us", pa.uint16()),
            ("ui", pa.uint32()),
            ("ul", pa.uint64()),
        ]
    ),
    ["sensor", "moment"],
    partition_by=["sensor"],
    partitions=3,
)
DAYS = define_store(
    "days",
    pa.schema([("day", pa.date32()), ("amount", pa.decimal128(18, 4)), ("note", pa.string())]),
    ["day"],
    partitions=2,
)
TAGS = define_store(
    "tags",
    pa.schema([("code", pa.binary()), ("is_on", pa.bool_()), ("n", pa.uint64())]),
    ["code", "is_on"],
    partitions=2,
)
EMPTY = define_store(
    "empty",
    pa.schema([("id", pa.int64()), ("v", pa.string()), ("d", pa.decimal128(38, 10))]),
    ["id"],
    partitions=2,
)

MERGED = (
    MergedColumn("plays", Function.COUNT),
    MergedColumn("seconds", Function.SUM),
    MergedColumn("spent", Function.SUM),
    MergedColumn("longest", Function.MAX),
    MergedColumn("since", Function.MIN),
    MergedColumn("rating", Function.AVG),
    MergedColumn("title", Function.LAST, by="at"),
)
TOTALS = define_store(
    "totals",
    pa.schema(
        [
            ("country", pa.string()),
            ("genre", pa.int32()),
            ("plays", pa.int64()),
            ("seconds", pa.float64()),
            ("spent", pa.decimal128(18, 2)),
            ("longest", pa.float64()),
            ("since", pa.date32()),
            ("__rating_sum", pa.int64()),
            ("__rating_count", pa.int64()),
            ("title", pa.string()),
            ("__title_at", pa.timestamp("us")),
        ]
    ),
    ["country", "genre"],
    partition_by=["country"],
    partitions=3,
    behaviour=Behaviour(Merge(MERGED)),
)

DEFINITIONS = (PLAYS, ARTISTS, SONG_ARTISTS, MY_SONGS, READINGS, DAYS, TAGS, EMPTY, TOTALS)


def definitions_with(partitions: int | None) -> tuple[StoreDefinition, ...]:
    """The stores with another number of partitions each; None for their own."""
    return (
        DEFINITIONS
        if partitions is None
        else tuple(replace(definition, partitions=partitions) for definition in DEFINITIONS)
    )


GENRES = ("rock", "pop", "jazz", None, "Rock", "rock & roll")
COUNTRIES = ("AT", "BR", "DE", "FR")
MORNING = dt.datetime.fromisoformat("2024-03-01T08:00:00")


def _plays(places: range, generation: int) -> list[tuple[Any, ...]]:
    rows = []
    for place in places:
        empty = place % 11 == 3
        moment = MORNING + dt.timedelta(minutes=37 * place + generation, microseconds=place)
        rows.append(
            (
                place,
                f"Song {place:03d}" if place % 7 else "ünïcode 'quoted' title",
                GENRES[place % len(GENRES)],
                None if empty else (place * 7919 + generation) % 101,
                None if place % 13 == 5 else place * 1.25 + generation / 8,
                None if empty else Decimal(place * 99 + generation) / 100,
                None if place % 9 == 4 else dt.date(1960, 1, 1) + dt.timedelta(days=place * 331),
                None if empty else moment,
                None if empty else moment.replace(tzinfo=dt.UTC),
                (True, False, None)[place % 3],
            )
        )
    return rows


def _artists() -> list[tuple[Any, ...]]:
    return [
        (
            country,
            f"{name} {country}" if place else "The Same",
            1950 + place * 3 + number if place % 4 else None,
            [None, [], ["a", None, f"m{place}"], ["z"]][place % 4],
        )
        for number, country in enumerate(COUNTRIES)
        for place, name in enumerate(["Alpha", "Beta", "Gamma", "Delta", "Epsilon", "Zeta"])
    ]


def _song_artists(songs: range) -> list[tuple[Any, ...]]:
    artists = _artists()
    rows = []
    for song in songs:
        for part in range(song % 3):
            country, name = artists[(song * 5 + part * 7) % len(artists)][:2]
            rows.append((song, country, name, Decimal(1) / (song % 3)))
    return [(song, country, name, share.quantize(Decimal("0.0001"))) for song, country, name, share in rows]


def _my_songs() -> list[tuple[Any, ...]]:
    return [
        (
            place * 3,
            ['say "hi"', "it's", "", "-- no comment", None][place % 5],
            place % 4 or None,
            place % 2 == 0,
        )
        for place in range(20)
    ]


VALUES = (float("nan"), -0.0, 0.0, 1.5, -1.5, float("inf"), float("-inf"), None, 1e-300, 1e300)


def _readings(sensors: tuple[str, ...], count: int, shift: int) -> list[tuple[Any, ...]]:
    rows = []
    for sensor in sensors:
        for place in range(count):
            number = place + shift
            rows.append(
                (
                    sensor,
                    MORNING + dt.timedelta(seconds=30 * place),
                    VALUES[number % len(VALUES)],
                    [None, 0.5, -0.0, float("nan"), 16777216.0][number % 5],
                    [None, [], [("low", number), ("high", None)]][number % 3],
                    [None, {"x": number / 2, "labels": ["a", f"l{number}"]}, {"x": None, "labels": None}][
                        number % 3
                    ],
                    [None, b"", b"\x00\xff", b"abc"][number % 4],
                    [None, -128, 127, 0][number % 4],
                    [None, -32768, 32767, 5][number % 4],
                    [None, 0, 255, 7][number % 4],
                    [None, 0, 65535, 7][number % 4],
                    [None, 0, 4294967295, 7][number % 4],
                    [None, 0, 18446744073709551615, 7][number % 4],
                )
            )
    return rows


def _days(first: int, count: int, sign: int) -> list[tuple[Any, ...]]:
    return [
        (
            dt.date(2023, 12, 25) + dt.timedelta(days=first + place),
            None if place % 6 == 2 else Decimal(sign * (place + 1) * 12345) / 1000,
            ["x", "", None][place % 3],
        )
        for place in range(count)
    ]


_TAG_ROWS = [
    (code, flag, number)
    for number, (code, flag) in enumerate(
        (c, f) for c in (b"", b"\x00", b"a", b"a\x00", b"\xff") for f in (True, False)
    )
]


def _totals(first: int, count: int) -> list[tuple[Any, ...]]:
    """Partial rows, several of one key among them."""
    return [
        (
            COUNTRIES[place % 4],
            place % 5,
            1 + place % 3,
            None if place % 6 == 2 else place / 8,
            None if place % 5 == 1 else Decimal(place * 125) / 100,
            VALUES[place % len(VALUES)],
            None if place % 7 == 3 else dt.date(2024, 1, 1) + dt.timedelta(days=place * 11 % 40),
            None if place % 4 == 3 else place % 10,
            0 if place % 4 == 3 else 1 + place % 2,
            None if place % 9 == 5 else f"title {place}",
            None if place % 8 == 6 else MORNING + dt.timedelta(minutes=place * 7 % 60),
        )
        for place in range(first, first + count)
    ]


Epoch = Mapping[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]]
"""Store name to upserted rows and to rows whose keys are removed."""

EPOCHS: tuple[Epoch, ...] = (
    {
        "plays": (_plays(range(120), 0), []),
        "artists": (_artists(), []),
        "song_artists": (_song_artists(range(60)), []),
    },
    {"My Songs": (_my_songs(), [])},
    {"readings": (_readings(("a", "a-1", "b", "B", ""), 12, 0), [])},
    {
        "days": (_days(0, 30, 1), []),
    },
    {"tags": (_TAG_ROWS, [])},
    {
        "plays": (_plays(range(40, 160), 1), _plays(range(10, 20), 0)),
        "song_artists": (_song_artists(range(60, 100)), _song_artists(range(10, 20))),
    },
    {"readings": (_readings(("b", "c"), 9, 3), _readings(("a-1",), 6, 0))},
    {"days": (_days(20, 20, -1), _days(3, 2, 1))},
    {
        "plays": (_plays(range(12, 15), 2), _plays(range(150, 155), 0)),
        "artists": ([("FR", "The Same", 1, ["new"])], [("DE", "Beta DE", None, None)]),
    },
    {"My Songs": ([(0, "changed", None, None)], [(57, None, None, None), (999, None, None, None)])},
    {"plays": (_plays(range(0, 160, 10), 3), [])},
    {"totals": (_totals(0, 50), [])},
    {"totals": (_totals(30, 30), _totals(40, 6))},
    {"totals": (_totals(42, 2), _totals(9, 1))},
    {"empty": ([(1, "x", Decimal(1))], [])},
    {"empty": ([], [(1, None, None)])},
)


def table(schema: pa.Schema, rows: list[tuple[Any, ...]]) -> pa.Table:
    """Rows as a table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.Table.from_arrays(
        [pa.array(list(column), field.type) for column, field in zip(columns, schema, strict=True)],
        schema=schema,
    )


def epoch_tables(epoch: Epoch) -> dict[str, pa.Table]:
    """Tables that append an epoch, with the column `REMOVED`."""
    tables = {}
    for name, (upserts, removed) in epoch.items():
        definition = next(each for each in DEFINITIONS if each.name == name)
        nullable = pa.schema([field.with_nullable(True) for field in definition.row_schema])
        rows = table(definition.row_schema, upserts + removed).cast(nullable)
        tables[name] = rows.append_column(
            REMOVED, pa.array([False] * len(upserts) + [True] * len(removed), pa.bool_())
        )
    return tables


def live_tables() -> dict[str, pa.Table]:
    """What a dict per store would hold after all epochs."""
    live: dict[str, dict[Any, list[tuple[Any, ...]]]] = {definition.name: {} for definition in DEFINITIONS}
    for epoch in EPOCHS:
        for name, (upserts, removed) in epoch.items():
            definition = next(each for each in DEFINITIONS if each.name == name)
            width, merges = len(definition.key), isinstance(definition.behaviour.kind, Merge)
            for row in upserts:
                before = live[name].get(row[:width], []) if merges else []
                live[name][row[:width]] = [*before, row]
            for row in removed:
                live[name].pop(row[:width], None)
    return {
        definition.name: table(
            definition.schema, [_fold_rows(definition, rows) for rows in live[definition.name].values()]
        )
        for definition in DEFINITIONS
    }


def _fold_rows(definition: StoreDefinition, rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The row that all rows of a key make."""
    kind = definition.behaviour.kind
    if not isinstance(kind, Merge):
        return rows[-1]
    named = [dict(zip(definition.row_schema.names, row, strict=True)) for row in rows]
    merged = visible_row(kind.columns, fold_rows(kind.columns, named, definition.row_schema))
    return tuple({**named[-1], **merged}[name] for name in definition.schema.names)


def dead_tables() -> dict[str, pa.Table]:
    """Rows that were superseded or removed; what a merge store had before is left out."""
    live = live_tables()
    dead: dict[str, pa.Table] = {}
    for definition in DEFINITIONS:
        if isinstance(definition.behaviour.kind, Merge):
            dead[definition.name] = definition.schema.empty_table()
            continue
        kept = {repr(row) for row in live[definition.name].to_pylist()}
        rows = [row for epoch in EPOCHS for row in epoch.get(definition.name, ([], []))[0]]
        every = table(definition.schema, rows)
        dead[definition.name] = every.filter(
            pa.array([repr(row) not in kept for row in every.to_pylist()], pa.bool_())
        )
    return dead
