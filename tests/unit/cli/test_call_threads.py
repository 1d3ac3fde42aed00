"""A command that ends while a host is still asked."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

COMMAND = """\
import atexit, sys, threading
from flight_server.cli.call_threads import CallThread, exit_during_calls
atexit.register(print, "Python takes itself apart")
call = CallThread("call", threading.Event().wait if sys.argv[1] == "asks" else int)
call.start()
print("rows")
try:
    sys.exit({"None": None, "130": 130}.get(sys.argv[2], sys.argv[2]))
except SystemExit as end:
    if sys.argv[1] != "asks":
        call.join()
    exit_during_calls(end)
    raise
"""


@pytest.mark.parametrize(
    ("word", "code", "error"),
    [("None", 0, ""), ("130", 130, ""), ("There is no room.", 1, "There is no room.\n")],
)
@pytest.mark.parametrize("asks", [True, False])
def test_python_does_not_end_inside_a_call(asks: bool, word: str, code: int, error: str) -> None:
    command = [sys.executable, "-c", COMMAND, "asks" if asks else "has asked", word]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (code, error)
    assert done.stdout == ("rows\n" if asks else "rows\nPython takes itself apart\n")


def test_a_reader_that_has_gone_away_is_no_failure() -> None:
    waiting = COMMAND.replace("try:", "sys.stdin.read()\ntry:", 1)
    with subprocess.Popen(
        [sys.executable, "-c", waiting, "asks", "130"],
        env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        process.stdin.close()
        assert (process.wait(60), process.stderr.read()) == (130, "")
