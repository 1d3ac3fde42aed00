"""Which merges can read rows as they come.

A merge may read the rows of a fragment while they are still on their way if it reads them once, and needs to
know nothing of them before: neither how many there are, as for the order of joins, nor which values they
have.
"""

from __future__ import annotations

from sqlglot import exp

_READ_AGAIN = (exp.With, exp.Join, exp.Lateral, exp.Pivot, exp.Summarize)
"""Common table expressions may be read several times; one side of a join is chosen by its size; the columns
of a PIVOT are values of its rows.
"""


def is_read_once(merge: exp.Expr, part: str) -> bool:
    """Whether a merge reads nothing but the rows of one fragment, and these once.

    Args:
        merge: The merge.
        part: Name of the fragment.
    """
    read = [table.name for table in merge.find_all(exp.Table)]
    return read == [part] and merge.find(*_READ_AGAIN) is None
