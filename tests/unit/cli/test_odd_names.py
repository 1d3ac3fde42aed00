"""Names with what rich takes for markup or for an emoji: every command shows them as they are."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console, RenderableType

from engine.catalog.host_statuses import HOSTS_SCHEMA
from engine.catalog.show import STORES_SCHEMA
from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.cli.bench import BenchOptions, BenchResult, Measured, bench_table
from flight_server.cli.prompt import Prompt
from flight_server.cli.render import terminal
from flight_server.cli.store_tables import render_hosts, render_replicas, stores_table
from flight_server.client.client import Client
from flight_server.host.host import HostOptions
from flight_server.peers.host_tables import REPLICAS_SCHEMA
from tests.support.started_host import start_host
from tests.unit.cli.conftest import livestate

NAMES = ("[link=e]", "[red]r", "x:smile:", "a:b", "\\[b]")
KEY = "[/b]"
"""rich fails at it; no store may have that name."""
ROWS = pa.table({KEY: pa.array([1], pa.int64()), "v:smile:": ["[/c]:smile:"]})


@pytest.fixture(scope="module")
def changelog(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A changelog in which names of stores, groups and columns are odd."""
    place = str(tmp_path_factory.mktemp("odd") / "changelog")
    for name in NAMES:
        append_table(Changelog.open(place), define_store(name, ROWS.schema, [KEY], partitions=1), ROWS)
    return place


@pytest.fixture(scope="module")
def uri(changelog: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A host of it."""
    data = tmp_path_factory.mktemp("data")
    with start_host(HostOptions(changelog=changelog, data=data, port=0)) as host:
        yield host.uri


def shown_by(*arguments: str | Path) -> str:
    """What a command shows that succeeds."""
    result = livestate(*arguments)
    assert result.exit_code == 0, result.output
    return result.output


def shown(renderable: RenderableType) -> str:
    """What a console shows that knows markup."""
    console = Console(width=1000, file=io.StringIO(), color_system=None)
    console.print(renderable)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_commands_of_a_host(uri: str) -> None:
    for arguments in (("stores",), ("hosts",), ("top", "--once"), ("sql", "SHOW STORES")):
        text = shown_by(*arguments, "--uri", uri)
        assert [name for name in NAMES if name not in text] == []
    assert KEY in shown_by("stores", "--uri", uri)
    described = shown_by("sql", 'DESCRIBE "[red]r"', "--uri", uri)
    assert [name for name in ROWS.schema.names if name not in described] == []
    text = shown_by("sql", 'SELECT * FROM "x:smile:"; SELECT \'[/d]\' AS "e:smile:"', "--uri", uri)
    assert [
        word for word in (*ROWS.schema.names, "[/c]:smile:", "[/d]", "e:smile:") if word not in text
    ] == []
    failed = livestate("sql", 'SELECT "[/e]:smile:" FROM "[red]r"', "--uri", uri)
    assert "There is no column [/e]:smile:" in failed.stderr


def test_what_is_measured_and_written(uri: str, tmp_path: Path) -> None:
    sql = "SELECT '[/d]:smile:'"
    assert sql in shown_by("bench", sql, "--duration", "0.1", "--clients", "1", "--uri", uri)
    file = tmp_path / "[b]f:smile:.csv"
    assert f"{file.name}: 1 row," in shown_by("sql", sql, "-o", file, "--uri", uri)


def test_the_prompt(uri: str) -> None:
    text = io.StringIO()
    console = terminal()
    console.file = text
    with Client(uri) as client:
        prompt = Prompt(client, console)
        for typed in ("\\d", "\\l", '\\d "[red]r"', '\\nope "[/b]:smile:"', "SELECT '[/d]:smile:'"):
            prompt.execute(typed)
    words = (*NAMES, *ROWS.schema.names, '"[/b]:smile:";', "[/d]:smile:")
    assert [word for word in words if word not in text.getvalue()] == []


@pytest.mark.parametrize("is_terminal", [False, True])
def test_commands_of_a_changelog(
    changelog: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_terminal: bool
) -> None:
    if is_terminal:
        # rich then shows bars, too.
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", "200")
    for arguments in (
        ("backup", tmp_path / "backup", "--changelog", changelog),
        ("restore", tmp_path / "backup", "--changelog", tmp_path / "restored"),
    ):
        text = shown_by(*arguments)
        assert [name for name in NAMES if f"{name}: " not in text] == []
    file = tmp_path / "[bold]f:smile:.csv"
    file.write_text("[/b],v\n1,2\n")
    for name in NAMES:
        text = shown_by("load", name, file, "--changelog", tmp_path / "loaded", "--key", KEY)
        assert f"{name}: 1 row in " in text


def row_of(schema: pa.Schema, name: str) -> pa.Table:
    """A row in which every text is one, and every number 1."""
    values = {
        pa.string(): name,
        pa.bool_(): True,
        pa.int64(): 1,
        pa.float64(): 1.0,
        pa.list_(pa.int32()): [1],
    }
    return pa.Table.from_pylist([{field.name: values[field.type] for field in schema}], schema)


@pytest.mark.parametrize("name", [KEY, *NAMES])
def test_tables_on_any_console(name: str) -> None:
    stores = row_of(STORES_SCHEMA, name)
    # What the stores are, the group, the problem and what is skipped: two tables name the store, and none
    # what it is called in SQL where that is the same.
    assert shown(stores_table(stores)).count(name) == STORES_SCHEMA.types.count(pa.string())
    # The same with the host; the problem has a line with the store.
    assert shown(render_replicas(row_of(REPLICAS_SCHEMA, name), stores)).count(name) == 11
    # A problem stands beside the state.
    assert shown(render_hosts(row_of(HOSTS_SCHEMA, name))).count(name) == 5
    table = bench_table(BenchOptions([name], 1, 1.0), BenchResult([Measured([1.0])], ""))
    assert name in shown(table)
