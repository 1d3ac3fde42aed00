"""Dialects by their names."""

from __future__ import annotations

import subprocess
import sys

import pytest

from engine.errors import InvalidInput
from engine.sql.masked_values import mask_values
from engine.sql.tokens import dialect_of

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
