"""The progress of a load, on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

from engine.model.quantities import quantity
from flight_server.cli.load import Progress
from flight_server.cli.render import human_seconds, terminal


@contextmanager
def show_progress(store: str) -> Iterator[Callable[[Progress], None]]:
    """Show a bar while rows are loaded, at a terminal, and one line at the end, anywhere.

    Args:
        store: Name of the store.

    Yields:
        What to call with each progress.
    """
    console = terminal(stderr=True)
    last = Progress()
    started = time.perf_counter()
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(f"Loading {store}", total=None)

        def report(progress: Progress) -> None:
            nonlocal last
            last = progress
            bar.update(task, completed=progress.rows, total=progress.total)

        yield report
    seconds = time.perf_counter() - started
    where = f"epoch {last.epoch:,}" if last.epoch is not None else "no epoch"
    console.print(
        (
            f"{store}: {quantity(last.rows, 'row')} in {human_seconds(seconds)} "
            f"({last.rows / max(seconds, 1e-9):,.0f} rows/s), {where}."
        ),
    )
