"""The interactive prompt of `livestate sql`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]  # pygments has no types

from engine.errors import LivestateError
from flight_server.cli.completion import Catalog, completions, quote_if_needed
from flight_server.cli.render import error_lines, first_rows, human_seconds, result_table
from flight_server.cli.sql_text import is_complete, split_statements
from flight_server.cli.store_tables import stores_table
from flight_server.client.client import Client, Rows

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_LIMIT = 1000
_PATIENCE_SECONDS = 2.0
HELP = """\
SQL ends with ; and may take several lines. Tab completes names; ↑ and Ctrl-R find earlier statements.
  \\d           all stores              \\d STORE     columns of a store
  \\limit N     show at most N rows     \\q, Ctrl-D   leave
Ctrl-C cancels the running statement, or clears what was typed.
Try:  SELECT * FROM a_store LIMIT 5;"""


@dataclass
class _Answer:
    """What a statement came to; filled by the thread that runs it."""

    rows: Rows | None = None
    table: pa.Table | None = None
    more: bool = False
    error: LivestateError | None = None
    done: threading.Event = field(default_factory=threading.Event)


@dataclass(frozen=True)
class Shown:
    """A result that is ready to be shown.

    Attributes:
        table: The rows.
        more: Whether there were more than the limit.
        metadata: What the host said of the query.
        seconds: Time from sending the statement to having the rows.
    """

    table: pa.Table
    more: bool
    metadata: Mapping[str, Any]
    seconds: float


def run_cancellable(client: Client, sql: str, limit: int) -> Shown:
    """Run a statement so that Ctrl-C cancels it, on the host too.

    The network call blocks where Python handles no signals, so it happens in a thread of its own.

    Args:
        client: Connection to the host.
        sql: One statement.
        limit: How many rows to take at most; 0 takes all.

    Returns:
        The rows.

    Raises:
        LivestateError: The statement failed.
        KeyboardInterrupt: The user cancelled it.
    """
    answer = _Answer()
    started = time.perf_counter()
    call_id = os.urandom(8)
    threading.Thread(target=_run, args=(client, sql, call_id, limit, answer), daemon=True).start()
    try:
        answer.done.wait()
    except KeyboardInterrupt:
        with suppress(LivestateError):
            # The query may have ended in this moment.
            client.cancel(call_id)
        raise
    if answer.error is not None:
        raise answer.error
    assert answer.table is not None
    assert answer.rows is not None
    return Shown(answer.table, answer.more, answer.rows.metadata, time.perf_counter() - started)


def _run(client: Client, sql: str, call_id: bytes, limit: int, answer: _Answer) -> None:
    try:
        answer.rows = client.query(sql, call_id=call_id)
        answer.table, answer.more = first_rows(answer.rows, answer.rows.schema, limit)
        if answer.more:
            answer.rows.close()
    except LivestateError as error:
        answer.error = error
    finally:
        answer.done.set()


def read_catalog(client: Client) -> Catalog:
    """The names of all stores and columns of a host.

    Args:
        client: Connection to the host.

    Returns:
        What completion offers.

    Raises:
        LivestateError: The host does not answer.
    """
    columns: dict[str, Sequence[tuple[str, str]]] = {}
    for store in client.stores()["store"].to_pylist():
        described = client.query(f"DESCRIBE {quote_if_needed(store)}").read_all()
        columns[store] = list(zip(described[0].to_pylist(), described[1].to_pylist(), strict=True))
    return Catalog(columns)


@dataclass
class Prompt:
    """One session at the prompt.

    Attributes:
        client: Connection to the host.
        console: Where results go.
        limit: How many rows of a result are shown; 0 shows all.
        catalog: The names that completion offers.
    """

    client: Client
    console: Console
    limit: int = DEFAULT_LIMIT
    catalog: Catalog = field(default_factory=Catalog)
    _refresher: threading.Thread | None = field(default=None, init=False, repr=False)

    def execute(self, typed: str) -> bool:
        """Do what was typed: a command, or statements.

        Args:
            typed: A complete input.

        Returns:
            Whether the session goes on.
        """
        text = typed.strip()
        word = text.split(maxsplit=1)[0].lower().rstrip(";") if text else ""
        if word in ("\\q", "quit", "exit"):
            return False
        if word in ("help", "\\help", "\\?", "\\h"):
            self.console.print(HELP)
        elif word.startswith("\\"):
            self._command(word, text[len(word) :].strip().rstrip(";").strip())
        else:
            statements, rest = split_statements(text)
            for statement in [*statements, *([rest] if rest else [])]:
                if not self._statement(statement):
                    break
        return True

    def refresh(self) -> None:
        """Ask the host again for the names that completion offers, while the user types on; without a host,
        keep the old ones.
        """
        self._refresher = threading.Thread(target=self._refresh, name="completion", daemon=True)
        self._refresher.start()

    def close(self) -> None:
        """End the session: wait a moment for the names that are being asked for, as Python may not end inside
        a call of Flight.
        """
        if self._refresher is not None:
            self._refresher.join(_PATIENCE_SECONDS)

    def _refresh(self) -> None:
        with suppress(LivestateError):
            self.catalog = read_catalog(self.client)

    def _command(self, word: str, argument: str) -> None:
        if word == "\\d" and argument:
            self._statement(f"DESCRIBE {argument}")
        elif word == "\\d":
            self._stores()
        elif word == "\\limit" and argument.isdecimal():
            self.limit = int(argument)
            self.console.print(f"Showing at most {self.limit:,} rows." if self.limit else "Showing all rows.")
        else:
            self.console.print(
                f"There is no command {word} {argument}".rstrip() + "; \\help lists them.",
                style="red",
                markup=False,
            )

    def _stores(self) -> None:
        try:
            self.console.print(stores_table(self.client.stores()))
        except LivestateError as error:
            self._show_error(error)
        else:
            self.refresh()

    def _statement(self, sql: str) -> bool:
        try:
            shown = run_cancellable(self.client, sql, self.limit)
        except LivestateError as error:
            self._show_error(error)
            return False
        except KeyboardInterrupt:
            self.console.print("Cancelled.", style="yellow")
            return False
        self.console.print(result_table(shown.table, self.console.width))
        self.console.print(summary(shown), style="dim", markup=False)
        return True

    def _show_error(self, error: LivestateError) -> None:
        for line in error_lines(error):
            self.console.print(line, style="red", markup=False, soft_wrap=True)


def summary(shown: Shown) -> str:
    """The line under a result.

    Args:
        shown: The result.

    Returns:
        Such as `5 rows · 3.2 ms · epoch 142`.
    """
    rows = shown.table.num_rows
    parts = [
        f"first {rows:,} rows; \\limit shows more"
        if shown.more
        else f"{rows:,} row{'' if rows == 1 else 's'}",
        human_seconds(shown.seconds),
    ]
    epochs: Mapping[str, int] = shown.metadata.get("epochs") or {}
    if len(epochs) == 1:
        parts.append(f"epoch {next(iter(epochs.values())):,}")
    elif epochs:
        parts.append("epochs " + ", ".join(f"{group} {epoch:,}" for group, epoch in epochs.items()))
    return " · ".join(parts)


class _Completer(Completer):
    """Offers what `flight_server.cli.completion` finds."""

    def __init__(self, prompt: Prompt) -> None:
        self._prompt = prompt

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Choice]:
        for found in completions(document.text_before_cursor, document.text, self._prompt.catalog):
            yield Choice(found.text, -found.replaces, display_meta=found.description)


def history_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where statements are remembered.

    Args:
        environment: The process's environment.

    Returns:
        `livestate/history` in the user's state directory (XDG).
    """
    state = environment.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(state).expanduser() / "livestate" / "history"


def _history() -> History:
    file = history_file()
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except OSError:
        return InMemoryHistory()
    return FileHistory(file)


def _bindings() -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return bindings


def run_prompt(client: Client, console: Console, limit: int = DEFAULT_LIMIT) -> None:
    """Read and run statements until the user leaves.

    Args:
        client: Connection to the host.
        console: Where results go.
        limit: How many rows of a result are shown; 0 shows all.

    Raises:
        LivestateError: There is no host to talk to.
    """
    stores = client.stores().num_rows
    prompt = Prompt(client, console, limit)
    prompt.refresh()
    console.print(
        (
            f"Connected to {client.uri}: {stores} store{'' if stores == 1 else 's'}. \\d lists them, \\help "
            "helps, \\q leaves."
        ),
        markup=False,
    )
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_Completer(prompt),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_bindings(),
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "...> ".rjust(width),
    )
    with closing(prompt):
        while True:
            try:
                typed = session.prompt("livestate> ")
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not prompt.execute(typed):
                return
