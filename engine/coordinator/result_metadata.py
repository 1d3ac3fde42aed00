"""What the metadata of a result says when other hosts took part."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from engine.cluster.reports import HostName
from engine.cluster.routing import Route
from engine.coordinator.fragment_context import FragmentStats
from engine.coordinator.plan_cache import ReadyPlan
from engine.exec.fallbacks import count_fallbacks
from engine.exec.query_result import QueryMetadata
from engine.exec.read_metadata import stale_seconds
from engine.model.durations import MICROSECONDS_PER_SECOND
from engine.model.schema import StoreDefinitions

DISTRIBUTED = "distributed"
HIDDEN = "hidden"
"""In place of a plan that was chosen by how many rows there are."""
_PLANS_OF_THE_TEXT = frozenset({"lookup", "catalog"})
WHOLE_RULE = "one host"

_SUMS = ("segments_read", "segments", "blocks_read", "blocks", "rows_read", "rows")


def local_metadata(
    here: HostName, metadata: QueryMetadata, route: Route, definitions: StoreDefinitions
) -> QueryMetadata:
    """Metadata of a statement that this host answered alone, though it has some partitions only.

    Args:
        here: This host.
        metadata: What it read.
        route: The route.
        definitions: All stores.
    """
    return replace(metadata, hosts=(here,), **_staleness(route), **_partitions(route, definitions))


def forwarded_metadata(
    host: HostName,
    metadata: Mapping[str, Any],
    route: Route,
    definitions: StoreDefinitions,
    seconds: Mapping[str, float],
) -> QueryMetadata:
    """Metadata of a statement that one other host answered.

    Args:
        host: The host.
        metadata: What it read.
        route: The route.
        definitions: All stores.
        seconds: Times of steps.
    """
    counts: dict[str, Any] = {name: int(metadata.get(name, 0)) for name in _SUMS}
    return QueryMetadata(
        str(metadata.get("plan", DISTRIBUTED)),
        dict(route.epochs),
        age_seconds(route),
        **counts,
        **_staleness(route),
        **_partitions(route, definitions),
        hosts=(host,),
        fragments=1,
        rules=(WHOLE_RULE,),
        fallbacks=count_fallbacks((), [metadata]),
        seconds=seconds,
    )


def scattered_metadata(
    plan: ReadyPlan,
    stats: Collection[FragmentStats],
    route: Route,
    definitions: StoreDefinitions,
    here: HostName,
    seconds: Mapping[str, float],
) -> QueryMetadata:
    """Metadata of a statement that several hosts answered.

    Args:
        plan: How it was split.
        stats: What came from where.
        route: The route.
        definitions: All stores.
        here: This host.
        seconds: Times of steps.
    """
    counts: dict[str, Any] = {
        name: sum(int(stats.metadata.get(name, 0)) for stats in stats) for name in _SUMS
    }
    return QueryMetadata(
        DISTRIBUTED,
        dict(route.epochs),
        age_seconds(route),
        **counts,
        **_staleness(route),
        **_partitions(route, definitions),
        hosts=tuple(sorted({stats.host for stats in stats})),
        fragments=len(stats),
        rules=plan.split.rules,
        bytes_moved=moved_bytes(stats, here),
        fallbacks=count_fallbacks(plan.fallbacks, [each.metadata for each in stats]),
        seconds=seconds,
    )


def moved_bytes(stats: Collection[FragmentStats], here: HostName) -> int:
    """Arrow bytes that went between hosts."""
    return sum(stats.sent_bytes + stats.nbytes for stats in stats if stats.host != here)


def _partitions(route: Route, definitions: StoreDefinitions) -> dict[str, Any]:
    """How many partitions of the stores are read, each counted once however often a statement names its
    store, and how many there are.
    """
    stores = {store for stores in route.partitions.values() for store in stores}
    read = sum(len(numbers) for stores in route.partitions.values() for numbers in stores.values())
    return {"partitions_read": read, "partitions": sum(definitions[store].partitions for store in stores)}


def _staleness(route: Route) -> dict[str, Any]:
    return {"digests": route.digests, "stale_seconds": stale_seconds(route.complete_until)}


def age_seconds(route: Route) -> float:
    """Age of the oldest epoch that is read."""
    committed = [moment for moment in route.committed_at.values() if moment]
    return max(0.0, time.time() - min(committed) / MICROSECONDS_PER_SECOND) if committed else 0.0


def hide_sizes(metadata: QueryMetadata) -> QueryMetadata:
    """Metadata that tells nothing of rows that are not in the answer: neither how many they are, nor what was
    chosen by that.

    Args:
        metadata: Any.
    """
    return metadata.replace_quickly(
        plan=metadata.plan if metadata.plan in _PLANS_OF_THE_TEXT else HIDDEN,
        seconds={step: taken for step, taken in metadata.seconds.items() if step == "total"},
        hosts=(),
        fragments=0,
        rules=(),
        partitions_read=0,
        partitions=0,
        segments_read=0,
        segments=0,
        blocks_read=0,
        blocks=0,
        rows_read=0,
        rows=0,
        bytes_moved=0,
        fallbacks={},
    )
