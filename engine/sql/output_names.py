"""Names of a query's columns where the text gives none."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp
from sqlglot.errors import SqlglotError

from engine.errors import LimitExceeded
from engine.sql.engine_dialect import EngineDialect
from engine.sql.written_size import MAX_COPIED_CHARACTERS, MOST_COPIES

_STANDS_IN = "stands in for a derived name"
"""Mark of an alias that the text does not have."""


def has_derived_names(tree: exp.Expr | None) -> bool:
    """Whether a result's columns may have names that the engine makes out of expressions.

    Args:
        tree: A statement.

    Returns:
        False where every column is a plain column or is named by the text, or where the statement has columns
        of its own making.
    """
    if not isinstance(tree, exp.Query):
        return False
    outputs = _first_select(tree).expressions
    if any(output.is_star for output in outputs):
        # A star takes over the names that a query, or a common table expression, within this one has.
        return any(
            _is_derived(output) for select in tree.find_all(exp.Select) for output in select.expressions
        )
    return any(_is_derived(output) for output in outputs)


def _first_select(query: exp.Expr) -> exp.Expr:
    """The SELECT that names a query's columns: of set operations it is the first one."""
    while not isinstance(query, exp.Select) and isinstance(query.this, exp.Expr):
        query = query.this
    return query


def _is_derived(output: exp.Expr) -> bool:
    return _STANDS_IN in output.meta or not isinstance(output, exp.Alias | exp.Column | exp.Star)


def name_outputs_around(nodes: Iterable[exp.Expr]) -> None:
    """Give outputs their text for a name, so that nothing put in place of what they hold gets into the name.

    Args:
        nodes: Nodes of a statement that will be replaced; unaliased outputs around them get an alias.

    Raises:
        LimitExceeded: The names would become much longer than the statement.
    """
    found = {
        id(output): output
        for node in nodes
        for output in _unnamed_outputs_around(node)
        if not isinstance(output, exp.Alias)  # it has its name since another node was replaced
    }
    # All names are made before the first is given: the name of an output would have those within it in it,
    # twice as long with each level.
    for output, name in _names(found.values()):
        select = output.parent
        assert select is not None
        outputs = select.expressions
        alias = exp.Alias(this=output, alias=exp.to_identifier(name, quoted=True))
        alias.meta[_STANDS_IN] = True
        select.set("expressions", [alias if each is output else each for each in outputs])


def _names(outputs: Iterable[exp.Expr]) -> list[tuple[exp.Expr, str]]:
    """Outputs and their texts, without those that cannot be written."""
    found, written, longest = [], 0, 0
    for output in outputs:
        try:
            name = output.sql(dialect=EngineDialect)
        except (SqlglotError, ValueError, RecursionError):
            continue
        found.append((output, name))
        written, longest = written + len(name), max(longest, len(name))
        if written > MAX_COPIED_CHARACTERS + MOST_COPIES * longest:
            raise LimitExceeded(
                "The statement has many subqueries within each other whose columns have no names: name them "
                "with AS."
            )
    return found


def holds_unnamed(node: exp.Expr) -> bool:
    """Whether the name of some output is made out of an expression that has a node in it."""
    return bool(_unnamed_outputs_around(node))


def _unnamed_outputs_around(node: exp.Expr) -> list[exp.Expr]:
    found = []
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, exp.Select) and child.arg_key == "expressions" and _is_derived(child):
            found.append(child)
        child, parent = parent, parent.parent
    return found
