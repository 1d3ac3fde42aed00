"""The tables of TPC-H, made once a test run."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from tests.tpch.cluster import Loaded, load_tables
from tests.tpch.stores import LAYOUTS, table_file


@pytest.fixture(scope="package")
def tpch(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    """The tables, and a changelog that has them."""
    return load_tables(tmp_path_factory.mktemp("tpch"))


@pytest.fixture(scope="package")
def plain_duckdb(tpch: Loaded) -> Iterator[duckdb.DuckDBPyConnection]:
    """DuckDB with tables of its own."""
    with duckdb.connect(config={"threads": 1}) as connection:
        for name in LAYOUTS:
            connection.execute(
                f"CREATE TABLE {name} AS SELECT * FROM read_parquet(?)", [str(table_file(tpch.tables, name))]
            )
        yield connection
