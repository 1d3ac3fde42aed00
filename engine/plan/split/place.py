"""Where the rows of the queries of a statement are: the rules put together."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.function_properties import is_volatile
from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import (
    conjuncts,
    expressions_of,
    free_aliases,
    location_text,
    output_names,
    own_nodes,
    own_queries,
    tables_of,
)
from engine.plan.split.correlated import Frame, is_key_correlated, is_local_membership
from engine.plan.split.joins import Item, JoinType, join_type, known_types, place_joins
from engine.plan.split.place_selects import place_select
from engine.plan.split.place_set_operations import place_set_operation
from engine.plan.split.placement import (
    Everywhere,
    Placement,
    Relation,
    Spread,
    projected_placement,
    relation_under_alias,
    store_relation,
)
from engine.sql.bind import StoreReference


@dataclass
class Placer:
    """Places the queries of one resolved statement.

    Attributes:
        references: Stores by the names of their scans.
        ctes: Common table expressions by name.
        has_volatile: Whether anything in the statement is volatile.
        parts: Tables of fragments' rows that are known so far, by name: types of their columns, as far as
            they are known.
    """

    references: Mapping[str, StoreReference]
    ctes: Mapping[str, exp.Query]
    has_volatile: bool
    parts: dict[str, Mapping[str, pa.DataType]] = field(default_factory=dict)
    _stores: dict[tuple[str, str], Relation] = field(default_factory=dict)
    _settled: dict[int, tuple[exp.Query, Relation]] = field(default_factory=dict)

    def relation(self, query: exp.Expr, frames: Sequence[Frame] = ()) -> Relation:
        """What is known of a query's rows, by names of its outputs.

        Args:
            query: A resolved query. ORDER BY, LIMIT and OFFSET of it are for the coordinator, so that a query
                with one of these is not placed.
            frames: The SELECTs around it.

        Returns:
            The relation.
        """
        if isinstance(query, exp.Subquery):
            return self.relation(query.this, frames)
        settled = self._settled.get(id(query))
        if settled is not None:
            return settled[1]
        if isinstance(query, exp.SetOperation):
            left, right = self.relation(query.this, frames), self.relation(query.args["expression"], frames)
            return place_set_operation(
                query, left, right, output_names(query.this), output_names(query.args["expression"])
            )
        if not isinstance(query, exp.Select):
            return Relation(None)
        items = self.items(query, frames)
        known = known_types(items)
        types = _output_types(query, known)
        rows = self.rows(query, frames, items)
        if rows is None or any(query.args.get(part) for part in ("order", "limit", "offset")):
            return Relation(None, types)
        placement = place_select(query, rows)
        inside = (*frames, Frame(rows, known))
        if (
            placement is None
            or not self._are_local(query, inside)
            or self._is_volatile(expressions_of(query))
        ):
            return Relation(None, types)
        return Relation(projected_placement(placement, query.expressions), types)

    def types(self, select: exp.Select) -> Mapping[str, pa.DataType]:
        """Types of a SELECT's outputs, by name, as far as they are known."""
        return _output_types(select, known_types(self.items(select)))

    def settle(self, query: exp.Query) -> Relation:
        """What is known of an uncorrelated query's rows; remembered, because the query will not change any
        more.
        """
        relation = self.relation(query)
        self._settled[id(query)] = query, relation
        return relation

    def rows(
        self, select: exp.Select, frames: Sequence[Frame] = (), items: Sequence[Item] | None = None
    ) -> Placement | None:
        """Where the rows are that come out of a SELECT's FROM and WHERE.

        Args:
            select: A resolved SELECT.
            frames: The SELECTs around it.
            items: Its tables, if they are known already.

        Returns:
            The placement; None where hosts cannot work these rows out each on its own.
        """
        items = self.items(select, frames) if items is None else items
        where = where_of(select)
        placement = place_joins(items, where) if items else Everywhere()
        if placement is None:
            return None
        frame = Frame(placement, known_types(items))
        conditions = [*where, *(condition for item in items for condition in item.on)]
        if self._is_volatile(conditions):
            return None
        for condition in where:
            if not all(self.is_local(query, (*frames, frame)) for query in own_queries(condition)):
                return None
        in_joins = (query for item in items for condition in item.on for query in own_queries(condition))
        return placement if all(self._is_everywhere(query) for query in in_joins) else None

    def _is_volatile(self, expressions: Iterable[exp.Expr]) -> bool:
        return self.has_volatile and any(
            is_volatile(node) for each in expressions for node in own_nodes(each)
        )

    def _is_everywhere(self, query: exp.Query) -> bool:
        return not free_aliases(query) and isinstance(self.relation(query).placement, Everywhere)

    def items(self, select: exp.Select, frames: Sequence[Frame] = ()) -> list[Item]:
        """The tables of a SELECT's FROM clause."""
        clause = select.args.get("from_")
        if clause is None:
            return []
        joined = (
            Item(
                join.this,
                join.this.alias,
                self._table(join.this),
                join_type(join),
                tuple(conjuncts(join.args.get("on"))),
            )
            for join in select.args.get("joins") or ()
        )
        return [Item(clause.this, clause.this.alias, self._table(clause.this), JoinType()), *joined]

    def _table(self, node: exp.Expr) -> Relation:
        alias = node.alias
        if isinstance(node, exp.Subquery):
            return (
                Relation(None)
                if free_aliases(node)
                else relation_under_alias(self.relation(node.this), alias)
            )
        if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
            if node.name in self.references:
                known = self._stores.get((node.name, alias))
                if known is None:
                    known = self._stores[node.name, alias] = store_relation(
                        self.references[node.name].definition, alias
                    )
                return known
            if node.name in self.ctes:
                return relation_under_alias(self.relation(self.ctes[node.name]), alias)
            return relation_under_alias(Relation(Everywhere(), self.parts.get(node.name, {})), alias)
        return Relation(
            None
            if any(is_volatile(found) or isinstance(found, exp.Query) for found in node.walk())
            else Everywhere()
        )

    # Subqueries in expressions

    def _are_local(self, select: exp.Select, frames: Sequence[Frame]) -> bool:
        """Whether the subqueries of a SELECT's clauses are local, but for those of WHERE, which `rows` has
        seen.
        """
        clauses = (each for each in expressions_of(select) if not isinstance(each, exp.Where))
        return all(self.is_local(query, frames) for each in clauses for query in own_queries(each))

    def is_local(self, query: exp.Query, frames: Sequence[Frame]) -> bool:
        """Whether every host gets from its own rows what a subquery in an expression gives for a row that it
        has.

        Args:
            query: The subquery.
            frames: The SELECTs around it, the innermost last.

        Returns:
            True only if that is proved.
        """
        if not free_aliases(query):
            relation = self.relation(query)
            if isinstance(relation.placement, Spread):
                return is_local_membership(query, relation.placement, output_names(query), frames[-1])
            return isinstance(relation.placement, Everywhere)
        if not isinstance(query, exp.Select):
            return False
        items = self.items(query, frames)
        rows = self.rows(query, frames, items)
        if rows is None or self._is_volatile(expressions_of(query)):
            return False
        if isinstance(rows, Spread) and not is_key_correlated(items, rows, where_of(query), frames):
            return False
        return self._are_local(query, (*frames, Frame(rows, known_types(items))))


def _output_types(select: exp.Select, known: Mapping[str, pa.DataType]) -> Mapping[str, pa.DataType]:
    """Types of a SELECT's outputs by name, from those of the columns of its FROM clause."""
    return {
        output.alias: known[name]
        for output in select.expressions
        if (name := location_text(output.this)) is not None and name in known
    }


def scans_of(node: exp.Expr, references: Collection[str], ctes: Mapping[str, exp.Query]) -> Iterator[str]:
    """Scans that a tree reads, itself or by the common table expressions that it reads."""
    pending, seen = [node], set[str]()
    while pending:
        for table in tables_of(pending.pop()):
            if table.name in references:
                yield table.name
            elif table.name in ctes and table.name not in seen:
                seen.add(table.name)
                pending.append(ctes[table.name])
