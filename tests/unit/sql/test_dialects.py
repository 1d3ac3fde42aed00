"""Dialects by their names."""

from __future__ import annotations

import re
import subprocess
import sys
from contextlib import suppress

import pyarrow as pa
import pytest
from sqlglot.dialects.dialect import Dialect, Dialects

from engine.errors import InvalidInput, LivestateError
from engine.model.schema import StoreName, define_store
from engine.plan.statement import make_ready
from engine.sql.literals import lift
from engine.sql.masked_values import mask_values
from engine.sql.parse import parse
from engine.sql.tokens import dialect_of
from tests.fuzz.grammar import nested_texts

TABLES = {
    StoreName("t"): define_store("t", pa.schema([("a", pa.int64()), ("b", pa.int64())]), ["a"], partitions=2)
}

MEANWHILE = """
import threading
from sqlglot.dialects import dialect as dialects
from engine.sql.tokens import dialect_of

found, make, asked = [], dialects.new_trie, threading.Event()

def look():
    found.append(dialect_of("snowflake"))

def make_slowly(*arguments):
    # Snowflake's class has its name by now, and nothing else yet.
    if "snowflake" in dialects.Dialect._classes and not asked.is_set():
        asked.set()
        other.start()
        other.join(1.0)
    return make(*arguments)

other = threading.Thread(target=look)
dialects.new_trie = make_slowly
look()
other.join()
assert asked.is_set() and len(found) == 2
for each in (*found, dialect_of("snowflake")):
    print([token.text for token in each.tokenize("SELECT a // a comment")])
"""


def test_a_dialect_that_others_ask_for_while_it_is_loaded_is_whole() -> None:
    program = [sys.executable, "-c", MEANWHILE]
    lines = subprocess.run(program, capture_output=True, text=True, check=True).stdout.splitlines()
    assert lines == ["['SELECT', 'a']"] * 3


@pytest.mark.parametrize("name", ["klingon", "", "meteredsnowflake", "_hostdialect", "snowflake, x = 1"])
def test_there_are_no_others(name: str) -> None:
    dialect_of("snowflake")
    with pytest.raises(InvalidInput, match="is not known"):
        dialect_of(name)


def test_values_are_masked_as_the_dialect_has_them() -> None:
    assert mask_values("SELECT a // 17", "snowflake") == "SELECT a"
    assert mask_values("SELECT x'17' // 17") == "SELECT ? // ?"
    assert mask_values("SELECT 17", "klingon").startswith("(a text that cannot")


