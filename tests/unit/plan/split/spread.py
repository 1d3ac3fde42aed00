"""Runs a split SELECT as hosts and a coordinator would: partial rows travel as Arrow, and get the engine's
types back.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel

from engine.model.sql_types import parse_sql_type
from engine.plan.logical.trees import text
from engine.plan.split.nodes import SelectSplit
from engine.plan.split.numeric import note_types
from engine.sql.engine_dialect import EngineDialect
from engine.sql.literals import lift
from engine.sql.parse import parse
from tests.support.seeds import seeded_random

PART = "__part_0"
Rule = Callable[[exp.Select, str], SelectSplit | None]


class Spread:
    """Rows of one table `t`, whole and spread over hosts at random.

    Args:
        columns: Names and types of the columns.
        rows: Rows, each as the text of SQL literals.
        hosts: How many hosts there are.
        seed: Says which host has which row; some hosts may have none.
    """

    def __init__(self, columns: dict[str, str], rows: Sequence[Sequence[str]], hosts: int, seed: int) -> None:
        self._columns = columns
        chance = seeded_random(seed)
        self._whole = _database(columns, rows)
        holders = chance.sample(range(hosts), chance.randint(1, hosts))
        placed: list[list[Sequence[str]]] = [[] for _ in range(hosts)]
        for row in rows:
            placed[chance.choice(holders)].append(row)
        self._hosts = [_database(columns, each) for each in placed]
        self._coordinator = _database({"none": "INTEGER"}, [])

    def select(self, sql: str) -> exp.Select:
        """A SELECT over `t`, with its columns qualified, its outputs named, and the types of columns
        annotated.
        """
        tree = sqlglot.parse_one(sql, dialect=EngineDialect)
        assert isinstance(tree, exp.Select)
        for column in tree.find_all(exp.Column):
            if column.name in self._columns and not column.table and not column.this.args.get("quoted"):
                column.set("table", exp.to_identifier("t", quoted=True))
        for number, output in enumerate(tree.expressions):
            if not isinstance(output, exp.Alias):
                output.replace(exp.alias_(output.copy(), f"o{number}", quoted=True))
        columns = [
            column
            for column in tree.find_all(exp.Column)
            if column.table == "t" and column.name in self._columns
        ]
        note_types(tree, {text(column): parse_sql_type(self._columns[column.name]) for column in columns})
        return tree

    def whole(self, select: exp.Select) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Types and rows of the SELECT over all rows."""
        relation = self._whole.sql(_sql(select))
        return [str(kind) for kind in relation.types], relation.fetchall()

    def split(self, split: SelectSplit) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Types and rows of the SELECT in two phases."""
        return self._run(_sql(split.partial), _sql(split.merge))

    def _run(self, partial: str, merge: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        sent: list[pa.Table] = []
        kinds: list[str] = []
        received = _normalize(partial)
        for host in self._hosts:
            relation = host.sql(received)
            kinds = [str(kind) for kind in relation.types]
            sent.append(relation.to_arrow_table())
        self._coordinator.register("arrived", pa.concat_tables(sent))
        names = sent[0].schema.names
        typed = ", ".join(
            f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in zip(names, kinds, strict=True)
        )
        self._coordinator.execute(f'CREATE OR REPLACE TEMP VIEW "{PART}" AS SELECT {typed} FROM arrived')
        relation = self._coordinator.sql(merge)
        return [str(kind) for kind in relation.types], relation.fetchall()

    def check(
        self, sql: str, rule: Rule, *, ordered: bool = False, tolerance: float = 1e-9, loose: bool = False
    ) -> SelectSplit:
        """Assert that a rule splits a SELECT and gives its answer; `loose` compares lists without regard to
        their order.
        """
        select = self.select(sql)
        before = select.copy()
        split = rule(select, PART)
        assert split is not None, f"not split: {sql}"
        assert select == before, "the SELECT was changed"
        again = rule(select, PART)
        assert again is not None, "the SELECT was taken apart"
        partial, merge = _sql(split.partial), _sql(split.merge)
        assert (_sql(again.partial), _sql(again.merge)) == (partial, merge)
        for tree in (select, split.partial, split.merge):
            assert all(child.parent is node for node in tree.walk() for child in node.iter_expressions()), (
                f"a node has two parents: {_sql(tree)}"
            )
        assert [str(output.alias) for output in split.merge.expressions] == [
            str(output.alias) for output in select.expressions
        ]
        types, rows = self._run(partial, merge)
        expected_types, expected = self.whole(select)
        where = f"{sql}\n  partial {partial}\n  merge   {merge}"
        assert types == expected_types, f"{where}\n  {types}\n  {expected_types}"
        found, wanted = [_plain(row, loose) for row in rows], [_plain(row, loose) for row in expected]
        if not ordered:
            found, wanted = sorted(found, key=_sort_key), sorted(wanted, key=_sort_key)
        assert len(found) == len(wanted), f"{where}\n  {found}\n  {wanted}"
        for one, other in zip(found, wanted, strict=True):
            assert _close(one, other, tolerance), f"{where}\n  {one}\n  {other}"
        return split


@cache
def _engine() -> duckdb.DuckDBPyConnection:
    """One engine for all that hosts have: to open one takes longer than to ask it."""
    return duckdb.connect(config={"threads": 1})


def _database(columns: dict[str, str], rows: Sequence[Sequence[str]]) -> duckdb.DuckDBPyConnection:
    """A connection that has the table `t` for itself, until it is gone."""
    connection = _engine().cursor()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(
        "CREATE TEMP TABLE t (" + ", ".join(f'"{name}" {kind}' for name, kind in columns.items()) + ")"
    )
    if rows:
        connection.execute("INSERT INTO t VALUES " + ", ".join("(" + ", ".join(row) + ")" for row in rows))
    return connection


def _normalize(sql: str) -> str:
    """What a host makes of a fragment's text, which it parses and checks as any statement."""
    tree = parse(lift(sql, "duckdb"), "duckdb").tree
    assert tree is not None
    return _sql(tree)


