"""How much there is to send: bytes of tables before anything is read.

Only what is best depends on these figures, never what is right. Rows and bytes of stores come from the hosts'
reports, in powers of two, so that a plan that was made for some sizes stays the plan while stores grow a
little. Rows of a join on keys are taken to be those of its largest side: the others say more about each of
its rows. What conditions leave is guessed from their form, and those of an unclear form leave all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf, prod

import pyarrow as pa
from sqlglot import exp

from engine.model.schema import StoreName
from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import aliases_used, free_aliases, own_queries, unwrap
from engine.plan.split.joins import Item
from engine.sql.bind import StoreReference

DEFAULT_LIMIT_BYTES = 16 << 20
"""What may be sent to every host."""
_VALUE_BYTES = 16
"""A value whose type is unknown."""
_LEAST_TEXT_BYTES = 4
_RANGE, _EQUAL, _PATTERN, _AGGREGATED = 0.2, 0.05, 0.1, 0.01
_LEAST_SHARE = 0.01
"""Guesses multiply, and so do their errors; to send too much is worse than to choose second best."""
_RANGES = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_PATTERNS = (
    exp.Like,
    exp.ILike,
    exp.SimilarTo,
    exp.Glob,
    exp.RegexpLike,
    exp.StartsWith,
    exp.EndsWith,
    exp.Contains,
)


@dataclass(frozen=True)
class StoreSize:
    """How big a store is.

    Attributes:
        rows: Live rows.
        bytes: Their Arrow bytes.
    """

    rows: int
    bytes: int

    def round_up(self) -> StoreSize:
        """Both as the next powers of two."""
        return StoreSize(_power_of_two(self.rows), _power_of_two(self.bytes))


@dataclass(frozen=True)
class Sizes:
    """How big stores are, as far as that is known.

    Attributes:
        stores: Stores with their sizes; one that is missing is taken to be without end.
        limit_bytes: What may be sent to every host.
    """

    stores: tuple[tuple[StoreName, StoreSize], ...] = ()
    limit_bytes: int = DEFAULT_LIMIT_BYTES

    @cached_property
    def by_store(self) -> Mapping[StoreName, StoreSize]:
        """The sizes by store."""
        return dict(self.stores)


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
        return max(self._rows(item.node) for item in group) * share * max(width, 1.0)

    def note(self, part: str, query: exp.Select) -> None:
        """Remember what conditions leave in a fragment's rows.

        Args:
            part: Name of the table of these rows.
            query: The fragment's query.
        """
        self.shares[part] = self._share(_tables(query), where_of(query))

    def is_reduced(self, group: Sequence[Item], where: Sequence[exp.Expr]) -> bool:
        """Whether conditions leave only some rows of tables: those in WHERE about them, or those of fragments
        that are among them.
        """
        return is_reduced(group, where) or any(self.shares.get(item.node.name, 1.0) < 1.0 for item in group)

    def _share(self, nodes: Sequence[exp.Expr], conditions: Sequence[exp.Expr]) -> float:
        return max(
            share_of(conditions)
            * prod(self.shares.get(node.name, 1.0) for node in nodes if isinstance(node, exp.Table)),
            _LEAST_SHARE,
        )

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

    def _rows(self, node: exp.Expr) -> float:
        """Rows of a table or a query."""
        if isinstance(node, exp.Subquery):
            return self._rows(node.this)
        if isinstance(node, exp.SetOperation):
            return self._rows(node.this) + self._rows(node.args["expression"])
        if isinstance(node, exp.Select):
            nodes = _tables(node)
            return max(map(self._rows, nodes), default=1.0) * self._share(nodes, where_of(node))
        if isinstance(node, exp.Table) and node.name in self.references:
            size = self.sizes.by_store.get(self.references[node.name].definition.name)
            return inf if size is None else float(size.rows)
        if isinstance(node, exp.Table) and node.name in self.ctes:
            return self._rows(self.ctes[node.name])
        return 1.0


def _tables(select: exp.Select) -> list[exp.Expr]:
    """The tables of a SELECT's FROM clause."""
    clause = select.args.get("from_")
    return [
        holder.this
        for holder in (*([clause] if clause is not None else []), *(select.args.get("joins") or ()))
    ]


def share_of(conditions: Sequence[exp.Expr]) -> float:
    """Which share of rows conditions may leave, if they all must hold."""
    return max(prod(map(_share, conditions)), _LEAST_SHARE)


def _share(condition: exp.Expr) -> float:
    node = unwrap(condition)
    if isinstance(node, exp.And):
        return _share(node.this) * _share(node.expression)
    if isinstance(node, exp.Or):
        return min(_share(node.this) + _share(node.expression), 1.0)
    queries = [] if node is None else list(own_queries(node))
    if node is None or queries:
        return _share_in(queries[0]) if isinstance(node, exp.In) and len(queries) == 1 else 1.0
    if isinstance(node, exp.Between):
        return 1.0 if aliases_used(node.args["low"]) or aliases_used(node.args["high"]) else _RANGE
    if isinstance(node, exp.In):
        return min(_EQUAL * len(node.expressions), 1.0) if node.expressions else 1.0
    if not isinstance(node, (exp.EQ, *_RANGES, *_PATTERNS)) or all(
        aliases_used(side) for side in (node.this, node.args.get("expression")) if side
    ):
        return 1.0
    return _EQUAL if isinstance(node, exp.EQ) else _RANGE if isinstance(node, _RANGES) else _PATTERN


def _share_in(query: exp.Query) -> float:
    """Which share of rows has a partner among a query's: that of the rows that its conditions leave."""
    if not isinstance(query, exp.Select):
        return 1.0
    return share_of(where_of(query)) * (1.0 if query.args.get("having") is None else _AGGREGATED)


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
