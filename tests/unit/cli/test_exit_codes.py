"""Exit codes, which are the same for the same mistakes in all verbs, those that come later included."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest

from flight_server.cli.main import main
from tests.unit.cli.conftest import livestate

assert isinstance(main, click.Group)


def _verbs(group: click.Group, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    found: dict[tuple[str, ...], click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= _verbs(command, (*before, name))
        else:
            found[*before, name] = command
    return found


VERBS = _verbs(main)
EACH = pytest.mark.parametrize("verb", VERBS, ids=" ".join)


def _option(command: click.Command, name: str) -> click.Option | None:
    return next(
        (each for each in command.params if isinstance(each, click.Option) and name in each.opts), None
    )


_TEXTS = {"changelog": "memory://", "place": "memory://", "pipeline": "leaderboard"}
"""Values of parameters that do not take any text."""


def _value(parameter: click.Parameter, place: Path) -> str:
    """A value that the parameter takes."""
    kind = parameter.type
    if isinstance(kind, click.Choice):
        return str(kind.choices[0])
    if isinstance(kind, click.Path):
        file = place / f"{parameter.name}.parquet"
        file.touch()
        return str(file)
    if isinstance(kind, (click.types.IntRange, click.types.FloatRange)):
        return str(kind.min or 1)
    return _TEXTS.get(str(parameter.name), "x")


def _required_arguments(command: click.Command, place: Path, without: str = "") -> list[str]:
    """A command line with all that has to be there."""
    given: list[str] = []
    for parameter in command.params:
        if parameter.required and without not in parameter.opts:
            name = [] if isinstance(parameter, click.Argument) else [max(parameter.opts, key=len)]
            given += [*name, _value(parameter, place)]
    return given


# A pipeline starts Spark before anything looks at its changelog.
CHANGELOG_VERBS = [verb for verb in VERBS if _option(VERBS[verb], "--changelog") and verb != ("pipeline",)]


@EACH
def test_an_option_that_there_is_not(verb: tuple[str, ...]) -> None:
    assert livestate(*verb, "--no-such-option").exit_code == 2


@EACH
def test_what_is_required_and_absent(verb: tuple[str, ...], tmp_path: Path) -> None:
    command = VERBS[verb]
    for parameter in command.params:
        if parameter.required:
            given = _required_arguments(command, tmp_path, without=parameter.opts[0])
            assert livestate(*verb, *given).exit_code == 2, parameter.name


@EACH
def test_what_is_no_number(verb: tuple[str, ...], tmp_path: Path) -> None:
    command = VERBS[verb]
    given = _required_arguments(command, tmp_path)
    for option in command.params:
        if isinstance(option.type, (click.types.IntRange, click.types.FloatRange)):
            for value in ("nan", "inf", "one"):
                refused = livestate(*verb, *given, option.opts[0], value)
                assert (refused.exit_code, value in refused.stderr) == (2, True), option.name


@pytest.mark.parametrize("verb", [verb for verb in VERBS if _option(VERBS[verb], "--uri")], ids=" ".join)
def test_an_address_that_is_none(verb: tuple[str, ...], tmp_path: Path) -> None:
    given = _required_arguments(VERBS[verb], tmp_path)
    for uri in ("nonsense", "http://x:1", "localhost:x"):
        refused = livestate(*verb, *given, "--uri", uri)
        assert (refused.exit_code, "is not the address of a host" in refused.stderr) == (2, True), (
            refused.output
        )
    refused = livestate(*verb, *given, "--uri", "localhost:1", "--token-file", tmp_path / "none")
    assert (refused.exit_code, "--token-file" in refused.stderr) == (2, True), refused.output


@pytest.mark.parametrize("verb", CHANGELOG_VERBS, ids=" ".join)
def test_a_changelog_that_is_none(verb: tuple[str, ...], tmp_path: Path) -> None:
    command = VERBS[verb]
    given = _required_arguments(command, tmp_path, without="--changelog")
    data = ["--data", str(tmp_path / "data")] if _option(command, "--data") else []
    refused = livestate(*verb, *given, *data, "--changelog", "nowhere://x")
    assert refused.exit_code == 2, refused.output
    assert "The changelog URI must be a path or start with" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["backup", "FILE", "--epoch", "s"], "'s' is not a store group and an epoch, like plays=120."),
        (["restore", "FILE", "--epoch", "s=0"], "'s=0' is not a store group and an epoch"),
        (["migrate", "s", "--add", "x"], "'x' is no column"),
        (["migrate", "s", "--rename", "v"], "'v' is not understood; write it like --rename old=new."),
        (["migrate", "s", "--add", "x NOTHING"], "NOTHING"),
        (["load", "s", "FILE", "--type", "v=FOO"], "FOO"),
        (["load", "s", "FILE"], "say --format parquet, csv or arrow"),
        (["skip", "--group", "s", "--epoch", "1", "--reason", " "], "Say with --reason why"),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, list) else "",
)
def test_a_text_that_no_changelog_could_make_right(tmp_path: Path, arguments: list[str], said: str) -> None:
    (tmp_path / "a.json").write_text("{}")
    given = [str(tmp_path / "a.json") if each == "FILE" else each for each in arguments]
    refused = livestate(*given, "--changelog", tmp_path / "changelog")
    assert (refused.exit_code, said in refused.stderr) == (2, True), refused.output
    assert not (tmp_path / "changelog").exists()


@pytest.mark.parametrize("verb", ["sql", "stores", "hosts", "scrub"])
def test_a_host_that_does_not_answer(verb: str) -> None:
    statement = ["SELECT 1"] if verb == "sql" else []
    failed = livestate(verb, *statement, "--uri", "127.0.0.1:1")
    assert (failed.exit_code, "The host at grpc://127.0.0.1:1 cannot be reached" in failed.stderr) == (
        1,
        True,
    )


def test_serve_without_arguments_is_a_mistake_as_any_other() -> None:
    for given in (
        [],
        ["--processes", "2"],
        ["--processes", "2", "--host", "a"],
        ["--changelog", "memory://"],
    ):
        refused = livestate("serve", *given)
        assert refused.exit_code == 2, refused.output
        assert "Usage: livestate serve" in refused.stderr


def test_an_interrupt_is_told_from_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    @click.command()
    @click.argument("what")
    def wait(what: str) -> None:
        if what == "asked":
            click.confirm("Really?", abort=True)
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            if what == "asking":
                # So does click when it waits for an answer.
                raise click.Abort from None
            raise

    monkeypatch.setitem(main.commands, "wait", wait)
    for what in ("working", "asking"):
        interrupted = livestate("wait", what)
        assert (interrupted.exit_code, interrupted.stderr) == (130, "Interrupted.\n")
    denied = livestate("wait", "asked", stdin="n\n")
    assert (denied.exit_code, denied.stderr) == (1, "Aborted!\n")


@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--changelog", "memory://", "--help"]])
def test_output_for_which_there_is_no_room(arguments: list[str]) -> None:
    with Path("/dev/full").open("wb") as full:
        failed = subprocess.run(
            [sys.executable, "-m", "flight_server.cli.main", *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert failed.returncode == 1
    assert failed.stderr == "Error: There is no room for what is to be printed (No space left on device).\n"


@pytest.mark.parametrize("given", [["sql", "SELECT 1", "--user", "ann"], ["user", "ann", "--file", "FILE"]])
def test_nobody_is_asked_for_a_password_where_there_is_no_terminal(tmp_path: Path, given: list[str]) -> None:
    command = [str(tmp_path / "users.toml") if word == "FILE" else word for word in given]
    ended = subprocess.run(
        [sys.executable, "-m", "flight_server.cli.main", *command],
        env={name: value for name, value in os.environ.items() if name != "LIVESTATE_PASSWORD"},
        stdin=subprocess.DEVNULL,
        start_new_session=True,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ended.returncode == 2
    assert ended.stderr.endswith(
        "Error: There is no terminal to ask for the password of ann at: set LIVESTATE_PASSWORD.\n"
    )
    assert ".py" not in ended.stderr


def test_a_user_is_added_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVESTATE_PASSWORD", "a long password")
    file = tmp_path / "users.toml"
    assert livestate("user", "ann", "--file", file).exit_code == 0
    before = file.read_bytes()
    again = livestate("user", "ann", "--file", file)
    assert (again.exit_code, again.stderr) == (
        1,
        "Error: There is a user ann already: for another password, delete the entry first.\n",
    )
    assert file.read_bytes() == before


def test_a_role_that_is_not_built_in_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIVESTATE_PASSWORD", "a long password")
    note = "Note: the role king is not built in; hosts take the file only where their security file has it.\n"
    for verb in ("token", "user"):
        file = tmp_path / f"{verb}s.toml"
        made = livestate(verb, "ann", "--file", file, "--role", "king", "--role", "reader", "--role", "king")
        assert (made.exit_code, made.stderr) == (0, note)
        assert livestate(verb, "bob", "--file", file, "--role", "writer").stderr == ""


def test_ctrl_c_while_the_command_is_imported() -> None:
    code = (
        "import signal, sys\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'flight_server.cli.verbs.sql':\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from flight_server.cli.main import run\n"
        "run()\n"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "Interrupted.\n")
