"""Migrations of stores: what can become of a definition, and what becomes of the rows that were written under
it.

Columns are added, dropped, renamed and widened. Stores that fold aggregates cannot be migrated: an aggregate
that is added knows nothing of the events of before, so such a store is built anew beside the old one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.columns import MAX_COLUMN_NUMBER, Column, cast_exactly, text_of, value_of, widens
from engine.model.kinds import RESERVED_PREFIX, Behaviour, KeyValue, Merge, Session, Versioned
from engine.model.names import fold
from engine.model.schema import TOMBSTONE_COLUMN, StoreDefinition, define_store
from engine.model.sql_types import parse_sql_type, sql_type

MAX_DEFAULT_BYTES = 1_000
"""A block of rows of before, of which there are 65,536 at the most, has it as often in memory."""


@dataclass(frozen=True)
class AddColumn:
    """A new column, the last of those that are written.

    Attributes:
        name: Its name.
        arrow_type: Its canonical type.
        default: Its value in rows that were written before, as text; None for NULL.
    """

    name: str
    arrow_type: pa.DataType
    default: str | None = None


@dataclass(frozen=True)
class DropColumn:
    """A column that goes, with its values."""

    name: str


@dataclass(frozen=True)
class RenameColumn:
    """Another name for a column."""

    name: str
    to: str


@dataclass(frozen=True)
class WidenColumn:
    """A type that has all values of the one before, and more."""

    name: str
    arrow_type: pa.DataType


Change = AddColumn | DropColumn | RenameColumn | WidenColumn

_NAME = r'(?:"(?P<quoted>(?:[^"]|"")+)"|(?P<plain>[^\s"=]+))'
_ADDED = re.compile(
    rf"\s*{_NAME}\s+(?P<kind>.+?)(?:\s+DEFAULT\s+(?P<default>.+?))?\s*", re.IGNORECASE | re.DOTALL
)
_TEXT = re.compile(r"'(?:[^']|'')*'")
_WHOLE_NAME = re.compile(rf"\s*{_NAME}\s*")
_EQUALS = re.compile(rf"\s*{_NAME}\s*=\s*(?P<value>.+?)\s*", re.DOTALL)


def parse_changes(
    add: Sequence[str] = (), drop: Sequence[str] = (), rename: Sequence[str] = (), widen: Sequence[str] = ()
) -> tuple[Change, ...]:
    """Changes from their texts.

    Args:
        add: Columns as SQL defines them: `rating DOUBLE`, `kind VARCHAR DEFAULT 'song'`.
        drop: Names.
        rename: `old=new`.
        widen: `column=BIGINT`. All names can be in double quotation marks.

    Returns:
        The changes in the order in which they are made. New columns come last, so that they may take names
        that have become free.

    Raises:
        InvalidInput: A text is none of these.
    """
    renamed = [
        RenameColumn(old, _unquoted_name(new))
        for old, new in (_equation(text, "--rename old=new") for text in rename)
    ]
    widened = [
        WidenColumn(name, parse_sql_type(type_name))
        for name, type_name in (_equation(text, "--widen column=BIGINT") for text in widen)
    ]
    return (
        *renamed,
        *widened,
        *(DropColumn(_unquoted_name(name)) for name in drop),
        *(_parse_added_column(text) for text in add),
    )


def _equation(text: str, example: str) -> tuple[str, str]:
    found = _EQUALS.fullmatch(text)
    if found is None:
        raise InvalidInput(f"{text!r} is not understood; write it like {example}.")
    return _name(found), found["value"]


def _parse_added_column(text: str) -> AddColumn:
    found = _ADDED.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{text!r} is no column; write its name and type, such as rating DOUBLE, or kind VARCHAR DEFAULT "
            "'song'."
        )
    default = found["default"]
    if default is not None and default.upper() == "NULL":
        default = None
    if default is not None and ("'" in default or '"' in default):
        if _TEXT.fullmatch(default) is None:
            raise InvalidInput(
                f"The default {default} is no single value; write a text in single quotes, and '' for one "
                "within, such as 'it''s'."
            )
        default = default[1:-1].replace("''", "'")
    return AddColumn(_name(found), parse_sql_type(found["kind"]), default)


def _unquoted_name(text: str) -> str:
    """A name that has a text to itself, and so may have blanks without quotation marks."""
    found = _WHOLE_NAME.fullmatch(text)
    return text if found is None else _name(found)


def _name(found: re.Match[str]) -> str:
    return found["plain"] or found["quoted"].replace('""', '"')


# ---- definitions


class _Draft:
    """A definition on the way to another one.

    Args:
        definition: What the store is.
    """

    def __init__(self, definition: StoreDefinition) -> None:
        self._before = definition
        self.fields: dict[str, pa.DataType] = {field.name: field.type for field in definition.row_schema}
        self.key = list(definition.key)
        self.behaviour = definition.behaviour
        self.columns = dict(zip(definition.stored_schema.names, definition.columns, strict=True))
        self.next_column = definition.next_column

    def apply(self, change: Change) -> None:
        """Make a change."""
        match change:
            case AddColumn(name, arrow_type, default):
                self._check_free(name)
                self.fields[name] = arrow_type
                self.columns[name] = Column(self._number(), _stored_default(default, arrow_type))
            case DropColumn(name):
                self._check_of_no_use(name, "dropped")
                del self.fields[name], self.columns[name]
            case RenameColumn(name, to):
                self._check_exists(name)
                if name == to or fold(name) != fold(to):
                    self._check_free(to)
                self._rename(name, to)
            case WidenColumn(name, arrow_type):
                self._check_of_no_use(name, "widened")
                self._widen(name, arrow_type)

    def _rename(self, name: str, to: str) -> None:
        self.fields = {to if each == name else each: arrow_type for each, arrow_type in self.fields.items()}
        self.columns = {to if each == name else each: column for each, column in self.columns.items()}
        self.key = [to if each == name else each for each in self.key]
        self.behaviour = _rename_in_behaviour(self.behaviour, name, to)

    def _widen(self, name: str, arrow_type: pa.DataType) -> None:
        narrow, column = self.fields[name], self.columns[name]
        if not widens(narrow, arrow_type):
            raise InvalidInput(
                f"{name} is {sql_type(narrow)}, and {sql_type(arrow_type)} does not have all of its values"
            )
        default = (
            column.default
            if column.default is None
            else text_of(cast_exactly(column.default_value(narrow), arrow_type))
        )
        self.columns[name] = Column(self._number(), default, ((column.number, narrow), *column.older))
        self.fields[name] = arrow_type

    def _number(self) -> int:
        number = self.next_column
        if number > MAX_COLUMN_NUMBER:
            raise InvalidInput("the store has had as many columns as one can have; build a new one beside it")
        self.next_column += 1
        return number

    def _check_exists(self, name: str) -> None:
        if name not in self.fields:
            is_made = name in self.columns and not name.startswith(RESERVED_PREFIX)
            raise InvalidInput(
                f"{name} is made by the store and stays as it is" if is_made else f"there is no column {name}"
            )

    def _check_free(self, name: str) -> None:
        for there in self.columns:
            if fold(there) == fold(name):
                remark = "" if there == name else ", and SQL does not tell upper from lower case"
                raise InvalidInput(f"there is a column {there} already{remark}")

    def _check_of_no_use(self, name: str, what: str) -> None:
        """Refuse changes to columns that say which rows are there, and where."""
        self._check_exists(name)
        if name in self.key:
            raise InvalidInput(f"{name} is in the key, which places rows and cannot be {what}")
        if name in _columns_in_use(self.behaviour):
            raise InvalidInput(f"{name} says which rows the store has and cannot be {what}")

    def definition(self, generation: int) -> StoreDefinition:
        """The definition that it has become."""
        before = self._before
        definition = define_store(
            before.name,
            pa.schema(list(self.fields.items())),
            self.key,
            partition_by=self.key[: len(before.partition_by)],
            partitions=before.partitions,
            group=before.group,
            behaviour=self.behaviour,
        )
        columns = tuple(self.columns[name] for name in definition.stored_schema.names)
        return replace(definition, columns=columns, next_column=self.next_column, generation=generation)


def _stored_default(text: str | None, arrow_type: pa.DataType) -> str | None:
    """A default as definitions have it.

    Args:
        text: As it was given.
        arrow_type: The type of its column.

    Raises:
        InvalidInput: It is no value of the type, or SQL's casts make another one of it; or it is too long.
    """
    value = value_of(text, arrow_type)
    if text is None:
        return None
    nbytes = len(text.encode())
    if nbytes > MAX_DEFAULT_BYTES:
        raise InvalidInput(
            f"its default takes {nbytes:,} bytes, and can take {MAX_DEFAULT_BYTES:,}: each row of before has "
            "it"
        )
    if pa.types.is_binary(arrow_type) and "\\" in text:
        raise InvalidInput(f"{text!r} is no default of a BLOB, which is a text without backslashes")
    return text_of(value)


def _columns_in_use(behaviour: Behaviour) -> set[str]:
    """The columns that a store's kind and retention go by."""
    kind, retention = behaviour.kind, behaviour.retention
    named = (
        {kind.order_by}
        if isinstance(kind, KeyValue)
        else {kind.valid_from}
        if isinstance(kind, Versioned)
        else set()
    )
    return (named | ({retention.column} if retention is not None else set())) - {""}


