"""Common table expressions: some are worked out once, before all that reads them.

One that hosts can work out in place stays in the fragments that read it. It becomes a fragment of its own if
hosts cannot, or if several read it who might see different rows: where ties decide, as for row_number, or the
order of a sum of floating point numbers, it is worked out once, so that all its readers see the same rows, as
on one host. Those that nothing reads are forgotten: to work them out can fail where the statement does not.
"""

from __future__ import annotations

from sqlglot import exp

from engine.plan.logical.function_properties import is_aggregate
from engine.plan.logical.trees import tables_of
from engine.plan.split.planner import Planner, StatementRule

_STABLE = (exp.Count, exp.CountIf, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)


def settle_common_tables(planner: Planner) -> None:
    """Work out once those common table expressions that must be.

    Args:
        planner: The planner, whose statement is changed.
    """
    tree = planner.logical.tree
    _drop_unread(planner, tree)
    trees: list[exp.Query] = [tree, *planner.placer.ctes.values()]
    for name, query in list(planner.placer.ctes.items()):
        readers = [found for each in trees for found in tables_of(each) if found.name == name]
        if not readers:
            continue
        planner.prepare(query, ())
        placement = planner.placer.settle(query).placement
        if placement is not None and (
            len(readers) == 1 or all(map(is_repeatable, _queries_read(planner, query)))
        ):
            continue
        part = planner.materialise(query)
        for found in readers:
            found.set("this", exp.to_identifier(part, quoted=True))


def _drop_unread(planner: Planner, tree: exp.Query) -> None:
    """Forget common table expressions that the statement never reads: to work them out can fail where the
    statement does not.
    """
    if not planner.placer.ctes:
        return
    read = {id(query) for query in _queries_read(planner, tree)}
    planner.placer.ctes = {name: query for name, query in planner.placer.ctes.items() if id(query) in read}


def _queries_read(planner: Planner, query: exp.Query) -> list[exp.Query]:
    """A query and the common table expressions that it reads."""
    found, pending = [query], [query]
    while pending:
        for each in tables_of(pending.pop()):
            known = planner.placer.ctes.get(each.name)
            if known is not None and not any(known is other for other in found):
                found.append(known)
                pending.append(known)
    return found


def is_repeatable(query: exp.Expr) -> bool:
    """Whether a query gives the same rows however often it is worked out: not so where ties, or the order of
    a sum, decide.

    Args:
        query: A resolved query; its ORDER BY, LIMIT and OFFSET are not looked at.
    """
    return not any(
        isinstance(node, exp.Window)
        or (isinstance(node, exp.Distinct) and node.args.get("on") is not None)
        or (is_aggregate(node) and not isinstance(node, _STABLE))
        for node in query.walk()
    )


COMMON_TABLES = StatementRule("common tables", settle_common_tables)
