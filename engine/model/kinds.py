"""Kinds of stores: how the rows that a job writes become the rows that a store has.

A kind is a value, part of the store's definition. Three schemas follow from it:

| schema | of | example: `Merge` with an average |
|---|---|---|
| row schema | the rows that a job writes, and the slices of the changelog | `song_id, __rating_sum, __rating_count` |
| stored schema | segments: what SQL sees, then hidden columns | `song_id, rating, __rating_sum, __rating_count` |
| schema | what SQL sees | `song_id, rating` |

For most stores they are one and the same. Hidden columns start with `RESERVED_PREFIX`, as no user's column
does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.durations import MICROSECONDS_PER_SECOND, duration_in_words
from engine.model.names import fold
from engine.model.sql_types import sql_type

RESERVED_PREFIX = "__"
LONGEST_MICROSECONDS = 1000 * 365 * 86_400 * MICROSECONDS_PER_SECOND
"""The longest retention and gap, 1,000 years: with it no time of this era leaves the range of timestamps."""


class Function(StrEnum):
    """How a merged column folds the values of many rows into one."""

    SUM = "sum"
    COUNT = "count"
    MIN = "min"
    MAX = "max"
    AVG = "avg"
    """Folded as a sum and a count."""
    FIRST = "first"
    """The value of the smallest event time; of equal ones the one that came first."""
    LAST = "last"
    """The value of the largest event time; of equal ones the one that came last."""
    COUNT_DISTINCT = "count_distinct"
    """About how many distinct values: a HyperLogLog sketch of Apache DataSketches."""
    QUANTILES = "quantiles"
    """Values at given ranks, approximately: a KLL sketch of doubles of Apache DataSketches."""


SKETCHES = frozenset({Function.COUNT_DISTINCT, Function.QUANTILES})
EMPTY_IN_SKETCHES = "\0the empty value\0"
"""What producers count in place of an empty text, or of no bytes: DataSketches passes over these."""
TIMED = frozenset({Function.FIRST, Function.LAST})


@dataclass(frozen=True)
class MergedColumn:
    """A column whose value is an aggregate of all rows of its key.

    Attributes:
        name: Name of the column.
        function: The aggregate.
        of: Column of the events that it is of; empty for a count of rows.
        by: For `FIRST` and `LAST`: column of the events that says when; a timestamp, date or integer.
        ranks: For `QUANTILES`: ranks from 0 to 1; the column is a list of as many doubles, or one double for
            one rank.
    """

    name: str
    function: Function
    of: str = ""
    by: str = ""
    ranks: tuple[float, ...] = ()

    @property
    def partials(self) -> tuple[str, ...]:
        """The columns of a partial row that it is folded from."""
        hidden = RESERVED_PREFIX + self.name
        if self.function is Function.AVG:
            return (f"{hidden}_sum", f"{hidden}_count")
        if self.function in TIMED:
            return (self.name, f"{hidden}_at")
        return (f"{hidden}_sketch",) if self.function in SKETCHES else (self.name,)

    def arrow_type(self, rows: pa.Schema) -> pa.DataType:
        """Arrow type of the finished value.

        Args:
            rows: Row schema of the store.
        """
        if self.function is Function.COUNT_DISTINCT:
            return pa.int64()
        if self.function is Function.QUANTILES:
            return pa.float64() if len(self.ranks) == 1 else pa.list_(pa.float64())
        return pa.float64() if self.function is Function.AVG else rows.field(self.name).type

    @property
    def expression(self) -> str:
        """What it is of its events, such as `last(title by played_at)`."""
        by = f" by {_column_text(self.by)}" if self.by else ""
        return f"{self.function}({_column_text(self.of)}{by}{''.join(f', {rank}' for rank in self.ranks)})"

    def describe(self) -> str:
        """As `livestate load --merge` takes it, such as `title=last(title by played_at)`."""
        return f"{_column_text(self.name)}={self.expression}"

    def to_document(self) -> dict[str, Any]:
        """The stored form, JSON."""
        document: dict[str, Any] = {"name": self.name, "function": self.function.value}
        document |= {name: value for name, value in (("of", self.of), ("by", self.by)) if value}
        return document | ({"ranks": list(self.ranks)} if self.ranks else {})

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> MergedColumn:
        """Read the stored form."""
        ranks = tuple(float(rank) for rank in document.get("ranks", ()))
        return MergedColumn(
            document["name"],
            Function(document["function"]),
            document.get("of", ""),
            document.get("by", ""),
            ranks,
        )


def _column_text(name: str) -> str:
    """A column's name, in quotes where it has to be."""
    return f'"{name}"' if any(letter in ' =(),"' for letter in name) else name


