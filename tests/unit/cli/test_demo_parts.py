"""The parts of the demo that need no Spark."""

from __future__ import annotations

import io
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from engine.errors import InvalidInput, Unavailable
from engine.processes.supervisor import Supervisor
from flight_server.cli.demo.measure import ChartRow, Measurements, Percentiles
from flight_server.cli.demo.recount import FILES_KEPT, TOPIC, FileRecount
from flight_server.cli.demo.requirements import check_spark
from flight_server.cli.demo.run import PIPELINE, Demo, DemoOptions, differences, run_demo
from flight_server.cli.demo.screen import PlainScreen, View, charts_screen
from flight_server.cli.demo.summary import Outcome, print_summary
from flight_server.host.ports import free_ports
from spark_pipeline.pipelines.catalogue import PIPELINES
from spark_pipeline.pipelines.feeding import FileFeed
from spark_pipeline.pipelines.songs import GENRES, make_songs
from tests.support.process_family import runs
from tests.support.waiting import wait_until

(PLAYS,) = PIPELINES[PIPELINE].topics
GENERATOR = [sys.executable, "-m", "flight_server.cli.main", "feed", PIPELINE]
CHARTS = [
    ChartRow(genre, f"{genre} song {rank}", "An Artist", 1000 - rank) for genre in GENRES for rank in range(5)
]


def view(seconds: float = 3.0) -> View:
    return View(
        "grpc://127.0.0.1:1",
        seconds,
        30.0,
        18_000,
        6001.0,
        7,
        0.31,
        Percentiles(0.3, 0.5),
        Percentiles(0.01, 0.02),
        None,
        CHARTS,
    )


def console(width: int = 120) -> Console:
    return Console(width=width, file=io.StringIO(), color_system=None)


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_the_generator_process_writes_whole_files_and_stops_when_told(tmp_path: Path) -> None:
    plays = tmp_path / TOPIC
    with subprocess.Popen([*GENERATOR, "--directory", str(tmp_path), "--rate", "5000"]) as generator:
        wait_until(lambda: len(list(plays.glob("*.parquet"))) >= 3)
        generator.send_signal(signal.SIGTERM)
        assert generator.wait(60) == 0
    recount = FileRecount(plays, make_songs())
    recount.advance()
    assert recount.events == sum(pq.read_metadata(file).num_rows for file in plays.glob("*.parquet"))
    assert not [entry for entry in plays.iterdir() if entry.suffix != ".parquet"]
    assert recount.events / recount.seconds == pytest.approx(5000, rel=0.05)


def test_a_recount_counts_plays_of_30_seconds_once(tmp_path: Path) -> None:
    songs = pa.table({"song_id": [1, 2, 3], "genre": ["Rock", "Pop", "Rock"]})
    feed = FileFeed(tmp_path)
    recount = FileRecount(tmp_path / PLAYS.name, songs)

    def write(number: int, rows: list[tuple[int, int]]) -> None:
        ids, seconds = zip(*rows, strict=True)
        times = pa.array([number * 1_000_000] * len(rows)).cast(pa.timestamp("us", "UTC"))
        columns = {"song_id": ids, "user_id": ids, "duration_seconds": seconds, "event_time": times}
        feed.write(PLAYS, pa.table(columns))

    recount.advance()
    assert (recount.events, recount.counted, recount.seconds) == (0, 0, 0.0)
    write(1, [(1, 30), (1, 29), (3, 300)])
    recount.advance()
    recount.advance()
    write(2, [(1, 31), (2, 1)])
    recount.advance()
    assert (recount.events, recount.counted, recount.seconds) == (5, 3, 1.0)
    assert recount.per_song() == {1: 2, 3: 1}
    assert recount.per_genre() == {"Rock": 3}


def test_a_recount_drops_only_files_that_the_job_is_done_with(tmp_path: Path) -> None:
    recount = FileRecount(tmp_path / PLAYS.name, make_songs())
    feed = FileFeed(tmp_path)
    for number in range(FILES_KEPT + 20):
        feed.write(PLAYS, PLAYS.events(number * 5, 5))
    recount.advance()
    recount.drop(0)
    assert len(list((tmp_path / PLAYS.name).iterdir())) == FILES_KEPT + 20
    recount.drop(recount.counted)
    assert len(list((tmp_path / PLAYS.name).iterdir())) == FILES_KEPT


def test_differences_count_every_kind() -> None:
    assert differences({1: 5, 2: 6}, {1: 5, 2: 6}) == 0
    assert differences({1: 5}, {1: 6}) == 2
    assert differences({1: 5}, {}) == 1


