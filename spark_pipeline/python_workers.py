"""Processes of Python in which Spark runs tasks, and asks data sources."""

from __future__ import annotations

import gc
import os
from functools import cache

_RUNTIME = "SPARK_PYTHON_RUNTIME"


def runs_here() -> bool:
    """Whether this is such a process."""
    return os.environ.get(_RUNTIME) == "PYTHON_WORKER"


@cache
def keep_modules() -> None:
    """Have garbage collections pass over what such a process has imported by now. Anywhere else this does
    nothing.

    Spark collects garbage after each thing that the process has done (`pyspark.daemon`): it would look at all
    modules then, which takes some 25 ms of a processor for each partition that is read or written, and for
    each question to the data source.
    """
    if runs_here():
        gc.freeze()