@dataclass(frozen=True)
class KeyValue:
    """An upsert replaces the row with the same key.

    Attributes:
        order_by: Column whose larger value wins whatever comes last; of equal ones the last wins. Empty: the
            last row always wins.
    """

    order_by: str = ""


@dataclass(frozen=True)
class Merge:
    """A row brings partial aggregates, which are folded into the row with the same key.

    Attributes:
        columns: All columns but those of the key.
    """

    columns: tuple[MergedColumn, ...]


@dataclass(frozen=True)
class Session:
    """A row brings a fragment of a session; fragments of a key that lie no further apart than the gap become
    one session.

    Attributes:
        gap_microseconds: The largest time between two events of one session.
        columns: All columns but those of the key and the two times.
        start: Timestamp of the first event; the last column of the key.
        end: Timestamp of the last event.
    """

    gap_microseconds: int
    columns: tuple[MergedColumn, ...] = ()
    start: str = "session_start"
    end: str = "session_end"


@dataclass(frozen=True)
class Versioned:
    """A row says what holds of its key from a time on; all rows of a key are its history.

    Attributes:
        valid_from: Timestamp from which on a row holds; the last column of the key.
        valid_to: Timestamp up to which it holds, exclusive; NULL in the row that holds now. A tombstone
            becomes a row that never holds, whose `valid_to` is its `valid_from`.
    """

    valid_from: str
    valid_to: str = "valid_to"


Kind = KeyValue | Merge | Session | Versioned
KEY_VALUE = KeyValue()


@dataclass(frozen=True)
class Retention:
    """How long rows stay.

    Attributes:
        microseconds: A row is gone when its time is further than this behind the watermark of the job.
        column: Timestamp or date column that is the row's time, one of those that are written; `valid_to` in
            a versioned store. Empty: the time of the commit that wrote the row last, and the newest commit is
            the watermark.
    """

    microseconds: int
    column: str = ""


@dataclass(frozen=True)
class Behaviour:
    """What a store is besides its columns, key and partitions.

    Attributes:
        kind: How rows become rows of the store.
        retention: How long rows stay; None for ever.
        is_global: Every host holds all of it.
        in_memory: Hosts keep it in memory only, and rebuild it from the changelog when they start.
    """

    kind: Kind = KEY_VALUE
    retention: Retention | None = None
    is_global: bool = False
    in_memory: bool = False

    def to_document(self) -> dict[str, Any]:
        """The stored form, JSON; empty for a plain key-value store."""
        document = _kind_document(self.kind)
        if self.retention is not None:
            document["retention"] = {
                "microseconds": self.retention.microseconds,
                "column": self.retention.column,
            }
        return document | {
            name: True for name, value in (("global", self.is_global), ("in_memory", self.in_memory)) if value
        }

    @staticmethod
    def from_document(document: Mapping[str, Any]) -> Behaviour:
        """Read the stored form.

        Raises:
            KeyError, TypeError, ValueError: It is none.
        """
        retention = document.get("retention")
        return Behaviour(
            _kind_of(document.get("kind")),
            None
            if retention is None
            else Retention(int(retention["microseconds"]), str(retention["column"])),
            bool(document.get("global", False)),
            bool(document.get("in_memory", False)),
        )

    def describe(self) -> str:
        """In words of SQL's kind, as errors show it; empty for a plain key-value store."""
        words = [_kind_text(self.kind)]
        if self.retention is not None:
            words.append(
                f"RETENTION {duration_in_words(self.retention.microseconds)} BY "
                f"{self.retention.column or 'COMMIT'}"
            )
        words += [
            word for word, value in (("GLOBAL", self.is_global), ("IN MEMORY", self.in_memory)) if value
        ]
        return " ".join(word for word in words if word)


