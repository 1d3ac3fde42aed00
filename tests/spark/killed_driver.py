"""A driver process of its own that keeps play counts up to date, and kills itself (-9) in batch 1 at a given
step.

Run as `python -m tests.spark.killed_driver STEP DIRECTORY CHANGELOG CHECKPOINT`.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from pyspark.sql import DataFrame

from engine.changelog import Commit, Writer
from spark_pipeline import LiveStateSink
from tests.spark.streams import FileStream, drain
from tests.support.spark_session import QUICK_SETTINGS, start_session

STEPS = ["before staging", "before the commit", "after the commit"]
_FATAL_BATCH = 1


def count_plays(plays: DataFrame) -> DataFrame:
    return plays.groupBy("song").count()


def _die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


class _Sink(LiveStateSink):
    def __init__(self, changelog: str, step: str) -> None:
        super().__init__(changelog=changelog, store="plays", key=["song"], path="executors")
        self._step = step

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        if batch_id == _FATAL_BATCH and self._step == "before staging":
            _die()
        super().__call__(frame, batch_id)
        if batch_id == _FATAL_BATCH and self._step == "after the commit":
            _die()


def _die_before_the_commit() -> None:
    commit = Writer.commit

    def deadly(writer: Writer, *files: object, batch_id: int | None = None, **named: object) -> Commit:
        if batch_id == _FATAL_BATCH:
            _die()
        return commit(writer, *files, batch_id=batch_id, **named)  # type: ignore[arg-type]

    Writer.commit = deadly  # type: ignore[method-assign,assignment]


def main(step: str, directory: str, changelog: str, checkpoint: str) -> None:
    if step == "before the commit":
        _die_before_the_commit()
    session = start_session("killed-driver", Path(checkpoint).parent / "scratch", settings=QUICK_SETTINGS)
    plays = FileStream(session, Path(directory), "id BIGINT, song STRING")
    drain(count_plays(plays.frame()), _Sink(changelog, step), Path(checkpoint))


if __name__ == "__main__":
    main(*sys.argv[1:])
