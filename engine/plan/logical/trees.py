"""Small things about syntax trees that the rewrites of plans and the rules of splitting share."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence

from sqlglot import exp

from engine.model.names import fold
from engine.model.sql_types import quote_identifier
from engine.sql.engine_dialect import EngineDialect

PART_PREFIX = "__part_"
"""Tables of fragments' rows are named `__part_0`, `__part_1`, …; nothing else has such a name."""

EXPRESSION_CLAUSES = (
    "expressions",
    "where",
    "group",
    "having",
    "qualify",
    "windows",
    "distinct",
    "order",
    "limit",
    "offset",
)
"""The clauses of a SELECT that hold expressions, outside of its FROM clause."""

_QUOTED = re.compile(r'"((?:[^"]|"")*)"')


def column(alias: str, name: str) -> exp.Column:
    """`"alias"."name"`."""
    return exp.Column(this=exp.to_identifier(name, quoted=True), table=exp.to_identifier(alias, quoted=True))


def column_named(text: str) -> exp.Column:
    """The column of a `column_text`."""
    alias, name = (found.replace('""', '"') for found in _QUOTED.findall(text))
    return column(alias, name)


def output_column(name: str) -> exp.Column:
    """`"name"`: an output, as ORDER BY names it."""
    return exp.Column(this=exp.to_identifier(name, quoted=True))


def table(name: str, alias: str) -> exp.Table:
    """`"name" AS "alias"`."""
    return exp.Table(
        this=exp.to_identifier(name, quoted=True),
        alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True)),
    )


def named_output(expression: exp.Expr, name: str) -> exp.Alias:
    """`expression AS "name"`."""
    return exp.Alias(this=expression, alias=exp.to_identifier(name, quoted=True))


def select_from(outputs: Sequence[exp.Expr], source: exp.Expr) -> exp.Select:
    """`SELECT outputs FROM source`."""
    return exp.Select(expressions=list(outputs), from_=exp.From(this=source))


def drop_clauses(query: exp.Query, clauses: Collection[str]) -> exp.Query:
    """A query without some of its clauses, to be looked at only: it shares all others, whose parent the query
    itself stays.
    """
    found = type(query)()
    found.args.update({name: value for name, value in query.args.items() if name not in clauses})
    return found


def used_arguments(node: exp.Expr) -> set[str]:
    """Names of the arguments that a node has."""
    return {name for name, value in node.args.items() if value}


