"""A text as tokens, within budgets: parsers, and all that comes after them, recurse over what the tokens
nest.

Tokens are cut in linear time. sqlglot's parser is compiled and recurses on the native stack for some
productions, where nothing stops it, and takes more than linear time for others. So whatever nests or chains
is counted before.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect, Dialects
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.dialects.oracle import Oracle
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import InvalidInput, LimitExceeded
from engine.sql.dialect_lexer import DialectLexer, dialect_lexer
from engine.sql.engine_dialect import EngineDialect
from engine.sql.lexer import (
    COMMENT_MARK,
    DOLLAR_MARK,
    ESCAPE_STRING,
    LINE_COMMENT,
    QUOTED_NAME,
    STRING,
    blanks_end,
    comment_end,
    dollar_end,
)
from engine.sql.numbers import split_numbers
from engine.sql.text import SourceText

MAX_TOKENS = 100_000
"""About two seconds of parsing."""
MAX_NESTING = 200
"""Brackets open at once."""
MAX_CHAIN = 100
"""Subscripts, or calls of methods, behind each other: the parser reads each as often as there are others
behind it.
"""
MAX_OPERATORS = 20
"""Operators and keywords in a row, with no operand between them: each nests what follows."""
MAX_TABLES = 1000
"""SELECT, FROM and JOIN together: each can nest what follows."""
MAX_OPEN_JOINS = 10
"""Joins that still wait for their ON: the parser reads what follows such a join twice."""
MAX_PIVOTS = 20
"""PIVOT and UNPIVOT together: the engine plans them in more than linear time."""
MAX_NAME = 1000
"""Characters of a name, and digits of a number: the engine looks for names like one that it does not know in
time that grows with its length, 70 ms for so many, and no other statement is bound meanwhile.
"""
MAX_INTERVAL = 200
"""Characters of a string behind INTERVAL: sqlglot looks for a number and a unit from each of its characters
on, through all digits and blanks that follow, and no other thread runs meanwhile.
"""
MAX_ORACLE_STRING = 1000
"""Characters of any string in Oracle's dialect, where each could be an interval."""
MAX_DOTS = 100
"""Dots of one name, and numbers behind each other: for some dialects sqlglot copies the name at each of them.
"""
MAX_NESTED_TYPES = 64
"""Types such as LIST<…> and STRUCT<…>."""
MAX_NESTED_STRUCTS = 10
"""Types such as STRUCT(…) and NULLABLE(…) within each other: the parser reads the inner ones twice, as types
and as arguments of a function.
"""
MAX_VALUES_IN_TYPES = 5
"""Brackets behind types such as STRUCT<…>(…) that stand within such a type: the parser reads them twice, as a
value of the inner type, and as something else.
"""
COPIED_CALLS = frozenset({"DIV0", "DIV0NULL", "NULLIFZERO", "SORT_ARRAY", "ZEROIFNULL"})
"""Functions of which the parser makes an expression that has an argument several times."""
COPIES_OF_CALLS = 5
"""How much more there is to parse with each level of such calls; measured on `DIV0NULL`."""
QUESTIONS_A_TOKEN = 10
"""How often a parser may ask its dialect something; one question a token is usual, thousands come where it
tries one reading after another.
"""

FACTORIAL = "!"
"""Name of the type that stands for the operator behind an operand: `5!` is parsed as `5::"!"`."""

# It warns of what it reads as a command or cannot write, with a part of the statement, as often as that is
# there. Statements are not for the log, and what is refused is said to whoever has asked.
logging.getLogger("sqlglot").disabled = True

