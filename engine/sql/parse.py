"""Text to a checked syntax tree: one statement that only reads."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.errors import ParseError, SqlglotError, TokenError
from sqlglot.tokenizer_core import Token, TokenType

from engine.errors import InvalidInput, LivestateError, Unsupported
from engine.sql.arrows import read_arrows
from engine.sql.bracketed_joins import name_bracketed_joins
from engine.sql.chained_calls import NotReadError, chained_calls, mark_chained_calls, read_chained_calls
from engine.sql.dialects.meanings import say_in_engine_terms
from engine.sql.engine_dialect.made_tokens import token_near
from engine.sql.engine_dialect.type_names import hide_lists, show_lists
from engine.sql.engine_spelling import write_out_literals, write_out_names
from engine.sql.first_words import EXPLAIN, check_first_word, described_name, explain_class, parse_show
from engine.sql.lexer import with_plain_blanks
from engine.sql.literals import MAX_STATEMENT_LENGTH, LiftedText, too_long_error
from engine.sql.parsed_statement import ParsedStatement, StatementClass
from engine.sql.recursion_keys import put_key_parts, take_key_parts
from engine.sql.refused_syntax import check_clock_arguments, check_intervals, check_states, check_tree
from engine.sql.syntax_errors import first_line, syntax_error, token_error
from engine.sql.text import SourceText
from engine.sql.tokens import TooManyReadingsError, blanks_end_in, dialect_of, parse_tokens, tokenize
from engine.sql.tree_depth import TOO_DEEP, balance_conditions, check_depth
from engine.sql.typed_literals import bracket_typed_literals
from engine.sql.written_size import check_written_size

_STRING = re.compile(r"'[^']*+'")


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
    begin = blanks_end_in(source.text, 0, dialect)
    shown = parse_show(source, begin, dialect)
    if shown is not None:
        return shown
    statement_class, body, is_json = StatementClass.QUERY, source.text, False
    if explain := EXPLAIN.match(body, begin):
        statement_class, is_json = explain_class(source, explain)
        # Blanks keep the places of what follows.
        body = " " * explain.end() + body[explain.end() :]
    elif name := described_name(body, begin, dialect):
        body = "DESC".rjust(name - 1) + " " + body[name:]
    _check_characters(source)
    check_first_word(source, body, blanks_end_in(body, 0, dialect), is_explained=explain is not None)
    if len(body) > MAX_STATEMENT_LENGTH and len(_STRING.sub("", body)) > MAX_STATEMENT_LENGTH:
        raise too_long_error()
    tree = _tree(source, with_plain_blanks(body) if dialect == "duckdb" else body, dialect)
    if isinstance(tree, exp.Describe):
        if statement_class is not StatementClass.QUERY:
            raise Unsupported("EXPLAIN of DESCRIBE is not supported: explain the query itself.")
        statement_class, tree = StatementClass.DESCRIBE, tree.this
    check_tree(source, tree)
    return ParsedStatement(statement_class, source, tree, is_json)


def _check_characters(source: SourceText) -> None:
    try:
        source.text.encode()
    except UnicodeEncodeError as error:
        # The error shows the line, and must be a text that can be sent.
        shown = replace(source, original=source.original.encode(errors="replace").decode())
        raise shown.error(
            "The statement has a character that no text can have (a lone surrogate).", error.start
        ) from error


def _tree(source: SourceText, body: str, dialect: str) -> exp.Expr:
    # With a parameter like $1 anywhere, sqlglot's tokenizer takes an empty string at the very end of a text
    # for one that is not closed.
    readable = f"{body}\n" if body.endswith("''") else body
    known = dialect_of(dialect)
    try:
        tokens = tokenize(source, readable, known)
        statements = _statements(tokens, readable, known)
    except ParseError as error:
        raise syntax_error(source, body, error) from error
    except TokenError as error:
        raise token_error(source, body, error) from error
    except SqlglotError as error:
        raise InvalidInput(f"The statement cannot be read: {first_line(str(error))}") from error
    except RecursionError as error:
        raise InvalidInput(TOO_DEEP) from error
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
    check_written_size(statements[0])
    check_depth(statements[0])
    _translate(statements[0], dialect)
    read_arrows(source, tokens if dialect == "duckdb" else (), statements[0])
    check_intervals(source, tokens if dialect == "duckdb" else ())
    check_states(source, tokens if dialect == "duckdb" else (), statements[0])
    check_clock_arguments(source, statements[0])
    write_out_names(statements[0], dialect)
    name_bracketed_joins(statements[0])
    return balance_conditions(write_out_literals(source, statements[0], dialect))


def _translate(tree: exp.Expr, dialect: str) -> None:
    """Have a statement of another dialect mean in the engine's what it means there."""
    if dialect == "duckdb":
        return
    try:
        say_in_engine_terms(tree, dialect)
        check_written_size(tree)
    except LivestateError:
        raise
    except RecursionError as error:
        raise InvalidInput(TOO_DEEP) from error
    except Exception as error:
        # The parser takes functions without their arguments.
        raise InvalidInput(
            f"The statement cannot be translated from the dialect {dialect!r}: a function in it lacks "
            "arguments, or has others than it takes."
        ) from error


def _statements(tokens: Sequence[Token], text: str, dialect: Dialect) -> list[exp.Expr]:
    """The statements of a text."""
    if not isinstance(dialect, DuckDB):
        found = _without_none(parse_tokens(hide_lists(tokens), text, dialect))
        return [show_lists(statement) for statement in found]
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
