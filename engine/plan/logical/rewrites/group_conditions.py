"""A condition of HAVING on a column by which rows are grouped is one on the rows.

All rows of a group agree in that column. So a group for which the condition does not hold is made of rows for
which it does not hold, and none of a group that stays is lost when it stands in WHERE, too. Not so with
grouping sets, whose groups are NULL in columns by which they do not group, nor without GROUP BY, where the
one group is there without any row.
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.constant_conditions import compared_column
from engine.plan.logical.rewrite import Draft, SelectRewrite
from engine.plan.logical.selects import plain_groups, set_where, where_of
from engine.plan.logical.trees import conjuncts, text


def add_group_conditions(draft: Draft, select: exp.Select) -> None:
    """Say in WHERE what HAVING says of the columns of GROUP BY."""
    having = select.args.get("having")
    groups = plain_groups(select) if having is not None else frozenset()
    if not groups:
        return
    assert having is not None
    types = draft.types.columns(select)
    where = where_of(select)
    said = {text(condition) for condition in where}
    found = [
        condition.copy()
        for condition in conjuncts(having.this)
        if compared_column(condition, types) in groups and text(condition) not in said
    ]
    if found:
        set_where(select, [*where, *found])


GROUP_CONDITIONS = SelectRewrite("group conditions", add_group_conditions)
