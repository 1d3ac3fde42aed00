"""Dialects that mean the same by most things."""

from __future__ import annotations

from sqlglot.dialects.dialect import Dialects

SPARK = frozenset({"spark", "spark2", "databricks", "hive"})
POSTGRES = frozenset({"postgres", "materialize", "risingwave"})
MYSQL = frozenset({"mysql", "doris", "starrocks", "singlestore"})
TRINO = frozenset({"trino", "presto", "athena"})
TSQL = frozenset({"tsql", "fabric"})
OTHERS = frozenset(str(dialect.value) for dialect in Dialects if dialect.value) - {"duckdb"}
"""All but the engine's."""
