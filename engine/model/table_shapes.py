"""What the names of a statement mean, as a client was told: stores, in one of their shapes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.schema import GroupName, StoreName

UNKNOWN_GROUP = GroupName("")


@dataclass(frozen=True)
class TableShape:
    """What a name of a statement means.

    Attributes:
        name: The name, as it is written among all names.
        store: The store.
        generation: Which of the store's shapes, and which of the stores that have had its name:
            `StoreDefinition.amendment`.
        group: The store's group, whose amendments these are; `UNKNOWN_GROUP` where an older version has told
            the columns.
    """

    name: StoreName
    store: StoreName
    generation: int
    group: GroupName


ExpectedShapes = tuple[TableShape, ...]
"""What names meant when a client was told the columns of a statement: `BoundStatement.shapes`."""
