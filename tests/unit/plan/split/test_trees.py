"""What rules share about syntax trees."""

from __future__ import annotations

import pytest
from sqlglot import exp, parse_one

from engine.plan.logical.trees import column_named, column_text, drop_clauses, free_aliases, text
from engine.sql.engine_dialect import EngineDialect
from engine.sql.tree_copies import copy_without_positions


@pytest.mark.parametrize(
    ("alias", "name"), [("t", "a"), ("My Songs", 'The "Best" Title'), ('"', '"'), ("t.u", '."'), ("ü", "")]
)
def test_a_column_is_known_by_its_text(alias: str, name: str) -> None:
    found = column_named(column_text(alias, name))
    assert (found.table, found.name) == (alias, name)
    assert text(found) == found.sql(dialect=EngineDialect) == column_text(alias, name)


@pytest.mark.parametrize(
    ("condition", "aliases"),
    [
        ("t.a = u.b", {"t", "u"}),
        ("a = 1", set()),
        ("t.a IN (SELECT x.b FROM s AS x WHERE x.c = v.d)", {"t", "v"}),
        ("EXISTS (SELECT 1 FROM (SELECT y.a FROM s AS y) AS z, unnest(t.l) AS w(e) WHERE w.e = z.a)", {"t"}),
    ],
)
def test_free_aliases_are_those_of_tables_around(condition: str, aliases: set[str]) -> None:
    assert free_aliases(parse_one(condition, dialect=EngineDialect)) == aliases


def test_a_query_without_clauses_leaves_the_query_as_it_is() -> None:
    query = parse_one("SELECT a FROM t WHERE b ORDER BY c LIMIT 1", dialect=EngineDialect)
    assert isinstance(query, exp.Query)
    before = query.sql()
    assert drop_clauses(query, ("order", "limit")).sql() == "SELECT a FROM t WHERE b"
    assert query.sql() == before
    assert query.args["where"].parent is query


@pytest.mark.parametrize(
    "sql",
    [
        (
            "SELECT t.a, count(*) FILTER (WHERE b > 1.5) AS n FROM t JOIN u USING (a) GROUP "
            "BY ALL ORDER BY n DESC NULLS LAST LIMIT 2"
        ),
        (
            "SELECT CASE WHEN a THEN 'x' END, [1, NULL], {'k': a}, a::DECIMAL(9, 2), $1, lag(a) OVER "
            "(PARTITION BY b ORDER BY c ROWS 1 PRECEDING) FROM t"
        ),
        (
            "WITH c AS (VALUES (1, 'a'), (2, NULL)) SELECT * EXCLUDE (x) FROM c UNION ALL BY NAME SELECT "
            "list_transform(l, lambda x: x + 1) FROM t"
        ),
    ],
)
def test_a_copy_without_places_is_the_same_statement(sql: str) -> None:
    tree = parse_one(sql, dialect=EngineDialect)
    copied = copy_without_positions(tree)
    assert any(node.meta for node in tree.walk())
    assert not any(node.meta for node in copied.walk())
    assert copied == tree
    assert copied.sql(dialect=EngineDialect) == tree.sql(dialect=EngineDialect)
    assert all(child.parent is node for node in copied.walk() for child in node.iter_expressions())
