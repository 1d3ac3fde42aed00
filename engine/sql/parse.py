"""Text to a checked syntax tree: one statement that only reads."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import Enum

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import InvalidInput, LimitExceeded, LivestateError, Unsupported
from engine.model.catalog_names import CATALOG, SCHEMA
from engine.model.names import fold
from engine.sql.chained_calls import (
    SCHEMAS,
    NotReadError,
    chained_calls,
    mark_chained_calls,
    read_chained_calls,
)
from engine.sql.dialects.meanings import say_in_engine_terms
from engine.sql.engine_dialect import EngineDialect, token_near
from engine.sql.functions import TABLE_FUNCTIONS, function_name, is_refused, session_column
from engine.sql.lexer import blanks_end
from engine.sql.literals import MAX_STATEMENT_LENGTH, LiftedText, too_long_error
from engine.sql.recursion_keys import put_key_parts, take_key_parts
from engine.sql.statement_time import CLOCK_NODES
from engine.sql.text import SourceText, offset_of
from engine.sql.tokens import FACTORIAL, TooManyReadingsError, dialect_of, parse_tokens, tokenize
from engine.sql.typed_literals import bracket_typed_literals
from engine.sql.written_size import MAX_COPIED_CHARACTERS, MOST_COPIES, copies_of_parts, own_size

MAX_SELECTS = 500
"""SELECTs and tables of a statement; the engine plans joins and unions in more than linear time."""
MAX_DEPTH = 1000
"""Nodes of the tree above each other."""
MAX_READ_AGAIN = 20_000
"""Characters that are parsed once more because they stand behind an arrow that is no lambda; where such
arrows nest, the inner ones each time again.
"""
MAX_TERMS = 4000
"""Operators behind each other, as in a sum of so many numbers; the engine takes as many
(`engine.duckdb.database`).
"""
MAX_ARRAY_VALUES = 100_000
"""Values of an array of fixed size, and of arrays within each other, as many as the engine lets one have: it
reserves room for all of them in each of 2,048 rows, and more overflow its numbers.
"""
_BALANCED_FROM = 32
"""So many conditions joined by AND or OR become a balanced tree: what comes after recurses over trees."""

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
_UNITS = {
    *("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year"),
    *("decade", "century", "centurie", "millennium", "millennia"),
}
_NAME = r"(?:\w+|\"(?:[^\"]|\"\")*+\")"
_END = r"\s*+;?\s*+"
_SHOW = re.compile(
    rf"SHOW\s+(TABLES|STORES|HOSTS|SCHEMAS|DATABASES|ALL\s+TABLES)(?:\s+(?:FROM|IN)\s+({_NAME}))?{_END}",
    re.IGNORECASE,
)
_BARE_SHOW = re.compile(rf"(?:SHOW|DESCRIBE|DESC){_END}", re.IGNORECASE)
_USE = re.compile(rf"USE\s+({_NAME}(?:\s*\.\s*{_NAME})?){_END}", re.IGNORECASE)
_SHOW_COLUMNS = re.compile(
    rf"SHOW\s+(?:COLUMNS\s+(?:FROM|IN)\s+)?(?={_NAME}(?:\s*\.\s*{_NAME}){{0,2}}{_END}\Z)", re.IGNORECASE
)
"""How a SHOW begins that describes a store."""
_STRING = re.compile(r"'[^']*+'")
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")
_NUMBERED_MARK = re.compile(r"\$\d+", re.ASCII)
_HEX_DIGITS = re.compile(r"(?:[0-9A-Fa-f]{2})*")

_PATH_PARTS = (exp.JSONPathRoot, exp.JSONPathKey, exp.JSONPathSubscript, exp.JSONPathWildcard)
"""Of a path into JSON: what sqlglot writes for the engine."""
_LAMBDA_FUNCTIONS = frozenset(
    {
        *("apply", "array_apply", "array_filter", "array_reduce", "array_transform", "filter", "list_apply"),
        *("list_filter", "list_reduce", "list_transform", "reduce", "transform"),
    }
)
_CLOCK_ARGUMENTS = (exp.Literal, exp.Column, exp.Placeholder, exp.Parameter, exp.Null)
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


class StatementClass(Enum):
    """What a statement asks for."""

    QUERY = "query"
    EXPLAIN = "explain"
    EXPLAIN_ANALYZE = "explain analyze"
    DESCRIBE = "describe"
    SHOW_TABLES = "show tables"
    SHOW_STORES = "show stores"
    SHOW_HOSTS = "show hosts"
    SHOW_SCHEMAS = "show schemas"
    SHOW_DATABASES = "show databases"
    SHOW_ALL_TABLES = "show all tables"
    USE = "use"


@dataclass(frozen=True)
class ParsedStatement:
    """A statement that was checked to do nothing but read.

    Attributes:
        statement_class: What it asks for.
        source: The text of `tree`, for places in errors.
        tree: The query (SELECT, VALUES, set operation, SUMMARIZE) or the table to describe; None for SHOW.
            Never changed.
        is_json: Whether an EXPLAIN is to be one JSON value.
        shown_schema: The schema whose tables SHOW TABLES is about.
    """

    statement_class: StatementClass
    source: SourceText
    tree: exp.Expr | None
    is_json: bool = False
    shown_schema: str = SCHEMA


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
    begin = blanks_end(source.text, 0)
    shown = _parse_show(source, begin)
    if shown is not None:
        return shown
    statement_class, body, is_json = StatementClass.QUERY, source.text, False
    if explain := EXPLAIN.match(body, begin):
        statement_class, is_json = _explain_class(source, explain)
        # Blanks keep the places of what follows.
        body = " " * explain.end() + body[explain.end() :]
    elif show := _SHOW_COLUMNS.match(body, begin):
        body = "DESC".rjust(show.end() - 1) + " " + body[show.end() :]
    _check_characters(source)
    _check_first_word(source, body)
    if len(body) > MAX_STATEMENT_LENGTH and len(_STRING.sub("", body)) > MAX_STATEMENT_LENGTH:
        raise too_long_error()
    tree = _tree(source, body, dialect)
    if isinstance(tree, exp.Describe):
        if statement_class is not StatementClass.QUERY:
            raise Unsupported("EXPLAIN of DESCRIBE is not supported: explain the query itself.")
        statement_class, tree = StatementClass.DESCRIBE, tree.this
    _check_tree(source, tree)
    return ParsedStatement(statement_class, source, tree, is_json)


def _parse_show(source: SourceText, begin: int) -> ParsedStatement | None:
    """A statement about what there is, and USE of the schema that is in use anyway; None for any other."""
    if show := _SHOW.fullmatch(source.text, begin):
        shown = StatementClass(f"show {' '.join(fold(show[1]).split())}")
        if show[2] is None:
            return ParsedStatement(shown, source, None)
        if shown is not StatementClass.SHOW_TABLES:
            raise source.error(f"{shown.value.upper()} takes no name.", show.start(2))
        return ParsedStatement(shown, source, None, shown_schema=_plain_name(show[2]))
    if _BARE_SHOW.fullmatch(source.text, begin):
        return ParsedStatement(StatementClass.SHOW_ALL_TABLES, source, None)
    if use := _USE.fullmatch(source.text, begin):
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


def _explain_class(source: SourceText, found: re.Match[str]) -> tuple[StatementClass, bool]:
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


def _check_characters(source: SourceText) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        # The error shows the line, and must be a text that can be sent.
        shown = replace(source, original=source.original.encode(errors="replace").decode())
        raise shown.error(
            "The statement has a character that no text can have (a lone surrogate).", error.start
        ) from error


def _check_first_word(source: SourceText, body: str) -> None:
    word = _WORD.match(body, blanks_end(body, 0))
    if word is None:
        raise InvalidInput("The statement is empty: write one, such as SHOW TABLES.")
    if fold(word[0]) not in _READS:
        if word[0].isalpha():
            raise Unsupported(
                f"{word[0].upper()} is not supported: statements only read "
                "(SELECT, WITH, VALUES, FROM, SHOW TABLES, SHOW STORES, SHOW HOSTS, DESCRIBE, EXPLAIN, USE)."
            )
        raise source.error(f"A statement cannot start with {word[0]!r}.", word.start())


def _tree(source: SourceText, body: str, dialect: str) -> exp.Expr:
    # With a parameter like $1 anywhere, sqlglot's tokenizer takes an empty string at the very end of a text
    # for one that is not closed.
    readable = f"{body}\n" if body.endswith("''") else body
    known = dialect_of(dialect)
    try:
        tokens = tokenize(source, readable, known)
        statements = _statements(tokens, readable, known)
    except ParseError as error:
        raise _syntax_error(source, body, error) from error
    except TokenError as error:
        raise _token_error(source, body, error) from error
    except SqlglotError as error:
        raise InvalidInput(f"The statement cannot be read: {_first_line(str(error))}") from error
    except RecursionError as error:
        raise InvalidInput(_TOO_DEEP) from error
    except TooManyReadingsError as error:
        raise InvalidInput(
            "The statement nests names of types, or other words with several meanings, too deeply: use "
            "brackets less."
        ) from error
    except LivestateError:
        raise
    except Exception as error:
        # The parser fails in many ways on texts that are no SQL.
        raise InvalidInput(f"The statement cannot be read in the dialect {dialect!r}.") from error
    if not statements:
        raise InvalidInput("The statement is empty: write one, such as SHOW TABLES.")
    if len(statements) > 1 or isinstance(statements[0], exp.Block):
        raise Unsupported("One statement at a time: send each on its own.")
    _check_written_size(statements[0])
    _check_depth(statements[0])
    _translate(statements[0], dialect)
    _read_arrows(source, tokens if dialect == "duckdb" else (), statements[0])
    _check_intervals(source, tokens if dialect == "duckdb" else ())
    _check_clock_arguments(source, statements[0])
    _write_out_names(statements[0], dialect)
    return _balance_conditions(_write_out_literals(source, statements[0], dialect))


def _translate(tree: exp.Expr, dialect: str) -> None:
    """Have a statement of another dialect mean in the engine's what it means there."""
    if dialect == "duckdb":
        return
    try:
        say_in_engine_terms(tree, dialect)
        _check_written_size(tree)
    except LivestateError:
        raise
    except RecursionError as error:
        raise InvalidInput(_TOO_DEEP) from error
    except Exception as error:
        # The parser takes functions without their arguments.
        raise InvalidInput(
            f"The statement cannot be translated from the dialect {dialect!r}: a function in it lacks "
            "arguments, or has others than it takes."
        ) from error


