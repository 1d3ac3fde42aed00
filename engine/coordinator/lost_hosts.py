"""What a client gets of a result, and is told, when a host is lost."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import chain

import pyarrow as pa

from engine.cluster.reports import LONE_HOST, HostName
from engine.cluster.routing import Route
from engine.coordinator.fragment_runs import HostFailedError, RefusedError
from engine.errors import LivestateError, Unavailable

FIRST_BYTES = 4 << 20
"""Arrow bytes that are read before any is handed out: a result up to this size survives the loss
of a host.
"""
_MOST_NUMBERS = 8


def read_first_batches(batches: Iterator[pa.RecordBatch], route: Route) -> Iterator[pa.RecordBatch]:
    """Read the first batches now: what fails before these can still be begun anew.

    Args:
        batches: Batches of hosts.
        route: Who reads what.

    Returns:
        All batches, for whoever asked. If a host fails now, the error says that it has some of them.

    Raises:
        HostFailedError: A host failed before.
        RefusedError: A host refused a fragment before.
        LivestateError: It failed in another way.
    """
    first, size = [], 0
    for batch in batches:
        first.append(batch)
        size += batch.nbytes
        if size >= FIRST_BYTES:
            break
    return _batches_for_client(first, batches, route)


def _batches_for_client(
    first: Collection[pa.RecordBatch], others: Iterator[pa.RecordBatch], route: Route
) -> Iterator[pa.RecordBatch]:
    try:
        yield from chain(first, others)
    except HostFailedError as failure:
        raise Unavailable(
            f"Host {failure.host} failed when it had given a part of its rows"
            f"{_partition_words(failure.host, route)}: {first_line(failure)}."
        ) from failure
    except RefusedError as refused:
        raise refused.error from refused


def lost_host_error(failure: HostFailedError, route: Route) -> LivestateError:
    """The error for partitions whose only host failed.

    Args:
        failure: How it failed.
        route: What it was to read.
    """
    partitions = _partition_words(failure.host, route)
    # A host that belongs to no deployment has no other one to tell from.
    if not partitions or failure.host == LONE_HOST:
        return failure.error
    return Unavailable(
        f"Host {failure.host} failed, and no other host can answer{partitions}: {first_line(failure)}."
    )


def first_line(failure: HostFailedError) -> str:
    """Why a host failed, without the place in the text: that is the fragment's, and not the client's."""
    return failure.error.message.partition("\n")[0].rstrip(".")


def _partition_words(host: HostName, route: Route) -> str:
    """Which partitions a host was to read, in words; empty for none."""
    held = sorted(route.partitions.get(host, {}).items())
    named = [f"{_number_words(numbers)} of store {name}" for name, numbers in held if numbers]
    return f" for partitions {'; '.join(named)}" if named else ""


def _number_words(numbers: Collection[int]) -> str:
    shown = sorted(numbers)
    more = len(shown) - _MOST_NUMBERS
    return ", ".join(map(str, shown[:_MOST_NUMBERS])) + (f" and {more} more" if more > 0 else "")
