"""How deep a tree may be, and how long chains of conditions become less deep: what comes after the parser
recurses over trees.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from engine.errors import InvalidInput

MAX_DEPTH = 1000
"""Nodes of the tree above each other."""
MAX_TERMS = 4000
"""Operators behind each other, as in a sum of so many numbers; the engine takes as many
(`engine.duckdb.database`).
"""
_BALANCED_FROM = 32
"""So many conditions joined by AND or OR become a balanced tree: what comes after recurses over trees."""
TOO_DEEP = "The statement nests too deeply: write inner queries as WITH, or ask in parts."


def check_depth(tree: exp.Expr) -> None:
    """Refuse a tree of too many nodes above each other, or operators behind each other."""
    stack = [(tree, 0, 0)]
    while stack:
        node, depth, terms = stack.pop()
        if depth > MAX_DEPTH or terms > MAX_TERMS:
            raise InvalidInput(
                TOO_DEEP
                if depth > MAX_DEPTH
                else f"The statement has more than {MAX_TERMS} operators behind each other."
            )
        is_binary = isinstance(node, exp.Binary)
        for child in node.iter_expressions():
            is_chained = is_binary and child.arg_key == "this" and isinstance(child, exp.Binary)
            stack.append((child, depth, terms + 1) if is_chained else (child, depth + 1, 0))


def balance_conditions(tree: exp.Expr) -> exp.Expr:
    """A tree in which no long chain of AND or OR is deep."""
    for node in list(tree.find_all(exp.And, exp.Or)):
        if type(node.parent) is type(node) or not isinstance(node.this, type(node)):
            continue
        conditions = list(node.flatten(unnest=False))
        if len(conditions) >= _BALANCED_FROM:
            found = _join_conditions(type(node), conditions)
            node.set("this", found.this)
            node.set("expression", found.args["expression"])
    return tree


def _join_conditions(connector: type[exp.Connector], conditions: Sequence[exp.Expr]) -> exp.Expr:
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return connector(
        this=_join_conditions(connector, conditions[:middle]),
        expression=_join_conditions(connector, conditions[middle:]),
    )