def _statements(tokens: Sequence[Token], text: str, dialect: Dialect) -> list[exp.Expr]:
    """The statements of a text."""
    if not isinstance(dialect, DuckDB):
        return _without_none(parse_tokens(tokens, text, dialect))
    tokens, keys = take_key_parts(bracket_typed_literals(tokens))
    statements = _with_calls(tokens, text, dialect)
    parts = [
        _with_calls([token_near(TokenType.SELECT, "SELECT", key[0]), *key], text, dialect)[0].expressions[0]
        for key in keys
    ]
    for statement in statements if parts else ():
        put_key_parts(statement, parts)
    return statements


def _with_calls(tokens: Sequence[Token], text: str, dialect: Dialect) -> list[exp.Expr]:
    """Statements, as they stand where their calls behind dots are not read as calls."""
    calls = chained_calls(tokens)
    if calls:
        with suppress(ParseError, NotReadError):
            found = parse_tokens(mark_chained_calls(tokens, calls), text, dialect)
            return [read_chained_calls(statement) for statement in _without_none(found)]
    return _without_none(parse_tokens(tokens, text, dialect))


def _without_none(statements: Sequence[exp.Expr | None]) -> list[exp.Expr]:
    return [statement for statement in statements if statement is not None]


def _read_arrows(source: SourceText, tokens: Sequence[Token], tree: exp.Expr) -> None:
    """Have an arrow get a member of JSON, as in the engine; the parser reads it as a lambda where an argument
    of a function begins.
    """
    arrows = [token for token in tokens if token.token_type is TokenType.ARROW]
    lambdas = list(tree.find_all(exp.Lambda)) if arrows else []
    named = sum(fold(token.text) == "lambda" for token in tokens) if lambdas else 0
    if len(lambdas) <= named:
        return
    if named or any(len(each.expressions) != 1 for each in lambdas):
        raise source.error(
            "Write a lambda as lambda x: x + 1, and what gets a member of JSON in brackets.", arrows[0].start
        )
    room = MAX_READ_AGAIN
    try:
        for each in reversed(lambdas):
            name = each.expressions[0].sql(dialect=EngineDialect)
            member = each.this.sql(dialect=EngineDialect)
            room -= len(member)
            if room < 0:
                raise source.error(
                    "There is too much behind the arrows that stand in arguments of functions: put what gets "
                    "a member of JSON in brackets.",
                    arrows[0].start,
                )
            read: exp.Expr = exp.maybe_parse(f"SELECT {name} -> {member}", dialect=EngineDialect)
            each.replace(read.expressions[0].unalias())
    except (SqlglotError, RecursionError) as error:
        raise source.error("Put what gets a member of JSON in brackets.", arrows[0].start) from error