_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_TABLES = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.JOIN, TokenType.STRAIGHT_JOIN})
_WITHOUT_CONDITION = frozenset({TokenType.CROSS, TokenType.NATURAL, TokenType.POSITIONAL})
_PIVOTS = frozenset({TokenType.PIVOT, TokenType.UNPIVOT})
_CHAINS = frozenset({(TokenType.R_BRACKET, TokenType.L_BRACKET), (TokenType.R_PAREN, TokenType.DOT)})
LITERAL_TOKENS = frozenset(
    {
        TokenType.STRING,
        TokenType.NUMBER,
        TokenType.HEX_STRING,
        TokenType.BIT_STRING,
        TokenType.BYTE_STRING,
        TokenType.HEREDOC_STRING,
    }
)
_NAMES_AND_NUMBERS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.NUMBER})
_VALUES = _CLOSING | LITERAL_TOKENS | {TokenType.VAR, TokenType.IDENTIFIER, TokenType.PLACEHOLDER}
_PREFIXES = frozenset(
    {
        TokenType.ALL,
        TokenType.ANY,
        TokenType.SOME,
        TokenType.CASE,
        TokenType.EXISTS,
        TokenType.INTERVAL,
        TokenType.DESCRIBE,
        TokenType.NEXT,
    }
)
"""Keywords that could be names, and nest what follows where they are none."""
_OPERANDS = (
    _VALUES
    | Parser.ID_VAR_TOKENS
    | {TokenType.COMMA, TokenType.SEMICOLON, TokenType.NULL, TokenType.TRUE, TokenType.STAR}
) - _PREFIXES
NESTED_TYPES = frozenset(Parser.NESTED_TYPE_TOKENS) | {TokenType.FILE, TokenType.TABLE}
STRUCT_TYPES = frozenset(Parser.STRUCT_TYPE_TOKENS) - {TokenType.UNION} | {TokenType.NULLABLE, TokenType.FILE}
"""Types that have types in them, in any dialect."""
_COMMENTS = rf"(?P<line_comment>{LINE_COMMENT})|(?P<comment>{COMMENT_MARK})"
_SIGNS = "<>=~!@&|^%#:"
_WORDS_AND_SIGNS = rf"\d\w*+(?:\.\d\w*+)?|\w++|[{_SIGNS}]++|\S"
_PIECES = re.compile(
    rf"{_COMMENTS}|(?P<dollar>{DOLLAR_MARK})|(?P<escapes>{ESCAPE_STRING})|{STRING}|{QUOTED_NAME}|{_WORDS_AND_SIGNS}",
    re.IGNORECASE | re.DOTALL,
)
_TOO_MANY = (
    f"The statement has more than {MAX_TOKENS} tokens without its plain literal lists: pass values as a "
    "parameter."
)
_KEYWORDS = _TABLES | _PIVOTS | {TokenType.LT, TokenType.GT, TokenType.ON, TokenType.USING}
"""Tokens that are counted."""


class _Meter:
    """Ends a parser that asks its dialect much more often than a text of its size needs: some productions are
    tried in each of several readings, and so is what they nest, which takes time that doubles with each
    level.

    Attributes:
        questions: How many more it may ask.
    """

    questions: int

    def __getattribute__(self, name: str) -> object:
        known = object.__getattribute__(self, "__dict__")
        left = known.get("questions", sys.maxsize) - 1
        known["questions"] = left
        if left < 0:
            raise TooManyReadingsError
        return object.__getattribute__(self, name)


class TooManyReadingsError(Exception):
    """A text can be read in too many ways."""


class _HostDialect(EngineDialect, _Meter):
    """DuckDB's dialect."""


_NAMES = frozenset(dialect.value for dialect in Dialects if dialect.value)
"""Classes that are made of a dialect have names, too; those are for nobody."""


_READ_AS = {"athena": "trino"}
"""Athena's parser has another one parse, which asks a dialect that nobody meters. Its queries are Trino's."""


@cache
def _metered_dialect(name: str) -> type[Dialect]:
    # sqlglot shows a dialect to other threads before it is complete, and what is made of it then reads texts
    # wrongly for good. An import waits until the module is whole.
    import_module(f"sqlglot.dialects.{name}")
    kind = type(Dialect.get_or_raise(name))
    return type(f"Metered{kind.__name__}", (kind, _Meter), {})


