"""Calls behind dots are the calls that they are for DuckDB, from the parser on.

So are literals that begin with their types, and units of time that are columns.
"""

from __future__ import annotations

import duckdb
import pytest
from sqlglot import exp

from engine.errors import InvalidInput
from engine.sql.literals import lift
from engine.sql.parse import parse


def read(text: str) -> exp.Expr:
    tree = parse(lift(text, "duckdb"), "duckdb").tree
    assert tree is not None
    return tree


def written(text: str) -> str:
    """A value as the engine gets it."""
    return str(read(f"SELECT {text} FROM t").expressions[0].sql("duckdb"))


@pytest.mark.parametrize(
    ("chained", "plain"),
    [
        ("n.sum()", "sum(n)"),
        ("t.n.sum()", "sum(t.n)"),
        ('"n"."sum"()', 'sum("n")'),
        ("a.b.c.d.e.abs().f.sqrt()", "sqrt((abs(a.b.c.d.e)).f)"),
        ("f(x).a.b.g().h(1)", "h(g(f(x).a.b), 1)"),
        ("(sum(n)).round(2).abs()", "abs(round(sum(n), 2))"),
        ("count(*).add(1)", "add(count(*), 1)"),
        ("sum(n) FILTER (WHERE n.abs() > 1).round()", "round(sum(n) FILTER (WHERE abs(n) > 1))"),
        ("n.sum() FILTER (WHERE n > 1)", "sum(n) FILTER (WHERE n > 1)"),
        ("sum(n) OVER (PARTITION BY s.lower()).round()", "round(sum(n) OVER (PARTITION BY lower(s)))"),
        ("lower(s).count(DISTINCT)", "count(DISTINCT lower(s))"),
        ("s.string_agg(DISTINCT ',' ORDER BY s)", "string_agg(DISTINCT s, ',' ORDER BY s)"),
        ("n.list(ORDER BY n DESC)", "list(n ORDER BY n DESC)"),
        ("list_distinct(flatten(list(l ORDER BY n))).list_sort()", None),
        ("l.list_transform(lambda x: (x).abs().add(f(x.y, n.g())))", None),
        ("l.list_filter(lambda x: (x).abs().sqrt() > n.abs())", None),
        ("a.f(b.g(c.h())).i(d.j())", "i(f(a, g(b, h(c))), j(d))"),
        ("x.f()[1].g()", "g(f(x)[1])"),
        ("x.f()::INT.g()", "g(f(x)::INT)"),
        ("[(x).f() for x in l.g() if (x).g()].f()", "f([f(x) for x in g(l) if g(x)])"),
        ("CASE WHEN n.f() THEN 1 END.abs().sqrt()", "sqrt(abs(CASE WHEN f(n) THEN 1 END))"),
        ("'a'.upper().lower()", "lower(upper('a'))"),
        ("(SELECT u.m FROM u WHERE u.k.abs() = 1).abs()", "abs((SELECT u.m FROM u WHERE abs(u.k) = 1))"),
        ("{'a': n}.a.abs()", "abs({'a': n}.a)"),
        ("a IS DISTINCT FROM b.f()", "a IS DISTINCT FROM f(b)"),
        ("extract(year FROM d.f())", "extract(year FROM f(d))"),
        ("'day'.date_trunc(d).year()", "year(date_trunc('day', d))"),
        ("u.date_trunc(d)", "date_trunc(u, d)"),
        ("s.position('x')", "strpos(s, 'x')"),
        ("s.substring(1, 2).trim('x')", "trim(substring(s, 1, 2), 'x')"),
        ("n.if(1, 2)", "if(n, 1, 2)"),
        ("DATE '2024-05-01'.year().abs()", "abs(year(CAST('2024-05-01' AS DATE)))"),
        ("current_date.year()", "year(current_date)"),
        ("$1.abs()", "abs($1)"),
        ('n.f("what is before the dot")', 'f(n, "what is before the dot")'),
    ],
)
def test_a_call_behind_a_dot_is_a_call(chained: str, plain: str | None) -> None:
    found = written(chained)
    assert "." not in found or found == written(plain or chained)
    assert plain is None or found == written(plain)
    dots = read(f"SELECT {chained} FROM t").find_all(exp.Dot)
    assert not any(isinstance(dot.expression, exp.Func | exp.Paren) for dot in dots)


