"""The interactive prompt of `livestate sql`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer
from prompt_toolkit.completion import Completion as Choice
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]  # pygments has no types

from engine.errors import InvalidInput, LivestateError
from engine.model.quantities import quantity
from flight_server.cli.call_threads import CallThread
from flight_server.cli.completion import Catalog, completions, quote_if_needed
from flight_server.cli.hosts import hosts_table
from flight_server.cli.render import error_lines, human_seconds, result_table
from flight_server.cli.scripts import Script
from flight_server.cli.sql_text import ScriptStatement, is_complete
from flight_server.cli.statement_runs import Shown, run_cancellable
from flight_server.cli.store_tables import render_hosts, stores_table
from flight_server.client.client import Client

if TYPE_CHECKING:
    from rich.console import Console

DEFAULT_LIMIT = 1000
HELP = """\
SQL ends with ; and may take several lines. Tab completes names; ↑ and Ctrl-R find earlier statements.
  \\d           all stores              \\d STORE     columns of a store
  \\l           hosts                   \\i FILE      run the statements of a file
  \\x           rows one below the other, or in a table again
  \\set         options of the session, which SET and RESET change
  \\timing      show times, or show none again
  \\limit N     show at most N rows     \\q, Ctrl-D   leave          \\?   this help
Ctrl-C cancels the running statement, or clears what was typed.
Try:  SELECT * FROM a_store LIMIT 5;"""
_SWITCHES = {"": None, "on": True, "off": False}


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
        is_expanded: Whether rows are shown one below the other in any case.
        has_times: Whether times are shown.
        catalog: The names that completion offers.
    """

    client: Client
    console: Console
    limit: int = DEFAULT_LIMIT
    is_expanded: bool = False
    has_times: bool = True
    catalog: Catalog = field(default_factory=Catalog)

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
            self._script(Script.parse(text, "", self.client.options.dialect))
        return True

    def refresh(self) -> None:
        """Ask the host again for the names that completion offers, while the user types on; without a host,
        keep the old ones.
        """
        CallThread("completion", self._refresh).start()

    def _refresh(self) -> None:
        with suppress(LivestateError):
            self.catalog = read_catalog(self.client)

    def _command(self, word: str, argument: str) -> None:
        if word == "\\d" and argument:
            self._script(Script((ScriptStatement(f"DESCRIBE {argument}"),)))
        elif word == "\\d":
            self._stores()
        elif word == "\\l":
            self._hosts()
        elif word == "\\i" and argument:
            self._file(Path(argument).expanduser())
        elif word == "\\x" and argument.lower() in _SWITCHES:
            wanted = _SWITCHES[argument.lower()]
            self.is_expanded = not self.is_expanded if wanted is None else wanted
            self.console.print(
                "Rows are shown one below the other." if self.is_expanded else "Rows are shown in tables."
            )
        elif word == "\\set" and not argument:
            self._options()
        elif word == "\\timing" and argument.lower() in _SWITCHES:
            wanted = _SWITCHES[argument.lower()]
            self.has_times = not self.has_times if wanted is None else wanted
            self.console.print("Times are shown." if self.has_times else "Times are not shown.")
        elif word == "\\limit" and argument.isdecimal():
            self.limit = int(argument)
            self.console.print(
                f"Showing at most {quantity(self.limit, 'row')}." if self.limit else "Showing all rows."
            )
        else:
            self.console.print(
                f"There is no command {word} {argument}".rstrip() + "; \\? lists them.",
                style="red",
            )

    def _options(self) -> None:
        """Show which options are set."""
        values = self.client.options.values.items()
        text = ", ".join(
            f"{name} = {str(value).lower() if value is True else value}" for name, value in values
        )
        self.console.print(text or "No option is set.", style="dim", soft_wrap=True)

    def _stores(self) -> None:
        try:
            self.console.print(stores_table(self.client.stores()))
        except LivestateError as error:
            self._show_error(error)
        else:
            self.refresh()

    def _hosts(self) -> None:
        try:
            table, _ = hosts_table(self.client)
        except LivestateError as error:
            self._show_error(error)
        else:
            self.console.print(render_hosts(table))

    def _file(self, file: Path) -> None:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            reason = "it is not text in UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
            self._show_error(InvalidInput(f"{file} cannot be read: {reason}."))
        else:
            self._script(Script.parse(text, file.name, self.client.options.dialect))

    def _script(self, script: Script) -> None:
        """Run statements, up to the first that fails or is cancelled."""
        for statement in script.statements:
            try:
                shown = run_cancellable(self.client, statement.text, self.limit)
            except LivestateError as error:
                self._show_error(script.error(error, statement))
                return
            except KeyboardInterrupt:
                self.console.print("Cancelled.", style="yellow")
                return
            if statement.setting is not None:
                self._options()
                continue
            self.console.print(result_table(shown.table, self.console.width, is_expanded=self.is_expanded))
            self.console.print(summary(shown, has_time=self.has_times), style="dim")

    def _show_error(self, error: LivestateError) -> None:
        for line in error_lines(error):
            self.console.print(line, style="red", soft_wrap=True)


def summary(shown: Shown, *, has_time: bool = True) -> str:
    """The line under a result.

    Args:
        shown: The result.
        has_time: Whether it says how long the statement took.

    Returns:
        Such as `5 rows · 3.2 ms · epoch 142`.
    """
    rows = shown.table.num_rows
    parts = [
        f"first {quantity(rows, 'row')}; \\limit shows more" if shown.more else quantity(rows, "row"),
        *([human_seconds(shown.seconds)] if has_time else []),
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


class _FileHistory(FileHistory):
    """A history that a full disk, or a directory in its place, does not stop."""

    def store_string(self, string: str) -> None:
        """Remember a statement, if that can be written.

        Args:
            string: The statement.
        """
        with suppress(OSError):
            super().store_string(string)


def _history() -> History:
    try:
        file = history_file()
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.touch(mode=0o600)
    except (OSError, RuntimeError):
        return InMemoryHistory()  # there may be no home, or none that can be written
    return _FileHistory(file)


def _bindings(client: Client) -> KeyBindings:
    bindings = KeyBindings()

    @bindings.add("enter")
    def enter(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is not None and buffer.complete_state.current_completion is not None:
            buffer.complete_state = None
        elif is_complete(buffer.text, client.options.dialect):
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
        f"Connected to {client.uri}: {quantity(stores, 'store')}. \\d lists them, \\? helps, \\q leaves.",
    )
    session: PromptSession[str] = PromptSession(
        history=_history(),
        completer=_Completer(prompt),
        complete_while_typing=False,
        auto_suggest=AutoSuggestFromHistory(),
        lexer=PygmentsLexer(SqlLexer),
        key_bindings=_bindings(client),
        multiline=True,
        prompt_continuation=lambda width, line, wrapped: "...> ".rjust(width),
    )
    while True:
        try:
            typed = session.prompt("livestate> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if not prompt.execute(typed):
            return
