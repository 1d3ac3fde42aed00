"""How many columns the queries of a statement have, and how many fields the rows in it that stand as values.

Both multiply where queries stand within each other: each `SELECT *, *` has the columns of the query that it
reads twice, and each `SELECT x AS a, x AS b FROM (…) AS x` its row, so that twenty have a million times those
of a store.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

from sqlglot import exp

from engine.model.names import fold
from engine.model.result_width import check_width


class QueryColumn(NamedTuple):
    """A column of a query, or of a table.

    Attributes:
        name: Its name, in lower case; empty where the engine gives it one.
        width: How many nodes its type has: itself, and all parts of it.
        field_width: Likewise, of a field of it, at the most; 1 where it is a column of a store.
    """

    name: str
    width: int
    field_width: int


_TOLD_AS_A_WHOLE = (exp.Array, exp.Column, exp.Predicate, exp.Query, exp.ToMap)
_UNNAMED = QueryColumn("", 1, 1)
Columns = Sequence[QueryColumn]


class QueryWidths(NamedTuple):
    """How wide a statement is.

    Attributes:
        result: How many nodes the types of its result have.
        row: How many the widest row has that stands as a value in it; 0 where none does.
    """

    result: int
    row: int


class _Source:
    """Something that stands in FROM."""

    def __init__(self, alias: str, columns: Columns) -> None:
        self.alias = alias
        self.columns = columns
        self.width = _width(columns)
        self.by_name = {column.name: column for column in reversed(columns)}


def query_widths(tree: exp.Expr, tables: Mapping[str, Columns]) -> QueryWidths:
    """How wide a statement is.

    Args:
        tree: The statement, reading scans and lists.
        tables: The columns of these, by name.

    Raises:
        LimitExceeded: A query of it has more columns and parts of them than a result may have.
    """
    queries = _Queries()
    result = 0
    if isinstance(tree, exp.Query):
        result = _width(queries.columns(tree, tables, ()))
    else:
        queries.add_queries_within(tree, tables, ())
    if isinstance(tree, exp.Values):
        result = _values_a_row(tree)
        check_width(result)
    return QueryWidths(result, queries.widest_row)


class _Queries:
    """Queries that were looked at, each once: from outside to inside, they are met again.

    What the engine alone can tell, as the fields of what a function makes, counts for one. What USING leaves
    out counts, too.

    Attributes:
        widest_row: As `QueryWidths.row`.
    """

    def __init__(self) -> None:
        self.widest_row = 0
        self._known: dict[int, Columns] = {}

    def add_queries_within(
        self, node: exp.Expr, tables: Mapping[str, Columns], sources: Sequence[_Source]
    ) -> None:
        """Look at all columns of a node, and at all queries within it.

        Args:
            node: The node.
            tables: The columns of the tables that it sees, by name; common table expressions by their names
                in lower case.
            sources: What stands in FROM around it, the innermost first.
        """

        def is_other_query(each: exp.Expr) -> bool:
            return each is not node and isinstance(each, exp.Query)

        for found in node.walk(prune=is_other_query):
            if is_other_query(found):
                self.columns(found, tables, sources)
            elif isinstance(found, exp.Column):
                self._named_column(found, sources)

    def columns(self, query: exp.Expr, tables: Mapping[str, Columns], sources: Sequence[_Source]) -> Columns:
        """The columns of a query.

        Args:
            query: The query.
            tables: As for `add_queries_within`.
            sources: Likewise.

        Raises:
            LimitExceeded: It is too wide.
        """
        known = self._known.get(id(query))
        if known is not None:
            return known
        clause = query.args.get("with_")
        if clause is not None:
            tables = dict(tables)
            for cte in clause.expressions:
                # A recursive one has those of its first branch, which does not read it.
                tables.setdefault(fold(cte.alias), ())
                columns = self.columns(cte.this, tables, sources)
                tables[fold(cte.alias)] = _alias_columns(columns, cte.args.get("alias"))
        if isinstance(query, exp.SetOperation):
            found = self._columns_of_branches(query, tables, sources)
        elif isinstance(query, exp.Select):
            inner = self._sources(query, tables, sources)
            found = self._outputs(query, [*inner, *sources], tables, len(inner))
            sources = [*inner, *sources]
        else:
            found = self._columns_of_source(query.this, tables, sources)
        self._known[id(query)] = found
        self.add_queries_within(query, tables, sources)
        return found

    def _columns_of_branches(
        self, query: exp.SetOperation, tables: Mapping[str, Columns], sources: Sequence[_Source]
    ) -> Columns:
        nested, branches, first = list[exp.Expr](), list[exp.Expr](), query.this
        # Hundreds of branches stand within each other, the first one innermost.
        while isinstance(first, exp.SetOperation) and first.args.get("with_") is None:
            nested.append(first)
            branches.append(first.expression)
            first = first.this
        columns = [self.columns(each, tables, sources) for each in (first, *branches, query.expression)]
        if any(each.args.get("by_name") for each in (query, *nested)):
            check_width(sum(len(each) for each in columns))
            found: Columns = [column for each in columns for column in each]
        else:
            found = columns[0]
        self._known |= dict.fromkeys(map(id, nested), found)
        return found

    def _sources(
        self, select: exp.Select, tables: Mapping[str, Columns], around: Sequence[_Source]
    ) -> Sequence[_Source]:
        """What stands in the FROM clause of a SELECT."""
        clause = select.args.get("from_")
        if clause is None:
            return ()
        joins = [join.this for join in select.args.get("joins") or ()]
        found: list[_Source] = []
        for source in (clause.this, *joins, *(select.args.get("laterals") or ())):
            # A lateral one sees those before it.
            columns = self._columns_of_source(source, tables, [*found, *around])
            if not isinstance(source, exp.Expr):
                continue
            found.append(
                _Source(fold(source.alias_or_name), _alias_columns(columns, source.args.get("alias")))
            )
        return found

    def _columns_of_source(
        self, source: exp.Expr | str | None, tables: Mapping[str, Columns], sources: Sequence[_Source]
    ) -> Columns:
        """The columns of something that stands in FROM; odd texts have nothing there."""
        if not isinstance(source, exp.Expr):
            return [_UNNAMED]
        if isinstance(source, exp.Table):
            found = tables.get(source.name, tables.get(fold(source.name), [_UNNAMED]))
        elif isinstance(source, exp.Query):
            found = self.columns(source, tables, sources)
        elif isinstance(source, exp.Values):
            found = [_UNNAMED] * _values_a_row(source)
        elif isinstance(source.this, exp.Query):
            found = self.columns(source.this, tables, sources)
        else:
            found = [_UNNAMED]
        joins = source.args.get("joins") or () if not isinstance(source, exp.Select) else ()
        for join in joins:
            found = [*found, *self._columns_of_source(join.this, tables, sources)]
        turned = sum(map(_columns_of_pivot, source.args.get("pivots") or ()))
        check_width(len(found) + turned)
        return [*found, *[_UNNAMED] * turned] if turned else found

    def _outputs(
        self, select: exp.Select, sources: Sequence[_Source], tables: Mapping[str, Columns], own: int
    ) -> Columns:
        """The columns of a SELECT.

        Args:
            select: It.
            sources: What stands in FROM, and around it.
            tables: As for `add_queries_within`.
            own: How many of the sources are its own.
        """
        found: list[QueryColumn] = []
        total = 0
        before = _Source("", ())
        visible = [*sources[:own], before, *sources[own:]]
        for output in select.expressions:
            chosen: Sequence[_Source] = ()
            if isinstance(output, exp.Column) and isinstance(output.this, exp.Star):
                named = [each for each in sources[:own] if each.alias == fold(output.table)]
                chosen = named or sources[:own]
            elif isinstance(output, exp.Star) or output.find(exp.Columns) is not None:
                chosen = sources[:own]
            else:
                found.append(self._output(output, visible, tables))
                # Those behind it may name it.
                before.by_name.setdefault(found[-1].name, found[-1])
                total += found[-1].width
            total += sum(source.width for source in chosen)
            check_width(total)
            found += [column for source in chosen for column in source.columns]
        return found

    def _output(
        self, output: exp.Expr, sources: Sequence[_Source], tables: Mapping[str, Columns]
    ) -> QueryColumn:
        value = output.this if isinstance(output, exp.Alias) else output
        name = fold(output.alias_or_name)
        if isinstance(value, exp.Column):
            found = self._named_column(value, sources)
            return QueryColumn(name, found.width, found.field_width)
        width = self._width_of(value, sources, tables)
        return QueryColumn(name, width, width)

    def _width_of(self, node: exp.Expr, sources: Sequence[_Source], tables: Mapping[str, Columns]) -> int:
        """The nodes of the type of an expression: those of all columns, rows and queries in it that have
        several, and what it makes structs and lists of. What is compared has one.
        """
        within = 0
        for part in node.walk(prune=lambda each: isinstance(each, _TOLD_AS_A_WHOLE)):
            if isinstance(part, exp.Column):
                width = self._named_column(part, sources).width
            elif isinstance(part, exp.Query):
                width = _width(self.columns(part, tables, sources))
            elif isinstance(part, exp.Array | exp.ToMap):
                # Their elements have one type.
                others = [value for value in _elements(part) if not isinstance(value, exp.Literal)]
                width = 3 + max((self._width_of(value, sources, tables) for value in others), default=1)
            else:
                within += len(part.expressions) if isinstance(part, exp.Struct | exp.Tuple) else 0
                continue
            within += width if width > 1 else 0
        return 1 + within

    def _named_column(self, column: exp.Column, sources: Sequence[_Source]) -> QueryColumn:
        """What a name means: a column, a field of one, or a row."""
        name, qualifier = fold(column.name), fold(column.table)
        is_field = bool(qualifier) and all(source.alias != qualifier for source in sources)
        if is_field:
            name = qualifier
        elif qualifier:
            sources = [source for source in sources if source.alias == qualifier]
        for source in sources:
            known = source.by_name.get(name)
            if known is not None:
                return QueryColumn("", known.field_width, known.field_width) if is_field else known
        for source in sources:
            if source.alias == name and not qualifier:
                width = 1 + source.width
                self.widest_row = max(self.widest_row, width)
                return QueryColumn("", width, width)
        return _UNNAMED


def _values_a_row(values: exp.Values) -> int:
    return len(values.expressions[0].expressions) if values.expressions else 0


def _elements(collection: exp.Expr) -> Sequence[exp.Expr]:
    """What stands in a list, or the values in a map."""
    if isinstance(collection, exp.Array):
        return list(collection.expressions)
    pairs = collection.find(exp.Struct)
    found = () if pairs is None else pairs.expressions
    return [pair.expression for pair in found if isinstance(pair, exp.PropertyEQ)]


def _width(columns: Columns) -> int:
    return sum(column.width for column in columns)


def _alias_columns(columns: Columns, alias: exp.Expr | None) -> Columns:
    """Columns of a table under the names that its alias gives to the first of them."""
    names = alias.args.get("columns") or () if isinstance(alias, exp.TableAlias) else ()
    if not names:
        return columns
    renamed = [column._replace(name=fold(name.name)) for name, column in zip(names, columns, strict=False)]
    return [*renamed, *columns[len(renamed) :]]


def _columns_of_pivot(pivot: exp.Expr) -> int:
    """How many columns a PIVOT makes of values that it lists."""
    listed = [len(field.expressions) for field in pivot.args.get("fields") or () if isinstance(field, exp.In)]
    return 0 if pivot.args.get("unpivot") or not listed else prod(listed) * max(1, len(pivot.expressions))
