"""Values of expressions that read no rows: the engine computes them before the stores are read, so that its
own meaning decides which rows can matter.
"""

from __future__ import annotations

import datetime as dt
import re
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from engine.deadline import Deadline, hold_lock
from engine.duckdb.database import open_database
from engine.duckdb.engine_errors import read_failure
from engine.duckdb.growth import is_planned_quickly, needs_worker
from engine.model.sql_types import parse_sql_type

MEMORY_BYTES = 64 << 20
_COMPARABLE = re.compile(
    r"U?(?:TINYINT|SMALLINT|INTEGER|BIGINT)|DECIMAL\(.*\)|DOUBLE|VARCHAR|BLOB|BOOLEAN|DATE|TIMESTAMP"
    r"|TIMESTAMP WITH TIME ZONE"
)
"""Types whose values stores compare as the engine does, once they have the type of a column."""
_FAILURES = (duckdb.Error, pa.ArrowException, ValueError, OverflowError)


class ConstantFolder:
    """Computes expressions that read no rows. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Opened when it is needed: most hosts' statements have no such expressions.
        self._database: duckdb.DuckDBPyConnection | None = None

    def values(
        self, expressions: Sequence[str], parameters: Mapping[str, Any], deadline: Deadline
    ) -> list[pa.Scalar | None]:
        """Values of expressions.

        Args:
            expressions: In DuckDB's dialect; neither volatile nor with queries in them.
            parameters: Values of the parameters that are in them, by number.
            deadline: When the statement must end that has them.

        Returns:
            For each its value, of a canonical type; None where it is NULL, fails, is of a type that stores
            do not compare, or could take more than this process can bound.
        """
        if (
            not expressions
            or needs_worker(",".join(expressions), parameters)
            or not all(is_planned_quickly(each, 0) for each in expressions)
        ):
            return [None] * len(expressions)
        with hold_lock(self._lock, deadline):
            try:
                return self._row(expressions, parameters)
            except _FAILURES as error:
                self._replace_broken(error)
            if len(expressions) == 1:
                return [None]
            return [self._single_value(each, parameters) for each in expressions]

    def _single_value(self, expression: str, parameters: Mapping[str, Any]) -> pa.Scalar | None:
        try:
            return self._row([expression], parameters)[0]
        except _FAILURES as error:
            self._replace_broken(error)
            return None

    def _row(self, expressions: Sequence[str], parameters: Mapping[str, Any]) -> list[pa.Scalar | None]:
        listed = ", ".join(f"({each}) AS c{place}" for place, each in enumerate(expressions))
        if self._database is None:
            self._database = open_database(MEMORY_BYTES, 1)
        # As a relation, or as Arrow, it would take twice as long.
        self._database.execute(f"SELECT {listed}", dict(parameters) or None)
        type_names = [str(column[1]) for column in self._database.description or ()]
        (row,) = self._database.fetchall()
        return [_value(value, type_name) for value, type_name in zip(row, type_names, strict=True)]

    def _replace_broken(self, error: Exception) -> None:
        if isinstance(error, duckdb.Error) and read_failure(error).is_fatal:
            self._database = None

    def close(self) -> None:
        """Let go of the database."""
        with self._lock:
            if self._database is not None:
                self._database.close()


def _value(value: Any, type_name: str) -> pa.Scalar | None:
    if value is None or not _COMPARABLE.fullmatch(type_name):
        return None
    if isinstance(value, dt.date) and value.year in (dt.MINYEAR, dt.MAXYEAR):
        # It may stand for infinity.
        return None
    return pa.scalar(value, parse_sql_type(type_name))