def _check_intervals(source: SourceText, tokens: Sequence[Token]) -> None:
    """Refuse INTERVAL 1, as the engine does; the parser reads it as INTERVAL '1', which is a second."""
    for place, token in enumerate(tokens[:-1]):
        number = tokens[place + 1]
        if token.token_type is not TokenType.INTERVAL or number.token_type is not TokenType.NUMBER:
            continue
        unit = fold(tokens[place + 2].text) if place + 2 < len(tokens) else ""
        if unit.removesuffix("s") not in _UNITS:
            raise source.error(f"INTERVAL {number.text} has no unit, such as DAY.", number.start)


def _check_clock_arguments(source: SourceText, tree: exp.Expr) -> None:
    """Refuse what no dialect gives to a function that reads the clock; the parser takes anything."""
    for call in tree.find_all(*CLOCK_NODES):
        for argument in call.iter_expressions():
            if not isinstance(argument, _CLOCK_ARGUMENTS):
                name = fold(call.sql_name())
                raise source.error(
                    f"The function {name} takes no argument of this kind: leave it out.",
                    offset_of(argument),
                )


def _check_depth(tree: exp.Expr) -> None:
    stack = [(tree, 0, 0)]
    while stack:
        node, depth, terms = stack.pop()
        if depth > MAX_DEPTH or terms > MAX_TERMS:
            raise InvalidInput(
                _TOO_DEEP
                if depth > MAX_DEPTH
                else f"The statement has more than {MAX_TERMS} operators behind each other."
            )
        is_binary = isinstance(node, exp.Binary)
        for child in node.iter_expressions():
            is_chained = is_binary and child.arg_key == "this" and isinstance(child, exp.Binary)
            stack.append((child, depth, terms + 1) if is_chained else (child, depth + 1, 0))


