"""DuckDB databases, locked down.

They are in memory and without tables of their own. They can read nothing but the Arrow objects that a
statement is given: no network, no extensions, no Python variables, no files, and their settings are locked.

One exception the engine makes by itself: whoever knows the name of its spill directory may read and write
there. So that name is random (`engine.duckdb.spill`), and all functions and statements by which it could be
learned or used are refused before the engine sees them (`engine.sql.refused_syntax`).
"""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from engine.duckdb.spill import SpillPlace
from engine.sql.dialects.functions import DIALECT_FUNCTIONS
from engine.sql.tree_depth import MAX_DEPTH, MAX_TERMS

MAX_EXPRESSION_DEPTH = MAX_TERMS + MAX_DEPTH
"""The engine recurses over expressions, with some 800 bytes of stack a level."""
_LOCKED_DOWN = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
    "errors_as_json": "true",
    # It takes time that grows with the cube of a sum's terms.
    "disabled_optimizers": "common_subexpressions",
    # Otherwise the engine's allocator keeps what it had at its most until somebody asks it for more.
    "allocator_background_threads": "true",
}


def open_database(
    memory_limit_bytes: int,
    threads: int,
    spill: SpillPlace | None = None,
    before_locking: Sequence[str] = (),
) -> duckdb.DuckDBPyConnection:
    """Open a locked-down database.

    Args:
        memory_limit_bytes: Memory for all that it does.
        threads: Its worker threads.
        spill: Where it may put what the memory does not hold; None: nowhere.
        before_locking: Statements to run before its settings are locked.

    Returns:
        A connection to it.
    """
    limits = {
        "memory_limit": f"{memory_limit_bytes}B",
        "threads": str(threads),
        "temp_directory": "" if spill is None else str(spill.path),
    }
    config: dict[str, str | bool | int | float | list[str]] = {**_LOCKED_DOWN, **limits}
    database = duckdb.connect(":memory:", config=config)
    # As an option of the connection this limit is shown, but not kept to.
    spill_limit = () if spill is None else (f"SET GLOBAL max_temp_directory_size = '{spill.limit_bytes}B'",)
    depth = f"SET GLOBAL max_expression_depth = {MAX_EXPRESSION_DEPTH}"
    for statement in (
        "SET GLOBAL TimeZone = 'UTC'",
        depth,
        *spill_limit,
        *before_locking,
        *DIALECT_FUNCTIONS,
    ):
        database.execute(statement)
    database.execute("SET lock_configuration = true")
    return database
