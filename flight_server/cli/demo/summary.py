"""What a demo came to."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from flight_server.cli.demo.measure import Measurements, Percentiles
from flight_server.cli.render import human_seconds, plain_text


@dataclass(frozen=True)
class Outcome:
    """The figures of a finished demo.

    Attributes:
        seconds: From the first event to the last.
        warm_up: Seconds at the start whose measurements do not count.
        events: Events that were generated.
        counted: Those of 30 seconds or more, by a plain recount.
        epoch: Newest epoch.
        measured: The measurements.
        songs: Songs in the store.
        genres: Genres in the store.
        wrong_songs: How many songs' counts differ from the recount.
        wrong_genres: How many genres' counts do.
        kept: Where everything was kept, if it was.
    """

    seconds: float
    warm_up: float
    events: int
    counted: int
    epoch: int
    measured: Measurements
    songs: int
    genres: int
    wrong_songs: int
    wrong_genres: int
    kept: Path | None

    @property
    def passed(self) -> bool:
        """Whether every count is right, and no look saw half an epoch."""
        return not (self.wrong_songs or self.wrong_genres or self.measured.torn)


def print_summary(console: Console, outcome: Outcome) -> None:
    """Print the figures of a finished demo.

    Args:
        console: Where to.
        outcome: The figures.
    """
    table = Table.grid(padding=(0, 2))
    for name, text in _lines(outcome):
        table.add_row(name, plain_text(text))
    console.print("Summary", style="bold")
    console.print(table)
    if not outcome.passed:
        console.print("The stores do not hold what was generated.", style="bold red")


def _lines(outcome: Outcome) -> list[tuple[str, str]]:
    measured = outcome.measured
    rate = outcome.events / max(outcome.seconds, 0.001)
    lines = [
        (
            "events",
            (
                f"{outcome.events:,} in {outcome.seconds:.1f} s: {rate:,.0f} events/s, {outcome.counted:,} "
                "plays counted"
            ),
        ),
        ("epochs", f"{outcome.epoch:,}"),
        (
            "freshness",
            (
                f"{_percentiles(measured.freshness)}: age of the newest visible event, from its making to "
                "the answer that shows it"
            ),
        ),
        ("top-five query", _percentiles(measured.chart_query)),
        ("lookup by key", _percentiles(measured.lookup)),
        ("measured", f"after a warm-up of {outcome.warm_up:.0f} s, by SQL over Flight"),
        (
            "consistency",
            f"{measured.looks - measured.torn:,} of {measured.looks:,} looks saw both stores at one epoch",
        ),
        ("check", _check(outcome)),
    ]
    return [*lines, ("kept in", str(outcome.kept))] if outcome.kept is not None else lines


def _percentiles(samples: list[float]) -> str:
    found = Percentiles.from_samples(samples)
    return (
        "not measured" if found is None else f"p50 {human_seconds(found.p50)}, p99 {human_seconds(found.p99)}"
    )


def _check(outcome: Outcome) -> str:
    if outcome.wrong_songs or outcome.wrong_genres:
        return (
            f"FAILED: a recount of the events differs for {outcome.wrong_songs:,} songs and "
            f"{outcome.wrong_genres:,} genres"
        )
    return (
        f"passed: the counts of all {outcome.songs:,} songs and {outcome.genres:,} genres equal a recount "
        "of the generated events"
    )
