"""Aggregation in two phases: every host groups its rows, and the merge groups the hosts' groups."""

from __future__ import annotations

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.movable import has_columns, is_movable
from engine.plan.logical.trees import named_output, used_arguments
from engine.plan.split.nodes import SelectSplit
from engine.plan.split.partial_aggregates import merged_aggregate
from engine.plan.split.partials import NotSplitError, PartialRows
from engine.plan.split.planner import PhaseRule
from engine.plan.split.select_forms import (
    check_clauses,
    has_aggregates,
    is_closed,
    output_names,
    source_of,
    window_head,
)
from engine.sql.tree_copies import replace_children

RULE = "two-phase"

_CLAUSES = frozenset({"group", "having", "qualify", "windows", "distinct", "order", "limit", "offset"})
_SETS = (exp.GroupingSets, exp.Rollup, exp.Cube)


def two_phase(select: exp.Select, part: str) -> SelectSplit | None:
    """Split a SELECT that groups or aggregates.

    Every host groups its rows by all expressions that the SELECT groups by, in whatever sets, and computes
    for each group what `aggregates` says. The merge is the SELECT itself over these partial rows: grouping
    expressions have become columns, aggregates merges of partial values, and everything that comes after the
    aggregation stays as it is: HAVING, QUALIFY, windows over aggregates, DISTINCT, ORDER BY, LIMIT.

    Why that is right:

    - Groups. Two rows are in one group of the SELECT if and only if their partial rows are in one group of
      the merge: partial rows carry the values of the grouping expressions, and both phases compare them alike
      (NULL with NULL, NaN with NaN, -0.0 with 0.0). A group is there if a host has a row of it. Without GROUP
      BY, or with an empty grouping set, there is one group even over no rows; the merge has the same clause
      and so the same group, and its aggregates are those of no values.
    - Hosts without rows send nothing where rows are grouped. Without anything to group by every host sends
      one row, whose counts are 0 and whose values are NULL; merges pass over these.
    - Duplicates. Every row is on one host and in one partial row of it, so nothing is counted twice.
      Aggregates of different values get the values themselves: as one more key of partial rows, where they
      pass over NULL. Groups are finer then, and merges put together the partial values of finer groups as
      they do those of hosts. With several such keys, each with a grouping set of its own, only rows of the
      first set have other partial values.
    - Grouping sets. Partial rows are grouped by the finest set, the union of all; each set of the merge puts
      together the partial rows that agree in the set's columns. `grouping()` is about the merge's sets. The
      NULL that stands for a column which is not in a set is made by the merge, so it is never taken for a
      NULL of the data.
    - Order. Nothing before the aggregation has an order; those inside aggregates travel with the values.
    - Types. A grouping column has its expression's type, a merge the type of its aggregate (see
      `aggregates`), so every expression over them has its own type too.

    Where hosts would send an element of a list for every row, with all that the SELECT reads of it, they send
    the rows instead: those travel in pieces, can be left on disk, and are merged as they come, none of which
    is true of one long value.

    Functions that give something else on another host or at another time (`random`, `now`) do not move to the
    hosts, nor do collations, which are lost on the way. A query inside an expression stays in the merge if it
    reads nothing of the SELECT.

    Args:
        select: A qualified SELECT, whose FROM and WHERE give rows that are spread over hosts without
            repetition. It is not changed.
        part: Name of the table that holds all hosts' partial rows.

    Returns:
        The two phases; None if the SELECT does not aggregate, or has something that is not known to be right
        in parts.
    """
    if not has_aggregates(select):
        return None
    try:
        check_clauses(select, _CLAUSES)
        return _TwoPhase(select, part).split()
    except NotSplitError:
        return None


class _TwoPhase:
    """One SELECT on its way to two."""

    def __init__(self, select: exp.Select, part: str) -> None:
        self._select = select
        self._parts = PartialRows(part)
        self._names = {fold(name) for name in output_names(select)}

    def split(self) -> SelectSplit:
        """The partial SELECT and the merge."""
        clauses: dict[str, object] = {}
        group = self._select.args.get("group")
        if group is not None:
            # First of all, so that what follows knows the grouping expressions.
            clauses["group"] = self._group(group)
        clauses["expressions"] = [
            named_output(self._output(output), str(output.alias_or_name))
            for output in self._select.expressions
        ]
        for name in (_CLAUSES - {"group"}) & used_arguments(self._select):
            value = self._select.args[name]
            clauses[name] = (
                [self._rewrite(each) for each in value] if isinstance(value, list) else self._rewrite(value)
            )
        if self._parts.has_all_rows:
            raise NotSplitError
        partial = exp.Select(expressions=self._parts.outputs(), **source_of(self._select))
        partial.set("group", self._parts.group)
        merge = exp.Select(from_=exp.From(this=self._parts.source()), **clauses)
        return SelectSplit(partial, merge, RULE)

    def _group(self, group: exp.Group) -> exp.Group:
        if used_arguments(group) - {"expressions"}:
            raise NotSplitError
        return exp.Group(expressions=[self._rewrite_grouping(node) for node in group.expressions])

    def _rewrite_grouping(self, node: exp.Expr) -> exp.Expr:
        """A grouping expression, or a set of them, over the columns of partial rows."""
        if isinstance(node, _SETS):
            if used_arguments(node) - {"expressions"}:
                raise NotSplitError
            return type(node)(expressions=[self._rewrite_grouping(each) for each in node.expressions])
        if isinstance(node, exp.Tuple):
            return exp.Tuple(expressions=[self._rewrite_grouping(each) for each in node.expressions])
        if isinstance(node, exp.Paren):
            return exp.Paren(this=self._rewrite_grouping(node.this))
        # Without a column it might be the number of an output.
        if not is_movable(node) or not has_columns(node):
            raise NotSplitError
        return self._parts.key(node)

    def _output(self, output: exp.Expr) -> exp.Expr:
        return self._rewrite(output.this if isinstance(output, exp.Alias) else output, is_output=True)

    def _rewrite(self, node: exp.Expr, *, is_output: bool = False) -> exp.Expr:
        """An expression that is evaluated after the aggregation, over partial rows.

        Args:
            node: The expression.
            is_output: Whether it is part of an output, which cannot name outputs.
        """
        key = self._parts.known_key(node)
        if key is not None:
            return key
        if isinstance(node, exp.Query):
            bare = any(not found.table for found in node.find_all(exp.Column))
            if bare or not is_closed(node) or "with_" in used_arguments(self._select):
                raise NotSplitError
            return node.copy()
        if isinstance(node, exp.Window):
            return self._window(node, is_output)
        aggregate = merged_aggregate(node, self._parts)
        if aggregate is not None:
            return aggregate
        if isinstance(node, exp.Column):
            if is_output or node.table or fold(node.name) not in self._names:
                raise NotSplitError
            return node.copy()
        if isinstance(node, exp.Star | exp.Columns):
            raise NotSplitError
        return replace_children(node, lambda child: self._rewrite(child, is_output=is_output))

    def _window(self, window: exp.Window, is_output: bool) -> exp.Expr:
        """A window over groups: its function is no aggregate of rows, but what it is given may be one."""
        head = window_head(window)

        def rewrite(node: exp.Expr) -> exp.Expr:
            if any(node is part for part in head):
                return replace_children(node, rewrite)
            return self._rewrite(node, is_output=is_output)

        return replace_children(window, rewrite)


TWO_PHASE = PhaseRule(RULE, two_phase)