def _check_written_size(tree: exp.Expr) -> None:
    """Refuse what becomes very long when it is written, or copied: a copy of a cast has its type twice, and
    all that is in it.
    """
    once, copied = 0, 0
    stack = [(tree, 1)]
    while stack:
        node, copies = stack.pop()
        if isinstance(node, exp.Cast) and isinstance(node.parent, exp.DataType | exp.ColumnDef):
            raise InvalidInput("A type has an expression in it: types have types and numbers alone.")
        size = own_size(node)
        once += size
        copied += (copies - 1) * size
        copies *= copies_of_parts(node)
        stack += [(child, copies) for child in node.iter_expressions()]
    if copied > MAX_COPIED_CHARACTERS + MOST_COPIES * once:
        raise LimitExceeded(
            "The statement calls functions within each other that the engine does not have, and that "
            "become very long in its own: nest them less, or work out inner ones in a subquery."
        )


def _write_out_literals(source: SourceText, tree: exp.Expr, dialect: str) -> exp.Expr:
    """A tree with functions in place of DuckDB's operators that sqlglot does not write, and with the literals
    that DuckDB has.
    """
    for node in list(tree.find_all(exp.Cast, exp.HexString, exp.BitString, exp.Struct)):
        if isinstance(node, exp.Struct):
            _write_out_fields(node)
        elif isinstance(node, exp.HexString):
            if not _HEX_DIGITS.fullmatch(str(node.this)):
                raise source.error(
                    (
                        f"x'{str(node.this)[:40]}' is no literal of bytes: it takes two hexadecimal digits a "
                        "byte."
                    ),
                    None,
                )
        elif isinstance(node, exp.BitString):
            if dialect != "duckdb":
                # Elsewhere it is a number, or can be one.
                node.replace(exp.Literal.number(int(str(node.this), 2)))
        elif node.args["to"].args.get("kind") == FACTORIAL:
            node.replace(exp.Anonymous(this="factorial", expressions=[node.this]))
    return tree


