"""Rows that hosts send as they are: outputs, and what else the merge needs to order them or to tell them
apart.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.movable import has_columns, is_movable
from engine.plan.logical.trees import column, named_output, output_column, select_from, table, used_arguments
from engine.plan.split.aggregate_calls import replace_below_collation
from engine.plan.split.partials import NotSplitError
from engine.plan.split.select_forms import has_aggregates, output_names, output_values, source_of


@dataclass(frozen=True)
class PartialOrder:
    """An ORDER BY in both phases.

    Attributes:
        partial: Over the outputs of the partial SELECT.
        merge: Over the columns of partial rows.
        is_of_outputs: Whether every key is an output of the SELECT.
    """

    partial: exp.Order
    merge: exp.Order
    is_of_outputs: bool


def reads_rows_only(select: exp.Select) -> bool:
    """Whether every row of a SELECT is made of one row of its FROM clause: there are neither aggregates nor
    windows.

    Args:
        select: A SELECT.

    Returns:
        Whether it is so.
    """
    if used_arguments(select) & {"qualify", "windows"} or has_aggregates(select):
        return False
    order = select.args.get("order")
    return all(
        node.find(exp.Window) is None
        for node in (*select.expressions, *([order] if order is not None else []))
    )


class PartialOutputs:
    """The outputs of a SELECT as columns of partial rows, and hidden ones besides.

    Args:
        select: A qualified SELECT without aggregates.
        part: Name of the table that holds all hosts' partial rows.

    Raises:
        NotSplitError: An output cannot be evaluated by the hosts.
    """

    def __init__(self, select: exp.Select, part: str) -> None:
        self._select = select
        self._part = part
        self._values = output_values(select)
        self._hidden: list[exp.Expr] = []
        if not all(is_movable(value) for value in self._values):
            raise NotSplitError

    def order(self, order: exp.Order | None) -> PartialOrder | None:
        """The order in both phases.

        Args:
            order: ORDER BY of the SELECT.

        Returns:
            The order; None for none.

        Raises:
            NotSplitError: A key cannot be evaluated by the hosts.
        """
        if order is None:
            return None
        if used_arguments(order) - {"expressions"}:
            raise NotSplitError
        hidden = len(self._hidden)
        names: list[str] = []

        def name(key: exp.Expr) -> exp.Expr:
            names.append(self.name_of(key))
            return output_column(names[-1])

        partial = [_replace_key(key, replace_below_collation(key.this, name)) for key in order.expressions]
        places = iter(names)
        merge = [
            _replace_key(key, replace_below_collation(key.this, lambda _: column(self._part, next(places))))
            for key in order.expressions
        ]
        return PartialOrder(
            exp.Order(expressions=partial), exp.Order(expressions=merge), hidden == len(self._hidden)
        )

    def name_of(self, expression: exp.Expr) -> str:
        """The column of partial rows that has the value of an expression.

        Args:
            expression: An expression over the SELECT's rows, or the name of an output.

        Returns:
            The column's name; a new hidden column's if no output has the value.

        Raises:
            NotSplitError: It cannot be evaluated by the hosts, or names no single output.
        """
        if isinstance(expression, exp.Column) and not expression.table:
            named_so = [
                number
                for number, name in enumerate(output_names(self._select))
                if fold(name) == fold(expression.name)
            ]
            if len(named_so) != 1:
                raise NotSplitError
            return f"__out_{named_so[0]}"
        for prefix, known in (("__out_", self._values), ("__sort_", self._hidden)):
            for number, value in enumerate(known):
                if value == expression:
                    return f"{prefix}{number}"
        # Without a column it might be the number of an output.
        if not is_movable(expression) or not has_columns(expression):
            raise NotSplitError
        self._hidden.append(expression)
        return f"__sort_{len(self._hidden) - 1}"

    def expression_of(self, name: str) -> exp.Expr:
        """The expression over the SELECT's rows that a column of partial rows has the value of."""
        number = int(name.rsplit("_", 1)[1])
        return (self._values if name.startswith("__out_") else self._hidden)[number]

    def partial_select(self) -> exp.Select:
        """The SELECT that hosts run, without order and limit."""
        outputs = [named_output(value.copy(), f"__out_{number}") for number, value in enumerate(self._values)]
        outputs += [
            named_output(value.copy(), f"__sort_{number}") for number, value in enumerate(self._hidden)
        ]
        return exp.Select(expressions=outputs, **source_of(self._select))

    def merge(self, order: exp.Order | None) -> exp.Select:
        """The SELECT over partial rows: outputs under their own names, in an order, with LIMIT and OFFSET."""
        outputs = [
            named_output(column(self._part, f"__out_{number}"), name)
            for number, name in enumerate(output_names(self._select))
        ]
        made = select_from(outputs, table(self._part, self._part))
        made.set("order", order)
        for clause in ("limit", "offset"):
            if clause in used_arguments(self._select):
                made.set(clause, self._select.args[clause].copy())
        return made


def _replace_key(key: exp.Ordered, expression: exp.Expr) -> exp.Ordered:
    """The same direction and place of NULLs for another expression."""
    made = key.copy()
    made.set("this", expression)
    return made
