"""`AS OF EPOCH n` and `AS OF TIMESTAMP '…'`, taken out of a text before it is parsed.

The words stand behind the name of a table in FROM or JOIN, before or behind its alias, and then mean the
group of that store; or at the end of a statement, and then mean all groups that it reads. `AT (VERSION => n)`
and `AT (TIMESTAMP => '…')` are other spellings. Blanks take the place of the words, so that all places in the
text stay and texts that differ only in the moment share a plan.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Protocol

from engine.errors import InvalidInput
from engine.model.names import fold
from engine.model.read_point import AsOf, AsOfEpoch, AsOfTimestamp, ReadPoint
from engine.model.schema import Epoch, GroupName
from engine.sql.bind import StoreReference
from engine.sql.dialect_lexer import DialectLexer
from engine.sql.lexer import (
    COMMENT_MARK,
    DOLLAR_MARK,
    ESCAPE_STRING,
    LINE_COMMENT,
    NO_WIDTH,
    QUOTED_NAME,
    STRING,
    VALUES_AT_ONCE,
    comment_end,
    dollar_end,
)
from engine.sql.literals import lift
from engine.sql.text import SourceText
from engine.sql.tokens import lexer_of
from engine.sql.versions import AsOfClause, AsOfParameter

MAX_EPOCH = (1 << 63) - 1

_HINTS = ("epoch", "timestamp", "version")
_CLAUSE = r"\bAS\s+OF\s+(?:EPOCH|TIMESTAMP)\b|\bAT\s*\(\s*(?:VERSION|TIMESTAMP)\s*=>"
_ANY_CLAUSE = re.compile(_CLAUSE, re.IGNORECASE)
_MAYBE_CLAUSE = re.compile(r"\bOF\b|\bAT\b", re.IGNORECASE)
"""What each has, also with comments between its words."""
_COMMENT_SIGNS = ("--", "/*", "#", "//")
"""One of these is in every comment, whatever the dialect."""
_MARKED_CLAUSE = re.compile(rf"(?:{_CLAUSE})\s*\?", re.IGNORECASE)
_BEHIND_WORDS = rf"""
    |(?P<open>\()|(?P<close>\))|(?P<comma>,)|(?P<dot>\.)
    |(?P<number>-?\d[\w.]*+(?>(?:\s*+,\s*+-?\d[\w.]*+){{0,{VALUES_AT_ONCE}}}))
    |(?P<other>\S)"""
_DUCKDB_TOKENS = re.compile(
    rf"""(?P<line_comment>{LINE_COMMENT})|(?P<comment>{COMMENT_MARK})|(?P<dollar>{DOLLAR_MARK})
    |(?P<string>{ESCAPE_STRING}|{STRING}(?>(?:\s*+,\s*+{STRING}){{0,{VALUES_AT_ONCE}}}))
    |(?P<quoted>{QUOTED_NAME})|(?P<clause>{_CLAUSE})|(?P<word>[^\W\d]\w*){_BEHIND_WORDS}""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_EPOCH = re.compile(r"\s*(\d+)(?![\w.])")
_TIMESTAMP = re.compile(r"\s*(?:TIMESTAMP\s*)?'([^']*)'", re.IGNORECASE)
_PARAMETER = re.compile(r"\s*[$@](\w+)")
_CLOSING = re.compile(r"\s*\)")
_NOT_END = re.compile(rf"[^\s;{NO_WIDTH}]")
_NOT_NEWLINE = re.compile(r"[^\n]")
_KEYWORDS = frozenset(
    {
        "SELECT",
        "FROM",
        "JOIN",
        "WHERE",
        "GROUP",
        "HAVING",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "QUALIFY",
        "WINDOW",
        "ON",
        "USING",
    }
) | {
    "UNION",
    "INTERSECT",
    "EXCEPT",
    "VALUES",
    "WITH",
}
_FIRST_WORDS = frozenset({"PIVOT", "PIVOT_LONGER", "PIVOT_WIDER", "TABLE", "UNPIVOT"})
"""Keywords before a table where they begin a query; behind a table they are none of these."""
_TABLES = frozenset({"FROM", "JOIN"}) | _FIRST_WORDS
_BEGIN = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True)
class AsOfText:
    """A text without its `AS OF`.

    Attributes:
        text: The text, of equal length, with blanks for the words.
        clauses: What was taken out, in the order of the text.
        marked: The text with the words; where a `?` is among them, every `?` has become `$1`, `$2` and so on,
            as blanks leave no gap in a count.
    """

    text: str
    clauses: tuple[AsOfClause, ...] = ()
    marked: str = ""


