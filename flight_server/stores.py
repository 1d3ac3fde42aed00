r"""How the stores of a host stand, as `livestate stores` and the prompt's `\d` show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from flight_server.render import human_bytes, human_seconds, new_table, printable

if TYPE_CHECKING:
    from rich.console import RenderableType


def stores_table(status: pa.Table) -> RenderableType:
    """A table of stores for a terminal.

    Args:
        status: The rows of `SHOW STORES`: the fields of `engine.scan.StoreStatus`.

    Returns:
        What a rich console prints; a sentence if there are no stores.
    """
    if not status.num_rows:
        return "There are no stores yet: start a Spark job with a LiveStateSink, or run `livestate load`."
    table = new_table()
    for heading in ("store", "group"):
        table.add_column(heading, overflow="fold")
    for heading in ("rows", "bytes", "partitions", "segments", "epoch", "lag"):
        table.add_column(heading, justify="right", no_wrap=True)
    problems = any(row["problem"] for row in status.to_pylist())
    if problems:
        table.add_column("problem", style="red", overflow="fold")
    for row in status.to_pylist():
        table.add_row(*_cells(row), *([printable(row["problem"])] if problems else []))
    return table


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    behind = row["newest_epoch"] - row["epoch"]
    lag = f"{human_seconds(row['lag_seconds'])}, {behind:,} epoch{'' if behind == 1 else 's'}" if behind > 0 else "none"
    return (
        printable(row["store"]),
        printable(row["store_group"]),
        f"{row['rows']:,}",
        human_bytes(row["bytes"]),
        f"{row['partitions']:,}",
        f"{row['segments']:,}",
        f"{row['epoch']:,}",
        lag,
    )
