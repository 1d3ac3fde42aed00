"""`livestate top`: hosts, stores and statements in a terminal, live."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from engine.errors import LivestateError, Unavailable
from engine.model.quantities import human_bytes
from flight_server.cli.hosts import hosts_table
from flight_server.cli.render import escape_unprintable, human_seconds, new_table, terminal
from flight_server.cli.store_tables import lag_text, state_text
from flight_server.client.client import Client

SCRIPT_WIDTH, SCRIPT_HEIGHT = 120, 60
"""Of a frame that goes to no terminal."""
LEAST_ROWS = 3
"""Rows of a table that are shown however low the terminal is."""
NARROW, MIDDLE = 80, 110
_LAG_SECONDS = 5.0
"""What is further behind is shown in yellow; six times as much in red."""
_END_KEYS = frozenset(b"qQ\x03\x04")
"""Ctrl-C and Ctrl-D among them."""
_OWN = "show "
"""How statements begin that this command sends."""

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """What hosts said at a moment.

    Attributes:
        at: When, by a monotonic clock, seconds.
        hosts: The rows of SHOW HOSTS.
        stores: The rows of SHOW STORES.
        statements: The rows of SHOW STATEMENTS, without those of this command.
        calls: Calls so far of each connection, by host, principal and peer.
        problems: What could not be found out, a sentence each.
    """

    at: float
    hosts: Sequence[Row] = ()
    stores: Sequence[Row] = ()
    statements: Sequence[Row] = ()
    calls: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    problems: Sequence[str] = ()


@dataclass(frozen=True)
class Rates:
    """What happens a second, from one sample to the next; what is not known is not there.

    Attributes:
        epochs: Epochs by host and store group.
        rows: By store, how many rows it grew by; below 0 where it lost some.
        calls: Calls of clients by host.
    """

    epochs: Mapping[tuple[str, str], float] = field(default_factory=dict)
    rows: Mapping[str, float] = field(default_factory=dict)
    calls: Mapping[str, float] = field(default_factory=dict)


def rates_between(before: Sample | None, now: Sample) -> Rates:
    """What happened a second.

    Args:
        before: The sample before; None for none.
        now: The newest.
    """
    seconds = 0.0 if before is None else now.at - before.at
    if before is None or seconds <= 0.0:
        return Rates()
    epochs = {(row["host"], row["store_group"]): row["epoch"] for row in before.hosts}
    rows = {row["store"]: row["rows"] for row in before.stores}
    calls: Counter[str] = Counter()
    for who, count in now.calls.items():
        # A connection that is new has made all its calls since.
        calls[who[0]] += max(0, count - before.calls.get(who, 0))
    return Rates(
        {
            place: (row["epoch"] - known) / seconds
            for row in now.hosts
            if (known := epochs.get(place := (row["host"], row["store_group"]))) is not None
            and row["epoch"] is not None
        },
        {
            row["store"]: (row["rows"] - known) / seconds
            for row in now.stores
            if (known := rows.get(row["store"])) is not None and row["rows"] is not None
        },
        {host: count / seconds for host, count in calls.items()},
    )


def take_sample(client: Client) -> Sample:
    """Ask a host how all hosts, stores and statements stand.

    Args:
        client: It.

    Returns:
        What it says; what it does not tell the caller is a problem of the sample.

    Raises:
        Unavailable: There is no such host.
    """
    at = time.monotonic()
    problems: list[str] = []
    found: dict[str, Sequence[Row]] = {}
    for what in (
        "hosts",
        "stores",
        "statements",
        "sessions",
    ):
        try:
            table = (
                # Operators, who read no stores, get it of a deployment.
                hosts_table(client)[0] if what == "hosts" else client.query(f"SHOW {what.upper()}").read_all()
            )
            found[what] = table.to_pylist()
        except Unavailable:
            raise
        except LivestateError as error:
            found[what] = ()
            problems.append(f"{what.capitalize()} are not shown: {error.message}")
    statements = [
        row for row in found["statements"] if not (row["statement"] or "").lower().lstrip().startswith(_OWN)
    ]
    calls: Counter[tuple[str, str, str]] = Counter()
    for row in found["sessions"]:
        calls[row["host"] or "", row["principal"] or "", row["peer"] or ""] += row["calls"] or 0
    return Sample(at, found["hosts"], found["stores"], statements, calls, problems)


# ---- what is shown


def frame(
    sample: Sample, rates: Rates, uri: str, width: int, height: int, moment: datetime
) -> RenderableType:
    """One picture.

    Args:
        sample: What hosts said last.
        rates: What happens a second.
        uri: Which host was asked.
        width: Columns of the terminal.
        height: Its lines.
        moment: What time it is.

    Returns:
        What a rich console prints in so many columns and lines.
    """
    problems = [
        Text(escape_unprintable(text), "yellow", overflow="ellipsis", no_wrap=True)
        for text in sample.problems
    ]
    shares = _shares(
        height - 1 - len(problems), (len(sample.hosts), len(sample.stores), len(sample.statements))
    )
    return Group(
        _headline(sample, rates, uri, width, moment),
        *problems,
        *_section("hosts", _hosts_table(sample.hosts, rates, width, shares[0]), sample.hosts, shares[0]),
        *_section("stores", _stores_table(sample.stores, rates, width, shares[1]), sample.stores, shares[1]),
        *_section(
            "statements",
            _statements_table(sample.statements, width, shares[2]),
            sample.statements,
            shares[2],
        ),
    )


def _headline(sample: Sample, rates: Rates, uri: str, width: int, moment: datetime) -> RenderableType:
    names = {row["host"] for row in sample.hosts}
    alive = {row["host"] for row in sample.hosts if row["alive"]}
    line = Text(no_wrap=True, overflow="ellipsis")
    line.append(f"{moment.astimezone(UTC):%H:%M:%S} UTC", "bold")
    if width >= NARROW:
        line.append(f"  {escape_unprintable(uri)}", "dim")
    line.append("  hosts ")
    line.append(f"{len(alive)}/{len(names)}", "green" if len(alive) == len(names) else "bold red")
    line.append(f"  stores {len(sample.stores)}  running {len(sample.statements)}")
    if rates.calls:
        line.append(f"  calls {_rate(sum(rates.calls.values()))}/s")
    return line


def _shares(height: int, wanted: tuple[int, int, int]) -> tuple[int, int, int]:
    """How many rows each of the tables gets: what it wants, or of what the others leave."""
    # Title, heading and rule of each, and a blank line before it.
    room = height - 4 * len(wanted)
    fair = max(LEAST_ROWS, room // len(wanted))
    given = [min(want, fair) for want in wanted]
    for place, want in enumerate(wanted):
        given[place] += max(0, min(want - given[place], room - sum(given)))
    first, second, third = given
    return first, second, third


def _section(title: str, table: Table, rows: Sequence[Row], shown: int) -> Iterator[RenderableType]:
    more = len(rows) - shown
    yield Text.assemble("\n", (title, "bold cyan"), (f"  {more} more" if more > 0 else "", "dim"))
    yield table if rows else Text("none", "dim")


def _table(texts: Sequence[str], figures: Sequence[str], last: str = "") -> Table:
    table = new_table()
    for heading in texts:
        table.add_column(heading, no_wrap=True, overflow="ellipsis")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    if last:
        table.add_column(last, no_wrap=True, overflow="ellipsis", ratio=1)
        table.expand = True
    return table


def _hosts_table(rows: Sequence[Row], rates: Rates, width: int, shown: int) -> Table:
    # The groups that are furthest behind are the last to go.
    found = sorted(rows, key=lambda row: (bool(row["alive"]), -(row["lag_seconds"] or 0.0)))
    kept = {id(row) for row in found[:shown]}
    table = _table(
        ("host", *(("address",) if width >= MIDDLE else ()), "group"),
        ("partitions", "epoch", "epochs/s", "lag") if width >= NARROW else ("epoch", "lag"),
        "state",
    )
    for row in rows:
        if id(row) not in kept:
            continue
        away = not row["alive"]
        figures: list[RenderableType] = [_number(row["epoch"])]
        if width >= NARROW:
            rate = rates.epochs.get((row["host"], row["store_group"]))
            figures = [_number(row["partitions"]), *figures, _rate(rate)]
        table.add_row(
            _text(row["host"], "bold red" if away else ""),
            *((_text(row["uri"], "dim"),) if width >= MIDDLE else ()),
            _text(row["store_group"]),
            *figures,
            _lag_text(row),
            Text("away", "bold red") if away else _state_text(row),
        )
    return table


def _state_text(row: Row) -> Text:
    if row["problem"]:
        return _text(row["problem"], "red")
    return _text(state_text(row), "green" if row["state"] == "readable" else "yellow")


def _stores_table(rows: Sequence[Row], rates: Rates, width: int, shown: int) -> Table:
    table = _table(
        ("store", *(("kind",) if width >= MIDDLE else ())),
        ("rows", "rows/s", "bytes", "segments", "epoch", "lag")
        if width >= NARROW
        else ("rows", "epoch", "lag"),
        "problem",
    )
    largest = sorted(
        rows, key=lambda row: (not row["problem"], -(row["lag_seconds"] or 0.0), -(row["rows"] or 0))
    )
    kept = {id(row) for row in largest[:shown]}
    for row in rows:
        if id(row) not in kept:
            continue
        figures = [_number(row["rows"])]
        if width >= NARROW:
            size = "" if row["bytes"] is None else human_bytes(row["bytes"])
            figures += [_rate(rates.rows.get(row["store"])), size, _number(row["segments"])]
        table.add_row(
            _text(row["store"]),
            *((_text(row["kind"], "dim"),) if width >= MIDDLE else ()),
            *figures,
            _number(row["epoch"]),
            _lag_text(row),
            _text(row["problem"], "red"),
        )
    return table


def _statements_table(rows: Sequence[Row], width: int, shown: int) -> Table:
    names_host = any(row["host"] for row in rows)
    table = _table(
        (
            "id",
            *(("host",) if names_host else ()),
            *(("who",) if width >= NARROW else ()),
            *(("state",) if width >= NARROW else ()),
        ),
        ("time", *(("rows", "sent") if width >= MIDDLE else ())),
        "statement",
    )
    longest = sorted(rows, key=lambda row: -(row["seconds"] or 0.0))[:shown]
    for row in longest:
        table.add_row(
            _text(row["id"], "dim"),
            *((_text(row["host"]),) if names_host else ()),
            *((_text(row["principal"]),) if width >= NARROW else ()),
            *((_text(row["state"]),) if width >= NARROW else ()),
            "" if row["seconds"] is None else human_seconds(row["seconds"]),
            *(
                (
                    _number(row["rows_sent"]),
                    "" if row["bytes_sent"] is None else human_bytes(row["bytes_sent"]),
                )
                if width >= MIDDLE
                else ()
            ),
            _text(" ".join((row["statement"] or "").split())),
        )
    return table


def _text(text: str | None, style: str = "") -> Text:
    return Text(escape_unprintable(text or ""), style, no_wrap=True, overflow="ellipsis")


def _number(number: int | None) -> str:
    return "" if number is None else f"{number:,}"


def _rate(rate: float | None) -> str:
    if rate is None:
        return ""
    return f"{rate:,.0f}" if abs(rate) >= 10 or rate == 0 else f"{rate:.1f}"


def _lag_text(row: Row) -> Text:
    seconds = row["lag_seconds"] or 0.0
    style = "red" if seconds > 6 * _LAG_SECONDS else "yellow" if seconds > _LAG_SECONDS else ""
    return Text(lag_text(row), style, justify="right")


# ---- showing it


def print_frame(client: Client) -> None:
    """Print one frame, with the rates of the second before it.

    Args:
        client: Any one of the hosts.

    Raises:
        LivestateError: What the host said, by its kind; Unavailable when there is no host.
    """
    console = terminal()
    width = console.width if console.is_terminal else SCRIPT_WIDTH
    before = take_sample(client)
    time.sleep(1.0)
    now = take_sample(client)
    shown = frame(now, rates_between(before, now), client.uri, width, SCRIPT_HEIGHT, datetime.now(UTC))
    console.print(shown, width=width)


def watch_top(client: Client, seconds: float) -> None:
    """Show frames until q or Ctrl-C.

    Args:
        client: Any one of the hosts.
        seconds: How often.

    Raises:
        LivestateError: There is no host at the start. Later, the picture says so, and goes on.
    """
    console = terminal()
    sample, rates = take_sample(client), Rates()
    with (
        suppress(KeyboardInterrupt),
        _single_keys(),
        Live(console=console, screen=True, auto_refresh=False, vertical_overflow="crop") as live,
    ):
        while True:
            now = datetime.now(UTC)
            live.update(frame(sample, rates, client.uri, console.width, console.height, now), refresh=True)
            if _is_ended_within(seconds):
                return
            before, sample = sample, _next_sample(client, sample)
            rates = rates_between(before, sample) if sample.at > before.at else rates


@contextmanager
def _single_keys() -> Iterator[None]:
    """Have standard input give each key at once, Ctrl-C among them: an interrupt that comes within a call of
    Flight can get lost.
    """
    if not sys.stdin.isatty():
        yield
        return
    terminal_file = sys.stdin.fileno()
    before = termios.tcgetattr(terminal_file)
    flags = termios.tcgetattr(terminal_file)
    flags[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG)
    try:
        termios.tcsetattr(terminal_file, termios.TCSADRAIN, flags)
        yield
    finally:
        termios.tcsetattr(terminal_file, termios.TCSADRAIN, before)


def _is_ended_within(seconds: float) -> bool:
    """Wait, and tell whether a key that ends it was pressed meanwhile."""
    until = time.monotonic() + seconds
    if not sys.stdin.isatty():
        time.sleep(seconds)
        return False
    while (remaining := until - time.monotonic()) > 0:
        readable, _, _ = select.select([sys.stdin], [], [], remaining)
        if readable:
            pressed = os.read(sys.stdin.fileno(), 64)
            if not pressed or not _END_KEYS.isdisjoint(pressed):
                return True
    return False


def _next_sample(client: Client, before: Sample) -> Sample:
    try:
        return take_sample(client)
    except LivestateError as error:
        return Sample(
            before.at, before.hosts, before.stores, before.statements, before.calls, [error.message]
        )
