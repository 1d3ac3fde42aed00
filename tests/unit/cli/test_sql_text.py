"""Where statements end, and what completes them."""

from __future__ import annotations

import re

import duckdb
import pytest
from hypothesis import HealthCheck, given, reject, settings
from hypothesis import strategies as st
from sqlglot.dialects.dialect import Dialect, Dialects

from flight_server.cli.completion import Catalog, completions, quote_if_needed
from flight_server.cli.sql_text import BACKSLASH_DIALECTS, ScriptStatement, is_complete, split_script

_DUCKDB = duckdb.connect()
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
        ("select 'not\\'; select 2;", ["select 'not\\'", "select 2"], ""),
        ("select e'an\\';' ; select 2", ["select e'an\\';'"], "select 2"),
        ('select ";""" ;', ['select ";"""'], ""),
        ("select 1 -- ; not here\n;", ["select 1 -- ; not here"], ""),
        ("select /* ; */ 1;", ["select /* ; */ 1"], ""),
        ("select /* /* ; */ ; */ 1;", ["select /* /* ; */ ; */ 1"], ""),
        ("select $$;$$; select $a$ ;$$; $a$;", ["select $$;$$", "select $a$ ;$$; $a$"], ""),
        ("select $1; select $2", ["select $1"], "select $2"),
        ("select 'open ;", [], "select 'open ;"),
        ("select $$open ;", [], "select $$open ;"),
        ("select /* open ;", [], "select /* open ;"),
        ("select 4 / 2 - 1;", ["select 4 / 2 - 1"], ""),
        (";;", [], ""),
        ("/* first */ select 1; -- done", ["select 1"], ""),
    ],
)
def test_statements_end_at_semicolons_outside_of_texts(text: str, statements: list[str], rest: str) -> None:
    found, behind = split_script(text)
    assert [statement.text for statement in found] == statements
    assert ("" if behind is None else behind.text) == rest


def test_each_statement_knows_where_it_begins() -> None:
    found, rest = split_script("-- first\n  select 1;\n\n/* a\nb */ select\n 2; select 3")
    assert found == [ScriptStatement("select 1", 2, 3), ScriptStatement("select\n 2", 5, 6)]
    assert rest == ScriptStatement("select 3", 6, 5)


def test_the_rest_is_cut_as_the_dialect_that_was_set() -> None:
    texts = ["set dialect = 'spark'", "select 'an\\';'", "RESET dialect -- now; DuckDB's", "select 'not\\'"]
    for dialect in ("", "spark"):
        found, rest = split_script(
            "select 1; " + "; ".join(texts[:2]) + ";" + texts[2] + "\n;" + texts[3], dialect
        )
        assert [each.text for each in found] == ["select 1", *texts[:3]]
        assert rest is not None
        assert rest.text == texts[3]


_BODIES = st.lists(
    st.sampled_from(
        [
            "a",
            "e",
            "é",
            "$",
            "$$",
            "$a$",
            "'",
            '"',
            "\\",
            "--",
            "/*",
            "*/",
            "\n",
            "\r",
            " ",
            ";",
            "; select 2",
        ]
    ),
    max_size=6,
).map("".join)


def _comment(body: str) -> str:
    """The body between the marks of a comment, with as many ends as beginnings in it."""
    opened = re.sub(r"\*/|/(?=\*)|\*(?=/)", "", body)
    return f"/* {opened} /* {opened} */ {opened} */"


_BLANKS = st.one_of(
    st.just(" "), _BODIES.map(_comment), _BODIES.map(lambda body: "--" + re.sub("[\n\r]", "", body) + "\n")
)
_VALUES = st.one_of(
    st.just("1"),
    st.just("- 1 / 2 * 3"),
    _BODIES.map(lambda body: "'" + body.replace("'", "''") + "'"),
    _BODIES.map(lambda body: "E'" + body.replace("\\", "\\\\").replace("'", "\\'") + "'"),
    _BODIES.map(lambda body: "e'" + body.replace("\\", "\\\\").replace("'", "''") + "'"),
    _BODIES.map(lambda body: "$x$" + body + "$x$"),
    _BODIES.map(lambda body: "$$" + body.replace("$", "") + "$$"),
    _BODIES.map(lambda body: '1 AS "n' + body.replace('"', '""') + '"'),
    st.just("$1"),
)
_STATEMENTS = st.lists(st.tuples(_BLANKS, _VALUES, _BLANKS).map("".join), min_size=1, max_size=3).map(
    lambda values: "select " + ",".join(values)
)
_SCRIPTS = st.lists(st.one_of(_STATEMENTS, _STATEMENTS, _BLANKS), max_size=4).map(";".join)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.one_of(_SCRIPTS, _SCRIPTS, _BODIES.map(lambda body: "select 'a' " + body)))
def test_texts_are_cut_where_duckdb_cuts_them(text: str) -> None:
    try:
        wanted = [statement.query for statement in _DUCKDB.extract_statements(text)]
    except duckdb.Error:
        reject()
    statements, rest = split_script(text)
    found = [statement.text for statement in (*statements, *([] if rest is None else [rest]))]
    assert len(found) == len(wanted), (found, wanted)
    for ours, theirs in zip(found, wanted, strict=True):
        # DuckDB has the semicolon in the statement before, and blanks behind it in the one that follows.
        before, _, after = theirs.partition(ours)
        assert not before.strip()
        assert not after.strip() or after.lstrip()[0] == ";"


def test_long_texts_take_time_in_proportion() -> None:
    statements, rest = split_script("select ';' /* ; */, $$;$$;\n" * 20_000 + "select 1")
    assert len(statements) == 20_000
    assert rest == ScriptStatement("select 1", 20_001, 1)


def test_strings_of_some_dialects_have_backslashes() -> None:
    text = r"select 'a\';' from `b;c`; select 2"
    assert [statement.text for statement in split_script(text, "spark")[0]] == [r"select 'a\';' from `b;c`"]
    known = {name for name in Dialects if name.value}
    assert {
        name.value
        for name in known
        if "\\" in Dialect.get_or_raise(name.value).tokenizer_class.STRING_ESCAPES
    } == BACKSLASH_DIALECTS


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
    assert offers("\\li") == ["\\limit"]
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
