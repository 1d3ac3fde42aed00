"""Rows of whole keys: each partition is searched once for all of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from engine.model.schema import PartitionId
from engine.state import keys as sort_keys
from engine.state.keys import Keys, Needle, Rows
from engine.state.picked_rows import Pick
from engine.state.version import Version

FEW_KEYS = 16
"""Up to so many keys are looked up one by one: to sort them and to divide them among the partitions takes as
long as to search for ten.
"""
FEW_KEYS_OF_PARTITION = 4
"""Up to so many keys of a partition likewise: to search for all together takes a dozen calls of numpy a
segment, however few there are.
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
    if len(needles) <= FEW_KEYS:
        return _find_one_by_one(versions, needles, placed)
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
        for pick, places in _find_in_partition(version, needles[start:stop], order[start:stop]):
            picks.append(pick)
            found.append(places)
    place_of = np.full(len(distinct), NO_ROW)
    if found:
        # Rows come in the order of the picks.
        in_order = np.concatenate(found)
        place_of[in_order] = np.arange(len(in_order))
    return KeyedPicks(picks, place_of[groups], searched)


def _find_in_partition(version: Version, needles: Keys, places: Rows) -> Iterator[tuple[Pick, Rows]]:
    """The live rows of some keys of a partition, and for each pick the places of its keys.

    Args:
        version: The partition.
        needles: Sorted keys, each once.
        places: The place of each.
    """
    if len(needles) <= FEW_KEYS_OF_PARTITION:
        for place, needle in enumerate(sort_keys.to_needles(needles)):
            one = version.find_one(needle)
            if one is not None:
                yield Pick(one[0], np.array([one[1]])), places[place : place + 1]
        return
    for entry in version.searched:
        there, rows = entry.find_live(needles)
        if not len(rows):
            continue
        yield Pick(entry.segment, rows), places[there]
        if len(rows) == len(places):
            return
        is_left = np.ones(len(places), np.bool_)
        is_left[there] = False
        others = is_left.nonzero()[0]
        needles, places = sort_keys.take(needles, others), places[others]


def _find_one_by_one(
    versions: Mapping[PartitionId, Version], needles: Keys, placed: npt.NDArray[np.int32]
) -> KeyedPicks:
    """As `find_keyed_rows`, of few keys."""
    picks: list[Pick] = []
    place_of: dict[Needle, int] = {}
    searched: set[int] = set()
    needed = sort_keys.to_needles(needles)
    for needle, number in zip(needed, placed.tolist(), strict=True):
        version = versions.get(PartitionId(number))
        if needle in place_of or version is None:
            continue
        searched.add(number)
        found = version.find_one(needle)
        if found is not None:
            place_of[needle] = len(picks)
            picks.append(Pick(found[0], np.array([found[1]])))
    return KeyedPicks(picks, np.array([place_of.get(needle, NO_ROW) for needle in needed]), len(searched))
