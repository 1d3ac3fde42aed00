"""The protobuf messages of Flight SQL, as far as livestate reads and writes them.

Generated code ties itself to one protobuf runtime and clashes with other copies of the same files in the
default pool. So the messages are a table, built at import into a pool of their own; that works with protobuf
4.25 to 7.

Field numbers: `format/FlightSql.proto` and `format/Flight.proto` of Apache Arrow. A field that is itself a
message of Flight's core and that pyarrow reads (`FlightInfo`) is declared as bytes: the two look alike on the
wire. `StatementHandle` is livestate's own and never leaves tickets and handles; `FragmentRequest` is what
hosts send each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

from engine.errors import InvalidInput

Message: TypeAlias = Any
"""A protobuf message; its class is made at import, so its fields are known to no type checker."""

PACKAGE = "arrow.flight.protocol.sql"
TYPE_PREFIX = f"type.googleapis.com/{PACKAGE}."

# Each field is "[optional|repeated|map|oneof] type name = number"; `map` has text keys, all `oneof` fields of
# a message are in one group.
_KEYS = ("optional string catalog = 1", "optional string db_schema = 2", "string table = 3")
_STATEMENT = ("string query = 1", "optional bytes transaction_id = 2")
_HANDLE = ("bytes prepared_statement_handle = 1",)
_TABLE: Mapping[str, tuple[str, ...]] = {
    "Any": ("string type_url = 1", "bytes value = 2"),
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
    "CommandStatementSubstraitPlan": ("bytes plan = 1", "optional bytes transaction_id = 2"),
    "CommandPreparedStatementQuery": _HANDLE,
    "CommandPreparedStatementUpdate": _HANDLE,
    "CommandStatementIngest": ("bytes table_definition_options = 1", "string table = 2"),
    "DoPutPreparedStatementResult": ("optional bytes prepared_statement_handle = 1",),
    "ActionCreatePreparedStatementRequest": _STATEMENT,
    "ActionCreatePreparedStatementResult": (
        *_HANDLE,
        "bytes dataset_schema = 2",
        "bytes parameter_schema = 3",
    ),
    "ActionClosePreparedStatementRequest": _HANDLE,
    "ActionCancelQueryRequest": ("bytes info = 1",),
    "ActionCancelQueryResult": ("int32 result = 1",),
    "CancelFlightInfoRequest": ("bytes info = 1",),
    "CancelFlightInfoResult": ("int32 status = 1",),
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
        "string sql = 1",
        "string dialect = 2",
        "optional double timeout = 3",
        "bytes parameter_schema = 4",
        "bytes parameter_row = 5",
        "bytes call_id = 6",
        "ReadPoint read_point = 7",
        "optional int64 number = 8",
        "optional string text = 9",
        "bool parallel = 10",
        "TableShapes expected_shapes = 11",
    ),
    "TableShapes": ("repeated TableShape tables = 1",),
    "TableShape": ("string name = 1", "string store = 2", "int64 generation = 3"),
    "ReadPoint": (
        "optional int64 min_epoch = 1",
        "optional double max_staleness = 2",
        "string as_of = 3",
        "bool allow_stale = 4",
    ),
    "PartitionList": ("repeated int32 partitions = 1",),
    "FragmentRequest": (
        "int32 format = 1",
        "string sql = 2",
        "map int64 epochs = 3",
        "map PartitionList partitions = 4",
        "bytes parameter_schema = 5",
        "bytes parameter_row = 6",
        "repeated string inputs = 7",
        "optional double timeout = 8",
        "bytes call_id = 9",
        "map int64 generations = 10",
        "map string digests = 11",
        "int64 complete_until = 12",
        "bytes scope = 13",
        "EngineLimit engine_limit = 14",
    ),
    "EngineLimit": ("string owner = 1", "int64 bytes = 2", "string role = 3"),
}

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
    *label, type_name, name = declaration.split(" ")
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


def parse(name: str, data: bytes) -> Message:
    """Read a message that is not packed in an `Any`.

    Args:
        name: Which message it has to be.
        data: Its bytes.

    Returns:
        The message.

    Raises:
        InvalidInput: The bytes are not such a message.
    """
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


def unpack(data: bytes) -> tuple[str, Message]:
    """Read a message from an `Any`.

    Args:
        data: The bytes of the `Any`.

    Returns:
        The message's name, without the package, and the message.

    Raises:
        InvalidInput: The bytes are damaged, or the message is none of Flight SQL's that livestate knows.
    """
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