def dialect_of(name: str) -> Dialect:
    """A dialect by its name, to parse one text.

    Args:
        name: sqlglot's name of it.

    Raises:
        InvalidInput: There is none of that name.
    """
    if name == "duckdb":
        return _HostDialect()
    if name not in _NAMES:
        raise InvalidInput(f"The dialect {name[:100]!r} is not known; there are {', '.join(sorted(_NAMES))}.")
    return _metered_dialect(_READ_AS.get(name, name))()


def parse_tokens(tokens: Sequence[Token], text: str, dialect: Dialect) -> list[exp.Expr | None]:
    """Parse a text.

    Args:
        tokens: As `tokenize` gives them.
        text: The text.
        dialect: As `dialect_of` gives it.

    Returns:
        Its statements.

    Raises:
        SqlglotError: The text is not valid.
        TooManyReadingsError: It has productions that nest others which can be read in several ways.
    """
    parser = dialect.parser()
    dialect.__dict__["questions"] = 1000 + QUESTIONS_A_TOKEN * len(tokens)
    return list(parser.parse(list(tokens), text))


def tokenize(source: SourceText, text: str, dialect: Dialect) -> list[Token]:
    """Cut a text into tokens, and check that they are within the budgets.

    Args:
        source: The text, for places in errors.
        text: The same, with blanks for what is not to be read.
        dialect: Its dialect.

    Returns:
        The tokens, without comments; `FACTORIAL` as a cast.

    Raises:
        TokenError: The text cannot be cut into tokens.
        InvalidInput: It nests too deeply.
        LimitExceeded: It has too many tokens.
    """
    if len(text) > MAX_TOKENS:
        _check_length(text, dialect)
    tokens = dialect.tokenize(text)
    if not isinstance(dialect, EngineDialect):
        tokens = split_numbers(tokens)
    _check(source, tokens)
    _check_words(source, tokens)
    _check_lengths(source, tokens, dialect)
    for token in tokens:
        # The parser gives them to its nodes, and a text that is written of these would have them.
        if token.comments:
            token.comments = []
    return _factorials_as_casts(tokens) if "!" in text and isinstance(dialect, _HostDialect) else tokens


@cache
def lexer_of(name: str) -> DialectLexer:
    """What a dialect's texts, quoted names and comments are.

    Args:
        name: sqlglot's name of it; any but that of DuckDB's.

    Raises:
        InvalidInput: There is none of that name.
    """
    return dialect_lexer(type(dialect_of(name)).tokenizer_class)


def blanks_end_in(text: str, start: int, dialect: str) -> int:
    """Where white space and comments end.

    Args:
        text: A text.
        start: Where to begin.
        dialect: sqlglot's name of its dialect.

    Returns:
        The first place from there on that is neither.
    """
    return blanks_end(text, start) if dialect == "duckdb" else lexer_of(dialect).blanks_end(text, start)


@cache
def _pieces_of(lexer: DialectLexer) -> re.Pattern[str]:
    signs = "".join(sign for sign in _SIGNS if sign in lexer.signs)
    numbers = r"\d\w*+(?:\.\d\w*+)?"
    return re.compile(rf"{lexer.special}|{numbers}|{lexer.word}|[{re.escape(signs)}]++|\S", re.DOTALL)


def _check_length(text: str, dialect: Dialect) -> None:
    """Refuse a text of too many words and signs. No other thread runs while sqlglot cuts a text into tokens,
    which takes a second for a megabyte of them; here others take their turns.
    """
    if not isinstance(dialect, DuckDB):
        _check_length_in(text, dialect_lexer(type(dialect).tokenizer_class))
        return
    count = place = 0
    while found := _PIECES.search(text, place):
        place = found.end()
        if found.lastgroup == "comment":
            place = comment_end(text, found.start())
        elif found.lastgroup == "dollar":
            place = dollar_end(text, found.start(), found[0])
        elif found.lastgroup != "line_comment":
            # sqlglot reads what stands for a quotation mark as slowly as a token.
            escapes = ("'", "\\") if found.lastgroup == "escapes" else ("'",)
            count += 1 + sum(map(found[0].count, escapes)) // 2
        if count > MAX_TOKENS:
            raise LimitExceeded(_TOO_MANY)


