"""Fragments made ready and typed, kept for texts that come again: what a host does to serve one, and a
coordinator to know what it will get.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.deadline import Deadline
from engine.duckdb.engine import Engine, Outputs
from engine.errors import InvalidInput
from engine.exec.engine_query import outputs_of, outputs_of_stored
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.arguments import TIME_TYPE
from engine.plan.plans import EnginePlan
from engine.plan.statement import ReadyStatement
from engine.sql.literals import LiftedText, LiteralList
from engine.sql.parsed_statement import StatementClass
from engine.sql.text import SourceText
from engine.statements.deep_stack import ready_statement
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed, statement_bytes


@dataclass(frozen=True)
class BoundFragment:
    """A fragment, ready to run.

    Attributes:
        statement: Its statement; parameters have the types that were given.
        outputs: Its columns.
    """

    statement: ReadyStatement
    outputs: Outputs


class FragmentCache:
    """Makes fragments ready. Safe for threads.

    Args:
        engine: Tells the types of their columns.
        limits: How many to keep.
    """

    def __init__(self, engine: Engine, limits: CacheLimits) -> None:
        self._engine = engine
        self._fragments: LeastRecentlyUsed[BoundFragment] = LeastRecentlyUsed(limits)

    def bind(
        self,
        sql: str,
        definitions: Mapping[StoreName, StoreDefinition],
        inputs: Mapping[str, pa.Schema],
        parameters: Sequence[pa.DataType],
        deadline: Deadline,
    ) -> BoundFragment:
        """Make a fragment ready.

        Args:
            sql: Its text.
            definitions: All stores.
            inputs: Columns of the tables that it reads besides stores.
            parameters: Canonical types of its parameters.
            deadline: When the statement must end.

        Returns:
            The fragment.

        Raises:
            BindingError: The engine refuses it.
            LivestateError: It cannot be read, or fails in another way.
        """
        key = (
            sql,
            tuple((name, _key_of(schema)) for name, schema in sorted(inputs.items())),
            tuple(map(str, parameters)),
        )
        found = self._fragments.get(key)
        if found is None or not found.statement.is_current(definitions):
            statement = _statement(sql, definitions, inputs, parameters, deadline)
            found = BoundFragment(statement, self._outputs(statement, deadline))
            self._fragments.put(key, found, statement_bytes(sql))
        return found

    def _outputs(self, statement: ReadyStatement, deadline: Deadline) -> Outputs:
        plan = statement.plan
        if plan is not None and not isinstance(plan, EnginePlan):
            return outputs_of_stored(plan.schema)
        return outputs_of(self._engine, statement, statement.types, (), deadline)


def _key_of(schema: pa.Schema) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, str(field.type)) for field in schema)


def _statement(
    sql: str,
    definitions: Mapping[StoreName, StoreDefinition],
    inputs: Mapping[str, pa.Schema],
    parameters: Sequence[pa.DataType],
    deadline: Deadline,
) -> ReadyStatement:
    lists = tuple(
        LiteralList(name, pa.RecordBatch.from_pylist([], schema)) for name, schema in inputs.items()
    )
    ready = ready_statement(LiftedText(SourceText(sql, sql), lists), "duckdb", definitions, deadline)
    slots = ready.bound.parameters
    if ready.bound.statement_class is not StatementClass.QUERY:
        raise InvalidInput("A fragment must be a query.")
    if len(slots) != len(parameters):
        raise InvalidInput(
            f"The fragment has {len(slots)} parameters, and {len(parameters)} values were given."
        )
    typed = tuple(replace(slot, type=kind) for slot, kind in zip(slots, parameters, strict=True))
    # A fragment of an older version may read the clock here.
    types = (*parameters, TIME_TYPE) if ready.bound.reads_time else tuple(parameters)
    return ReadyStatement(replace(ready.bound, parameters=typed), ready.plan, ready.engine_sql(types), types)
