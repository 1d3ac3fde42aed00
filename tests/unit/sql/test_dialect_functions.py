"""Functions that the engine's databases have for other dialects: for each type of values the right one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest

from engine.duckdb.database import open_database

WHOLE = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT"),
)
BROKEN = ("FLOAT", "DOUBLE", "DECIMAL(4, 1)", "DECIMAL(18, 3)", "DECIMAL(38, 2)")


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with open_database(64 << 20, 1) as database:
        yield database


def value(database: duckdb.DuckDBPyConnection, expression: str) -> Any:
    found = database.execute(f"SELECT {expression}").fetchone()
    assert found is not None
    return found[0]


@pytest.mark.parametrize("dividend", [*WHOLE, *BROKEN])
def test_whole_numbers_have_a_whole_quotient(database: duckdb.DuckDBPyConnection, dividend: str) -> None:
    for divisor in (*WHOLE, *BROKEN):
        found = value(database, f"typed_division(CAST(7 AS {dividend}), CAST(2 AS {divisor}))")
        assert found == (3 if {dividend, divisor} <= {*WHOLE} else 3.5)
    for literal in ("2", "2.0", "NULL"):
        value(database, f"typed_division(CAST(7 AS {dividend}), {literal})")
        value(database, f"typed_division({literal}, CAST(7 AS {dividend}))")


@pytest.mark.parametrize(
    ("function", "cut"),
    [("without_fraction", True), ("strictly_without_fraction", True), ("to_nearest", False)],
)
def test_fractions_are_cut_off_or_rounded(
    database: duckdb.DuckDBPyConnection, function: str, cut: bool
) -> None:
    for kind in BROKEN:
        for number in (2.5, -2.5, 3.5, 0.0):
            found = value(database, f"CAST({function}(CAST({number} AS {kind})) AS BIGINT)")
            away = int(abs(number) + 0.5) * (1 if number > 0 else -1)
            assert found == (int(number) if cut else away), (kind, number)
    for kind in (*WHOLE, "VARCHAR", "BOOLEAN"):
        assert value(database, f"CAST({function}(CAST(1 AS {kind})) AS BIGINT)") == 1
    most = 2**63 - 1
    assert value(database, f"CAST({function}({most}) AS BIGINT)") == most


@pytest.mark.parametrize("call", ["move_by(INTERVAL 1 MONTH, {})", "begin_of('month', {})"])
def test_dates_stay_dates(database: duckdb.DuckDBPyConnection, call: str) -> None:
    for kind in ("DATE", "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS"):
        moment = f"CAST('2024-01-31 00:00:00' AS {kind})"
        found = value(database, f"typeof({call.format(moment)})")
        assert (found == "DATE") == (kind == "DATE"), (kind, found)


def test_an_index_counts_from_0_and_a_key_is_one(database: duckdb.DuckDBPyConnection) -> None:
    numbers = ", ".join(f"at_index([7, 8, 9], {place})" for place in (0, 2, 3, -1))
    assert value(database, f"[{numbers}]") == [7, 9, None, None]
    assert value(database, "at_index(MAP {1: 'a', 2: 'b'}, 1)") == "a"
    assert value(database, "at_index(MAP {'x': 3}, 'x')") == 3


@pytest.mark.parametrize(
    "moment",
    [
        *("1704628800::INTEGER", "1704628800::BIGINT", "1704628800::UINTEGER", "1704628800::HUGEINT"),
        *("1704628800.0::DOUBLE", "1704628800.0::DECIMAL(12, 1)", "'2024-01-07 12:00:00'"),
        *("TIMESTAMP '2024-01-07 12:00:00'", "TIMESTAMP_NS '2024-01-07 12:00:00'"),
        *("TIMESTAMP_S '2024-01-07 12:00:00'", "TIMESTAMPTZ '2024-01-07 12:00:00+00'"),
    ],
)
def test_moments_are_made_of_seconds_and_of_moments(database: duckdb.DuckDBPyConnection, moment: str) -> None:
    found = value(database, f"CAST(seconds_as_moment({moment}) AS TIMESTAMP)::VARCHAR")
    assert found == "2024-01-07 12:00:00"
    if not moment.startswith("17"):
        assert value(database, f"local_time('Asia/Tokyo', {moment})::VARCHAR") == "2024-01-07 21:00:00"
    value(database, "CAST(seconds_as_moment(NULL) AS TIMESTAMP)")


def test_elements_of_json_count_from_0(database: duckdb.DuckDBPyConnection) -> None:
    assert value(database, "at_index('[10, 20]'::JSON, 0)") == "10"
    assert value(database, "at_index([10, 20], 0)") == 10
    assert value(database, "at_index(MAP {0: 10, 1: 20}, 1)") == 20