def _sql(tree: exp.Expr) -> str:
    return str(tree.sql(dialect=EngineDialect, unsupported_level=ErrorLevel.RAISE))


def _plain(value: Any, loose: bool) -> Any:
    """A value that compares by meaning."""
    if isinstance(value, list | tuple):
        made = [_plain(item, loose) for item in value]
        return tuple(sorted(made, key=_sort_key)) if loose and isinstance(value, list) else tuple(made)
    if isinstance(value, dict):
        return tuple(
            sorted(
                ((_plain(name, loose), _plain(item, loose)) for name, item in value.items()), key=_sort_key
            )
        )
    if isinstance(value, float) and value == 0:
        return 0.0
    if isinstance(value, Decimal):
        return ("decimal", str(value))
    return value


def _sort_key(value: Any) -> str:
    """Rounds floats, so that last bits do not change the order of rows."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else f"{value if abs(value) > 1e-6 else 0.0:.6e}"
    if isinstance(value, tuple):
        return "(" + ",".join(_sort_key(item) for item in value) + ")"
    return repr(value)


def _close(one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(
            _close(*pair, tolerance) for pair in zip(one, other, strict=True)
        )
    if isinstance(one, float) and isinstance(other, float):
        if math.isnan(one) or math.isnan(other):
            return math.isnan(one) and math.isnan(other)
        return one == other or math.isclose(one, other, rel_tol=tolerance, abs_tol=tolerance)
    return type(one) is type(other) and bool(one == other)


def unread_column(sql: str, columns: Iterable[str]) -> str:
    """A column that a text does not name: hosts send whole rows where these are no more than the lists that
    aggregates need, and lists beside what else they aggregate.

    Args:
        sql: A text.
        columns: Names of columns.
    """
    return next(name for name in columns if re.search(rf"\b{name}\b", sql) is None)
