"""Scripts, results in files, and statements that are shown again and again."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flight_server.cli.bench import BenchOptions, run_bench
from flight_server.cli.call_threads import CallThread
from flight_server.cli.output_files import write_result
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions
from flight_server.host.host import Host
from tests.support.waiting import wait_until
from tests.unit.cli.conftest import SONGS, livestate
from tests.unit.cli.test_prompt import ENDLESS

COMMAND = [sys.executable, "-m", "flight_server.cli.main", "sql"]
SCRIPT = """\
/* two statements; */ -- and a comment;
SELECT 1 AS a;
SELECT 'x;y' AS b, $$;$$ AS c;
"""
SETTINGS = """\
SET dialect = 'spark'; -- strings with backslashes, and names between backticks
SELECT `song_id` AS a, 'an\\';' AS b FROM songs WHERE song_id = 2;
RESET dialect; SELECT $$;$$ AS c;
set session timeout to 0.1; SET min_epoch = 1000000;
SELECT song_id AS d FROM songs;
RESET timeout; reset min_epoch; SET nothing = 1;
SELECT 3 AS e;
"""
SLOW, SLOW_NUMBERS = "SELECT sum(hash(n)) FROM range($n) AS many(n)", (30_000_000, 60_000_000)
"""Another statement with each call: a host keeps answers."""
WRONG = """\
SELECT 1 AS a;

/* the next one
is wrong */ SELECT song_id,
  nope FROM songs; SELECT 3 AS c;
