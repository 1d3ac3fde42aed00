"""Joins by which the rows of one store tell which keys of another can matter.

In a SELECT whose FROM clause has inner joins alone, a row of a store matters only if it meets every conjunct
of WHERE and of the joins. So of `big.k = small.x` only those rows of `big` matter whose `k` is among the
values of `small.x` in the rows that can matter of `small`; of `big.k IN (SELECT x FROM small …)` likewise,
whatever else the subquery does with its rows, as it makes no other values of a plain column but NULL. Who
reads the few rows of `small` first can look the rows of `big` up, if `k` leads its key. Whatever is around
the SELECT gets the same rows. A store reference that is read in more than one place of the plan is left
alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.selects import where_of
from engine.plan.logical.trees import conjuncts, unwrap
from engine.plan.split.joins import join_type
from engine.sql.bind import StoreReference


@dataclass(frozen=True)
class KeyJoin:
    """A join of a column with the leading key column of a store.

    Attributes:
        known_scan: The scan whose rows tell the keys.
        known_column: The column that has them.
        wanted_scan: The scan of whose rows only those of these keys can matter.
    """

    known_scan: str
    known_column: str
    wanted_scan: str


def key_joins(logical: LogicalPlan | None) -> tuple[KeyJoin, ...]:
    """The joins of a statement by which rows of one store tell keys of another.

    Args:
        logical: The statement's logical plan; None where it has none.

    Returns:
        The joins, in no order that matters.
    """
    if logical is None or logical.has_volatile or len(logical.references) < 2:
        return ()
    times = Counter(table.name for query in logical.queries for table in query.find_all(exp.Table))
    once = {name: found for name, found in logical.references.items() if times[name] == 1}
    found = [
        join
        for query in logical.queries
        for select in query.find_all(exp.Select)
        for join in _joins_of(select, once)
    ]
    return tuple(dict.fromkeys(found))


def _joins_of(select: exp.Select, references: Mapping[str, StoreReference]) -> Iterator[KeyJoin]:
    scans = _scans(select, references)
    if scans is None:
        return
    joins: Sequence[exp.Join] = select.args.get("joins") or ()
    held = [*where_of(select), *(part for join in joins for part in conjuncts(join.args.get("on")))]
    for condition in held:
        node = unwrap(condition)
        if isinstance(node, exp.EQ):
            sides = unwrap(node.this), unwrap(node.expression)
            for wanted, known in (sides, sides[::-1]):
                yield from _key_join(wanted, scans, known, scans, references)
        elif isinstance(node, exp.In) and isinstance(node.args.get("query"), exp.Subquery):
            inner = node.args["query"].this
            if isinstance(inner, exp.Select) and len(inner.expressions) == 1:
                known = unwrap(inner.expressions[0].unalias())
                known_scans = _scans(inner, references) or {}
                yield from _key_join(unwrap(node.this), scans, known, known_scans, references)


def _scans(select: exp.Select, references: Mapping[str, StoreReference]) -> Mapping[str, str] | None:
    """The scans that a SELECT reads itself, by alias; None where it has other joins than inner ones."""
    clause = select.args.get("from_")
    joins: Sequence[exp.Join] = select.args.get("joins") or ()
    if clause is None or any(not join_type(join).is_inner or join.args.get("using") for join in joins):
        return None
    tables = [clause.this, *(join.this for join in joins)]
    if any(node.args.get("joins") or node.args.get("sample") for node in tables):
        return None
    return {
        node.alias_or_name: node.name
        for node in tables
        if isinstance(node, exp.Table) and node.name in references
    }


def _key_join(
    wanted: exp.Expr | None,
    wanted_scans: Mapping[str, str],
    known: exp.Expr | None,
    known_scans: Mapping[str, str],
    references: Mapping[str, StoreReference],
) -> Iterator[KeyJoin]:
    if (
        not isinstance(wanted, exp.Column)
        or not isinstance(known, exp.Column)
        or wanted.table not in wanted_scans
        or known.table not in known_scans
    ):
        return
    wanted_scan, known_scan = wanted_scans[wanted.table], known_scans[known.table]
    definition, source = references[wanted_scan].definition, references[known_scan].definition
    if wanted_scan == known_scan or wanted.name != definition.key[0] or known.name not in source.schema.names:
        return
    arrow_type = definition.schema.field(wanted.name).type
    if _is_looked_up(arrow_type) and source.schema.field(known.name).type == arrow_type:
        yield KeyJoin(known_scan, known.name, wanted_scan)


def _is_looked_up(arrow_type: pa.DataType) -> bool:
    """Whether equal values of a type are equal keys."""
    return bool(
        pa.types.is_integer(arrow_type)
        or pa.types.is_string(arrow_type)
        or pa.types.is_date32(arrow_type)
        or pa.types.is_timestamp(arrow_type)
    )
