"""What a statement is used with: the client's parameters, its own time, and what the engine makes of
expressions that read no rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.deadline import Deadline
from engine.duckdb.constants import ConstantFolder
from engine.duckdb.parameter_values import python_value
from engine.plan.arguments import TIME_TYPE
from engine.plan.statement import ReadyStatement
from engine.plan.values import Arguments, Computed
from engine.sql.engine_dialect import EngineDialect
from engine.sql.parameters import fix_types
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed

MOST_COMPUTED = 64
"""Expressions of a statement that are computed before its rows are read; beyond them nothing is pruned."""
_KEPT = CacheLimits(1000, 1 << 20)
_ENTRY_BYTES = 500
"""What an expression takes besides its text."""

Clock = Callable[[], int]
"""Nanoseconds since 1970."""


@dataclass(frozen=True)
class _TypedText:
    """An expression for the engine.

    Attributes:
        sql: Its text; parameters have types in it.
        parameters: Their numbers.
    """

    sql: str
    parameters: frozenset[int]


class ArgumentMaker:
    """Makes what statements are used with. Safe for threads.

    Args:
        folder: Computes expressions.
        clock: Tells the time of statements.
    """

    def __init__(self, folder: ConstantFolder, clock: Clock) -> None:
        self._folder = folder
        self._clock = clock
        # What expressions without parameters are does not change; None in a tuple is as good as a value.
        self._values: LeastRecentlyUsed[tuple[pa.Scalar | None]] = LeastRecentlyUsed(_KEPT)
        self._texts: LeastRecentlyUsed[_TypedText] = LeastRecentlyUsed(_KEPT)

    def make(
        self,
        statement: ReadyStatement,
        parameters: tuple[pa.Scalar, ...],
        lists: Mapping[str, pa.RecordBatch],
        deadline: Deadline,
        time: pa.Scalar | None = None,
    ) -> Arguments:
        """What an execution of a statement is used with.

        Args:
            statement: The statement.
            parameters: Values of its parameters, as `engine.plan.arguments.parameter_values` gives them.
            lists: Its lists.
            deadline: When it must end.
            time: Its time; None for now.
        """
        if statement.bound.reads_time:
            parameters = (*parameters, pa.scalar(self._clock() // 1000, TIME_TYPE) if time is None else time)
        if not statement.computed:
            return Arguments(parameters, lists)
        return Arguments(
            parameters, lists, self._compute(statement.computed[:MOST_COMPUTED], parameters, deadline)
        )

    def _compute(
        self, operands: tuple[Computed, ...], parameters: tuple[pa.Scalar, ...], deadline: Deadline
    ) -> Mapping[str, pa.Scalar]:
        found: dict[str, pa.Scalar] = {}
        unknown: list[tuple[Computed, _TypedText]] = []
        for operand in operands:
            kept = self._values.get(operand.text)
            if kept is None:
                unknown.append((operand, self._typed_text(operand, parameters)))
            elif kept[0] is not None:
                found[operand.text] = kept[0]
        if not unknown:
            return found
        try:
            numbers = {number for _, typed in unknown for number in typed.parameters}
            given = {str(number): python_value(parameters[number - 1]) for number in sorted(numbers)}
        except (ValueError, OverflowError):
            # Dates and timestamps beyond the years that Python knows.
            return found
        values = self._folder.values([typed.sql for _, typed in unknown], given, deadline)
        for (operand, typed), value in zip(unknown, values, strict=True):
            if not typed.parameters:
                self._values.put(operand.text, (value,), _ENTRY_BYTES + len(operand.text))
            if value is not None:
                found[operand.text] = value
        return found

    def _typed_text(self, operand: Computed, parameters: tuple[pa.Scalar, ...]) -> _TypedText:
        types = tuple(value.type for value in parameters)
        key = (operand.text, types)
        found = self._texts.get(key)
        if found is None:
            numbers = frozenset(int(mark.name) for mark in operand.node.find_all(exp.Placeholder))
            found = _TypedText(fix_types(operand.node, types).sql(dialect=EngineDialect), numbers)
            self._texts.put(key, found, _ENTRY_BYTES + len(operand.text) + len(found.sql))
        return found
