"""Versioned stores in a statement: a name stands for the rows that hold now, or for those that held at a
moment.

The place of such a name is taken by `(SELECT * FROM scan WHERE …) AS name`, so that everything behind
binding, planning, hosts and the engine, sees plain conditions on the history, which is what is stored. The
history itself is `history.name`: all versions, as rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.model.kinds import Versioned
from engine.model.names import fold
from engine.model.read_point import AsOf, AsOfTimestamp, ReadPoint
from engine.model.schema import GroupName, StoreDefinition, StoreName

HISTORY = "history"
"""The schema in which a versioned store has all its versions."""
_OUTER_PARTS = ("joins", "sample", "pivots")


@dataclass(frozen=True)
class AsOfParameter:
    """Read what held at a moment that a parameter gives.

    Attributes:
        name: The parameter's number or name.
    """

    name: str


@dataclass(frozen=True)
class AsOfClause:
    """One `AS OF` of a text.

    Attributes:
        as_of: What it asks for.
        table: Name of the table before it, without schema; None where there is none.
        is_last: Whether it ends the statement.
        offset: Characters before it.
        table_offset: Characters before the table, with its schema.
    """

    as_of: AsOf | AsOfParameter
    table: str | None
    is_last: bool
    offset: int
    table_offset: int = -1

    def stands_behind(self, name: StoreName, offset: int) -> bool:
        """Whether it is about a place where a store is read, and not about another table of the same name: a
        common table expression can have that of a store.

        Args:
            name: What the statement calls the store.
            offset: Characters before it, with its schema; -1 where that is not known.
        """
        if self.table is None or offset >= 0:
            return self.table is not None and offset == self.table_offset
        return fold(name) == fold(self.table)


Moment = AsOfTimestamp | AsOfParameter


@dataclass(frozen=True)
class Moments:
    """The moments that a text and its session ask for.

    Attributes:
        clauses: Those of the text, in its order.
        groups: Those of the session for a store group.
        default: That of the session for all other groups.
    """

    clauses: tuple[AsOfClause, ...] = ()
    groups: tuple[tuple[GroupName, AsOfTimestamp], ...] = ()
    default: AsOfTimestamp | None = None

    @staticmethod
    def from_clauses(clauses: Sequence[AsOfClause], read_point: ReadPoint) -> Moments:
        """The moments among what is asked for; epochs are none.

        Args:
            clauses: What a text asks for.
            read_point: What its session asks for.
        """
        groups = tuple(
            (group, as_of)
            for group, as_of in sorted(read_point.as_of.items())
            if isinstance(as_of, AsOfTimestamp)
        )
        default = read_point.as_of_default if isinstance(read_point.as_of_default, AsOfTimestamp) else None
        return Moments(
            tuple(clause for clause in clauses if isinstance(clause.as_of, Moment)), groups, default
        )

    def moments_of(self, tables: Sequence[tuple[StoreName, GroupName, int]]) -> list[Moment | None]:
        """The moment for each place where a store is read.

        Args:
            tables: The store's name, its group, and how many characters of the text are before its name.

        Returns:
            The moment that stands behind it, else the one for the whole statement, else that of the session;
            None for now.
        """
        session = dict(self.groups)
        found: list[Moment | None] = [session.get(group, self.default) for _, group, _ in tables]
        own: dict[int, Moment] = {}
        for clause in self.clauses:
            assert isinstance(clause.as_of, Moment)
            named = [
                place for place, (name, _, offset) in enumerate(tables) if clause.stands_behind(name, offset)
            ]
            if named:
                own[named[-1]] = clause.as_of
            elif clause.is_last:
                found = [clause.as_of] * len(tables)
        return [own.get(place, moment) for place, moment in enumerate(found)]


NO_MOMENTS = Moments()


def is_versioned(definition: StoreDefinition) -> bool:
    """Whether a store keeps versions."""
    return isinstance(definition.behaviour.kind, Versioned)


def add_time_columns(columns: Sequence[str], definition: StoreDefinition) -> tuple[str, ...]:
    """Columns of a versioned store, and those that say when a row holds, in the store's order."""
    kind = definition.behaviour.kind
    assert isinstance(kind, Versioned)
    return tuple(
        name for name in definition.schema.names if name in {*columns, kind.valid_from, kind.valid_to}
    )


def read_at(table: exp.Table, name: str, definition: StoreDefinition, moment: Moment | None) -> None:
    """Make a table read only the rows of a versioned store that hold at a moment.

    Args:
        table: Reads all versions; it is put into a query that takes its place.
        name: Its alias.
        definition: The store.
        moment: The moment; None for now.
    """
    others = {part: table.args[part] for part in ("alias", *_OUTER_PARTS) if table.args.get(part)}
    for part in others:
        table.set(part, None)
    held = exp.Select()
    table.replace(exp.Subquery(this=held, **others))
    table.set("alias", exp.TableAlias(this=exp.to_identifier(name, quoted=True)))
    held.set("expressions", [exp.Star()])
    held.set("from_", exp.From(this=table))
    held.set("where", exp.Where(this=_holds(name, definition, moment)))


def _holds(name: str, definition: StoreDefinition, moment: Moment | None) -> exp.Expr:
    kind = definition.behaviour.kind
    assert isinstance(kind, Versioned)
    valid_from, valid_to = (
        exp.column(column, name, quoted=True) for column in (kind.valid_from, kind.valid_to)
    )
    is_newest = exp.Is(this=valid_to, expression=exp.null())
    if moment is None:
        return is_newest
    begun = exp.LTE(this=valid_from, expression=_value(moment, definition.schema.field(kind.valid_from).type))
    ends_later = exp.GT(
        this=valid_to.copy(), expression=_value(moment, definition.schema.field(kind.valid_to).type)
    )
    return exp.And(this=begun, expression=exp.Paren(this=exp.Or(this=ends_later, expression=is_newest)))


def _value(moment: Moment, arrow_type: pa.DataType) -> exp.Expr:
    """A moment as a constant of a timestamp column's type; without a time zone it is UTC."""
    if isinstance(moment, AsOfParameter):
        return exp.Placeholder(this=moment.name)
    text = str(moment)
    return exp.cast(
        exp.Literal.string(text if arrow_type.tz is not None else text.removesuffix("+00:00")),
        "TIMESTAMP" if arrow_type.tz is None else "TIMESTAMPTZ",
    )
