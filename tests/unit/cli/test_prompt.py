"""The prompt: what is typed, what is shown."""

from __future__ import annotations

import io
import signal
import threading
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.history import InMemoryHistory
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from engine.errors import Cancelled, LivestateError, NotFound
from flight_server.cli.prompt import Prompt, _history, history_file, read_catalog, run_prompt
from flight_server.cli.statement_runs import run_cancellable
from flight_server.client.client import Client
from flight_server.host.host import Host
from tests.support.waiting import wait_until

ENDLESS = (
    "SELECT count(*) FROM generate_series(1, 3000000) a(n), generate_series(1, 3000000) b(m) WHERE n % "
    "7 = m % 11"
)


class Terminal:
    """A console that keeps what it shows."""

    def __init__(self) -> None:
        self.file = io.StringIO()
        self.console = Console(width=100, file=self.file, color_system=None)

    def take(self) -> str:
        text = self.file.getvalue()
        self.file.seek(0)
        self.file.truncate()
        return text


def test_a_statement_shows_rows_time_and_epoch(client: Client) -> None:
    terminal = Terminal()
    prompt = Prompt(client, terminal.console)
    assert prompt.execute("SELECT song_id FROM songs\nWHERE song_id < 3 ORDER BY 1;")
    lines = terminal.take().splitlines()
    assert [line.strip() for line in lines[:4]] == ["song_id", "───────", "1", "2"]
    assert lines[-1].startswith("2 rows · ")
    assert lines[-1].endswith("· epoch 2")


def test_several_statements_run_until_one_fails(client: Client) -> None:
    terminal = Terminal()
    assert Prompt(client, terminal.console).execute("SELECT 1 AS a; SELECT nope FROM songs; SELECT 2 AS b;")
    text = terminal.take()
    assert "a" in text
    assert "There is no column nope" in text
    assert "b\n" not in text


def test_set_holds_until_reset(client: Client) -> None:
    terminal = Terminal()
    prompt = Prompt(client, terminal.console)
    assert prompt.execute("SET dialect = 'spark'; SET min_epoch = 0;")
    assert terminal.take().splitlines() == ["dialect = spark", "dialect = spark, min_epoch = 0"]
    assert prompt.execute("SELECT `song_id` AS a, 'an\\';' AS b FROM songs WHERE song_id = 1;")
    assert "an';" in terminal.take()
    assert prompt.execute("SET dialect = 'klingon'; SELECT 1;")
    assert "The dialect 'klingon' is not known; there are" in terminal.take()
    assert prompt.execute("\\set")
    assert terminal.take() == "dialect = spark, min_epoch = 0\n"
    assert prompt.execute("RESET dialect; SET allow_stale = true; RESET min_epoch;")
    assert terminal.take().splitlines()[-1] == "allow_stale = true"
    assert prompt.execute("RESET allow_stale; SELECT song_id AS a FROM songs WHERE title = 'an\\';")
    text = terminal.take()
    assert text.startswith("No option is set.\n")
    assert "0 rows" in text


