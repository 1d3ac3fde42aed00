"""Texts for logs have no values."""

from __future__ import annotations

import pytest

from engine.sql.masked_values import LONGEST_TEXT, mask_plan, mask_values


@pytest.mark.parametrize(
    ("sql", "shown"),
    [
        ("SELECT 1", "SELECT ?"),
        ("SELECT * FROM t WHERE name = 'Ann''s' AND n>-2.5e3", "SELECT * FROM t WHERE name = ? AND n>-?"),
        ("SELECT a -- secret\n FROM t /* secret */ WHERE b = $$secret$$", "SELECT a FROM t WHERE b = ?"),
        ("SELECT x'ab', \"Column 1\", $1, ? FROM t", 'SELECT ?, "Column 1", $1, ? FROM t'),
        ("SELECT e'secret\\n', DATE '2020-01-01'", "SELECT ?, DATE ?"),
        ("SELECT 0x4142, 1_000, 5 AS b, $1", "SELECT ?, ?, ? AS b, $1"),
        ("SELECT INTERVAL '4111 days', JSON '{\"a\": 4}'::JSON", "SELECT INTERVAL ?, JSON ?::JSON"),
        (
            "SELECT 5!, 'a' 'b', x IN [1] || 'b', MAP {}, v <=> 2",
            "SELECT ?!, ?, x IN [?] || ?, MAP {}, v <=> ?",
        ),
        ("FROM t PIVOT (sum(a) FOR b IN ('x' AS y, 2))", "FROM t PIVOT (sum(a) FOR b IN (? AS y, ?))"),
        (
            "(PIVOT t ON b IN ('x' AS y) USING sum(a)) LIMIT 1",
            "(PIVOT t ON b IN (? AS y) USING sum(a)) LIMIT ?",
        ),
    ],
)
def test_literals_are_question_marks(sql: str, shown: str) -> None:
    assert mask_values(sql) == shown


@pytest.mark.parametrize("sql", ["SELECT 'secret", "SELECT $$secret", "x" * (LONGEST_TEXT + 1), "/* secret"])
def test_what_cannot_be_read_is_not_shown(sql: str) -> None:
    assert "secret" not in mask_values(sql)
    assert len(mask_values(sql)) < 100


def test_other_dialects_have_other_literals() -> None:
    assert mask_values('SELECT "secret" FROM `t`', "spark") == "SELECT ? FROM `t`"


@pytest.mark.parametrize("dialect", ["spark", "mysql", "oracle"])
def test_hints_are_comments(dialect: str) -> None:
    assert mask_values("SELECT /*+ secret(4) */ a FROM t", dialect) == "SELECT a FROM t"


def test_a_plan_has_columns_and_no_values() -> None:
    lines = [
        "plan: engine",
        "store: plays",
        "  points: 2 of (name): (secret), (o'secret)",
        "  interval: secret <= name < secret",
        "  reads: 1 of 4 partitions, 2 of 9 segments",
        "  sql: SELECT * FROM plays WHERE name = 'secret'",
        "engine: SELECT count(*) FROM plays WHERE n = 77",
        "merge: SELECT sum(n) FROM one HAVING sum(n) < 4111",
        "merge: rows of all hosts",
    ]
    assert mask_plan(lines) == [
        "plan: engine",
        "store: plays",
        "  points: 2",
        "  interval",
        "  reads: 1 of 4 partitions, 2 of 9 segments",
        "  sql: SELECT * FROM plays WHERE name = ?",
        "engine: SELECT count(*) FROM plays WHERE n = ?",
        "merge: SELECT sum(n) FROM one HAVING sum(n) < ?",
        "merge: rows of all hosts",
    ]
