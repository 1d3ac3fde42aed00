"""What operators, functions and clauses of other dialects mean, said in the engine's.

sqlglot translates names and the order of arguments. Where a dialect gives something another value than the
engine does, the parsed tree says here what is meant. Sources are the manuals of Spark SQL, PostgreSQL,
Snowflake, BigQuery, MySQL, Trino and SQL Server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from sqlglot import exp

from engine.model.names import fold
from engine.sql.dialects import aggregates, arrays, numbers, queries, texts, times
from engine.sql.dialects.aggregates import read_aggregates
from engine.sql.dialects.arrays import note_first_index
from engine.sql.dialects.expressions import Kind, mark_names_of_aggregates
from engine.sql.output_names import name_outputs_around

REWRITES = (
    *numbers.REWRITES,
    *times.REWRITES,
    *texts.REWRITES,
    *arrays.REWRITES,
    *aggregates.REWRITES,
    *queries.REWRITES,
)
"""At most one for a kind of node in a dialect."""


def say_in_engine_terms(tree: exp.Expr, dialect: str) -> None:
    """Put what a statement means in the place of what another dialect would compute otherwise.

    Args:
        tree: A statement as it was parsed. It is changed.
        dialect: sqlglot's name of its dialect, which is not the engine's.

    Raises:
        Unsupported: It has something whose meaning cannot be said.
        LimitExceeded: Names of its columns would become much longer than itself.
    """
    rewrites = _rewrites_of(dialect)
    found = [(node, rewrites[kind]) for node in tree.walk() if (kind := _kind(node)) in rewrites]
    mark_names_of_aggregates(tree)
    for node, _ in found:
        if isinstance(node, exp.Bracket):
            note_first_index(node, dialect)
    name_outputs_around(node for node, _ in found if not isinstance(node, exp.Select))
    # Inner ones first: what is around them takes them along.
    for node, rewrite in reversed(found):
        parent, name, place = node.parent, node.arg_key, node.index
        put = rewrite(node, dialect)
        # It may have the node within it, which then has another parent.
        if put is not node and parent is not None and name is not None:
            parent.set(name, put, place)
    read_aggregates(tree)


def _kind(node: exp.Expr) -> Kind:
    return fold(str(node.this)) if isinstance(node, exp.Anonymous) else type(node)


@lru_cache
def _rewrites_of(dialect: str) -> Mapping[Kind, Callable[[exp.Expr, str], exp.Expr]]:
    return {kind: rewrite for kinds, dialects, rewrite in REWRITES if dialect in dialects for kind in kinds}
