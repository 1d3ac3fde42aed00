"""Texts, quoted names and comments of other dialects are where sqlglot sees them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlglot.dialects.dialect import Dialects
from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import TokenType

from engine.errors import InvalidInput, LimitExceeded, Unsupported
from engine.sql import as_of, literals, tokens
from engine.sql.dialect_lexer import DialectLexer
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.parsed_statement import StatementClass
from engine.sql.text import SourceText
from engine.sql.tokens import MAX_TOKENS, dialect_of, lexer_of, tokenize

DIALECTS = sorted({dialect.value for dialect in Dialects} - {"", "duckdb"})
PIECES = (
    *(
        "'",
        "''",
        "'''",
        '"',
        '""',
        '"""',
        "`",
        "\\",
        "\\'",
        "?",
        "$",
        "$$",
        "$a$",
        "$1 ",
        "\n",
        "\r",
        " ",
        "a",
        "A",
    ),
    *("--", "-- ", "#", "//", "/*", "*/", "/*+", "{", "#}", "-", ">", "|", "!", "&", "FILE://"),
    *("e'", "r'", 'r"', "b'", "n'", "x'", "U&'", "q'[", "]'", "q'!", "!'", "(", ")", "[", "]", ",", "@"),
)
TEXTS = frozenset(
    {
        TokenType.STRING,
        TokenType.IDENTIFIER,
        TokenType.HEREDOC_STRING,
        TokenType.RAW_STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.NATIONAL_RAW_STRING,
        TokenType.UNICODE_STRING,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
    }
)


def texts_by(pattern: re.Pattern[str], lexer: DialectLexer, text: str) -> Iterator[tuple[int, int]]:
    """Where a pattern that is made of a lexer sees texts and quoted names."""
    place = 0
    while found := pattern.search(text, place):
        place = lexer.end(text, found) if found.lastgroup == "opening" else found.end()
        if found.lastgroup in ("string", "quoted") or (
            found.lastgroup == "opening" and not lexer.is_comment(found)
        ):
            yield found.start(), place


def patterns_of(lexer: DialectLexer) -> Sequence[re.Pattern[str]]:
    """Those that are made of a lexer."""
    return [made(lexer) for made in (literals._marks_of, as_of._tokens_of, tokens._pieces_of)]


