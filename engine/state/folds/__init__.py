"""How each kind of store turns rows that a job writes into rows that the store has: a file a kind.

A result never depends on where rows were cut into epochs: every replica gets the same bits.
"""

from __future__ import annotations

from engine.model.kinds import KeyValue, Merge, Session, Versioned
from engine.model.schema import StoreDefinition
from engine.state.folds.fold import Fold, FoundRows, KeyGroups, StoredState
from engine.state.folds.latest import LatestFold
from engine.state.folds.merge import MergeFold
from engine.state.folds.session import SessionFold
from engine.state.folds.versioned import VersionedFold

__all__ = ["Fold", "FoundRows", "KeyGroups", "StoredState", "fold_of"]


def fold_of(definition: StoreDefinition) -> Fold | None:
    """The fold of a store.

    Args:
        definition: The store.

    Returns:
        Its fold; None where rows are applied as they are, as those of a plain key-value store.
    """
    kind = definition.behaviour.kind
    if isinstance(kind, Merge):
        return MergeFold(definition, kind)
    if isinstance(kind, KeyValue) and kind.order_by:
        return LatestFold(definition, kind)
    if isinstance(kind, Session):
        return SessionFold(definition, kind)
    if isinstance(kind, Versioned):
        return VersionedFold(definition, kind)
    return None
