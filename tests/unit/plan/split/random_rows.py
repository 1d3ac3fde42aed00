"""Random rows with everything in them that aggregates and orders may trip over."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.seeds import seeded_random
from tests.unit.plan.split.spread import Rule, Spread

COLUMNS = {
    "g": "INTEGER",
    "h": "VARCHAR",
    "i": "INTEGER",
    "b": "BIGINT",
    "s": "SMALLINT",
    "d": "DECIMAL(12,2)",
    "e": "DECIMAL(38,4)",
    "x": "DOUBLE",
    "y": "DOUBLE",
    "f": "FLOAT",
    "v": "VARCHAR",
    "dt": "DATE",
    "ts": "TIMESTAMP",
    "p": "BOOLEAN",
    "l": "INTEGER[]",
}
"""`g` and `h` have few values, to group by; `x` has NaN, infinities and -0.0, `y` has none of them."""

_VALUES: dict[str, Callable[[random.Random], str]] = {
    "g": lambda chance: str(chance.randint(1, 4)),
    "h": lambda chance: chance.choice(["'a'", "'B'", "''", "'ü'"]),
    "i": lambda chance: str(chance.choice([0, 1, -1, 5, 2**31 - 1, -(2**31), chance.randint(-100, 100)])),
    "b": lambda chance: str(chance.choice([0, 1, 2**63 - 1, -(2**63), chance.randint(-9, 9)])),
    "s": lambda chance: str(chance.randint(-5, 5)),
    "d": lambda chance: f"{chance.randint(-(10**9), 10**9) / 100:.2f}",
    "e": lambda chance: f"{chance.randint(-(10**30), 10**30)}.{chance.randint(0, 9999):04d}",
    "x": lambda chance: chance.choice(
        ["'nan'", "-0.0", "0.0", "'inf'", "'-inf'", "1.5", "2.5", str(chance.uniform(-10, 10))]
    ),
    "y": lambda chance: str(chance.choice([chance.uniform(-10, 10), 1.5, 2.5, 0.0])),
    "f": lambda chance: str(chance.choice([1.5, 2.25, chance.uniform(-3, 3)])),
    "v": lambda chance: chance.choice(["'x'", "'y'", "'xy'", "''", "'Z'", "'é'"]),
    "dt": lambda chance: f"DATE '20{chance.randint(10, 30)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)}'",
    "ts": lambda chance: (
        f"TIMESTAMP '20{chance.randint(10, 30)}-0{chance.randint(1, 9)}-1{chance.randint(0, 9)} "
        f"03:00:00.00{chance.randint(0, 9)}'"
    ),
    "p": lambda chance: chance.choice(["TRUE", "FALSE"]),
    "l": lambda chance: chance.choice(["[1, 2]", "[]", "[NULL]", "[3]"]),
}


def random_rows(chance: random.Random, count: int, nulls: float = 0.15) -> list[list[str]]:
    """Rows of `COLUMNS`, as texts of SQL literals."""
    return [
        ["NULL" if chance.random() < nulls else _VALUES[name](chance) for name in COLUMNS]
        for _ in range(count)
    ]


def check_many(sql: str, rule: Rule, *, ordered: bool) -> None:
    """`Spread.check` over no, few, and many random rows, each time on other hosts."""
    chance = seeded_random(sql)
    for count in (0, 1, 3, 10, 60):
        Spread(COLUMNS, random_rows(chance, count), chance.randint(1, 4), chance.randrange(10**9)).check(
            sql, rule, ordered=ordered
        )