def _check_length_in(text: str, lexer: DialectLexer) -> None:
    """Likewise, in another dialect than DuckDB's."""
    pieces = _pieces_of(lexer)
    count = place = 0
    while found := pieces.search(text, place):
        place = found.end()
        if found.lastgroup == "opening":
            place = lexer.end(text, found)
        elif found.lastgroup in ("string", "quoted"):
            count += 1 + sum(map(found[0].count, (found[0][-1], "\\"))) // 2
        else:
            count += found.lastgroup != "line_comment"
        if count > MAX_TOKENS:
            raise LimitExceeded(_TOO_MANY)


def _check(source: SourceText, tokens: Sequence[Token]) -> None:
    if len(tokens) > MAX_TOKENS:
        raise LimitExceeded(_TOO_MANY)
    counts = _Counts()
    for token in tokens:
        counts.count(token)
        refusal = counts.refusal()
        if refusal is not None:
            raise source.error(refusal, token.start)


def _check_words(source: SourceText, tokens: Sequence[Token]) -> None:
    """Refuse CONNECT BY, and START WITH, which may stand without. For these sqlglot makes PRIOR a word of the
    dialect, for all texts at once, and where one is not valid, for good: columns of that name were lost.
    """
    for before, token in pairwise(tokens):
        kind = token.token_type
        if kind is TokenType.CONNECT_BY or (kind is TokenType.WITH and before.text.upper() == "START"):
            raise source.error(
                "CONNECT BY and START WITH are not known: write a recursive common table expression (WITH "
                "RECURSIVE).",
                token.start,
            )


def _check_lengths(source: SourceText, tokens: Sequence[Token], dialect: Dialect) -> None:
    """Refuse tokens that take more than linear time."""
    is_oracle = isinstance(dialect, Oracle)
    before, dots = TokenType.SEMICOLON, 0
    for token in tokens:
        length, kind = len(token.text), token.token_type
        if kind is TokenType.DOT or (kind is TokenType.NUMBER and before is TokenType.NUMBER):
            dots += 1
            if dots > MAX_DOTS:
                raise source.error(f"The name has more than {MAX_DOTS} dots.", token.start)
        elif before is not TokenType.DOT:
            dots = 0
        if length > MAX_INTERVAL:
            if kind in LITERAL_TOKENS and before is TokenType.INTERVAL:
                raise source.error(f"The interval has more than {MAX_INTERVAL} characters.", token.start)
            if length > MAX_NAME and kind in _NAMES_AND_NUMBERS:
                what, of = ("number", "digits") if kind is TokenType.NUMBER else ("name", "characters")
                raise source.error(f"The {what} has more than {MAX_NAME} {of}.", token.start)
            if is_oracle and length > MAX_ORACLE_STRING and kind in LITERAL_TOKENS:
                raise source.error(
                    f"In this dialect a string has {MAX_ORACLE_STRING} characters at the most: pass it as a "
                    "parameter.",
                    token.start,
                )
        before = kind