@pytest.mark.parametrize(
    ("width", "height", "genres"), [(120, 40, 12), (120, 20, 6), (80, 20, 4), (40, 12, 1)]
)
def test_charts_fit_the_terminal_and_take_turns(width: int, height: int, genres: int) -> None:
    seen: set[str] = set()
    for page in range(len(GENRES) // genres):
        shown = console(width)
        shown.print(charts_screen(view(seconds=4.0 * page + 1), width, height))
        text = text_of(shown)
        assert len(text.splitlines()) <= height
        seen |= {genre for genre in GENRES if f" {genre} " in text}
    assert seen == set(GENRES)


def test_plain_output_is_a_line_now_and_then() -> None:
    shown = console(400)
    screen = PlainScreen(shown)
    with screen:
        for tenth in range(50):
            screen.show(view(tenth / 10))
    lines = text_of(shown).splitlines()
    assert len(lines) == 3
    assert lines[0].strip() == (
        "0.0 s  6,001 events/s (18,000)  epoch 7  freshness 310 ms (p50 300 ms, p99 500 ms)  top-five query "
        "(p50 10 ms, p99 20 ms)  lookup by key -"
    )


def outcome(wrong_songs: int = 0, torn: int = 0) -> Outcome:
    measured = Measurements([0.1, 0.3], [0.01], [], looks=10, torn=torn)
    return Outcome(10.0, 3.0, 60_000, 55_000, 42, measured, 900, 12, wrong_songs, 0, None)


def test_the_summary_says_whether_the_counts_are_right() -> None:
    shown = console(200)
    print_summary(shown, outcome())
    text = text_of(shown)
    assert "60,000 in 10.0 s: 6,000 events/s, 55,000 plays counted" in text
    assert "p50 200 ms" in text
    assert "check           passed: the counts of all 900 songs and 12 genres" in text
    print_summary(shown, outcome(wrong_songs=3))
    assert "FAILED: a recount of the events differs for 3 songs" in text_of(shown)
    assert outcome().passed
    assert not outcome(wrong_songs=1).passed
    assert not outcome(torn=1).passed


def test_children_stop_in_order_and_a_dead_one_is_named(tmp_path: Path) -> None:
    with Supervisor(tmp_path) as children:
        steady = children.start(
            "The steady one",
            [sys.executable, "-c", "import time; print('hello', flush=True); time.sleep(600)"],
        )
        failing = children.start("The failing one", [sys.executable, "-c", "import sys; sys.exit('no luck')"])
        failing.process.wait()
        said = children.failure()
        assert said is not None
        assert re.match(
            r"The failing one ended unexpectedly with exit code 1 \(no luck\); .*failing-one\.log", said
        )
        wait_until(lambda: steady.log.read_text() == "hello\n")
    assert steady.process.returncode == -signal.SIGTERM


def test_a_child_that_nothing_watches_is_not_left_running(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []

    def fail(process: int, _: int) -> None:
        started.append(process)
        raise OSError("no processes are left")

    monkeypatch.setattr("engine.processes.supervisor.Watcher", fail)
    with Supervisor(tmp_path) as children, pytest.raises(OSError, match="no processes are left"):
        children.start("The child", [sys.executable, "-c", "import time; time.sleep(600)"])
    (child,) = started
    assert not runs(child)


@pytest.mark.parametrize(
    "error", [Unavailable("The host ended."), RuntimeError("a defect"), KeyboardInterrupt()]
)
def test_the_logs_of_a_demo_that_fails_stay_whatever_it_failed_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("flight_server.cli.demo.run.check_spark", lambda: None)

    def fail(demo: Demo) -> bool:
        (demo.place.logs / "the-host.log").write_text("why")
        raise error

    monkeypatch.setattr(Demo, "run", fail)
    with pytest.raises(type(error)):
        run_demo(DemoOptions(), console())
    (root,) = tmp_path.iterdir()
    assert [path.relative_to(root).as_posix() for path in root.rglob("*")] == ["logs", "logs/the-host.log"]


def test_of_a_demo_that_ends_well_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("flight_server.cli.demo.run.check_spark", lambda: None)
    monkeypatch.setattr(Demo, "run", lambda demo: True)
    assert run_demo(DemoOptions(), console())
    assert list(tmp_path.iterdir()) == []


_DEMO = """
import sys, time
from pathlib import Path
from engine.processes.supervisor import Supervisor
with Supervisor(Path(sys.argv[1])) as children:
    for name in ("The host", "The generator"):
        child = children.start(name, [sys.executable, "-c", "import time; time.sleep(600)"])
        print(child.process.pid, flush=True)
    time.sleep(600)
"""


def test_children_end_with_a_demo_that_is_killed(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _DEMO, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as demo:
        try:
            assert demo.stdout is not None
            children = [int(demo.stdout.readline()) for _ in range(2)]
            assert all(map(runs, children))
        finally:
            demo.kill()
        wait_until(lambda: not any(map(runs, children)))


def test_without_java_there_is_one_clear_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(Unavailable, match="needs Java 17 or newer, and none was found"):
        check_spark()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    with pytest.raises(Unavailable, match="Java 11 was found"):
        check_spark()
    java.write_text("#!/bin/sh\necho 'openjdk version \"21\" 2023-09-19' >&2\n")
    check_spark()


def test_a_directory_to_keep_must_be_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InvalidInput, match="not empty"):
        run_demo(DemoOptions(keep=tmp_path), console())


def test_a_taken_port_is_left_alone() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_ports("127.0.0.1", port, 1)[0] != port
    free = free_ports("127.0.0.1", 0, 1)[0]
    assert free_ports("127.0.0.1", free, 1)[0] == free
