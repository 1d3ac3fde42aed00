"""The programs of `examples/clients`, each with its own tool chain, where that is on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.protocol.test_jdbc import java_command

EXAMPLES = Path(__file__).parents[2] / "examples" / "clients"
BUILT = Path(sys.prefix) / "share" / "livestate" / "clients"
"""Where `make clients` puts what it builds."""
SQL = "SELECT song_id, title FROM songs WHERE plays > 10 ORDER BY song_id"


def go_command(place: str) -> Sequence[str]:
    program = BUILT / "ask-go"
    if not program.is_file():
        pytest.skip("the Go program is not built: make clients, with Go on this machine")
    return [str(program), f"grpc://{place}"]


def node_command(place: str) -> Sequence[str]:
    node, packages = shutil.which("node"), BUILT / "node" / "node_modules"
    if node is None or not packages.is_dir():
        pytest.skip("the packages of the Node program are not there: make clients, with Node on this machine")
    return [node, str(packages.with_name("ask.js")), place]


def r_command(place: str) -> Sequence[str]:
    program = shutil.which("Rscript")
    packages = ("adbcdrivermanager", "adbcflightsql", "nanoarrow")
    script = f"q(status = !all(sapply(c{packages}, requireNamespace, quietly = TRUE)))"
    if (
        program is None
        or subprocess.run([program, "-e", script], check=False, capture_output=True, timeout=60).returncode
    ):
        pytest.skip("R with adbcflightsql is not on this machine: it comes from CRAN and R-multiverse alone")
    return [program, str(EXAMPLES / "r" / "ask.R"), f"grpc://{place}"]


def command(language: str, place: str) -> Sequence[str]:
    match language:
        case "python":
            return [sys.executable, str(EXAMPLES / "python" / "ask.py"), f"grpc://{place}"]
        case "java":
            return java_command(EXAMPLES / "java" / "Ask.java", place)
        case "go":
            return go_command(place)
        case "node":
            return node_command(place)
        case _:
            return r_command(place)


def run(program: Sequence[str], sql: str) -> subprocess.CompletedProcess[str]:
    environment: Mapping[str, str] = {**os.environ, "LIVESTATE_TOKEN": "any"}
    return subprocess.run(
        [*program, sql], check=False, capture_output=True, text=True, timeout=120, env=environment
    )


@pytest.mark.parametrize("language", ["python", "java", "go", "node", "r"])
def test_a_program_asks_a_host(uri: str, language: str) -> None:
    program = command(language, uri.removeprefix("grpc://"))
    answer = run(program, SQL)
    assert answer.returncode == 0, answer.stderr
    assert all(word in answer.stdout for word in ("2", "two", "3", "three")), answer.stdout
    assert "one" not in answer.stdout
    if language != "java":  # to start it a second time takes as long
        refused = run(program, "SELECT nothing FROM songs")
        assert refused.returncode != 0
        assert "There is no column nothing" in refused.stderr + refused.stdout
