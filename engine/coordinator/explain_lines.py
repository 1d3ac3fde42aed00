"""EXPLAIN of a statement whose partitions are on several hosts."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.fragment_context import FragmentStats, Shares
from engine.coordinator.plan_cache import ReadyPlan
from engine.coordinator.result_metadata import DISTRIBUTED, moved_bytes
from engine.model.quantities import quantity
from engine.model.schema import PartitionId
from engine.plan.explain import explain_pruned
from engine.plan.partition_pruning import Partitions
from engine.plan.query_text import QueryText
from engine.plan.split.explain_split import explain_split
from engine.plan.split.sizes import Sizes, wanted_rows_of
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.plan.wanted_rows import wanted_rows


def whole_lines(
    statement: ReadyStatement,
    arguments: Arguments,
    kept: Mapping[str, Collection[PartitionId]],
    host: HostName,
    text: QueryText,
    sizes: Sizes,
) -> list[str]:
    """The lines for a statement that one other host answers.

    Args:
        statement: The statement.
        arguments: What it is used with.
        kept: By scan, the partitions that can matter.
        host: The host.
        text: What travels.
        sizes: How big stores are.
    """
    return [
        f"plan: whole statement on host {host}",
        *_stores(statement, arguments, kept, sizes),
        f"sql: {text.sql}",
    ]


def scattered_lines(
    plan: ReadyPlan,
    arguments: Arguments,
    kept: Mapping[str, Collection[PartitionId]],
    shares: Mapping[str, Shares],
    sizes: Sizes,
) -> list[str]:
    """The lines for a statement that several hosts answer.

    Args:
        plan: How it is split.
        arguments: What it is used with.
        kept: By scan, the partitions that can matter.
        shares: By fragment, which hosts run it.
        sizes: How big stores are.
    """
    lines = [
        f"plan: {DISTRIBUTED}",
        *_stores(plan.runs, arguments, kept, sizes),
        *explain_split(plan.split),
    ]
    for fragment in plan.fragments:
        name = fragment.fragment.name
        lines.append(
            f"hosts of {name}: "
            f"{', '.join(_share(host, share) for host, share in sorted(shares[name].items()))}"
        )
    return lines


def _share(host: HostName, share: Partitions) -> str:
    count = sum(len(numbers) for numbers in share.values())
    return f"{host} ({quantity(count, 'partition')})"


def _stores(
    statement: ReadyStatement,
    arguments: Arguments,
    kept: Mapping[str, Collection[PartitionId]],
    sizes: Sizes,
) -> list[str]:
    lines: list[str] = []
    for reference, predicate in zip(statement.bound.references, statement.predicates, strict=True):
        wanted = wanted_rows(predicate, reference, arguments)
        rows = wanted_rows_of(reference, wanted, sizes)
        lines += explain_pruned(reference, wanted, len(kept[reference.scan]), rows)
    return lines


def analyzed_lines(route: Route, stats: Iterable[FragmentStats], here: HostName) -> list[str]:
    """What EXPLAIN ANALYZE adds when hosts took part.

    Args:
        route: Epochs, and who read what.
        stats: What came from where.
        here: This host.
    """
    read = sorted(stats, key=lambda stats: (stats.fragment, stats.host))
    lines = [f"epoch: {group} {epoch}" for group, epoch in sorted(route.epochs.items())]
    lines += [_stats_line(stats) for stats in read]
    lines.append(f"moved between hosts: {moved_bytes(read, here)} bytes")
    return lines


def _stats_line(stats: FragmentStats) -> str:
    known = stats.metadata
    segments = f"{known.get('segments_read', 0)} of {known.get('segments', 0)} segments"
    return (
        f"read: {stats.fragment} on {stats.host}: {stats.rows} rows, {stats.nbytes} bytes, {segments}, "
        f"{stats.seconds * 1000:.3f} ms"
    )
