"""No text becomes much longer than it is when it is written for the engine, whatever stands in each other."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from itertools import chain

import pytest
from sqlglot import exp, parse_one
from sqlglot.dialects.dialect import Dialect, Dialects

from engine.errors import InvalidInput, LimitExceeded, LivestateError
from engine.sql.literals import lift
from engine.sql.parse import parse
from engine.sql.tokens import COPIED_CALLS
from engine.sql.written_size import MAX_COPIED_CHARACTERS, copies_of_parts
from tests.fuzz.grammar import nested_texts

DIALECTS = [dialect.value for dialect in Dialects if dialect.value]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.getLogger("sqlglot").disabled = True
    yield
    logging.getLogger("sqlglot").disabled = False


def calls() -> Iterator[tuple[str, str]]:
    """Each function that a dialect knows in a way of its own, with one to four arguments."""
    known = set()
    for dialect in DIALECTS:
        parser = Dialect.get_or_raise(dialect).parser_class
        builders = {**parser.FUNCTION_PARSERS, **parser.FUNCTIONS}
        for name, builder in sorted(builders.items()):
            if (name, builder) in known and dialect not in ("duckdb", "spark"):
                continue
            known.add((name, builder))
            for count in range(1, 5):
                yield dialect, f"SELECT {name}({', '.join(f'-zq{place}z' for place in range(count))})"


_BETWEEN_TWO = """
    + - * / % || & | ^ ** << >> # = <> <=> == -> ->> #> #>> @> <@ && ? DIV MOD XOR OVERLAPS GLOB RLIKE REGEXP
    LIKE ILIKE AND OR
""".split()  # noqa: SIM905 - a list of forty lines otherwise
OPERATORS = (
    *(f"{{0}} {sign} {{1}}" for sign in (*_BETWEEN_TWO, "NOT LIKE", "SIMILAR TO", "IS DISTINCT FROM")),
    *(
        "{0} IN UNNEST({1})",
        "{0} NOT IN UNNEST([{1}])",
        "{0} IN ({1}, {2})",
        "{0} IN (SELECT {1})",
        "{0} IN {1}",
    ),
    *(
        "{0} LIKE ANY ({1}, {2})",
        "{0} ILIKE ALL ({1}, {2}, {3})",
        "{0} LIKE {1} ESCAPE '!'",
        "{0} = ANY({1})",
    ),
    *("{0} BETWEEN {1} AND {2}", "{0} NOT BETWEEN SYMMETRIC {1} AND {2}", "{0} MEMBER OF ({1})", "{0}[{1}]"),
    *(
        "{0}[{1}:{2}]",
        "{0}:{1}",
        "{0}.{1}",
        "{0}::INT",
        "{0} COLLATE x",
        "{0} AT TIME ZONE {1}",
        "NOT {0}",
        "~{0}",
    ),
    *(
        "CASE {0} WHEN {1} THEN {2} ELSE {3} END",
        "INTERVAL {0} DAY",
        "EXTRACT(DAY FROM {0})",
        "ARRAY[{0}, {1}]",
    ),
    *("CAST({0} AS DATE)", "TRY_CAST({0} AS BOOLEAN)", "{0} IS NULL", "{0} IS NOT TRUE", "{0}[OFFSET({1})]"),
    *("{{'a': {0}}}", "[{0} for x in {1} if {2}]", "({0}, {1}) = ({2}, {3})", "{0} IS JSON", "@{0}", "|/{0}"),
)
"""What may be written otherwise, and is no function."""


_CASTS = (
    *("CAST({0} AS %s)", "TRY_CAST({0} AS %s)", "SAFE_CAST({0} AS %s)", "{0}::%s", "CONVERT(%s, {0})"),
    *("TRY_CONVERT(%s, {0})", "CONVERT({0}, %s)", "CAST({0} AS %s FORMAT 'YYYY')"),
)
_TYPES = (
    *(
        "VARCHAR(1)",
        "CHAR(2)",
        "TEXT",
        "BINARY(1)",
        "DECIMAL(3, 1)",
        "TIMESTAMP(3)",
        "TIMESTAMPTZ",
        "TIME",
        "DATE",
    ),
    *(
        "BOOLEAN",
        "JSON",
        "VARIANT",
        "OBJECT",
        "UUID",
        "INTERVAL DAY",
        "INT",
        "DOUBLE",
        "BIT(3)",
        "ARRAY<INT>",
    ),
)
CASTS = tuple(cast % type_name for cast in _CASTS for type_name in _TYPES)


def operators() -> Iterator[tuple[str, str]]:
    """Each operator in each dialect."""
    values = [f"(-zq{place}z)" for place in range(4)]
    for dialect in DIALECTS:
        for operator in (*OPERATORS, *CASTS):
            yield dialect, f"SELECT {operator.format(*values)}"


def test_all_that_is_written_with_copies_is_known() -> None:
    found, read_twice = 0, set()
    for dialect, text in chain(calls(), operators()):
        try:
            tree = parse_one(text, dialect=dialect)
            written = tree.sql("duckdb").lower()
        except Exception:  # noqa: BLE001  not all take so many arguments
            continue
        for column in tree.find_all(exp.Column):
            expected, node = 1, column.parent
            while node is not None:
                expected *= copies_of_parts(node)
                node = node.parent
            same = sum(each.name == column.name for each in tree.find_all(exp.Column))
            read_twice |= {text.split()[1].partition("(")[0]} if same > 1 else set()
            copies = written.count(column.name.lower())
            assert copies <= expected * same, (dialect, text, written)
            found += copies > same
    assert found > 300
    assert read_twice == COPIED_CALLS


@pytest.mark.parametrize("dialect", ["duckdb", "spark", "bigquery"])
def test_what_nests_is_not_written_many_times(dialect: str) -> None:
    for text in nested_texts(15):
        try:
            tree = parse(lift(text, dialect), dialect).tree
            written = "" if tree is None else tree.sql("duckdb")
        except LivestateError:
            continue
        except Exception:  # noqa: BLE001  what the engine does not have
            continue
        assert len(written) < 20 * len(text) + 2 * MAX_COPIED_CHARACTERS, text


@pytest.mark.parametrize(
    ("dialect", "before", "after"),
    [
        ("duckdb", "a BETWEEN SYMMETRIC 1 AND ", ""),
        ("spark", "INITCAP(", ")"),
        ("spark", "DECODE(a, ", ", 1)"),
        ("spark", "array_agg(", " ORDER BY a DESC NULLS LAST)"),
        ("snowflake", "DIV0NULL(1, ", ")"),
        ("spark", "SORT_ARRAY(", ")"),
        ("snowflake", "TRY_CAST(", " AS VARCHAR(1))"),
        ("bigquery", "SAFE_CAST(ARRAY(SELECT AS STRUCT ", ") AS VARCHAR)"),
    ],
)
def test_copies_of_copies_are_refused(dialect: str, before: str, after: str) -> None:
    assert parse(lift(f"SELECT {before * 3}a{after * 3} FROM t", dialect), dialect).tree is not None
    with pytest.raises((LimitExceeded, InvalidInput), match=r"nest them less|too much within"):
        parse(lift(f"SELECT {before * 30}a{after * 30} FROM t", dialect), dialect)
