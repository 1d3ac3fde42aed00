"""The rewrites of a logical plan, in their order. One rewrite is one file, which argues why it is right; what
it does to statements is shown in `tests/unit/plan/split/fixtures/<rewrite>.sql`.

First those of SELECTs run, one SELECT after the other from the outside in, so that what holds of the rows
that one needs is known when the queries that it reads come. Before the SELECTs of a common table expression
come those of what all its readers need. Then those of the whole plan. Each leaves a plan
for the same rows: one that is left out makes plans worse, never wrong.
"""

from __future__ import annotations

from engine.plan.logical.rewrite import Rewrite
from engine.plan.logical.rewrites.equal_columns import EQUAL_COLUMNS
from engine.plan.logical.rewrites.group_conditions import GROUP_CONDITIONS
from engine.plan.logical.rewrites.implied import IMPLIED
from engine.plan.logical.rewrites.outer_joins import OUTER_JOINS
from engine.plan.logical.rewrites.pushed_conditions import PUSHED_CONDITIONS
from engine.plan.logical.rewrites.shared_conditions import SHARED_CONDITIONS
from engine.plan.logical.rewrites.unread_outputs import UNREAD_OUTPUTS

REWRITES: tuple[Rewrite, ...] = (
    # Every common table expression, and then its SELECTs.
    SHARED_CONDITIONS,
    # Every SELECT.
    GROUP_CONDITIONS,
    OUTER_JOINS,
    IMPLIED,
    EQUAL_COLUMNS,
    PUSHED_CONDITIONS,
    # The plan.
    UNREAD_OUTPUTS,
)
