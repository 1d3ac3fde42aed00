"""Copies of trees, and of single nodes, that do not know their places in the text."""

from __future__ import annotations

from collections.abc import Callable

from sqlglot import exp


def copy_without_positions(tree: exp.Expr) -> exp.Expr:
    """A copy of a tree that does not know its places in the text: to copy these takes longer than to copy the
    tree itself.

    Args:
        tree: A parsed tree, of any depth.
    """
    made = type(tree)()
    pending = [(tree, made)]
    while pending:
        node, copy = pending.pop()
        for name, value in node.args.items():
            if isinstance(value, exp.Expr):
                copy.args[name] = _child(value, copy, name, None, pending)
            elif isinstance(value, list):
                copy.args[name] = [
                    _child(each, copy, name, place, pending) if isinstance(each, exp.Expr) else each
                    for place, each in enumerate(value)
                ]
            else:
                copy.args[name] = value
    return made


def _child(
    node: exp.Expr, parent: exp.Expr, name: str, place: int | None, pending: list[tuple[exp.Expr, exp.Expr]]
) -> exp.Expr:
    """The copy of a child, without its own children yet."""
    copy = type(node)()
    copy.parent, copy.arg_key, copy.index = parent, name, place
    pending.append((node, copy))
    return copy


def replace_children(node: exp.Expr, replace: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """A node of the same kind whose children are replaced; without its place in the text.

    Args:
        node: A node.
        replace: Gives what stands in the place of a child.
    """
    args: dict[str, object] = {}
    for name, value in node.args.items():
        if isinstance(value, exp.Expr):
            args[name] = replace(value)
        elif isinstance(value, list):
            args[name] = [replace(each) if isinstance(each, exp.Expr) else each for each in value]
        else:
            args[name] = value
    return type(node)(**args)
