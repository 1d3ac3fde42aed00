"""Who of several replicas reads what: none reads much more than the others, as all must wait for the last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from engine.cluster.reports import HostName
from engine.model.schema import PartitionId


def share_numbers(
    numbers: Collection[PartitionId],
    held: Mapping[HostName, Collection[PartitionId]],
    preferred: Sequence[Sequence[HostName]],
) -> Mapping[HostName, tuple[PartitionId, ...]]:
    """Share partition numbers among the hosts that can read them.

    A number is read at the first host that should answer for it and can, which has most likely read it
    before, until this host has its share: as many as all would have if any could read any. The next one takes
    the rest.

    Args:
        numbers: The numbers.
        held: What each host can read; each number is with some host.
        preferred: For each number, who should answer for it, best first.

    Returns:
        The numbers of each host that reads some, ascending. A pure function of what is given.
    """
    others = sorted(held)
    share = -(-len(numbers) // max(len(held), 1))
    found: dict[HostName, list[PartitionId]] = {host: [] for host in others}
    for number in sorted(numbers):
        best = preferred[number]
        # Nearly always the first one can, and this loop runs for every partition of a store.
        host = best[0] if best else others[0]
        if host not in held or number not in held[host] or len(found[host]) >= share:
            able = [host for host in dict.fromkeys((*best, *others)) if number in held.get(host, ())]
            host = next(
                (host for host in able if len(found[host]) < share),
                min(able, key=lambda host: len(found[host])),
            )
        found[host].append(number)
    return {host: tuple(numbers) for host, numbers in found.items() if numbers}
