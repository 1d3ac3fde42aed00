"""What a statement asks for, as its first words say: SHOW, USE and EXPLAIN are read here, by patterns; what
else may begin a statement goes to the parser.
"""

from __future__ import annotations

import re

from engine.errors import InvalidInput, Unsupported
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.names import fold
from engine.sql.parsed_statement import ParsedStatement, StatementClass
from engine.sql.text import SourceText
from engine.sql.tokens import blanks_end_in

_READS = (
    "select",
    "with",
    "values",
    "from",
    "table",
    "summarize",
    "describe",
    "desc",
    "pivot",
    "pivot_wider",
    "pivot_longer",
    "unpivot",
    "(",
)
_WORD = re.compile(r"[A-Za-z_]+|\S")
_EXPLAIN_OPTION = r"\s*(?:ANALY[ZS]E(?:\s+\w+)?|FORMAT\s+(?:\w+|'\w+'|\"\w+\"))\s*"
EXPLAIN = re.compile(
    rf"EXPLAIN(?:\s*\((?P<options>{_EXPLAIN_OPTION}(?:,{_EXPLAIN_OPTION})*)\)|\s+(?P<analyze>ANALY[ZS]E)\b)?"
    r"(?=\s|\()",
    re.IGNORECASE,
)
"""How an EXPLAIN begins, up to what it explains."""
_FORMAT = re.compile(r"\bFORMAT\s+['\"]?(\w+)", re.IGNORECASE)
_FORMATS = ("DEFAULT", "TEXT", "JSON")
_NAME = r"(?:\w+|\"(?:[^\"]|\"\")*+\")"
_SHOW = re.compile(
    rf"SHOW\s+(TABLES|STORES|HOSTS|SCHEMAS|DATABASES|ALL\s+TABLES)\b(?:\s+(?:FROM|IN)\s+({_NAME}))?",
    re.IGNORECASE,
)
_BARE_SHOW = re.compile(r"(?:SHOW|DESCRIBE|DESC)\b", re.IGNORECASE)
_USE = re.compile(rf"USE\s+({_NAME}(?:\s*\.\s*{_NAME})?)", re.IGNORECASE)
_SHOW_COLUMNS = re.compile(
    rf"(SHOW\s+(?:COLUMNS\s+(?:FROM|IN)\s+)?){_NAME}(?:\s*\.\s*{_NAME}){{0,2}}", re.IGNORECASE
)
_EXPLAINED_ELSEWHERE = ("explain", "show", "use")


def _match_whole(pattern: re.Pattern[str], text: str, begin: int, dialect: str) -> re.Match[str] | None:
    """A match behind which there are blanks, comments and one semicolon at the most."""
    found = pattern.match(text, begin)
    if found is None:
        return None
    end = blanks_end_in(text, found.end(), dialect)
    if text[end : end + 1] == ";":
        end = blanks_end_in(text, end + 1, dialect)
    return found if end == len(text) else None


def described_name(text: str, begin: int, dialect: str) -> int | None:
    """Where the name of the store is that a SHOW describes; None for any other statement."""
    found = _match_whole(_SHOW_COLUMNS, text, begin, dialect)
    return None if found is None else found.end(1)


def parse_show(source: SourceText, begin: int, dialect: str) -> ParsedStatement | None:
    """A statement about what there is, and USE of the schema that is in use anyway; None for any other."""
    if show := _match_whole(_SHOW, source.text, begin, dialect):
        shown = StatementClass(f"show {' '.join(fold(show[1]).split())}")
        if show[2] is None:
            return ParsedStatement(shown, source, None)
        if shown is not StatementClass.SHOW_TABLES:
            raise source.error(f"{shown.value.upper()} takes no name.", show.start(2))
        return ParsedStatement(shown, source, None, shown_schema=_plain_name(show[2]))
    if _match_whole(_BARE_SHOW, source.text, begin, dialect):
        return ParsedStatement(StatementClass.SHOW_ALL_TABLES, source, None)
    if use := _match_whole(_USE, source.text, begin, dialect):
        names = [_plain_name(name) for name in use[1].split(".")]
        if names not in ([CATALOG], [SCHEMA], [CATALOG, SCHEMA]):
            raise source.not_found_error(
                f"There is no schema {'.'.join(names)[:100]} to use: stores are in {CATALOG}.{SCHEMA}.",
                use.start(1),
            )
        return ParsedStatement(StatementClass.USE, source, None)
    return None


def _plain_name(name: str) -> str:
    """A name as the catalog has it, which knows small letters alone."""
    return fold(name.strip().strip('"'))


def explain_class(source: SourceText, found: re.Match[str]) -> tuple[StatementClass, bool]:
    """What an EXPLAIN asks for, and whether as JSON."""
    options = found["options"] or ""
    formats = _FORMAT.findall(options)
    if len(formats) > 1:
        raise source.error("EXPLAIN has one FORMAT.", found.start("options"))
    if formats and formats[0].upper() not in _FORMATS:
        raise Unsupported(f"EXPLAIN has no format {formats[0]}: there are TEXT and JSON.")
    is_json = bool(formats) and formats[0].upper() == "JSON"
    analyzes = found["analyze"] is not None or "analy" in fold(options)
    return (StatementClass.EXPLAIN_ANALYZE if analyzes else StatementClass.EXPLAIN), is_json


def check_first_word(source: SourceText, body: str, begin: int, *, is_explained: bool) -> None:
    """Refuse what begins with a word that no reading statement begins with.

    Args:
        source: The text, for places in errors.
        body: The same, with blanks for what is not to be read.
        begin: Where the blanks and comments before its first word end.
        is_explained: Whether EXPLAIN stands before it.
    """
    word = _WORD.match(body, begin)
    if word is None:
        raise InvalidInput("The statement is empty: write one, such as SHOW TABLES.")
    if is_explained and fold(word[0]) in _EXPLAINED_ELSEWHERE:
        raise Unsupported(f"EXPLAIN {word[0].upper()} is not supported: EXPLAIN a query, such as a SELECT.")
    if fold(word[0]) not in _READS:
        if fold(word[0]) == "show":
            raise Unsupported(
                "SHOW is followed by TABLES, STORES, HOSTS, SCHEMAS, DATABASES, STATEMENTS, SESSIONS, or "
                "COLUMNS FROM and a store, without LIKE, WHERE or LIMIT: information_schema.tables has these."
            )
        if word[0].isalpha():
            raise Unsupported(
                f"{word[0].upper()} is not supported: statements only read "
                "(SELECT, WITH, VALUES, FROM, SHOW TABLES, SHOW STORES, SHOW HOSTS, DESCRIBE, EXPLAIN, USE)."
            )
        raise source.error(f"A statement cannot start with {word[0]!r}.", word.start())
