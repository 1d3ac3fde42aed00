"""Window columns: the struct that Spark's `window()` makes becomes two columns, as parts of a key
have to be.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import StructType

from engine.errors import InvalidInput


def window_columns(window: str) -> tuple[str, str]:
    """The names of the columns with start and end of a window.

    Args:
        window: Name of the struct column.
    """
    return f"{window}_start", f"{window}_end"


def flatten_window(rows: DataFrame, store: str, window: str) -> dict[str, Column]:
    """The columns of rows whose window column has become two.

    Args:
        rows: Rows of a batch.
        store: Name of the store, for messages.
        window: Name of a column `struct<start, end>`.

    Returns:
        What each is over the rows, by name, in their order.

    Raises:
        InvalidInput: There is no such column, it is no window, or one that it would become is there already.
    """
    if rows.columns.count(window) != 1:
        raise InvalidInput(
            f"Store {store}: the window column {window} is not exactly one of the columns "
            f"{', '.join(rows.columns)}."
        )
    data_type = rows.schema[window].dataType
    if not isinstance(data_type, StructType) or data_type.names != ["start", "end"]:
        raise InvalidInput(
            f"Store {store}: the window column {window} is {data_type.simpleString()}, and not what Spark's "
            "window() makes."
        )
    wanted = [name.casefold() for name in window_columns(window)]
    taken = [name for name in rows.columns if name.casefold() in wanted]
    if taken:
        raise InvalidInput(
            f"Store {store}: the window {window} becomes {' and '.join(window_columns(window))}, and there "
            f"is a column {taken[0]} already: rename that or the window."
        )
    ends = {
        name: named_column(window).getField(part)
        for part, name in zip(data_type.names, window_columns(window), strict=True)
    }
    columns: dict[str, Column] = {}
    for name in rows.columns:
        columns |= ends if name == window else {name: named_column(name)}
    return columns


def named_column(name: str) -> Column:
    """The column of any rows that has a name, whatever characters are in it."""
    escaped = name.replace("`", "``")
    return F.col(f"`{escaped}`")


def unused_name(name: str, taken: Iterable[str]) -> str:
    """A name for a column beside those of the user, which may be called anything.

    Args:
        name: What it is called if nothing else is.
        taken: Names of the other columns; Spark does not tell upper from lower case.
    """
    folded = {each.casefold() for each in taken}
    while name.casefold() in folded:
        name += "_"
    return name
