"""GROUP BY as what it means: ordinals and ALL as the expressions that they stand for."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.function_properties import is_aggregate
from engine.plan.logical.outputs import output_at
from engine.plan.logical.scopes import Scope, Uncertain, has_aggregate, is_bare
from engine.plan.logical.trees import text, unwrap, used_arguments
from engine.sql.engine_dialect import EngineDialect

_NOT_GROUPED = (exp.Filter, exp.WithinGroup, exp.Grouping, exp.Query)
"""What reads rows of its own, or of a whole group, beside aggregates."""


def write_out_groups(node: exp.Select, group: exp.Group, scope: Scope) -> None:
    """Ordinals and ALL, as what they mean: the engine takes the columns that HAVING reads beside groups for a
    part of ALL.

    Args:
        node: A SELECT whose outputs are resolved, and whose HAVING is not.
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
            read = {text(column): column for column in _columns_beside_outputs(having, scope)}
            parts = {text(column) for each in plain for column in each.find_all(exp.Column)}
            if any(column in parts and column not in grouped for column in read):
                # The engine looks for the groups in HAVING as both are written.
                raise Uncertain("HAVING")
            grouped |= read
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


def _columns_beside_outputs(
    node: exp.Expr, scope: Scope, hidden: frozenset[str] = frozenset()
) -> Iterator[exp.Expr]:
    """The columns that an expression of HAVING reads outside of its aggregates and queries, but through the
    aliases of outputs, which are groups. `hidden` are the names of parameters.
    """
    if isinstance(node, _NOT_GROUPED) or is_aggregate(node):
        return
    if isinstance(node, exp.Column):
        name = fold(node.parts[0].name)
        if name not in hidden and not (is_bare(node) and scope.is_alias(name)):
            yield from _own_columns(scope.meaning(node), scope)
        return
    if isinstance(node, exp.Lambda):
        hidden |= {fold(each.name) for each in node.expressions}
    for child in node.iter_expressions():
        yield from _columns_beside_outputs(child, scope, hidden)


def _own_columns(meaning: exp.Expr, scope: Scope) -> Iterator[exp.Expr]:
    aliases = {source.alias for source in scope.sources}
    for column in meaning.find_all(exp.Column):
        if column.table not in aliases:
            raise Uncertain("HAVING")
        yield column.copy()


def _columns_outside(node: exp.Expr) -> Iterator[exp.Column]:
    """The columns that an expression reads outside of its aggregates and queries."""
    if isinstance(node, _NOT_GROUPED) or is_aggregate(node):
        return
    if isinstance(node, exp.Column):
        yield node
    for child in node.iter_expressions():
        yield from _columns_outside(child)
