"""Answers that need no coordinator: rows that hosts have side by side, in no order, so that a client can read
from each of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
from sqlglot import exp

from engine.cluster.fragments import FragmentRequest
from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.distributed_query import DistributedQuery
from engine.coordinator.fragment_context import FragmentContext
from engine.coordinator.plan_cache import ReadyFragment, ReadyPlan
from engine.model.names import fold
from engine.plan.partition_pruning import kept_partitions, unite_partitions
from engine.plan.plans import CountPlan
from engine.sql.engine_dialect import EngineDialect

Endpoints = Mapping[HostName, FragmentRequest]
"""What to ask of each host; all their rows together are the answer."""


def endpoints_of(query: DistributedQuery, plan: ReadyPlan, route: Route, here: HostName) -> Endpoints | None:
    """The fragments whose rows, put one after the other, are a statement's answer.

    Args:
        query: The statement.
        plan: Its plan.
        route: Who reads what.
        here: This host.

    Returns:
        The fragments; None where something has to be done with their rows: merged, summed up, cut off, or
        given other types; or where the fragments need rows sent along.
    """
    last = plain_fragment(query, plan)
    if last is None:
        return None
    kept = kept_partitions(plan.runs.bound.references, plan.runs.predicates, query.arguments)
    context = FragmentContext(query.arguments, route, here, query.deadline)
    shares = context.shares(last.text, unite_partitions(last.fragment.references, kept))
    return {host: context.request(last.text, share, {}) for host, share in shares.items()}


def plain_fragment(query: DistributedQuery, plan: ReadyPlan) -> ReadyFragment | None:
    """The only fragment of a plan, if its rows on all hosts, one after the other, are the statement's answer.

    Args:
        query: The statement.
        plan: Its plan.

    Returns:
        The fragment; None where something has to be done with its rows, or where it needs rows sent along.
    """
    if (
        plan.merge is not None
        or len(plan.fragments) != 1
        or query.limit is not None
        or isinstance(plan.runs.plan, CountPlan)
    ):
        return None
    (last,) = plan.fragments
    schema = plan.schema
    if last.text.tables or schema is None or last.outputs.schema.types != schema.types:
        return None
    return last if last.outputs.schema.equals(schema) else _name_outputs(last, schema)


def _name_outputs(fragment: ReadyFragment, schema: pa.Schema) -> ReadyFragment | None:
    """A fragment whose columns have the names of the answer, which for expressions are not those of their
    own; None where two of them are the same to the engine.
    """
    names = schema.names
    if len({fold(name) for name in names}) < len(names):
        return None
    quoted = ", ".join(exp.to_identifier(name, quoted=True).sql(dialect=EngineDialect) for name in names)
    text = replace(fragment.text, sql=f'SELECT * FROM ({fragment.text.sql}) AS "__named"({quoted})')
    return replace(fragment, text=text, outputs=replace(fragment.outputs, schema=schema))
