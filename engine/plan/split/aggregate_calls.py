"""Calls of aggregate functions, taken apart and put together again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.logical.function_properties import is_aggregate
from engine.sql.functions import function_name

_WRAPPERS = (exp.Filter, exp.WithinGroup, exp.IgnoreNulls, exp.RespectNulls)

Replace = Callable[[exp.Expr], exp.Expr]


@dataclass(frozen=True)
class AggregateCall:
    """A call of an aggregate with what belongs to it.

    Attributes:
        function: The function's node, which holds its arguments with DISTINCT and ORDER BY around them.
        wrappers: Nodes around it from the outside in, without FILTER.
        filter: Condition of its FILTER clause.
    """

    function: exp.Expr
    wrappers: tuple[exp.Expr, ...] = ()
    filter: exp.Expr | None = None

    @property
    def name(self) -> str:
        """The function's name in lower case, as sqlglot calls it."""
        return function_name(self.function) if isinstance(self.function, exp.Func) else ""

    @property
    def is_distinct(self) -> bool:
        """Whether it aggregates different values only."""
        return any(isinstance(node, exp.Distinct) for node in self._modifiers())

    @property
    def order(self) -> tuple[exp.Ordered, ...]:
        """Its ORDER BY, or that of WITHIN GROUP."""
        orders = [*self._modifiers(), *(wrapper.args.get("expression") for wrapper in self.wrappers)]
        return tuple(key for order in orders if isinstance(order, exp.Order) for key in order.expressions)

    @property
    def arguments(self) -> tuple[exp.Expr, ...]:
        """The arguments in their order, without DISTINCT and ORDER BY."""
        found: list[exp.Expr] = []

        def note(argument: exp.Expr) -> exp.Expr:
            found.append(argument)
            # Not the argument itself: a node has one parent.
            return exp.Null()

        self._function_with(note, modifiers=False)
        return tuple(found)

    @property
    def nulls_are_kept(self) -> bool:
        """Whether RESPECT NULLS is said."""
        return any(isinstance(wrapper, exp.RespectNulls) for wrapper in self.wrappers)

    def with_arguments(self, replace: Replace, *, modifiers: bool) -> exp.Expr:
        """The call over other arguments, without its FILTER.

        Args:
            replace: What stands for each argument, and for each expression that it is ordered by.
            modifiers: Whether to keep DISTINCT and ORDER BY.

        Returns:
            A new node; what `replace` gives is not copied, so it must not be part of another tree.
        """
        made = self._function_with(replace, modifiers=modifiers)
        for wrapper in reversed(self.wrappers):
            around = {"this": made}
            if isinstance(order := wrapper.args.get("expression"), exp.Order):
                around["expression"] = _order(order, replace, modifiers=True)
            made = type(wrapper)(**around)
        return made

    def _modifiers(self) -> list[exp.Expr]:
        """DISTINCT and ORDER BY nodes of the function itself."""
        values = [
            value
            for argument in self.function.args.values()
            for value in (argument if isinstance(argument, list) else [argument])
        ]
        found = [value for value in values if isinstance(value, exp.Order | exp.Distinct)]
        return [
            *found,
            *(
                order.this
                for order in found
                if isinstance(order, exp.Order) and isinstance(order.this, exp.Distinct)
            ),
        ]

    def _function_with(self, replace: Replace, *, modifiers: bool) -> exp.Expr:
        args: dict[str, object] = {}
        for name, value in self.function.args.items():
            if isinstance(value, exp.Expr):
                args[name] = _argument(value, replace, modifiers=modifiers)
            elif isinstance(value, list):
                args[name] = [_argument(each, replace, modifiers=modifiers) for each in value]
            else:
                args[name] = value
        return type(self.function)(**args)


def _argument(node: exp.Expr, replace: Replace, *, modifiers: bool) -> exp.Expr:
    if isinstance(node, exp.Order):
        return _order(node, replace, modifiers=modifiers)
    if isinstance(node, exp.Distinct):
        values = [_argument(each, replace, modifiers=modifiers) for each in node.expressions]
        return exp.Distinct(expressions=values) if modifiers or len(values) != 1 else values[0]
    return replace(node)


def _order(node: exp.Order, replace: Replace, *, modifiers: bool) -> exp.Expr:
    inner = _argument(node.this, replace, modifiers=modifiers) if isinstance(node.this, exp.Expr) else None
    if not modifiers and inner is not None:
        return inner
    keys = []
    for key in node.expressions:
        made = key.copy()
        made.set("this", replace_below_collation(key.this, replace))
        keys.append(made)
    return exp.Order(this=inner, expressions=keys) if inner is not None else exp.Order(expressions=keys)


def replace_below_collation(node: exp.Expr, replace: Replace) -> exp.Expr:
    """A sort key with the expression below its collation replaced.

    Args:
        node: Expression of a sort key, perhaps with COLLATE around it.
        replace: What stands for the expression.

    Returns:
        The replacement, with the same collation around it.
    """
    if isinstance(node, exp.Collate):
        return exp.Collate(
            this=replace_below_collation(node.this, replace), expression=node.expression.copy()
        )
    return replace(node)


def call_of(node: exp.Expr) -> AggregateCall | None:
    """The call that a node is, with FILTER, WITHIN GROUP and IGNORE NULLS around it.

    Args:
        node: Any node that is not the function of a window.

    Returns:
        The call; None if the node is none.
    """
    wrappers: list[exp.Expr] = []
    condition: exp.Expr | None = None
    while isinstance(node, _WRAPPERS):
        if isinstance(node, exp.Filter):
            if condition is not None:
                return None
            condition = node.expression.this
        else:
            wrappers.append(node)
        node = node.this
    return AggregateCall(node, tuple(wrappers), condition) if is_aggregate(node) else None


def filter_aggregate(node: exp.Expr, condition: exp.Expr | None) -> exp.Expr:
    """An aggregate over the rows for which a condition holds; over all for None."""
    return node if condition is None else exp.Filter(this=node, expression=exp.Where(this=condition.copy()))
