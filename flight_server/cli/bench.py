"""`livestate bench`: how many statements a second a deployment answers, and how fast."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import shorten

from rich.console import RenderableType

from engine.errors import InvalidInput, LivestateError
from flight_server.cli.call_threads import CallThread
from flight_server.cli.render import human_seconds, new_table, plain_text
from flight_server.client.client import Client
from flight_server.client.connection_options import ConnectionOptions

_SHOWN_CHARACTERS = 60
_WARM_UP_CALLS = 2
_PATIENCE_SECONDS = 60.0


@dataclass(frozen=True)
class BenchOptions:
    """What is measured.

    Attributes:
        statements: What each client asks, in turn; the clients of a host begin with different ones.
        clients: How many ask at once, each with a connection of its own.
        seconds: How long.
        numbers: The least and the largest number that `$n` may be, drawn anew for each call; None where the
            statements have no `$n`.
        dialect: SQL dialect of the statements.
    """

    statements: Sequence[str]
    clients: int
    seconds: float
    numbers: tuple[int, int] | None = None
    dialect: str = ""


@dataclass
class Measured:
    """What the calls of one statement came to.

    Attributes:
        seconds: How long each took, to its last row.
        rows: How many rows they gave.
        errors: How many failed, or were given up.
        calls_per_second: How many were answered in a second.
        rows_per_second: How many rows that were.
    """

    seconds: list[float] = field(default_factory=list)
    rows: int = 0
    errors: int = 0
    calls_per_second: float = 0
    rows_per_second: float = 0

    def quantile(self, share: float) -> float:
        """The time in which this share of the calls was done."""
        ordered = sorted(self.seconds)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclass(frozen=True)
class BenchResult:
    """What all clients saw.

    Attributes:
        statements: What came of each statement.
        first_error: The first message of a call that failed; empty if none did.
    """

    statements: Sequence[Measured]
    first_error: str


class _Asker(CallThread):
    """One client."""

    def __init__(
        self,
        host: ConnectionOptions,
        options: BenchOptions,
        place: int,
        begin: threading.Event,
        end: threading.Event,
    ) -> None:
        super().__init__("bench")
        self.measured = [Measured() for _ in options.statements]
        self.first_error = ""
        self.seconds = 0.0
        self._client = Client(host, dialect=options.dialect)
        self._options = options
        self._place = place % len(options.statements)
        self._begin = begin
        self._end = end

    def run(self) -> None:
        """Ask until the end, once at least."""
        self._begin.wait()
        started = time.perf_counter()
        while True:
            self.ask(self._place, self.measured[self._place])
            self.seconds = time.perf_counter() - started
            self._place = (self._place + 1) % len(self._options.statements)
            if self._end.is_set():
                break
        self._client.close()

    def give_up(self) -> None:
        """Count the call that is not answered."""
        self.measured[self._place].errors += 1
        self.first_error = self.first_error or (
            f"There was no answer {_PATIENCE_SECONDS:g} s after the end: the call was given up."
        )

    def ask(self, place: int, measured: Measured) -> None:
        """Ask once, and note how it went."""
        numbers = self._options.numbers
        bound = None if numbers is None else {"n": random.randint(*numbers)}  # noqa: S311 - no secret
        statement = self._options.statements[place]
        started = time.perf_counter()
        try:
            rows = sum(
                batch.num_rows
                for batch in self._client.query(statement, bound if "$n" in statement else None)
            )
        except LivestateError as error:
            measured.errors += 1
            self.first_error = self.first_error or error.message
        else:
            measured.seconds.append(time.perf_counter() - started)
            measured.rows += rows


def run_bench(hosts: Sequence[ConnectionOptions], options: BenchOptions) -> BenchResult:
    """Have clients ask for a while, and note each call.

    Args:
        hosts: Where they ask; each client has one, in turn.
        options: What they ask.

    Raises:
        LivestateError: A statement does not run at all, or there is no host.
    """
    begin, end = threading.Event(), threading.Event()
    askers = [
        _Asker(hosts[number % len(hosts)], options, number // len(hosts), begin, end)
        for number in range(options.clients)
    ]
    # Connections are made, and statements planned, before anything counts.
    for asker in askers[: len(hosts)]:
        for place in range(len(options.statements)):
            for _ in range(_WARM_UP_CALLS):
                tried = Measured()
                asker.ask(place, tried)
                if tried.errors:
                    raise InvalidInput(asker.first_error)
    for asker in askers:
        asker.start()
    begin.set()
    try:
        end.wait(options.seconds)
    finally:
        end.set()
    given_up_at = time.monotonic() + _PATIENCE_SECONDS
    for asker in askers:
        asker.join(max(given_up_at - time.monotonic(), 0))
        if asker.is_alive():
            asker.give_up()
    return BenchResult(
        [_measured_by_all(askers, place) for place in range(len(options.statements))],
        next((asker.first_error for asker in askers if asker.first_error), ""),
    )


def _measured_by_all(askers: Sequence[_Asker], place: int) -> Measured:
    """What came of a statement. A client's last call ends when it ends, so each has a time of its own."""
    parts = [(asker.measured[place], asker.seconds) for asker in askers]
    return Measured(
        [second for part, _ in parts for second in part.seconds],
        sum(part.rows for part, _ in parts),
        sum(part.errors for part, _ in parts),
        sum(len(part.seconds) / seconds for part, seconds in parts if seconds),
        sum(part.rows / seconds for part, seconds in parts if seconds),
    )


def bench_table(options: BenchOptions, result: BenchResult) -> RenderableType:
    """A result for a terminal.

    Args:
        options: What was asked.
        result: What came of it.
    """
    table = new_table()
    for heading in ("", "calls", "calls/s", "rows/s", "p50", "p90", "p99", "longest", "errors", "statement"):
        table.add_column(heading, justify="left" if heading == "statement" else "right", no_wrap=True)
    for number, measured in enumerate(result.statements, start=1):
        calls = len(measured.seconds)
        times = (
            [human_seconds(measured.quantile(share)) for share in (0.5, 0.9, 0.99, 1.0)]
            if calls
            else [""] * 4
        )
        table.add_row(
            str(number),
            f"{calls:,}",
            f"{measured.calls_per_second:,.1f}",
            f"{measured.rows_per_second:,.0f}",
            *times,
            f"{measured.errors:,}",
            plain_text(shorten(options.statements[number - 1], _SHOWN_CHARACTERS, placeholder="…")),
        )
    return table
