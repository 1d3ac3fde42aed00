"""DuckDB's dialect as DuckDB has it: what is read in it is written as it was.

sqlglot reads DuckDB's texts to write them for other databases, and texts of others for DuckDB. So it puts
functions of its own in place of DuckDB's, some of which it then writes otherwise, or refuses. Its parser and
its writer are compiled and have no subclasses: here tokens are changed before the parser, trees behind it,
and the writer is told how to write some nodes.

Functions that nothing looks at by their kind are hidden from the parser: they stay names with arguments.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.generator import Generator
from sqlglot.parser import Parser
from sqlglot.tokenizer_core import Token, TokenType

from engine.model.names import fold
from engine.sql.numbers import split_numbers

KNOWN_FUNCTIONS = frozenset(
    """
    abs any_value approx_count_distinct approx_quantile arg_max arg_min argmax argmin array_agg avg
    bit_and bit_or bit_xor bool_and bool_or cast ceil ceiling char_length character_length coalesce
    columns contains count count_if countif cume_dist current_database current_localtimestamp current_role
    current_schemas day dense_rank ends_with exp first_value floor gen_random_uuid generate_series
    get_current_time greatest group_concat grouping grouping_id if ifnull kurtosis lag last last_value
    lead least len length list_value listagg ln max max_by median min min_by mod mode month nth_value
    ntile nullif overlay percent_rank percentile_cont percentile_disc position pow power quantile
    quantile_cont quantile_disc random rank regexp_matches replace round row_number skewness sqrt
    starts_with stddev stddev_pop stddev_samp string_agg struct_pack substring sum today trim try_cast
    var_pop var_samp variance version year
    """.split()  # noqa: SIM905 - a list of eighty lines otherwise
)
"""Functions that the parser is to know: it reads the arguments of some in a way of their own, and nodes tell
others elsewhere. All are written as they were, or under a name that means the same.
"""
_HIDDEN = "\x00"
"""Begins the name of a function that the parser is not to know. No text that DuckDB reads has it."""
_ITSELF = f"{_HIDDEN}{_HIDDEN}"
"""Names the function that stands for its argument, which is what IN looks into."""
_NAMED = f"{_HIDDEN}as"
"""Names the function that stands for a value with a name."""
_PARSER = DuckDB.parser_class
_HIDDEN_FUNCTIONS = frozenset(
    fold(name)
    for names in (_PARSER.FUNCTIONS, _PARSER.FUNCTION_PARSERS, ("APPLY",))
    for name in names
    if fold(name) not in KNOWN_FUNCTIONS
)
_NAMES = frozenset(
    {
        *(TokenType.VAR, TokenType.IDENTIFIER, TokenType.APPLY, TokenType.FILTER, TokenType.FORMAT),
        *(TokenType.LEFT, TokenType.RIGHT, TokenType.XOR),
    }
)
"""Tokens that name functions; others are words of SQL as well, or types, and are always known."""
OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_NUMBER_ENDS = CLOSING | {TokenType.NUMBER, TokenType.STRING, TokenType.VAR, TokenType.IDENTIFIER}
"""What a dot behind takes a part of."""
_LITERALS = {"x": TokenType.HEX_STRING, "b": TokenType.BIT_STRING}
"""By the letter before them, what strings are."""
_TWO_WORDS = {
    ("ORDER", "BY"): TokenType.ORDER_BY,
    ("GROUP", "BY"): TokenType.GROUP_BY,
    ("PARTITION", "BY"): TokenType.PARTITION_BY,
    ("GROUPING", "SETS"): TokenType.GROUPING_SETS,
    ("SIMILAR", "TO"): TokenType.SIMILAR_TO,
    ("DOUBLE", "PRECISION"): TokenType.DOUBLE,
    ("CHAR", "VARYING"): TokenType.VARCHAR,
    ("CHARACTER", "VARYING"): TokenType.VARCHAR,
}
"""Words that are one token for the parser, if no comment stands between."""
_FIRST_WORDS = frozenset(
    {TokenType.VAR, TokenType.PARTITION, TokenType.DOUBLE, TokenType.CHAR, TokenType.TEXT}
)
"""As which the first of them is read alone."""
_BEFORE_WINDOW = frozenset({TokenType.OVER, TokenType.ALIAS})
_FRAME_STARTS = frozenset({"BETWEEN", "UNBOUNDED", "CURRENT"})
_SECOND_OF_TWO = frozenset({TokenType.VAR, TokenType.L_BRACE})
_PIVOTS = frozenset({TokenType.PIVOT, TokenType.UNPIVOT})
_SELECT_FROM = (
    (TokenType.SELECT, "SELECT"),
    (TokenType.STAR, "*"),
    (TokenType.FROM, "FROM"),
    (TokenType.L_PAREN, "("),
)
_SET_OPERATIONS = frozenset({TokenType.UNION, TokenType.EXCEPT, TokenType.INTERSECT})
_BEFORE_QUERY = _SET_OPERATIONS | {
    *(TokenType.L_PAREN, TokenType.SEMICOLON, TokenType.ALL, TokenType.DISTINCT),
    *(TokenType.DESCRIBE, TokenType.SUMMARIZE),
}
_BEHIND_QUERY = _SET_OPERATIONS | {
    *(TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET, TokenType.FETCH),
}
_BESIDE_QUERY = _SET_OPERATIONS | {TokenType.ALL, TokenType.DISTINCT, TokenType.VAR}
_BEFORE_TABLE = frozenset({TokenType.FROM, TokenType.JOIN, TokenType.COMMA, TokenType.ALIAS, *_PIVOTS})
_ENDS = CLOSING | {TokenType.SEMICOLON}
_QUERIES = frozenset({TokenType.SELECT, TokenType.WITH, TokenType.FROM, TokenType.VALUES, TokenType.TABLE})
_ARITHMETIC = frozenset(
    {
        *(TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH, TokenType.DIV, TokenType.MOD),
        *(TokenType.CARET, TokenType.DSTAR),
    }
)
_OTHER_OPERATORS = _ARITHMETIC | {
    *(TokenType.DPIPE, TokenType.AMP, TokenType.PIPE),
}
_OPERANDS_BEHIND = {
    TokenType.TILDE: _ARITHMETIC,
    TokenType.ARROW: _OTHER_OPERATORS,
    TokenType.IN: _OTHER_OPERATORS,
}
"""Which operators bind closer than these, in what stands behind them: the parser has others."""
_BRACKETED = _PIVOTS | _OPERANDS_BEHIND.keys()
_GROUPED = frozenset({TokenType.INTERVAL, TokenType.COLON, TokenType.FOR, TokenType.ARROW})
_GROUPING = frozenset({TokenType.INTERVAL, TokenType.ARROW, TokenType.L_BRACKET})
_LITERAL_TOKENS = frozenset({TokenType.STRING, TokenType.NUMBER})
_BEFORE_ARGUMENT = frozenset({TokenType.L_PAREN, TokenType.COMMA})
_LESS = frozenset({TokenType.LT, TokenType.LTE})
_BEHIND_COLUMNS = _LESS | {
    *(TokenType.L_BRACKET, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH),
    *(TokenType.ASC, TokenType.DESC),
}
_BEFORE_TYPE = _PARSER.ID_VAR_TOKENS | {
    *(TokenType.DCOLON, TokenType.ALIAS, TokenType.DOT, TokenType.IDENTIFIER),
}
_CONSTRUCTORS = frozenset({TokenType.ARRAY, TokenType.MAP})
_BOUND_ENDS = frozenset({TokenType.COLON, TokenType.R_BRACKET})
_NULLS = frozenset({"IGNORE", "RESPECT"})
_SIGNS = frozenset({TokenType.DASH, TokenType.PLUS, TokenType.TILDE})
_SUBSCRIPTS = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_BEHIND_OPERANDS = frozenset({TokenType.DOT, TokenType.DCOLON})
_OPERANDS = (
    _PARSER.ID_VAR_TOKENS
    | _PARSER.FUNC_TOKENS
    | {
        *(
            TokenType.NUMBER,
            TokenType.STRING,
            TokenType.HEX_STRING,
            TokenType.BIT_STRING,
            TokenType.BYTE_STRING,
        ),
        *(TokenType.HEREDOC_STRING, TokenType.NULL, TokenType.TRUE, TokenType.FALSE, TokenType.IDENTIFIER),
    }
) - {TokenType.CASE, TokenType.INTERVAL}
_LONGEST_OPERAND = 64
"""Tokens and brackets of what is looked through behind an operator."""
UNITS = frozenset(
    """
    microsecond millisecond second minute hour day week month quarter year decade century centurie millennium
    millennia
    """.split()  # noqa: SIM905 - a list of fifteen lines otherwise
)
"""Of intervals, without the letter that makes several of one."""
_NO_NAMES = frozenset({TokenType.STRING, TokenType.NUMBER, TokenType.END})
_WORD = re.compile(r"\w")
_OPERATOR_SIGNS = frozenset("~!@#^&|`?+-*/%<>=")

_Write = Callable[[Generator, Any], str]


class EngineDialect(DuckDB):
    """DuckDB's dialect. Trees of texts in other dialects are written in it, too."""

    def tokenize(self, sql: str, dialect: Any = None) -> list[Token]:
        """A text as tokens that the parser reads as DuckDB reads the text."""
        return _readable(super().tokenize(sql, dialect))

    def parser(self, **opts: Any) -> Any:
        """What makes trees of such tokens."""
        return _Reader(super().parser(**opts))

    def generator(self, **opts: Any) -> Generator:
        """What writes trees."""
        made = super().generator(**opts)
        made._dispatch = _writers()  # noqa: SLF001 - it takes no other way
        return made

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """A path into JSON is a value like others."""
        return path


