"""The oracle: plain DuckDB over all live rows of a dataset, in tables of its own."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from random import Random

import duckdb
import pyarrow as pa

from engine.duckdb.results import (
    check_types,
    check_unsigned,
    conversion,
    result_schema,
    unsigned_values,
)
from engine.errors import Unsupported
from tests.support.statement_time import with_statement_time

MOST_KEPT = 200
"""Answers that are kept: what is asked in several ways, in several layouts or at several stages is computed
once.
"""
OTHER_WAYS = (
    ("PRAGMA disable_optimizer",),
    # ASOF of few rows is done as other joins are.
    ("SET asof_loop_join_threshold = 1_000_000",),
)
"""Settings with which DuckDB does the same in another way."""
_PARAMETER = re.compile(r"\$(\d+)")
REFUSALS = (duckdb.BinderException, duckdb.ParserException, duckdb.CatalogException, duckdb.SyntaxException)
"""Failures that do not depend on rows."""


def put_literals(sql: str, parameters: Sequence[str]) -> str:
    """A statement with literals in place of its parameters."""
    return _PARAMETER.sub(lambda found: parameters[int(found[1]) - 1], sql) if parameters else sql


class PlainDuckDB:
    """One DuckDB with the live rows of stores.

    Args:
        tables: Rows by store.
        settings: Statements that set how it works.
    """

    def __init__(self, tables: Mapping[str, pa.Table], settings: Sequence[str] = ()) -> None:
        self._connection = duckdb.connect(":memory:", config={"threads": "1"})
        self._kept: OrderedDict[str, pa.Table] = OrderedDict()
        self._connection.execute("SET TimeZone = 'UTC'")
        for setting in settings:
            self._connection.execute(setting)
        for name, rows in tables.items():
            self._connection.register("__rows", rows)
            quoted = name.replace('"', '""')
            self._connection.execute(f'CREATE TABLE "{quoted}" AS SELECT * FROM "__rows"')
            self._connection.unregister("__rows")

    def answer(self, sql: str, parameters: Sequence[str] = ()) -> pa.Table:
        """The answer of a query, in the types that results have; asked again soon, the same without asking
        DuckDB.

        Raises:
            duckdb.Error: The query is not valid, or fails.
            Unsupported: The answer has a type, or a value, that results cannot have.
        """
        text = with_statement_time(put_literals(sql, parameters))
        if text in self._kept:
            return self._kept[text]
        relation = self._connection.sql(text)
        if relation is None:
            raise Unsupported("The statement has no result.")
        types = [str(kind) for kind in relation.types]
        check_types(relation.columns, types)
        unsigned = unsigned_values(relation.columns, relation.types)
        found = relation.to_arrow_table()
        for batch in found.to_batches():
            check_unsigned(batch, unsigned)
        schema = result_schema(found.schema)
        convert = conversion(found.schema, schema)
        table = pa.Table.from_batches([convert(batch) for batch in found.to_batches()], schema)
        self._kept[text] = table
        if len(self._kept) > MOST_KEPT:
            self._kept.popitem(last=False)
        return table

    def row_of_literals(self, parameters: Sequence[str]) -> pa.RecordBatch | None:
        """Values of parameters, as a client sends them."""
        if not parameters:
            return None
        listed = ", ".join(f'{value} AS "{place + 1}"' for place, value in enumerate(parameters))
        found = self._connection.sql(with_statement_time(f"SELECT {listed}")).to_arrow_table()
        (batch,) = found.to_batches()
        return batch

    def close(self) -> None:
        """Free it."""
        self._connection.close()


def reorder(tables: Mapping[str, pa.Table]) -> Iterator[Mapping[str, pa.Table]]:
    """The same rows in other orders: an answer that changes with them is not determined."""
    yield {
        name: rows.take(pa.array(range(rows.num_rows - 1, -1, -1), pa.int64()))
        for name, rows in tables.items()
    }
    for seed in range(3):
        random = Random(seed)
        yield {
            name: rows.take(pa.array(random.sample(range(rows.num_rows), rows.num_rows), pa.int64()))
            for name, rows in tables.items()
        }
