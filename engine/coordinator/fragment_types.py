"""The types of what a plan's fragments and its merge give, found in one go.

Fragments become common table expressions of one query that also holds the merge, and which reads all of them.
Binding it takes a fraction of the time that its parts would take one by one, each of them over the rows of
those before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice

import pyarrow as pa
from sqlglot import exp

from engine.deadline import Deadline
from engine.duckdb.binder import Binder, over_empty_stores
from engine.duckdb.engine import Outputs
from engine.duckdb.results import check_travelling_types
from engine.errors import Unsupported
from engine.plan.query_text import ReadColumn
from engine.plan.split.nodes import Fragment
from engine.plan.split.planner import NotPlannedError
from engine.sql.bind import StoreReference


def fragment_types(
    binder: Binder,
    fragments: Sequence[Fragment],
    texts: Mapping[str, str],
    merge: str | None,
    references: Sequence[StoreReference],
    lists: Mapping[str, pa.Schema],
    deadline: Deadline,
) -> tuple[Mapping[str, Outputs], Outputs | None]:
    """The columns of fragments and of the merge.

    Args:
        binder: Binds the query.
        fragments: The fragments, inputs before those who read them.
        texts: By name of the fragment, its text over scans, without parameters.
        merge: Text of the merge, without parameters; None for none.
        references: What the scans are of.
        lists: Columns of the lists that the texts may read.
        deadline: When the statement must end.

    Returns:
        The columns of each fragment by its name, and those of the merge; types of the merge are right, its
        names need not be.

    Raises:
        NotBoundError: The engine refuses a text.
        NotPlannedError: A fragment's column has a type that cannot be sent: rules know no types.
        LivestateError: Likewise a column of the merge.
    """
    names = [f'"{fragment.name}"' for fragment in fragments]
    parts = ", ".join(
        f"{name} AS ({texts[fragment.name]})" for name, fragment in zip(names, fragments, strict=True)
    )
    sources = names if merge is None else [*names, f"({merge}) AS merged"]
    # Of a statement that turns out to read no store there is nothing but the merge.
    sql, stores = over_empty_stores(
        f"{f'WITH {parts} ' if parts else ''}SELECT * FROM {', '.join(sources)}", references
    )
    columns = iter(binder.columns(sql, {**stores, **lists}, (), deadline))
    found = {}
    for fragment in fragments:
        own = tuple(islice(columns, _width(fragment.tree)))
        try:
            check_travelling_types([column.type for column in own])
            found[fragment.name] = _outputs(binder, own, deadline)
        except Unsupported as error:
            raise NotPlannedError(str(error)) from error
    return found, None if merge is None else _outputs(binder, tuple(columns), deadline)


def _outputs(binder: Binder, columns: tuple[ReadColumn, ...], deadline: Deadline) -> Outputs:
    return Outputs(columns, binder.schema(columns, deadline))


def _width(query: exp.Expr) -> int:
    """How many columns a query has whose outputs are written out."""
    while not isinstance(query, exp.Select):
        query = query.this
    return len(query.expressions)
