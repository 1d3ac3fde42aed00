"""Plain DuckDB over plain rows: what an answer should be."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa


@contextmanager
def plain_database(tables: Mapping[str, pa.Table]) -> Iterator[duckdb.DuckDBPyConnection]:
    """An engine of its own, without livestate in between, for as many queries as a test asks.

    Args:
        tables: Live rows of each store.
    """
    with duckdb.connect(":memory:") as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("ATTACH ':memory:' AS livestate")
        connection.execute("USE livestate")
        for name, table in tables.items():
            quoted = name.replace('"', '""')
            connection.register("__rows", table)
            connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM "__rows"')
            connection.unregister("__rows")
        yield connection


def expected_answer(sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The answer of one query.

    Args:
        sql: A query in DuckDB's dialect.
        tables: Live rows of each store.

    Returns:
        The answer.

    Raises:
        duckdb.Error: The query is not valid.
    """
    with plain_database(tables) as connection:
        return connection.sql(sql).to_arrow_table()


def plain_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows as Python values that compare by meaning: NaN equals NaN, and -0.0 differs from 0.0."""
    columns = [column.to_pylist() for column in table.columns]
    return [tuple(_plain_value(value) for value in row) for row in zip(*columns, strict=True)]


def sorted_rows(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in an order that depends on nothing but their values."""
    return sorted(plain_rows(table), key=repr)


def _plain_value(value: Any) -> Any:
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else repr(value)
    if isinstance(value, list):
        return [_plain_value(item) for item in value]
    if isinstance(value, tuple):
        return tuple(_plain_value(item) for item in value)
    if isinstance(value, dict):
        return {name: _plain_value(item) for name, item in value.items()}
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC)
    return value
