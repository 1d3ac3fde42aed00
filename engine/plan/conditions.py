"""Which conditions of a statement hold for every row of a reference that can matter.

A condition may be used to skip rows of a store only if a row that does not meet it cannot change the answer:

- A conjunct of WHERE over columns of one table of the FROM clause, if it is never true for NULLs. A row that
  fails it only makes joined rows that WHERE drops. Skipping the row may turn its partners in an outer join
  into rows padded with NULLs, and those WHERE drops as well, since the conjunct is not true for NULLs. Every
  predicate that planning understands is of that kind; rows of several columns that have a NULL are not, and
  nothing is made of these (`engine.plan.points.exact_members`). WHERE runs before grouping, windows, DISTINCT
  and LIMIT, so these do not matter.
- A conjunct of the ON of an inner or semi join, for a table on its left: the same holds at that join.
- A conjunct of the ON of a join, for the table on its right, unless the join keeps rows of its right side
  that match nothing: a row that fails it matches nothing.

What holds for rows of a query in FROM that only filters and picks columns of one store holds for rows of the
store: it could as well filter later.

Joins that pick rows by their neighbours (ASOF, POSITIONAL), samples and pivots pick other rows when some are
missing: a FROM clause with one of these says nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.selects import (
    DROPPING_SIDES,
    FILTERING_KINDS,
    conditions_on_table,
    kind_of,
    side_of,
)
from engine.plan.predicates import (
    OPAQUE,
    AllOf,
    IsAmong,
    IsListed,
    ListedRows,
    Predicate,
    listed_rows,
    operand_of,
    predicate_of,
)
from engine.plan.values import UNKNOWN, Operand
from engine.sql.bind import BoundStatement, StoreReference

_SELECT_PARTS = frozenset(
    {
        "expressions",
        "from_",
        "joins",
        "where",
        "group",
        "having",
        "order",
        "limit",
        "offset",
        "distinct",
        "qualify",
        "windows",
        "with_",
        "kind",
        "hint",
    }
)
_TABLE_PARTS = frozenset({"this", "alias"})
_FILTER_PARTS = frozenset({"expressions", "from_", "where"})


def conditions(bound: BoundStatement, logical: LogicalPlan | None) -> tuple[Predicate, ...]:
    """What is known of the rows that a statement can need.

    Args:
        bound: The statement.
        logical: Its logical plan, which says the most of each store; None where there is none.

    Returns:
        For each reference, a predicate that holds for every row that can matter.
    """
    if bound.tree is None:
        return ()
    lists = bound.list_schemas
    indexes = {reference.scan: index for index, reference in enumerate(bound.references)}
    found: list[Predicate] = [OPAQUE] * len(indexes)
    for query in (bound.tree,) if logical is None else logical.queries:
        for select in query.find_all(exp.Select):
            clause = _FromClause(select, bound.references, indexes, lists)
            for index, predicate in clause.conditions():
                found[index] = predicate if found[index] == OPAQUE else AllOf((found[index], predicate))
    return tuple(found)


@dataclass(frozen=True)
class _Source:
    """One table of a FROM clause.

    Attributes:
        node: Its node.
        alias: Its name in lower case; empty if it has none.
        reference: Place among the statement's references, if it is a store, or filters one and picks columns
            of it.
        columns: Its column names in lower case; None if they are not known.
        join: The join that adds it; None for the first.
        order: Its place in the FROM clause.
        operands: Column name to its operands, row by row, if it is VALUES.
        listed: The rows of a list that it is, if it is that, its labels in lower case.
    """

    node: exp.Expr
    alias: str
    reference: int | None
    columns: frozenset[str] | None
    join: exp.Join | None
    order: int
    operands: Mapping[str, Sequence[Operand]] | None = None
    listed: ListedRows | None = None


class _FromClause:
    """The FROM clause of one SELECT, and the conditions around it."""

    def __init__(
        self,
        select: exp.Select,
        references: Sequence[StoreReference],
        indexes: Mapping[str, int],
        lists: Mapping[str, pa.Schema],
    ) -> None:
        self._select = select
        self._references = references
        self._indexes = indexes
        self._lists = lists
        self._sources = self._read_sources()

    def conditions(self) -> Iterator[tuple[int, Predicate]]:
        """Each reference that stands directly in this clause, with its condition."""
        if not self._is_plain():
            return
        for source in self._sources:
            if source.reference is not None:
                yield source.reference, self._condition(source)

    def _is_plain(self) -> bool:
        parts = {name for name, value in self._select.args.items() if value}
        if not parts <= _SELECT_PARTS or not self._sources:
            return False
        methods = {str(join.args.get("method") or "").upper() for join in self._joins()}
        return methods <= {""}

    def _joins(self) -> list[exp.Join]:
        return list(self._select.args.get("joins") or ())

    def _read_sources(self) -> list[_Source]:
        clause = self._select.args.get("from_")
        if clause is None:
            return []
        first = self._source(clause.this, None, 0)
        return [first, *(self._source(join.this, join, order) for order, join in enumerate(self._joins(), 1))]

    def _source(self, node: exp.Expr, join: exp.Join | None, order: int) -> _Source:
        alias = fold(node.alias_or_name)
        if (
            isinstance(node, exp.Table)
            and {name for name, value in node.args.items() if value} <= _TABLE_PARTS
        ):
            renamed = bool(node.args.get("alias") and node.args["alias"].args.get("columns"))
            index = self._indexes.get(node.name)
            if index is not None and not renamed:
                names = frozenset(fold(name) for name in self._references[index].definition.schema.names)
                return _Source(node, alias, index, names, join, order)
        filtered = self._filtered_store(node)
        if filtered is not None:
            return _Source(node, alias, *filtered, join, order)
        constants = self._constants(node)
        if constants is None:
            return _Source(node, alias, None, None, join, order)
        operands, listed = constants
        names = frozenset(operands if operands is not None else listed.labels if listed is not None else ())
        return _Source(node, alias, None, names, join, order, operands, listed)

    def _filtered_store(self, node: exp.Expr) -> tuple[int, frozenset[str]] | None:
        """A query that only filters and picks columns of one store, each under its own name: the store's
        place, and these names.
        """
        select = (
            node.this if isinstance(node, exp.Subquery) and _arguments_in_use(node) <= _TABLE_PARTS else None
        )
        if (
            not isinstance(select, exp.Select)
            or not _arguments_in_use(select) <= _FILTER_PARTS
            or select.args.get("from_") is None
        ):
            return None
        table, renamed = (
            select.args["from_"].this,
            bool(node.args.get("alias") and node.args["alias"].args.get("columns")),
        )
        index = (
            self._indexes.get(table.name)
            if isinstance(table, exp.Table) and _arguments_in_use(table) <= _TABLE_PARTS
            else None
        )
        if index is None or renamed or (table.args.get("alias") and table.args["alias"].args.get("columns")):
            return None
        stored = frozenset(fold(name) for name in self._references[index].definition.schema.names)
        names = [_plain_column(output, fold(table.alias_or_name)) for output in select.expressions]
        if names == ["*"]:
            return index, stored
        picked = frozenset(name for name in names if name is not None)
        return (index, picked) if len(picked) == len(names) and picked <= stored else None

    def _constants(
        self, node: exp.Expr
    ) -> tuple[Mapping[str, Sequence[Operand]] | None, ListedRows | None] | None:
        """A table of constants: VALUES, or a lifted list, as a derived table or as a common table
        expression.
        """
        alias = node.args.get("alias")
        names = [fold(name.name) for name in alias.args.get("columns") or ()] if alias else []
        query: exp.Expr | None = node
        if isinstance(node, exp.Table) and node.name in self._lists:
            labels = self._lists[node.name].names
            return None, _label_rows(ListedRows(node.name, tuple(range(len(labels))), tuple(labels)), names)
        if isinstance(node, exp.Table):
            cte = _cte_of(node)
            if cte is None:
                return None
            query = cte.this
            names = names or [fold(name.name) for name in cte.args["alias"].args.get("columns") or ()]
        elif isinstance(node, exp.Subquery):
            if not {name for name, value in node.args.items() if value} <= {"this", "alias"}:
                return None
            query = node.this
        if isinstance(query, exp.Values):
            rows = [_operands(row) for row in query.expressions]
            width = (
                len(query.expressions[0].expressions) if isinstance(query.expressions[0], exp.Tuple) else 0
            )
            if any(row is None or len(row) != width for row in rows):
                return None
            labels = _labels(names, width)
            return {
                label: [row[index] for row in rows if row is not None] for index, label in enumerate(labels)
            }, None
        listed = listed_rows(query, self._lists)
        return None if listed is None else (None, _label_rows(listed, names))

    def _condition(self, source: _Source) -> Predicate:
        conjuncts = list(conditions_on_table(self._select, source.order))
        # Rows that an outer join pads may meet a comparison of rows.
        assert source.reference is not None
        key = self._references[source.reference].definition.key if len(self._sources) == 1 else ()
        parts = [
            predicate_of(conjunct, lambda column: self._resolve(column, source), self._lists, key)
            for conjunct in conjuncts
        ]
        parts += self._constant_joins(source, conjuncts)
        return AllOf(tuple(part for part in parts if part != OPAQUE))

    def _constant_joins(self, source: _Source, conjuncts: Sequence[exp.Expr]) -> Iterator[Predicate]:
        """Equalities with columns of a table of constants: the row must equal one of its rows in all of them.

        Only rows of the constants that exist can be joined, whatever other conditions drop, so this never
        loses a row. But rows of constants that an outer join pads with NULL equal nothing either.
        """
        for constants in self._sources:
            if constants.operands is None and constants.listed is None:
                continue
            pairs: dict[str, str] = {}
            for conjunct in conjuncts:
                pair = self._equal_pair(conjunct, source, constants)
                if pair is not None:
                    pairs.setdefault(*pair)
            pairs.update({name: name for name in self._using_columns(source, constants) if name not in pairs})
            columns = tuple(self._actual_name(source, name) for name in pairs)
            if not pairs:
                continue
            listed = constants.listed
            if listed is not None:
                indexes = dict(zip(listed.labels, listed.column_indexes, strict=True))
                yield IsListed(columns, listed.name, tuple(indexes[label] for label in pairs.values()))
            elif constants.operands is not None:
                yield IsAmong(
                    columns, tuple(zip(*(constants.operands[name] for name in pairs.values()), strict=True))
                )

    def _using_columns(self, source: _Source, constants: _Source) -> list[str]:
        """Columns of USING, where one of the two is joined to the other and nothing else is in the clause."""
        if len(self._sources) != 2:
            return []
        join = self._sources[1].join
        if join is None:
            return []
        dropped = (
            side_of(join) in DROPPING_SIDES
            if source.order == 1
            else not side_of(join) and kind_of(join) in FILTERING_KINDS
        )
        names = [fold(name.name) for name in join.args.get("using") or ()]
        known = (source.columns or frozenset()) & (constants.columns or frozenset())
        return names if dropped and set(names) <= known else []

    def _equal_pair(self, conjunct: exp.Expr, source: _Source, constants: _Source) -> tuple[str, str] | None:
        if type(conjunct) is not exp.EQ:
            return None
        for mine, other in (
            (conjunct.this, conjunct.args["expression"]),
            (conjunct.args["expression"], conjunct.this),
        ):
            if isinstance(mine, exp.Column) and isinstance(other, exp.Column):
                column, constant = self._resolve(mine, source), self._resolve(other, constants)
                if column is not None and constant is not None:
                    return fold(column), fold(constant)
        return None

    def _actual_name(self, source: _Source, lowered: str) -> str:
        assert source.reference is not None
        names: list[str] = self._references[source.reference].definition.schema.names
        return next(name for name in names if fold(name) == lowered)

    def _resolve(self, column: exp.Column, source: _Source) -> str | None:
        """The column of a source that an expression surely means."""
        parts = [fold(part.name) for part in column.parts]
        if isinstance(column.this, exp.Star) or source.columns is None or parts[-1] not in source.columns:
            return None
        certain = (
            self._qualifies(parts[0], source)
            if len(parts) == 2
            else len(parts) == 1 and self._is_only_owner(parts[0], source)
        )
        if not certain:
            return None
        return parts[-1] if source.reference is None else self._actual_name(source, parts[-1])

    def _qualifies(self, qualifier: str, source: _Source) -> bool:
        """A qualifier means a source if no other one has that name, and no column that could be a struct of
        that name.
        """
        others = [other for other in self._sources if other is not source]
        return (
            qualifier == source.alias
            and all(other.alias != qualifier for other in others)
            and all(known.columns is None or qualifier not in known.columns for known in self._sources)
        )

    def _is_only_owner(self, name: str, source: _Source) -> bool:
        """A bare name means a source's column if all other sources are known not to have it, or share it by
        an inner join's USING.

        An output of the SELECT may have the same name: then it must be that very column.
        """
        for output in self._select.expressions:
            if (
                isinstance(output, exp.Alias)
                and fold(output.alias) == name
                and not (isinstance(output.this, exp.Column) and fold(output.this.name) == name)
            ):
                return False
        return all(
            other is source
            or (other.columns is not None and name not in other.columns)
            or self._is_merged(name)
            for other in self._sources
        )

    def _is_merged(self, name: str) -> bool:
        """Two tables that share a column by USING in an inner join: the bare name has the value of both."""
        joins = self._joins()
        return (
            len(joins) == 1
            and not joins[0].args.get("side")
            and str(joins[0].args.get("kind") or "").upper() in {"", "INNER"}
            and name in {fold(shared.name) for shared in joins[0].args.get("using") or ()}
        )


def _arguments_in_use(node: exp.Expr) -> set[str]:
    return {name for name, value in node.args.items() if value}


def _plain_column(output: exp.Expr, alias: str) -> str | None:
    """The column of a table that an output is under its own name, in lower case; `*` for all; None for
    anything else.
    """
    if isinstance(output, exp.Star):
        return "*" if not _arguments_in_use(output) else None
    found = output.this if isinstance(output, exp.Alias) else output
    if (
        not isinstance(found, exp.Column)
        or isinstance(found.this, exp.Star)
        or found.db
        or fold(found.table) not in ("", alias)
    ):
        return None
    name: str = fold(found.name)
    return name if fold(output.alias_or_name) == name else None


def _cte_of(table: exp.Table) -> exp.CTE | None:
    """The common table expression that a table names, if it is surely that one."""
    name = fold(table.name)
    root = table.root()
    found = [cte for cte in root.find_all(exp.CTE) if fold(cte.alias) == name]
    clause = root.args.get("with_")
    if len(found) != 1 or clause is None or clause.args.get("recursive") or found[0].parent is not clause:
        return None
    return found[0]


def _labels(names: Sequence[str], width: int) -> list[str]:
    """Column names of VALUES: those that its alias gives, then `col<n>`."""
    return [names[index] if index < len(names) else f"col{index}" for index in range(width)]


def _label_rows(listed: ListedRows, names: Sequence[str]) -> ListedRows:
    """Rows of a list, whose columns are called as an alias says, and behind that as their query does."""
    labels = [*names, *listed.labels[len(names) :]]
    return replace(listed, labels=tuple(fold(label) for label in labels))


def _operands(row: exp.Expr) -> list[Operand] | None:
    if not isinstance(row, exp.Tuple):
        return None
    found = [operand_of(value) for value in row.expressions]
    known = [operand for operand in found if operand is not UNKNOWN]
    return known if len(known) == len(found) else None