@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=100)
@given(text=st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
def test_texts_are_where_the_parser_sees_them(dialect: str, text: str) -> None:
    lifted = lift(text, dialect).source.text
    try:
        cut = dialect_of(dialect).tokenize(lifted)
    except TokenError:
        return
    expected = [(token.start, token.end + 1) for token in cut if token.token_type in TEXTS]
    assert not any("?" in token.text for token in cut if token.token_type not in TEXTS)
    lexer = lexer_of(dialect)
    for pattern in patterns_of(lexer):
        assert list(texts_by(pattern, lexer, lifted)) == expected
        before = [text[start:end] for start, end in texts_by(pattern, lexer, text)]
        assert before == [lifted[start:end] for start, end in expected]


@pytest.mark.parametrize(
    ("dialects", "text", "marks"),
    [
        ("postgres trino presto athena tsql sqlite oracle druid", r"SELECT 'C:\', '?', 'D:\', ?", 1),
        ("mysql spark hive bigquery snowflake redshift clickhouse", r"SELECT 'it\'s ?', ?, '?'", 1),
        ("postgres redshift", r"SELECT e'\'?', '?', ?", 1),
        ("postgres redshift snowflake", "SELECT $$?'$$, ?, '?'", 1),
        ("postgres redshift", "SELECT $a$ ? $$ ? $a$, ?, $b$?$a$?$b$", 1),
        ("clickhouse", "SELECT $a b$ ? $$ ? $a b$, ?", 1),
        ("mysql bigquery clickhouse doris", "SELECT # it's ?\n?", 1),
        ("mysql bigquery", "SELECT 5 #> ?\n, '#', ?", 2),
        ("postgres tsql spark", "SELECT 5 # ?", 1),
        ("snowflake dremio", "SELECT // it's ?\n?", 1),
        ("mysql trino", "SELECT 5 // ?", 1),
        ("mysql", "SELECT 5--?\n", 1),
        ("postgres spark", "SELECT 5--?\n", 0),
        ("postgres spark clickhouse", "SELECT /* /* ? */ ? */ ?", 1),
        ("mysql trino bigquery", "SELECT /* /* ? */ ?", 1),
        ("spark databricks", r"SELECT r'\', ?, '?'", 1),
        ("bigquery", r"SELECT r'\'?', ?", 1),
        ("bigquery", "SELECT '''it's ?''', ?, '?'", 1),
        ("bigquery", r'SELECT """a\"""?""", ?', 1),
        ("bigquery", r"SELECT `a\`?`, ?", 1),
        ("mysql spark", 'SELECT "it\'s ?", ?', 1),
        ("oracle", "SELECT q'[it's ?]', ?, Q'!it's ?!', nq'{?}'", 1),
        ("tsql sqlite", "SELECT [it's ?], ?, [a]]?]", 1),
        ("postgres", "SELECT ARRAY[?, '?']", 1),
        ("spark", "SELECT {# ? #} ?", 1),
        ("postgres", "SELECT a$$, ?, '$$'", 1),
    ],
)
def test_marks_in_texts_and_comments_are_none(dialects: str, text: str, marks: int) -> None:
    for dialect in dialects.split():
        lifted = lift(text, dialect)
        assert lifted.marks == marks, dialect
        assert lifted.source.text.count("?") == text.count("?") - marks


def test_numbers_of_parameters_begin_no_text_between_dollars() -> None:
    """sqlglot takes what is between two dollars for the mark of a text, blanks aside."""
    text = lift("SELECT $1,$2, $$?$$", "postgres").source.text
    assert [token.text for token in dialect_of("postgres").tokenize(text)][1:6] == ["$", "1", ",", "$", "2"]
    assert text == "SELECT $1 ,$2 , $$?$$"


@pytest.mark.parametrize(
    ("dialect", "around"),
    [("mysql", "# {}\n"), ("snowflake", "$${}$$"), ("bigquery", '"""{}"""'), ("tsql", "'C:\\', '{}'")],
)
def test_words_of_texts_and_comments_are_no_tokens(dialect: str, around: str) -> None:
    text = f"SELECT 1 {around.format('x, ' * (MAX_TOKENS + 1))}"
    assert len(tokenize(SourceText(text, text), text, dialect_of(dialect))) <= 5


@pytest.mark.parametrize(
    ("dialect", "before"), [("mysql", "# it's\n"), ("trino", "'C:\\'"), ("spark", r"r'\'")]
)
def test_tokens_behind_texts_and_comments_are_counted(dialect: str, before: str) -> None:
    text = f"SELECT {before} {'x ' * (MAX_TOKENS + 1)}"
    with pytest.raises(LimitExceeded, match="more than 100000 tokens"):
        tokens._check_length(text, dialect_of(dialect))


def test_blanks_end_behind_comments_of_the_dialect() -> None:
    for dialect, text in (
        ("mysql", " # a\n-- b\n/* /* */ x"),
        ("bigquery", "# a\nx"),
        ("snowflake", "// a\n\ufeffx"),
        ("spark", "/*+ /* */\r-- b\r /* /* */ */ x"),
    ):
        assert lexer_of(dialect).blanks_end(text, 0) == len(text) - 1
    assert lexer_of("mysql").blanks_end("--x", 0) == 0


@pytest.mark.parametrize(
    ("dialect", "text"),
    [
        ("mysql", "# c\nSELECT 1"),
        ("bigquery", "# it's\n EXPLAIN # c\n SELECT 1"),
        ("snowflake", "// c\n-- c\nWITH a AS (SELECT 1) SELECT * FROM a"),
        ("mysql", "# c\nSHOW TABLES"),
        ("spark", "/* c */ DESCRIBE t"),
    ],
)
def test_a_statement_may_begin_with_comments_of_its_dialect(dialect: str, text: str) -> None:
    parsed = parse(lift(text, dialect), dialect)
    assert parsed.tree is not None or parsed.statement_class is StatementClass.SHOW_TABLES


def test_the_first_word_of_another_dialect_is_where_its_comments_end() -> None:
    with pytest.raises(InvalidInput, match="cannot start with '#'"):
        parse(lift("# c\nSELECT 1", "trino"), "trino")
    with pytest.raises(Unsupported, match="DELETE is not supported"):
        parse(lift("# c\nDELETE FROM t", "mysql"), "mysql")