def conjunction(conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """Conditions joined by AND; None for none."""
    return _connect(exp.And, conditions)


def disjunction(conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    """Conditions joined by OR; None for none."""
    return _connect(exp.Or, conditions)


def _connect(connector: type[exp.Connector], conditions: Sequence[exp.Expr]) -> exp.Expr | None:
    found: exp.Expr | None = None
    for condition in conditions:
        wrapped = (
            exp.Paren(this=condition)
            if isinstance(condition, exp.Connector) and not isinstance(condition, connector)
            else condition
        )
        found = wrapped if found is None else connector(this=found, expression=wrapped)
    return found


def conjuncts(condition: exp.Expr | None) -> Iterator[exp.Expr]:
    """The conditions that a condition joins by AND, without brackets around them."""
    while isinstance(condition, exp.Paren):
        condition = condition.this
    if isinstance(condition, exp.And):
        for part in condition.flatten():
            yield from conjuncts(part)
    elif condition is not None:
        yield condition


def own_nodes(node: exp.Expr) -> Iterator[exp.Expr]:
    """A node and the nodes below it that are evaluated with it: queries below it are yielded, and not
    entered.
    """
    # Without recursion: each node of a chain of a thousand ORs would pass through all above it.
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        if found is node or not _is_separate(found):
            waiting += found.iter_expressions(reverse=True)


def _is_separate(node: exp.Expr) -> bool:
    """Whether a node is a query that is evaluated by itself."""
    return isinstance(node, exp.Query | exp.Values) and not isinstance(node, exp.Subquery | exp.Table)


def output_names(query: exp.Expr) -> list[str]:
    """Names of a resolved query's outputs.

    Args:
        query: A resolved query; for set operations the first SELECT names the outputs.

    Returns:
        The names, in order.
    """
    while not isinstance(query, exp.Select):
        query = query.this
    return [output.alias for output in query.expressions]


def expressions_of(select: exp.Select) -> Iterator[exp.Expr]:
    """The expressions of a SELECT outside of its FROM clause, from WHERE to LIMIT."""
    for name in EXPRESSION_CLAUSES:
        found = select.args.get(name)
        for node in found if isinstance(found, list) else [found]:
            if isinstance(node, exp.Expr):
                yield node


def text(node: exp.Expr) -> str:
    """A node as text, by which equal expressions of a resolved tree are known."""
    if isinstance(node, exp.Column) and node.table:
        # What the generator writes for a quoted column, in a tenth of its time.
        return column_text(node.table, node.name)
    return str(node.sql(dialect=EngineDialect))


def location_text(node: exp.Expr | None) -> str | None:
    """The text of an expression that may tell where a row is: a column, or what USING of a FULL join makes of
    two; None for others.
    """
    node = unwrap(node)
    return text(node) if isinstance(node, exp.Column | exp.Coalesce) else None


def column_text(alias: str, name: str) -> str:
    """The text of `column(alias, name)`."""
    return f"{quote_identifier(alias)}.{quote_identifier(name)}"


def tables_of(node: exp.Expr) -> Iterator[exp.Table]:
    """Tables that are read by name anywhere in a tree."""
    for found in node.find_all(exp.Table):
        if isinstance(found.this, exp.Identifier):
            yield found


def aliases_used(node: exp.Expr) -> set[str]:
    """Names that qualify columns anywhere in a tree."""
    return {found.table for found in node.find_all(exp.Column) if found.table}


def unique_name(name: str, taken: Collection[str]) -> str:
    """A name that none of some names is, without regard to case: itself, or with a number."""
    lowered = {fold(each) for each in taken}
    found, number = name, 1
    while fold(found) in lowered:
        number += 1
        found = f"{name}_{number}"
    return found


class UniqueNames:
    """Names that differ from each other without regard to case. To add one takes the same time however many
    there are.
    """

    def __init__(self) -> None:
        self._lowered: set[str] = set()
        self._numbers: dict[str, int] = {}

    def __contains__(self, name: str) -> bool:
        return fold(name) in self._lowered

    def add(self, name: str) -> str:
        """A name that none of them is, which is one of them from now on: itself, or with a number."""
        number = self._numbers.get(name, 1)
        found = name if number == 1 else f"{name}_{number}"
        while found in self:
            number += 1
            found = f"{name}_{number}"
        self._numbers[name] = number
        self._lowered.add(fold(found))
        return found


def unwrap(node: exp.Expr | None) -> exp.Expr | None:
    """A node without brackets around it."""
    while isinstance(node, exp.Paren):
        node = node.this
    return node


def place_texts(nodes: Iterable[exp.Expr]) -> set[str]:
    """The texts of those nodes that have a `location_text`."""
    return {found for found in map(location_text, nodes) if found is not None}


def free_aliases(node: exp.Expr) -> set[str]:
    """Names that qualify columns in a resolved tree and are no tables of it: those of the SELECTs
    around it.
    """
    defined, used_here = set[str](), set[str]()
    for found in node.find_all(exp.Column, exp.Table, exp.Subquery, exp.Values, exp.Unnest):
        if isinstance(found, exp.Column):
            used_here.add(found.table)
        else:
            defined.add(found.alias)
    return used_here - defined - {""}


def own_queries(node: exp.Expr) -> Iterator[exp.Query]:
    """The outermost queries in an expression."""
    if node.find(exp.Query) is None:
        return iter(())
    return (
        found
        for found in own_nodes(node)
        if isinstance(found, exp.Query) and not isinstance(found, exp.Subquery)
    )