PLAIN = Behaviour()


@dataclass(frozen=True)
class Schemas:
    """The three schemas of a store; see the top of this file.

    Attributes:
        rows: Of the rows that a job writes.
        stored: Of segments; its first columns are those of `visible`.
        visible: What SQL sees.
    """

    rows: pa.Schema
    stored: pa.Schema = field(repr=False)
    visible: pa.Schema = field(repr=False)


WRITTEN_COLUMN = RESERVED_PREFIX + "written"
"""Hidden column of stores with retention by commit: when the commit was made that wrote the row last."""


def time_column(behaviour: Behaviour) -> str:
    """The stored column with the time that retention goes by; empty without retention."""
    return "" if behaviour.retention is None else behaviour.retention.column or WRITTEN_COLUMN


def order_column(behaviour: Behaviour) -> str:
    """The column whose larger value wins whatever comes last; empty where the last row wins."""
    return behaviour.kind.order_by if isinstance(behaviour.kind, KeyValue) else ""


def is_applied_alone(behaviour: Behaviour) -> bool:
    """Whether epochs must not be applied together: what a version that comes late does depends on which
    versions are past their retention by then.
    """
    return behaviour.retention is not None and isinstance(behaviour.kind, Versioned)


def time_of(kind: Kind) -> str | None:
    """The last column of the key that tells the rows of one thing apart by time; None for kinds without."""
    return (
        kind.start if isinstance(kind, Session) else kind.valid_from if isinstance(kind, Versioned) else None
    )


def end_of_rows(kind: Kind) -> str:
    """The column with the time at which a row has come to its end, which retention goes by unless something
    else is said; empty without one.
    """
    return kind.end if isinstance(kind, Session) else kind.valid_to if isinstance(kind, Versioned) else ""


def key_with_time(kind: Kind, key: Sequence[str]) -> tuple[str, ...]:
    """The key that a store of a kind has, of the one that its user names."""
    time = time_of(kind)
    return tuple(key) if time is None or time in key else (*key, time)


def schemas_of(rows: pa.Schema, behaviour: Behaviour) -> Schemas:
    """What a store's rows look like where.

    Args:
        rows: Row schema, of canonical types.
        behaviour: The store's; it fits the schema (`check_behaviour`).
    """
    kind = behaviour.kind
    visible = rows
    if isinstance(kind, Merge | Session):
        merged = {name for column in kind.columns for name in column.partials}
        plain = [column for column in rows if column.name not in merged]
        visible = pa.schema(
            [*plain, *(pa.field(column.name, column.arrow_type(rows)) for column in kind.columns)]
        )
    elif isinstance(kind, Versioned):
        visible = rows.append(pa.field(kind.valid_to, rows.field(kind.valid_from).type))
    shown = frozenset(visible.names)
    hidden = [column for column in rows if column.name not in shown]
    if behaviour.retention is not None and not behaviour.retention.column:
        hidden.append(pa.field(WRITTEN_COLUMN, pa.timestamp("us", "UTC")))
    return Schemas(rows, pa.schema([*visible, *hidden]) if hidden else visible, visible)


