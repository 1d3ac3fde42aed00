"""What an OR says besides: conditions that hold whenever it does, each about fewer tables.

If `(A AND B) OR (A AND C)` is true, one of its branches is, and so is A. If every branch has conditions about
table t alone, those of some branch hold, so `B_t OR C_t` is true. Next to the OR in WHERE such a condition
changes nothing: a row for which the OR is true passes it, and others are dropped anyway, whether the OR is
FALSE or NULL. But hosts can apply it to one table before any join, and A may be the equality that joins two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from sqlglot import exp

from engine.plan.logical.function_properties import is_volatile
from engine.plan.logical.rewrite import Draft, SelectRewrite
from engine.plan.logical.selects import set_where, where_of
from engine.plan.logical.trees import aliases_used, conjunction, conjuncts, disjunction, text, unwrap


def add_implied_conditions(_: Draft, select: exp.Select) -> None:
    """Write down what the ORs of a SELECT's WHERE say besides. Of a SELECT from one table nothing is to be
    gained.
    """
    if not select.args.get("joins"):
        return
    where = where_of(select)
    found = [implied for condition in where for implied in _implied_conditions(condition)]
    if found:
        set_where(select, [*where, *found])


def _implied_conditions(condition: exp.Expr) -> Iterator[exp.Expr]:
    if (
        not isinstance(condition, exp.Or)
        or condition.find(exp.Query) is not None
        or any(map(is_volatile, condition.walk()))
    ):
        return
    branches = [list(conjuncts(unwrap(branch))) for branch in condition.flatten()]
    common = set.intersection(*({text(part) for part in branch} for branch in branches))
    yield from (part.copy() for part in branches[0] if text(part) in common)
    aliases = sorted(set.union(*(aliases_used(part) for part in branches[0])))
    if len(aliases_used(condition)) < 2:
        return
    for alias in aliases:
        about = [
            [part for part in branch if aliases_used(part) == {alias} and text(part) not in common]
            for branch in branches
        ]
        if all(about):
            yield _any_branch(about)


def _any_branch(branches: Sequence[Sequence[exp.Expr]]) -> exp.Expr:
    options = [conjunction([part.copy() for part in branch]) for branch in branches]
    found = disjunction([option for option in options if option is not None])
    assert found is not None
    return found


IMPLIED = SelectRewrite("implied", add_implied_conditions)
