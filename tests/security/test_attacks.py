"""The table of attacks in docs/security.md: each test that it names exists, and tests of hostile callers are
named.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
_TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
HOSTILE = ("tests/security/test_hostile_callers.py", "tests/security/test_nginx.py")
KINDLY = {"test_clients_get_their_answers"}
"""Tests of these files that are about no attack."""


def rows() -> list[list[str]]:
    """The table's cells."""
    section = PAGE.read_text(encoding="utf-8").partition("## Attacks")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")][1:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def names_of_tests(file: str) -> set[str]:
    """Names of the tests in a file."""
    body = ast.parse((ROOT / file).read_text(encoding="utf-8")).body
    return {each.name for each in body if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")}


def test_each_attack_has_a_test_that_exists() -> None:
    assert len(rows()) > 25
    for row in rows():
        assert len(row) == 3, row
        named = _TEST.findall(row[2])
        assert named, row
        for file, test in named:
            assert test in names_of_tests(file), test


def test_each_hostile_caller_is_in_the_table() -> None:
    named = {test for row in rows() for _, test in _TEST.findall(row[2])}
    for file in HOSTILE:
        assert not names_of_tests(file) - named - KINDLY