def check_numbers(store: str, behaviour: Behaviour) -> None:
    """Refuse numbers out of range. What else there is to check takes a schema (`check_behaviour`).

    Args:
        store: Name of the store, for messages.
        behaviour: What is to be checked.

    Raises:
        InvalidInput: A retention or gap is no whole number of microseconds, not longer than nothing or longer
            than 1,000 years, or the rank of a quantile is not from 0 to 1.
    """
    kind, retention = behaviour.kind, behaviour.retention
    if isinstance(kind, Session):
        _check_length(store, "the gap between sessions", kind.gap_microseconds)
    for column in kind.columns if isinstance(kind, Merge | Session) else ():
        if column.function is Function.QUANTILES and (
            not column.ranks or not all(0 <= rank <= 1 for rank in column.ranks)
        ):
            raise InvalidInput(
                f"Store {store}: the quantiles of {column.name} need ranks from 0 to 1, such as 0.5."
            )
    if retention is not None:
        _check_length(store, "a retention", retention.microseconds)


def _check_length(store: str, what: str, microseconds: int) -> None:
    if type(microseconds) is not int:
        raise InvalidInput(f"Store {store}: {what} is a whole number of microseconds, not {microseconds!r}.")
    if microseconds <= 0:
        raise InvalidInput(f"Store {store}: {what} must be longer than nothing.")
    if microseconds > LONGEST_MICROSECONDS:
        raise InvalidInput(f"Store {store}: {what} must not be longer than 1,000 years.")


def check_behaviour(store: str, rows: pa.Schema, key: Sequence[str], behaviour: Behaviour) -> None:
    """Refuse what does not fit together.

    Args:
        store: Name of the store, for messages.
        rows: Row schema, of canonical types.
        key: The whole key.
        behaviour: What is to be checked.

    Raises:
        InvalidInput: A column is missing or of a type that does not do, a number is out of range; the message
            says which.
    """
    check_numbers(store, behaviour)
    kind = behaviour.kind
    if isinstance(kind, KeyValue) and kind.order_by:
        _check_ordered(store, rows, kind.order_by, "order_by")
    if isinstance(kind, Merge | Session):
        times = (kind.start, kind.end) if isinstance(kind, Session) else ()
        _check_merged(store, rows, [*key, *times], kind.columns)
    if isinstance(kind, Session):
        _check_session(store, rows, kind)
    if isinstance(kind, Versioned):
        _check_timestamp(store, rows, kind.valid_from)
        if kind.valid_to in rows.names:
            raise InvalidInput(
                f"Store {store}: the column {kind.valid_to} is made by the store; rename yours or name "
                "another valid_to."
            )
    if behaviour.retention is not None:
        made = schemas_of(rows, behaviour).visible if isinstance(kind, Versioned) else rows
        _check_retention(store, made, behaviour.retention)


def _check_merged(store: str, rows: pa.Schema, plain: Sequence[str], columns: Sequence[MergedColumn]) -> None:
    partials = [name for column in columns for name in column.partials]
    names = [fold(column.name) for column in columns]
    if len(set(names)) != len(names) or {fold(name) for name in plain} & set(names):
        raise InvalidInput(
            f"Store {store}: a merged column has the name of another column; the columns are "
            f"{', '.join([*plain, *names])}."
        )
    for column in columns:
        _check_column(store, rows, column)
    strange = [name for name in rows.names if name not in {*plain, *partials}]
    if strange:
        raise InvalidInput(
            f"Store {store}: {', '.join(strange)} is neither in the key nor merged; say how it is merged, or "
            "leave it out."
        )


def _check_column(store: str, rows: pa.Schema, column: MergedColumn) -> None:
    missing = [name for name in column.partials if name not in rows.names]
    if missing:
        raise InvalidInput(
            f"Store {store}: the merged column {column.name} is folded from {', '.join(missing)}, which the "
            "rows lack."
        )
    types = [rows.field(name).type for name in column.partials]
    if column.function in SKETCHES and not pa.types.is_binary(types[0]):
        raise InvalidInput(
            f"Store {store}: {column.partials[0]} is {sql_type(types[0])}, and a sketch is BLOB."
        )
    if column.function in (Function.SUM, Function.AVG) and not _is_number(types[0]):
        raise InvalidInput(f"Store {store}: {column.partials[0]} is {sql_type(types[0])}, which has no sum.")
    counts = {Function.COUNT: 0, Function.AVG: 1}
    if column.function in counts and not pa.types.is_int64(types[counts[column.function]]):
        raise InvalidInput(
            f"Store {store}: {column.partials[counts[column.function]]} is "
            f"{sql_type(types[counts[column.function]])}, and a count is BIGINT."
        )
    if column.function in (Function.MIN, Function.MAX):
        _check_ordered(store, rows, column.name, column.function)
    if column.function in TIMED:
        _check_ordered(store, rows, column.partials[1], "by")