def take_as_of(text: str, dialect: str = "duckdb") -> AsOfText:
    """Take `AS OF` out of a text.

    Args:
        text: What the user wrote.
        dialect: sqlglot's name of its dialect, which says what strings and comments there are.

    Returns:
        The rest, and what was there.

    Raises:
        InvalidInput: A moment is none, or stands where no table and no end of the statement is; with its
            place.
    """
    lowered = fold(text)
    if not any(hint in lowered for hint in _HINTS):
        return AsOfText(text, marked=text)
    has_comments = any(sign in text for sign in _COMMENT_SIGNS) and _MAYBE_CLAUSE.search(text) is not None
    if not has_comments and not _ANY_CLAUSE.search(text):
        return AsOfText(text, marked=text)
    lexer = _DuckDBLexer() if dialect == "duckdb" else _OtherLexer(lexer_of(dialect))
    plain = _without_comments(text, lexer) if has_comments else text
    if not _ANY_CLAUSE.search(plain):
        return AsOfText(text, marked=text)
    marked = text
    if _MARKED_CLAUSE.search(plain):
        marked = lift(text, dialect, lists=False).source.text
        plain = _without_comments(marked, lexer) if has_comments else marked
    return replace(_Taker(marked, plain, lexer).run(), marked=marked)


class _Lexer(Protocol):
    """Cuts a text into tokens.

    Attributes:
        pattern: Matches the next one, or the beginning of a comment or string.
    """

    pattern: re.Pattern[str]

    def skipped_end(self, text: str, found: re.Match[str]) -> int | None:
        """Where a comment, or a string that is no token here, ends; None for a token."""

    def is_comment(self, found: re.Match[str]) -> bool:
        """Whether what is skipped is a comment."""


class _DuckDBLexer:
    """DuckDB's tokens."""

    pattern = _DUCKDB_TOKENS

    def skipped_end(self, text: str, found: re.Match[str]) -> int | None:
        match found.lastgroup:
            case "line_comment":
                return found.end()
            case "comment":
                return comment_end(text, found.start())
            case "dollar":
                return dollar_end(text, found.start(), found[0])
        return None

    def is_comment(self, found: re.Match[str]) -> bool:
        return found.lastgroup != "dollar"


class _OtherLexer:
    """Tokens of another dialect."""

    def __init__(self, lexer: DialectLexer) -> None:
        self.pattern = _tokens_of(lexer)
        self._lexer = lexer

    def skipped_end(self, text: str, found: re.Match[str]) -> int | None:
        if found.lastgroup == "opening":
            return self._lexer.end(text, found)
        return found.end() if found.lastgroup == "line_comment" else None

    def is_comment(self, found: re.Match[str]) -> bool:
        return found.lastgroup == "line_comment" or self._lexer.is_comment(found)


@cache
def _tokens_of(lexer: DialectLexer) -> re.Pattern[str]:
    behind_words = "".join(_BEHIND_WORDS.split())
    return re.compile(
        rf"{lexer.special}|(?P<clause>(?i:{_CLAUSE}))|(?P<word>(?!\d){lexer.word}){behind_words}", re.DOTALL
    )


def _tokens(text: str, lexer: _Lexer) -> Iterator[re.Match[str]]:
    """The tokens of a text, without comments and strings between dollars."""
    for found, is_token, _ in _pieces(text, lexer):
        if is_token:
            yield found


def _pieces(text: str, lexer: _Lexer) -> Iterator[tuple[re.Match[str], bool, int]]:
    """What a text is made of, whether that is a token, and where it ends."""
    start = 0
    while found := lexer.pattern.search(text, start):
        end = lexer.skipped_end(text, found)
        start = found.end() if end is None else end
        yield found, end is None, start


def _without_comments(text: str, lexer: _Lexer) -> str:
    """A text of the same length, with blanks for comments."""
    parts, copied = list[str](), 0
    for found, is_token, end in _pieces(text, lexer):
        if not is_token and lexer.is_comment(found):
            parts += [text[copied : found.start()], _NOT_NEWLINE.sub(" ", text[found.start() : end])]
            copied = end
    return "".join([*parts, text[copied:]]) if parts else text


