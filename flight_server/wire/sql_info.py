"""GetSqlInfo: what this server and its SQL can do, as numbered facts.

Numbers and meanings: the enum `SqlInfo` of `format/FlightSql.proto` of Apache Arrow. Every fact that the enum
knows has a value here: JDBC drivers up to 18.3 fail on a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa

from engine.model.version import own_version

_CHILDREN: tuple[pa.Field, ...] = (
    pa.field("string_value", pa.string()),
    pa.field("bool_value", pa.bool_()),
    pa.field("bigint_value", pa.int64()),
    pa.field("int32_bitmask", pa.int32()),
    pa.field("string_list", pa.list_(pa.string())),
    pa.field("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
SCHEMA = pa.schema(
    [
        pa.field("info_name", pa.uint32(), nullable=False),
        pa.field("value", pa.dense_union(_CHILDREN), nullable=False),
    ]
)


@dataclass(frozen=True)
class Bits:
    """A value of the union's `int32_bitmask`: a bit mask or an ordinal."""

    value: int


Value: TypeAlias = str | bool | int | Bits | Sequence[str] | Mapping[int, Sequence[int]]


def _bits(*ordinals: int) -> Bits:
    return Bits(sum(1 << ordinal for ordinal in ordinals))


_NUMERIC = (
    "abs acos asin atan atan2 ceil cos cot degrees exp floor ln log log10 mod pi power radians random "
    "round sign sin sqrt tan trunc"
)
_STRING = (
    "ascii chr concat contains left length lower lpad ltrim md5 position repeat replace reverse right "
    "rpad rtrim split substring trim upper"
)
_SYSTEM = "coalesce ifnull nullif typeof"
_DATETIME = (
    "current_date current_timestamp date_diff date_part date_trunc day dayname epoch hour minute "
    "month monthname now quarter second week year"
)
_KEYWORDS = (
    "ANALYSE ANALYZE ANTI ASC ASOF COLLATION CONCURRENTLY DEFERRABLE DESC DESCRIBE DO EXCLUDE EXPLAIN FREEZE "
    "GLOB ILIKE INITIALLY ISNULL LAMBDA LIMIT NOTNULL OFFSET PIVOT PIVOT_LONGER PIVOT_WIDER PLACING "
    "POSITIONAL QUALIFY RETURNING SAMPLE SEMI SHOW STRUCT SUMMARIZE TABLESAMPLE TRY_CAST UNNEST UNPACK "
    "UNPIVOT VARIADIC VERBOSE"
)
"""Beyond those that SQL:2003 reserves: tools put names that are such words in quotation marks."""
_UNLIMITED = 0
_MAX_NAME_BYTES = 200

_FACTS: Mapping[int, Value] = {
    # The server.
    0: "livestate",
    1: own_version(),
    2: pa.__version__,
    3: True,  # read only
    4: True,  # SQL
    5: False,  # Substrait
    6: "",
    7: "",
    8: Bits(0),  # no transactions
    9: True,  # cancel
    10: False,  # bulk ingestion
    11: False,
    100: Bits(0),  # statement handles do not expire
    101: Bits(0),
    # The SQL.
    500: False,  # CREATE CATALOG, SCHEMA, TABLE
    501: False,
    502: False,
    503: Bits(1),  # names: upper and lower case are the same
    504: '"',
    505: Bits(1),
    506: True,  # every table can be selected from
    507: Bits(3),  # NULLs are sorted at the end
    508: _KEYWORDS.split(),
    509: _NUMERIC.split(),
    510: _STRING.split(),
    511: _SYSTEM.split(),
    512: _DATETIME.split(),
    513: "\\",
    514: "",
    515: True,  # column aliases
    516: True,  # NULL || 'x' is NULL
    517: {},  # CONVERT
    518: True,  # table aliases
    519: False,
    520: True,  # expressions in ORDER BY
    521: True,
    522: _bits(0, 1),  # GROUP BY columns that are not selected
    523: True,  # LIKE … ESCAPE
    524: True,  # NOT NULL columns: the key
    525: _bits(0, 1, 2),  # ODBC grammar: minimum, core, extended
    526: _bits(0, 1, 2),  # ANSI 92: entry, intermediate, full
    527: False,
    528: Bits(2),  # outer joins: full
    529: "schema",
    530: "procedure",
    531: "catalog",
    532: True,  # the catalog comes first in a name
    533: Bits(0),
    534: Bits(0),
    535: Bits(0),  # no positioned updates
    536: False,  # SELECT FOR UPDATE
    537: False,  # stored procedures
    538: _bits(0, 1, 2, 3),  # subqueries: comparison, EXISTS, IN, ANY/ALL
    539: True,  # correlated ones
    540: _bits(0, 1),  # UNION, UNION ALL
    541: _UNLIMITED,
    542: _UNLIMITED,
    543: _UNLIMITED,
    544: _UNLIMITED,
    545: _UNLIMITED,
    546: _UNLIMITED,
    547: _UNLIMITED,
    548: _UNLIMITED,
    549: _UNLIMITED,
    550: _UNLIMITED,
    551: _UNLIMITED,
    552: _UNLIMITED,
    553: _UNLIMITED,
    554: _UNLIMITED,
    555: _UNLIMITED,
    556: False,
    557: _UNLIMITED,
    558: _UNLIMITED,
    559: _MAX_NAME_BYTES,
    560: _UNLIMITED,
    561: _UNLIMITED,
    562: 0,  # isolation by default: none, there are no transactions
    563: False,
    564: _bits(0),
    565: False,
    566: False,
    567: _bits(0, 1),  # results are read forwards
    568: _bits(0, 1),  # and only read
    569: _bits(0, 1),
    570: Bits(0),
    571: Bits(0),
    572: False,  # batch updates
    573: False,  # savepoints
    574: False,
    575: False,
    576: False,
}


def _child_number(value: Value) -> int:
    if isinstance(value, bool):
        return 1
    children: tuple[tuple[type, int], ...] = ((str, 0), (int, 2), (Bits, 3), (Mapping, 5))
    return next((child for value_class, child in children if isinstance(value, value_class)), 4)


def _plain_value(value: Value) -> object:
    if isinstance(value, Bits):
        return value.value
    return list(value.items()) if isinstance(value, Mapping) else value


def table(wanted: Sequence[int]) -> pa.Table:
    """The facts.

    Args:
        wanted: Their numbers; empty: all. Unknown numbers are left out.

    Returns:
        A table of `SCHEMA`.
    """
    names = [name for name in wanted if name in _FACTS] if wanted else list(_FACTS)
    children: list[list[object]] = [[] for _ in _CHILDREN]
    child_numbers, offsets = [], []
    for name in names:
        child = _child_number(_FACTS[name])
        child_numbers.append(child)
        offsets.append(len(children[child]))
        children[child].append(_plain_value(_FACTS[name]))
    values = pa.UnionArray.from_dense(
        pa.array(child_numbers, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(column, field.type) for column, field in zip(children, _CHILDREN, strict=True)],
        [field.name for field in _CHILDREN],
    )
    return pa.table([pa.array(names, pa.uint32()), values], schema=SCHEMA)
