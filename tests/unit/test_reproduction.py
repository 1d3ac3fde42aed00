"""A test that fails says how to run it alone, and with which seeds."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.reproduction import EXPLORE
from tests.support.scheduling import FIRST, SPARK, scope_of

ROOT = Path(__file__).parents[2]
FAILING = """
import os

import pytest
from hypothesis import given, strategies as st

from tests.support.seeds import seeded_random


@pytest.mark.parametrize("name", ["a b", "it's: 'x'::INT"])
def test_numbers(name):
    seeded_random(f"numbers {name}")
    assert name == ""


def test_passes():
    seeded_random("not named")


@given(st.integers(0, 2**62))
def test_examples(number):
    assert number % 16 == 3
"""


def failures(file: Path, *arguments: str, explore: bool = False) -> str:
    """What a run says whose tests fail."""
    environment: Mapping[str, str] = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", EXPLORE))},
        **({EXPLORE: "1"} if explore else {}),
    }
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *arguments]
    done = subprocess.run(
        [*command, str(file)], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == pytest.ExitCode.TESTS_FAILED, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def file(tmp_path: Path) -> Path:
    made = tmp_path / "test_failing.py"
    made.write_text(FAILING)
    return made


def commands(said: str) -> list[list[str]]:
    return [shlex.split(line) for line in re.findall(r"^.*\bpython -m pytest .*$", said, re.MULTILINE)]


@pytest.mark.parametrize("workers", ["0", "2"])
def test_a_failure_names_its_seeds_and_its_command(file: Path, workers: str) -> None:
    said = failures(file, "-n", workers, "-k", "numbers or passes")
    assert re.findall("^seeds: .*$", said, re.MULTILINE) == [
        "seeds: 'numbers a b'",
        "seeds: \"numbers it's: 'x'::INT\"",
    ]
    assert [command[-1].rpartition("test_failing.py")[2] for command in commands(said)] == [
        "::test_numbers[a b]",
        "::test_numbers[it's: 'x'::INT]",
    ]


def test_a_failure_of_a_new_example_comes_again(file: Path) -> None:
    said = failures(file, "-k", "examples", explore=True)
    ((variable, *_, seed),) = commands(said)
    assert variable == f"{EXPLORE}=1"
    again = failures(file, "-k", "examples", seed, explore=True)
    example = re.compile(r"test_examples\(.*?\)", re.DOTALL)
    assert commands(again) == commands(said)
    assert example.findall(again) == example.findall(said) != []


def test_modules_stay_whole() -> None:
    assert scope_of("tests/unit/test_a.py::test_b[x::y/z]") == "tests/unit/test_a.py"
    assert (
        scope_of("tests/spark/test_sink.py::test_a")
        == scope_of("tests/spark/test_reader.py::test_b")
        == SPARK
    )


def test_what_is_begun_first_is_there() -> None:
    assert all((ROOT / scope).exists() for scope in FIRST)