@dataclass
class _Level:
    """Where in a query the tokens between two brackets are.

    Attributes:
        keyword: The last keyword of clauses.
        tail: Tokens since that or since the last comma: names, dots, and None for all else.
        tail_offset: Characters before these.
        is_fresh: Whether its bracket stands where a table could be, and no word behind that.
    """

    keyword: str = ""
    tail: list[str | None] = field(default_factory=list)
    tail_offset: int = -1
    is_fresh: bool = False

    def append(self, token: str | None, offset: int) -> None:
        if not self.tail:
            self.tail_offset = offset
        self.tail.append(token)

    def see_word(self, word: str, offset: int) -> None:
        upper = word.upper()
        is_comparison = (
            upper == "FROM" and bool(self.tail) and str(self.tail[-1]).upper() == "DISTINCT"
        )  # IS DISTINCT FROM
        begins = upper in _FIRST_WORDS and (self.keyword in ("", "WITH") or self.is_fresh)
        self.is_fresh = False
        if begins or (upper in _KEYWORDS and not is_comparison):
            self.keyword = upper
            self.tail.clear()
        else:
            self.append(word, offset)

    def table(self) -> str | None:
        """The table whose name, and maybe alias, the tokens end with; None where that is something else."""
        if self.keyword not in _TABLES or not self.tail or None in self.tail:
            return None
        tokens = [token for token in self.tail if token is not None]
        name = tokens.pop(0)
        while len(tokens) >= 2 and tokens[0] == ".":
            name = tokens[1]
            tokens = tokens[2:]
        alias = tokens[1:] if tokens and tokens[0].upper() == "AS" else tokens
        return name if name != "." and "." not in alias and len(alias) <= 1 else None


class _Taker:
    """One pass over the tokens of a text.

    Args:
        text: The text.
        plain: The same, with blanks for comments.
        lexer: Cuts it into tokens.
    """

    def __init__(self, text: str, plain: str, lexer: _Lexer) -> None:
        self._text = text
        self._plain = plain
        self._lexer = lexer
        self._source = SourceText(text, text)
        self._levels = [_Level()]
        self._clauses: list[AsOfClause] = []
        self._parts: list[str] = []
        self._copied = 0

    def run(self) -> AsOfText:
        end = 0
        for found in _tokens(self._plain, self._lexer):
            # What belongs to a clause was taken with it.
            if found.start() >= end and found.lastgroup == "clause":
                end = self._take_clause(found)
            elif found.start() >= end:
                self._read_token(found)
        return AsOfText("".join([*self._parts, self._text[self._copied :]]), tuple(self._clauses))

    def _read_token(self, found: re.Match[str]) -> None:
        level, offset = self._levels[-1], found.start()
        match found.lastgroup:
            case "word":
                level.see_word(found[0], offset)
            case "quoted":
                level.append(found[0][1:-1].replace(found[0][-1] * 2, found[0][-1]), offset)
            case "dot":
                level.append(".", offset)
            case "comma":
                level.tail.clear()
            case "open":
                # Brackets around joins are where a table could be.
                keyword = level.keyword if level.keyword in _TABLES and not level.tail else ""
                level.append(None, offset)
                self._levels.append(_Level(keyword, is_fresh=bool(keyword)))
            case "close":
                if len(self._levels) > 1:
                    self._levels.pop()
            case _:
                level.append(None, offset)

    def _take_clause(self, found: re.Match[str]) -> int:
        """Take a clause out; returns where to go on."""
        level = self._levels[-1]
        as_of, end = self._read_moment(found)
        table = level.table()
        is_last = len(self._levels) == 1 and self._is_end(end)
        if table is None and not is_last:
            raise self._source.error(
                "AS OF stands behind the name of a table in FROM or JOIN, or at the end of the statement.",
                found.start(),
            )
        self._clauses.append(AsOfClause(as_of, table, is_last, found.start(), level.tail_offset))
        level.append(None, found.start())
        blanks = _NOT_NEWLINE.sub(" ", self._text[found.start() : end])
        self._parts += [self._text[self._copied : found.start()], blanks]
        self._copied = end
        return end

    def _is_end(self, offset: int) -> bool:
        """Whether nothing stands behind a place but blanks, comments and semicolons."""
        return _NOT_END.search(self._plain, offset) is None

    def _read_moment(self, found: re.Match[str]) -> tuple[AsOf | AsOfParameter, int]:
        """The moment behind the words, and where it ends."""
        is_timestamp = "TIMESTAMP" in found[0].upper()
        parameter = _PARAMETER.match(self._plain, found.end()) if is_timestamp else None
        if parameter is not None:
            return AsOfParameter(parameter[1]), self._clause_end(found, parameter.end())
        value = (_TIMESTAMP if is_timestamp else _EPOCH).match(self._plain, found.end())
        if value is None:
            wanted = (
                "a timestamp in quotes, such as AS OF TIMESTAMP '2026-01-31 12:00:00'"
                if is_timestamp
                else "a whole number, such as AS OF EPOCH 7"
            )
            raise self._source.error(f"AS OF needs {wanted}.", found.end())
        end = self._clause_end(found, value.end())
        try:
            return (_timestamp(value[1]) if is_timestamp else _epoch(value[1])), end
        except InvalidInput as error:
            raise self._source.error(error.message, value.start(1)) from error

    def _clause_end(self, found: re.Match[str], end: int) -> int:
        """Where a clause ends whose value ends somewhere."""
        if not found[0].endswith(">"):
            return end
        closing = _CLOSING.match(self._plain, end)
        if closing is None:
            raise self._source.error("The bracket of AT (…) is not closed behind its value.", end)
        return closing.end()


