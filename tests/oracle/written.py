"""Statements that people have written, over stores of their own: what the generator does not think of.

Files of `written/` have statements with a line `;;` between two of them. Each must be answered, or refused,
as by plain DuckDB; where that is not determined, it must be what plain DuckDB says in some order of the rows.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from engine.model.kinds import Behaviour
from engine.model.schema import define_store
from tests.oracle.datasets import Dataset, Store

DIRECTORY = Path(__file__).parent / "written"
HOSTS = 3
_SEPARATOR = "\n;;\n"
_FIRST_DAY = dt.datetime(2024, 5, 1)  # noqa: DTZ001 - the TIMESTAMP type has no zone
_NULLS = 0.12


def written_statements(file: Path) -> Sequence[str]:
    """The statements of a file."""
    return [text.strip() for text in file.read_text().split(_SEPARATOR) if text.strip()]


def written_dataset(seed: int) -> Dataset:
    """The stores that they read, always with the same rows.

    Args:
        seed: Says how the hosts hold them, as for any dataset.
    """
    random = Random("written statements")
    tables = {
        "plays": (_plays(random), ["k"], ["k"], 8),
        "users": (_users(random), ["usr"], ["usr"], 4),
        "events": (_events(random), ["usr", "at"], ["usr"], 5),
        "songs": (_songs(random), ["song"], ["song"], 1),
        "nums": (_nums(random), ["id"], ["id"], 64),
        "empty": (_empty(), ["id"], ["id"], 3),
    }
    stores = []
    for name, (rows, key, partition_by, partitions) in tables.items():
        definition = define_store(
            name,
            rows.schema,
            key,
            partition_by=partition_by,
            partitions=partitions,
            group="one",
            behaviour=Behaviour(is_global=name == "songs"),
        )
        live = rows.cast(definition.schema)
        stores.append(Store(definition, live, live.slice(0, 0), ()))
    return Dataset(seed, tuple(stores), HOSTS)


def _some(random: Random, value: Any) -> Any:
    return None if random.random() < _NULLS else value


def _moment(random: Random) -> dt.datetime:
    return _FIRST_DAY + dt.timedelta(milliseconds=random.randrange(9 * 86_400_000))


def _column(random: Random, values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values, of which some are missing."""
    return pa.array([_some(random, value) for value in values], kind)


def _plays(random: Random) -> pa.Table:
    numbers = range(200)
    scores = [_some(random, round(random.uniform(-9, 9), 3)) for _ in numbers]
    scores[17], scores[40], scores[63], scores[64] = math.nan, math.inf, -0.0, 0.0
    pair = pa.struct([pa.field("x", pa.int64()), pa.field("y", pa.string())])
    return pa.table(
        {
            "k": pa.array(numbers, pa.int64()),
            "usr": _column(random, [f"u{random.randrange(20)}" for _ in numbers], pa.string()),
            "song": _column(random, [f"s{random.randrange(30)}" for _ in numbers], pa.string()),
            "n": _column(random, [random.randrange(-50, 51) for _ in numbers], pa.int32()),
            "price": _column(
                random, [Decimal(random.randrange(99_999)) / 100 for _ in numbers], pa.decimal128(8, 2)
            ),
            "score": pa.array(scores, pa.float64()),
            "at": _column(random, [_moment(random) for _ in numbers], pa.timestamp("us")),
            "day": _column(random, [_moment(random).date() for _ in numbers], pa.date32()),
            "ok": _column(random, [random.random() < 0.5 for _ in numbers], pa.bool_()),
            "tags": _column(
                random,
                [
                    [_some(random, random.choice("abcde")) for _ in range(random.randrange(4))]
                    for _ in numbers
                ],
                pa.list_(pa.string()),
            ),
            "s": _column(
                random,
                [
                    {"x": _some(random, random.randrange(9)), "y": _some(random, random.choice("pqr"))}
                    for _ in numbers
                ],
                pair,
            ),
            "m": _column(
                random,
                [
                    [(key, _some(random, random.randrange(9))) for key in random.sample("xyz", count)]
                    for count in (random.randrange(4) for _ in numbers)
                ],
                pa.map_(pa.string(), pa.int32()),
            ),
            "raw": _column(random, [random.randbytes(random.randrange(4)) for _ in numbers], pa.binary()),
        }
    )


def _users(random: Random) -> pa.Table:
    numbers = range(25)
    names = ("Ann", "bob", "Çelik", "Åsa", "dora", "Émile", "")
    born = [
        dt.date(1950 + random.randrange(60), 1 + random.randrange(12), 1 + random.randrange(28))
        for _ in numbers
    ]
    return pa.table(
        {
            "usr": [f"u{number}" for number in numbers],
            "name": _column(
                random, [f"{random.choice(names)}{number % 7}" for number in numbers], pa.string()
            ),
            "country": _column(
                random, [random.choice(("DE", "TR", "FR", "us")) for _ in numbers], pa.string()
            ),
            "born": _column(random, born, pa.date32()),
            "rank": _column(random, [random.randrange(10) for _ in numbers], pa.int16()),
        }
    )


def _events(random: Random) -> pa.Table:
    keys: dict[tuple[str, dt.datetime], None] = {}
    while len(keys) < 300:
        keys[f"u{random.randrange(22)}", _moment(random).replace(microsecond=0)] = None
    return pa.table(
        {
            "usr": [user for user, _ in keys],
            "at": pa.array([moment for _, moment in keys], pa.timestamp("us")),
            "kind": _column(random, [random.choice(("click", "view", "buy")) for _ in keys], pa.string()),
            "v": _column(random, [round(random.uniform(0, 100), 2) for _ in keys], pa.float64()),
        }
    )


def _songs(random: Random) -> pa.Table:
    numbers = range(35)
    return pa.table(
        {
            "song": [f"s{number}" for number in numbers],
            "title": _column(random, [f"T{number % 12}" for number in numbers], pa.string()),
            "genre": _column(random, [random.choice(("rock", "pop", "jazz")) for _ in numbers], pa.string()),
            "len": _column(random, [random.randrange(100, 400) for _ in numbers], pa.int32()),
        }
    )


def _nums(random: Random) -> pa.Table:
    numbers = range(-45, 45)
    large = (2**62, -(2**62))
    return pa.table(
        {
            "id": pa.array(numbers, pa.int32()),
            "a": _column(
                random, [random.choice((random.randrange(-99, 99), *large)) for _ in numbers], pa.int64()
            ),
            "b": _column(random, [random.randrange(256) for _ in numbers], pa.uint8()),
            "f": _column(random, [random.uniform(-5, 5) for _ in numbers], pa.float32()),
            "tz": _column(random, [_moment(random) for _ in numbers], pa.timestamp("us", "UTC")),
            "l": _column(
                random,
                [[_some(random, random.randrange(5)) for _ in range(random.randrange(4))] for _ in numbers],
                pa.list_(pa.int64()),
            ),
        }
    )


def _empty() -> pa.Table:
    return pa.schema([("id", pa.int64()), ("t", pa.string()), ("v", pa.float64())]).empty_table()
