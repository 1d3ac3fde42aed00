"""Values of every type and at its edges, bound by JDBC, ADBC and plain Flight: each finds the rows that have
it, or is refused.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import adbc_driver_flightsql.dbapi as flight_sql
import pyarrow as pa
import pytest
from adbc_driver_manager import Error
from pyarrow import flight

from engine.changelog import Changelog, append_table
from engine.model.schema import define_store
from flight_server.host.host import HostOptions
from tests.protocol.test_jdbc import java_command
from tests.support.started_host import start_host

REFUSED = "refused"
PROGRAM = Path(__file__).parent / "jdbc" / "Bindings.java"


def naive(*parts: int) -> datetime:
    return datetime(*parts)  # type: ignore[arg-type]  # noqa: DTZ001  a TIMESTAMP has no zone


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type,misc]


LAST = (9999, 12, 31, 23, 59, 59, 999999)
EDGES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "tiny": (pa.int8(), (-128, 127, 44, 0)),
    "small": (pa.int16(), (-(2**15), 2**15 - 1, 0, 1)),
    "number": (pa.int32(), (-(2**31), 2**31 - 1, 0, 1)),
    "big": (pa.int64(), (-(2**63), 2**63 - 1, 2**53 + 1, 2**53)),
    "utiny": (pa.uint8(), (0, 255, 44, 1)),
    "usmall": (pa.uint16(), (0, 2**16 - 1, 5, 1)),
    "unumber": (pa.uint32(), (0, 2**32 - 1, 5, 1)),
    "ubig": (pa.uint64(), (0, 2**64 - 1, 2**63, 5)),
    "single": (pa.float32(), (0.1, -3.4e38, 1e-45, 1.5)),
    "double": (pa.float64(), (0.1, -1.7976931348623157e308, 5e-324, 1.5)),
    "amount": (
        pa.decimal128(12, 3),
        (Decimal("12345.678"), Decimal("-999999999.999"), Decimal("0.001"), Decimal("1.250")),
    ),
    "wide": (pa.decimal128(38, 0), (Decimal(10**38 - 1), Decimal(-(10**38) + 1), Decimal(0), Decimal(5))),
    "name": (pa.string(), ("", "Ærø 🎵", "it's", "2024-01-01")),
    "raw": (pa.binary(), (b"", b"\x00\xff", b"'", b"a")),
    "flag": (pa.bool_(), (True, False, None, None)),
    "day": (pa.date32(), (date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29))),
    "moment": (
        pa.timestamp("us"),
        (
            naive(1, 1, 1),
            naive(*LAST),
            naive(1969, 12, 31, 23, 59, 59, 999000),
            naive(2024, 3, 10, 1, 30, 0, 123456),
        ),
    ),
    "instant": (
        pa.timestamp("us", "UTC"),
        (utc(1, 1, 1), utc(*LAST), utc(1969, 12, 31, 23, 59, 59, 999000), utc(2024, 3, 10, 1, 30, 0, 123456)),
    ),
}
ROWS = pa.table(
    {"k": pa.array(range(4), pa.int64())}
    | {name: pa.array(values, kind) for name, (kind, values) in EDGES.items()}
)


@pytest.fixture(scope="module")
def uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("edges")
    append_table(
        Changelog.open(str(directory / "changelog")),
        define_store("edges", ROWS.schema, ["k"], partitions=2),
        ROWS,
    )
    with start_host(
        HostOptions(changelog=str(directory / "changelog"), data=directory / "data", port=0)
    ) as host:
        yield host.uri


@dataclass(frozen=True)
class Case:
    """A value to bind.

    Attributes:
        column: What it is compared with.
        value: The value, in its own type.
        keys: Rows that have it.
    """

    column: str
    value: pa.Scalar
    keys: frozenset[int]


def keys_of(column: str, value: Any) -> frozenset[int]:
    return frozenset(
        key for key, found in enumerate(EDGES[column][1]) if found is not None and found == value
    )


CASES = [
    Case(name, pa.scalar(value, kind), keys_of(name, value))
    for name, (kind, values) in EDGES.items()
    for value in (*values, None)
]
OTHER_TYPES = [
    Case("tiny", pa.scalar(300, pa.int64()), frozenset()),
    Case("utiny", pa.scalar(-1, pa.int8()), frozenset()),
    Case("ubig", pa.scalar(-1, pa.int64()), frozenset()),
    Case("big", pa.scalar(2**53 + 1, pa.uint64()), frozenset({2})),
    Case("single", pa.scalar(0.1, pa.float64()), frozenset()),
    Case("amount", pa.scalar(Decimal("1.2504"), pa.decimal128(5, 4)), frozenset()),
    Case("amount", pa.scalar(1.25, pa.float64()), frozenset({3})),
    Case("moment", pa.scalar(naive(1969, 12, 31, 23, 59, 59, 999000), pa.timestamp("ms")), frozenset({2})),
    Case("moment", pa.scalar(naive(2024, 3, 10, 1, 30, 0, 123456), pa.timestamp("ns")), frozenset({3})),
    Case("moment", pa.scalar(date(1, 1, 1), pa.date32()), frozenset({0})),
    Case("day", pa.scalar(naive(2024, 2, 29), pa.timestamp("us")), frozenset({3})),
    Case("day", pa.scalar(naive(2024, 2, 29, 12), pa.timestamp("us")), frozenset()),
    Case(
        "instant",
        pa.scalar(utc(2024, 3, 10, 1, 30, 0, 123456), pa.timestamp("us", "America/New_York")),
        frozenset({3}),
    ),
    Case("name", pa.scalar("", pa.large_string()), frozenset({0})),
    Case("raw", pa.scalar(b"\x00\xff", pa.binary(2)), frozenset({1})),
]
BELOW_MICROSECONDS = pa.scalar(1_700_000_000_000_000_001, pa.timestamp("ns"))


def test_adbc_binds_every_type(uri: str) -> None:
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:

        def keys(case: Case) -> frozenset[int]:
            cursor.execute(
                f"SELECT k FROM edges WHERE {case.column} = ?",
                pa.record_batch([pa.array([case.value])], ["1"]),
            )
            return frozenset(cursor.fetch_arrow_table()["k"].to_pylist())

        assert {case: keys(case) for case in (*CASES, *OTHER_TYPES)} == {
            case: case.keys for case in (*CASES, *OTHER_TYPES)
        }
        with pytest.raises(Error, match=r"Parameter 1 of type timestamp\[ns\] cannot be converted"):
            keys(Case("moment", BELOW_MICROSECONDS, frozenset()))


@pytest.mark.parametrize(
    ("expression", "value", "expected"),
    [
        ("amount * ?", 2, pa.decimal128(31, 3)),
        ("amount * ?", 1.5, pa.float64()),
        ("amount + ?", Decimal("0.0001"), pa.decimal128(14, 4)),
        ("number + ?", 1.5, pa.float64()),
        ("coalesce(tiny, ?)", None, pa.int8()),
        ("greatest(name, ?)", None, pa.string()),
        ("CASE WHEN k = 0 THEN ? ELSE big END", None, pa.int64()),
    ],
)
def test_adbc_is_told_the_columns_that_come(
    uri: str, expression: str, value: Any, expected: pa.DataType
) -> None:
    """A driver refuses a result that has others."""
    with flight_sql.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(f"SELECT {expression} AS x FROM edges WHERE k > 1", [value])
        assert cursor.fetch_arrow_table().schema.field("x").type == expected


def test_a_struct_without_a_name_of_a_field_is_refused(uri: str) -> None:
    unnamed = pa.array([[{"": 1}]], pa.list_(pa.struct([("", pa.int64())])))
    with (
        flight_sql.connect(uri, autocommit=True) as connection,
        connection.cursor() as cursor,
        pytest.raises(Error, match="Parameter 1: A field of a struct has no name"),
    ):
        cursor.execute("SELECT ? AS x", pa.record_batch([unnamed], ["1"]))


def json_value(value: pa.Scalar) -> Any:
    plain = value.as_py()
    if isinstance(plain, Decimal):
        return f"{plain:f}"
    return str(plain) if isinstance(plain, date) else plain


def test_plain_flight_binds_every_type(uri: str) -> None:
    with flight.connect(uri) as client:

        def keys(case: Case) -> frozenset[int]:
            ticket = {
                "sql": f"SELECT k FROM edges WHERE {case.column} = $v",
                "parameters": {"v": json_value(case.value)},
            }
            return frozenset(
                client.do_get(flight.Ticket(json.dumps(ticket).encode())).read_all()["k"].to_pylist()
            )

        # JSON has no bytes, and its numbers beyond DOUBLE are read as integers.
        asked = [case for case in CASES if case.column != "raw"]
        assert {case: keys(case) for case in asked} == {case: case.keys for case in asked}
        for column, text in (
            ("moment", "2024-03-10 01:30:00.1234567"),
            ("day", "2024-02-30"),
            ("instant", "soon"),
            ("amount", "1.25x"),
        ):
            with pytest.raises((flight.FlightError, pa.ArrowInvalid)):
                keys(Case(column, pa.scalar(text), frozenset()))


def jdbc_lines() -> Iterator[tuple[str, str, str, str]]:
    """Column, setter, value, and what is to be found."""
    setters = {
        "tiny": "long",
        "small": "long",
        "number": "long",
        "big": "long",
        "utiny": "long",
        "usmall": "long",
        "unumber": "long",
        "ubig": "decimal",
        "single": "float",
        "double": "double",
        "amount": "decimal",
        "wide": "decimal",
        "name": "string",
        "raw": "bytes",
        "flag": "boolean",
        "day": "date",
        "moment": "timestamp",
        "instant": "string",
    }
    for case in CASES:
        value = case.value.as_py()
        found = str(sorted(case.keys))
        if value is None:
            yield case.column, "null", "", "[]"
        elif isinstance(value, bytes):
            yield case.column, setters[case.column], value.hex(), found
        elif isinstance(value, bool):
            yield case.column, setters[case.column], str(value).lower(), found
        elif case.column == "moment" and value.microsecond % 1000:
            # The driver writes milliseconds, so such a value cannot be asked for.
            yield case.column, setters[case.column], str(value), "[]"
        else:
            yield (
                case.column,
                setters[case.column],
                f"{value:f}" if isinstance(value, Decimal) else str(value),
                found,
            )
    yield "tiny", "long", "300", "[]"
    yield "utiny", "long", "-1", "[]"
    yield "ubig", "long", "5", REFUSED
    yield "ubig", "decimal", "-1", "[]"
    yield "single", "double", "0.1", "[]"
    yield "amount", "decimal", "1.2504", REFUSED
    yield "amount", "double", "1.25", REFUSED
    yield "instant", "timestamp", "2024-03-10 01:30:00.123", REFUSED
    yield "instant", "string", "2024-03-10T02:30:00.123456+01:00", "[3]"
    yield "moment", "date", "2024-03-10", REFUSED
    yield "day", "timestamp", "2024-02-29 00:00:00", REFUSED
    yield "name", "long", "5", REFUSED
    yield "big", "string", "5", REFUSED


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kolkata"])
def test_jdbc_binds_every_type(uri: str, zone: str) -> None:
    lines = list(jdbc_lines())
    asked = "".join(f"{column}\t{setter}\t{value}\n" for column, setter, value, _ in lines)
    answer = subprocess.run(
        java_command(PROGRAM, uri, zone), input=asked.encode(), capture_output=True, check=False, timeout=120
    )
    found = answer.stdout.decode().splitlines()
    assert len(found) == len(lines), answer.stderr.decode()
    differing = [(*line, got) for line, got in zip(lines, found, strict=True) if got != line[3]]
    assert differing == []
