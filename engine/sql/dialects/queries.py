"""Clauses of a query: groups, the columns of a star, and tables made of arrays."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from sqlglot import exp

from engine.errors import Unsupported
from engine.model.names import fold
from engine.sql.catalog_tables import INFORMATION_SCHEMA
from engine.sql.dialects.expressions import MAX_REPEATED_NODES, Rewrite, bracket, copy_of, number_literal
from engine.sql.dialects.families import MYSQL, OTHERS, SPARK, TSQL


def _groups(node: exp.Expr, _: str) -> exp.Expr:
    """WITH ROLLUP and WITH CUBE are about all groups."""
    for kind in ("rollup", "cube"):
        for each in node.args.get(kind) or ():
            if not each.expressions and node.expressions:
                each.set("expressions", node.expressions)
                node.set("expressions", [])
    if node.args.get("grouping_sets"):
        # Before them stands what they are of, and no group of its own.
        node.set("expressions", [])
    return node


def _apply_join(node: exp.Expr, _: str) -> exp.Expr:
    """CROSS APPLY and OUTER APPLY are joins with what is made of each row."""
    is_cross, join = node.args.get("cross_apply"), node.parent
    if is_cross is None or not isinstance(join, exp.Join):
        return node
    node.set("cross_apply", None)
    if is_cross:
        join.set("kind", "CROSS")
    else:
        join.set("side", "LEFT")
        join.set("on", exp.true())
    return node


def _name_in_schema(node: exp.Expr, _: str) -> exp.Expr:
    """In `information_schema.tables` sqlglot takes the point for a part of the table's name."""
    schema, point, name = node.name.partition(".")
    if point and fold(schema) == INFORMATION_SCHEMA:
        # A copy knows its place in the text.
        part = node.this.copy()
        part.set("this", schema)
        node.this.set("this", name)
        node.set("catalog", node.args.get("db"))
        node.set("db", part)
    return node


def _select(node: exp.Expr, dialect: str) -> exp.Expr:
    if dialect == "bigquery":
        _name_outputs_first(node)
    _put_shared_columns_first(node)
    return _join_lateral_views(node)


def _name_outputs_first(node: exp.Expr) -> None:
    """In GROUP BY and HAVING a name is an output's before it is a column's."""
    outputs = node.expressions
    places = {
        fold(output.alias): place for place, output in enumerate(outputs) if isinstance(output, exp.Alias)
    }
    stars = [place for place, output in enumerate(outputs) if output.is_star]
    group, having = node.args.get("group"), node.args.get("having")
    for column in list(group.find_all(exp.Column)) if group is not None else ():
        place = None if column.table else places.get(fold(column.name))
        if place is None or (stars and stars[0] < place):
            continue  # behind a star nobody knows an output's number
        if _is_whole_group(column):
            column.replace(number_literal(place + 1))
    if group is not None:
        for column in [each for call in node.find_all(exp.Grouping) for each in call.expressions]:
            place = places.get(fold(column.name)) if isinstance(column, exp.Column) else None
            if place is not None and not column.table:
                column.replace(copy_of(outputs[place].this, "GROUPING"))
    columns = list(having.find_all(exp.Column)) if having is not None else []
    for column in columns[:MAX_REPEATED_NODES]:
        place = None if column.table else places.get(fold(column.name))
        if place is not None and not _is_within_aggregate(column):
            # What is too long keeps its name, which means the output where no column has it.
            with suppress(Unsupported):
                column.replace(bracket(copy_of(outputs[place].this, "An output")))


def _is_whole_group(column: exp.Expr) -> bool:
    """Whether what stands in GROUP BY is a column, and no expression with it."""
    around = column.parent
    while isinstance(around, exp.Cube | exp.GroupingSets | exp.Paren | exp.Rollup | exp.Tuple):
        around = around.parent
    return isinstance(around, exp.Group)


def _is_within_aggregate(column: exp.Expr) -> bool:
    """Whether a column of a HAVING clause stands in an aggregate, or a query, of it."""
    return isinstance(column.find_ancestor(exp.AggFunc, exp.Query, exp.Having), exp.AggFunc | exp.Query)


