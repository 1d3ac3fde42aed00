"""The value types of a store: Arrow types, their canonical forms and their SQL names (DuckDB's).

Canonical means one Arrow type for each SQL type, so that segments, changelog slices and results of one column
always agree: strings are `utf8` with 32-bit offsets, timestamps count microseconds, dictionaries are decoded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.names import fold

_ARROW_OF: dict[str, pa.DataType] = {
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "UTINYINT": pa.uint8(),
    "USMALLINT": pa.uint16(),
    "UINTEGER": pa.uint32(),
    "UBIGINT": pa.uint64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "VARCHAR": pa.string(),
    "BLOB": pa.binary(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMP WITH TIME ZONE": pa.timestamp("us", "UTC"),
}
_ALIASES = {
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP",
    "INT": "INTEGER",
    "REAL": "FLOAT",
    "STRING": "VARCHAR",
    "TEXT": "VARCHAR",
    "TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE",
}
"""Other names that people write, as DuckDB takes them."""
_SQL_OF = {arrow_type: name for name, arrow_type in _ARROW_OF.items()}
_RESULT_NAMES = _SQL_OF | {
    pa.time64("us"): "TIME",
    pa.time64("ns"): "TIME_NS",
    pa.timestamp("ns"): "TIMESTAMP_NS",
    pa.timestamp("ns", "UTC"): "TIMESTAMPTZ_NS",
    pa.month_day_nano_interval(): "INTERVAL",
}
"""Names of what results may have, and of these what stores have not, too."""
MAX_DEPTH = 32
MAX_DECIMAL_DIGITS = 38


def sql_type(arrow_type: pa.DataType) -> str:
    """The SQL name of a canonical Arrow type.

    Args:
        arrow_type: A type that `canonical_type` returned.

    Returns:
        DuckDB's name, such as `BIGINT`, `DECIMAL(10,2)`, `STRUCT("a" BIGINT)`, `VARCHAR[]` or `MAP(VARCHAR,
        BIGINT)`.

    Raises:
        InvalidInput: The type has no canonical form.
    """
    return _type_name(arrow_type, _SQL_OF)


def result_type_name(arrow_type: pa.DataType) -> str:
    """The SQL name of the type of a result's column, as `sql_type` has it for stores.

    Args:
        arrow_type: A type that `engine.duckdb.results.result_schema` has.

    Returns:
        DuckDB's name, such as `TIME`, or `INTERVAL[]`; that of the Arrow type where there is none.
    """
    try:
        return _type_name(arrow_type, _RESULT_NAMES)
    except InvalidInput:
        return str(arrow_type).upper()


def _type_name(arrow_type: pa.DataType, names: Mapping[pa.DataType, str]) -> str:
    """The name of a type, of which some have names of their own."""
    if arrow_type in names:
        return names[arrow_type]
    if pa.types.is_decimal(arrow_type):
        return f"DECIMAL({arrow_type.precision},{arrow_type.scale})"
    if pa.types.is_list(arrow_type):
        return f"{_type_name(arrow_type.value_type, names)}[]"
    if pa.types.is_struct(arrow_type):
        fields = (f"{quote_identifier(field.name)} {_type_name(field.type, names)}" for field in arrow_type)
        return f"STRUCT({', '.join(fields)})"
    if pa.types.is_map(arrow_type):
        return f"MAP({_type_name(arrow_type.key_type, names)}, {_type_name(arrow_type.item_type, names)})"
    raise InvalidInput(f"The Arrow type {arrow_type} is not a value type of a store.")


def quote_identifier(name: str) -> str:
    """A name as SQL has it, in double quotation marks."""
    return '"' + name.replace('"', '""') + '"'


def canonical_type(arrow_type: pa.DataType, depth: int = 0) -> pa.DataType:
    """The one Arrow type that a store uses for values of a type.

    Args:
        arrow_type: Any Arrow type.
        depth: How deep in a nested type this is; the outermost is 0.

    Returns:
        The canonical type. Nested fields are nullable; map keys are not.

    Raises:
        InvalidInput: There is none: the type is not supported, or nested deeper than 32 levels.
    """
    if depth > MAX_DEPTH:
        raise InvalidInput(f"Types nested deeper than {MAX_DEPTH} levels are not supported.")
    if arrow_type in _SQL_OF:
        return arrow_type
    for matches, make in _CANONICAL:
        if matches(arrow_type):
            return make(arrow_type, depth)
    raise InvalidInput(
        f"The Arrow type {arrow_type} is not supported; cast it to one of {', '.join(_ARROW_OF)}, DECIMAL, "
        "a list, a struct or a map."
    )


def check_names_within(arrow_type: pa.DataType) -> None:
    """See that the fields of all structs in a type have names that statements can say: for DuckDB a field
    without a name is `element1`, and a NUL ends a name, so that two of them become one.

    Args:
        arrow_type: A type that `canonical_type` returned.

    Raises:
        InvalidInput: One has not.
    """
    for place in range(arrow_type.num_fields):
        field = arrow_type.field(place)
        if "\0" in field.name:
            raise InvalidInput(f"The name {field.name!r} has a NUL, which ends it elsewhere: rename it.")
        if not field.name and pa.types.is_struct(arrow_type):
            raise InvalidInput("A field of a struct has no name: give it one.")
        check_names_within(field.type)


def _decimal(arrow_type: pa.DataType, depth: int) -> pa.DataType:
    if arrow_type.precision > MAX_DECIMAL_DIGITS or not 0 <= arrow_type.scale <= arrow_type.precision:
        raise InvalidInput(
            f"{arrow_type} is out of range: a decimal has at most {MAX_DECIMAL_DIGITS} digits and a scale "
            "from 0 to its precision."
        )
    return pa.decimal128(arrow_type.precision, arrow_type.scale)


def _timestamp(arrow_type: pa.DataType, depth: int) -> pa.DataType:
    try:
        zone = arrow_type.tz
    except UnicodeDecodeError as error:
        # Arrow does not look at its bytes.
        raise InvalidInput("The time zone of a timestamp is not text in UTF-8.") from error
    return pa.timestamp("us", "UTC" if zone else None)


def _list(arrow_type: pa.DataType, depth: int) -> pa.DataType:
    return pa.list_(pa.field("item", canonical_type(arrow_type.value_type, depth + 1)))


def _struct(arrow_type: pa.DataType, depth: int) -> pa.DataType:
    if not arrow_type.num_fields:
        raise InvalidInput("A struct without fields is not supported.")
    names = [fold(f.name) for f in arrow_type]
    if len(set(names)) != len(names):
        raise InvalidInput(f"The struct {arrow_type} has two fields of one name.")
    return pa.struct([pa.field(f.name, canonical_type(f.type, depth + 1)) for f in arrow_type])


def _map(arrow_type: pa.DataType, depth: int) -> pa.DataType:
    return pa.map_(
        canonical_type(arrow_type.key_type, depth + 1), canonical_type(arrow_type.item_type, depth + 1)
    )


def _is_any_string(arrow_type: pa.DataType) -> bool:
    return bool(pa.types.is_large_string(arrow_type) or pa.types.is_string_view(arrow_type))


def _is_any_binary(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_large_binary(arrow_type)
        or pa.types.is_binary_view(arrow_type)
        or pa.types.is_fixed_size_binary(arrow_type)
    )


def _is_any_list(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_list(arrow_type)
        or pa.types.is_large_list(arrow_type)
        or pa.types.is_fixed_size_list(arrow_type)
    )


_CANONICAL: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.DataType, int], pa.DataType]], ...] = (
    (pa.types.is_dictionary, lambda kind, depth: canonical_type(kind.value_type, depth + 1)),
    (pa.types.is_decimal, _decimal),
    (pa.types.is_timestamp, _timestamp),
    (pa.types.is_date, lambda kind, depth: pa.date32()),
    (_is_any_string, lambda kind, depth: pa.string()),
    (_is_any_binary, lambda kind, depth: pa.binary()),
    (pa.types.is_float16, lambda kind, depth: pa.float32()),
    (_is_any_list, _list),
    (pa.types.is_struct, _struct),
    (pa.types.is_map, _map),
)


def parse_sql_type(text: str) -> pa.DataType:
    """The canonical Arrow type of an SQL type name that `sql_type` made, or that somebody wrote.

    Args:
        text: Such as `BIGINT`, `DECIMAL(10,2)` or `STRUCT("a" BIGINT, "b" VARCHAR[])`; in small letters, too,
            and by the other names that DuckDB has for them, such as `INT`.

    Returns:
        The canonical type: `parse_sql_type(sql_type(t)) == t`.

    Raises:
        InvalidInput: The text is no type name.
    """
    text = _QUOTED_OR_NOT.sub(lambda part: part[0] if part[0].startswith('"') else part[0].upper(), text)
    arrow_type, end = _parse(text, 0, 0)
    if text[end:].strip():
        raise InvalidInput(f"The type {_shown(text, 0)} is not understood from {_shown(text, end)} on.")
    return canonical_type(arrow_type)


_QUOTED_OR_NOT = re.compile(r'"(?:[^"]|"")*"|[^"]+')
_SIMPLE = re.compile(r"\s*(TIMESTAMP WITH TIME ZONE|[A-Z]+)")
_DECIMAL = re.compile(r"\s*(?:DECIMAL|NUMERIC)\(\s*(\d+)\s*,\s*(\d+)\s*\)")
_FIELD = re.compile(r'\s*"((?:[^"]|"")*)"\s')
_BLANKS = re.compile(r"\s*")
_SHOWN_CHARACTERS = 100
"""Of a type in an error; one can have a megabyte."""


def _parse(text: str, place: int, depth: int) -> tuple[pa.DataType, int]:
    """The type that begins at a place of a text, and the place behind it."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"Types nested deeper than {MAX_DEPTH} levels are not supported.")
    arrow_type, place = _parse_element(text, place, depth)
    while text.startswith("[]", place):
        arrow_type, place = pa.list_(pa.field("item", arrow_type)), place + 2
    return arrow_type, place


def _parse_element(text: str, place: int, depth: int) -> tuple[pa.DataType, int]:
    if found := _DECIMAL.match(text, place):
        precision, scale = int(found[1]), int(found[2])
        if not 1 <= precision <= MAX_DECIMAL_DIGITS or scale > precision:
            raise InvalidInput(f"DECIMAL({precision},{scale}) is out of range.")
        return pa.decimal128(precision, scale), found.end()
    found = _SIMPLE.match(text, place)
    name, end = (found[1], found.end()) if found else ("", place)
    if name == "STRUCT" and text.startswith("(", end):
        return _parse_struct(text, end + 1, depth)
    if name == "MAP" and text.startswith("(", end):
        key, end = _parse(text, end + 1, depth + 1)
        item, end = _parse(text, _expect(text, end, ","), depth + 1)
        return pa.map_(key, item), _expect(text, end, ")")
    name = _ALIASES.get(name, name)
    if name in _ARROW_OF:
        return _ARROW_OF[name], end
    raise InvalidInput(
        f"The type {_shown(text, place)} is not understood; known are {', '.join(_ARROW_OF)}, DECIMAL(p,s), "
        "T[], STRUCT and MAP."
    )


def _parse_struct(text: str, place: int, depth: int) -> tuple[pa.DataType, int]:
    fields = []
    while True:
        found = _FIELD.match(text, place)
        if not found:
            raise InvalidInput(f"A struct field needs a quoted name at {_shown(text, place)}.")
        arrow_type, place = _parse(text, found.end(), depth + 1)
        fields.append(pa.field(found[1].replace('""', '"'), arrow_type))
        if text.startswith(")", _skip_blanks(text, place)):
            return pa.struct(fields), _expect(text, place, ")")
        place = _expect(text, place, ",")


def _expect(text: str, place: int, mark: str) -> int:
    found = _skip_blanks(text, place)
    if not text.startswith(mark, found):
        raise InvalidInput(f"{mark!r} is missing at {_shown(text, place)}.")
    return found + len(mark)


def _skip_blanks(text: str, place: int) -> int:
    blanks = _BLANKS.match(text, place)
    assert blanks is not None
    return blanks.end()


def _shown(text: str, place: int) -> str:
    """What stands at a place of a text, as errors show it."""
    shown = text[place : place + _SHOWN_CHARACTERS].strip()
    return repr(shown if len(text) <= place + _SHOWN_CHARACTERS else f"{shown}…")