def _rename_in_behaviour(behaviour: Behaviour, name: str, to: str) -> Behaviour:
    kind, retention = behaviour.kind, behaviour.retention
    if isinstance(kind, KeyValue) and kind.order_by == name:
        kind = replace(kind, order_by=to)
    if isinstance(kind, Versioned) and kind.valid_from == name:
        kind = replace(kind, valid_from=to)
    if retention is not None and retention.column == name:
        retention = replace(retention, column=to)
    return replace(behaviour, kind=kind, retention=retention)


def migrate_definition(
    definition: StoreDefinition, changes: Sequence[Change], generation: int
) -> StoreDefinition:
    """What becomes of a store.

    Args:
        definition: What it is.
        changes: In the order in which they are made.
        generation: Number of the migration.

    Returns:
        What it will be.

    Raises:
        InvalidInput: A change cannot be made; the message says why, and shows what the store is and what was
            asked for.
    """
    if isinstance(definition.behaviour.kind, Merge | Session):
        raise InvalidInput(
            f"Store {definition.name} folds aggregates, and one that is changed knows nothing of the events "
            "of before: fill a new store beside it "
            f"and switch to that. The store is: {definition.describe()}."
        )
    if not changes:
        raise InvalidInput(
            f"Store {definition.name}: say what is to change. The store is: {definition.describe()}."
        )
    draft = _Draft(definition)
    try:
        for change in changes:
            draft.apply(change)
        return draft.definition(generation)
    except InvalidInput as error:
        raise InvalidInput(
            f"Store {definition.name} cannot be migrated: {error.message.rstrip('.')}. It is: "
            f"{definition.describe()}. "
            f"Asked for: {_requested_columns(definition, changes)}."
        ) from error


