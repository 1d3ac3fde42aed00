"""Statements that need more memory than the engine has: with a directory to spill to, and without."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from engine.deadline import Deadline
from engine.duckdb.engine import Engine
from engine.duckdb.engine_errors import BindingError
from engine.duckdb.spill import SpillDirectory
from engine.errors import InvalidInput, LimitExceeded, LivestateError
from engine.service import QueryOptions, QueryService
from tests.support.memory_source import MemorySource, memory_view
from tests.unit.exec.conftest import PLAYS, ROWS

MEMORY = 80 << 20
COUNT = 2_000_000
TABLE = pa.table({"id": pa.array(range(COUNT), pa.int64())})
HASHED = 'SELECT md5(id::VARCHAR) AS m, id FROM "t"'
STATEMENTS = (
    f"SELECT id, m FROM ({HASHED}) ORDER BY m",
    f"SELECT m, count(*), min(id) FROM ({HASHED}) GROUP BY m",
    f"SELECT a.id FROM ({HASHED}) a JOIN ({HASHED}) b USING (m)",
)


@contextmanager
def engine(directory: Path | None, limit_bytes: int = 1 << 30) -> Iterator[Engine]:
    found = Engine(MEMORY, 2, None if directory is None else SpillDirectory(directory, limit_bytes))
    try:
        yield found
    finally:
        found.close()


def rows(found: Engine, sql: str) -> int:
    running = found.run(sql, {"t": TABLE}, [], Deadline(60))
    try:
        return sum(batch.num_rows for batch in running)
    finally:
        running.close()


@pytest.mark.parametrize("sql", STATEMENTS, ids=("sort", "aggregate", "join"))
def test_what_memory_does_not_hold_is_spilled(tmp_path: Path, sql: str) -> None:
    with engine(tmp_path / "spill") as found:
        assert rows(found, sql) == COUNT
    with (
        engine(None) as found,
        pytest.raises(
            LimitExceeded,
            match=f"memory_limit_bytes allows \\({MEMORY} bytes\\).*raise the limit.*spill_limit_bytes",
        ),
    ):
        rows(found, sql)


def test_the_limit_of_spilling_is_kept_to(tmp_path: Path) -> None:
    with (
        engine(tmp_path / "spill", 1 << 20) as found,
        pytest.raises(LimitExceeded, match=r"spill_limit_bytes allows 1048576 bytes.*raise a limit") as error,
    ):
        rows(found, STATEMENTS[0])
    assert str(tmp_path) not in error.value.message


def test_a_full_disk_is_a_limit_too(tmp_path: Path) -> None:
    """Files may not grow beyond a megabyte, which fails the engine's writes as a full disk does."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with engine(tmp_path / "spill") as found:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, before[1]))
        try:
            with pytest.raises(LimitExceeded, match="disk takes no more") as error:
                rows(found, STATEMENTS[0])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
        assert str(tmp_path) not in error.value.message
        assert rows(found, 'SELECT id FROM "t" LIMIT 7') == 7


def test_the_directory_is_private_emptied_at_the_start_and_gone_at_the_end(tmp_path: Path) -> None:
    parent = tmp_path / "spill"
    parent.mkdir()
    (parent / "left by a process that was killed").write_text("x")
    with engine(parent):
        (found,) = parent.iterdir()
        assert (parent.stat().st_mode & 0o777, found.stat().st_mode & 0o777) == (0o700, 0o700)
        assert len(found.name) == 32
    assert not parent.exists()
    parent.write_text("a file")
    with pytest.raises(InvalidInput, match="spill directory cannot be used") as error:
        SpillDirectory(parent, 1)
    assert str(tmp_path) not in error.value.message


STATEMENTS_ABOUT_FILES = (
    "SELECT * FROM read_text('{path}/secret.csv')",
    "SELECT * FROM '{path}/secret.csv'",
    "SELECT * FROM glob('{path}/*')",
    "COPY (SELECT 1) TO '{path}/out.csv'",
    "ATTACH '{path}/other.db'",
    "EXPORT DATABASE '{path}'",
    "SELECT * FROM duckdb_temporary_files()",
    "SELECT * FROM duckdb_settings()",
    "SELECT current_setting('temp_directory')",
    "SELECT current_setting('allowed_directories')",
    "SET temp_directory = '/tmp'",
)


@pytest.mark.parametrize("statement", STATEMENTS_ABOUT_FILES)
def test_statements_reach_neither_the_directory_nor_its_name(tmp_path: Path, statement: str) -> None:
    options = QueryOptions(memory_limit_bytes=MEMORY, threads=1, spill_directory=tmp_path / "spill")
    service = QueryService(MemorySource([memory_view(PLAYS, ROWS)]), options)
    try:
        (directory,) = (tmp_path / "spill").iterdir()
        (directory / "secret.csv").write_text("secret\n")
        before = sorted(directory.iterdir())
        with pytest.raises(LivestateError) as error:
            service.execute(statement.format(path=directory)).read_all()
        assert sorted(directory.iterdir()) == before
        assert "secret\n" not in error.value.message
    finally:
        service.close()


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT * FROM read_text('{outside}/secret.csv')",
        "SELECT * FROM glob('{outside}/spill/*')",
        "SELECT * FROM glob('{outside}/*')",
        "COPY (SELECT 1) TO '{outside}/out.csv'",
        "ATTACH '{outside}/other.db'",
        "SET temp_directory = '{outside}'",
        "SET max_temp_directory_size = '1TB'",
        "SET enable_external_access = true",
        "SET lock_configuration = false",
    ],
)
def test_the_engine_alone_stays_locked_down_while_it_spills(tmp_path: Path, statement: str) -> None:
    (tmp_path / "secret.csv").write_text("secret\n")
    with engine(tmp_path / "spill") as found:
        before = sorted(tmp_path.iterdir())
        with pytest.raises((LivestateError, BindingError)):
            rows(found, statement.format(outside=tmp_path))
        assert sorted(tmp_path.iterdir()) == before


def test_no_limit_no_directory(tmp_path: Path) -> None:
    options = QueryOptions(
        memory_limit_bytes=MEMORY, threads=1, spill_directory=tmp_path / "spill", spill_limit_bytes=0
    )
    QueryService(MemorySource([memory_view(PLAYS, ROWS)]), options).close()
    assert not (tmp_path / "spill").exists()
