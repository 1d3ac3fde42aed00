"""Merged columns, as a user writes them down: which aggregates of its events a merge store or a session store
keeps.

```python
from spark_pipeline import StoreOutput, merged

StoreOutput("plays", key=["song_id"], kind=merged.columns(
    plays=merged.count(),
    seconds=merged.sum("seconds"),
    rating=merged.avg("rating"),
    title=merged.last("title", by="played_at"),
    listeners=merged.count_distinct("user_id"),
    latency=merged.quantiles("latency_ms", 0.5, 0.99),
))
```

The names of the arguments are those of the store's columns. What the functions take are columns of the
events; for anything else, such as an expression, have the output's `query` make a column.
"""

from __future__ import annotations

from dataclasses import replace

from engine.errors import InvalidInput
from engine.model.kinds import Function, Merge, MergedColumn


def columns(**named: MergedColumn) -> Merge:
    """A merge store's kind.

    Args:
        **named: The store's columns beside its key, each by one of the functions below.

    Returns:
        The kind, for `StoreOutput` and `LiveStateSink`.

    Raises:
        InvalidInput: As `named_columns`.
    """
    return Merge(named_columns(**named))


def named_columns(**named: MergedColumn) -> tuple[MergedColumn, ...]:
    """Merged columns for `Session`; arguments as for `columns`.

    Raises:
        InvalidInput: One is none, or does not name columns of the events.
    """
    for name, column in named.items():
        if not isinstance(column, MergedColumn):
            raise InvalidInput(
                f"The merged column {name} must be made by one of the functions of merged, such as "
                f"merged.count(), and not {column!r}."
            )
        if not isinstance(column.of, str) or not isinstance(column.by, str):
            raise InvalidInput(
                f"The merged column {name} takes the name of a column; for an expression have the output's "
                "query make one."
            )
        if not all(isinstance(rank, int | float) for rank in column.ranks):
            raise InvalidInput(f"The ranks of the merged column {name} are numbers from 0 to 1, such as 0.5.")
    return tuple(replace(column, name=name) for name, column in named.items())


def sum(of: str) -> MergedColumn:  # noqa: A001  it is written merged.sum
    """The sum of a column, nulls aside; NULL while there is no value. Integers make a BIGINT, which stays at
    its limit rather than overflow.
    """
    return MergedColumn("", Function.SUM, of)


def count(of: str = "") -> MergedColumn:
    """How many events there were; with a column, how many in which it is not null."""
    return MergedColumn("", Function.COUNT, of)


def min(of: str) -> MergedColumn:  # noqa: A001  it is written merged.min
    """The smallest value of a column, nulls aside."""
    return MergedColumn("", Function.MIN, of)


def max(of: str) -> MergedColumn:  # noqa: A001  it is written merged.max
    """The largest value of a column, nulls aside; NaN is larger than all numbers."""
    return MergedColumn("", Function.MAX, of)


def avg(of: str) -> MergedColumn:
    """The average of a column as DOUBLE, nulls aside."""
    return MergedColumn("", Function.AVG, of)


def first(of: str, *, by: str) -> MergedColumn:
    """The value of a column in the earliest event.

    Args:
        of: The column; its value may be null.
        by: The column that says when: a timestamp, date or integer; events where it is null do not count.
    """
    return MergedColumn("", Function.FIRST, of, by)


def last(of: str, *, by: str) -> MergedColumn:
    """The value of a column in the latest event, whatever came last; as `first`."""
    return MergedColumn("", Function.LAST, of, by)


def count_distinct(of: str) -> MergedColumn:
    """About how many distinct values a column has: a HyperLogLog sketch of 4,096 registers, whose standard
    error is 1.6 %.
    """
    return MergedColumn("", Function.COUNT_DISTINCT, of)


def quantiles(of: str, *ranks: float) -> MergedColumn:
    """Values of a number column at given ranks, approximately: a KLL sketch of size 200, whose errors of
    ranks are below 1.4 % almost always.

    Args:
        of: The column.
        *ranks: Ranks from 0 to 1, such as 0.5 for the median. One makes a DOUBLE, more make a list of them.
    """
    return MergedColumn("", Function.QUANTILES, of, ranks=ranks)
