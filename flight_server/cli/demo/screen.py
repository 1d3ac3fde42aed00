"""What the demo shows while it runs: live charts on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from flight_server.cli.demo.measure import ChartRow, Percentiles
from flight_server.cli.render import human_seconds

PAGE_SECONDS = 4.0
PLAIN_SECONDS = 2.0
_HEADER_LINES = 5
_GENRE_LINES = 7
_GENRE_WIDTH = 40


@dataclass(frozen=True)
class View:
    """One moment of the demo.

    Attributes:
        uri: Where to connect.
        seconds: Since the first chart.
        duration: Of the demo, seconds; None without end.
        events: Events made so far.
        events_per_second: Over the last seconds.
        epoch: Newest epoch that was read.
        freshness: At the last look, seconds.
        freshness_percentiles: Over the whole run.
        chart_query: Seconds of the top-five query, over the whole run.
        lookup: Seconds of a lookup by key, over the whole run.
        charts: The top five of every genre, in order.
    """

    uri: str
    seconds: float
    duration: float | None
    events: int
    events_per_second: float
    epoch: int
    freshness: float
    freshness_percentiles: Percentiles | None
    chart_query: Percentiles | None
    lookup: Percentiles | None
    charts: Sequence[ChartRow]


class Screen(Protocol):
    """Shows views; a context, since a terminal has to be put right again."""

    def show(self, view: View) -> None:
        """Show a moment."""

    def __enter__(self) -> Screen: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None: ...


def open_screen(console: Console) -> Screen:
    """The screen that suits where the output goes."""
    return LiveScreen(console) if console.is_terminal else PlainScreen(console)


class LiveScreen:
    """Charts that change in place."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")

    def show(self, view: View) -> None:
        """Draw the charts anew."""
        self._live.update(charts_screen(view, self._console.width, self._console.height), refresh=True)

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._live.stop()


class PlainScreen:
    """A line of figures every two seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def show(self, view: View) -> None:
        """Print the figures, if it is time."""
        if view.seconds >= self._next:
            self._next = view.seconds + PLAIN_SECONDS
            self._console.print(f"{view.seconds:6.1f} s  " + "  ".join(figures(view)))

    def __enter__(self) -> PlainScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        return


def figures(view: View) -> list[str]:
    """The figures of a moment, each a short text."""
    return [
        f"{view.events_per_second:,.0f} events/s ({view.events:,})",
        f"epoch {view.epoch:,}",
        f"freshness {human_seconds(view.freshness)}{_percentiles(view.freshness_percentiles)}",
        f"top-five query{_percentiles(view.chart_query) or ' -'}",
        f"lookup by key{_percentiles(view.lookup) or ' -'}",
    ]


def _percentiles(found: Percentiles | None) -> str:
    return "" if found is None else f" (p50 {human_seconds(found.p50)}, p99 {human_seconds(found.p99)})"


def charts_screen(view: View, width: int, height: int) -> RenderableType:
    """The charts as they fit a terminal; where not all genres fit, they take turns.

    Args:
        view: The moment.
        width: Characters of a line.
        height: Lines.

    Returns:
        What a rich console prints.
    """
    genres = [
        (genre, list(rows)) for genre, rows in itertools.groupby(view.charts, key=lambda row: row.genre)
    ]
    columns = max(1, min(3, width // _GENRE_WIDTH))
    rows = -(-len(genres) // columns)
    pages = max(1, -(-rows // max(1, (height - _HEADER_LINES) // _GENRE_LINES)))
    per_page = columns * -(-rows // pages)
    page = int(view.seconds / PAGE_SECONDS) % pages
    grid = Table.grid(padding=(0, 2), expand=True)
    for _ in range(columns):
        grid.add_column(ratio=1)
    shown = [_genre(genre, songs) for genre, songs in genres[page * per_page : (page + 1) * per_page]]
    for start in range(0, len(shown), columns):
        grid.add_row(*shown[start : start + columns])
    # The cursor stays on a line of its own: the ^C that a terminal echoes would wrap at the end of a full
    # one, and shift the picture.
    return Group(_header(view, page, pages), grid, Text())


def _header(view: View, page: int, pages: int) -> RenderableType:
    time = (
        f"{view.seconds:.0f} s, Ctrl-C ends"
        if view.duration is None
        else f"{view.seconds:.0f} of {view.duration:.0f} s"
    )
    turns = f" · page {page + 1} of {pages}" if pages > 1 else ""
    made, epoch, freshness, chart, lookup = figures(view)
    lines = (
        Text(" · ").join(Text(text) for text in (made, epoch, freshness)),
        Text(" · ").join(Text(text) for text in (chart, lookup)),
    )
    title = Text.assemble(("Music charts", "bold"), f" · {view.uri} · {time}{turns}")
    for line in lines:
        line.no_wrap = True
        line.overflow = "ellipsis"
    return Panel(Group(*lines), title=title, title_align="left", box=box.ROUNDED)


def _genre(genre: str, rows: Sequence[ChartRow]) -> RenderableType:
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(width=1, style="dim")
    table.add_column(ratio=5, no_wrap=True, overflow="ellipsis")
    table.add_column(ratio=3, no_wrap=True, overflow="ellipsis", style="dim")
    table.add_column(justify="right", no_wrap=True)
    table.add_row("", Text(genre, style="bold cyan"), "", Text("plays", style="dim"))
    for rank, row in enumerate(rows, start=1):
        table.add_row(str(rank), Text(row.title), Text(row.artist), f"{row.plays:,}")
    table.add_row("")
    return table