def _requested_columns(definition: StoreDefinition, changes: Sequence[Change]) -> str:
    """The columns that were asked for, whether the store can have them or not."""
    fields = {field.name: field.type for field in definition.row_schema}
    key = list(definition.key)
    for change in changes:
        match change:
            case AddColumn(name, arrow_type) | WidenColumn(name, arrow_type):
                fields[name] = arrow_type
            case DropColumn(name):
                fields.pop(name, None)
                key = [each for each in key if each != name]
            case RenameColumn(name, to):
                fields = {to if each == name else each: arrow_type for each, arrow_type in fields.items()}
                key = [to if each == name else each for each in key]
    columns = ", ".join(f"{name} {sql_type(arrow_type)}" for name, arrow_type in fields.items())
    return f"{definition.name} ({columns}) KEY ({', '.join(key)})"


# ---- rows


def convert_rows(rows: pa.RecordBatch, source: StoreDefinition, target: StoreDefinition) -> pa.RecordBatch:
    """Rows that a job wrote under an older definition of a store, as a later one has them.

    Args:
        rows: Rows in the row schema of `source`; `TOMBSTONE_COLUMN` may be behind it.
        source: The older definition.
        target: The later one.

    Returns:
        The rows in the row schema of `target`, and the tombstones behind it as before.
    """
    if source.generation == target.generation:
        return rows
    indexes = {source.column(field.name).number: index for index, field in enumerate(source.row_schema)}
    columns = [
        target.column(field.name).read(
            indexes, field.type, rows.num_rows, lambda number, _: rows.column(indexes[number])
        )
        for field in target.row_schema
    ]
    fields = list(target.row_schema)
    if TOMBSTONE_COLUMN in rows.schema.names:
        columns.append(rows.column(TOMBSTONE_COLUMN))
        fields.append(rows.schema.field(TOMBSTONE_COLUMN))
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))
