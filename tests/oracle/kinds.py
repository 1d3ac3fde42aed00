"""What the generator knows of a value: its family, its type, how surely its bits are determined, and whether
sums of it are exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum, IntEnum

import pyarrow as pa


class Family(Enum):
    """Types that can stand for each other in an expression."""

    INTEGER = "integer"
    DECIMAL = "decimal"
    FLOAT = "float"
    TEXT = "text"
    BLOB = "blob"
    BOOLEAN = "boolean"
    DATE = "date"
    TIMESTAMP = "timestamp"
    TIMESTAMPTZ = "timestamptz"
    TIME = "time"
    INTERVAL = "interval"
    LIST = "list"
    STRUCT = "struct"
    MAP = "map"


class Trust(IntEnum):
    """How surely a value is determined by the query, whatever the order in which rows are read.

    `EXACT`: bit for bit. `EQUAL`: up to SQL's equality, for which -0.0 is 0.0 and a day is 24 hours. `CLOSE`:
    up to rounding, so that nothing but the answer may depend on it.
    """

    EXACT = 0
    EQUAL = 1
    CLOSE = 2


NUMBERS = (Family.INTEGER, Family.DECIMAL, Family.FLOAT)
SIMPLE = (
    *NUMBERS,
    Family.TEXT,
    Family.BLOB,
    Family.BOOLEAN,
    Family.DATE,
    Family.TIMESTAMP,
    Family.TIMESTAMPTZ,
    Family.TIME,
    Family.INTERVAL,
)
LOOSE = (Family.FLOAT, Family.INTERVAL)
"""Families with values that are equal and not the same: -0.0 and 0.0, a day and 24 hours."""
NESTED = (Family.LIST, Family.STRUCT, Family.MAP)


@dataclass(frozen=True)
class Expression:
    """A typed SQL expression.

    Attributes:
        sql: Its text, safe to stand anywhere an operand can.
        family: Its family.
        kind: Its SQL type where that is known for sure; else empty.
        trust: How surely its value is determined.
        is_tame: Numbers: small enough for arithmetic, and sums of it are exact in any order.
        samples: Literals of values that it may have.
        name: The name of a plain column; else empty.
    """

    sql: str
    family: Family
    kind: str = ""
    trust: Trust = Trust.EXACT
    is_tame: bool = True
    samples: tuple[str, ...] = ()
    name: str = ""

    def column_under(self, alias: str, name: str) -> Expression:
        """The same value as a column of a table that has another name."""
        return replace(self, sql=f"{alias}.{quote_name(name)}", name=name)

    def loosen(self, trust: Trust) -> Expression:
        """The same value, determined no more surely than this."""
        return replace(self, trust=max(self.trust, trust))


_FAMILIES = {
    "VARCHAR": Family.TEXT,
    "BLOB": Family.BLOB,
    "BOOLEAN": Family.BOOLEAN,
    "DATE": Family.DATE,
    "TIMESTAMP": Family.TIMESTAMP,
    "TIMESTAMP WITH TIME ZONE": Family.TIMESTAMPTZ,
    "FLOAT": Family.FLOAT,
    "DOUBLE": Family.FLOAT,
}


def family_of(kind: pa.DataType, name: str) -> Family:
    """The family of a store's type, whose SQL name is given too."""
    if pa.types.is_integer(kind):
        return Family.INTEGER
    if pa.types.is_decimal(kind):
        return Family.DECIMAL
    if pa.types.is_list(kind):
        return Family.LIST
    if pa.types.is_struct(kind):
        return Family.STRUCT
    return Family.MAP if pa.types.is_map(kind) else _FAMILIES[name]


_PLAIN_NAMES = frozenset("abcdefghijklmnopqrstuvwxyz_0123456789")
_WORDS = frozenset(
    {"order", "select", "group", "by", "end", "all", "table", "in", "on", "at", "as", "to", "do", "or", "is"}
)


def quote_name(name: str) -> str:
    """A name as SQL writes it: in quotes unless it is plain."""
    if set(name) <= _PLAIN_NAMES and not name[0].isdigit() and name not in _WORDS:
        return name
    return '"' + name.replace('"', '""') + '"'


def text_literal(value: str) -> str:
    """A string as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"
