r"""How stores and hosts stand, as `livestate stores`, `livestate hosts` and the prompt's `\d` show it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from rich.console import Group

from engine.cluster.progress import time_in_words
from engine.model.quantities import human_bytes, quantity
from flight_server.cli.render import human_seconds, new_table, plain_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

_NO_STORES = "There are no stores yet: start a Spark job with a LiveStateSink, or run `livestate load`."


def stores_table(status: pa.Table) -> RenderableType:
    """The stores for a terminal: what they are, and how they stand.

    Args:
        status: The rows of `SHOW STORES`: a table of `engine.catalog.show.STORES_SCHEMA`.

    Returns:
        What a rich console prints; a sentence if there are no stores.
    """
    if not status.num_rows:
        return _NO_STORES
    rows = status.to_pylist()
    table = _empty_table(("store", "group"), ("rows", "bytes", "partitions", "segments", "epoch", "lag"))
    problems = any(row["problem"] for row in rows)
    if problems:
        table.add_column("problem", style="red", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row), *([plain_text(row["problem"])] if problems else []))
    return Group(_definitions(rows), "", table, *_skipped_epochs(rows))


def _skipped_epochs(rows: Sequence[dict[str, Any]]) -> Sequence[Text]:
    """Which epochs are passed by, a line for each store group that has any."""
    found = dict.fromkeys(row["skipped"] for row in rows if row["skipped"])
    return [plain_text(text, "yellow") for text in found]


def _definitions(rows: Sequence[dict[str, Any]]) -> Table:
    """What the stores are; how they stand would not fit beside it."""
    is_switched = any(row["sql_names"] != row["store"] for row in rows)
    table = _empty_table(
        ("store", *(["in SQL"] if is_switched else []), "kind", "key", "partition by", "retention"), ()
    )
    for row in rows:
        if row["kind"] is None:
            continue  # nobody knows what it is: its problem says why
        held = "".join(
            f", {word}" for word, so in (("global", row["is_global"]), ("in memory", row["in_memory"])) if so
        )
        names = [row["sql_names"] or "no name"] if is_switched else []
        cells = (
            row["store"],
            *names,
            row["kind"] + held,
            row["key"],
            row["partition_by"],
            row["retention"] or "for ever",
        )
        table.add_row(*(plain_text(cell) for cell in cells))
    return table


def _empty_table(texts: Sequence[str], figures: Sequence[str]) -> Table:
    """An empty table with columns of texts, and behind them columns of figures."""
    table = new_table()
    for heading in texts:
        table.add_column(heading, overflow="fold")
    for heading in figures:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def lag_text(row: Mapping[str, Any]) -> str:
    """How far behind a store or a group is, of a row of SHOW STORES or SHOW HOSTS."""
    if row["epoch"] is None:
        return ""
    behind = row["newest_epoch"] - row["epoch"]
    if behind <= 0:
        return "none"
    seconds = [] if row["lag_seconds"] is None else [human_seconds(row["lag_seconds"])]
    return ", ".join([*seconds, quantity(behind, "epoch")])


def _cells(row: dict[str, Any]) -> tuple[RenderableType, ...]:
    return (
        plain_text(row["store"]),
        plain_text(row["store_group"] or ""),
        f"{row['rows']:,}",
        human_bytes(row["bytes"]),
        f"{row['partitions']:,}",
        f"{row['segments']:,}",
        f"{row['epoch']:,}",
        lag_text(row),
    )


def render_replicas(replicas: pa.Table, status: pa.Table) -> RenderableType:
    """The stores of a deployment for a terminal, with a line for each host that holds some of their
    partitions.

    Args:
        replicas: A table of `flight_server.peers.host_tables.REPLICAS_SCHEMA`.
        status: The rows of `SHOW STORES`: it says what the stores are.

    Returns:
        What a rich console prints, with a line for each store that has a problem; a sentence if there are no
        stores.
    """
    if not replicas.num_rows and not status.num_rows:
        return _NO_STORES
    table = _empty_table(
        ("store", "group", "host", "partitions"), ("moving", "rows", "bytes", "epoch", "lag")
    )
    for row in replicas.to_pylist():
        moves = [f"{row[name]} {name}" for name in ("coming", "leaving") if row[name]]
        table.add_row(
            plain_text(row["store"]),
            plain_text(row["store_group"]),
            plain_text(row["host"] + ("" if row["alive"] else " (away)")),
            number_ranges(row["partitions"]),
            ", ".join(moves) or "none",
            "" if row["rows"] is None else f"{row['rows']:,}",
            "" if row["bytes"] is None else human_bytes(row["bytes"]),
            "" if row["epoch"] is None else f"{row['epoch']:,}",
            lag_text(row),
        )
    rows = status.to_pylist()
    problems = [plain_text(f"{row['store']}: {row['problem']}", "red") for row in rows if row["problem"]]
    return Group(_definitions(rows), "", table, *problems, *_skipped_epochs(rows))


def render_hosts(hosts: pa.Table) -> RenderableType:
    """The hosts of a deployment for a terminal, with a line for each of their store groups.

    Args:
        hosts: A table of `engine.catalog.host_statuses.HOSTS_SCHEMA`.

    Returns:
        What a rich console prints.
    """
    rows = hosts.to_pylist()
    table = _empty_table(("host", "uri", "alive", "group"), ("partitions", "epoch", "lag"))
    table.add_column("state", overflow="fold")
    problems = any(row["problem"] for row in rows)
    if problems:
        table.add_column("problem", style="red", overflow="fold")
    for row in rows:
        table.add_row(
            plain_text(row["host"]),
            plain_text(row["uri"] or ""),
            "yes" if row["alive"] else "no",
            plain_text(row["store_group"] or ""),
            "" if row["partitions"] is None else f"{row['partitions']:,}",
            "" if row["epoch"] is None else f"{row['epoch']:,}",
            lag_text(row),
            plain_text(state_text(row)),
            *([plain_text(row["problem"] or "")] if problems else []),
        )
    return table


def state_text(row: Mapping[str, Any]) -> str:
    """What a host builds and how far it is, such as `building 12 %, 3.1 MiB/s, 4 minutes left`."""
    figures = []
    if row["percent"] is not None:
        figures.append(f"{row['percent']} %")
    if row["bytes_per_second"] is not None:
        figures.append(f"{human_bytes(row['bytes_per_second'])}/s")
    if row["seconds_left"] is not None:
        figures.append(f"{time_in_words(row['seconds_left'])} left")
    return " ".join(filter(None, (row["state"], ", ".join(figures))))


def number_ranges(numbers: Sequence[int]) -> str:
    """Ascending numbers in few characters, such as `0, 3-7`; `none` for none."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges) or "none"
