"""How many columns the queries of a statement have. Stars multiply them: each `SELECT *, *` has those of the
query that it reads twice, so that twenty within each other have a million times those of a store.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from sqlglot import exp


def widest_query(tree: exp.Expr, tables: Mapping[str, int]) -> int:
    """How many columns the widest query of a statement has, those within others among them. What the engine
    alone can tell counts for one, and what USING leaves out as well.

    Args:
        tree: The statement, reading scans and lists.
        tables: How many columns these have, by name.
    """
    widths = _QueryWidths()
    if isinstance(tree, exp.Query):
        widths.width(tree, tables)
        return widths.widest
    widths.add_queries_within(tree, tables)
    return max(widths.widest, len(tree.expressions[0].expressions) if isinstance(tree, exp.Values) else 0)


class _QueryWidths:
    """The widths of queries that were looked at, each once: from outside to inside, they are met again.

    Attributes:
        widest: The largest of them.
    """

    def __init__(self) -> None:
        self.widest = 0
        self._known: dict[int, int] = {}

    def add_queries_within(self, node: exp.Expr, tables: Mapping[str, int]) -> None:
        """Look at all queries within a node.

        Args:
            node: The node.
            tables: How many columns tables have that it sees, by name; common table expressions by their
                names in lower case.
        """

        def is_other_query(each: exp.Expr) -> bool:
            return each is not node and isinstance(each, exp.Query)

        for found in node.walk(prune=is_other_query):
            if is_other_query(found):
                self.width(found, tables)

    def width(self, query: exp.Expr, tables: Mapping[str, int]) -> int:
        """How many columns a query has.

        Args:
            query: The query.
            tables: As for `add_queries_within`.
        """
        known = self._known.get(id(query))
        if known is not None:
            return known
        clause = query.args.get("with_")
        if clause is not None:
            tables = dict(tables)
            for cte in clause.expressions:
                # A recursive one has those of its first branch, which does not read it.
                tables.setdefault(cte.alias.lower(), 0)
                tables[cte.alias.lower()] = self.width(cte.this, tables)
        if isinstance(query, exp.SetOperation):
            found = self._width_of_branches(query, tables)
        elif isinstance(query, exp.Select):
            found = self._width_of_select(query, tables)
        else:
            found = self._width_of_source(query.this, tables)
        self._known[id(query)] = found
        self.widest = max(self.widest, found)
        self.add_queries_within(query, tables)
        return found

    def _width_of_branches(self, query: exp.SetOperation, tables: Mapping[str, int]) -> int:
        nested, branches, first = list[exp.Expr](), list[exp.Expr](), query.this
        # Hundreds of branches stand within each other, the first one innermost.
        while isinstance(first, exp.SetOperation) and first.args.get("with_") is None:
            nested.append(first)
            branches.append(first.expression)
            first = first.this
        widths = [self.width(each, tables) for each in (first, *branches, query.expression)]
        is_by_name = any(each.args.get("by_name") for each in (query, *nested))
        found = sum(widths) if is_by_name else widths[0]
        self._known |= dict.fromkeys(map(id, nested), found)
        return found

    def _width_of_select(self, select: exp.Select, tables: Mapping[str, int]) -> int:
        clause = select.args.get("from_")
        joins = [join.this for join in select.args.get("joins") or ()]
        laterals = list(select.args.get("laterals") or ())
        sources = [] if clause is None else [clause.this, *joins, *laterals]
        widths = [(source.alias_or_name.lower(), self._width_of_source(source, tables)) for source in sources]
        everything = sum(width for _, width in widths)
        width = 0
        for output in select.expressions:
            if isinstance(output, exp.Column) and isinstance(output.this, exp.Star):
                named = [width for name, width in widths if name == output.table.lower()]
                width += sum(named) if named else everything
            elif isinstance(output, exp.Star) or output.find(exp.Columns) is not None:
                width += everything
            else:
                width += 1
        return width

    def _width_of_source(self, source: exp.Expr, tables: Mapping[str, int]) -> int:
        """How many columns something has that stands in FROM."""
        if isinstance(source, exp.Table):
            found = tables.get(source.name, tables.get(source.name.lower(), 1))
        elif isinstance(source, exp.Query):
            found = self.width(source, tables)
        elif isinstance(source, exp.Values):
            found = len(source.expressions[0].expressions)
        else:
            found = self.width(source.this, tables) if isinstance(source.this, exp.Query) else 1
        joins = source.args.get("joins") or () if not isinstance(source, exp.Select) else ()
        found += sum(self._width_of_source(join.this, tables) for join in joins)
        return found + sum(map(_columns_of_pivot, source.args.get("pivots") or ()))


def _columns_of_pivot(pivot: exp.Expr) -> int:
    """How many columns a PIVOT makes of values that it lists."""
    listed = [len(field.expressions) for field in pivot.args.get("fields") or () if isinstance(field, exp.In)]
    return 0 if pivot.args.get("unpivot") or not listed else prod(listed) * max(1, len(pivot.expressions))
