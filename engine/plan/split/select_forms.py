"""What a SELECT must look like before a rule may split it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from sqlglot import exp

from engine.model.names import fold
from engine.plan.logical.function_properties import is_aggregate
from engine.plan.logical.trees import used_arguments
from engine.plan.split.partials import OUTPUT_PREFIXES, NotSplitError

_SOURCE = frozenset({"from_", "joins", "laterals", "where", "with_"})
_LARGEST_LIMIT = 2**63 - 1


def check_clauses(select: exp.Select, allowed: Collection[str]) -> None:
    """Refuse a SELECT with clauses that a rule does not know.

    Args:
        select: A SELECT.
        allowed: Names of the clauses that it may have besides FROM and WHERE.

    Raises:
        NotSplitError: It has others, reads no table or a column of a query around it, or has outputs without
            names or with names of partial rows.
    """
    if (
        "from_" not in used_arguments(select)
        or used_arguments(select) - _SOURCE - {"expressions", *allowed}
        or not is_closed(select)
    ):
        raise NotSplitError
    if any(not name or fold(name).startswith(OUTPUT_PREFIXES) for name in output_names(select)):
        raise NotSplitError


def output_names(select: exp.Select) -> list[str]:
    """Names of the outputs, in their order."""
    return [str(output.alias_or_name) for output in select.expressions]


def output_values(select: exp.Select) -> list[exp.Expr]:
    """Expressions of the outputs, without their names."""
    return [output.this if isinstance(output, exp.Alias) else output for output in select.expressions]


def has_aggregates(select: exp.Select) -> bool:
    """Whether a SELECT puts its rows together: GROUP BY, HAVING, or an aggregate that is not a window's
    function.
    """
    if used_arguments(select) & {"group", "having"}:
        return True
    return any(_holds_aggregate(node) for node in expressions_after_aggregation(select))


def expressions_after_aggregation(select: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a SELECT that are evaluated after its rows are put together."""
    for name in ("expressions", "having", "qualify", "windows", "distinct", "order", "limit", "offset"):
        found = select.args.get(name)
        for node in found if isinstance(found, list) else [found]:
            if isinstance(node, exp.Expr):
                yield node


def _holds_aggregate(node: exp.Expr) -> bool:
    if isinstance(node, exp.Query):
        return False
    if isinstance(node, exp.Window):
        head = window_head(node)
        return any(
            _holds_aggregate(child) for child in node.iter_expressions() if child is not node.this
        ) or any(
            _holds_aggregate(child)
            for wrapper in head
            for child in wrapper.iter_expressions()
            if not any(child is other for other in head)
        )
    return is_aggregate(node) or any(_holds_aggregate(child) for child in node.iter_expressions())


def window_head(window: exp.Window) -> list[exp.Expr]:
    """The function of a window with what is around it (FILTER, IGNORE NULLS), from the outside in; empty for
    a named window's definition.
    """
    found: list[exp.Expr] = []
    node = window.this
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        found.append(node)
        node = node.this
    return [*found, node] if isinstance(node, exp.Expr) and not isinstance(node, exp.Identifier) else found


def partial_limit(select: exp.Select) -> exp.Expr | None:
    """How many rows of the order each host must send: LIMIT and OFFSET together.

    Args:
        select: A SELECT.

    Returns:
        A number or an expression for LIMIT; None if it may be any number.

    Raises:
        NotSplitError: The LIMIT is no plain number of rows.
    """
    limit, offset = select.args.get("limit"), select.args.get("offset")
    if offset is not None and (not isinstance(offset, exp.Offset) or not _is_plain(offset.expression)):
        raise NotSplitError
    if limit is None or (isinstance(limit, exp.Limit) and limit.expression == exp.var("ALL")):
        return None
    if (
        not isinstance(limit, exp.Limit)
        or used_arguments(limit) - {"expression"}
        or not _is_plain(limit.expression)
    ):
        raise NotSplitError
    if offset is None:
        copied: exp.Expr = limit.expression.copy()
        return copied
    return _sum_of_limits(limit.expression, offset.expression)


def _is_plain(node: exp.Expr | None) -> bool:
    return node is not None and node.find(exp.Column, exp.Query, exp.Anonymous, exp.AggFunc) is None


def _sum_of_limits(limit: exp.Expr, offset: exp.Expr) -> exp.Expr | None:
    if all(isinstance(node, exp.Literal) and node.is_int for node in (limit, offset)):
        total = int(limit.name) + int(offset.name)
        return exp.Literal.number(total) if total <= _LARGEST_LIMIT else None
    wide = [
        exp.Cast(this=node.copy(), to=exp.DataType.build("INT128", dialect="duckdb"))
        for node in (limit, offset)
    ]
    # A NULL means no limit, or no offset; LEAST passes over it, and all rows are enough in either case.
    return exp.Least(
        this=exp.Add(this=wide[0], expression=wide[1]),
        expressions=[exp.Literal.number(_LARGEST_LIMIT)],
        ignore_nulls=True,
    )


def source_of(select: exp.Select) -> dict[str, object]:
    """Copies of the clauses that say which rows a SELECT reads."""
    made: dict[str, object] = {}
    for name in _SOURCE & used_arguments(select):
        value = select.args[name]
        made[name] = [each.copy() for each in value] if isinstance(value, list) else value.copy()
    return made


def is_closed(query: exp.Expr) -> bool:
    """Whether a query reads nothing of a query around it.

    Args:
        query: A query of a qualified tree.

    Returns:
        True if every qualified column is one of a table in the query itself.
    """
    return all(_is_from_within(found, query) for found in query.find_all(exp.Column) if found.table)


def _is_from_within(found: exp.Column, query: exp.Expr) -> bool:
    name = fold(found.table)
    node: exp.Expr | None = found
    while node is not None:
        if isinstance(node, exp.Select) and name in {fold(source.alias_or_name) for source in _sources(node)}:
            return True
        node = None if node is query else node.parent
    return False


def _sources(select: exp.Select) -> Iterator[exp.Expr]:
    if (first := select.args.get("from_")) is not None:
        yield first.this
    for join in select.args.get("joins") or []:
        yield join.this
    yield from select.args.get("laterals") or []