def test_commands(client: Client, tmp_path: Path) -> None:
    terminal = Terminal()
    prompt = Prompt(client, terminal.console)
    assert prompt.execute("\\d")
    assert "songs" in terminal.take()
    assert prompt.execute('\\d "Odd ""name""" ;')
    assert "the key" in terminal.take()
    assert prompt.execute("\\limit 1")
    assert prompt.execute("SELECT song_id FROM songs;")
    assert "first 1 row; \\limit shows more" in terminal.take()
    assert prompt.execute("\\l")
    assert "this host" in terminal.take()
    assert prompt.execute("\\x")
    assert prompt.execute("SELECT song_id, title FROM songs WHERE song_id = 1;")
    shown = terminal.take().splitlines()
    assert [line.split() for line in shown[:4]] == [
        ["Rows", "are", "shown", "one", "below", "the", "other."],
        ["row", "1"],
        ["song_id", "1"],
        ["title", "Ærø"],
    ]
    assert shown[-1].count(" · ") == 2
    assert prompt.execute("\\x off")
    assert prompt.execute("\\timing;")
    assert prompt.execute("SELECT song_id FROM songs WHERE song_id = 1;")
    shown = terminal.take().splitlines()
    assert shown[:2] == ["Rows are shown in tables.", "Times are not shown."]
    assert shown[-1] == "1 row · epoch 2"
    assert prompt.execute("\\timing sideways")
    assert "There is no command \\timing sideways; \\? lists them." in terminal.take()
    (tmp_path / "s.sql").write_text("\ufeffSELECT 1 AS a;\nSELECT nope FROM songs;\nSELECT 2 AS b;")
    assert prompt.execute(f"\\i {tmp_path / 's.sql'}")
    text = terminal.take()
    assert "s.sql, line 2, column 8:" in text
    assert "b\n" not in text
    assert prompt.execute("\\i /not/there.sql")
    assert "/not/there.sql cannot be read: No such file or directory." in terminal.take()
    assert prompt.execute("\\nonsense x")
    assert "There is no command \\nonsense x" in terminal.take()
    assert prompt.execute("help")
    assert "Ctrl-C cancels" in terminal.take()
    assert [prompt.execute(word) for word in ("", "\\q", "quit;", "EXIT")] == [True, False, False, False]


def test_the_catalog_has_every_store_and_column(client: Client) -> None:
    columns = read_catalog(client).columns
    assert columns["songs"] == [("song_id", "BIGINT"), ("title", "VARCHAR"), ("tags", "VARCHAR[]")]
    assert [name for name, _ in columns['Odd "name"']] == ["the key", "when"]


def test_ctrl_c_ends_the_query_on_the_host_and_keeps_the_connection(host: Host, client: Client) -> None:
    def interrupt() -> None:
        wait_until(lambda: host.running_queries == 1)
        # The waiting thread is not woken, as if the key were pressed in the moment before it falls asleep.
        signal.pthread_kill(threading.get_ident(), signal.SIGINT)

    presser = threading.Thread(target=interrupt)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        run_cancellable(client, ENDLESS, 10)
    presser.join()
    wait_until(lambda: host.running_queries == 0)
    assert run_cancellable(client, "SELECT 1 AS a", 10).table.to_pylist() == [{"a": 1}]


def test_a_cancelled_query_fails_as_cancelled(host: Host, client: Client) -> None:
    failed: list[LivestateError] = []

    def run() -> None:
        try:
            client.query(ENDLESS, call_id=b"by hand").read_all()
        except LivestateError as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    wait_until(lambda: host.running_queries == 1)
    client.cancel(b"by hand")
    thread.join()
    assert [type(error) for error in failed] == [Cancelled]
    with pytest.raises(NotFound):
        client.cancel(b"by hand")


def test_a_session_from_the_first_key_to_the_last(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    terminal = Terminal()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("SELECT song_id\rFROM songs\rWHERE song_id = 2;\r\\q\r")
        run_prompt(client, terminal.console)
    text = terminal.take()
    assert text.startswith(f"Connected to {client.uri}: 2 stores.")
    assert "1 row · " in text
    history = tmp_path / "livestate" / "history"
    assert "+WHERE song_id = 2;" in history.read_text()
    assert history.stat().st_mode & 0o077 == 0


def test_ctrl_d_leaves(client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("SELECT 1\x03\x04")
        run_prompt(client, Terminal().console)


def test_history_lies_in_the_state_directory() -> None:
    assert history_file({"XDG_STATE_HOME": "/state"}) == Path("/state/livestate/history")
    assert history_file({}) == Path.home() / ".local/state/livestate/history"


def test_a_history_that_cannot_be_kept_stops_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "~nobody-of-this-name/state")
    assert isinstance(_history(), InMemoryHistory)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    history = _history()
    history_file().unlink()
    history_file().mkdir()
    history.append_string("SELECT 1")
    assert history.get_strings() == ["SELECT 1"]
