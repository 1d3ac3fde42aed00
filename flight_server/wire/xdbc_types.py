"""GetXdbcTypeInfo: the SQL types as JDBC and ODBC describe them.

Numbers: the enums `XdbcDataType`, `XdbcDatetimeSubcode`, `Nullable` and `Searchable` of
    `format/FlightSql.proto` of Apache Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("type_name", pa.string(), nullable=False),
        pa.field("data_type", pa.int32(), nullable=False),
        pa.field("column_size", pa.int32()),
        pa.field("literal_prefix", pa.string()),
        pa.field("literal_suffix", pa.string()),
        pa.field("create_params", pa.list_(pa.field("item", pa.string(), nullable=False))),
        pa.field("nullable", pa.int32(), nullable=False),
        pa.field("case_sensitive", pa.bool_(), nullable=False),
        pa.field("searchable", pa.int32(), nullable=False),
        pa.field("unsigned_attribute", pa.bool_()),
        pa.field("fixed_prec_scale", pa.bool_(), nullable=False),
        pa.field("auto_increment", pa.bool_()),
        pa.field("local_type_name", pa.string()),
        pa.field("minimum_scale", pa.int32()),
        pa.field("maximum_scale", pa.int32()),
        pa.field("sql_data_type", pa.int32(), nullable=False),
        pa.field("datetime_subcode", pa.int32()),
        pa.field("num_prec_radix", pa.int32()),
        pa.field("interval_precision", pa.int32()),
    ]
)
_NULLABLE, _SEARCHABLE_FULL, _DATETIME = 1, 3, 9


@dataclass(frozen=True)
class _Type:
    """One row.

    Attributes:
        name: SQL name.
        code: `XdbcDataType`.
        size: Digits, bits or characters, as `radix` says.
        radix: 10 or 2 for numbers.
        quote: What stands around a literal.
        prefix: What stands before the opening quote.
        unsigned: For numbers, whether they are never negative.
        scales: Least and greatest scale.
        subcode: For dates and times, `XdbcDatetimeSubcode`.
        parameters: Words for what the type's name can carry in brackets.
    """

    name: str
    code: int
    size: int | None = None
    radix: int | None = None
    quote: str | None = None
    prefix: str = ""
    unsigned: bool | None = None
    scales: tuple[int, int] | None = None
    subcode: int | None = None
    parameters: tuple[str, ...] | None = None


def _integer(name: str, code: int, digits: int, *, unsigned: bool = False) -> _Type:
    return _Type(name, code, digits, radix=10, unsigned=unsigned, scales=(0, 0))


_TYPES = (
    _integer("TINYINT", -6, 3),
    _integer("SMALLINT", 5, 5),
    _integer("INTEGER", 4, 10),
    _integer("BIGINT", -5, 19),
    # JDBC has no unsigned types: the next larger signed ones hold their values.
    _integer("UTINYINT", 5, 3, unsigned=True),
    _integer("USMALLINT", 4, 5, unsigned=True),
    _integer("UINTEGER", -5, 10, unsigned=True),
    _integer("UBIGINT", 2, 20, unsigned=True),
    _integer("HUGEINT", 2, 39),
    _integer("UHUGEINT", 2, 39, unsigned=True),
    _Type("FLOAT", 7, 24, radix=2, unsigned=False),
    _Type("DOUBLE", 8, 53, radix=2, unsigned=False),
    _Type("DECIMAL", 3, 38, radix=10, unsigned=False, scales=(0, 38), parameters=("precision", "scale")),
    _Type("VARCHAR", 12, quote="'"),
    _Type("BLOB", -3, quote="'"),
    _Type("BOOLEAN", -7, 1),
    _Type("DATE", 91, 10, quote="'", prefix="DATE ", subcode=1),
    _Type("TIME", 92, 15, quote="'", prefix="TIME ", scales=(6, 6), subcode=2),
    _Type("TIMESTAMP", 93, 26, quote="'", prefix="TIMESTAMP ", scales=(6, 6), subcode=3),
    _Type("TIMESTAMP WITH TIME ZONE", 93, 32, quote="'", prefix="TIMESTAMPTZ ", scales=(6, 6), subcode=5),
    _Type("INTERVAL", 10, quote="'", prefix="INTERVAL "),
    # ODBC has no numbers for them: 0 is an unknown type's.
    _Type("LIST", 0),
    _Type("STRUCT", 0),
    _Type("MAP", 0),
)


def table(data_type: int | None = None) -> pa.Table:
    """The types.

    Args:
        data_type: Only those of this `XdbcDataType`.

    Returns:
        A table of `SCHEMA`, ordered by data type and name.
    """
    wanted = sorted(
        (t for t in _TYPES if data_type is None or t.code == data_type), key=lambda t: (t.code, t.name)
    )
    return pa.Table.from_pylist([_row(sql_type) for sql_type in wanted], SCHEMA)


def _row(sql_type: _Type) -> dict[str, Any]:
    least, greatest = sql_type.scales if sql_type.scales is not None else (None, None)
    return {
        "type_name": sql_type.name,
        "data_type": sql_type.code,
        "column_size": sql_type.size,
        "literal_prefix": None if sql_type.quote is None else sql_type.prefix + sql_type.quote,
        "literal_suffix": sql_type.quote,
        "create_params": sql_type.parameters,
        "nullable": _NULLABLE,
        "case_sensitive": sql_type.name == "VARCHAR",
        "searchable": _SEARCHABLE_FULL,
        "unsigned_attribute": sql_type.unsigned,
        "fixed_prec_scale": False,
        "auto_increment": None if sql_type.unsigned is None else False,
        "local_type_name": sql_type.name,
        "minimum_scale": least,
        "maximum_scale": greatest,
        "sql_data_type": sql_type.code if sql_type.subcode is None else _DATETIME,
        "datetime_subcode": sql_type.subcode,
        "num_prec_radix": sql_type.radix,
        "interval_precision": None,
    }