def _check_session(store: str, rows: pa.Schema, kind: Session) -> None:
    for name in (kind.start, kind.end):
        _check_timestamp(store, rows, name)
    if rows.field(kind.start).type != rows.field(kind.end).type:
        raise InvalidInput(f"Store {store}: {kind.start} and {kind.end} are of different types; use one.")


def _check_retention(store: str, visible: pa.Schema, retention: Retention) -> None:
    if retention.column:
        _check_timestamp(store, visible, retention.column, or_date=True)


def _check_timestamp(store: str, schema: pa.Schema, name: str, *, or_date: bool = False) -> None:
    if name not in schema.names:
        raise InvalidInput(f"Store {store}: there is no column {name} among {', '.join(schema.names)}.")
    arrow_type = schema.field(name).type
    if not (pa.types.is_timestamp(arrow_type) or (or_date and pa.types.is_date32(arrow_type))):
        raise InvalidInput(
            f"Store {store}: {name} is {sql_type(arrow_type)}, and has to be a "
            f"TIMESTAMP{' or DATE' if or_date else ''}."
        )


def _check_ordered(store: str, rows: pa.Schema, name: str, what: str) -> None:
    if name not in rows.names:
        raise InvalidInput(
            f"Store {store}: there is no column {name} for {what} among {', '.join(rows.names)}."
        )
    arrow_type = rows.field(name).type
    if pa.types.is_nested(arrow_type):
        raise InvalidInput(f"Store {store}: {name} is {sql_type(arrow_type)}, which has no order for {what}.")


def _is_number(arrow_type: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(arrow_type) or pa.types.is_floating(arrow_type) or pa.types.is_decimal(arrow_type)
    )


def _kind_document(kind: Kind) -> dict[str, Any]:
    if isinstance(kind, Merge):
        return {"kind": {"name": "merge", "columns": [column.to_document() for column in kind.columns]}}
    if isinstance(kind, Session):
        times = {"gap_microseconds": kind.gap_microseconds, "start": kind.start, "end": kind.end}
        return {
            "kind": {"name": "session", **times, "columns": [column.to_document() for column in kind.columns]}
        }
    if isinstance(kind, Versioned):
        return {"kind": {"name": "versioned", "valid_from": kind.valid_from, "valid_to": kind.valid_to}}
    return {"kind": {"name": "key_value", "order_by": kind.order_by}} if kind.order_by else {}


def _kind_of(document: Mapping[str, Any] | None) -> Kind:
    if document is None:
        return KEY_VALUE
    name = document["name"]
    columns = tuple(MergedColumn.from_document(column) for column in document.get("columns", ()))
    if name == "merge":
        return Merge(columns)
    if name == "session":
        return Session(int(document["gap_microseconds"]), columns, document["start"], document["end"])
    if name == "versioned":
        return Versioned(document["valid_from"], document["valid_to"])
    if name == "key_value":
        return KeyValue(document["order_by"])
    raise ValueError(f"There is no kind of store {name}.")


def _kind_text(kind: Kind) -> str:
    if isinstance(kind, KeyValue):
        return f"LATEST BY {kind.order_by}" if kind.order_by else ""
    if isinstance(kind, Versioned):
        return f"VERSIONED BY {kind.valid_from}"
    merged = ", ".join(column.describe() for column in kind.columns)
    return (
        f"SESSIONS GAP {duration_in_words(kind.gap_microseconds)} MERGE ({merged})"
        if isinstance(kind, Session)
        else f"MERGE ({merged})"
    )
