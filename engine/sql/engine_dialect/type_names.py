"""Columns that are called as types are: the parser takes some of them for types."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sqlglot import exp
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.tokenizer_core import Token, TokenType

from engine.sql.engine_dialect.brackets import CLOSING, brackets_around, ends_of_brackets
from engine.sql.engine_dialect.made_tokens import ELEMENT, HIDDEN, token_near

_PARSER = DuckDB.parser_class
BEFORE_ARGUMENT = frozenset({TokenType.L_PAREN, TokenType.COMMA})
_LESS = frozenset({TokenType.LT, TokenType.LTE})
_BEHIND_COLUMNS = _LESS | {
    *(TokenType.L_BRACKET, TokenType.PLUS, TokenType.DASH, TokenType.STAR, TokenType.SLASH),
    *(TokenType.ASC, TokenType.DESC),
}
_BEFORE_TYPE = _PARSER.ID_VAR_TOKENS | {
    *(TokenType.DCOLON, TokenType.ALIAS, TokenType.DOT, TokenType.IDENTIFIER),
}
_CONSTRUCTORS = frozenset({TokenType.ARRAY, TokenType.MAP})
_CASTS = frozenset({"CAST", "TRY_CAST"})
_ROW = "ROW"
_TUPLE = "TUPLE"


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
            made[place] = token_near(kind, HIDDEN + token.text, token)
    return made


def show_lists(tree: exp.Expr) -> exp.Expr:
    """A tree of such tokens with the names that were hidden; changed in place.

    Args:
        tree: What the parser made of them.
    """
    for node in tree.find_all(exp.Identifier):
        name = str(node.this)
        if name.startswith(HIDDEN):
            node.set("this", name.removeprefix(HIDDEN))
    return tree


def name_columns(tokens: list[Token]) -> list[Token]:
    """Tokens in which columns that are called as types are names: the parser takes `list < 3` for a type with
    types in it, `string[1]` for a place of `text`, and `interval + 1` for a second.

    Args:
        tokens: The tokens of a text.
    """
    places = [
        place
        for place, (token, following) in enumerate(pairwise(tokens))
        if token.token_type in _PARSER.TYPE_TOKENS and following.token_type in _BEHIND_COLUMNS
    ]
    if not places:
        return tokens
    around = brackets_around(tokens)
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
    if before not in BEFORE_ARGUMENT:
        return True
    return around < 1 or tokens[around - 1].token_type not in _PARSER.TYPE_TOKENS


def hide_row_calls(tokens: list[Token]) -> list[Token]:
    """Tokens in which `ROW(a, b) < …` is the call of a function: the parser takes `ROW(…)` before `<` for a
    type with types in it.

    Args:
        tokens: The tokens of a text.
    """
    places = [
        place
        for place, (token, following) in enumerate(pairwise(tokens))
        if token.token_type is TokenType.STRUCT
        and token.text.upper() == _ROW
        and following.token_type is TokenType.L_PAREN
        and (not place or tokens[place - 1].token_type is not TokenType.DCOLON)
    ]
    if not places:
        return tokens
    ends = ends_of_brackets(tokens)
    made = list(tokens)
    for place in places:
        behind = ends.get(place + 1, len(tokens)) + 1
        if behind < len(tokens) and tokens[behind].token_type in _LESS:
            made[place] = token_near(TokenType.VAR, HIDDEN + tokens[place].text, tokens[place])
    return made


def name_elements(tokens: list[Token]) -> list[Token]:
    """Tokens in which the type TUPLE is a STRUCT whose fields have a name that no text has: the parser takes
    its types for expressions, and knows few of them so. `show_tuple` takes the name away again.

    Args:
        tokens: The tokens of a text.
    """
    places = [place for place, token in enumerate(tokens[:-1]) if token.text.upper() == _TUPLE]
    if not places:
        return tokens
    around = brackets_around(tokens)
    opened: set[int] = set()
    for place in places:
        if tokens[place + 1].token_type is TokenType.L_PAREN and _is_type(
            tokens, place, around[place], around[place] in opened
        ):
            opened.add(place + 1)
    made = []
    for place, token in enumerate(tokens):
        made.append(token_near(TokenType.STRUCT, "STRUCT", token) if place + 1 in opened else token)
        if place in opened or (token.token_type is TokenType.COMMA and around[place] in opened):
            made.append(token_near(TokenType.IDENTIFIER, ELEMENT, token))
    return made


def _is_type(tokens: Sequence[Token], place: int, around: int, is_element: bool) -> bool:
    """Whether the word at a place, behind which a bracket is opened, is a type: tables can be called so, too.

    Args:
        tokens: The tokens of a text.
        place: Of the word.
        around: Where the bracket around it is opened; -1 for none.
        is_element: That bracket has the types of a tuple.
    """
    before = tokens[place - 1].token_type if place else TokenType.SEMICOLON
    if before is TokenType.DCOLON or is_element:
        return True
    if around < 1:
        return False
    opener = tokens[around - 1]
    if before is TokenType.ALIAS:
        return opener.text.upper() in _CASTS
    return opener.token_type in _PARSER.NESTED_TYPE_TOKENS


def show_tuple(name: exp.Expr) -> None:
    """Take the made name of an element of a tuple away: what is left is its type.

    Args:
        name: The name.
    """
    field = name.parent
    if field is not None and isinstance(kind := field.args.get("kind"), exp.DataType):
        field.replace(kind)