def _epoch(digits: str) -> AsOfEpoch:
    epoch = int(digits[:20])
    if epoch > MAX_EPOCH:
        raise InvalidInput(f"No epoch is as large as {digits[:20]}: SHOW STORES has the newest ones.")
    return AsOfEpoch(Epoch(epoch))


def _timestamp(text: str) -> AsOfTimestamp:
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError as error:
        raise InvalidInput(
            f"{text[:40]!r} is no timestamp: write it as 2026-01-31 12:00:00, UTC, or with an offset such as "
            "+02:00."
        ) from error
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
    try:
        moment.astimezone(UTC)
    except OverflowError as error:
        raise InvalidInput(f"{text[:40]!r} is before the year 1 or after 9999 in UTC.") from error
    return AsOfTimestamp((moment - _BEGIN) // _MICROSECOND)


def resolve_as_of(
    source: SourceText,
    clauses: Sequence[AsOfClause],
    references: Sequence[StoreReference],
    parsed: SourceText | None = None,
) -> dict[GroupName, AsOf]:
    """Tie the `AS OF` of a statement to the groups that it reads. A moment of a versioned store is none of an
    epoch: binding has seen to it.

    Args:
        source: The text, for places in errors.
        clauses: What was taken out of it.
        references: Where the statement reads stores.
        parsed: The text that was parsed, where it has other places than `source`.

    Returns:
        What to read of each group that is named.

    Raises:
        InvalidInput: A group is to be read at two moments; an epoch is to be that of several groups; a table
            is no store.
    """
    parsed = parsed or source
    places = [-1 if each.offset < 0 else parsed.position(each.offset).offset for each in references]
    found: dict[GroupName, AsOf] = {}
    for clause in clauses:
        as_of = clause.as_of
        named = [
            each
            for each, place in zip(references, places, strict=True)
            if clause.stands_behind(each.name, place)
        ]
        for group in _groups_of(source, clause, references, named):
            if isinstance(as_of, AsOfParameter):
                raise source.error(
                    (
                        f"Group {group} has no versioned store here: AS OF TIMESTAMP takes a parameter for "
                        "these only."
                    ),
                    clause.offset,
                )
            if found.setdefault(group, as_of) != as_of:
                raise source.error(
                    f"Group {group} is to be read as of two moments, and its stores are read at one epoch.",
                    clause.offset,
                )
    return found


def _groups_of(
    source: SourceText,
    clause: AsOfClause,
    references: Sequence[StoreReference],
    named: Sequence[StoreReference],
) -> list[GroupName]:
    if not named and not clause.is_last:
        raise source.error(
            (
                f"{clause.table} is no store: AS OF stands behind the name of a store, or at the end of the "
                "statement."
            ),
            clause.offset,
        )
    meant = named or references
    groups = sorted(
        {each.definition.group for each in meant if isinstance(clause.as_of, AsOfEpoch) or not each.is_held}
    )
    if not meant:
        raise source.error("The statement reads no store that AS OF could mean.", clause.offset)
    if len(groups) > 1 and isinstance(clause.as_of, AsOfEpoch):
        raise source.error(
            (
                f"The statement reads the groups {', '.join(groups)}, which count their epochs apart: say "
                "AS OF EPOCH per table."
            ),
            clause.offset,
        )
    return groups


def drop_version_moments(
    read_point: ReadPoint, references: Sequence[StoreReference]
) -> dict[GroupName, AsOf | None]:
    """What to read of groups by a session's read point, whose moments are no epochs where all that is read
    of a group are versions.

    Args:
        read_point: The session's.
        references: Where a statement reads stores.

    Returns:
        What to read of each group that has an `as_of` of its own, or is to be read at its newest epoch
        in spite of the session's moment.
    """
    by_epoch = {each.definition.group for each in references if not each.is_held}
    groups = {each.definition.group for each in references} - by_epoch
    return {
        **read_point.as_of,
        **{group: None for group in groups if isinstance(read_point.group_as_of(group), AsOfTimestamp)},
    }