DIALECTS = sorted(each.value for each in Dialects if each.value and each.value not in ("dax", "prql"))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_parameters_are_marked_alike_in_all_dialects(dialect: str) -> None:
    """Most read `$1`, which stands for a `?`, as a name."""
    text = "SELECT sum(a + ?) AS q FROM t WHERE a BETWEEN ? AND ? AND b IN (?, ?) AND a <> ? LIMIT ?"
    ready = make_ready(lift(text, dialect), dialect, TABLES)
    assert [slot.name for slot in ready.bound.parameters] == [str(number) for number in range(1, 8)]
    assert ready.sql.count("$") == 7
    if dialect != "clickhouse":
        ready = make_ready(lift("SELECT a FROM t WHERE a = $2 OR a = $1", dialect), dialect, TABLES)
        assert [slot.name for slot in ready.bound.parameters] == ["1", "2"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_names_of_a_dialect_are_no_marks_of_the_engine(dialect: str) -> None:
    """For `$9223372036854775807` the engine's client makes a list of so many values, until memory ends."""
    mark = "$9223372036854775807"
    for text in (
        f"SELECT {mark}",
        f"SELECT a AS {mark} FROM t",
        f"SELECT a::{mark} FROM t",
        f"SELECT a COLLATE {mark} FROM t",
        f"SELECT * FROM t TABLESAMPLE {mark} PERCENT",
        f"SELECT extract({mark} FROM a) FROM t",
        f"SELECT {mark} FROM {mark}",
        f"SELECT {mark}(a) FROM t",
    ):
        try:
            ready = make_ready(lift(text, dialect), dialect, TABLES)
        except LivestateError:
            continue
        outside = re.sub(r"'[^']*'|\"[^\"]*\"", "", ready.sql)
        assert "$" not in outside, text


def test_signs_in_names_are_a_part_of_them() -> None:
    for name, dialect in (("$$a$$", "bigquery"), ("#1", "redshift"), ("a$b", "oracle")):
        ready = make_ready(lift(f"SELECT a AS {name} FROM t", dialect), dialect, TABLES)
        assert f'a AS "{name}"' in ready.sql


@pytest.mark.parametrize(
    ("text", "sentence", "line", "column"),
    [
        ("SELECT 'abc FROM t", "' is not closed.", 1, 8),
        ("SELECT 1, 'x',\n  'it''s", "' is not closed.", 2, 3),
        ('SELECT "abc\nFROM t', '" is not closed.', 1, 8),
        ("SELECT 1\n+ $$abc", "$$ is not closed.", 2, 3),
        ("SELECT 1 /* one */ + /* two", "A comment is not closed: */ is missing.", 1, 22),
    ],
)
def test_what_is_not_closed_is_pointed_at(text: str, sentence: str, line: int, column: int) -> None:
    with pytest.raises(InvalidInput) as caught:
        parse(lift(text, "duckdb"), "duckdb")
    assert caught.value.message.startswith(f"{sentence}\nLine {line}, column {column}:\n")


def test_tables_are_left_out_of_pivots_alone() -> None:
    """DuckDB takes none there; in what a PIVOT reads they tell columns apart."""
    text = "SELECT * FROM (SELECT t.a, u.b FROM t CROSS JOIN t AS u) AS q PIVOT (SUM(q.b) FOR q.a IN (1, 2))"
    tree = parse(lift(text, "spark"), "spark").tree
    assert tree is not None
    assert "SELECT t.a, u.b FROM t" in tree.sql("duckdb")
    assert "(SUM(b) FOR a IN (1, 2))" in tree.sql("duckdb")


@pytest.mark.parametrize("dialect", ["duckdb", "bigquery", "snowflake", "oracle", "postgres"])
@pytest.mark.parametrize(
    "text",
    [
        "SELECT a FROM t CONNECT BY PRIOR (",
        "SELECT a FROM t START WITH a = 1 CONNECT BY PRIOR a = b",
        "SELECT a FROM t start/* */with a PRIOR (",
    ],
)
def test_hierarchies_are_refused(text: str, dialect: str) -> None:
    with pytest.raises(InvalidInput, match="write a recursive common table expression"):
        parse(lift(text, dialect), dialect)


def _class_tables(dialect: str) -> dict[str, object]:
    """What the classes of a dialect look words up in."""
    known = Dialect.get_or_raise(dialect)
    return {
        f"{kind.__name__}.{name}": dict(value) if isinstance(value, dict) else set(value)
        for kind in (known.tokenizer_class, known.parser_class, known.generator_class)
        for name in dir(kind)
        if isinstance(value := getattr(kind, name), dict | set) and not name.startswith("__")
    }


@pytest.mark.parametrize(
    "dialect", ["duckdb", "bigquery", "snowflake", "oracle", "postgres", "spark", "tsql"]
)
def test_no_text_changes_how_others_are_read(dialect: str) -> None:
    """What sqlglot puts into its classes for one text holds for those of all clients."""
    dialect_of(dialect)
    before = _class_tables(dialect)
    assert len(before) > 50
    for depth in (1, 2):
        for text in nested_texts(depth):
            with suppress(LivestateError):
                for part in (text, text[: len(text) // 2], f"{text} ("):
                    parse(lift(part, dialect), dialect)
    assert _class_tables(dialect) == before