def test_names_before_the_dot_are_columns() -> None:
    tree = read("SELECT f(a, t.b).g(c).h() FILTER (d.e()), (SELECT u.m FROM u).abs() FROM t")
    columns = {column.sql() for column in tree.find_all(exp.Column)}
    assert columns == {"a", "t.b", "c", "d", "u.m"}


def test_a_parameter_of_a_lambda_stays_one() -> None:
    tree = read("SELECT l.list_transform(lambda x: (x).abs().add(f(x.y, n.g()))).list_sort() FROM t")
    assert {column.sql() for column in tree.find_all(exp.Column)} == {"l", "n"}


@pytest.mark.parametrize("call", ["main.abs(n)", "system.main.abs(n)", '"MAIN".abs(n)'])
def test_schemas_are_left_out(call: str) -> None:
    with pytest.raises(InvalidInput, match="leave the schema out"):
        read(f"SELECT {call}, n.abs() FROM t")


@pytest.mark.parametrize("text", ["x.f(", "x.f(DISTINCT", "x.f() FILTER (", "x.f(ORDER", "x.f().", "a.f( b"])
def test_what_is_not_closed_is_refused_as_it_stands(text: str) -> None:
    with pytest.raises(InvalidInput, match="Syntax error"):
        read(f"SELECT {text}")


@pytest.mark.parametrize(
    "text",
    [
        "DATE '2024-05-01'::VARCHAR",
        "TIMESTAMP '2024-05-01 10:00:00'::DATE",
        "TIMESTAMP WITH TIME ZONE '2024-05-01'::DATE",
        "DOUBLE PRECISION '1.7'::INTEGER",
        "DECIMAL(8, 2) '1.557'::VARCHAR",
        "VARCHAR 'abc'[1]",
        "INTERVAL '1 day'::VARCHAR",
        "DATE '2024-05-01'::TIMESTAMP::VARCHAR",
        "UHUGEINT '5'::VARCHAR.length()",
        "date_trunc(u, d) FROM (SELECT 'year' AS u, DATE '2024-05-01' AS d)",
        "date_trunc(t.year, d) FROM (SELECT 'month' AS year, DATE '2024-05-01' AS d) t",
        "datediff(day, d, d + 40) FROM (SELECT 'month' AS day, DATE '2024-05-01' AS d)",
        "year.date_diff(d, d + 400) FROM (SELECT 'month' AS year, DATE '2024-05-01' AS d)",
        "date_trunc('year', d), 'year'.date_trunc(d) FROM (SELECT DATE '2024-05-01' AS d)",
        "[1].list_transform(lambda x: x.abs()), [x.abs() for x in [1]], x.abs() FROM (SELECT 1.5 AS x)",
        "[1].list_transform(lambda x: [2].list_filter(lambda y: x.abs() < y.abs())) FROM (SELECT 0.5 AS y)",
        "list_transform([1], lambda x: x + 1), x.abs() FROM (SELECT 1.5 AS x)",
        "s.position('b'), s.overlay('x', 1), s.left(1) FROM (SELECT 'abc' AS s)",
    ],
)
def test_the_engine_gets_what_the_text_says(text: str) -> None:
    expected = duckdb.sql(f"SELECT {text}")
    found = duckdb.sql(read(f"SELECT {text}").sql("duckdb"))
    assert found is not None
    assert expected is not None
    assert (found.types, found.fetchall()) == (expected.types, expected.fetchall())
