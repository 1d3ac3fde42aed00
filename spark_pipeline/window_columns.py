"""Window columns: the struct that Spark's `window()` makes becomes two columns, as parts of a key
have to be.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  Spark's own name for it
from pyspark.sql.types import StructType

from engine.errors import InvalidInput


def window_columns(window: str) -> tuple[str, str]:
    """The names of the columns with start and end of a window.

    Args:
        window: Name of the struct column.
    """
    return f"{window}_start", f"{window}_end"


def flatten_window(rows: DataFrame, store: str, window: str) -> DataFrame:
    """Rows whose window column has become two.

    Args:
        rows: Rows of a batch.
        store: Name of the store, for messages.
        window: Name of a column `struct<start, end>`.

    Raises:
        InvalidInput: There is no such column, or it is no window.
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
    start, end = (
        F.col(_quote(window)).getField(part).alias(name)
        for part, name in zip(data_type.names, window_columns(window), strict=True)
    )
    return rows.select(
        *(
            column
            for name in rows.columns
            for column in ((start, end) if name == window else (F.col(_quote(name)),))
        )
    )


def _quote(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
