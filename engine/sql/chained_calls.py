"""Calls behind a dot, `x.f(y)`, as the calls that they are for DuckDB: `f(x, y)`.

sqlglot reads such a call as a member of what is before the dot, and forgets which names in there are columns.
So its parser gets `x.(f(…, y))`, and what is before the dot takes the place of the mark in its tree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from engine.model.names import fold
from engine.sql.engine_dialect.brackets import CLOSING, OPENING, ends_of_brackets
from engine.sql.engine_dialect.made_tokens import is_name, token_near
from engine.sql.typed_literals import begin_of_typed_literal

SCHEMAS = frozenset({"system", "main", "memory", "temp", "pg_catalog", "information_schema"})
"""Names that are schemas, and no columns, before the dot of a call."""
_MARK = "what is before the dot"
"""A name that needs quotation marks, and has none."""
_OTHER_NAMES = {"position": "strpos"}
"""Functions that the parser reads in a way of their own, and the same ones that it does not."""
_BEFORE_ARGUMENTS = frozenset({TokenType.DISTINCT, TokenType.ALL})
_BEHIND_ARGUMENTS = frozenset({TokenType.ORDER_BY, TokenType.R_PAREN})


class NotReadError(Exception):
    """The parser has made something else of a call behind a dot."""


@dataclass(frozen=True)
class ChainedCall:
    """A call behind a dot.

    Attributes:
        begin: The place of the first of the names before the dot, and of the dot where there is something
            else.
        dot: The place of the dot.
        end: The last token of the call, of which a FILTER is a part.
    """

    begin: int
    dot: int
    end: int


def chained_calls(tokens: Sequence[Token]) -> Sequence[ChainedCall]:
    """The calls behind dots.

    Args:
        tokens: The tokens of a text in DuckDB's dialect.
    """
    dots = [
        dot
        for dot in range(1, len(tokens) - 3)
        if tokens[dot].token_type is TokenType.DOT
        and tokens[dot + 2].token_type is TokenType.L_PAREN
        and is_name(tokens[dot + 1])
    ]
    if not dots:
        return ()
    ends = ends_of_brackets(tokens)
    begins, ended = _parameters(tokens, ends)
    seen, parameters = 0, Counter[str]()
    found: list[ChainedCall] = []
    for dot in dots:
        for place in range(seen, dot):
            parameters.update(begins.get(place, ()))
            parameters.subtract(ended.get(place, ()))
        seen, begin, end = dot, _begin_of_names(tokens, dot), ends.get(dot + 2)
        name = fold(tokens[begin].text) if begin < dot else ""
        # Of a parameter of a lambda that is called as a column, the engine takes the column there.
        if end is not None and name not in SCHEMAS and not parameters[name]:
            behind = [token.token_type for token in tokens[end + 1 : end + 3]]
            has_filter = behind == [TokenType.FILTER, TokenType.L_PAREN]
            found.append(ChainedCall(begin, dot, ends.get(end + 2, end) if has_filter else end))
    return found


def _begin_of_names(tokens: Sequence[Token], dot: int) -> int:
    """The first of the names before a dot; the dot where something else is before it."""
    begin = dot
    while begin > 0 and is_name(tokens[begin - 1]):
        begin -= 1
        if begin == 0 or tokens[begin - 1].token_type is not TokenType.DOT:
            return begin
        begin -= 1
    return dot


def _parameters(
    tokens: Sequence[Token], ends: Mapping[int, int]
) -> tuple[Mapping[int, Sequence[str]], Mapping[int, Sequence[str]]]:
    """The parameters of lambdas and of lists with FOR, in small letters, by the places where they begin and
    cease to be names.
    """
    begins, ended = defaultdict[int, list[str]](list), defaultdict[int, list[str]](list)
    opened: list[int] = []
    for place, token in enumerate(tokens):
        if token.token_type in OPENING:
            opened.append(place)
        elif token.token_type in CLOSING and opened:
            opened.pop()
        elif opened and (token.token_type is TokenType.FOR or fold(token.text) == "lambda"):
            around, behind = opened[-1], place + 1
            begin = around if token.token_type is TokenType.FOR else place
            while behind < len(tokens) and is_name(tokens[behind]):
                begins[begin].append(fold(tokens[behind].text))
                ended[ends.get(around, len(tokens))].append(fold(tokens[behind].text))
                if behind + 1 < len(tokens) and tokens[behind + 1].token_type is not TokenType.COMMA:
                    break
                behind += 2
    return begins, ended


def mark_chained_calls(tokens: Sequence[Token], calls: Sequence[ChainedCall]) -> Sequence[Token]:
    """Tokens of which the parser makes calls of what is behind dots.

    Args:
        tokens: The tokens of a text in DuckDB's dialect.
        calls: As `chained_calls` gives them.
    """
    by_dot = {call.dot: call for call in calls}
    before, behind = defaultdict[int, list[Token]](list), defaultdict[int, list[Token]](list)
    left_out = set[int]()
    for call in calls:
        dot, name, value = call.dot, tokens[call.dot + 1], tokens[call.dot - 1]
        opening = dot + 3 if tokens[dot + 3].token_type in _BEFORE_ARGUMENTS else dot + 2
        mark = [token_near(TokenType.VAR, _MARK, name)]
        literal = begin_of_typed_literal(tokens, dot - 1)
        if value.token_type is TokenType.STRING and literal is None:
            # The parser has to see which unit date_trunc has.
            mark = [value]
            left_out |= {dot - 1, dot}
        else:
            if literal is not None:
                # The parser takes `DATE '2024-05-01'.year()` for the date of a year.
                before[literal].append(token_near(TokenType.L_PAREN, "(", value))
                behind[dot - 1].append(token_near(TokenType.R_PAREN, ")", value))
            elif call.begin < dot and _is_dot(tokens, call.end + 1):
                # Names are followed by one call alone, or the parser takes the call for a part of a name.
                before[call.begin].append(token_near(TokenType.L_PAREN, "(", name))
                behind[call.end].append(token_near(TokenType.R_PAREN, ")", name))
            behind[dot].append(token_near(TokenType.L_PAREN, "(", name))
            behind[call.end].append(token_near(TokenType.R_PAREN, ")", name))
        behind[opening] += mark
        if tokens[opening + 1].token_type not in _BEHIND_ARGUMENTS:
            behind[opening].append(token_near(TokenType.COMMA, ",", name))
    made: list[Token] = []
    for place, token in enumerate(tokens):
        made += before.get(place, ())
        if place not in left_out:
            made.append(_named_otherwise(token) if place - 1 in by_dot else token)
        made += behind.get(place, ())
    return made


def _named_otherwise(name: Token) -> Token:
    """The name of a function behind a dot, by which the parser reads it as any other."""
    known = _OTHER_NAMES.get(fold(name.text))
    return name if known is None else token_near(TokenType.VAR, known, name)


def _is_dot(tokens: Sequence[Token], place: int) -> bool:
    return place < len(tokens) and tokens[place].token_type is TokenType.DOT


def read_chained_calls(tree: exp.Expr) -> exp.Expr:
    """Put what stands before dots into the calls behind them.

    Args:
        tree: What the parser made of marked tokens; changed in place.

    Returns:
        The tree.

    Raises:
        NotReadError: A value is not where it can be put.
    """
    nodes = list(tree.walk(bfs=False))
    marks: dict[int, exp.Expr] = {}
    for node in nodes:
        if isinstance(node, exp.Column) and node.name == _MARK and not node.this.args.get("quoted"):
            part = _part_around(node)
            if part is None or id(part) in marks:
                raise NotReadError
            marks[id(part)] = node
    # From the inside out.
    for node in reversed(nodes):
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Paren):
            names = {"this": node.args["table"], "table": node.args.get("db"), "db": node.args.get("catalog")}
            node.replace(_call_of(exp.Column(**names), node.this, marks))
        elif isinstance(node, exp.Dot) and isinstance(node.expression, exp.Paren):
            node.replace(_call_of(node.this, node.expression, marks))
    if marks:
        raise NotReadError
    return tree


def _part_around(mark: exp.Expr) -> exp.Expr | None:
    """What is behind the dot that a mark belongs to."""
    node: exp.Expr | None = mark
    while node is not None and not (
        isinstance(node, exp.Paren)
        and isinstance(node.parent, exp.Column | exp.Dot)
        and node.arg_key == ("this" if isinstance(node.parent, exp.Column) else "expression")
    ):
        node = node.parent
    return node


def _call_of(value: exp.Expr, part: exp.Paren, marks: dict[int, exp.Expr]) -> exp.Expr:
    """The call behind a dot, of the value before it."""
    mark = marks.pop(id(part), None)
    if mark is None or mark.parent is part:
        raise NotReadError
    mark.replace(value.this if isinstance(value, exp.Paren) else value)
    call: exp.Expr = part.this
    return call
