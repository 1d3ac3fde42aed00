"""From the names of SQL types, as `information_schema` has them, to SQLAlchemy's types."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import types

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")


class NestedType(types.UserDefinedType[Any]):
    """A struct or a map: values are Python's dicts and lists.

    Args:
        name: The name of the type in SQL.
    """

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """The type as SQL writes it."""
        return self.name


class Binary(types.LargeBinary):
    """Bytes, which the driver takes as they are."""

    cache_ok = True

    def bind_processor(self, dialect: Any) -> None:
        """Nothing is to be done: SQLAlchemy would ask the driver for a type of its own."""


_TYPES: Mapping[str, Callable[[], types.TypeEngine[Any]]] = {
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INTEGER": types.INTEGER,
    "BIGINT": types.BIGINT,
    # SQLAlchemy has no unsigned types: the next larger signed ones hold their values.
    "UTINYINT": types.SMALLINT,
    "USMALLINT": types.INTEGER,
    "UINTEGER": types.BIGINT,
    "UBIGINT": lambda: types.NUMERIC(20, 0),
    "FLOAT": types.REAL,
    "DOUBLE": lambda: types.Float(53),
    "VARCHAR": types.VARCHAR,
    "BLOB": types.BLOB,
    "BOOLEAN": types.BOOLEAN,
    "DATE": types.DATE,
    "TIME": types.TIME,
    "TIMESTAMP": types.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": lambda: types.TIMESTAMP(timezone=True),
}


def type_of(name: str) -> types.TypeEngine[Any]:
    """The type of a column.

    Args:
        name: As `information_schema.columns.data_type` has it, such as `DECIMAL(12,3)` or `VARCHAR[]`.
    """
    if name in _TYPES:
        return _TYPES[name]()
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        return types.DECIMAL(int(decimal[1]), int(decimal[2]))
    if name.endswith("[]"):
        inner = type_of(name.removesuffix("[]"))
        return NestedType(name) if isinstance(inner, types.ARRAY) else types.ARRAY(inner)
    return NestedType(name)