class _Reader:
    """A parser of DuckDB's texts."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser

    def parse(self, tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        return [tree and _as_written(tree) for tree in self._parser.parse(tokens, sql)]

    def parse_into(self, types: Any, tokens: list[Token], sql: str) -> list[exp.Expr | None]:
        return [tree and _as_written(tree) for tree in self._parser.parse_into(types, tokens, sql)]


def _readable(tokens: Sequence[Token]) -> list[Token]:
    """Tokens with what the parser reads otherwise than DuckDB put in another way."""
    whole = hide_lists(_merge_literals(split_numbers(tokens)))
    return _with_brackets(_in_groups(_name_columns(whole)))


def hide_lists(tokens: Sequence[Token]) -> list[Token]:
    """Tokens in which a column `list` or `array` before a subscript is hidden: the parser takes `t.list[1]`
    for the list of 1, whatever is before the dot.

    Args:
        tokens: The tokens of a text in any dialect.
    """
    made = list(tokens)
    for place, (token, following) in enumerate(pairwise(tokens)):
        if following.token_type is not TokenType.L_BRACKET:
            continue
        name = token.text.upper()
        if name not in _PARSER.ARRAY_CONSTRUCTORS:
            continue
        before = tokens[place - 1].token_type if place else TokenType.SEMICOLON
        is_quoted = token.token_type is TokenType.IDENTIFIER
        if is_quoted or before is TokenType.DOT or (name == "LIST" and before not in _BEFORE_TYPE):
            kind = TokenType.IDENTIFIER if is_quoted else TokenType.VAR
            made[place] = token_near(kind, _HIDDEN + token.text, token)
    return made


def show_lists(tree: exp.Expr) -> exp.Expr:
    """A tree of such tokens with the names that were hidden; changed in place.

    Args:
        tree: What the parser made of them.
    """
    for node in tree.find_all(exp.Identifier):
        name = str(node.this)
        if name.startswith(_HIDDEN):
            node.set("this", name.removeprefix(_HIDDEN))
    return tree


def _name_columns(tokens: list[Token]) -> list[Token]:
    """Tokens in which columns that are called as types are names: the parser takes `list < 3` for a type with
    types in it, `string[1]` for a place of `text`, and `interval + 1` for a second.
    """
    places = [
        place
        for place, (token, following) in enumerate(pairwise(tokens))
        if token.token_type in _PARSER.TYPE_TOKENS and following.token_type in _BEHIND_COLUMNS
    ]
    if not places:
        return tokens
    around = _brackets_around(tokens)
    made = list(tokens)
    for place in places:
        if _is_column(tokens, place, around[place]):
            made[place] = token_near(TokenType.IDENTIFIER, tokens[place].text, tokens[place])
    return made


def _is_column(tokens: Sequence[Token], place: int, around: int) -> bool:
    """Whether the word at a place, which could be a type, is a column.

    Args:
        tokens: The tokens of a text.
        place: Of the word.
        around: Where the bracket around it is opened; -1 for none.
    """
    kind, behind = tokens[place].token_type, tokens[place + 1].token_type
    if behind in _LESS:
        return kind in _PARSER.NESTED_TYPE_TOKENS
    before = tokens[place - 1].token_type if place else TokenType.SEMICOLON
    if behind is not TokenType.L_BRACKET:
        return kind is TokenType.INTERVAL and before not in _BEFORE_TYPE
    if kind in _CONSTRUCTORS or before in _BEFORE_TYPE or tokens[place + 2].token_type in CLOSING:
        return False
    if before not in _BEFORE_ARGUMENT:
        return True
    return around < 1 or tokens[around - 1].token_type not in _PARSER.TYPE_TOKENS


def _brackets_around(tokens: Sequence[Token]) -> list[int]:
    """Where the bracket around each token is opened; -1 outside of all."""
    opened, made = [-1], []
    for place, token in enumerate(tokens):
        if token.token_type in CLOSING and len(opened) > 1:
            opened.pop()
        made.append(opened[-1])
        if token.token_type in OPENING:
            opened.append(place)
    return made


def _merge_literals(tokens: Sequence[Token]) -> list[Token]:
    """Tokens with whole literals, and with functions hidden that the parser is not to know."""
    made: list[Token] = []
    place = 0
    while place < len(tokens):
        found = _literal(tokens, place) or _extract(tokens, place)
        if found is None:
            made.append(_hide_function(tokens, place))
            place += 1
        else:
            replacement, place = found
            made += replacement
    return made


def _literal(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """The tokens for a literal of several, an operator or a keyword that begins at a place, and where others
    begin; None for anything else.
    """
    token = tokens[place]
    if token.token_type is TokenType.NULLSAFE_EQ:
        is_put = place > 1 and tokens[place - 2].token_type is TokenType.OPERATOR
        return ([token] if is_put else _operator(token)), place + 1
    if place + 1 == len(tokens):
        return None
    following = tokens[place + 1]
    kind = token.token_type
    if following.token_type is TokenType.NUMBER:
        if kind is TokenType.DOT and _begins_number(tokens, place):
            return [_token_of(TokenType.NUMBER, f".{following.text}", token, following)], place + 2
    elif following.token_type is TokenType.STRING:
        letter = fold(token.text)
        if kind is TokenType.VAR and letter in _LITERALS and following.start == token.end + 1:
            return [_token_of(_LITERALS[letter], following.text, token, following)], place + 2
        if kind is TokenType.STRING:
            return _joined_strings(tokens, place)
        if kind is TokenType.JSON or (kind is TokenType.INTERVAL and not _has_unit(tokens, place)):
            return _cast(following, token), place + 2
    elif following.token_type in _SECOND_OF_TWO:
        return _two_tokens(tokens, place)
    return None


def _two_tokens(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """The tokens for a keyword whose words a comment parts, or for `MAP {}`, of which the parser makes
    `MAP MAP()`; as for `_literal`.
    """
    token, following = tokens[place : place + 2]
    words = token.text.upper(), following.text.upper()
    if words in _TWO_WORDS and token.token_type in _FIRST_WORDS:
        return [_token_of(_TWO_WORDS[words], " ".join(words), token, following)], place + 2
    if token.token_type is TokenType.MAP and place + 2 < len(tokens):
        end = tokens[place + 2]
        if end.token_type is TokenType.R_BRACE and following.token_type is TokenType.L_BRACE:
            brackets = token_near(TokenType.L_PAREN, "(", following), token_near(TokenType.R_PAREN, ")", end)
            return [token, *brackets], place + 3
    return None


def _operator(token: Token) -> list[Token]:
    """`<=>` is the distance of vectors by their angle; the parser takes it for IS NOT DISTINCT FROM."""
    return [
        token_near(TokenType.OPERATOR, "OPERATOR", token),
        token_near(TokenType.L_PAREN, "(", token),
        token_near(TokenType.VAR, token.text, token),
        token_near(TokenType.R_PAREN, ")", token),
    ]


def _begins_number(tokens: Sequence[Token], place: int) -> bool:
    """Whether the dot at a place begins a number, which stands right behind it."""
    dot, number = tokens[place], tokens[place + 1]
    if number.start != dot.end + 1:
        return False
    before = tokens[place - 1] if place else None
    return before is None or before.end + 1 != dot.start or before.token_type not in _NUMBER_ENDS


def _joined_strings(tokens: Sequence[Token], place: int) -> tuple[list[Token], int]:
    """Strings behind each other are one."""
    end = place
    while end < len(tokens) and tokens[end].token_type is TokenType.STRING:
        end += 1
    text = "".join(token.text for token in tokens[place:end])
    return [_token_of(TokenType.STRING, text, tokens[place], tokens[end - 1])], end


def _has_unit(tokens: Sequence[Token], place: int) -> bool:
    """Whether a unit follows the string behind the INTERVAL at a place."""
    return place + 2 < len(tokens) and fold(tokens[place + 2].text).removesuffix("s") in UNITS


def _cast(value: Token, to: Token) -> list[Token]:
    """`INTERVAL '1.5 days'` as a cast: the parser makes `'1.5' DAYS` of it, which DuckDB rounds. It takes
    `JSON '…'` for the function, which leaves blanks out.
    """
    return [
        token_near(TokenType.VAR, "CAST", to),
        token_near(TokenType.L_PAREN, "(", to),
        value,
        token_near(TokenType.ALIAS, "AS", to),
        to,
        token_near(TokenType.R_PAREN, ")", value),
    ]


def _extract(tokens: Sequence[Token], place: int) -> tuple[list[Token], int] | None:
    """`EXTRACT(part FROM …` at a place as `date_part('part', …`, and where other tokens begin."""
    name = tokens[place]
    if name.token_type is not TokenType.VAR or fold(name.text) != "extract" or place + 3 >= len(tokens):
        return None
    opening, part, behind = tokens[place + 1 : place + 4]
    if opening.token_type is not TokenType.L_PAREN or behind.token_type is not TokenType.FROM:
        return None
    return [
        token_near(TokenType.VAR, f"{_HIDDEN}date_part", name),
        opening,
        token_near(TokenType.STRING, part.text, part),
        token_near(TokenType.COMMA, ",", behind),
    ], place + 4


def _hide_function(tokens: Sequence[Token], place: int) -> Token:
    """The token at a place, which is hidden if it names a function that the parser is not to know."""
    token = tokens[place]
    if token.token_type is TokenType.VAR and token.text.upper() == "PIVOT_LONGER":
        return token_near(TokenType.UNPIVOT, token.text, token)
    if token.text.upper() == "GROUPS" and _begins_frame(tokens, place):
        return token_near(TokenType.ROWS, token.text, token)
    if token.token_type not in _NAMES or fold(token.text) not in _HIDDEN_FUNCTIONS:
        return token
    if place + 1 == len(tokens) or tokens[place + 1].token_type is not TokenType.L_PAREN:
        return token
    if token.token_type is TokenType.FILTER and tokens[place - 1].token_type is TokenType.R_PAREN:
        return token
    return token_near(TokenType.VAR, _HIDDEN + token.text, token)


def _begins_frame(tokens: Sequence[Token], place: int) -> bool:
    """Whether the word at a place is the first one of a window, and not a name. The parser knows ROWS and
    RANGE there.
    """
    if not 2 <= place < len(tokens) - 1 or tokens[place].token_type is not TokenType.VAR:
        return False
    window, opening, following = tokens[place - 2], tokens[place - 1], tokens[place + 1]
    if opening.token_type is not TokenType.L_PAREN or window.token_type not in _BEFORE_WINDOW:
        return False
    return following.token_type is TokenType.NUMBER or following.text.upper() in _FRAME_STARTS


def is_name(token: Token) -> bool:
    """Whether a token is a name, or a word that could be one."""
    return token.token_type is TokenType.IDENTIFIER or (
        token.token_type not in _NO_NAMES and _WORD.match(shown_name(token)) is not None
    )


def shown_name(token: Token) -> str:
    """The name that a token has in the text."""
    return token.text.removeprefix(_HIDDEN)


def token_near(kind: TokenType, text: str, near: Token) -> Token:
    """A token that the text does not have, at the place of one that it has."""
    return Token(kind, text, near.line, near.col, near.start, near.end)


def _token_of(kind: TokenType, text: str, first: Token, last: Token) -> Token:
    """One token that stands for several."""
    return Token(kind, text, last.line, last.col, first.start, last.end)


def _in_groups(tokens: list[Token]) -> list[Token]:
    """Tokens with brackets around what the parser takes for something else without them, and with the names
    by which it knows functions of windows.
    """
    if not any(
        token.token_type in _GROUPED or (len(token.text) == 5 and token.text.upper() == "NULLS")
        for token in tokens
    ):
        return tokens
    closing = ends_of_brackets(tokens)
    opened: dict[int, list[Token]] = {}
    ends: Counter[int] = Counter()
    for place, token in enumerate(tokens):
        if token.token_type not in _GROUPING:
            continue
        start, end = _group(tokens, place, closing)
        if end > start:
            is_value = token.token_type is TokenType.ARROW
            name = [token_near(TokenType.VAR, _ITSELF, token)] if is_value else []
            opened[start] = [*name, token_near(TokenType.L_PAREN, "(", token), *opened.get(start, ())]
            ends[end] += 1
    made: list[Token] = []
    for place, token in enumerate(tokens):
        made += [token_near(TokenType.R_PAREN, ")", token)] * ends[place]
        made += opened.get(place, ())
        made.append(_of_window(tokens, place, closing))
    return made


def _group(tokens: Sequence[Token], place: int, closing: Mapping[int, int]) -> tuple[int, int]:
    """Where what needs brackets because of the token at a place begins and ends; the place twice for
    nothing.
    """
    kind, end = tokens[place].token_type, closing.get(place, place)
    behind = tokens[place + 1].token_type if place + 1 < len(tokens) else TokenType.SEMICOLON
    if kind is TokenType.INTERVAL:
        # `INTERVAL 1 DAY + '2 …'`: the parser takes what is added for an interval, too.
        plus = closing.get(place + 1, place + 1) + 2
        is_sum = plus + 1 < len(tokens) and tokens[plus].token_type is TokenType.PLUS
        return place, plus if is_sum and tokens[plus + 1].token_type in _LITERAL_TOKENS else place
    if kind is TokenType.ARROW:
        # `f('…' -> 'a')`: the parser takes the string for a parameter of a lambda.
        before = tokens[place - 2].token_type if place > 1 else TokenType.SEMICOLON
        is_first = before in _BEFORE_ARGUMENT and tokens[place - 1].token_type is TokenType.STRING
        return (place - 1, place) if is_first else (place, place)
    if kind is not TokenType.L_BRACKET or end == place:
        return place, place
    if behind is TokenType.COLON and tokens[place + 2].token_type in _PARSER.COLON_PLACEHOLDER_TOKENS:
        # `l[:n]`: the parser takes `:n` for a parameter.
        return place + 2, _end_of_bound(tokens, place + 2, closing)
    if end + 1 < len(tokens) and tokens[end + 1].token_type is TokenType.L_BRACKET:
        # `[x FOR x IN l][1]`: the parser does not know what is behind.
        return place, end + 1 if _is_comprehension(tokens, place, closing) else place
    return place, place


def _end_of_bound(tokens: Sequence[Token], start: int, closing: Mapping[int, int]) -> int:
    """Where a bound of a slice ends."""
    place = start
    while place < len(tokens) and tokens[place].token_type not in _BOUND_ENDS:
        place = closing.get(place, place) + 1
    return place


def _is_comprehension(tokens: Sequence[Token], start: int, closing: Mapping[int, int]) -> bool:
    """Whether the bracket that is opened at a place has a list with FOR in it."""
    place = start + 1
    while place < closing[start]:
        if tokens[place].token_type is TokenType.FOR:
            return True
        place = closing.get(place, place) + 1
    return False


def _of_window(tokens: Sequence[Token], place: int, closing: Mapping[int, int]) -> Token:
    """The token at a place; `last_value` for the `last` of `last(x IGNORE NULLS) OVER …`, which is the same
    there. The parser takes the one for an aggregate, which has no IGNORE NULLS.
    """
    token, end = tokens[place], closing.get(place + 1, 0)
    if end < place + 4 or tokens[end - 1].text.upper() != "NULLS":
        return token
    name = shown_name(token).upper()
    if name not in ("FIRST", "LAST") or tokens[place + 1].token_type is not TokenType.L_PAREN:
        return token
    if tokens[end - 2].text.upper() not in _NULLS:
        return token
    return token_near(TokenType.VAR, f"{name}_VALUE", token)


def _with_brackets(tokens: list[Token]) -> list[Token]:
    """Tokens with brackets where the parser takes less, or more, for an operand than DuckDB."""
    if not any(token.token_type in _BRACKETED for token in tokens):
        return tokens
    closing = ends_of_brackets(tokens)
    opened: dict[int, list[Token]] = {}
    ends: dict[int, int] = {}
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind in _OPERANDS_BEHIND:
            end, operators = _operand_end(tokens, place + 1, closing, _OPERANDS_BEHIND[kind])
            if kind is TokenType.IN:
                following = tokens[place + 1].token_type if end > place + 1 else TokenType.L_PAREN
                if following is TokenType.L_PAREN or (following is not TokenType.L_BRACKET and not operators):
                    continue
                opened[place + 1] = [token_near(TokenType.VAR, _ITSELF, token)]
            elif not operators:
                continue
            opened.setdefault(place + 1, []).append(token_near(TokenType.L_PAREN, "(", token))
            ends[end] = ends.get(end, 0) + 1
    for start, end in (
        _pivot_queries(tokens, closing) if _PIVOTS & {each.token_type for each in tokens} else ()
    ):
        opened[start] = [token_near(kind, text, tokens[start]) for kind, text in _SELECT_FROM]
        ends[end] = ends.get(end, 0) + 1
    names = (
        _names_of_values(tokens, closing) if TokenType.PIVOT in {each.token_type for each in tokens} else {}
    )
    for place, start in names.items():
        opened[start] = [
            token_near(TokenType.VAR, _NAMED, tokens[start]),
            token_near(TokenType.L_PAREN, "(", tokens[start]),
        ]
        ends[place + 2] = ends.get(place + 2, 0) + 1
    made: list[Token] = []
    for place, token in enumerate(tokens):
        made += [token_near(TokenType.R_PAREN, ")", token)] * ends.get(place, 0)
        made += opened.get(place, ())
        made.append(token_near(TokenType.COMMA, ",", token) if place in names else token)
    return made + [token_near(TokenType.R_PAREN, ")", tokens[-1])] * ends.get(len(tokens), 0)


def ends_of_brackets(tokens: Sequence[Token]) -> dict[int, int]:
    """Where brackets are closed, by the places where they are opened."""
    ends: dict[int, int] = {}
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(place)
        elif token.token_type in CLOSING and opened:
            ends[opened.pop()] = place
    return ends


def _operand_end(
    tokens: Sequence[Token], start: int, closing: Mapping[int, int], operators: Collection[TokenType]
) -> tuple[int, int]:
    """Where operands end that some operators join.

    Args:
        tokens: Tokens.
        start: Where the first operand begins.
        closing: Where brackets are closed.
        operators: The operators.

    Returns:
        The place behind; and how many of the operators stand between the operands. Both tell nothing where
        something else stands there than names, literals and brackets.
    """
    place, count, is_expected, end = start, 0, True, start
    while place < min(len(tokens), start + _LONGEST_OPERAND):
        kind = tokens[place].token_type
        if is_expected and kind is TokenType.TILDE and count and operators is _ARITHMETIC:
            # What joins it to the operands before binds less than they do.
            return end, count - 1
        if kind in OPENING and (is_expected or kind in _SUBSCRIPTS):
            place, is_expected = closing.get(place, len(tokens)) + 1, False
        elif is_expected and kind in _SIGNS:
            place += 1
        elif is_expected and kind in _OPERANDS:
            place, is_expected = place + 1, False
        elif not is_expected and kind in _BEHIND_OPERANDS:
            place, is_expected = place + 1, True
        elif not is_expected and kind in operators:
            end = place
            place, count, is_expected = place + 1, count + 1, True
        else:
            break
    return (start, 0) if is_expected else (place, count)


def _pivot_queries(tokens: Sequence[Token], closing: Mapping[int, int]) -> list[tuple[int, int]]:
    """Where queries that are a PIVOT begin and end, of those that stand where the parser knows none: before
    ORDER BY or the like, beside another query, or in an expression.
    """
    opening = {end: start for start, end in closing.items()}
    found: list[tuple[int, int]] = []
    # For each open bracket, where a PIVOT has begun in it, and whether the parser knows none there.
    begun: list[tuple[int, bool] | None] = [None]
    for place, token in enumerate([*tokens, None]):
        kind = TokenType.SEMICOLON if token is None else token.token_type
        latest = begun[-1]
        if latest is not None and (kind in _BEHIND_QUERY or (latest[1] and kind in _ENDS)):
            found.append((latest[0], place))
        if kind in _BEHIND_QUERY or kind in _ENDS:
            begun[-1] = None
        if kind in OPENING:
            begun.append(None)
        elif kind in CLOSING and len(begun) > 1:
            begun.pop()
        elif kind in _PIVOTS and _begins_query(tokens, place, opening):
            begun[-1] = (place, _is_operand(tokens, place))
    return found


def _is_operand(tokens: Sequence[Token], place: int) -> bool:
    """Whether the query that begins at a place stands beside another one, or in an expression."""
    if place == 0 or tokens[place - 1].token_type is not TokenType.L_PAREN:
        return place > 0 and tokens[place - 1].token_type in _BESIDE_QUERY
    before = tokens[place - 2] if place > 1 else None
    return before is None or (
        before.token_type not in _BEFORE_TABLE and before.text.upper() != "MATERIALIZED"
    )


def _begins_query(tokens: Sequence[Token], place: int, opening: Mapping[int, int]) -> bool:
    """Whether the PIVOT at a place is a query, and not a part of FROM."""
    if place == 0:
        return True
    before = tokens[place - 1]
    if before.token_type is TokenType.R_PAREN:
        # It ends a common table expression, or a table of FROM.
        begin = opening.get(place - 1, 0)
        return begin > 0 and tokens[begin - 1].text.upper() in ("AS", "MATERIALIZED")
    is_by_name = before.text.upper() == "NAME" and place > 1 and tokens[place - 2].text.upper() == "BY"
    return before.token_type in _BEFORE_QUERY or is_by_name


def _names_of_values(tokens: Sequence[Token], closing: Mapping[int, int]) -> dict[int, int]:
    """Where `AS` gives a value of `PIVOT … ON … IN (…)` a name, and where each value begins: the parser knows
    names there behind FOR alone.
    """
    found: dict[int, int] = {}
    is_on = False
    for place, token in enumerate(tokens):
        kind = token.token_type
        if kind is TokenType.ON or kind is TokenType.FOR:
            is_on = kind is TokenType.ON
        if kind is not TokenType.IN or not is_on or place + 1 not in closing:
            continue
        if tokens[place + 2].token_type in _QUERIES:
            continue
        start = inner = place + 2
        while inner < closing[place + 1]:
            if tokens[inner].token_type is TokenType.COMMA:
                start = inner + 1
            elif tokens[inner].token_type is TokenType.ALIAS:
                found[inner] = start
            inner = closing.get(inner, inner) + 1
    return found


def _as_written(tree: exp.Expr) -> exp.Expr:
    """A tree of such tokens as it means what DuckDB means, with the names of all functions."""
    for node in list(tree.find_all(exp.Anonymous, exp.Identifier)):
        name = str(node.this)
        # Where it looks for the type of a call, the parser reads the name alone.
        if name == _ITSELF and node.expressions:
            _replace_by_argument(node)
        elif name == _NAMED:
            value, alias = node.expressions
            node.replace(
                exp.PivotAlias(this=value, alias=alias.this if isinstance(alias, exp.Column) else alias)
            )
        elif isinstance(node, exp.Anonymous):
            node.set("this", name.removeprefix(_HIDDEN) if name.startswith(_HIDDEN) else node.this)
            _split_distinct(node)
        elif name.startswith(_HIDDEN):
            node.set("this", name.removeprefix(_HIDDEN))
            node.set("quoted", True)
    return tree


def _replace_by_argument(call: exp.Expr) -> None:
    """What stands behind IN: `a IN [1, NULL]` looks for a value in a list, and `a IN (1, NULL)` compares."""
    (value,) = call.expressions
    around = call.parent
    if isinstance(around, exp.In) and isinstance(value, exp.Array) and _are_alike(value.expressions):
        # Without a NULL both are the same, and lists of values are known elsewhere.
        around.set("field", None)
        around.set("expressions", value.expressions)
    else:
        call.replace(value)


def _are_alike(values: Sequence[exp.Expr]) -> bool:
    """Whether values are strings, or whole numbers."""
    return bool(values) and (
        all(isinstance(each, exp.Literal) and each.is_string for each in values)
        or all(isinstance(each, exp.Literal) and each.is_int for each in values)
    )


def _split_distinct(call: exp.Anonymous) -> None:
    """Have DISTINCT stand before the first argument alone: the parser takes all of them for its own."""
    first = call.expressions[0] if call.expressions else None
    order = first if isinstance(first, exp.Order) else None
    distinct = order.this if order is not None else first
    if not isinstance(distinct, exp.Distinct) or len(distinct.expressions) < 2:
        return
    argument, *others = distinct.expressions
    if order is not None:
        order.set("this", others.pop())
        others.append(order)
    call.set("expressions", [exp.Distinct(expressions=[argument]), *others, *call.expressions[1:]])


@cache
def _writers() -> dict[type[exp.Expr], _Write]:
    """What writes each kind of node."""
    known = DuckDB().generator()._dispatch  # noqa: SLF001 - as above
    type_text = known[exp.DataType]
    return {
        **known,
        exp.BitString: lambda _, node: f"b'{node.this}'",
        exp.BitwiseNot: lambda writer, node: _with_sign("~", writer.sql(node, "this")),
        # A type, as that of an empty list, whose name is no word.
        exp.DataType: lambda writer, node: (
            '"NULL"' if node.this is exp.DataType.Type.NULL else type_text(writer, node)
        ),
        exp.HexString: lambda _, node: f"x'{node.this}'",
        exp.Operator: _operator_text,
        exp.Neg: lambda writer, node: _with_sign("-", writer.sql(node, "this")),
        exp.Limit: _limit_text,
        exp.Pivot: _pivot_text,
        exp.WithinGroup: _ordered_text,
    }


def _with_sign(sign: str, operand: str) -> str:
    """An operand with a sign before it, which is no part of an operator of several."""
    return f"{sign} {operand}" if operand[:1] in _OPERATOR_SIGNS else f"{sign}{operand}"


def _operator_text(writer: Generator, node: exp.Operator) -> str:
    """`<=>` as it is read; others that are written so bind otherwise than without the word."""
    operator = str(node.args["operator"])
    return writer.binary(node, operator if operator == "<=>" else f"OPERATOR({operator})")


def _limit_text(writer: Generator, node: exp.Limit) -> str:
    """`LIMIT (30 - 10) %`, which DuckDB reads with any expression, and PERCENT with numbers alone."""
    text, options = writer.limit_sql(node), node.args.get("limit_options")
    is_share = options is not None and options.args.get("percent")
    return f"{text.removesuffix('PERCENT')}%" if is_share else text


def _pivot_text(writer: Generator, node: exp.Pivot) -> str:
    """A PIVOT as sqlglot has it for most databases; for DuckDB it takes the tables off the names in whatever
    is read. One without ON has groups and aggregates alone.
    """
    if not node.this or node.expressions or not (node.args.get("using") or node.args.get("group")):
        return writer.pivot_sql(node)
    using = writer.expressions(node, key="using", flat=True)
    parts = (
        f"PIVOT {writer.sql(node, 'this')}",
        f" USING {using}" if using else "",
        writer.sql(node, "group"),
    )
    return writer.prepend_ctes(node, "".join(parts))


def _ordered_text(writer: Generator, node: exp.WithinGroup) -> str:
    """`f(…) WITHIN GROUP (ORDER BY …)` as `f(… ORDER BY …)`, a percentile with what is ordered as its first
    argument.
    """
    call, order = node.this, node.expression
    if isinstance(call, exp.ArrayAgg):
        return writer.withingroup_sql(node)
    if isinstance(call, exp.PERCENTILES):
        name = "QUANTILE_CONT" if isinstance(call, exp.PercentileCont) else "QUANTILE_DISC"
        value, share = writer.sql(order.expressions[0], "this"), writer.sql(call, "this")
        return f"{name}({value}, {share}{writer.sql(order)})"
    return f"{writer.sql(call).removesuffix(')')}{writer.sql(order)})"
