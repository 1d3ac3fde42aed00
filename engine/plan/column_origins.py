"""Which columns of stores the columns of a result are, as drivers tell it to tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlglot import exp

from engine.model.catalog_names import SCHEMA
from engine.model.names import fold
from engine.model.schema import StoreName
from engine.plan.logical.plan import LogicalPlan
from engine.sql.bind import StoreReference
from engine.sql.versions import HISTORY, is_versioned


@dataclass(frozen=True)
class ColumnOrigin:
    """The column that a result's column is, unchanged.

    Attributes:
        schema: Schema of its table.
        table: The table.
        column: Its name there.
    """

    schema: str
    table: StoreName
    column: str


def column_origins(plan: LogicalPlan | None) -> tuple[ColumnOrigin | None, ...]:
    """Where a query's columns come from.

    Args:
        plan: The query; None where it has no plan.

    Returns:
        One for each column: None for what is computed, or of several tables; empty where that is not known.
    """
    if plan is None:
        return ()
    return _Origins(plan).outputs(plan.tree)


class _Origins:
    """Finds the origins in one plan, those of each query once."""

    def __init__(self, plan: LogicalPlan) -> None:
        self._plan = plan
        self._known: dict[int, tuple[ColumnOrigin | None, ...]] = {}

    def outputs(self, query: exp.Expr) -> tuple[ColumnOrigin | None, ...]:
        """One for each output of a query."""
        while isinstance(query, exp.Subquery):
            query = query.this
        if not isinstance(query, exp.Select):
            return ()
        found = self._known.get(id(query))
        if found is None:
            tables = _tables(query)
            found = tuple(self._origin(output.unalias(), tables) for output in query.expressions)
            self._known[id(query)] = found
        return found

    def _origin(self, output: exp.Expr, tables: Mapping[str, exp.Expr]) -> ColumnOrigin | None:
        if not isinstance(output, exp.Column) or output.table not in tables:
            return None
        table, name = tables[output.table], output.name
        if isinstance(table, exp.Table):
            reference = self._plan.references.get(table.name)
            if reference is not None:
                return _store_column(reference, name)
            query = self._plan.ctes.get(table.name)
        else:
            query = table.this
        if query is None:
            return None
        names = [fold(each) for each in query.named_selects]
        origins = self.outputs(query)
        place = names.index(fold(name)) if fold(name) in names else len(origins)
        return origins[place] if place < len(origins) else None


def _tables(select: exp.Select) -> Mapping[str, exp.Expr]:
    """What a SELECT reads, by alias."""
    clause = select.args.get("from_")
    sources = [] if clause is None else [clause.this]
    sources += [join.this for join in select.args.get("joins") or ()]
    return {
        source.alias_or_name: source for source in sources if isinstance(source, exp.Table | exp.Subquery)
    }


def _store_column(reference: StoreReference, column: str) -> ColumnOrigin | None:
    if column not in reference.definition.schema.names:
        return None
    is_history = is_versioned(reference.definition) and not reference.is_held
    return ColumnOrigin(HISTORY if is_history else SCHEMA, reference.name, column)
