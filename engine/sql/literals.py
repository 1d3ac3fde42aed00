"""Literals taken out of a text before it is parsed.

A parser spends microseconds on every literal. Long lists (`IN (1, 2, …)`, `(VALUES (1), (2), …)`) are
therefore lifted: the text keeps a reference to a table, and regular expressions and Arrow kernels read the
values. Whatever is not plainly such a list stays in the text, so lifting never changes what a statement
means.

Short statements have a template: their text with `$1`, `$2`, … for the literals. Statements of one template
share a plan.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeAlias

import pyarrow as pa

from engine.errors import LimitExceeded
from engine.sql.dialect_lexer import DialectLexer
from engine.sql.lexer import (
    COMMENT_MARK,
    DOLLAR_MARK,
    ESCAPE_STRING,
    LINE_COMMENT,
    QUOTED_NAME,
    STRING,
    VALUES_AT_ONCE,
    comment_end,
    dollar_end,
    search_in_turns,
)
from engine.sql.literal_values import integer_list, integer_rows, list_values, row_values
from engine.sql.text import Segment, SourceText
from engine.sql.tokens import lexer_of

MAX_STATEMENT_LENGTH = 1 << 20
"""Characters of a statement without its strings and long literal lists: about a second of parsing."""
MAX_PARAMETERS = 1000
MIN_LIST_LENGTH = 64
MAX_TEMPLATE_LENGTH = 4000
LIST_PREFIX = "__list_"
MOST_BLANKS = 8
"""Characters before a list in which the word IN is looked for."""

_STRING = r"'[^']*(?:''[^']*)*'"
_SKIPPED = re.compile(
    rf"""(?P<lift>\bIN\s*\(|\(\s*VALUES\s*(?=\())
    |(?P<strange>\b[a-zA-Z]&?'|{DOLLAR_MARK}|{COMMENT_MARK})
    |(?P<numbered>\$\w++)
    |(?P<mark>\?)
    |{STRING}|{QUOTED_NAME}|{LINE_COMMENT}""",
    re.VERBOSE | re.IGNORECASE,
)
_NOT_COUNTED = frozenset({None, "string", "quoted", "line_comment"})
_ESCAPE_STRING = re.compile(ESCAPE_STRING, re.IGNORECASE | re.DOTALL)
_DOLLAR_NUMBER = r"(?P<numbered>\$\w*+)"
_ITEM = rf"(?:-?\d+|{_STRING}|NULL)"
_INTEGERS = re.compile(r"[-0-9, \t\n\r\f\v]++(?=\))")
"""What may be a list of integers; whether it is, is told by who reads them, in a fraction of the time."""
_INTEGERS_ALONE = re.compile(r"[-0-9, \t\n\r\f\v]++")
_ITEMS = re.compile(
    rf"\s*{_ITEM}(?>(?:\s*,\s*{_ITEM}){{{MIN_LIST_LENGTH - 1},{VALUES_AT_ONCE}}})", re.ASCII | re.IGNORECASE
)
_MORE_ITEMS = re.compile(rf"(?>(?:\s*,\s*{_ITEM}){{1,{VALUES_AT_ONCE}}})", re.ASCII | re.IGNORECASE)
_ROW = rf"\(\s*{_ITEM}(?>(?:\s*,\s*{_ITEM}){{0,{VALUES_AT_ONCE}}})\s*\)"
_INTEGER_ROW = r"\(\s*+-?\d++\s*+\)"
_INTEGER_ROWS = re.compile(
    rf"{_INTEGER_ROW}(?>(?:\s*+,\s*+{_INTEGER_ROW}){{{MIN_LIST_LENGTH - 1},{VALUES_AT_ONCE}}})", re.ASCII
)
_MORE_INTEGER_ROWS = re.compile(rf"(?>(?:\s*+,\s*+{_INTEGER_ROW}){{1,{VALUES_AT_ONCE}}})", re.ASCII)
_ROWS = re.compile(
    rf"{_ROW}(?>(?:\s*,\s*{_ROW}){{{MIN_LIST_LENGTH - 1},{VALUES_AT_ONCE}}})", re.ASCII | re.IGNORECASE
)
_MORE_ROWS = re.compile(rf"(?>(?:\s*,\s*{_ROW}){{1,{VALUES_AT_ONCE}}})", re.ASCII | re.IGNORECASE)
_END_OF_LIST = re.compile(r"\s*(?=\))", re.ASCII)


def _end_of_values(text: str, begun: int, more: re.Pattern[str]) -> int:
    """Where the values of a list end.

    Args:
        text: The text.
        begun: Where those of its values end that are known.
        more: Matches some that follow.
    """
    while found := more.match(text, begun):
        begun = found.end()
    return begun


def _long_integer_list(body: str) -> pa.RecordBatch | None:
    """The values of a list of nothing but integers, if it is long."""
    return integer_list(body) if body.count(",") >= MIN_LIST_LENGTH - 1 else None


_Form: TypeAlias = tuple[re.Pattern[str], re.Pattern[str], Callable[[str], pa.RecordBatch | None]]
_IN_FORMS: tuple[_Form, ...] = (
    (_INTEGERS, _MORE_ITEMS, _long_integer_list),
    (_ITEMS, _MORE_ITEMS, list_values),
)
_VALUES_FORMS: tuple[_Form, ...] = (
    (_INTEGER_ROWS, _MORE_INTEGER_ROWS, integer_rows),
    (_ROWS, _MORE_ROWS, row_values),
)
"""What a list may begin like, how it goes on, and what reads its values; lists of nothing but integers, the
most frequent ones, are read in a third of the time.
"""
_TEMPLATE = re.compile(
    r"""("[^"]*(?:""[^"]*)*"
        |\b(?i:date|timestamp|timestamptz|time|timetz|datetime|interval|zone)\s*'[^']*(?:''[^']*)*')
    |'([^']*(?:''[^']*)*)'
    |((?:(?<=[=<>(,])|(?<=[=<>(,][ ])|(?i:(?<=\sand\s)|(?<=\sbetween\s)))-[0-9]+(?![\w.])
        |(?<![\w$.])[0-9]+(?![\w.]))
    |(--|/\*|[$?\x00]|\b[a-zA-Z]&?')""",
    re.VERBOSE,
)
"""A quoted name or a literal of a type (`DATE '…'`), a string, a whole number (a minus belongs to it where
nothing before can be subtracted from), or what is not read here.
"""


@dataclass(frozen=True)
class LiteralList:
    """A long list of literals.

    Attributes:
        name: Name of the table that stands for it in the lifted text.
        rows: Its values: columns `col0`, `col1`, … as DuckDB names those of VALUES; int32, int64 or string.
    """

    name: str
    rows: pa.RecordBatch


@dataclass(frozen=True)
class LiftedText:
    """A text without its long lists and with numbered parameter marks.

    Attributes:
        source: The text to parse.
        lists: The lists that were lifted, in the order of the text.
        marks: How many `?` were numbered.
    """

    source: SourceText
    lists: tuple[LiteralList, ...] = ()
    marks: int = 0


def too_long_error() -> LimitExceeded:
    """Raised for a statement that is too long to be parsed."""
    return LimitExceeded(
        f"The statement is longer than {MAX_STATEMENT_LENGTH} characters without its strings and plain "
        "literal lists: pass values as a parameter."
    )


def longest_text_error(longest: int) -> LimitExceeded:
    """Raised for a statement whose text takes too much memory.

    Args:
        longest: Bytes of the longest text.
    """
    return LimitExceeded(
        f"The statement is longer than max_sql_bytes allows ({longest} bytes): pass values as parameters."
    )


def too_many_parameters_error() -> LimitExceeded:
    """Raised for a statement with too many parameters."""
    return LimitExceeded(
        f"The statement has more than {MAX_PARAMETERS} parameters: pass a list to = ANY(?) instead."
    )


def lift(text: str, dialect: str, *, lists: bool = True) -> LiftedText:
    """Take long lists out of a text, and number its `?`.

    Args:
        text: What the user wrote.
        dialect: Dialect of the text; only DuckDB's literals are known well enough to lift lists.
        lists: Whether to lift lists.

    Returns:
        The lifted text. Parameter marks have become `$1`, `$2`, …, each one above the highest before it, as
        in DuckDB; in other dialects `@1`, `@2`, …, as many of these read `$1` as a name.

    Raises:
        LimitExceeded: It has too many parameters, or is too long.
    """
    duckdb = dialect == "duckdb"
    lists = lists and duckdb and LIST_PREFIX not in text
    if not lists and "?" not in text and (duckdb or "$" not in text):
        return LiftedText(SourceText(text, text))
    if duckdb:
        return _Lifter(text, lists, "$").run(_SKIPPED)
    lexer = lexer_of(dialect)
    return _Lifter(text, False, "@", lexer).run(_marks_of(lexer))


def _number_of(parameter: str) -> int:
    """The number of a `$1`; 0 for a name, and for what no statement can have."""
    digits = parameter[1:]
    return int(digits) if digits.isdecimal() and len(digits) <= len(str(MAX_PARAMETERS)) else 0


@cache
def _marks_of(lexer: DialectLexer) -> re.Pattern[str]:
    """What is looked for in texts of another dialect than DuckDB's."""
    numbered = f"{_DOLLAR_NUMBER}|" if lexer.has_dollar_marks else ""
    return re.compile(rf"{lexer.special}|(?P<mark>\?)|{numbered}{lexer.plain}", re.DOTALL)


class _Lifter:
    """One pass over a text; the parts that stay are copied, the others replaced."""

    def __init__(self, text: str, lists: bool, sign: str, lexer: DialectLexer | None = None) -> None:
        self._text = text
        self._lists = lists
        self._sign = sign
        self._lexer = lexer
        self._found: list[LiteralList] = []
        self._marks = self._highest = 0
        self._parts: list[str] = []
        self._length = 0
        self._copied = 0
        self._segments: list[Segment] = []

    def run(self, tokens: re.Pattern[str]) -> LiftedText:
        text, place, read = self._text, 0, 0
        while found := search_in_turns(tokens, text, place):
            read += found.start() - place + (0 if found.lastgroup in _NOT_COUNTED else len(found[0]))
            if read > MAX_STATEMENT_LENGTH:
                raise too_long_error()
            place = found.end()
            if found.lastgroup == "mark":
                self._marks += 1
                if self._marks > MAX_PARAMETERS:
                    raise too_many_parameters_error()
                self._highest += 1
                # A `?` may touch a following digit or word, and `$1` must not.
                self._replace(found.start(), found.end(), f" {self._sign}{self._highest} ")
            elif found.lastgroup == "numbered":
                self._highest = max(self._highest, _number_of(found[0]))
                # sqlglot takes what is between two dollars for the mark of a string, blanks aside.
                self._replace(found.start(), found.end(), f"{found[0]} ")
            elif found.lastgroup == "lift" and self._lists:
                place = self._lift(found)
            elif found.lastgroup == "strange":
                # Escape strings, dollar quotes and block comments need a real lexer: from here on nothing is
                # lifted.
                self._lists = False
                place = self._skip_strange(found)
            elif found.lastgroup == "opening" and self._lexer is not None:
                place = self._lexer.end(text, found)
        self._parts.append(text[self._copied :])
        source = SourceText(text, "".join(self._parts), tuple(self._segments))
        return LiftedText(source, tuple(self._found), self._marks)

    def _skip_strange(self, found: re.Match[str]) -> int:
        text, opening = self._text, found[0]
        if opening == "/*":
            return comment_end(text, found.start())
        if opening.startswith("$"):
            return dollar_end(text, found.start(), opening)
        escaped = _ESCAPE_STRING.match(text, found.start())
        return found.end() - 1 if escaped is None else escaped.end()

    def _lift(self, found: re.Match[str]) -> int:
        """Lift the list behind `IN (` or `(VALUES`, if it is one; returns where to go on."""
        values = found[0].startswith("(")
        body = found.end()
        listed = self._list_at(body, _VALUES_FORMS if values else _IN_FORMS)
        if listed is None:
            return body
        end, rows = listed
        name = f"{LIST_PREFIX}{len(self._found)}"
        self._found.append(LiteralList(name, rows))
        start = found.start() + 1 if values else body
        self._replace(start, end, f'SELECT {"*" if values else "col0"} FROM "{name}"')
        return end

    def _list_at(self, body: int, forms: Sequence[_Form]) -> tuple[int, pa.RecordBatch] | None:
        """Where the list that begins at a place ends, and its values; None if there is none that can be
        lifted.
        """
        for begin, more, read in forms:
            begun = begin.match(self._text, body)
            if begun is None:
                continue
            end = _END_OF_LIST.match(self._text, _end_of_values(self._text, begun.end(), more))
            if end is not None:
                rows = read(self._text[body : end.end()])
                return None if rows is None else (end.end(), rows)
        return None

    def _replace(self, start: int, end: int, replacement: str) -> None:
        kept = self._text[self._copied : start]
        self._parts += [kept, replacement]
        begin = self._length + len(kept)
        self._length = begin + len(replacement)
        self._segments.append(Segment(begin, self._length, start, end))
        self._copied = end


@dataclass(frozen=True)
class Template:
    """A short text with its literals taken out.

    Attributes:
        text: The text with `$1`, `$2`, … for the literals.
        values: The literals: `int` of a number, `str` of a string.
        written: The literals as they are written.
        parts: What is around them, one more.
    """

    text: str
    values: tuple[int | str, ...]
    written: tuple[str, ...] = field(default=(), compare=False)
    parts: tuple[str, ...] = field(default=(), compare=False)


def template_of(text: str) -> Template | None:
    """The template of a short text in DuckDB's dialect.

    Args:
        text: What the user wrote.

    Returns:
        The template; None for a text that is long, has parameters, comments or strings of other forms, or no
        literal at all.
    """
    if len(text) > MAX_TEMPLATE_LENGTH:
        return None
    values: list[int | str] = []
    written: list[str] = []
    parts: list[str] = []
    copied = 0
    for found in _TEMPLATE.finditer(text):
        group = found.lastindex
        if group == 1:
            continue
        if group == 4:
            return None
        start = found.start(2) - 1 if group == 2 else found.start()
        values.append(int(found[3]) if group == 3 else found[2].replace("''", "'"))
        parts.append(text[copied:start])
        written.append(text[start : found.end()])
        copied = found.end()
    if not values:
        return None
    parts.append(text[copied:])
    pieces = [parts[0]]
    for number, part in enumerate(parts[1:], 1):
        pieces += (f" ${number} ", part)
    return Template("".join(pieces), tuple(values), tuple(written), tuple(parts))


_BEGIN_OF_STRINGS = re.compile(rf"\s*{_STRING}")
_MORE_STRINGS = re.compile(rf"(?>(?:\s*,\s*{_STRING}){{1,{VALUES_AT_ONCE}}})")
_STRING_IN_LIST = re.compile(_STRING)
_LIST_FOLLOWS = re.compile(r"\bIN\s*$", re.IGNORECASE)


def split_last_list(text: str) -> tuple[str, str] | None:
    """Cut a text that ends in a list at it.

    Args:
        text: What the user wrote, in DuckDB's dialect.

    Returns:
        What is before the list's parenthesis, which ends in IN, and what is in the parentheses; None for a
        text that ends in anything else, or has comments, which the list might be part of, or a NUL, which the
        engine refuses.
    """
    if not text.endswith(")") or "\x00" in text:
        return None
    head, opening, body = text[:-1].rpartition("(")
    if not opening or _LIST_FOLLOWS.search(head, len(head) - MOST_BLANKS) is None:
        return None
    return None if "--" in head or "/*" in head else (head, body)


def listed_keys(body: str, arrow_type: pa.DataType) -> pa.Array | None:
    """The values of a list of literals that are all plainly of one type.

    Args:
        body: What is between the parentheses of the list.
        arrow_type: A type of integers, or string.

    Returns:
        The values, which may repeat; None where one is of another type, or nothing is known of it here.
    """
    if pa.types.is_string(arrow_type):
        begun = _BEGIN_OF_STRINGS.match(body)
        if begun is None or body[_end_of_values(body, begun.end(), _MORE_STRINGS) :].strip():
            return None
        texts = [found[1:-1].replace("''", "'") for found in _STRING_IN_LIST.findall(body)]
        try:
            return pa.array(texts, arrow_type)
        except UnicodeEncodeError:
            return None  # half of a surrogate pair, as JSON may have it, is no text
    if _INTEGERS_ALONE.fullmatch(body) is None:
        return None
    numbers = integer_list(body)
    if numbers is None:
        return None
    (values,) = numbers.columns
    if values.type == arrow_type:
        return values
    try:
        return values.cast(arrow_type)
    except pa.ArrowInvalid:
        return None  # one is not of the type's range, so that the engine compares in a wider one


def ends_in_limit(template: Template) -> bool:
    """Whether the last literal of a text is its end, behind `LIMIT`."""
    *_, before, behind = template.parts
    return before.strip().upper() == "LIMIT" and not behind.strip() and isinstance(template.values[-1], int)


def likely_template(text: str) -> Template | None:
    """The template of a text whose only literal is behind `=` and at its end, or with nothing behind it but
    `LIMIT` and a number, which stays; without a look at what is before: a guess, a tenth of the work of
    `template_of`.

    Nothing before `=` in such a template is a literal, so if the guess is one of some text, it is that of
    this text too.

    Args:
        text: What the user wrote.

    Returns:
        What may be the template; None for a text that ends in anything else.
    """
    if len(text) > MAX_TEMPLATE_LENGTH:
        return None
    head, equals, tail = text.rpartition("=")
    if not equals:
        return None
    words = tail.rsplit(None, 2)
    has_limit = (
        len(words) == 3 and words[1].upper() == "LIMIT" and words[2].isdecimal() and words[2].isascii()
    )
    literal = (words[0] if has_limit else tail).strip()
    number = literal.removeprefix("-")
    value: int | str
    if number.isdecimal() and number.isascii():
        value = int(literal)
    elif len(literal) >= 2 and literal[0] == literal[-1] == "'" and "'" not in literal[1:-1]:
        value = literal[1:-1]
    else:
        return None
    return Template(f"{head}={tail.replace(literal, ' $1 ', 1)}", (value,))
