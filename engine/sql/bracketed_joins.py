"""Joins in brackets that have a name, `FROM (a JOIN b USING (k)) AS l`, as the queries that they are for
DuckDB: `(SELECT * FROM a JOIN b USING (k)) AS l`. And VALUES that begin joins in brackets, which sqlglot
takes for a table.
"""

from __future__ import annotations

from sqlglot import exp

_TABLES = (exp.Table, exp.Subquery, exp.Values, exp.Unnest)


def name_bracketed_joins(tree: exp.Expr) -> None:
    """Put queries in place of joins in brackets that have a name.

    Args:
        tree: A parsed tree; changed in place.
    """
    found = list(tree.find_all(exp.Table, exp.Subquery))
    values = [node for node in found if isinstance(node, exp.Table) and isinstance(node.this, exp.Values)]
    for table in values:
        _name_values(table)
    for node in list(tree.find_all(exp.Subquery)) if values else found:
        if isinstance(node, exp.Table):
            continue
        first = node.this
        if node.args.get("alias") is not None and isinstance(first, _TABLES) and first.args.get("joins"):
            joins = first.args.pop("joins")
            node.set("this", _all_of(first, joins))


def _name_values(table: exp.Table) -> None:
    """A query of VALUES in place of a table of them; joins are a part of the one as of the other."""
    alias = table.args.get("alias")
    values = exp.Values(expressions=table.this.expressions, alias=None if alias is None else alias.copy())
    table.replace(exp.Subquery(this=_all_of(values, []), alias=alias, joins=table.args.get("joins")))


def _all_of(table: exp.Expr, joins: list[exp.Expr]) -> exp.Select:
    return exp.Select(expressions=[exp.Star()], from_=exp.From(this=table), joins=joins)
