"""The protobuf messages of Flight SQL, as far as livestate reads and writes them.

Generated code ties itself to one protobuf runtime and clashes with other copies of the same files in the
default pool. So the messages are a table, built at import into a pool of their own; that works with protobuf
4.25 to 7.

Field numbers: `format/FlightSql.proto` and `format/Flight.proto` of Apache Arrow. Of the messages of Flight's
core only what is read here is declared; a field that holds one is declared as bytes: the two look alike on
the wire. `StatementHandle` is livestate's own and never leaves tickets and handles; `FragmentRequest` is what
hosts send each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from engine.errors import InvalidInput
from flight_server.wire.protobuf_fields import FieldPlace, field_places

Message: TypeAlias = Any
"""A protobuf message; its class is made at import, so its fields are known to no type checker."""

PACKAGE = "arrow.flight.protocol.sql"
TYPE_PREFIX = f"type.googleapis.com/{PACKAGE}."

SHORT_BYTES = 64 << 10
"""What a message may take beside its long fields. A message, an entry of a map or an element of a list takes
two bytes at the least, and some hundred once it is read.
"""
FRAGMENT_BYTES = 256 << 10
"""Likewise of a fragment, which names the partitions that it reads."""
MOST_FIELDS = 10_000
"""Of a message, those in others not counted; to count one takes longer than to read it."""

# Each field is "[long] [optional|repeated|map|oneof] type name = number"; a `long` one may be of any size, as
# it takes no more once it is read; `map` has text keys, all `oneof` fields of a message are in one group.
_KEYS = ("optional string catalog = 1", "optional string db_schema = 2", "string table = 3")
_STATEMENT = ("long string query = 1", "optional bytes transaction_id = 2")
_HANDLE = ("long bytes prepared_statement_handle = 1",)
_TABLE: Mapping[str, tuple[str, ...]] = {
    "Any": ("string type_url = 1", "long bytes value = 2"),
    "CommandGetSqlInfo": ("repeated uint32 info = 1",),
    "CommandGetXdbcTypeInfo": ("optional int32 data_type = 1",),
    "CommandGetCatalogs": (),
    "CommandGetDbSchemas": ("optional string catalog = 1", "optional string db_schema_filter_pattern = 2"),
    "CommandGetTables": (
        "optional string catalog = 1",
        "optional string db_schema_filter_pattern = 2",
        "optional string table_name_filter_pattern = 3",
        "repeated string table_types = 4",
        "bool include_schema = 5",
    ),
    "CommandGetTableTypes": (),
    "CommandGetPrimaryKeys": _KEYS,
    "CommandGetExportedKeys": _KEYS,
    "CommandGetImportedKeys": _KEYS,
    "CommandGetCrossReference": (
        "optional string pk_catalog = 1",
        "optional string pk_db_schema = 2",
        "string pk_table = 3",
        "optional string fk_catalog = 4",
        "optional string fk_db_schema = 5",
        "string fk_table = 6",
    ),
    "CommandStatementQuery": _STATEMENT,
    "CommandStatementUpdate": _STATEMENT,
    "CommandStatementSubstraitPlan": ("long bytes plan = 1", "optional bytes transaction_id = 2"),
    "CommandPreparedStatementQuery": _HANDLE,
    "CommandPreparedStatementUpdate": _HANDLE,
    "CommandStatementIngest": ("bytes table_definition_options = 1", "string table = 2"),
    "DoPutPreparedStatementResult": ("long optional bytes prepared_statement_handle = 1",),
    "ActionCreatePreparedStatementRequest": _STATEMENT,
    "ActionCreatePreparedStatementResult": (
        *_HANDLE,
        "long bytes dataset_schema = 2",
        "long bytes parameter_schema = 3",
    ),
    "ActionClosePreparedStatementRequest": _HANDLE,
    "ActionCancelQueryRequest": ("long bytes info = 1",),
    "ActionCancelQueryResult": ("int32 result = 1",),
    "CancelFlightInfoRequest": ("long bytes info = 1",),
    "CancelFlightInfoResult": ("int32 status = 1",),
    "FlightInfo": (
        "long bytes schema = 1",
        "long bytes flight_descriptor = 2",
        "long repeated FlightEndpoint endpoint = 3",
        "long bytes app_metadata = 7",
    ),
    "FlightEndpoint": ("Ticket ticket = 1",),
    "Ticket": ("bytes ticket = 1",),
    "StringListValue": ("repeated string values = 1",),
    "SessionOptionValue": (
        "oneof string string_value = 1",
        "oneof bool bool_value = 2",
        "oneof sfixed64 int64_value = 3",
        "oneof double double_value = 4",
        "oneof StringListValue string_list_value = 5",
    ),
    "SetSessionOptionsRequest": ("map SessionOptionValue session_options = 1",),
    "SetSessionOptionsError": ("int32 value = 1",),
    "SetSessionOptionsResult": ("map SetSessionOptionsError errors = 1",),
    "GetSessionOptionsRequest": (),
    "GetSessionOptionsResult": ("map SessionOptionValue session_options = 1",),
    "CloseSessionRequest": (),
    "CloseSessionResult": ("int32 status = 1",),
    "StatementHandle": (
        "long string sql = 1",
        "string dialect = 2",
        "optional double timeout = 3",
        "long bytes parameter_schema = 4",
        "long bytes parameter_row = 5",
        "bytes call_id = 6",
        "ReadPoint read_point = 7",
        "optional int64 number = 8",
        "long optional string text = 9",
        "bool parallel = 10",
        "TableShapes expected_shapes = 11",
    ),
    "TableShapes": ("repeated TableShape tables = 1",),
    "TableShape": ("string name = 1", "string store = 2", "int64 generation = 3", "string group = 4"),
    "ReadPoint": (
        "optional int64 min_epoch = 1",
        "optional double max_staleness = 2",
        "string as_of = 3",
        "bool allow_stale = 4",
        "string pinned = 5",
    ),
    "PartitionList": ("repeated int32 partitions = 1",),
    "FragmentRequest": (
        "int32 format = 1",
        "long string sql = 2",
        "map int64 epochs = 3",
        "map PartitionList partitions = 4",
        "long bytes parameter_schema = 5",
        "long bytes parameter_row = 6",
        "repeated string inputs = 7",
        "optional double timeout = 8",
        "bytes call_id = 9",
        "map int64 generations = 10",
        "map string digests = 11",
        "int64 complete_until = 12",
        "long bytes scope = 13",
        "EngineLimit engine_limit = 14",
    ),
    "EngineLimit": ("string owner = 1", "int64 bytes = 2", "string role = 3"),
}

_LONG = "long "
_LONG_FIELDS: Mapping[str, Mapping[int, str]] = {
    name: {
        int(number): declaration.split(" ")[-1]
        for declaration, number in (line.split(" = ") for line in lines)
        if declaration.startswith(_LONG)
    }
    for name, lines in _TABLE.items()
}
"""Names of the long fields of each message, by number."""

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
    "bool": _Field.TYPE_BOOL,
    "int32": _Field.TYPE_INT32,
    "uint32": _Field.TYPE_UINT32,
    "int64": _Field.TYPE_INT64,
    "sfixed64": _Field.TYPE_SFIXED64,
    "double": _Field.TYPE_DOUBLE,
}


def _add_field(message: Any, line: str) -> None:
    declaration, number = line.split(" = ")
    *label, type_name, name = declaration.removeprefix(_LONG).split(" ")
    field = message.field.add(name=name, number=int(number), label=_Field.LABEL_OPTIONAL)
    if label == ["map"]:
        entry = message.nested_type.add(name="".join(word.capitalize() for word in name.split("_")) + "Entry")
        entry.options.map_entry = True
        _add_field(entry, "string key = 1")
        _add_field(entry, f"{type_name} value = 2")
        type_name = f"{message.name}.{entry.name}"
    if label in (["map"], ["repeated"]):
        field.label = _Field.LABEL_REPEATED
    if label == ["optional"]:
        # How proto3 tells an absent value from an empty one: a group of one.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if label == ["oneof"]:
        field.oneof_index = 0
        if not message.oneof_decl:
            message.oneof_decl.add(name="option_value")
    if type_name in _SCALARS:
        field.type = _SCALARS[type_name]
    else:
        field.type, field.type_name = _Field.TYPE_MESSAGE, f".{PACKAGE}.{type_name}"


def _classes() -> Mapping[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(
        name="livestate/flight_sql.proto", package=PACKAGE, syntax="proto3"
    )
    for name, lines in _TABLE.items():
        message = file.message_type.add(name=name)
        for line in lines:
            _add_field(message, line)
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(file.SerializeToString())
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.{name}"))
        for name in _TABLE
    }


_CLASSES = _classes()
_ANY = _CLASSES["Any"]
_TYPE_URL = _ANY.DESCRIPTOR.fields_by_name["type_url"].number
statement_handle = _CLASSES["StatementHandle"]


def new(name: str, **fields: Any) -> Message:
    """A message.

    Args:
        name: Its name, without the package.
        fields: Values by field name.

    Returns:
        The message; `SerializeToString()` makes bytes of it.
    """
    return _CLASSES[name](**fields)


def long_fields(name: str, data: bytes, begin: int = 0, end: int | None = None) -> Mapping[str, FieldPlace]:
    """Where the long fields of a message are, without reading it.

    Args:
        name: Which message it has to be.
        data: The bytes that it is in.
        begin: Where it begins.
        end: Where it ends; None: with the bytes.

    Returns:
        The places, by the names of the fields; of a field that comes several times the last, which counts.

    Raises:
        InvalidInput: What is beside them takes more than such a message can.
    """
    known, found, rest = _LONG_FIELDS[name], {}, 0
    most = FRAGMENT_BYTES if name == "FragmentRequest" else SHORT_BYTES
    for count, place in enumerate(field_places(data, begin, end)):
        field = known.get(place.number)
        if field is not None:
            found[field] = place
        rest += (place.end if field is None else place.begin) - place.tag
        if rest > most or count == MOST_FIELDS:
            raise InvalidInput(
                f"The message {name} has more than {MOST_FIELDS:,} fields, or more than {most:,} bytes "
                f"beside its long fields ({', '.join(known.values()) or 'it has none'}): send less in it."
            )
    return found


def _check_size(name: str, data: bytes) -> None:
    """See that a message takes no more than some times its bytes once it is read."""
    if len(data) > SHORT_BYTES:
        long_fields(name, data)


def parse(name: str, data: bytes) -> Message:
    """Read a message that is not packed in an `Any`.

    Args:
        name: Which message it has to be.
        data: Its bytes.

    Returns:
        The message.

    Raises:
        InvalidInput: The bytes are not such a message, or hold more than one can have.
    """
    _check_size(name, data)
    try:
        return _CLASSES[name].FromString(data)
    except DecodeError as error:
        raise InvalidInput(f"The bytes of a {name} message are damaged or cut off.") from error


def pack(message: Message) -> bytes:
    """A message in an `Any`, as commands and most action bodies travel.

    Args:
        message: Of this module.

    Returns:
        The bytes of the `Any`.
    """
    return bytes(
        _ANY(
            type_url=TYPE_PREFIX + message.DESCRIPTOR.name, value=message.SerializeToString()
        ).SerializeToString()
    )


def packed_name(data: bytes) -> str:
    """The name of the message in an `Any`, without the package, before it is read; empty where it is none of
    Flight SQL's.

    Args:
        data: The bytes of the `Any`, which `long_fields` has passed.
    """
    name = ""
    for place in field_places(data):
        if place.number == _TYPE_URL:
            name = data[place.begin : place.end].decode(errors="replace")
    return name.removeprefix(TYPE_PREFIX) if name.startswith(TYPE_PREFIX) else ""


def unpack(data: bytes) -> tuple[str, Message]:
    """Read a message from an `Any`.

    Args:
        data: The bytes of the `Any`.

    Returns:
        The message's name, without the package, and the message.

    Raises:
        InvalidInput: The bytes are damaged, hold more than a message can have, or the message is none of
            Flight SQL's that livestate knows.
    """
    if len(data) > SHORT_BYTES:
        # Before anything is copied.
        value = long_fields("Any", data).get("value")
        packed = packed_name(data)
        if value is not None and packed in _TABLE:
            long_fields(packed, data, value.begin, value.end)
    try:
        envelope = _ANY.FromString(data)
    except DecodeError as error:
        raise InvalidInput(
            "The command is not a Flight SQL message: its bytes are damaged or cut off."
        ) from error
    name = envelope.type_url.removeprefix(TYPE_PREFIX)
    if not envelope.type_url.startswith(TYPE_PREFIX) or name not in _TABLE:
        raise InvalidInput(
            f"The command is of the type {envelope.type_url[:200]!r}, which is no Flight SQL message that "
            "this host knows."
        )
    return name, parse(name, envelope.value)