def _write_out_fields(struct: exp.Struct) -> None:
    """Name the fields of a struct that sqlglot would number. A parameter of a lambda is one: it is no column,
    whose name a value gets.
    """
    for field in struct.expressions:
        if isinstance(field, exp.Kwarg | exp.Identifier):
            named = exp.PropertyEQ(this=exp.to_identifier(field.name, quoted=True))
            field.replace(named)
            named.set("expression", field.expression if isinstance(field, exp.Kwarg) else field)


def _write_out_names(tree: exp.Expr, dialect: str) -> None:
    """Put names in quotation marks that are names in their dialect alone: the engine would read `$9` as a
    parameter, `$$a$$` as a string, and `#1` as a column by its place. `$1` where a value may stand is one.
    """
    for pivot in () if dialect == "duckdb" else tree.find_all(exp.Pivot):
        # The engine takes no tables there.
        for node in pivot.walk(prune=lambda each: isinstance(each, exp.Query)):
            for part in ("table", "db", "catalog") if isinstance(node, exp.Column) else ():
                node.set(part, None)
    for node in [] if dialect == "duckdb" else list(tree.find_all(exp.Identifier)):
        name, column = str(node.this), node.parent
        if node.args.get("quoted") or not name or _PLAIN_NAME.fullmatch(name):
            continue
        if isinstance(column, exp.Column) and _NUMBERED_MARK.fullmatch(name) and not column.args.get("table"):
            column.replace(exp.Placeholder(this=name[1:]))
        else:
            node.set("quoted", True)


def _balance_conditions(tree: exp.Expr) -> exp.Expr:
    """A tree in which no long chain of AND or OR is deep."""
    for node in list(tree.find_all(exp.And, exp.Or)):
        if type(node.parent) is type(node) or not isinstance(node.this, type(node)):
            continue
        conditions = list(node.flatten(unnest=False))
        if len(conditions) >= _BALANCED_FROM:
            found = _join_conditions(type(node), conditions)
            node.set("this", found.this)
            node.set("expression", found.args["expression"])
    return tree


def _join_conditions(connector: type[exp.Connector], conditions: Sequence[exp.Expr]) -> exp.Expr:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return connector(
        this=_join_conditions(connector, conditions[:middle]),
        expression=_join_conditions(connector, conditions[middle:]),
    )


def _token_error(source: SourceText, body: str, error: TokenError) -> InvalidInput:
    """What keeps a text from being cut into tokens: mostly something that is not closed."""
    missing = _MISSING.fullmatch(str(error.__context__))
    if missing is not None:
        return source.error(f"{missing[1]} is not closed.", int(missing[2]))
    if isinstance(error.__context__, IndexError) and "/*" in body:
        return source.error("A comment is not closed: */ is missing.", body.rfind("/*"))
    return source.error(f"The statement cannot be read: {_first_line(str(error))}", None)


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


_MISSING = re.compile(r"Missing (\S+) from \d+:(\d+)")
"""What sqlglot's tokenizer says of a quote that is not closed, and how many characters are before it."""
_TOO_DEEP = "The statement nests too deeply: write inner queries as WITH, or ask in parts."


def _check_tree(source: SourceText, tree: exp.Expr) -> None:
    selects = 0
    if not isinstance(tree, exp.Query | exp.Values | exp.Summarize | exp.Table | exp.Pivot):
        raise Unsupported(f"{tree.key.upper()} is not supported: statements only read.")
    for node in tree.walk():
        if isinstance(node, _REFUSED_NODES):
            raise Unsupported(
                f"{node.key.upper()} is not supported inside a statement: statements only read."
            )
        selects += isinstance(node, exp.Select | exp.Table)
        if selects > MAX_SELECTS:
            raise LimitExceeded(
                f"The statement has more than {MAX_SELECTS} SELECTs and tables: ask in parts."
            )
        if isinstance(node, exp.Describe):
            raise Unsupported("DESCRIBE is not supported inside a statement.")
        if isinstance(node, exp.Table) and not isinstance(node.this, exp.Identifier):
            _check_table_function(source, node.this)
        elif isinstance(node, exp.Summarize) and not isinstance(node.this, exp.Table | exp.Query):
            raise source.error("SUMMARIZE takes the name of a store, or a query.", offset_of(node))
        else:
            _check_calls_and_types(source, node)


