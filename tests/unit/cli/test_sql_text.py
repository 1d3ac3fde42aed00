"""Where statements end, and what completes them."""

from __future__ import annotations

import pytest

from flight_server.cli.completion import Catalog, completions, quote_if_needed
from flight_server.cli.sql_text import is_complete, split_statements

CATALOG = Catalog(
    {
        "plays": [("song_id", "BIGINT"), ("plays", "BIGINT")],
        "songs": [("song_id", "BIGINT"), ("title", "VARCHAR")],
        "Odd one": [("a b", "DATE")],
    }
)


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], ""),
        ("select 1", [], "select 1"),
        ("select 1;", ["select 1"], ""),
        ("select 1; select 2", ["select 1"], "select 2"),
        ("select ';' ; ", ["select ';'"], ""),
        ("select 'it''s;' ;", ["select 'it''s;'"], ""),
        ('select ";""" ;', ['select ";"""'], ""),
        ("select 1 -- ; not here\n;", ["select 1 -- ; not here"], ""),
        ("select /* ; */ 1;", ["select /* ; */ 1"], ""),
        ("select 'open ;", [], "select 'open ;"),
        ("select /* open ;", [], "select /* open ;"),
        ("select 4 / 2 - 1;", ["select 4 / 2 - 1"], ""),
        (";;", [], ""),
        ("select 1; -- done", ["select 1"], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("\\d", True),
        ("help", True),
        ("select 1", False),
        ("select 1;", True),
        ("select 1; -- done", True),
        ("select 1; select", False),
        ("select ';", False),
    ],
)
def test_the_prompt_waits_for_the_end(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


def offers(before: str, after: str = "") -> list[str]:
    return [found.text for found in completions(before, before + after, CATALOG)]


def test_stores_come_behind_from() -> None:
    assert offers("select * from ") == ['"Odd one"', "plays", "songs"]
    assert offers("select * from so") == ["songs"]
    assert offers("describe pl") == ["plays"]
    assert offers("\\d so") == ["songs"]


def test_columns_are_those_of_the_stores_in_the_text_wherever_the_cursor_is() -> None:
    assert offers("select ti", " from songs") == ["title"]
    assert "title" not in offers("select ti", " from plays")


def test_an_alias_brings_its_columns() -> None:
    assert offers("select s.", " from plays p join songs as s using (song_id)") == ["song_id", "title"]
    assert offers('select "Odd one".', ' from "Odd one"') == ['"a b"']
    assert offers("select nobody.", " from songs") == []


def test_keywords_and_commands() -> None:
    assert "SELECT" in offers("sel")
    assert offers("\\l") == ["\\limit"]
    assert offers("select ") == []


def test_a_completion_replaces_the_word() -> None:
    (found,) = completions("select * from so", "select * from so", CATALOG)
    assert (found.text, found.replaces, found.description) == ("songs", 2, "store")


def test_names_are_quoted_where_sql_needs_it() -> None:
    assert [quote_if_needed(name) for name in ("plays", "a b", 'q"', "1st")] == [
        "plays",
        '"a b"',
        '"q"""',
        '"1st"',
    ]
