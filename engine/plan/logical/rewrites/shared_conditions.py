"""A common table expression that is read twice gives what either reader needs.

If each of its readers asks for rows with some values in the same column, no row with any other value matters
to one of them. So the OR of what they ask for may stand in the query, as if it were one reader's
(`pushed_conditions` argues why, and where it stops): the conditions outside stay, and pick each reader's own.

A reader that asks for nothing of a column needs all its values, and so does one whose joins pick by
neighbours, or that is no SELECT.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from engine.plan.logical.column_types import tables_of_from
from engine.plan.logical.constant_conditions import move_condition
from engine.plan.logical.rewrite import CteRewrite, Draft
from engine.plan.logical.rewrites.pushed_conditions import needed_rows, push_into_query
from engine.plan.logical.selects import picks_by_neighbours
from engine.plan.logical.trees import column, conjunction, disjunction, output_names, tables_of, text


def push_shared_conditions(draft: Draft, name: str) -> None:
    """Say in a common table expression which of its rows any of its readers needs."""
    query = draft.plan.ctes[name]
    readers = [table for each in draft.plan.queries for table in tables_of(each) if table.name == name]
    if len(readers) < 2:
        return
    needed = [_needed_values(draft, table, query) for table in readers]
    names = output_names(query)
    shared = [
        (output, _any_of([each[output] for each in needed], column(name, names[output])))
        for output in sorted(set(needed[0]).intersection(*needed[1:]))
    ]
    push_into_query(draft, query, shared)


def _needed_values(draft: Draft, table: exp.Table, query: exp.Query) -> Mapping[int, Sequence[exp.Expr]]:
    """The conditions that rows must meet to matter to one reader, by the places of outputs."""
    found: dict[int, list[exp.Expr]] = defaultdict(list)
    for select, place in _place_of(table):
        if not picks_by_neighbours(select):
            for output, condition in needed_rows(draft, select, place, query):
                found[output].append(condition)
    return found


def _place_of(table: exp.Table) -> Iterator[tuple[exp.Select, int]]:
    """The SELECT in whose FROM clause a table stands, and where; nothing if it stands elsewhere."""
    select = table.parent_select
    if isinstance(select, exp.Select):
        yield from ((select, place) for place, each in enumerate(tables_of_from(select)) if each is table)


def _any_of(needed: Sequence[Sequence[exp.Expr]], stand_in: exp.Column) -> exp.Expr:
    """What holds where the conditions of one of several readers do."""
    options: dict[str, exp.Expr] = {}
    for conditions in needed:
        option = conjunction([move_condition(condition, stand_in) for condition in conditions])
        assert option is not None
        options.setdefault(text(option), option)
    found = disjunction(list(options.values()))
    assert found is not None
    return found


SHARED_CONDITIONS = CteRewrite("shared conditions", push_shared_conditions)
