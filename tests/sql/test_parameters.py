"""A parameter means what a literal, cast to the parameter's type, means: one engine over all rows says what
that is.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any, TypeVar

import duckdb
import pyarrow as pa
import pytest

from engine.errors import LivestateError
from engine.model.schema import define_store
from engine.model.sql_types import sql_type
from tests.oracle.comparison import difference
from tests.oracle.kinds import Trust, text_literal
from tests.oracle.plain_duckdb import PlainDuckDB, put_literals
from tests.support.local_cluster import Cluster, host_names, memory_cluster
from tests.support.seeds import seeded_random

Combination = TypeVar("Combination")
EDGE = 2**53
COLUMNS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "k": (pa.int64(), [1, 2, 5, EDGE, EDGE + 1, -(2**63), 2**63 - 1]),
    "tiny": (pa.int8(), [1, 2, 44, -128, 127, 5, None]),
    "u": (pa.uint64(), [1, 2, 5, EDGE, EDGE + 1, 2**64 - 1, 0]),
    "m": (
        pa.decimal128(10, 2),
        [Decimal(text) for text in ("1.25", "1.26", "-1.25", "0.00", "99999999.99", "5.00", "1.10")],
    ),
    "wide": (
        pa.decimal128(38, 10),
        [Decimal(text) for text in ("1.25", "1.2500000001", "0", "-7", "12345678901234567.8", "5", "1.1")],
    ),
    "f": (pa.float32(), [0.1, 1.25, -0.0, float("nan"), 16777216.0, 5.0, None]),
    "d": (pa.float64(), [0.1, 1.25, -0.0, float("nan"), float("inf"), float(EDGE), 5.0]),
    "day": (
        pa.date32(),
        [
            date(2024, 1, 1),
            date(2024, 1, 2),
            date(1969, 12, 31),
            date(1, 1, 1),
            date(9999, 12, 31),
            None,
            date(1970, 1, 1),
        ],
    ),
    "moment": (
        pa.timestamp("us"),
        [
            datetime(2024, 1, 1),  # noqa: DTZ001  a TIMESTAMP has no zone
            datetime(2024, 1, 1, 12),  # noqa: DTZ001
            datetime(1969, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
            datetime(1, 1, 1),  # noqa: DTZ001
            datetime(9999, 12, 31, 23, 59, 59, 999999),  # noqa: DTZ001
            None,
            datetime(2024, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001
        ],
    ),
    "instant": (
        pa.timestamp("us", "UTC"),
        [
            datetime(2024, 1, 1, tzinfo=UTC),
            datetime(2024, 1, 1, 12, tzinfo=UTC),
            datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            datetime(1, 1, 1, tzinfo=UTC),
            datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
            None,
            datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=UTC),
        ],
    ),
    "name": (pa.string(), ["a", "b", "", "A", "é", None, "5"]),
    "raw": (pa.binary(), [b"a", b"b", b"", b"\xff", b"a\x00", None, b"5"]),
    "flag": (pa.bool_(), [True, False, True, False, None, True, False]),
}
FAMILIES = (
    ("k", "tiny", "u", "m", "wide", "f", "d"),
    ("day", "moment", "instant"),
    ("name",),
    ("raw",),
    ("flag",),
)
OTHERS: dict[pa.DataType, list[Any]] = {
    pa.decimal128(4, 3): [Decimal("1.254"), Decimal("1.250"), Decimal("0.001")],
    pa.decimal128(20, 0): [Decimal(5), Decimal(2**64 - 1), Decimal(-1)],
    pa.int32(): [5, -1],
    pa.int16(): [44],
    pa.timestamp("ms"): [datetime(2024, 1, 1, 12)],  # noqa: DTZ001
    pa.date64(): [date(2024, 1, 1)],
}
"""Types that no column has."""
COMBINATIONS = 24
"""Of all that a test could ask, so many are asked; all of them with `LIVESTATE_EXPLORE=1`."""
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "IS NOT DISTINCT FROM")
LIVE = pa.table({name: pa.array(values, kind) for name, (kind, values) in COLUMNS.items()})
STORE = define_store("t", LIVE.schema, ["k"], partitions=5)


@pytest.fixture(scope="module")
def plain() -> Iterator[PlainDuckDB]:
    found = PlainDuckDB({"t": LIVE})
    yield found
    found.close()


@pytest.fixture(scope="module", params=[1, 3])
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with memory_cluster([STORE], {"t": LIVE}, host_names(request.param)) as made:
        yield made


def sample(combinations: Iterable[Combination], name: str) -> Sequence[Combination]:
    found = list(combinations)
    if os.environ.get("LIVESTATE_EXPLORE") or len(found) <= COMBINATIONS:
        return found
    return seeded_random(name).sample(found, COMBINATIONS)


def values_for(family: tuple[str, ...]) -> Iterator[pa.Scalar]:
    for name in family:
        kind, values = COLUMNS[name]
        yield from (pa.scalar(value, kind) for value in values)
    for kind, values in OTHERS.items():
        if (family == FAMILIES[0] and not pa.types.is_temporal(kind)) or (
            family == FAMILIES[1] and pa.types.is_temporal(kind)
        ):
            yield from (pa.scalar(value, kind) for value in values)


def literal(value: pa.Scalar) -> str:
    """A literal of a value, cast to its type."""
    kind, plain = value.type, value.as_py()
    name = {pa.timestamp("ms"): "TIMESTAMP", pa.date64(): "DATE"}.get(kind) or sql_type(kind)
    if plain is None:
        return f"CAST(NULL AS {name})"
    if isinstance(plain, bytes):
        return "CAST('" + "".join(f"\\x{byte:02X}" for byte in plain) + "' AS BLOB)"
    if isinstance(plain, datetime):
        return f"CAST('{plain.isoformat(' ')}' AS {name})"
    return f"CAST({text_literal(f'{plain:f}' if isinstance(plain, Decimal) else str(plain))} AS {name})"


def check(cluster: Cluster, plain: PlainDuckDB, sql: str, values: tuple[pa.Scalar, ...]) -> str | None:
    """What differs between parameters and literals; None for nothing."""
    text = put_literals(sql, [literal(value) for value in values])
    try:
        expected: pa.Table | None = plain.answer(text)
    except duckdb.Error:
        expected = None
    batch = pa.record_batch(
        [pa.array([value.as_py()], value.type) for value in values],
        [str(place + 1) for place in range(len(values))],
    )
    try:
        with cluster.services[cluster.hosts[0]].execute(sql, batch) as result:
            found: pa.Table | None = result.read_all()
    except LivestateError as error:
        return None if expected is None else f"{text}: refused: {error.message}"
    if expected is None or found is None:
        return f"{text}: answered, though one engine refuses it"
    # Columns made of an expression show in their names whether it has a parameter.
    renamed = found.rename_columns(expected.schema.names)
    differs = difference(expected, renamed, [Trust.CLOSE] * expected.num_columns, ())
    return None if differs is None else f"{text}: {differs}"


@pytest.mark.parametrize(("family", "column"), [(family, column) for family in FAMILIES for column in family])
def test_comparisons(cluster: Cluster, plain: PlainDuckDB, family: tuple[str, ...], column: str) -> None:
    failures = []
    for value, comparison, text in sample(
        product(values_for(family), COMPARISONS, ("{0} {1} $1", "$1 {1} {0}")), column
    ):
        failures.append(
            check(cluster, plain, f"SELECT k FROM t WHERE {text.format(column, comparison)}", (value,))
        )
    assert [failure for failure in failures if failure] == []


@pytest.mark.parametrize(
    ("family", "column"), [(family, column) for family in FAMILIES[:3] for column in family]
)
def test_several_values_at_once(
    cluster: Cluster, plain: PlainDuckDB, family: tuple[str, ...], column: str
) -> None:
    failures = []
    texts = ("BETWEEN $1 AND $2", "IN ($1, $2)")
    for one, other, text in sample(product(values_for(family), values_for(family), texts), column):
        failures.append(check(cluster, plain, f"SELECT k FROM t WHERE {column} {text}", (one, other)))
    assert [failure for failure in failures if failure] == []


@pytest.mark.parametrize("column", FAMILIES[0])
def test_arithmetic(cluster: Cluster, plain: PlainDuckDB, column: str) -> None:
    failures = []
    texts = (
        "SELECT k, {0} {1} $1 AS x FROM t WHERE k BETWEEN 1 AND 4",
        "SELECT sum({0} {1} $1) AS x FROM t WHERE k BETWEEN 1 AND 4",
    )
    for value, operator, text in sample(product(values_for(FAMILIES[0]), "+-*/%", texts), column):
        failures.append(check(cluster, plain, text.format(column, operator), (value,)))
    assert [failure for failure in failures if failure] == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, round(m, $1) AS x FROM t",
        "SELECT k, round(m, -($1)) AS x, $1 + k % 5 AS y FROM t",
        "SELECT k, m.trunc($1) AS x FROM t",
        "SELECT round(avg(m), $1) AS x FROM t",
        "SELECT k, lpad(name, $1, 'x') AS x, rpad(name, $2, 'y') AS y FROM t",
        "SELECT k, chr($1 + 64) AS x, chr($1) AS y, to_base($2, $1) AS z FROM t",
        "SELECT k, regexp_extract(name, '(.)(.)', $1) AS x FROM t",
        "SELECT k, day + $1 AS x, $1 + day AS y, day - $1 AS z FROM t WHERE k BETWEEN 1 AND 2",
        "SELECT k FROM t WHERE day > DATE '2024-01-03' - $1",
        "SELECT k FROM t WHERE day < current_date - $1",
        "SELECT count(*) AS n FROM t WHERE day < current_date + $1",
    ],
)
def test_whole_numbers_where_the_engine_takes_integer_alone(
    cluster: Cluster, plain: PlainDuckDB, text: str
) -> None:
    """Drivers have BIGINT alone; their values are what literals of these are."""
    service = cluster.services[cluster.hosts[0]]
    for values in ([2, 5], [None, None]):
        count = 1 + ("$2" in text)
        given = pa.record_batch(
            [pa.array([value], pa.int64()) for value in values[:count]], ["1", "2"][:count]
        )
        if None in values and ("round" in text or "trunc" in text):
            continue  # The engine refuses a NULL that has a type there.
        expected = plain.answer(
            put_literals(text, ["CAST(NULL AS INTEGER)" if value is None else str(value) for value in values])
        )
        with service.execute(text, given) as result:
            found = result.read_all()
        assert difference(expected, found, [Trust.CLOSE] * expected.num_columns, ()) is None, values


@pytest.mark.parametrize(
    "kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint64(), pa.float64(), pa.float32(), pa.decimal128(10, 2)]
)
@pytest.mark.parametrize(
    "make",
    [pa.list_, pa.large_list, lambda kind: pa.list_(kind, 3)],
    ids=["list", "large list", "list of three"],
)
def test_lists_of_any_width(cluster: Cluster, plain: PlainDuckDB, kind: pa.DataType, make: Any) -> None:
    items = [Decimal(item) for item in (1, 5, 44)] if pa.types.is_decimal(kind) else [1, 5, 44]
    given = pa.record_batch([pa.array([items], pa.list_(kind)).cast(make(kind))], ["1"])
    for column in FAMILIES[0]:
        for asked in (f"{column} = ANY($1)", f"list_contains($1, {column})"):
            with cluster.services[cluster.hosts[0]].execute(
                f"SELECT k FROM t WHERE {asked}", given
            ) as result:
                found = result.read_all()
            expected = plain.answer(
                f"SELECT k FROM t WHERE {asked.replace('$1', f'CAST([1, 5, 44] AS {sql_type(kind)}[])')}"
            )
            assert difference(expected, found, [Trust.EXACT], ()) is None, (column, asked)


def test_instants_as_text(cluster: Cluster) -> None:
    service = cluster.services[cluster.hosts[0]]

    def keys_found(text: str) -> list[int]:
        with service.execute(
            "SELECT k FROM t WHERE instant = $1", pa.record_batch([pa.array([text])], ["1"])
        ) as result:
            return list(result.read_all()["k"].to_pylist())

    assert (
        keys_found("2024-01-01 12:00:00+00:00")
        == keys_found("2024-01-01T13:00:00+01:00")
        == keys_found("2024-01-01 12:00:00")
        == [2]
    )
    assert keys_found("1969-12-31 23:59:59.999999Z") == [5]
    for text in ("soon", "2024-01-01 12:00:00.0000001", "", "0001-01-01 00:00:00+01:00"):
        with pytest.raises(LivestateError, match="Parameter 1 must be a TIMESTAMP WITH TIME ZONE such as"):
            keys_found(text)


def test_bounds_of_another_type_do_not_cut_rows_off(cluster: Cluster, plain: PlainDuckDB) -> None:
    """Beside a DOUBLE integers are compared as DOUBLE, so that neighbours are equal."""
    for sql in (
        f"SELECT k FROM t WHERE k BETWEEN {EDGE + 1} AND 1e18",
        f"SELECT k FROM t WHERE k IN ({EDGE + 1}, 1e0)",
        f"SELECT k FROM t WHERE u BETWEEN {EDGE + 1} AND d + {EDGE}",
        "SELECT k FROM t WHERE wide BETWEEN 1.2500000001 AND 1e2",
        "SELECT count(*) AS n FROM t AS a JOIN t AS b ON a.k BETWEEN 9007199254740993 AND b.d",
    ):
        assert check(cluster, plain, sql, ()) is None
