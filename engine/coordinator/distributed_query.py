"""A statement as the coordinator gets it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from engine.coordinator.plans import Bind, Definitions
from engine.duckdb.deadline import Deadline
from engine.exec.query_result import QueryResult
from engine.model.read_point import ReadPoint
from engine.model.schema import GroupName
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments
from engine.statements.pin import Pin


@dataclass(frozen=True)
class DistributedQuery:
    """A statement as the coordinator gets it.

    Attributes:
        statement: The statement.
        arguments: What it is used with.
        limit: How many rows at most, where its plan is plain rows; None for all.
        definitions: All stores.
        read_point: Which epochs will do.
        deadline: When it must end.
        bind: Binds it unsplit.
        answer: Answers it on this host.
        explain: The lines of EXPLAIN on this host.
        seconds: Adds the time since the statement came, `total`, to the times of steps by name.
        in_shapes: Binds its text anew with what its stores are where so many migrations of their groups are
            in effect: `Requests.in_shapes`.
        has_expected_shapes: Whether whoever asks was told which columns the answer has.
    """

    statement: ReadyStatement
    arguments: Arguments
    limit: int | None
    definitions: Definitions
    read_point: ReadPoint
    deadline: Deadline
    bind: Bind
    answer: Callable[[Pin], QueryResult]
    explain: Callable[[Pin], list[str]]
    seconds: Callable[..., dict[str, float]]
    in_shapes: Callable[[Mapping[GroupName, int]], DistributedQuery | None]
    has_expected_shapes: bool = False

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Types of the parameters' values."""
        return tuple(value.type for value in self.arguments.parameters)
