"""Store definitions: names, columns, key, partitions, and the text forms of the types.

A definition is stored in the changelog as JSON with SQL type names, so that a person can read it:
`{"format": 2, "name": "plays", "columns": [{"name": "song_id", "type": "BIGINT"}], …}`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NewType

import pyarrow as pa

from engine.errors import Corrupt, InvalidInput
from engine.model.columns import MAX_COLUMN_NUMBER, Column, columns_as_created
from engine.model.kinds import (
    PLAIN,
    RESERVED_PREFIX,
    Behaviour,
    Merge,
    Session,
    check_behaviour,
    key_with_time,
    schemas_of,
    time_of,
)
from engine.model.names import fold
from engine.model.sql_types import canonical_type, check_names_within, parse_sql_type, sql_type

StoreName = NewType("StoreName", str)
GroupName = NewType("GroupName", str)
Epoch = NewType("Epoch", int)
PartitionId = NewType("PartitionId", int)

DEFINITION_FORMAT = 2
"""Format 1 had key-value stores only, and reads as this one."""
MIGRATED_FORMAT = 3
"""A definition that a migration made; its columns say which numbers they have."""
MAX_PARTITIONS = 4096
MAX_NAME_BYTES = 200
TOMBSTONE_COLUMN = "__tombstone"
"""Boolean column that a changelog slice carries behind the store's own columns when some row of it is a
tombstone.
"""


@dataclass(frozen=True)
class StoreDefinition:
    """What a store is. Only a migration changes it, into another definition (`engine.model.migration`).

    Attributes:
        name: Name of the store, and of its table in SQL.
        group: Store group that shares the epochs; the store's own name unless the writer says otherwise.
        schema: Arrow schema of canonical types; key columns are not nullable, all others are.
        key: Names of the columns that identify a row, in key order.
        partition_by: Leading part of `key` whose hash places a row.
        partitions: How many partitions there are, 1 to 4096.
        behaviour: Its kind, how long rows stay, and where they are held.
        row_schema: Arrow schema of the rows that a job writes; `schema` unless the kind says otherwise
            (`engine.model.kinds`).
        stored_schema: Arrow schema of segments: `schema`, then hidden columns.
        columns: What tells each column of `stored_schema` from all others that the store ever had.
        next_column: The number that the next new column gets.
        generation: Number of the migration that made this of the store; 0 as it was created.
        since: Number of the amendment of the store group that dropped the last store of this name; 0 where
            there was none. It is not stored here: the changelog knows it.
    """

    name: StoreName
    group: GroupName
    schema: pa.Schema
    key: tuple[str, ...]
    partition_by: tuple[str, ...]
    partitions: int
    behaviour: Behaviour
    row_schema: pa.Schema
    stored_schema: pa.Schema
    columns: tuple[Column, ...]
    next_column: int
    generation: int = 0
    since: int = 0

    def is_as(self, other: StoreDefinition) -> bool:
        """Whether users see no difference to another definition: it differs in the numbers of its columns at
        most.
        """
        return self == replace(
            other,
            columns=self.columns,
            next_column=self.next_column,
            generation=self.generation,
            since=self.since,
        )

    @property
    def amendment(self) -> int:
        """Number of the last amendment of the store group that made the store what it is: a migration of it,
        or the drop of the last store of this name; 0 where there is none.
        """
        return max(self.generation, self.since)

    def has_shape_of(self, other: StoreDefinition) -> bool:
        """Whether another definition of this name is of the same store, and not of one that was dropped, and
        of the same shape of it.
        """
        return self.generation == other.generation and self.since == other.since and self.group == other.group

    def column(self, name: str) -> Column:
        """A stored column by its name."""
        index: int = self.stored_schema.get_field_index(name)
        return self.columns[index]

    @property
    def key_schema(self) -> pa.Schema:
        """The key columns alone, in key order."""
        return pa.schema([self.schema.field(name) for name in self.key])

    def describe(self) -> str:
        """The definition in one line of SQL-like text, as errors show it."""
        columns = ", ".join(f"{f.name} {sql_type(f.type)}" for f in self.schema)
        placed = f" PARTITION BY ({', '.join(self.partition_by)})"
        text = (
            f"{self.name} ({columns}) KEY ({', '.join(self.key)}){placed} PARTITIONS {self.partitions} "
            f"GROUP {self.group}"
        )
        return f"{text} {self.behaviour.describe()}".rstrip()

    def to_json(self) -> bytes:
        """The stored form.

        Returns:
            UTF-8 JSON that `from_json` reads back to an equal definition.
        """
        document = {
            "format": MIGRATED_FORMAT if self.generation else DEFINITION_FORMAT,
            "name": self.name,
            "group": self.group,
            "columns": [{"name": f.name, "type": sql_type(f.type)} for f in self.row_schema],
            "key": list(self.key),
            "partition_by": list(self.partition_by),
            "partitions": self.partitions,
            **self.behaviour.to_document(),
        }
        if self.generation:
            stored = {
                f.name: _column_document(column)
                for f, column in zip(self.stored_schema, self.columns, strict=True)
            }
            document |= {"generation": self.generation, "next_column": self.next_column, "stored": stored}
        return json.dumps(document, indent=1).encode()

    @staticmethod
    def from_json(data: bytes) -> StoreDefinition:
        """Read a stored definition.

        Args:
            data: What `to_json` wrote.

        Returns:
            The definition.

        Raises:
            Corrupt: The bytes are no definition, or of a format that this version does not know.
        """
        document = _parse_document(data)
        try:
            schema = pa.schema([pa.field(c["name"], parse_sql_type(c["type"])) for c in document["columns"]])
            definition = _complete_definition(
                document["name"],
                schema,
                document["key"],
                document["partition_by"],
                document["partitions"],
                document["group"],
                Behaviour.from_document(document),
            )
            return (
                definition
                if document["format"] != MIGRATED_FORMAT
                else _with_column_numbers(definition, document)
            )
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Corrupt(
                "A store definition in the changelog lacks a field or has one of the wrong type; restore it "
                "from a backup."
            ) from error
        except InvalidInput as error:
            raise Corrupt(f"A store definition in the changelog is not valid: {error.message}") from error


def time_in_key(definition: StoreDefinition) -> str:
    """The time that tells the rows of one thing apart, as the start of a window does: the first timestamp or
    date in the key behind `partition_by`.

    Args:
        definition: The store.

    Returns:
        Its name; empty where there is none, and in stores whose folds look at all times of a thing together.
    """
    if time_of(definition.behaviour.kind) is not None:
        return ""
    behind = definition.key[len(definition.partition_by) :]
    times = (
        name
        for name in behind
        if pa.types.is_timestamp(arrow_type := definition.schema.field(name).type)
        or pa.types.is_date32(arrow_type)
    )
    return next(times, "")


def _column_document(column: Column) -> dict[str, Any]:
    older = [[number, sql_type(arrow_type)] for number, arrow_type in column.older]
    return {
        "number": column.number,
        **({} if column.default is None else {"default": column.default}),
        **({"older": older} if older else {}),
    }


def _with_column_numbers(definition: StoreDefinition, document: Mapping[str, Any]) -> StoreDefinition:
    stored = [document["stored"][name] for name in definition.stored_schema.names]
    columns = tuple(
        Column(
            int(entry["number"]),
            entry.get("default"),
            tuple((int(number), parse_sql_type(type_name)) for number, type_name in entry.get("older", ())),
        )
        for entry in stored
    )
    for field, column in zip(definition.stored_schema, columns, strict=True):
        column.default_value(field.type)
    return replace(
        definition,
        columns=columns,
        next_column=int(document["next_column"]),
        generation=int(document["generation"]),
    )


def _parse_document(data: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(data)
    except ValueError as error:
        raise Corrupt("A store definition in the changelog is not JSON; restore it from a backup.") from error
    if not isinstance(document, dict):
        raise Corrupt("A store definition in the changelog is not a JSON object; restore it from a backup.")
    if document.get("format") not in (1, DEFINITION_FORMAT, MIGRATED_FORMAT):
        raise Corrupt(
            f"A store definition has format {document.get('format')!r}; this version reads up to "
            f"{MIGRATED_FORMAT}: upgrade livestate."
        )
    return document


StoreDefinitions = Mapping[StoreName, StoreDefinition]
"""What stores are, each by its name."""
NamedStores = Mapping[StoreName, StoreDefinition]
"""The store that each name means; a switch gives a store the name of another one."""


def define_store(
    name: str,
    schema: pa.Schema,
    key: Sequence[str],
    *,
    partition_by: Sequence[str] | None = None,
    partitions: int = 8,
    group: str | None = None,
    behaviour: Behaviour = PLAIN,
) -> StoreDefinition:
    """Check and normalise what a user says of a store.

    Args:
        name: Name of the store: any text of 1 to 200 UTF-8 bytes without control characters and `/`.
        schema: Arrow schema of the rows that are written; types are made canonical
            (`engine.model.sql_types`).
        key: Columns that identify a row; at least one. Sessions and versions have their time behind them,
            named or not.
        partition_by: Leading part of the key that places a row; the whole key by default.
        partitions: How many partitions, 1 to 4096.
        group: Store group; the store's own name by default.
        behaviour: Its kind, how long rows stay, and where they are held.

    Returns:
        A definition whose schema has canonical types and keeps the column order given.

    Raises:
        InvalidInput: A name, column, key or number is not acceptable; the message says which and why.
    """
    definition = _complete_definition(name, schema, key, partition_by, partitions, group, behaviour)
    try:
        check_names_within(pa.struct(list(definition.row_schema)))
    except InvalidInput as error:
        raise InvalidInput(f"Store {name}: {error.message}") from error
    return definition


def _complete_definition(
    name: str,
    schema: pa.Schema,
    key: Sequence[str],
    partition_by: Sequence[str] | None,
    partitions: int,
    group: str | None,
    behaviour: Behaviour,
) -> StoreDefinition:
    """What `define_store` makes. Stores that are there may have names that new ones may not."""
    check_name("store", name)
    check_name("store group", group if group is not None else name)
    whole_key = key_with_time(behaviour.kind, key) if not isinstance(key, str) else key
    _check_columns(name, schema.names, behaviour)
    _check_key(name, schema, whole_key)
    time = time_of(behaviour.kind)
    if whole_key == (time,) or (time is not None and partition_by is None and whole_key[-1] != time):
        raise InvalidInput(
            f"Store {name}: the key needs columns that place a row, and {time} behind them: name it last, or "
            "leave it out."
        )
    placed = (
        tuple(column for column in whole_key if column != time)
        if partition_by is None
        else tuple(partition_by)
    )
    if time in placed:
        raise InvalidInput(
            f"Store {name}: partition_by must not have {time}, as all rows of a key have to lie in one "
            "partition."
        )
    if not placed or placed != tuple(whole_key)[: len(placed)]:
        raise InvalidInput(
            f"Store {name}: partition_by ({', '.join(placed)}) must be a leading part of the key "
            f"({', '.join(whole_key)})."
        )
    if (
        not isinstance(partitions, int)
        or isinstance(partitions, bool)
        or not 1 <= partitions <= MAX_PARTITIONS
    ):
        raise InvalidInput(
            f"Store {name}: partitions must be a whole number from 1 to {MAX_PARTITIONS}, not {partitions!r}."
        )
    rows = _canonical_schema(name, schema, whole_key)
    check_behaviour(name, rows, whole_key, behaviour)
    schemas = schemas_of(rows, behaviour)
    if len(schemas.stored) > MAX_COLUMN_NUMBER + 1:
        raise InvalidInput(
            f"Store {name}: it would have {len(schemas.stored):,} columns, and {MAX_COLUMN_NUMBER + 1:,} are "
            "possible: put some of them into a STRUCT, a list or a MAP."
        )
    definition = StoreDefinition(
        StoreName(name),
        GroupName(group if group is not None else name),
        schemas.visible,
        tuple(whole_key),
        placed,
        partitions,
        behaviour,
        schemas.rows,
        schemas.stored,
        columns_as_created(len(schemas.stored)),
        len(schemas.stored),
    )
    _check_key_types(definition)
    return definition


def _canonical_schema(store: str, schema: pa.Schema, key: Sequence[str]) -> pa.Schema:
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, canonical_type(field.type), nullable=field.name not in key))
        except InvalidInput as error:
            raise InvalidInput(f"Store {store}, column {field.name}: {error.message}") from error
    return pa.schema(fields)


def check_name(what: str, name: str) -> None:
    """Whether a store or a store group can be called so.

    Args:
        what: `store` or `store group`, for the message.
        name: The name.

    Raises:
        InvalidInput: It cannot; the message says why.
    """
    if not isinstance(name, str) or not name:
        raise InvalidInput(f"A {what} needs a name that is not empty.")
    if len(name.encode(errors="replace")) > MAX_NAME_BYTES:
        raise InvalidInput(f"The {what} name {name[:40]}… is longer than {MAX_NAME_BYTES} bytes.")
    if "/" in name or not name.isprintable() or name in (".", ".."):
        raise InvalidInput(
            f"The {what} name {name!r} must not contain '/' or control characters, nor be '.' or '..'."
        )


def _check_columns(store: str, names: Sequence[str], behaviour: Behaviour) -> None:
    kind = behaviour.kind
    partials = (
        {name for column in kind.columns for name in column.partials}
        if isinstance(kind, Merge | Session)
        else set()
    )
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InvalidInput(f"Store {store}: a column has no name.")
        if name.startswith(RESERVED_PREFIX) and name not in partials:
            raise InvalidInput(
                f"Store {store}: column names that start with {RESERVED_PREFIX} are reserved; rename {name}."
            )
        if fold(name) in seen:
            raise InvalidInput(
                f"Store {store}: the column {name} is there twice (SQL does not tell upper from lower case); "
                "rename one."
            )
        seen.add(fold(name))


def _check_key(store: str, schema: pa.Schema, key: Sequence[str]) -> None:
    if isinstance(key, str) or not key:
        raise InvalidInput(f"Store {store}: the key must be a list of at least one column name.")
    for name in key:
        if name not in schema.names:
            raise InvalidInput(
                f"Store {store}: the key column {name} is not among the columns {', '.join(schema.names)}."
            )
    if len(set(key)) != len(key):
        raise InvalidInput(f"Store {store}: the key ({', '.join(key)}) names a column twice.")


def _check_key_types(definition: StoreDefinition) -> None:
    for name in definition.key:
        arrow_type = definition.schema.field(name).type
        if pa.types.is_floating(arrow_type) or pa.types.is_nested(arrow_type):
            raise InvalidInput(
                f"Store {definition.name}: {name} is {sql_type(arrow_type)}, which cannot be a key; "
                "use integers, VARCHAR, BLOB, BOOLEAN, DATE, TIMESTAMP or DECIMAL."
            )
