"""DISTINCT and DISTINCT ON over hosts."""

from __future__ import annotations

import pytest

from engine.plan.split.rules.distinct import distinct
from tests.unit.plan.split.random_rows import COLUMNS, check_many
from tests.unit.plan.split.spread import PART, Spread

SPLIT = [
    ("SELECT DISTINCT x AS a FROM t", False),
    ("SELECT DISTINCT g AS a, x AS b, l AS c FROM t WHERE i > 0", False),
    ("SELECT DISTINCT g AS a, 'k' AS b FROM t", False),
    ('SELECT DISTINCT g AS a, h AS b FROM t ORDER BY "a", "b" DESC LIMIT 3', True),
    ('SELECT DISTINCT g AS a, h AS b FROM t ORDER BY g, "b" DESC NULLS FIRST LIMIT 3 OFFSET 1', True),
    ("SELECT DISTINCT h AS a FROM t ORDER BY h COLLATE NOCASE, h", True),
    ("SELECT DISTINCT ON (g) g AS a, d AS b FROM t ORDER BY g, d, e", True),
    ("SELECT DISTINCT ON (g) d AS b FROM t ORDER BY d DESC NULLS LAST, g", True),
    ('SELECT DISTINCT ON ("a") g AS a, d AS b FROM t ORDER BY "a", d DESC', True),
    ("SELECT DISTINCT ON (g, h) g AS a, h AS c, d AS b FROM t ORDER BY g, h, d DESC LIMIT 3 OFFSET 1", True),
    ("SELECT DISTINCT ON (h) d AS b FROM t ORDER BY d, h LIMIT 2", True),
    ("SELECT DISTINCT ON (g % 2) g % 2 AS a FROM t", False),
]

NOT_SPLIT = [
    "SELECT i FROM t",
    "SELECT DISTINCT i FROM t ORDER BY d",
    "SELECT DISTINCT i FROM t ORDER BY i + 1",
    "SELECT DISTINCT sum(i) FROM t",
    "SELECT DISTINCT sum(i) OVER () FROM t",
    "SELECT DISTINCT i FROM t QUALIFY row_number() OVER () = 1",
    "SELECT DISTINCT v COLLATE NOCASE FROM t",
    "SELECT DISTINCT random() FROM t",
    "SELECT DISTINCT ON (1) i FROM t",
    "SELECT DISTINCT ON (now()) i FROM t",
    "SELECT DISTINCT i FROM t LIMIT 10 PERCENT",
]


@pytest.mark.parametrize(("sql", "ordered"), SPLIT)
def test_different_rows(sql: str, ordered: bool) -> None:
    check_many(sql, distinct, ordered=ordered)


@pytest.mark.parametrize("sql", NOT_SPLIT)
def test_what_is_not_split(sql: str) -> None:
    assert distinct(Spread(COLUMNS, [], 1, 0).select(sql), PART) is None
