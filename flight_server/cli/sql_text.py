"""Where SQL statements begin and end in a text that a person types or a file holds."""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import InvalidInput
from engine.sql.lexer import (
    BACKSLASH_NAME,
    BACKSLASH_STRING,
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
from flight_server.wire.settings import Setting, setting_of

COMMAND_WORDS = frozenset({"help", "quit", "exit"})
"""Words that a prompt understands without a backslash and a semicolon."""
BACKSLASH_DIALECTS = frozenset(
    {
        "athena",
        "bigquery",
        "clickhouse",
        "databricks",
        "doris",
        "hive",
        "mysql",
        "redshift",
        "snowflake",
        "spark",
        "spark2",
        "starrocks",
    }
)
"""Dialects whose strings have backslashes."""

_MARKS = re.compile(
    rf"""(?P<end>;)|(?P<dollar>(?<![\w$]){DOLLAR_MARK})|(?P<comment>{COMMENT_MARK})
    |{ESCAPE_STRING}|{STRING}|{QUOTED_NAME}|{LINE_COMMENT}""",
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_MARKS_WITH_BACKSLASH = re.compile(
    rf"(?P<end>;)|(?P<dollar>(?!))|(?P<comment>{COMMENT_MARK})|{BACKSLASH_STRING}|{BACKSLASH_NAME}|{LINE_COMMENT}",
    re.DOTALL,
)


@dataclass(frozen=True)
class ScriptStatement:
    """One statement of a text.

    Attributes:
        text: The statement from its first word on, without its semicolon.
        line: Line of the text at which it begins, from 1.
        column: Column at which it begins, from 1.
    """

    text: str
    line: int = 1
    column: int = 1

    @property
    def setting(self) -> Setting | None:
        """The option of the session that it changes; None for any other statement, and for a SET that is
        written wrongly, which is refused at its turn.
        """
        try:
            return setting_of(self.text)
        except InvalidInput:
            return None


def split_script(text: str, dialect: str = "") -> tuple[list[ScriptStatement], ScriptStatement | None]:
    """Cut a text at the semicolons that end statements: those outside of strings, quoted names and comments.

    Args:
        text: SQL, any number of statements.
        dialect: Its dialect, until a SET in it names another one; empty: DuckDB's.

    Returns:
        The statements that a semicolon ended, without those that are nothing but comments; and what is behind
        the last semicolon, None if that is nothing but comments.
    """
    marks = _marks(dialect)
    statements: list[ScriptStatement] = []
    start = place = counted = line_start = 0
    line = 1

    def statement(end: int) -> ScriptStatement | None:
        nonlocal counted, line, line_start
        begin = blanks_end(text, start)
        if begin >= end:
            return None
        # Each part of the text is counted once, however many statements there are.
        line += text.count("\n", counted, begin)
        line_start = max(line_start, text.rfind("\n", counted, begin) + 1)
        counted = begin
        return ScriptStatement(text[begin:end].rstrip(), line, begin - line_start + 1)

    while (found := marks.search(text, place)) is not None:
        place = found.end()
        if found["comment"]:
            place = comment_end(text, found.start())
        elif found["dollar"]:
            place = dollar_end(text, found.start(), found["dollar"])
        elif found["end"]:
            ended = statement(found.start())
            start = place
            if ended is not None:
                statements.append(ended)
                if (setting := ended.setting) is not None and setting.name == "dialect":
                    marks = _marks(setting.value or "")
    return statements, statement(len(text))


def _marks(dialect: str) -> re.Pattern[str]:
    return _MARKS_WITH_BACKSLASH if dialect.lower() in BACKSLASH_DIALECTS else _MARKS


def is_complete(text: str, dialect: str = "") -> bool:
    r"""Whether a prompt should run a text now: it is empty, a command such as `\q`, or its last statement has
    ended.

    Args:
        text: What was typed so far.
        dialect: Its dialect; empty: DuckDB's.

    Returns:
        False to read another line.
    """
    typed = text.strip()
    if not typed or typed.startswith("\\") or typed.lower() in COMMAND_WORDS:
        return True
    statements, rest = split_script(typed, dialect)
    return bool(statements) and rest is None
