"""Columns of derived tables and common table expressions that nothing reads are not worked out.

On one host DuckDB leaves them out too. Worked out for the coordinator they would be sent for nothing, and
might fail, by an overflow for example, where the statement does not.

Why that is right: an output that nobody names changes neither the number of rows nor the values of the
others. Not so where rows are compared whole (DISTINCT, set operations), which keep all outputs, as do SELECTs
whose GROUP BY has an ordinal. Outputs that ORDER BY names stay. Without GROUP BY an aggregate among the
outputs is what makes one row of all, so that a count takes the place of the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sqlglot import exp

from engine.plan.logical.rewrite import Draft, PlanRewrite
from engine.plan.logical.selects import is_aggregating
from engine.plan.logical.trees import named_output, tables_of

Reads = Counter[tuple[str, str]]
"""How often each column, by the alias of its table and its name, is read."""


def drop_unread_outputs(draft: Draft) -> None:
    """Leave out what nothing reads."""
    plan = draft.plan
    if not plan.ctes and not any(derived.alias for derived in plan.tree.find_all(exp.Subquery)):
        return
    trees = (plan.tree, *plan.ctes.values())
    reads = Reads(_columns(trees))
    readers: dict[str, set[str]] = {name: set() for name in plan.ctes}
    for table in (found for tree in trees for found in tables_of(tree)):
        if table.name in readers:
            readers[table.name].add(table.alias)
    # What reads comes before what it reads, so that what is only read by something unread goes as well.
    for name, query in reversed([*plan.ctes.items(), ("", plan.tree)]):
        if name:
            _drop(query, readers[name], reads)
        for derived in list(query.find_all(exp.Subquery)):
            if derived.alias:
                _drop(derived.this, {derived.alias}, reads)


def _columns(trees: tuple[exp.Expr, ...]) -> Iterator[tuple[str, str]]:
    return ((found.table, found.name) for tree in trees for found in tree.find_all(exp.Column) if found.table)


def _drop(query: exp.Expr, aliases: set[str], reads: Reads) -> None:
    """Leave out the outputs of a query that nobody reads by some aliases."""
    if not isinstance(query, exp.Select) or query.args.get("distinct") is not None or _has_ordinal(query):
        return
    order = query.args.get("order")
    ordered = (
        {found.name for found in order.find_all(exp.Column) if not found.table}
        if order is not None
        else set()
    )
    kept = [
        each
        for each in query.expressions
        if each.alias in ordered or any(reads[alias, each.alias] for alias in aliases)
    ]
    gone = [each for each in query.expressions if not any(each is other for other in kept)]
    if not gone:
        return
    reads.subtract(_columns(tuple(gone)))
    is_one_row = is_aggregating(query) and query.args.get("group") is None
    query.set("expressions", kept)
    if not kept or (is_one_row and not is_aggregating(query)):
        count = exp.Count(this=exp.Star(), big_int=True)
        query.append(
            "expressions", named_output(count if is_one_row else exp.Literal.number(1), gone[0].alias)
        )


def _has_ordinal(select: exp.Select) -> bool:
    group = select.args.get("group")
    return group is not None and any(isinstance(each, exp.Literal) for each in group.expressions)


UNREAD_OUTPUTS = PlanRewrite("unread outputs", drop_unread_outputs)
