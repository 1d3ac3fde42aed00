"""What `livestate load` says of a new store besides its columns and key: its kind, how long rows stay, where
they are held.

A merged column is written as `COLUMN=FUNCTION(…)`, which is how definitions show it: `plays=count()`,
`rating=avg(rating)`, `title=last(title by played_at)`, `latency=quantiles(latency_ms, 0.5, 0.99)`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from engine.errors import InvalidInput
from engine.model.durations import microseconds_of_duration
from engine.model.kinds import (
    TIMED,
    Behaviour,
    Function,
    KeyValue,
    Kind,
    Merge,
    MergedColumn,
    Retention,
    Session,
    Versioned,
    check_numbers,
    end_of_rows,
)

_COLUMN = r'"[^"]+"|[^\s"=(),]+'
_MERGED = re.compile(
    rf"\s*(?P<name>{_COLUMN})\s*=\s*(?P<function>\w+)\s*"
    rf"(?:\(\s*(?:(?P<of>{_COLUMN})(?:\s+by\s+(?P<by>{_COLUMN}))?(?P<ranks>(?:\s*,\s*[^\s,()]+)*))?\s*\))?\s*",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class BehaviourText:
    """The options as they are given; empty where one is not.

    Attributes:
        order_by: Column whose larger value wins, of a key-value store.
        merge: Merged columns, of a merge or session store.
        gap: The largest time between two events of a session, such as "30 minutes"; makes a session store.
        valid_from: Timestamp from which on a row holds; makes a versioned store.
        retention: How long rows stay, such as "7 days".
        retention_column: Timestamp or date that the retention goes by; by default the end of a session or
            version, or the time of the commit.
        is_global: Whether every host holds all of the store.
        in_memory: Whether hosts keep it in memory only.
    """

    order_by: str = ""
    merge: Sequence[str] = ()
    gap: str = ""
    valid_from: str = ""
    retention: str = ""
    retention_column: str = ""
    is_global: bool = False
    in_memory: bool = False

    def behaviour(self, store: str, there: Behaviour) -> Behaviour:
        """What is asked for.

        Args:
            store: Name of the store, for messages.
            there: What holds where nothing is asked for: of a store that exists, or `PLAIN`.

        Raises:
            InvalidInput: A text cannot be read, a number is out of range, or options exclude each other.
        """
        kind = self._kind(store) or there.kind
        if self.retention_column and not self.retention:
            raise InvalidInput(
                f"Store {store}: --retention-column says what the retention goes by; say how long it is, "
                "with --retention '7 days'."
            )
        retention = there.retention
        if self.retention:
            retention = Retention(
                microseconds_of_duration(self.retention), self.retention_column or end_of_rows(kind)
            )
        asked = Behaviour(
            kind, retention, self.is_global or there.is_global, self.in_memory or there.in_memory
        )
        check_numbers(store, asked)
        return asked

    def _kind(self, store: str) -> Kind | None:
        """The kind that the options make; None if none of them is given."""
        options = {
            "--order-by": self.order_by,
            "--valid-from": self.valid_from,
            "--merge or --gap": self.merge or self.gap,
        }
        given = [option for option, value in options.items() if value]
        if len(given) > 1:
            raise InvalidInput(
                f"Store {store}: {' and '.join(given)} make stores of different kinds; give one of them."
            )
        columns = tuple(merged_column(text) for text in self.merge)
        if self.gap:
            return Session(microseconds_of_duration(self.gap), columns)
        if columns:
            return Merge(columns)
        if self.valid_from:
            return Versioned(self.valid_from)
        return KeyValue(self.order_by) if self.order_by else None


def merged_column(text: str) -> MergedColumn:
    """Read a merged column as `--merge` takes it.

    Args:
        text: Such as `title=last(title by played_at)`; names with blanks, commas or brackets are in double
            quotes.

    Raises:
        InvalidInput: It is none; the message says how to write it.
    """
    found = _MERGED.fullmatch(text)
    if found is None:
        raise InvalidInput(
            f"{text!r} is no merged column; write it as total=sum(amount) or title=last(title by played_at)."
        )
    name, of, by = (_unquote(found[part]) for part in ("name", "of", "by"))
    try:
        function = Function(found["function"].lower())
    except ValueError as error:
        raise InvalidInput(
            f"{text!r}: there is no function {found['function']}; there are {', '.join(Function)}."
        ) from error
    if (function in TIMED) != bool(by):
        remedy = (
            "say by which column, as in title=last(title by played_at)"
            if function in TIMED
            else "only first and last go by another column"
        )
        raise InvalidInput(f"{text!r}: {remedy}.")
    ranks = tuple(_rank(rank.strip(), text) for rank in (found["ranks"] or "").split(",")[1:])
    if bool(ranks) != (function is Function.QUANTILES):
        remedy = (
            "only quantiles have ranks"
            if ranks
            else "say at which ranks, as in latency=quantiles(latency_ms, 0.5, 0.99)"
        )
        raise InvalidInput(f"{text!r}: {remedy}.")
    return MergedColumn(name, function, of, by, ranks)


def _unquote(name: str | None) -> str:
    return (name or "").strip('"')


def _rank(text: str, merged: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InvalidInput(
            f"{merged!r}: {text} is no rank; ranks are numbers from 0 to 1, such as 0.5."
        ) from error
