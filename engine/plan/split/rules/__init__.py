"""The rules of splitting, in the order in which they are tried. One rule is one file, which argues why it is
right; what it does to statements is shown in `tests/unit/plan/split/fixtures/<rule>.sql`.

First the rules of the statement run, then those of its SELECTs, each from the inside out. Then the first rule
that knows an answer to a query gives it; two phases are tried where hosts work out its FROM and WHERE alone.
At the end the plan is bettered. A rule that is left out makes plans worse, never wrong: what no rule answers
is gathered whole (`engine.plan.split.gather_stores`).
"""

from __future__ import annotations

from engine.plan.split.planner import Rule
from engine.plan.split.rules.broadcast import BROADCAST
from engine.plan.split.rules.co_partitioned import CO_PARTITIONED
from engine.plan.split.rules.common_tables import COMMON_TABLES
from engine.plan.split.rules.derived_tables import DERIVED_TABLES
from engine.plan.split.rules.distinct import DISTINCT
from engine.plan.split.rules.gather_pieces import GATHER_PIECES
from engine.plan.split.rules.one_step import ONE_STEP
from engine.plan.split.rules.set_operations import SET_OPERATIONS
from engine.plan.split.rules.subqueries import SUBQUERIES
from engine.plan.split.rules.top_k import TOP_K
from engine.plan.split.rules.two_phase import TWO_PHASE
from engine.plan.split.rules.without_stores import WITHOUT_STORES

RULES: tuple[Rule, ...] = (
    # The statement.
    COMMON_TABLES,
    # Every SELECT.
    DERIVED_TABLES,
    BROADCAST,
    SUBQUERIES,
    # Answers.
    WITHOUT_STORES,
    TOP_K,
    CO_PARTITIONED,
    SET_OPERATIONS,
    TWO_PHASE,
    DISTINCT,
    GATHER_PIECES,
    # The plan.
    ONE_STEP,
)
