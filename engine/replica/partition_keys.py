"""How a host names the partitions of its stores."""

from __future__ import annotations

from collections.abc import Iterable

from engine.model.schema import PartitionId, StoreName

PartitionKey = tuple[StoreName, PartitionId]


def partition_names(partitions: Iterable[PartitionKey], most: int = 5) -> str:
    """Partitions in words.

    Args:
        partitions: The partitions.
        most: How many are named.
    """
    names = [f"{store}/{number}" for store, number in partitions]
    return f"{', '.join(names[:most])}{' and others' if len(names) > most else ''}"