def _put_shared_columns_first(node: exp.Expr) -> None:
    """Of all columns those of USING come first, and those of the last join before all."""
    joins = _joins(node)
    if not joins or node.args.get("laterals") or not all(join.args.get("using") for join in joins):
        # Other tables may have columns of these names that are not shared.
        return
    shared = {fold(str(column.name)): column for join in reversed(joins) for column in join.args["using"]}
    outputs: list[exp.Expr] = []
    for output in node.expressions:
        if isinstance(output, exp.Star) and not any(output.args.values()):
            outputs += [exp.Column(this=column.copy()) for column in shared.values()]
            output.set("except_", [column.copy() for column in shared.values()])
        outputs.append(output)
    node.set("expressions", outputs)


def _join_lateral_views(node: exp.Expr) -> exp.Expr:
    """LATERAL VIEW OUTER keeps rows without elements. Views after it may read it: all become joins."""
    views = node.args.get("laterals") or []
    if not any(map(_is_outer, views)):
        return node
    joins = []
    for number, view in enumerate(views, 1):
        columns = view.args["alias"].columns if view.args.get("alias") else []
        wanted = (
            2 if isinstance(view.this, exp.Posexplode) else 1 if isinstance(view.this, exp.Explode) else 0
        )
        if not view.args.get("view") or wanted != len(columns):
            raise Unsupported(
                "LATERAL VIEW OUTER stands with views of explode and posexplode alone, with names for their "
                "columns."
            )
        name = view.args["alias"].this or exp.to_identifier(f"_view{number}")
        elements = _elements(view.this.this, columns[-1], columns[0] if wanted == 2 else None)
        found = exp.Lateral(this=exp.Subquery(this=elements), alias=exp.TableAlias(this=name))
        joins.append(
            exp.Join(this=found, side="LEFT", on=exp.true())
            if _is_outer(view)
            else exp.Join(this=found, kind="CROSS")
        )
    node.set("laterals", [])
    node.set("joins", [*_joins(node), *joins])
    return node


def _is_outer(view: exp.Expr) -> bool:
    return bool(view.args.get("outer")) or isinstance(view.this, exp.ExplodeOuter | exp.PosexplodeOuter)


def _elements(values: exp.Expr, element: exp.Expr, place: exp.Expr | None) -> exp.Expr:
    """A query for the elements of an array, and their places from 0."""
    outer, inner = element.copy(), exp.to_identifier("_place")
    names = exp.TableAlias(this=exp.to_identifier("_elements"), columns=[element.copy(), inner])
    source = exp.Unnest(expressions=[values], alias=names, offset=True)
    columns: list[exp.Expr] = [exp.Column(this=outer)]
    if place is not None:
        from_0 = exp.Sub(this=exp.Column(this=inner.copy()), expression=number_literal(1))
        columns.insert(0, exp.Alias(this=from_0, alias=place.copy()))
    return exp.Select(expressions=columns, from_=exp.From(this=source))


def _with_offset(node: exp.Expr, _: str) -> exp.Expr:
    """Places count from 0."""
    offset, alias = node.args.get("offset"), node.args.get("alias")
    if not isinstance(offset, exp.Identifier):
        return node
    (values,) = node.expressions
    if node.args.get("explode_array"):
        raise Unsupported("WITH OFFSET is not supported for arrays of structs: ask in DuckDB's dialect.")
    element = alias.columns[0] if alias is not None and alias.columns else exp.to_identifier("_element")
    query = exp.Subquery(this=_elements(values, element, offset))
    if isinstance(node.parent, exp.Join) and node.parent.side:
        node.parent.set("on", node.parent.args.get("on") or exp.true())
    return exp.Lateral(this=query, alias=exp.TableAlias(this=exp.to_identifier(f"_{element.name}")))


def _joins(select: exp.Expr) -> list[exp.Expr]:
    return select.args.get("joins") or []


REWRITES: Sequence[Rewrite] = (
    ((exp.Group,), SPARK | MYSQL, _groups),
    ((exp.Select,), OTHERS, _select),
    ((exp.Table,), frozenset({"bigquery"}), _name_in_schema),
    ((exp.Unnest,), frozenset({"bigquery"}), _with_offset),
    ((exp.Lateral,), TSQL | {"oracle"}, _apply_join),
)
