"""What Flight SQL tells drivers of a column, beside its name and Arrow type."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from engine.model.catalog_names import CATALOG
from engine.model.sql_types import result_type_name

_DIGITS: Mapping[pa.DataType, tuple[int, int]] = {
    pa.int8(): (3, 0),
    pa.int16(): (5, 0),
    pa.int32(): (10, 0),
    pa.int64(): (19, 0),
    pa.uint8(): (3, 0),
    pa.uint16(): (5, 0),
    pa.uint32(): (10, 0),
    pa.uint64(): (20, 0),
    pa.float32(): (7, 0),
    pa.float64(): (15, 0),
    pa.bool_(): (1, 0),
    pa.date32(): (10, 0),
    pa.timestamp("us"): (26, 6),
    pa.timestamp("us", "UTC"): (32, 6),
}
"""Precision and scale as JDBC has them: digits of a number, characters of a date, and digits behind the
point.
"""


def describe_field(field: pa.Field, schema: str = "", table: str = "") -> pa.Field:
    """A column with the metadata `ARROW:FLIGHT:SQL:…`.

    Args:
        field: The column.
        schema: Schema of the table that it is a column of; empty for none.
        table: That table; empty for none.
    """
    facts = {
        "TYPE_NAME": result_type_name(field.type),
        "IS_AUTO_INCREMENT": "0",
        "IS_CASE_SENSITIVE": "1" if pa.types.is_string(field.type) else "0",
        "IS_READ_ONLY": "1",
        "IS_SEARCHABLE": "1",
    }
    if table:
        # The protocol calls the schema by the first of its names, the JDBC driver by the second.
        facts |= {
            "CATALOG_NAME": CATALOG,
            "DB_SCHEMA_NAME": schema,
            "SCHEMA_NAME": schema,
            "TABLE_NAME": table,
        }
    digits = (
        (field.type.precision, field.type.scale)
        if pa.types.is_decimal(field.type)
        else _DIGITS.get(field.type)
    )
    if digits is not None:
        facts |= {"PRECISION": str(digits[0]), "SCALE": str(digits[1])}
    return field.with_metadata({f"ARROW:FLIGHT:SQL:{name}": value for name, value in facts.items()})