class _Counts:
    """What nests or chains in the tokens so far."""

    def __init__(self) -> None:
        self._depth = self._chain = self._operators = self._tables = self._open_joins = self._pivots = (
            self._types
        ) = 0
        self._open_types = self._values_in_types = 0
        self._structs: list[int] = []  # the depths of open brackets of struct types
        self._copied: list[int] = []  # likewise, of `COPIED_CALLS`
        self._copies = 0
        self._text_before = ""
        self._before = self._twice_before = TokenType.SEMICOLON

    def count(self, token: Token) -> None:
        """Count a token."""
        token_type, before = token.token_type, self._before
        self._chain += (before, token_type) in _CHAINS
        if token_type in _OPERANDS and not (token_type is TokenType.VAR and token.text.upper() == "IF"):
            self._operators = 0
        elif token_type not in _OPENING:
            self._operators += 1
        if token_type in _OPENING:
            self._open_bracket()
        elif token_type in _CLOSING:
            self._close_bracket()
        elif token_type in _KEYWORDS:
            self._see_keyword(token_type)
        if self._copied:
            self._copies += COPIES_OF_CALLS ** len(self._copied)
        self._twice_before, self._before, self._text_before = before, token_type, token.text

    def _open_bracket(self) -> None:
        self._depth += 1
        self._values_in_types += self._before is TokenType.GT and self._open_types > 0
        if self._before in STRUCT_TYPES:
            self._structs.append(self._depth)
        if self._text_before.upper() in COPIED_CALLS:
            self._copied.append(self._depth)

    def _close_bracket(self) -> None:
        for open_brackets in (self._structs, self._copied):
            if open_brackets and open_brackets[-1] == self._depth:
                open_brackets.pop()
        self._depth -= 1

    def _see_keyword(self, kind: TokenType) -> None:
        if kind in _TABLES:
            self._tables += 1
            self._open_joins += (
                kind is TokenType.JOIN and not {self._before, self._twice_before} & _WITHOUT_CONDITION
            )
        elif kind in _PIVOTS:
            self._pivots += 1
        elif kind is TokenType.LT:
            self._types += self._before in NESTED_TYPES
            self._open_types += self._before in NESTED_TYPES
        elif kind is TokenType.GT:
            self._open_types = max(0, self._open_types - 1)
        else:
            self._open_joins = max(0, self._open_joins - 1)

    def refusal(self) -> str | None:
        """Why there is too much of something; None if there is not."""
        if self._depth > MAX_NESTING:
            return f"The statement nests deeper than {MAX_NESTING} levels."
        if self._chain > MAX_CHAIN:
            return (
                f"The statement has more than {MAX_CHAIN} subscripts, or calls of methods, behind each other."
            )
        if self._operators > MAX_OPERATORS:
            return (
                f"The statement has more than {MAX_OPERATORS} operators and keywords in a row, with "
                "nothing between them."
            )
        if self._tables > MAX_TABLES:
            return f"The statement has more than {MAX_TABLES} SELECTs, FROMs and JOINs."
        if self._open_joins > MAX_OPEN_JOINS:
            return (
                f"The statement has more than {MAX_OPEN_JOINS} JOINs in a row without ON or USING: write "
                "the condition of each behind it."
            )
        if self._pivots > MAX_PIVOTS:
            return (
                f"The statement has more than {MAX_PIVOTS} PIVOTs and UNPIVOTs: make columns of values "
                "with aggregates and FILTER instead."
            )
        if self._types > MAX_NESTED_TYPES or len(self._structs) > MAX_NESTED_STRUCTS:
            return (
                f"The statement has more than {MAX_NESTED_TYPES} types of types, or {MAX_NESTED_STRUCTS} "
                "structs within each other."
            )
        if self._values_in_types > MAX_VALUES_IN_TYPES:
            return (
                f"The statement has more than {MAX_VALUES_IN_TYPES} types with brackets behind them within "
                "other types: types have types and numbers alone."
            )
        if self._copies > MAX_TOKENS:
            return (
                f"The statement has too much within calls of {', '.join(sorted(COPIED_CALLS))}: nest them "
                "less, or work out their arguments in a subquery."
            )
        return None


def _is_type(tokens: Sequence[Token]) -> bool:
    """Whether tokens end in the name of a type that something is cast to."""
    return len(tokens) > 1 and tokens[-2].token_type is TokenType.DCOLON


def _factorials_as_casts(tokens: Sequence[Token]) -> list[Token]:
    """Tokens in which a `!` behind an operand is a cast: it binds as closely."""
    made: list[Token] = []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if (
            token.token_type is TokenType.NOT
            and token.text == "!"
            # `!~` and `!~~` are operators of their own.
            and not (following is not None and following.start == token.end + 1 and following.text[0] == "~")
            and made
            and (made[-1].token_type in _VALUES or _is_type(made))
        ):
            place = (token.line, token.col, token.start, token.end)
            made += [Token(TokenType.DCOLON, "::", *place), Token(TokenType.VAR, FACTORIAL, *place)]
        else:
            made.append(token)
    return made
