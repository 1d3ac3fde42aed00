"""From the names of SQL types, as `information_schema` has them, to SQLAlchemy's types."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import cast, types
from sqlalchemy.sql import sqltypes, type_api

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

    def literal_processor(self, dialect: Any) -> Callable[[bytes], str]:
        """What makes a value a literal; SQLAlchemy would write text, in which the engine reads escapes."""
        return _binary_literal


def _binary_literal(value: bytes) -> str:
    return "CAST('" + "".join(f"\\x{byte:02X}" for byte in value) + "' AS BLOB)"


class Integer(types.Integer):
    """A whole number; the driver takes those of 64 bits, and larger ones as decimals."""

    cache_ok = True

    def bind_processor(self, dialect: Any) -> Callable[[Any], Any]:
        """What makes a value one that the driver takes."""
        return _number


def _number(value: Any) -> Any:
    return Decimal(value) if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63 else value


class Interval(type_api.NativeForEmulated, sqltypes._AbstractInterval):  # noqa: SLF001 - as SQLAlchemy's own dialects do
    """A time span: Python's `timedelta`. SQLAlchemy's own would send a time since 1970."""

    __visit_name__ = "INTERVAL"
    cache_ok = True
    native = True

    @classmethod
    def adapt_emulated_to_native(cls, impl: Any, **kw: Any) -> Interval:
        """This type, in place of SQLAlchemy's."""
        return cls()

    @property
    def python_type(self) -> type[dt.timedelta]:
        """What values are."""
        return dt.timedelta

    def bind_expression(self, bindvalue: Any) -> Any:
        """The parameter, which is a text, as an interval."""
        return cast(bindvalue, self)

    def bind_processor(self, dialect: Any) -> Callable[[Any], str | None]:
        """What makes a value a text of an interval."""
        return _interval_text

    def result_processor(self, dialect: Any, coltype: Any) -> Callable[[Any], dt.timedelta | None]:
        """What makes what the driver gives a value."""
        return _time_span


def _interval_text(value: dt.timedelta | None) -> str | None:
    if value is None:
        return None
    return f"{value.days} days {value.seconds} seconds {value.microseconds} microseconds"


def _time_span(value: Any) -> dt.timedelta | None:
    if value is None or isinstance(value, dt.timedelta):
        return value
    if value.months:
        raise ValueError(
            f"An interval of {value.months} months is no timedelta, as months differ: cast it to VARCHAR."
        )
    return dt.timedelta(days=value.days, microseconds=value.nanoseconds // 1000)


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