def _check_calls_and_types(source: SourceText, node: exp.Expr) -> None:
    if isinstance(node, exp.Func) and is_refused(function_name(node)) and session_column(node) is None:
        raise source.error(
            f"The function {function_name(node)} is not allowed: it reaches beyond its arguments.",
            offset_of(node),
        )
    if isinstance(node, exp.Func) and _has_arrow_for_lambda(node):
        raise source.error(
            f"Write the lambda of {function_name(node)} as lambda x: x + 1, and not with an arrow.",
            offset_of(node),
        )
    if isinstance(node, exp.DataType) and _array_values(node) > MAX_ARRAY_VALUES:
        raise source.error(
            f"A type holds arrays of more than {MAX_ARRAY_VALUES} values: leave the sizes out.", None
        )
    if isinstance(node, exp.JSONPathPart) and not isinstance(node, _PATH_PARTS):
        raise Unsupported("A path into JSON has names of members, places and * alone: $.a[0].*")
    if isinstance(node, exp.HavingMax):
        raise source.error("HAVING MAX is not supported: use arg_max(value, of).", offset_of(node))
    if isinstance(node, exp.Dot) and _is_call_with_schema(node):
        raise source.error(
            "Functions are called by their names alone: leave the schema out.", offset_of(node)
        )


def _has_arrow_for_lambda(call: exp.Func) -> bool:
    """Whether a function that takes a lambda is given an arrow. The engine refuses that; where the list is a
    query, it fails, as that is gone when it tries another reading than a lambda.
    """
    if function_name(call) not in _LAMBDA_FUNCTIONS:
        return False
    _, *others = [*call.iter_expressions()] or [call]
    # An arrow binds less than what is around it, so that one within an argument is that of all of it.
    return any(not isinstance(each, exp.Lambda) and each.find(exp.JSONExtract) for each in others[:1])


def _array_values(node: exp.Expr | None) -> int:
    """How many values a type can have in one of the types around it, as its arrays say."""
    values = 1
    while isinstance(node, exp.DataType | exp.ColumnDef):
        for size in node.args.get("values") or () if isinstance(node, exp.DataType) else ():
            values *= int(size.this) if isinstance(size, exp.Literal) and size.is_int else 1
        node = node.parent
    return values


def _is_call_with_schema(node: exp.Dot) -> bool:
    return (
        isinstance(node.expression, exp.Func)
        and fold(node.sql(EngineDialect).partition(".")[0].strip('"')) in SCHEMAS
    )


def _check_table_function(source: SourceText, node: exp.Expr | None) -> None:
    if node is None:
        raise Unsupported("ROWS FROM (…) is not supported: call each function in FROM by itself.")
    if isinstance(node, exp.GenerateSeries | exp.Unnest):
        return
    name = function_name(node) if isinstance(node, exp.Func) else node.sql(dialect=EngineDialect)
    if name not in TABLE_FUNCTIONS:
        raise source.error(
            f"The table function {name} is not allowed; allowed are {', '.join(sorted(TABLE_FUNCTIONS))}.",
            offset_of(node),
        )


def copy_without_positions(tree: exp.Expr) -> exp.Expr:
    """A copy of a tree that does not know its places in the text: to copy these takes longer than to copy the
    tree itself.

    Args:
        tree: A parsed tree, of any depth.
    """
    made = type(tree)()
    pending = [(tree, made)]
    while pending:
        node, copy = pending.pop()
        for name, value in node.args.items():
            if isinstance(value, exp.Expr):
                copy.args[name] = _child(value, copy, name, None, pending)
            elif isinstance(value, list):
                copy.args[name] = [
                    _child(each, copy, name, place, pending) if isinstance(each, exp.Expr) else each
                    for place, each in enumerate(value)
                ]
            else:
                copy.args[name] = value
    return made


def _child(
    node: exp.Expr, parent: exp.Expr, name: str, place: int | None, pending: list[tuple[exp.Expr, exp.Expr]]
) -> exp.Expr:
    """The copy of a child, without its own children yet."""
    copy = type(node)()
    copy.parent, copy.arg_key, copy.index = parent, name, place
    pending.append((node, copy))
    return copy


def replace_children(node: exp.Expr, replace: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A node of the same kind whose children are replaced; without its place in the text.

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
