"""How much there is to send: bytes of tables before anything is read.

Only what is best depends on these figures, never what is right. Rows and bytes of stores come from the hosts'
reports, in powers of two, so that a plan that was made for some sizes stays the plan while stores grow a
little. Rows of a join on keys are taken to be those of its largest side: the others say more about each of
its rows; only where it is known how many values the joined columns have, and no side has them as keys, there
are more. What conditions leave `engine.plan.split.selectivity` says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf, prod

import pyarrow as pa
from sqlglot import exp

from engine.cached_property import cached_property
from engine.model.schema import StoreName
from engine.plan.logical.selects import sources_of, where_of
from engine.plan.logical.trees import free_aliases, own_queries, unwrap, used_arguments
from engine.plan.split.joins import Item, are_on_one_host, compared_groups
from engine.plan.split.selectivity import ColumnSize, TableShares, share_of, share_of_interval
from engine.scan import RowFilter
from engine.sql.bind import StoreReference

DEFAULT_LIMIT_BYTES = 16 << 20
"""What may be sent to every host."""
_VALUE_BYTES = 16
"""A value whose type is unknown."""
_LEAST_TEXT_BYTES = 4


@dataclass(frozen=True)
class StoreSize:
    """How big a store is.

    Attributes:
        rows: Live rows.
        bytes: Their Arrow bytes.
        columns: What is known of its columns, by name.
    """

    rows: int
    bytes: int
    columns: tuple[tuple[str, ColumnSize], ...] = ()

    def round_up(self) -> StoreSize:
        """Both as the next powers of two, and what is known of columns rounded likewise."""
        columns = tuple((name, size.round_off()) for name, size in self.columns)
        return StoreSize(_power_of_two(self.rows), _power_of_two(self.bytes), columns)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        """Kept: plans are looked up by sizes with each statement."""
        return hash((self.rows, self.bytes, self.columns))

    @cached_property
    def by_column(self) -> Mapping[str, ColumnSize]:
        """What is known of its columns."""
        return dict(self.columns)


@dataclass(frozen=True)
class Sizes:
    """How big stores are, as far as that is known.

    Attributes:
        stores: Stores with their sizes; one that is missing is taken to be without end.
        limit_bytes: What may be sent to every host.
        shares: As `column_shares` gives them.
    """

    stores: tuple[tuple[StoreName, StoreSize], ...] = ()
    limit_bytes: int = DEFAULT_LIMIT_BYTES
    shares: tuple[tuple[str, str, float], ...] = ()

    @cached_property
    def by_store(self) -> Mapping[StoreName, StoreSize]:
        """The sizes by store."""
        return dict(self.stores)


def wanted_rows_of(reference: StoreReference, wanted: RowFilter, sizes: Sizes) -> int | None:
    """About how many rows a reference has that can matter; None where that is not known.

    Args:
        reference: The reference.
        wanted: Which rows can matter.
        sizes: How big stores are.
    """
    size = sizes.by_store.get(reference.definition.name)
    if size is None:
        return None
    if wanted.points is not None and wanted.points.num_columns == len(reference.definition.key):
        points: int = wanted.points.num_rows
        return min(points, size.rows)
    shares = [
        share_of_interval(interval, size.by_column[name])
        for name, interval in wanted.intervals.items()
        if name in size.by_column
    ]
    return ceil(size.rows * prod([1.0, *(share for share in shares if share is not None)]))


@dataclass(frozen=True)
class Estimator:
    """Estimates bytes of the tables of a statement.

    Attributes:
        sizes: Sizes of the stores.
        references: Stores by the names of their scans.
        ctes: Common table expressions by name.
        shares: For tables of fragments' rows, which share of some store's rows conditions left in them.
    """

    sizes: Sizes
    references: Mapping[str, StoreReference]
    ctes: Mapping[str, exp.Query]
    shares: dict[str, float] = field(default_factory=dict)

    def bytes_of(
        self, select: exp.Select, group: Sequence[Item], where: Sequence[tuple[exp.Expr, Collection[str]]]
    ) -> float:
        """Arrow bytes of what the rest of a SELECT reads of some of its tables, joined.

        Args:
            select: The SELECT.
            group: The tables.
            where: Conjuncts that hold for all rows of the SELECT that matter, each with its `free_aliases`;
                those about these tables alone are applied before rows are sent.
        """
        aliases = {item.alias for item in group}
        about = [condition for condition, read in where if read and aliases.issuperset(read)]
        columns = _columns_read(
            select, aliases, {id(condition) for condition in about} | {id(item.node) for item in group}
        )
        width = sum(
            self._width(item, [name for alias, name in columns if alias == item.alias]) for item in group
        )
        share = self._share([item.node for item in group], about)
        return (
            self.joined_rows({item.alias: item.node for item in group}, [condition for condition, _ in where])
            * share
            * max(width, 1.0)
        )

    def groups_to_send(
        self,
        select: exp.Select,
        component: Sequence[Item],
        where: Sequence[tuple[exp.Expr, Collection[str]]],
    ) -> list[list[Item]]:
        """Tables that hosts can join, in groups that are sent joined: those that only a host has in common
        are, where that is no more to send than one by one.

        Args:
            select: The SELECT that reads them.
            component: As `engine.plan.split.joins.components` gives them.
            where: As for `bytes_of`.
        """
        if not are_on_one_host(component):
            return [list(component)]
        found: list[list[Item]] = []
        for group in compared_groups(component, [condition for condition, _ in where]):
            apart = [[item] for item in group]
            is_less = self.bytes_of(select, group, where) <= sum(
                self.bytes_of(select, each, where) for each in apart
            )
            found += [group] if is_less else apart
        return found

    def store_bytes(self, node: exp.Expr) -> int | None:
        """Arrow bytes of all rows and columns of a table; None if it is no store's, or of unknown size.

        Args:
            node: The table.
        """
        if not isinstance(node, exp.Table) or node.name not in self.references:
            return None
        size = self.sizes.by_store.get(self.references[node.name].definition.name)
        return None if size is None else size.bytes

    def note(self, part: str, query: exp.Select) -> None:
        """Remember what conditions leave in a fragment's rows.

        Args:
            part: Name of the table of these rows.
            query: The fragment's query.
        """
        self.shares[part] = self._share(sources_of(query), where_of(query))

    def is_reduced(self, group: Sequence[Item], where: Sequence[exp.Expr]) -> bool:
        """Whether conditions leave only some rows of tables: those in WHERE about them, or those of fragments
        that are among them.
        """
        return is_reduced(group, where) or any(self.shares.get(item.node.name, 1.0) < 1.0 for item in group)

    def _share(self, nodes: Sequence[exp.Expr], conditions: Sequence[exp.Expr]) -> float:
        tables = {node.alias_or_name: shares for node in nodes if (shares := self._table_shares(node))}
        parts = [self.shares.get(node.name, 1.0) for node in nodes if isinstance(node, exp.Table)]
        return share_of(conditions, tables, parts)

    def _table_shares(self, node: exp.Expr) -> TableShares | None:
        """What is known of a table's columns, if it is a store's."""
        if not isinstance(node, exp.Table) or node.name not in self.references:
            return None
        size = self.sizes.by_store.get(self.references[node.name].definition.name)
        ranges = {column: share for scan, column, share in self.sizes.shares if scan == node.name}
        return None if size is None else TableShares(size.by_column, ranges)

    def _distinct(self, nodes: Mapping[str, exp.Expr], column: exp.Column) -> int | None:
        """About how many values a column of some tables has; None where it is not known."""
        node = nodes.get(column.table)
        shares = None if node is None else self._table_shares(node)
        size = None if shares is None else shares.columns.get(column.name)
        return None if size is None else size.distinct

    def joined_rows(self, nodes: Mapping[str, exp.Expr], where: Sequence[exp.Expr]) -> float:
        """About how many rows some tables have, joined: as many as the largest, or more, where no side of a
        join has keys.

        Args:
            nodes: The tables by alias, at least one.
            where: Conjuncts that hold for all rows that matter.
        """
        rows = [self.rows(node) for node in nodes.values()]
        largest = max(rows)
        if len(nodes) < 2:
            return largest
        joined = prod(rows)
        for values in _equal_columns(where, nodes):
            distinct = sorted(found for column in values if (found := self._distinct(nodes, column)))
            if len(distinct) < len(values):
                return largest
            # Each value of the column with fewest meets all its equals in the others.
            joined /= prod(distinct[1:])
        return max(largest, joined) if joined < prod(rows) else largest

    def _width(self, item: Item, names: Collection[str]) -> float:
        """Bytes of some columns in one row."""
        reference = self.references.get(item.node.name) if isinstance(item.node, exp.Table) else None
        size = None if reference is None else self.sizes.by_store.get(reference.definition.name)
        if reference is None or size is None:
            return _VALUE_BYTES * len(names)
        schema = reference.definition.schema
        fixed: dict[str, float] = {
            each.name: each.type.bit_width / 8 for each in schema if _is_fixed(each.type)
        }
        if fixed.keys() >= set(names):
            return sum(fixed[name] for name in names)
        rest = size.bytes / max(size.rows, 1) - sum(fixed.values())
        other = max(rest / (len(schema) - len(fixed)), _LEAST_TEXT_BYTES)
        return sum(fixed.get(name, other) for name in names)

    def rows(self, node: exp.Expr) -> float:
        """About how many rows a table or a query has."""
        if isinstance(node, exp.Subquery):
            return self.rows(node.this)
        if isinstance(node, exp.SetOperation):
            return self.rows(node.this) + self.rows(node.args["expression"])
        if isinstance(node, exp.Select):
            nodes = sources_of(node)
            rows = max(map(self.rows, nodes), default=1.0) * self._share(nodes, where_of(node))
            return min(rows, self._groups(node, nodes))
        if isinstance(node, exp.Table) and node.name in self.references:
            size = self.sizes.by_store.get(self.references[node.name].definition.name)
            return inf if size is None else float(size.rows)
        if isinstance(node, exp.Table) and node.name in self.ctes:
            return self.rows(self.ctes[node.name])
        return 1.0

    def _groups(self, select: exp.Select, nodes: Sequence[exp.Expr]) -> float:
        """How many groups a SELECT can make at the most, as far as that is known."""
        clause = select.args.get("group")
        if clause is None or used_arguments(clause) != {"expressions"}:
            return inf
        by_alias = {node.alias_or_name: node for node in nodes}
        distinct = [
            self._distinct(by_alias, node) if isinstance(node, exp.Column) else None
            for node in clause.expressions
        ]
        return inf if None in distinct else float(prod(found for found in distinct if found is not None))


def _equal_columns(
    conditions: Sequence[exp.Expr], nodes: Mapping[str, exp.Expr]
) -> Iterator[list[exp.Column]]:
    """Columns of several tables that conditions say are equal, in groups of at least two."""
    groups: list[list[exp.Column]] = []
    for condition in conditions:
        node = unwrap(condition)
        sides = [unwrap(node.this), unwrap(node.expression)] if isinstance(node, exp.EQ) else []
        columns = [side for side in sides if isinstance(side, exp.Column) and side.table in nodes]
        if len(columns) == 2 and columns[0].table != columns[1].table:
            touching = [group for group in groups if any(column in group for column in columns)]
            groups = [group for group in groups if group not in touching]
            groups.append(list(dict.fromkeys([*(each for group in touching for each in group), *columns])))
    yield from groups


def is_reduced(group: Sequence[Item], where: Sequence[exp.Expr]) -> bool:
    """Whether constants, parameters or subqueries in WHERE leave only some rows of tables."""
    aliases = {item.alias for item in group}
    conditions = (condition for condition in where if (read := free_aliases(condition)) and read <= aliases)
    return any(
        condition.find(exp.Literal, exp.Placeholder) is not None or any(True for _ in own_queries(condition))
        for condition in conditions
    )


def _columns_read(
    select: exp.Select, aliases: Collection[str], without: Collection[int]
) -> set[tuple[str, str]]:
    """Columns of some tables that a SELECT reads, but for those below some nodes."""
    found: set[tuple[str, str]] = set()
    pending: list[exp.Expr] = [select]
    while pending:
        node = pending.pop()
        if id(node) in without:
            continue
        if isinstance(node, exp.Column):
            if node.table in aliases:
                found.add((node.table, node.name))
        else:
            pending.extend(node.iter_expressions())
    return found


def _is_fixed(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_primitive(arrow_type)
        or pa.types.is_decimal(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    )


def _power_of_two(value: int) -> int:
    return 1 << max(value - 1, 0).bit_length()
