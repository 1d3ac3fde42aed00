"""Rows of whole keys: each partition is searched once for all of its keys."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.model.schema import PartitionId
from engine.state import keys as sort_keys
from engine.state.keys import Keys, Rows
from engine.state.picked_rows import Pick
from engine.state.version import Version

FEW_KEYS = 4
"""Up to so many keys of a partition are looked up one by one: to search for all together takes a dozen calls
of numpy a segment, however few there are.
"""
NO_ROW = -1
"""Place of the row of a key that has none."""


class KeyedPicks(NamedTuple):
    """The live rows of some keys.

    Attributes:
        picks: The rows, each once.
        places: For each key, the place of its row among those of all picks; `NO_ROW` where it has none.
        partitions: How many partitions were searched.
    """

    picks: list[Pick]
    places: Rows
    partitions: int


def find_keyed_rows(
    versions: Mapping[PartitionId, Version], needles: Keys, placed: npt.NDArray[np.int32], partitions: int
) -> KeyedPicks:
    """The live rows of whole keys.

    Args:
        versions: The partitions that are seen.
        needles: Sort keys, at least one; they may repeat.
        placed: The partition of each.
        partitions: How many partitions there are.
    """
    distinct, groups = sort_keys.groups_of(needles)
    placed = placed[distinct]
    # By partition, and in each of them by key.
    order = np.argsort(placed, kind="stable")
    needles = sort_keys.take(needles, distinct[order])
    bounds = np.searchsorted(placed[order], np.arange(partitions + 1)).tolist()
    picks: list[Pick] = []
    found: list[Rows] = []
    searched = 0
    for number, (start, stop) in enumerate(pairwise(bounds)):
        version = versions.get(PartitionId(number)) if start < stop else None
        if version is None:
            continue
        searched += 1
        if stop - start <= FEW_KEYS:
            for place in range(start, stop):
                one = version.find_one(sort_keys.key_at(needles, place))
                if one is not None:
                    picks.append(Pick(one[0], np.array([one[1]])))
                    found.append(order[place : place + 1])
            continue
        left, wanted = needles[start:stop], order[start:stop]
        for entry in version.searched:
            there, rows = entry.find_live(left)
            if not len(rows):
                continue
            picks.append(Pick(entry.segment, rows))
            if len(rows) == len(wanted):
                found.append(wanted)
                break
            found.append(wanted[there])
            is_left = np.ones(len(wanted), np.bool_)
            is_left[there] = False
            others = is_left.nonzero()[0]
            left, wanted = sort_keys.take(left, others), wanted[others]
    places = np.full(len(distinct), NO_ROW)
    if found:
        # Rows come in the order of the picks.
        in_order = np.concatenate(found)
        places[in_order] = np.arange(len(in_order))
    return KeyedPicks(picks, places[groups], searched)
