"""A command that ends while a host is still asked."""

from __future__ import annotations

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
