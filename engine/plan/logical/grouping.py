"""GROUP BY as what it means: ordinals and ALL as the expressions that they stand for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.function_properties import is_aggregate
from engine.plan.logical.outputs import output_at
from engine.plan.logical.scopes import Scope, Uncertain, has_aggregate
from engine.plan.logical.trees import free_aliases, own_queries, text, unwrap, used_arguments
from engine.sql.engine_dialect import EngineDialect

_NOT_GROUPED = (exp.Filter, exp.WithinGroup, exp.Grouping, exp.Query)
"""What reads rows of its own, or of a whole group, beside aggregates."""
_MOST_HAVING_NODES = 200
"""Each part of a condition is compared with the groups as a text; longer ones are not looked through."""


def write_out_groups(node: exp.Select, group: exp.Group, scope: Scope) -> None:
    """Ordinals and ALL, as what they mean: the engine takes the columns that HAVING reads beside groups for a
    part of ALL.

    Args:
        node: A SELECT whose outputs and HAVING are resolved.
        group: Its GROUP BY.
        scope: What its expressions see.

    Raises:
        Uncertain: They could mean several things.
    """
    if used_arguments(group) - {"expressions", "all"}:
        raise Uncertain("GROUP BY")
    if group.args.get("all"):
        if group.expressions:
            raise Uncertain("GROUP BY ALL")
        plain = [output.this.copy() for output in node.expressions if not has_aggregate(output.this)]
        mixed = [
            output.this
            for output in node.expressions
            if has_aggregate(output.this) and any(_columns_outside(output.this))
        ]
        # The engine groups by constants under an ordinal, and not under ALL.
        constant = [each for each in plain if each.find(exp.Column) is None]
        unclear = (exp.Query, exp.Window, exp.Grouping, exp.GroupingId)
        if (
            mixed
            or constant
            or any(isinstance(found, unclear) for output in node.expressions for found in output.this.walk())
        ):
            raise Uncertain("GROUP BY ALL")
        grouped = {text(each): each for each in plain}
        having = node.args.get("having")
        if having is not None:
            grouped |= {text(column): column for column in _columns_beside(grouped, having.this, scope)}
        node.set("group", exp.Group(expressions=list(grouped.values())) if grouped else None)
        return
    for each in list(group.expressions):
        literal = unwrap(each)
        if isinstance(literal, exp.Literal) and not literal.is_string:
            each.replace(_grouping_expression(output_at(node.expressions, literal).this, int(literal.this)))
        elif isinstance(each, exp.GroupingSets | exp.Rollup | exp.Cube) and any(
            isinstance(found, exp.Literal) for found in each.walk()
        ):
            raise Uncertain("GROUP BY")


def members_of_sets(clause: exp.Expr) -> set[str]:
    """Texts of the columns that stand in GROUPING SETS, ROLLUP or CUBE."""
    if not isinstance(clause, exp.Group):
        return set()
    sets = (each for each in clause.expressions if isinstance(each, exp.GroupingSets | exp.Rollup | exp.Cube))
    return {
        fold(found.sql(EngineDialect, identify=True)) for each in sets for found in each.find_all(exp.Column)
    }


def _grouping_expression(value: exp.Expr, ordinal: int) -> exp.Expr:
    """An output as a grouping expression. A constant, which might be taken for an ordinal, and a query, whose
    aliases are its own, stay ordinals.
    """
    keeps = value.find(exp.Column) is None or value.find(exp.Query) is not None
    return exp.Literal.number(ordinal) if keeps else value.copy()


def _columns_beside(groups: Mapping[str, exp.Expr], having: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    """The columns that HAVING reads beside groups, outside of its aggregates and queries."""
    if any(map(free_aliases, own_queries(having))):
        raise Uncertain("HAVING")
    if len(list(islice(having.walk(), _MOST_HAVING_NODES + 1))) > _MOST_HAVING_NODES:
        raise Uncertain("HAVING")
    aliases = {source.alias for source in scope.sources}
    parts = {text(column) for group in groups.values() for column in group.find_all(exp.Column)}
    kinds = {type(group) for group in groups.values()}
    pending = [having]
    while pending:
        found = pending.pop()
        if isinstance(found, _NOT_GROUPED) or is_aggregate(found):
            continue
        if type(found) in kinds and text(found) in groups:
            continue
        if isinstance(found, exp.Column) and found.table:
            if found.table not in aliases or text(found) in parts:
                # It is read of a SELECT around this one, or of a group that may be written in another way.
                raise Uncertain("HAVING")
            yield found.copy()
        pending += found.iter_expressions()


def _columns_outside(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns that an expression reads outside of its aggregates and queries."""
    if isinstance(node, _NOT_GROUPED) or is_aggregate(node):
        return
    if isinstance(node, exp.Column):
        yield node
    for child in node.iter_expressions():
        yield from _columns_outside(child)
