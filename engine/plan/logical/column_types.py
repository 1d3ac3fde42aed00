"""Types of the columns of a logical plan's tables, as far as they are certain."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.plan import LogicalPlan
from engine.plan.logical.trees import column_text, output_names, text


class ColumnTypes:
    """Finds types. A column has the type of the store's column that it is, through any number of queries that
    hand it on; of anything that is worked out, nothing is known.

    Args:
        plan: The plan; conditions may be added to it meanwhile.
    """

    def __init__(self, plan: LogicalPlan) -> None:
        self._plan = plan
        self._outputs: dict[int, Mapping[str, pa.DataType]] = {}

    def columns(self, select: exp.Select) -> Mapping[str, pa.DataType]:
        """Types of the columns of a SELECT's tables, by the columns' texts."""
        return {
            column_text(node.alias, name): found
            for node in tables_of_from(select)
            for name, found in self._of_table(node).items()
        }

    def _of_table(self, node: exp.Expr) -> Mapping[str, pa.DataType]:
        if isinstance(node, exp.Subquery):
            return self.outputs(node.this)
        if not isinstance(node, exp.Table):
            return {}
        if node.name in self._plan.references:
            schema = self._plan.references[node.name].definition.schema
        elif node.name in self._plan.lists:
            schema = self._plan.lists[node.name]
        elif node.name in self._plan.ctes:
            return self.outputs(self._plan.ctes[node.name])
        else:
            return {}
        return dict(zip(schema.names, schema.types, strict=True))

    def outputs(self, query: exp.Expr) -> Mapping[str, pa.DataType]:
        """Types of a query's outputs, by their names."""
        found = self._outputs.get(id(query))
        if found is None:
            found = self._outputs[id(query)] = self._find_outputs(query)
        return found

    def _find_outputs(self, query: exp.Expr) -> Mapping[str, pa.DataType]:
        if isinstance(query, exp.Subquery):
            return self.outputs(query.this)
        if isinstance(query, exp.SetOperation):
            left, right = query.this, query.args["expression"]
            mine, theirs = self.outputs(left), self.outputs(right)
            names = zip(output_names(left), output_names(right), strict=True)
            return {
                name: mine[name] for name, other in names if name in mine and mine[name] == theirs.get(other)
            }
        if not isinstance(query, exp.Select):
            return {}
        columns = self.columns(query)
        return {
            output.alias: columns[text(output.this)]
            for output in query.expressions
            if isinstance(output.this, exp.Column) and text(output.this) in columns
        }


def tables_of_from(select: exp.Select) -> Iterator[exp.Expr]:
    """The tables of a FROM clause, in their order."""
    clause = select.args.get("from_")
    if clause is not None:
        yield clause.this
    yield from (join.this for join in select.args.get("joins") or ())
