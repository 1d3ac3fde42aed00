"""Processes of Python in which Spark runs tasks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_KEEP = """
import gc
import spark_pipeline.reader
from spark_pipeline.python_workers import keep_modules
keep_modules()
kept = gc.get_freeze_count()
later = [[]]
keep_modules()
print(kept, gc.get_freeze_count() - kept)
"""


@pytest.mark.parametrize("runtime", ["PYTHON_WORKER", None])
def test_modules_are_kept_from_collections_once_and_in_processes_of_spark_alone(runtime: str | None) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "SPARK_PYTHON_RUNTIME"}
    if runtime is not None:
        environment["SPARK_PYTHON_RUNTIME"] = runtime
    done = subprocess.run(
        [sys.executable, "-c", _KEEP], capture_output=True, text=True, check=True, env=environment
    )
    kept, more = map(int, done.stdout.split())
    assert (kept > 10_000) == (runtime is not None)
    assert more <= 0
