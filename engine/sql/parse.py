"""Text to a checked syntax tree: one statement that only reads."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError, TokenError

from engine.errors import InvalidInput, LimitExceeded, Unsupported
from engine.sql.functions import TABLE_FUNCTIONS, function_name, is_refused
from engine.sql.literals import LiftedText
from engine.sql.text import SourceText

MAX_STATEMENT_LENGTH = 1 << 20
"""Characters of a statement without its strings and long literal lists: about a second of parsing."""
MAX_SELECTS = 500
"""SELECTs and tables of a statement; the engine plans joins and unions in more than linear time."""
MAX_NESTING = 200
"""Brackets open at once; and subscripts in a row. The parser recurses, and its native stack must not run out."""

_READS = ("select", "with", "values", "from", "table", "summarize", "describe", "desc", "pivot", "unpivot", "(")
_LEADING = re.compile(r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*", re.DOTALL)
_WORD = re.compile(r"[A-Za-z_]+|\S")
_EXPLAIN = re.compile(r"EXPLAIN(?:\s+(ANALYZE|ANALYSE)\b)?(?=\s|\()", re.IGNORECASE)
_SHOW = re.compile(r"SHOW\s+(TABLES|STORES|HOSTS)\s*;?\s*", re.IGNORECASE)
_BRACKETS = re.compile(
    r"""'(?:[^']|'')*+'|"(?:[^"]|"")*+"|--[^\n]*|(?P<open>[(\[{])|(?P<close>[)\]}])
    |(?P<repeat>(?:\bNOT\s+|-\s+|[~+]\s*|\bCASE\s+WHEN\b){50})""",
    re.IGNORECASE | re.VERBOSE,
)
_STRING = re.compile(r"'[^']*+'")
_SUBSCRIPTS = re.compile(rf"(?:\[[^\[\]]*+\]\s*){{{MAX_NESTING}}}")

_REFUSED_NODES = (
    exp.DML,
    exp.DDL,
    exp.Create,
    exp.Drop,
    exp.Alter,
    exp.Command,
    exp.Copy,
    exp.Set,
    exp.Pragma,
    exp.Attach,
    exp.Detach,
    exp.Use,
    exp.Transaction,
    exp.Commit,
    exp.Rollback,
    exp.Kill,
    exp.Analyze,
    exp.Into,
    exp.Show,
    exp.Block,
    exp.Merge,
)


class Kind(Enum):
    """What a statement asks for."""

    QUERY = "query"
    EXPLAIN = "explain"
    EXPLAIN_ANALYZE = "explain analyze"
    DESCRIBE = "describe"
    SHOW_TABLES = "show tables"
    SHOW_STORES = "show stores"
    SHOW_HOSTS = "show hosts"


@dataclass(frozen=True)
class ParsedStatement:
    """A statement that was checked to do nothing but read.

    Attributes:
        kind: What it asks for.
        source: The text of `tree`, for places in errors.
        tree: The query (SELECT, VALUES, set operation, SUMMARIZE) or the table to describe; None for SHOW. Never changed.
    """

    kind: Kind
    source: SourceText
    tree: exp.Expr | None


def parse(lifted: LiftedText, dialect: str) -> ParsedStatement:
    """Parse and check one statement.

    Args:
        lifted: The text, without long literal lists.
        dialect: sqlglot's name of the dialect.

    Returns:
        The checked statement.

    Raises:
        InvalidInput: The text is no statement, nests too deeply, or calls what it must not; with its place.
        Unsupported: The statement does something else than read.
        LimitExceeded: The text is too long apart from its lists.
    """
    source = lifted.source
    start = _LEADING.match(source.text)
    begin = start.end() if start else 0
    if show := _SHOW.fullmatch(source.text, begin):
        return ParsedStatement(Kind(f"show {show[1].lower()}"), source, None)
    kind, body = Kind.QUERY, source.text
    if explain := _EXPLAIN.match(body, begin):
        kind = Kind.EXPLAIN_ANALYZE if explain[1] else Kind.EXPLAIN
        # Blanks keep the places of what follows.
        body = " " * explain.end() + body[explain.end() :]
    _check_characters(source)
    _check_first_word(source, body)
    _check_size(source, body)
    tree = _tree(source, body, dialect)
    if isinstance(tree, exp.Describe):
        if kind is not Kind.QUERY:
            raise Unsupported("EXPLAIN of DESCRIBE is not supported: explain the query itself.")
        kind, tree = Kind.DESCRIBE, tree.this
    _check_tree(source, tree)
    return ParsedStatement(kind, source, tree)


def _check_characters(source: SourceText) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        raise source.error("The statement has a character that no text can have (a lone surrogate).", error.start) from error


def _check_first_word(source: SourceText, body: str) -> None:
    leading = _LEADING.match(body)
    word = _WORD.match(body, leading.end() if leading else 0)
    if word is None:
        raise InvalidInput("The statement is empty.")
    if word[0].lower() not in _READS:
        if word[0].isalpha():
            raise Unsupported(
                f"{word[0].upper()} is not supported: statements only read "
                "(SELECT, WITH, VALUES, FROM, SHOW TABLES, SHOW STORES, SHOW HOSTS, DESCRIBE, EXPLAIN)."
            )
        raise source.error(f"A statement cannot start with {word[0]!r}.", word.start())


def _check_size(source: SourceText, body: str) -> None:
    if len(body) > MAX_STATEMENT_LENGTH and len(_STRING.sub("", body)) > MAX_STATEMENT_LENGTH:
        raise LimitExceeded(
            f"The statement is longer than {MAX_STATEMENT_LENGTH} characters without its strings and plain literal lists: pass values as a parameter."
        )
    depth = 0
    for found in _BRACKETS.finditer(body):
        if found.lastgroup == "open":
            depth += 1
        elif found.lastgroup == "close":
            depth -= 1
        if depth > MAX_NESTING or found.lastgroup == "repeat":
            raise source.error(f"The statement nests deeper than {MAX_NESTING} levels.", found.start())
    if chain := _SUBSCRIPTS.search(body):
        raise source.error(f"The statement has more than {MAX_NESTING} subscripts in a row.", chain.start())


def _tree(source: SourceText, body: str, dialect: str) -> exp.Expr:
    # With a parameter like $1 anywhere, sqlglot's tokenizer takes an empty string at the very end of a text for one that is not closed.
    readable = f"{body}\n" if body.endswith("''") else body
    try:
        statements = [statement for statement in sqlglot.parse(readable, dialect=dialect) if statement is not None]
    except ParseError as error:
        raise _syntax_error(source, body, error) from error
    except TokenError as error:
        raise source.error(f"The statement cannot be read: {_first_line(str(error))}", None) from error
    except SqlglotError as error:
        raise InvalidInput(f"The statement cannot be read: {_first_line(str(error))}") from error
    except RecursionError as error:
        raise InvalidInput(f"The statement nests deeper than {MAX_NESTING} levels.") from error
    except ValueError as error:
        raise InvalidInput(f"The dialect {dialect!r} is not known, or the statement cannot be read in it.") from error
    if not statements:
        raise InvalidInput("The statement is empty.")
    if len(statements) > 1 or isinstance(statements[0], exp.Block):
        raise Unsupported("One statement at a time: send each on its own.")
    tree: exp.Expr = statements[0]
    return tree


def _syntax_error(source: SourceText, body: str, error: ParseError) -> InvalidInput:
    details = error.errors[0] if error.errors else {}
    line, column = details.get("line"), details.get("col")
    near = str(details.get("highlight") or "")
    what = f"Syntax error at {near[:40]!r}." if near.strip() else "Syntax error."
    if line is None or column is None:
        return source.error(what, None)
    # sqlglot counts columns up to the end of the token.
    start = _line_start(body, int(line)) + int(column) - max(len(near), 1)
    return source.error(what, max(start, 0))


def _line_start(text: str, line: int) -> int:
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
    return start


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0][:200]


def _check_tree(source: SourceText, tree: exp.Expr) -> None:
    selects = 0
    if not isinstance(tree, exp.Query | exp.Values | exp.Summarize | exp.Table | exp.Pivot):
        raise Unsupported(f"{tree.key.upper()} is not supported: statements only read.")
    for node in tree.walk():
        if isinstance(node, _REFUSED_NODES):
            raise Unsupported(f"{node.key.upper()} is not supported inside a statement: statements only read.")
        selects += isinstance(node, exp.Select | exp.Table)
        if selects > MAX_SELECTS:
            raise LimitExceeded(f"The statement has more than {MAX_SELECTS} SELECTs and tables.")
        if isinstance(node, exp.Describe):
            raise Unsupported("DESCRIBE is not supported inside a statement.")
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Func | exp.Dot | exp.Parameter):
            _check_table_function(source, node.this)
        elif isinstance(node, exp.Func) and is_refused(function_name(node)):
            raise source.error(f"The function {function_name(node)} is not allowed: it reaches beyond its arguments.", offset_of(node))


def _check_table_function(source: SourceText, node: exp.Expr) -> None:
    if isinstance(node, exp.GenerateSeries | exp.Unnest):
        return
    name = function_name(node) if isinstance(node, exp.Func) else node.sql(dialect="duckdb")
    if name not in TABLE_FUNCTIONS:
        raise source.error(f"The table function {name} is not allowed; allowed are {', '.join(sorted(TABLE_FUNCTIONS))}.", offset_of(node))


def without_places(node: exp.Expr) -> exp.Expr:
    """A copy of a tree that does not know its places in the text: to copy these takes longer than to copy the tree itself.

    Args:
        node: A parsed tree.
    """
    made = with_children(node, without_places)
    made.comments = node.comments
    return made


def with_children(node: exp.Expr, replace: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A node of the same kind whose children are replaced; without its place in the text, and its comments.

    Args:
        node: A node.
        replace: Gives what stands in the place of a child.
    """
    args: dict[str, object] = {}
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            args[name] = replace(value)
        elif isinstance(value, list):
            args[name] = [replace(each) if isinstance(each, exp.Expr) else each for each in value]
        else:
            args[name] = value
    return type(node)(**args)


def offset_of(node: exp.Expr) -> int | None:
    """Where a node starts in its text.

    Args:
        node: Any node of a parsed tree.

    Returns:
        Characters before it; None when neither it nor a part of it knows.
    """
    starts = [part.meta["start"] for part in node.walk() if "start" in part.meta]
    return min(starts) if starts else None
