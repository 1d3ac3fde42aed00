"""What the names of a statement mean, as a client was told: stores, in one of their shapes."""

from __future__ import annotations

from dataclasses import dataclass

from engine.model.schema import StoreName


@dataclass(frozen=True)
class TableShape:
    """What a name of a statement means.

    Attributes:
        name: The name, as it is written among all names.
        store: The store.
        generation: Which of the store's shapes, and which of the stores that have had its name:
            `StoreDefinition.amendment`.
    """

    name: StoreName
    store: StoreName
    generation: int


ExpectedShapes = tuple[TableShape, ...]
"""What names meant when a client was told the columns of a statement: `BoundStatement.shapes`."""
