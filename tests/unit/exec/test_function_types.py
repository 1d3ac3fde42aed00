"""No function of the engine's catalogue fails by the types of its arguments in a way that is not told from a
defect of the engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress

import duckdb
import pytest

from engine.duckdb.engine_errors import read_failure
from tests.fuzz.functions import OF_EACH_TYPE, Function, catalogue
from tests.support.seeds import seeded_random

CALLS_A_FUNCTION = 40
COLUMNS = [f"c{number}" for number in range(len(OF_EACH_TYPE))]
SHARDS = 4


@pytest.mark.parametrize("shard", range(SHARDS))
def test_types_of_arguments_break_nothing(shard: int) -> None:
    broken = []
    database = _values_of_each_type()
    for sql in _calls(shard):
        try:
            with suppress(duckdb.NotImplementedException, UnicodeDecodeError):
                database.execute(sql).fetchall()
        except (duckdb.InternalException, duckdb.FatalException) as error:
            if read_failure(error).kind in ("internal", "fatal"):
                broken.append((sql, str(error).splitlines()[0]))
            database.close()
            database = _values_of_each_type()
        except (duckdb.Error, OverflowError, ValueError):
            pass  # it refuses them, or Python has no such value
    database.close()
    assert broken == []


def _values_of_each_type() -> duckdb.DuckDBPyConnection:
    """A table with a column of each type: a row of values, and one of nulls."""
    database = duckdb.connect(":memory:", config={"threads": "1", "memory_limit": "500MB"})
    values = (value.replace("{{", "{").replace("}}", "}") for value in OF_EACH_TYPE)
    listed = ", ".join(f"{value} AS {column}" for value, column in zip(values, COLUMNS, strict=True))
    database.execute(f"CREATE TABLE v AS SELECT {listed}")
    database.execute(f"INSERT INTO v VALUES ({', '.join(['NULL'] * len(COLUMNS))})")
    return database


def _calls(shard: int) -> Iterator[str]:
    """Calls of every function that statements may call, with columns of any types."""
    random = seeded_random(47 + shard)
    arities: dict[str, set[int]] = {}
    for function in catalogue():
        if function.form in ("scalar", "aggregate"):
            arities.setdefault(function.name, set()).update(_counts(function))
    for name, counts in sorted(arities.items())[shard::SHARDS]:
        for _ in range(CALLS_A_FUNCTION):
            arguments = random.choices(COLUMNS, k=random.choice(sorted(counts)))
            yield f'SELECT "{name}"({", ".join(arguments)}) FROM v'


def _counts(function: Function) -> Sequence[int]:
    """How many arguments a function may have, up to two more than it needs."""
    needed = len(function.kinds)
    return range(needed, needed + (1 if function.more is None else 3))
