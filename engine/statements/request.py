"""One statement to run, with everything that it is used with."""

from __future__ import annotations

import time
from dataclasses import dataclass

import pyarrow as pa

from engine.deadline import Deadline
from engine.model.read_point import NEWEST, ReadPoint
from engine.plan.arguments import Given
from engine.plan.plans import MOST_ROWS, RowsPlan
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments, Constant, Parameter
from engine.statements.pin import ALL_NEWEST, Pin
from engine.statements.statement_cache import ReadyText

REFUSED_LIMIT = -1
"""A LIMIT that only the engine can judge, and most likely refuses."""


@dataclass(frozen=True)
class Request:
    """One statement to run.

    Attributes:
        dialect: Dialect of its text.
        ready: The text, and the statement made of it.
        arguments: Its parameters and lists.
        deadline: When it must end.
        started: When it came, by `time.perf_counter`.
        read_point: Which epochs will do.
        pin: What of its stores is read here.
        given: What was given for the parameters.
        has_expected_shapes: Whether the client was told which columns the answer has.
        written: What the client wrote, where values were taken out of it; None where that is the text.
        misfit: Why what was given is not for its parameters, as its stores are what it is bound with; it may
            be for what they are at other epochs. None where it is.
    """

    dialect: str
    ready: ReadyText
    arguments: Arguments
    deadline: Deadline
    started: float
    read_point: ReadPoint = NEWEST
    pin: Pin = ALL_NEWEST
    given: Given = None
    has_expected_shapes: bool = False
    written: str | None = None
    misfit: str | None = None

    @property
    def statement(self) -> ReadyStatement:
        """The statement."""
        return self.ready.statement

    @property
    def types(self) -> tuple[pa.DataType, ...]:
        """Types of the parameters' values."""
        return tuple(value.type for value in self.arguments.parameters)

    @property
    def time(self) -> pa.Scalar | None:
        """The statement's time; None where it reads none, or has no values yet."""
        parameters = self.arguments.parameters
        return parameters[-1] if self.statement.bound.reads_time and parameters else None

    @property
    def asks_for_epochs(self) -> bool:
        """Whether it asks for just some epochs, at which its stores may be something else."""
        return any(
            self.read_point.group_as_of(definition.group) is not None
            for definition in self.statement.bound.definitions.values()
        )

    @property
    def limit(self) -> int | None:
        """How many rows at most, where the plan is plain rows and any of them will do; None for all, and
        `REFUSED_LIMIT` for what the engine must judge.
        """
        plan = self.statement.plan
        is_any = isinstance(plan, RowsPlan) and plan.takes_any_rows
        return limit_of(plan.limit, self.arguments) if isinstance(plan, RowsPlan) and is_any else None

    def seconds(self, **steps: float) -> dict[str, float]:
        """Times of steps, with the time since the statement came."""
        return {**steps, "total": time.perf_counter() - self.started}


def limit_of(operand: Constant | Parameter | None, arguments: Arguments) -> int | None:
    """How many rows at most; None for all, and `REFUSED_LIMIT` for what the engine must judge."""
    if operand is None:
        return None
    value = arguments.parameters[operand.index].as_py() if isinstance(operand, Parameter) else operand.value
    if value is None:
        return None
    return value if isinstance(value, int) and 0 <= value <= MOST_ROWS else REFUSED_LIMIT