"""


def test_a_script_runs_one_statement_after_the_other(host_uri: str, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text(SCRIPT)
    wanted = '"a"\n1\n"b","c"\n"x;y",";"\n'
    for given, stdin in (
        (["-f", str(tmp_path / "s.sql")], ""),
        (["-f", "-"], SCRIPT),
        ([], SCRIPT),
        ([SCRIPT], ""),
    ):
        shown = livestate("sql", *given, "--uri", host_uri, "--format", "csv", stdin=stdin)
        assert (shown.exit_code, shown.stdout) == (0, wanted), shown.output
    tables = livestate("sql", SCRIPT, "--uri", host_uri).stdout
    assert tables.split() == ["a", "─", "1", "b", "c", "─" * 7, "x;y", ";"]


def test_the_first_mistake_ends_a_script_and_its_place_is_named(host_uri: str, tmp_path: Path) -> None:
    (tmp_path / "s.sql").write_text(WRONG)
    given = ["sql", "-f", str(tmp_path / "s.sql"), "--uri", host_uri, "--format", "csv"]
    failed = livestate(*given)
    assert (failed.exit_code, failed.stdout) == (1, '"a"\n1\n')
    assert failed.stderr.splitlines()[:2] == ["Error: There is no column nope.", "s.sql, line 5, column 3:"]
    went_on = livestate(*given, "--keep-going")
    assert (went_on.exit_code, went_on.stdout) == (1, '"a"\n1\n"c"\n3\n')
    assert went_on.stderr == failed.stderr
    column = livestate("sql", "SELECT 1; SELECT nope FROM songs", "--uri", host_uri)
    assert "Line 1, column 18:" in column.stderr


def test_an_error_without_a_place_names_its_statement(host_uri: str) -> None:
    broken = "SELECT 1;\n\nSELECT error('broken by ' || song_id) FROM songs;"
    failed = livestate("sql", "-f", "-", "--uri", host_uri, stdin=broken)
    assert failed.exit_code == 1
    assert failed.stderr.splitlines()[-1] == "Line 3: this statement."


def test_set_holds_for_the_statements_behind_it(host_uri: str) -> None:
    command = [*COMMAND, "-f", "-", "--uri", host_uri, "--format", "csv", "--keep-going"]
    ran = subprocess.run(command, input=SETTINGS, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stdout) == (1, '"a","b"\n2,"an\';"\n"c"\n";"\n"e"\n3\n'), ran.stderr
    assert "epoch 1000000" in ran.stderr
    assert "Line 5: this statement." in ran.stderr
    assert "There is no session option 'nothing'" in ran.stderr


def test_a_mark_of_utf_8_before_a_script_is_no_part_of_it(host_uri: str, tmp_path: Path) -> None:
    """Editors on Windows write it."""
    (tmp_path / "s.sql").write_text(SCRIPT, encoding="utf-8-sig")
    for given, stdin in ((["-f", str(tmp_path / "s.sql")], ""), (["-f", "-"], "\ufeff" + SCRIPT)):
        shown = livestate("sql", *given, "--uri", host_uri, "--format", "csv", stdin=stdin)
        assert (shown.exit_code, shown.stdout) == (0, '"a"\n1\n"b","c"\n"x;y",";"\n')


def test_set_shows_nothing_and_may_stand_before_what_a_file_gets(host_uri: str, tmp_path: Path) -> None:
    sql = "SET dialect = 'spark'; SELECT `song_id` FROM songs WHERE song_id = 2"
    assert livestate("sql", sql, "--uri", host_uri).stdout.split() == ["song_id", "─" * 7, "2"]
    assert livestate("sql", sql, "--uri", host_uri, "-o", tmp_path / "s.csv").exit_code == 0
    assert (tmp_path / "s.csv").read_text() == '"song_id"\n2\n'
    none = livestate("sql", "RESET dialect", "--uri", host_uri, "-o", tmp_path / "s.csv")
    assert (none.exit_code, "no statement with rows behind SET" in none.stderr) == (2, True)


@pytest.mark.parametrize(
    "name", ["songs.parquet", "songs.arrow", "songs.arrows", "songs.csv", "songs.json", "songs"]
)
def test_a_result_goes_to_a_file(host_uri: str, tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("before")
    named = [] if file.suffix else ["--format", "parquet"]
    done = livestate("sql", "SELECT * FROM songs ORDER BY song_id", "--uri", host_uri, "-o", file, *named)
    assert (done.exit_code, done.stdout) == (0, ""), done.output
    assert done.stderr.startswith(f"{name}: 3 rows, ")
    match file.suffix:
        case ".csv":
            assert [row["song_id"] for row in csv.DictReader(io.StringIO(file.read_text()))] == [
                "1",
                "2",
                "3",
            ]
        case ".json":
            assert [json.loads(line) for line in file.read_text().splitlines()] == SONGS.to_pylist()
        case ".arrow":
            assert pa.ipc.open_file(file.read_bytes()).read_all().to_pylist() == SONGS.to_pylist()
        case ".arrows":
            assert pa.ipc.open_stream(file.read_bytes()).read_all().to_pylist() == SONGS.to_pylist()
        case _:
            assert pq.ParquetFile(file).read().to_pylist() == SONGS.to_pylist()
    assert list(tmp_path.iterdir()) == [file]


def test_parquet_has_large_row_groups_of_small_batches(client: Client, tmp_path: Path) -> None:
    sql = "SELECT n, n::FLOAT AS n FROM range(200000) AS many(n)"
    write_result(client, sql, tmp_path / "many.parquet", "parquet")
    read = pq.ParquetFile(tmp_path / "many.parquet")
    assert (read.metadata.num_rows, read.schema_arrow.names) == (200_000, ["n", "n_2"])
    assert read.metadata.num_row_groups <= 3


def test_a_file_is_there_whole_or_stays_what_it_was(host_uri: str, tmp_path: Path) -> None:
    file = tmp_path / "r.csv"
    file.write_text("before")
    breaking = (
        "SELECT CASE WHEN n > 150000 THEN error('broken') ELSE 'x' END AS x FROM range(200000) AS many(n)"
    )
    for sql, said in (("SELECT nope FROM songs", "nope"), (breaking, "broken")):
        failed = livestate("sql", sql, "--uri", host_uri, "-o", file)
        assert failed.exit_code == 1, failed.output
        assert said in failed.stderr
        assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"r.csv": "before"}
    nowhere = livestate("sql", "SELECT 1", "--uri", host_uri, "-o", tmp_path / "no" / "r.csv")
    assert (nowhere.exit_code, "cannot be written: No such file or directory" in nowhere.stderr) == (1, True)
    interval = livestate("sql", "SELECT INTERVAL 1 DAY AS i", "--uri", host_uri, "-o", tmp_path / "i.parquet")
    assert (interval.exit_code, "Parquet cannot hold a column" in interval.stderr) == (1, True)


def test_a_pipe_is_written_as_it_is(host_uri: str) -> None:
    done = livestate("sql", "SELECT 1 AS a", "--uri", host_uri, "-o", os.devnull, "--format", "csv")
    assert done.exit_code == 0, done.output
    assert stat.S_ISCHR(Path(os.devnull).stat().st_mode)
    out = livestate("sql", "SELECT 1 AS a", "--uri", host_uri, "-o", "-", "--format", "csv")
    assert (out.exit_code, out.stdout, Path("-").exists()) == (0, '"a"\n1\n', False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["SELECT 1", "-o", "x.txt"], "--format parquet, arrow, csv or json"),
        (["SELECT 1", "-o", "x.csv", "--format", "table"], "A table is for the eye"),
        (["SELECT 1", "--format", "parquet"], "name a file with --output"),
        (["SELECT 1; SELECT 2", "-o", "x.csv"], "these are 2"),
        (["SELECT 1; SELECT 2", "--format", "arrow"], "these are 2"),
        (["SELECT 1; SELECT 2", "--watch", "1"], "these are 2"),
        (["SELECT 1", "--watch", "1", "--format", "csv"], "--watch shows tables"),
        (["SELECT 1", "--watch", "0"], "--watch"),
        (["/* nothing */"], "There is no SQL"),
    ],
)
def test_what_does_not_go_together(host_uri: str, tmp_path: Path, arguments: list[str], message: str) -> None:
    given = [str(tmp_path / each) if each.startswith("x.") else each for each in arguments]
    refused = livestate("sql", *given, "--uri", host_uri)
    assert (refused.exit_code, message in refused.stderr) == (2, True), refused.output
    assert not list(tmp_path.iterdir())


def test_a_statement_is_shown_again_until_an_interrupt(host_uri: str) -> None:
    watch = [*COMMAND, "SELECT count(*) AS songs FROM songs", "--uri", host_uri, "--watch", "0.1"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        seen = 0
        while seen < 3:
            line = process.stdout.readline()
            assert line
            seen += line.rstrip().endswith(" UTC")
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read()
        assert (process.wait(60), process.stderr.read()) == (0, "")
        assert "songs" in rest
    failed = livestate("sql", "SELECT nope FROM songs", "--uri", host_uri, "--watch", "0.1")
    assert (failed.exit_code, "There is no column nope." in failed.stderr) == (1, True)


def test_a_watch_whose_reader_goes_away_is_no_error(host_uri: str) -> None:
    watch = [*COMMAND, "SELECT count(*) AS songs FROM songs", "--uri", host_uri, "--watch", "0.1"]
    with subprocess.Popen(watch, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(60) == 0


@pytest.mark.parametrize(
    ("sent", "code", "said"), [(signal.SIGINT, 130, "Interrupted.\n"), (signal.SIGTERM, 143, "")]
)
def test_a_signal_ends_a_download_and_leaves_nothing(
    host: Host, tmp_path: Path, sent: signal.Signals, code: int, said: str
) -> None:
    command = [*COMMAND, ENDLESS, "--uri", host.uri, "-o", str(tmp_path / "r.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: host.running_queries == 1)
        process.send_signal(sent)
        _, heard = process.communicate(timeout=60)
    assert (process.returncode, heard) == (code, said)
    assert not list(tmp_path.iterdir())
    wait_until(lambda: host.running_queries == 0)


def test_a_deployment_is_asked_for_a_while(host_uri: str) -> None:
    script = "SELECT title FROM songs WHERE song_id = $n; SELECT count(*) FROM songs"
    given = ["bench", script, "--numbers", "1:3", "--uri", host_uri, "--uri", host_uri, "--clients", "3"]
    done = livestate(*given, "--duration", "0.3")
    assert done.exit_code == 0, done.output
    heading, _, first, second = (line.split() for line in done.stdout.splitlines())
    assert heading[:2] == ["calls", "calls/s"]
    assert int(first[1].replace(",", "")) > 0
    assert [line[0] for line in (first, second)] == ["1", "2"]
    assert first[-9:] == ["0", "SELECT", "title", "FROM", "songs", "WHERE", "song_id", "=", "$n"]
    assert second[-5:] == ["0", "SELECT", "count(*)", "FROM", "songs"]
    for wrong, code, said in (
        (["SELECT $n"], 2, "--numbers"),
        (["SELECT nope FROM songs"], 1, "There is no column nope"),
        (["SELECT $n", "--numbers", "3:1"], 2, "is not like 1:1000000"),
        ([], 2, "Give the SQL"),
    ):
        failed = livestate("bench", *wrong, "--uri", host_uri, "--duration", "0.1")
        assert (failed.exit_code, said in failed.stderr) == (code, True), failed.output


def test_calls_that_end_late_count_with_the_time_that_they_took(host_uri: str) -> None:
    options = BenchOptions([SLOW], clients=2, seconds=0.01, numbers=SLOW_NUMBERS)
    (measured,) = run_bench([ConnectionOptions.read(host_uri)], options).statements
    assert (len(measured.seconds), measured.errors) == (2, 0)
    assert measured.calls_per_second <= sum(1 / seconds for seconds in measured.seconds)
    assert measured.rows_per_second == measured.calls_per_second


def test_calls_that_are_given_up_are_errors(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flight_server.cli.bench._PATIENCE_SECONDS", 0.0)
    options = BenchOptions([SLOW], clients=3, seconds=0.01, numbers=SLOW_NUMBERS)
    result = run_bench([ConnectionOptions.read(host.uri)], options)
    (measured,) = result.statements
    assert measured.errors > 0
    assert "There was no answer 0 s after the end" in result.first_error
    # One of them may not have asked yet: the host would be seen at rest, and be asked then.
    wait_until(lambda: not any(isinstance(thread, CallThread) for thread in threading.enumerate()))
    wait_until(lambda: host.running_queries == 0)


def test_ctrl_c_ends_a_bench_that_is_warming_up(host: Host) -> None:
    command = [*COMMAND[:-1], "bench", ENDLESS, "--uri", host.uri]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: host.running_queries == 1)
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.communicate()) == (-signal.SIGINT, ("", ""))
    wait_until(lambda: host.running_queries == 0)
