"""The command against a host, as a user and as a script run it."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import click
import pyarrow as pa
import pytest

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from engine.replica.follower_options import FollowerOptions
from flight_server.cli.main import main
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.client.secret_files import write_secret
from flight_server.host.host import HostOptions
from tests.support.certificate import make_certificate
from tests.support.started_host import start_host
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import SONGS, livestate

COMMAND = [sys.executable, "-m", "flight_server.cli.main"]


def test_every_command_explains_itself() -> None:
    assert "livestate demo --duration 30" in livestate("--help").stdout
    assert isinstance(main, click.Group)
    for command in main.commands:
        shown = livestate(command, "--help")
        assert shown.exit_code == 0
        examples = shown.stdout.partition("Example")[2].partition("\n\n")[0].replace("\\\n", " ").splitlines()
        assert len(examples) > 1, command
        for example in examples[1:]:
            assert len(re.findall(rf"(?<!\S)livestate {command}(?!\S)", example)) == 1, "one command a line"


def test_the_time_of_a_demo_counts_from_its_first_chart() -> None:
    assert "End this long after the first chart;" in " ".join(livestate("demo", "--help").stdout.split())


def test_a_token_ends_within_a_hundred_years(tmp_path: Path) -> None:
    given = ("token", "bob", "--file", tmp_path / "tokens.toml", "--days")
    refused = livestate(*given, "3000000")
    assert refused.exit_code == 2
    assert "Invalid value for '--days': 3000000 is not in the range 1<=x<=36500." in refused.stderr
    assert livestate(*given, "36500").exit_code == 0


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys, flight_server.cli.main; print(sorted({'pyarrow', 'rich', 'duckdb', 'sqlglot', "
        "'numpy', 'prompt_toolkit'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_a_table(host_uri: str) -> None:
    shown = livestate("sql", "SELECT song_id, title FROM songs ORDER BY song_id", "--uri", host_uri)
    assert shown.exit_code == 0, shown.output
    assert [line.strip() for line in shown.stdout.splitlines()] == [
        "song_id   title",
        "─" * 34,
        "1   Ærø",
        '2   with "quotes", and comma',
        "3   NULL",
    ]


def test_a_table_shows_the_first_rows_and_says_so(host_uri: str) -> None:
    shown = livestate(
        "sql", "SELECT song_id FROM songs ORDER BY song_id", "--uri", host_uri, "--max-rows", "2"
    )
    assert shown.stdout.split() == ["song_id", "───────", "1", "2"]
    assert "Only the first 2 rows are shown" in shown.stderr
    assert livestate("sql", "SELECT * FROM songs", "--uri", host_uri, "--max-rows", "3").stderr == ""


@pytest.mark.parametrize("given", ["argument", "file", "stdin"])
def test_sql_comes_from_anywhere(host_uri: str, tmp_path: Path, given: str) -> None:
    text = "SELECT count(*) AS n FROM songs;"
    (tmp_path / "q.sql").write_text(text)
    arguments = {"argument": [text], "file": ["--file", str(tmp_path / "q.sql")], "stdin": []}[given]
    shown = livestate(
        "sql", *arguments, "--uri", host_uri, "--format", "csv", stdin=text if given == "stdin" else ""
    )
    assert shown.stdout == '"n"\n3\n'


def test_json_and_arrow(host_uri: str) -> None:
    sql = "SELECT * FROM songs ORDER BY song_id"
    lines = livestate("sql", sql, "--uri", host_uri, "--format", "json").stdout.splitlines()
    assert [json.loads(line) for line in lines] == SONGS.to_pylist()
    arrow = livestate("sql", sql, "--uri", host_uri, "--format", "arrow").stdout_bytes
    assert pa.ipc.open_stream(io.BytesIO(arrow)).read_all().to_pylist() == SONGS.to_pylist()


@pytest.mark.parametrize(
    ("option", "value", "exit_code", "said"),
    [
        ("--as-of", "2", 0, ""),
        ("--as-of", "7", 1, "7"),
        ("--as-of", '{"songs": 2}', 0, ""),
        ("--as-of", "soon", 2, "as_of must be an epoch number"),
        ("--min-epoch", "1", 0, ""),
        ("--min-epoch", "7", 1, "7"),
        ("--min-epoch", "x", 2, "min_epoch must be an epoch number"),
        ("--max-staleness", "3600", 0, ""),
        ("--max-staleness", "-1", 2, "max_staleness must be a number of seconds"),
        ("--allow-stale", "--max-rows=1", 0, ""),
    ],
)
def test_which_epochs_are_read_can_be_wished(
    host_uri: str, option: str, value: str, exit_code: int, said: str
) -> None:
    sql = "SELECT count(*) AS n FROM songs"
    shown = livestate("sql", sql, "--uri", host_uri, "--format", "csv", "--timeout", "0.5", option, value)
    assert shown.exit_code == exit_code, shown.output
    assert shown.stdout.split() == (['"n"', "3"] if exit_code == 0 else [])
    assert said in shown.stderr


def test_hosts_are_shown_in_sql(host_uri: str) -> None:
    shown = livestate("sql", "SHOW HOSTS", "--uri", host_uri, "--format", "json")
    assert {json.loads(line)["store_group"] for line in shown.stdout.splitlines()} == {"songs", 'Odd "name"'}


def test_dialect_and_timeout_reach_the_host(host_uri: str) -> None:
    spark = livestate(
        "sql",
        "SELECT `song_id` FROM songs WHERE song_id <=> 1",
        "--uri",
        host_uri,
        "--dialect",
        "spark",
        "--format",
        "csv",
    )
    assert spark.stdout == '"song_id"\n1\n', spark.stderr
    slow = livestate(
        "sql",
        "SELECT count(*) FROM range(3000000) a(n), range(3000000) b(m) WHERE n % 7 = m % 11",
        "--uri",
        host_uri,
        "--timeout",
        "0.2",
    )
    assert slow.exit_code == 1
    assert "0.2" in slow.stderr


def test_an_error_is_short_and_points_at_the_place(host_uri: str) -> None:
    failed = livestate("sql", "SELECT song_id,\n  nope FROM songs", "--uri", host_uri)
    assert (failed.exit_code, failed.stdout) == (1, "")
    lines = failed.stderr.splitlines()
    assert lines[0] == "Error: There is no column nope."
    assert lines[-1].index("^") == lines[-2].index("nope")


@pytest.mark.parametrize(
    ("arguments", "exit_code", "message"),
    [
        (
            ["sql", "SELECT 1", "--uri", "grpc://127.0.0.1:1"],
            1,
            "The host at grpc://127.0.0.1:1 cannot be reached",
        ),
        (["sql", "SELECT 1", "--uri", "nonsense"], 2, "is not the address of a host"),
        (["sql", " "], 2, "There is no SQL"),
        (["sql", "SELECT 1", "--format", "xml"], 2, "'xml' is not one of"),
        (["nonsense"], 2, "No such command"),
        (["serve", "--changelog", "x", "--data", "y", "--memory", "much"], 2, "write it like 512MiB"),
        (["serve", "--changelog", "nowhere://x", "--data", "data"], 2, "nowhere"),
        (["stores", "--token-file", "not-there"], 2, "--token-file"),
    ],
)
def test_what_goes_wrong(
    arguments: list[str], exit_code: int, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    failed = subprocess.run(
        [*COMMAND, *arguments],
        capture_output=True,
        text=True,
        # With much that gRPC would note of its connections by itself.
        env={**os.environ, "PYTHONPATH": _root(), "GRPC_TRACE": "all"},
        check=False,
    )
    assert (failed.returncode, failed.stdout) == (exit_code, "")
    assert message in failed.stderr
    assert "Traceback" not in failed.stderr
    assert not re.search(r"^I\d{4} ", failed.stderr, re.MULTILINE)


def _root() -> str:
    return str(Path(__file__).parents[3])


def test_a_reader_that_goes_away_is_no_error(host_uri: str) -> None:
    sql = "SELECT a.song_id FROM songs a, generate_series(1, 1000000) AS many(n)"
    query = subprocess.Popen(
        [*COMMAND, "sql", sql, "--uri", host_uri, "--format", "csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert query.stdout is not None
    assert query.stderr is not None
    assert query.stdout.readline() == b'"song_id"\n'
    query.stdout.close()
    assert query.stderr.read() == b""
    query.stderr.close()
    assert query.wait(60) == 0


def test_a_terminal_without_utf_8_gets_escapes(host_uri: str) -> None:
    shown = subprocess.run(
        [*COMMAND, "sql", "SELECT 'ü🎵' AS s; SELECT '🎵'; SELECT nope🎵", "--uri", host_uri],
        capture_output=True,
        encoding="cp1252",
        env={**os.environ, "PYTHONPATH": _root(), "PYTHONIOENCODING": "cp1252"},
        check=False,
    )
    assert shown.returncode == 1
    assert "ü\\U0001f3b5" in shown.stdout
    assert "There is no column nope\\U0001f3b5" in shown.stderr
    assert "Traceback" not in shown.stderr


def test_an_argument_that_is_no_text_is_refused() -> None:
    locale = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for arguments in (["sql", "SELECT 'ü'"], ["load", "ü", "x.csv"], ["ü"]):
        failed = subprocess.run(
            [*COMMAND, *arguments],
            capture_output=True,
            env={**os.environ, "PYTHONPATH": _root(), **locale},
            check=False,
        )
        assert failed.returncode == 2
        last = failed.stderr.decode().splitlines()[-1]
        assert re.fullmatch(
            r"Error: The argument .*\\udcc3\\udcbc.* is no text in ascii: .*LC_ALL=C\.UTF-8\.", last
        )


def test_a_claim_with_two_values_is_refused(tmp_path: Path) -> None:
    file, claims = tmp_path / "tokens.toml", ("--claim", "desk=rates", "--claim", "desk=fx")
    for verb in ("token", "user"):
        failed = livestate(verb, "ann", "--file", file, *claims)
        assert failed.exit_code == 2
        assert "--claim says both rates and fx of desk: give one." in failed.stderr
        assert not file.exists()
    assert livestate("token", "ann", "--file", file, *claims[:2]).exit_code == 0


def test_stores_say_how_they_stand(host_uri: str) -> None:
    shown = livestate("stores", "--uri", host_uri)
    assert shown.exit_code == 0, shown.output
    defined, _, _, what, _, heading, _, odd, songs = [line.split() for line in shown.stdout.splitlines()]
    assert defined == ["store", "kind", "key", "partition", "by", "retention"]
    assert what == ["songs", "key-value", "song_id", "song_id", "for", "ever"]
    assert heading == ["store", "group", "rows", "bytes", "partitions", "segments", "epoch", "lag"]
    assert odd[:2] == ["Odd", '"name"']
    assert songs[:3] == ["songs", "songs", "3"]
    assert songs[-4:] == ["1", "1", "2", "none"]


def test_a_host_of_no_deployment_shows_itself_and_says_so(host_uri: str) -> None:
    shown = livestate("hosts", "--uri", host_uri)
    assert shown.exit_code == 0, shown.output
    assert "this host" in shown.stdout
    assert shown.stdout.splitlines()[-1] == (
        "This host belongs to no deployment: it holds all partitions by itself. "
        "Several hosts answer as one with livestate serve --processes N, or with --deployment FILE."
    )


def test_hosts_are_watched_until_an_interrupt(host_uri: str) -> None:
    command = [sys.executable, "-m", "flight_server.cli.main", "hosts", "--uri", host_uri, "--watch"]
    with subprocess.Popen([*command, "--every", "0.1"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        seen = 0
        while seen < 3:
            line = process.stdout.readline()
            assert line
            if "this host" in line:
                seen += 1
                assert "readable" in line
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(60) == 0
    assert livestate("hosts", "--uri", host_uri, "--watch", "--every", "0").exit_code == 2
    away = livestate("hosts", "--uri", "grpc://127.0.0.1:1", "--watch")
    assert (away.exit_code, "cannot be reached" in away.stderr) == (1, True)


def test_a_max_lag_that_cannot_be_is_refused(tmp_path: Path) -> None:
    place = ["--changelog", str(tmp_path), "--data", str(tmp_path / "data")]
    for value in ("0.5", "-1", "soon", "nan"):
        assert livestate("serve", *place, "--max-lag", value).exit_code == 2
    refused = livestate("serve", *place, "--max-lag", "10", "--poll-interval", "6")
    assert refused.exit_code == 2
    assert (
        "The host looks for epochs every 6 seconds (--poll-interval): --max-lag must be at" in refused.stderr
    )


def test_serve_says_where_it_listens_and_stops_on_sigterm(tmp_path: Path) -> None:
    append_table(
        Changelog.open(str(tmp_path / "changelog")), define_store("songs", SONGS.schema, ["song_id"]), SONGS
    )
    write_secret(tmp_path / "token", b"secret\n")
    options = [
        "--changelog",
        str(tmp_path / "changelog"),
        "--data",
        str(tmp_path / "data"),
        "--port",
        "0",
        "--memory",
        "512MiB",
        "--cache",
        "64MB",
    ]
    with subprocess.Popen(
        [*COMMAND, "serve", *options, "--token-file", str(tmp_path / "token")],
        stdout=subprocess.PIPE,
        text=True,
    ) as host:
        assert host.stdout is not None
        said = host.stdout.readline().split()
        assert said[:2] == ["livestate", "serves"]
        uri = said[-1]
        refused = livestate("stores", "--uri", uri)
        assert (refused.exit_code, refused.stdout) == (1, "")
        assert refused.stderr.splitlines()[-1].startswith(
            "Give the token with --token-file FILE or in LIVESTATE_TOKEN"
        )
        write_secret(tmp_path / "another", b"of another host\n")
        refused = livestate("stores", "--uri", uri, "--token-file", str(tmp_path / "another"))
        assert (refused.exit_code, refused.stderr) == (
            1,
            "Error: This host does not know the bearer token.\n",
        )
        with Client(ConnectionOptions((uri,), "secret")) as client:
            wait_until(lambda: bool(client.health()["ready"]))
        counted = livestate(
            "sql",
            "SELECT count(*) AS n FROM songs",
            "--uri",
            uri,
            "--token-file",
            tmp_path / "token",
            "--format",
            "csv",
        )
        assert counted.stdout == '"n"\n3\n', counted.stderr
        host.send_signal(signal.SIGTERM)
        assert host.wait(60) == 0
        assert host.stdout.read() == ""


def test_a_name_is_switched(tmp_path: Path) -> None:
    uri = str(tmp_path / "changelog")
    append_table(Changelog.open(uri), define_store("songs", SONGS.schema, ["song_id"], partitions=1), SONGS)
    with (
        start_host(HostOptions(changelog=uri, data=tmp_path / "data", port=0)) as host,
        Client(host.uri) as client,
    ):

        def names() -> list[str]:
            found: list[str] = client.query("SHOW TABLES").read_all()["name"].to_pylist()
            return found

        shown = livestate("switch", "best", "songs", "--changelog", uri, "--uri", host.uri)
        assert (shown.exit_code, shown.stdout) == (0, "SQL reads store songs by the name best.\n")
        wait_until(lambda: names() == ["best", "songs"])
        assert client.query("SELECT count(*) FROM best").read_all().to_pydict() == {"count_star()": [3]}
        assert "best, songs" in livestate("stores", "--uri", host.uri).stdout
        assert (
            livestate("switch", "best", "best", "--changelog", uri).stdout
            == "The name best means no store any more.\n"
        )
        wait_until(lambda: names() == ["songs"])
    missing = livestate("switch", "songs", "gone", "--changelog", uri)
    assert missing.exit_code == 1
    assert "There is no store gone: songs keeps its meaning." in missing.stderr


def test_every_command_that_talks_to_a_host_knows_its_token_and_certificate(tmp_path: Path) -> None:
    certificate, uri = make_certificate(tmp_path), str(tmp_path / "changelog")
    append_table(Changelog.open(uri), define_store("songs", SONGS.schema, ["song_id"], partitions=1), SONGS)
    write_secret(tmp_path / "token", b"secret\n")
    tls = {"tls_certificate": certificate.chain, "tls_key": certificate.key, "token": "secret"}
    with start_host(HostOptions(changelog=uri, data=tmp_path / "data", port=0, **tls)) as host:  # type: ignore[arg-type] # values of several types
        changelog, at = ["--changelog", uri], ["--uri", host.uri]
        proof = ["--token-file", str(tmp_path / "token")]
        trust = ["--tls-roots", str(certificate.chain_file)]
        for command in (
            ["sql", "SELECT count(*) AS n FROM songs", "--format", "csv"],
            ["stores"],
            ["hosts"],
            ["switch", "best", "songs", *changelog],
            ["migrate", "songs", "--add", "year INTEGER", "--take-over", "--wait", "0", *changelog],
        ):
            done = livestate(*command, *at, *proof, *trust)
            assert done.exit_code == 0, (command, done.output)
            if command[0] == "migrate":
                continue
            unknown = livestate(*command, *at, *trust)
            assert unknown.exit_code == 1, (command, unknown.output)
            assert "wants a token" in unknown.stderr
            untrusted = livestate(*command, *at, *proof)
            assert untrusted.exit_code == 1, (command, untrusted.output)
            assert "cannot be reached" in untrusted.stderr


def test_a_migration_needs_no_host_and_tells_those_that_are_named(tmp_path: Path) -> None:
    uri = str(tmp_path / "changelog")
    append_table(Changelog.open(uri), define_store("songs", SONGS.schema, ["song_id"], partitions=1), SONGS)
    change = ["migrate", "songs", "--take-over", "--wait", "0", "--changelog", uri]
    assert livestate(*change, "--add", "year INTEGER").exit_code == 0
    slow = FollowerOptions(poll_seconds=3600.0)
    with (
        start_host(HostOptions(changelog=uri, data=tmp_path / "data", port=0, follower=slow)) as host,
        Client(host.uri) as client,
    ):
        assert livestate(*change, "--add", "month INTEGER", "--uri", host.uri).exit_code == 0
        wait_until(lambda: "month" in client.query("SELECT * FROM songs").read_all().column_names)
    nobody = livestate(*change, "--add", "day INTEGER", "--uri", "grpc://127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "In effect" in nobody.stdout
    assert "cannot be reached" in nobody.stderr
