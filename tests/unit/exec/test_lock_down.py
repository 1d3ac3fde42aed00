"""No statement reaches beyond the stores: not by the service, and not by the engine alone should a check be
missed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from engine.deadline import Deadline
from engine.duckdb.engine import Engine
from engine.duckdb.engine_errors import BindingError
from engine.errors import LivestateError
from engine.service import QueryService
from engine.sql.functions import ROW_MAKING_FUNCTIONS, TABLE_FUNCTIONS, is_refused

SECRET = "a-secret-in-a-file"
STATEMENTS = (
    "SELECT * FROM '{path}'",
    "FROM '{path}'",
    'SELECT * FROM "{path}"',
    "SELECT * FROM read_csv('{path}')",
    "SELECT * FROM read_text('{path}')",
    "SELECT * FROM read_blob('{path}')",
    "SELECT * FROM read_parquet('{path}')",
    "SELECT * FROM parquet_scan('{path}')",
    "SELECT * FROM read_json('{path}')",
    "SELECT * FROM sniff_csv('{path}')",
    "SELECT * FROM glob('{directory}/*')",
    "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM query_table('plays')",
    "SELECT * FROM duckdb_settings()",
    "SELECT * FROM pragma_version()",
    "SELECT * FROM json_execute_serialized_sql('{{}}')",
    "SELECT * FROM secret_variable",
    "SELECT * FROM python_arrow_scan(1, 2, 3)",
    "SELECT * FROM information_schema.character_sets",
    "SELECT * FROM sqlite_master",
    "SELECT * FROM pg_catalog.pg_settings",
    "SELECT getenv('HOME')",
    "SELECT 'HOME'.getenv()",
    "SELECT \"getenv\"('HOME')",
    "SELECT main.getenv('HOME')",
    "SELECT current_setting('memory_limit')",
    "SELECT getvariable('x')",
    "SELECT nextval('s')",
    "SELECT pg_sleep(1)",
    "SELECT json_serialize_sql('SELECT 1')",
    "COPY (SELECT 1) TO '{directory}/out.csv'",
    "COPY plays TO '{directory}/out.csv'",
    "EXPORT DATABASE '{directory}'",
    "ATTACH '{directory}/other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '10GB'",
    "RESET memory_limit",
    "PRAGMA version",
    "CALL pragma_version()",
    "USE memory",
    "CREATE TABLE t AS SELECT 1",
    "CREATE SECRET s (TYPE s3)",
    "INSERT INTO plays VALUES (1, 'x', 1)",
    "UPDATE plays SET count = 1",
    "DELETE FROM plays",
    "DROP TABLE plays",
    "TRUNCATE plays",
    "MERGE INTO plays USING plays p ON FALSE WHEN MATCHED THEN DELETE",
    "WITH x AS (INSERT INTO plays VALUES (1, 'x', 1) RETURNING *) SELECT * FROM x",
    "SELECT * INTO t FROM plays",
    "BEGIN",
    "VACUUM",
    "CHECKPOINT",
    "SELECT 1; DROP TABLE plays",
    "EXPLAIN INSERT INTO plays VALUES (1, 'x', 1)",
    "DESCRIBE SELECT * FROM read_text('{path}')",
    "SELECT (SELECT content FROM read_text('{path}'))",
    "SELECT * FROM plays WHERE genre IN (SELECT content FROM read_text('{path}'))",
    "WITH x AS (FROM read_text('{path}')) FROM x",
    "SELECT * FROM plays, LATERAL (SELECT * FROM read_text(plays.genre))",
)


@contextmanager
def secret_file(directory: Path) -> Iterator[Path]:
    """A file that no statement may read, in a directory that none may write to."""
    path = directory / "file.csv"
    path.write_text(f"{SECRET}\n")
    before = sorted(directory.iterdir())
    yield path
    assert sorted(directory.iterdir()) == before


@pytest.mark.parametrize("statement", STATEMENTS)
def test_the_service_refuses(service: QueryService, tmp_path: Path, statement: str) -> None:
    secret_variable = pa.table({"found": [SECRET]})
    with secret_file(tmp_path) as path, pytest.raises(LivestateError) as caught:
        service.execute(statement.format(path=path, directory=tmp_path)).read_all()
    assert SECRET not in caught.value.message
    assert secret_variable.num_rows == 1


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    found = Engine(100 << 20, 1)
    yield found
    found.close()


OF_PIVOTS = (
    "EXPLAIN",
    "EXPLAIN ANALYZE",
    "CREATE TABLE leak AS",
    "CREATE VIEW leak AS",
    "INSERT INTO leak",
    "PREPARE leak AS",
    "SET VARIABLE leak =",
    "/* SELECT */ CREATE MACRO leak() AS TABLE",
)
"""What is several statements to the engine, as such a pivot is."""
ENGINE_STATEMENTS = (
    "SELECT * FROM '{path}'",
    "SELECT * FROM read_text('{path}')",
    "SELECT * FROM read_csv('{path}')",
    "SELECT * FROM read_parquet('{path}')",
    "SELECT * FROM glob('{directory}/*')",
    "COPY (SELECT 1) TO '{directory}/out.csv'",
    "ATTACH '{directory}/other.db'",
    "INSTALL httpfs",
    "LOAD httpfs",
    "SET memory_limit = '10GB'",
    "SELECT 1; SET memory_limit = '10GB'",
    "SET memory_limit = '10GB'; SELECT 1",
    "EXPLAIN SELECT 1",
    *(f"{begin} PIVOT (SELECT 1 AS a, 2 AS b) ON a USING sum(b)" for begin in OF_PIVOTS),
    "",
    "-- nothing",
    "SET GLOBAL threads = 8",
    "SET enable_external_access = true",
    "SET lock_configuration = false",
    "SET python_enable_replacements = true",
    "SET temp_directory = '{directory}'",
    "SELECT * FROM secret_variable",
    "SELECT getenv('HOME')",
)


@pytest.mark.parametrize("statement", ENGINE_STATEMENTS)
def test_the_engine_alone_refuses(engine: Engine, tmp_path: Path, statement: str) -> None:
    secret_variable = pa.table({"found": [SECRET]})
    with secret_file(tmp_path) as path, pytest.raises((LivestateError, BindingError)):
        list(engine.run(statement.format(path=path, directory=tmp_path), {}, [], Deadline(None)))
    assert secret_variable.num_rows == 1
    rows = engine.run("SELECT current_setting('memory_limit')", {}, [], Deadline(None))
    assert [batch.to_pylist() for batch in rows] == [[{"current_setting('memory_limit')": "62.5 MiB"}]]
    rows.close()


def test_a_statement_sees_no_tables_of_another(engine: Engine) -> None:
    mine = engine.run('SELECT * FROM "mine"', {"mine": pa.table({"a": [1]})}, [], Deadline(None))
    with pytest.raises(BindingError):
        engine.run('SELECT * FROM "mine"', {}, [], Deadline(None))
    assert [batch.to_pylist() for batch in mine] == [[{"a": 1}]]
    mine.close()


def test_the_time_zone_is_utc_whatever_the_host_says(engine: Engine) -> None:
    rows = engine.run(
        "SELECT TIMESTAMPTZ '2024-07-01 12:00:00' AT TIME ZONE 'Asia/Tokyo' AS t, now() AS n",
        {},
        [],
        Deadline(None),
    )
    assert rows.schema.field("n").type == pa.timestamp("us", "UTC")
    assert str(next(iter(rows)).column("t")[0]) == "2024-07-01 21:00:00"
    rows.close()


def test_every_function_of_the_engine_was_looked_at() -> None:
    """A new version of the engine may bring functions: those that are refused are listed, so that a change is
    seen.
    """
    with duckdb.connect(":memory:") as connection:
        found = connection.sql(
            "SELECT DISTINCT function_name, function_type FROM duckdb_functions()"
        ).fetchall()
    scalars = {name for name, kind in found if kind in {"scalar", "aggregate", "macro"}}
    tables = {name for name, kind in found if kind in {"table", "table_macro", "pragma"}}
    suspicious = {
        name
        for name in scalars
        if any(word in name for word in ("setting", "read", "secret", "env", "file", "sql", "query"))
    }
    harmless = {
        "formatReadableDecimalSize",
        "formatReadableSize",
        "parse_filename",
        "variant_to_parquet_variant",
    }
    assert not {name for name in suspicious - harmless if not is_refused(name)}
    assert not {name for name in scalars if name.startswith(("duckdb_", "pragma_")) and not is_refused(name)}
    assert tables >= TABLE_FUNCTIONS


def test_macros_that_make_rows_are_known() -> None:
    found = (
        duckdb.connect()
        .execute(
            "SELECT function_name FROM duckdb_functions() WHERE function_type = 'macro' AND macro_definition "
            "ILIKE '%unnest(%'"
        )
        .fetchall()
    )
    assert {name for (name,) in found} == ROW_MAKING_FUNCTIONS - {"unnest", "explode"}
