"""What the queries of TPC-H should answer: plain DuckDB over the same tables."""

from __future__ import annotations

import duckdb
import pyarrow as pa
from sqlglot import exp, parse_one

from engine.duckdb.results import conversion, result_schema
from engine.sql.engine_dialect import EngineDialect
from tests.oracle.comparison import difference
from tests.oracle.kinds import Trust


def fetch(connection: duckdb.DuckDBPyConnection, sql: str) -> pa.Table:
    """An answer of DuckDB, in the types that results of livestate have."""
    found = connection.sql(sql).to_arrow_table()
    schema = result_schema(found.schema)
    convert = conversion(found.schema, schema)
    return pa.Table.from_batches([convert(batch) for batch in found.to_batches()], schema)


def wrong(sql: str, found: pa.Table, expected: pa.Table) -> str | None:
    """How an answer differs from the expected one: floats may be rounded, rows may change places where ORDER
    BY leaves it open.

    Args:
        sql: The query.
        found: The answer.
        expected: The answer of DuckDB.

    Returns:
        One line; None for an answer that is right.
    """
    trusts = [Trust.CLOSE if pa.types.is_floating(kind) else Trust.EXACT for kind in expected.schema.types]
    return difference(expected, found, trusts, _order_places(sql, expected.schema))


def _order_places(sql: str, schema: pa.Schema) -> list[int]:
    """Places of the columns that the query orders its rows by."""
    order = parse_one(sql, dialect=EngineDialect).args.get("order")
    names = (
        [item.this.name for item in order.expressions if isinstance(item.this, exp.Column)]
        if order is not None
        else []
    )
    return [schema.get_field_index(name) for name in names]
