"""SQL texts of one or several statements, run one after the other."""

from __future__ import annotations

import datetime as dt
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from rich.console import Group
from rich.text import Text

from engine.errors import LivestateError, Unavailable
from engine.processes.signal_event import SignalEvent
from flight_server.cli.render import WRITERS, error_lines, first_rows, result_table, terminal
from flight_server.cli.repetition import interrupt_event, show_again
from flight_server.cli.sql_text import ScriptStatement, split_script
from flight_server.cli.statement_runs import StatementRun
from flight_server.client.client import Client, Rows

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

_PLACE = re.compile(r"^Line (\d+), column (\d+):$", re.MULTILINE)
_LOOK_SECONDS = 0.1


@dataclass(frozen=True)
class Script:
    """Statements of one text.

    Attributes:
        statements: The statements.
        name: What the text is called in messages; empty where there is nothing to call it.
    """

    statements: tuple[ScriptStatement, ...]
    name: str = ""

    @staticmethod
    def parse(text: str, name: str, dialect: str) -> Script:
        """The statements of a text.

        Args:
            text: Any number of statements with semicolons between them.
            name: As the attribute.
            dialect: Dialect of the text.
        """
        ended, rest = split_script(text, dialect)
        return Script((*ended, *([] if rest is None else [rest])), name)

    def cut_settings(self) -> tuple[Script, Script]:
        """The settings that it begins with, and what is behind them."""
        count = sum(1 for _ in takewhile(lambda each: each.setting is not None, self.statements))
        return (
            replace(self, statements=self.statements[:count]),
            replace(self, statements=self.statements[count:]),
        )

    def error(self, error: LivestateError, statement: ScriptStatement) -> LivestateError:
        """The error of a statement, which names its place in the whole text.

        Args:
            error: What the host says of the statement alone.
            statement: One of the script's.
        """
        name = f"{self.name}, line" if self.name else "Line"

        def place(found: re.Match[str]) -> str:
            line, column = int(found[1]), int(found[2])
            left = statement.column - 1 if line == 1 else 0
            return f"{name} {line + statement.line - 1}, column {column + left}:"

        message, found = _PLACE.subn(place, error.message, count=1)
        if not found and len(self.statements) > 1:
            message = f"{message}\n{name} {statement.line}: this statement."
        placed = type(error)(message)
        placed.statement = error.statement
        return placed


def run_script(
    client: Client, script: Script, output_format: str, max_rows: int, *, keep_going: bool = False
) -> bool:
    """Run statements one after the other, and write what they answer to standard output. SET and RESET hold
    for those behind them, and write nothing.

    Args:
        client: Connection to the host.
        script: The statements.
        output_format: `table`, or one of `flight_server.cli.render.WRITERS`.
        max_rows: Rows that a table shows; 0 for all.
        keep_going: Show what failed, and go on with the next statement.

    Returns:
        Whether all statements ran.

    Raises:
        LivestateError: What a statement failed with, where `keep_going` is not set.
    """
    console, is_right, is_first = terminal(), True, True
    for statement in script.statements:
        try:
            rows = client.query(statement.text)
            if statement.setting is not None:
                rows.read_all()
                continue
            if output_format == "table" and not is_first:
                console.print()
            is_first = False
            _write_rows(rows, output_format, max_rows, console)
        except LivestateError as failure:
            error = script.error(failure, statement)
            if not keep_going:
                raise error from failure
            is_right = False
            console.file.flush()
            for line in error_lines(error):
                terminal(stderr=True).print(line, soft_wrap=True)
    return is_right


def _write_rows(rows: Rows, output_format: str, max_rows: int, console: Console) -> None:
    if output_format != "table":
        WRITERS[output_format](rows.schema, rows, sys.stdout.buffer)
        return
    table, more = first_rows(rows, rows.schema, max_rows)
    console.print(result_table(table, console.width))
    if more:
        rows.close()
        terminal(stderr=True).print(
            f"Only the first {max_rows:,} rows are shown; --max-rows 0 shows all, --format csv writes them "
            "as they arrive.",
            soft_wrap=True,
        )


def watch_statement(client: Client, sql: str, seconds: float, max_rows: int) -> None:
    """Run a statement again and again, until an interrupt, and show its rows: in the same place of a
    terminal, below each other elsewhere, each with the time.

    Args:
        client: Connection to the host.
        sql: One statement.
        seconds: How long to wait between.
        max_rows: Rows that are shown; 0 for all.

    Raises:
        LivestateError: The statement failed; if a host went away meanwhile that is shown, and asked again.
    """
    console = terminal()
    with interrupt_event() as interrupted:
        show_again(console, _rounds(client, sql, max_rows, console, interrupted), seconds, interrupted)


def _rounds(
    client: Client, sql: str, max_rows: int, console: Console, interrupted: SignalEvent
) -> Iterator[RenderableType]:
    is_known = False
    while True:
        run = StatementRun(client, sql, max_rows)
        while not run.wait(_LOOK_SECONDS):
            if interrupted.is_set():
                run.cancel()
                return
        heading = Text(dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC"), style="dim")
        try:
            shown = run.result()
        except Unavailable as error:
            if not is_known:
                raise
            yield Group(heading, *(Text(line, style="red") for line in error_lines(error)))
            continue
        is_known = True
        more = [Text(f"Only the first {max_rows:,} rows are shown.", style="dim")] if shown.more else []
        yield Group(heading, result_table(shown.table, console.width), *more)
