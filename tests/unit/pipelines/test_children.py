"""Processes of Python find livestate's modules wherever this one is, and none of the directory that they are
started in.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from engine.processes.children import python_environment
from tests.support.decoys import decoy_modules

ROOT = Path(__file__).parents[3]
_SHOWS_PLACES = "import engine.errors, json; print(engine.errors.__file__, 'dumps' in dir(json))"
_STARTS_ONE = """
import subprocess, sys
from engine.processes.children import python_environment
subprocess.run([sys.executable, *sys.argv[1:]], env=python_environment(), check=True)
"""


def test_files_where_a_process_starts_are_passed_over(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _SHOWS_PLACES]
    shown = subprocess.run(
        command,
        env=python_environment(),
        cwd=decoy_modules(tmp_path / "decoys"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == [str(ROOT / "engine" / "errors.py"), "True"]


def test_modules_that_are_not_installed_are_found(tmp_path: Path) -> None:
    # Without the packages that are installed there is the current directory alone to find them in.
    command = [sys.executable, "-S", "-c", _STARTS_ONE, "-S", "-c", _SHOWS_PLACES]
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.split() == [str(ROOT / "engine" / "errors.py"), "True"]
