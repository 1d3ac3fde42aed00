"""Runs a benchmark in a process of its own."""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.setting import Benchmark, Setting


def run_in_process(name: str, scale: float, directory: Path | None) -> list[Figure]:
    """Run one benchmark in a new process, so that none finds the memory, threads or settings of another.

    Args:
        name: Its module's name.
        scale: Its size.
        directory: Where its temporary directory is made; None for the system's place.

    Returns:
        Its figures, which are printed as they come.

    Raises:
        SystemExit: It failed.
    """
    spawning = multiprocessing.get_context("spawn")
    receiving, sending = spawning.Pipe(duplex=False)
    with tempfile.TemporaryDirectory(prefix=f"livestate-{name}-", dir=directory) as scratch:
        process = spawning.Process(target=_run, args=(name, Setting(Path(scratch), scale), sending))
        process.start()
        sending.close()
        figures = _receive_figures(receiving)
        process.join()
    if process.exitcode:
        raise SystemExit(f"The benchmark {name} failed; see above.")
    return figures


def _receive_figures(receiving: Connection) -> list[Figure]:
    figures: list[Figure] = []
    while True:
        try:
            figure = receiving.recv()
        except EOFError:
            return figures
        print(figure.line(), flush=True)
        figures.append(figure)


def _run(name: str, setting: Setting, sending: Connection) -> None:
    run: Benchmark = importlib.import_module(f"benchmarks.{name}").run
    for figure in run(setting):
        sending.send(figure)
    sending.close()
