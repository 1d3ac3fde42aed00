"""The command that runs a ready-made pipeline, with all its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from spark_pipeline.pipelines.catalogue import PIPELINES
from tests.spark.recomputed import check_answers
from tests.support.decoys import decoy_modules
from tests.support.process_family import ENDS, family, runs
from tests.support.waiting import wait_until

# As an installed script does, it does not look for modules where it runs.
COMMAND = [sys.executable, "-P", "-m", "flight_server.cli.main", "pipeline"]


def test_one_command_makes_events_keeps_stores_and_asks(tmp_path: Path) -> None:
    pipeline, uri, directory = (
        PIPELINES["music_charts"],
        (tmp_path / "changelog").as_uri(),
        tmp_path / "events",
    )
    events = [
        "--source",
        "files",
        "--directory",
        str(directory),
        "--feed",
        "--format",
        "json",
        "--rate",
        "2000",
        "--duration",
        "3",
    ]
    command = [*COMMAND, pipeline.name, *events, "--changelog", uri, "--serve"]
    done = subprocess.run(
        command,
        cwd=decoy_modules(tmp_path / "decoys"),
        env={**os.environ, "LIVESTATE_TOKEN": "of all hosts"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "could not be told" not in done.stderr
    shown = done.stdout.partition("At the end")[2]
    assert "No answer" not in shown
    for question in pipeline.questions:
        assert question.words in shown
    (topic,) = pipeline.topics
    made = sum(file.read_text().count("\n") for file in directory.rglob("*.json"))
    assert made >= 2000
    # Whole and once: the last of them, too.
    check_answers(pipeline, uri, {topic.name: topic.events(0, made)}, tmp_path / "hosts")


def test_a_line_that_is_no_event_ends_a_job_with_one_sentence(tmp_path: Path) -> None:
    lines = ['{"user_id": 1, "page": "a", "event_time": "2026-01-01T00:00:00Z"}', "no event"]
    (tmp_path / "events" / "activity").mkdir(parents=True)
    (tmp_path / "events" / "activity" / "some.json").write_text("\n".join(lines))
    files = ["--source", "files", "--format", "json", "--directory", str(tmp_path / "events")]
    command = [*COMMAND, "user_sessions", *files, "--duration", "100"]
    done = subprocess.run(
        command,
        cwd=decoy_modules(tmp_path / "decoys"),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: The streaming query ended: Store sessions: the time event_time of an event is null; a key "
        "must not be null."
    )
    assert not [line for line in done.stderr.splitlines() if "Traceback" in line or "\tat " in line]


def test_a_job_that_cannot_start_says_why_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    command = [*COMMAND, "event_counts", "--checkpoint", str(tmp_path / "file")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "Error: The streaming query did not start: Destination exists and is not a directory: "
        f"{tmp_path / 'file'}"
    )
    assert "Traceback" not in done.stderr


# The demo is ended in the other ways.
@pytest.mark.parametrize("words", ["After", "Ask it yourself"], ids=["as it answers", "as it starts"])
def test_who_ends_all_processes_at_once_hears_no_complaints(tmp_path: Path, words: str) -> None:
    give, number = ENDS["family SIGTERM"]
    command = [*COMMAND, "music_charts", "--serve"]
    decoys, pipe = decoy_modules(tmp_path / "decoys"), subprocess.PIPE
    with subprocess.Popen(
        command, cwd=decoys, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    ) as job:
        try:
            assert job.stdout is not None
            assert any(words in line for line in job.stdout)
            wait_until(lambda: any(b"java" in command_of(member) for member in family(job.pid)))
            members = family(job.pid)
            give(job.pid, number)
            _, failed = job.communicate(timeout=120)
        finally:
            job.kill()
    assert job.returncode == 0, failed
    assert not [
        line for line in failed.splitlines() if "Traceback" in line or "Error" in line or "ERROR " in line
    ], failed
    wait_until(lambda: not any(runs(member) for member in members))


def command_of(process: int) -> bytes:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_bytes()
    return b""
