"""Runs split statements in one process: rows spread over hosts by `engine.model.partitioning`, fragments host
by host, then the merge.

All is one DuckDB with a schema for each host, so that rows of fragments keep the engine's own types on their
way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

import duckdb
import pyarrow as pa
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from engine.model.partitioning import partition_of
from engine.model.schema import StoreDefinition, StoreName
from engine.plan.arguments import TIME_TYPE
from engine.plan.logical.trees import PART_PREFIX
from engine.plan.split.nodes import Fragment, SelectSplit, SplitPlan
from engine.sql.bind import BoundStatement, StoreReference, bind
from engine.sql.engine_dialect import EngineDialect
from engine.sql.literals import lift
from engine.sql.parameters import fix_types
from engine.sql.parse import parse
from tests.support.statement_time import STATEMENT_TIME

WHOLE = "whole"
COORDINATOR = "coordinator"


def bound_statement(sql: str, definitions: Collection[StoreDefinition]) -> BoundStatement:
    """A statement of DuckDB's dialect, bound to stores."""
    lifted = lift(sql, "duckdb", lists=False)
    return bind(
        parse(lifted, "duckdb"), lifted.lists, {definition.name: definition for definition in definitions}
    )


class SplitRunner:
    """Stores whose rows are on several hosts, and a coordinator.

    Args:
        stores: Definition and rows of each store.
        hosts: How many hosts there are. A host holds some partitions of a store, or none; hosts with the same
            partitions of stores of one partition count are the same.
    """

    def __init__(self, stores: Mapping[StoreName, tuple[StoreDefinition, pa.Table]], hosts: int) -> None:
        self._definitions = {name: definition for name, (definition, _) in stores.items()}
        self._hosts = hosts
        self._connection = duckdb.connect(":memory:")
        self._connection.execute("SET TimeZone = 'UTC'")
        for schema in (WHOLE, COORDINATOR, *(f"host_{host}" for host in range(hosts))):
            self._connection.execute(f"CREATE SCHEMA {schema}")
        for definition, rows in stores.values():
            self._create_on_hosts(definition, rows.cast(definition.schema))

    @property
    def definitions(self) -> Collection[StoreDefinition]:
        """The stores."""
        return self._definitions.values()

    def _create_on_hosts(self, definition: StoreDefinition, rows: pa.Table) -> None:
        self._create(f'{WHOLE}."{_stored_name(definition)}"', rows)
        placed = partition_of([rows.column(name) for name in definition.partition_by], definition.partitions)
        for host in range(self._hosts):
            is_global = definition.behaviour.is_global
            mask = pa.array(
                [is_global or self._host_of(definition, int(number)) == host for number in placed], pa.bool_()
            )
            self._create(f'host_{host}."{_stored_name(definition)}"', rows.filter(mask))

    def _host_of(self, definition: StoreDefinition, partition: int) -> int:
        """Stores with equal partition counts are held alike; others are not."""
        return (partition * 5 + definition.partitions * 3) % self._hosts

    def _holders(self, references: Sequence[StoreReference]) -> list[int]:
        """The hosts that run a fragment: those with partitions of its spread stores, or any one that has all
        of the global ones.
        """
        spread = [each.definition for each in references if not each.definition.behaviour.is_global]
        return sorted(
            {
                self._host_of(definition, number)
                for definition in spread
                for number in range(definition.partitions)
            }
        ) or [0]

    def _create(self, name: str, rows: pa.Table) -> None:
        self._connection.register("__rows", rows)
        self._connection.execute(f'CREATE TABLE {name} AS SELECT * FROM "__rows"')
        self._connection.unregister("__rows")

    def bind(self, sql: str) -> BoundStatement:
        """A statement over the stores."""
        return bound_statement(sql, self.definitions)

    def run_whole(self, bound: BoundStatement, parameters: Sequence[Any] = ()) -> pa.Table:
        """The answer of the unsplit statement over all rows."""
        assert bound.tree is not None
        with self._scans(WHOLE, bound.references):
            return self._query(WHOLE, bound.tree, bound, parameters)

    def run(self, plan: SplitPlan, bound: BoundStatement, parameters: Sequence[Any] = ()) -> pa.Table:
        """The answer of a split statement, with the names that the plan gives.

        Args:
            plan: How it is split.
            bound: The statement.
            parameters: A value for each parameter.

        Returns:
            The rows; columns are in the statement's order.
        """
        made: list[str] = []
        try:
            for fragment in plan.fragments:
                self._run_fragment(fragment, bound, parameters, made)
                made.append(fragment.name)
            if plan.merge is None:
                return self._connection.sql(f'SELECT * FROM main."{made[-1]}"').to_arrow_table()
            _check_tables(plan.merge, made)
            return self._query(COORDINATOR, plan.merge, bound, parameters)
        finally:
            # The last of them may have failed on its first host, or on a later one.
            for fragment in plan.fragments:
                self._connection.execute(f'DROP TABLE IF EXISTS main."{fragment.name}"')

    def run_select(self, split: SelectSplit, part: str, bound: BoundStatement) -> pa.Table:
        """The answer of one SELECT in two phases over the statement's references."""
        return self.run(
            SplitPlan(
                (split.rule,), (Fragment(part, split.partial, bound.references, (), split.rule),), split.merge
            ),
            bound,
        )

    def _run_fragment(
        self, fragment: Fragment, bound: BoundStatement, parameters: Sequence[Any], made: Sequence[str]
    ) -> None:
        assert set(fragment.inputs) <= set(made), (fragment.inputs, made)
        _check_tables(
            fragment.tree, (*fragment.inputs, *(reference.scan for reference in fragment.references))
        )
        schemas = (
            [f"host_{host}" for host in self._holders(fragment.references)]
            if fragment.references
            else [COORDINATOR]
        )
        for number, schema in enumerate(schemas):
            with self._scans(schema, fragment.references):
                sql, values = _prepare(fragment.tree, bound, parameters)
                self._connection.execute(f"SET search_path = '{schema},main'")
                made_here = (
                    f'CREATE TABLE main."{fragment.name}" AS {sql}'
                    if not number
                    else f'INSERT INTO main."{fragment.name}" {sql}'
                )
                self._connection.execute(made_here, values)

    @contextmanager
    def _scans(self, schema: str, references: Sequence[StoreReference]) -> Iterator[None]:
        """Scans of stores, and nothing but the columns that the statement asks for."""
        for each in references:
            columns = ", ".join(f'"{_double_quotes(column)}"' for column in each.columns) or "1 AS __live"
            self._connection.execute(
                f'CREATE VIEW {schema}."{each.scan}" AS SELECT {columns} FROM '
                f'{schema}."{_stored_name(each.definition)}"'
            )
        try:
            yield
        finally:
            for each in references:
                self._connection.execute(f'DROP VIEW {schema}."{each.scan}"')

    def _query(
        self, schema: str, tree: exp.Expr, bound: BoundStatement, parameters: Sequence[Any]
    ) -> pa.Table:
        self._connection.execute(f"SET search_path = '{schema},main'")
        sql, values = _prepare(tree, bound, parameters)
        return (
            self._connection.sql(sql, params=values) if values else self._connection.sql(sql)
        ).to_arrow_table()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()


def _prepare(tree: exp.Expr, bound: BoundStatement, parameters: Sequence[Any]) -> tuple[str, list[Any]]:
    """A tree as SQL with typed parameters, numbered anew, and the values of those that are in it."""
    types = [slot.type or pa.string() for slot in bound.parameters]
    if bound.reads_time:
        types, parameters = [*types, TIME_TYPE], [*parameters, STATEMENT_TIME]
    typed = fix_types(tree, types).copy()
    marks = list(typed.find_all(exp.Placeholder))
    used = sorted({int(mark.name) for mark in marks})
    for mark in marks:
        mark.set("this", str(used.index(int(mark.name)) + 1))
    return str(typed.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE)), [
        parameters[number - 1] for number in used
    ]


def _check_tables(tree: exp.Expr, allowed: Collection[str]) -> None:
    """A tree reads no scans and no fragments but those that it says."""
    names = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if table.name not in names and table.name.startswith((PART_PREFIX, "__scan_", "___scan_")):
            assert table.name in allowed, (table.name, allowed)


def _stored_name(definition: StoreDefinition) -> str:
    return _double_quotes(f"store {definition.name}")


def _double_quotes(name: str) -> str:
    return name.replace('"', '""')
