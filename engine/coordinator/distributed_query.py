"""A statement as the coordinator gets it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from engine.deadline import Deadline
from engine.errors import NotFound, Unavailable
from engine.model.read_point import ReadPoint
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.statements.request import Request


@dataclass(frozen=True)
class DistributedQuery:
    """A statement as the coordinator gets it.

    Attributes:
        request: The statement, with everything that it is used with.
        definitions: All stores.

    Raises:
        NotFound: A store of the statement was dropped since that was bound.
        Unavailable: It was, and made anew.
    """

    request: Request
    definitions: Mapping[StoreName, StoreDefinition]

    def __post_init__(self) -> None:
        """See that there are all stores of the statement, which was bound a moment before.

        Raises:
            NotFound: One was dropped since.
            Unavailable: There is another one of its name by now, which may have other partitions.
        """
        for name, definition in self.statement.bound.definitions.items():
            found = self.definitions.get(name)
            if found is None:
                raise NotFound(f"There is no store {name} any more.")
            if found.since != definition.since:
                raise Unavailable(f"Store {name} was dropped and made anew just now: try again.")

    @property
    def statement(self) -> ReadyStatement:
        """The statement."""
        return self.request.statement

    @property
    def arguments(self) -> Arguments:
        """What it is used with."""
        return self.request.arguments

    @property
    def limit(self) -> int | None:
        """How many rows at most, where its plan is plain rows; None for all."""
        return self.request.limit

    @property
    def read_point(self) -> ReadPoint:
        """Which epochs will do."""
        return self.request.read_point

    @property
    def deadline(self) -> Deadline:
        """When it must end."""
        return self.request.deadline
