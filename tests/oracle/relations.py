"""Random FROM clauses: stores, derived tables, joins of all kinds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.oracle.conditions import Conditions
from tests.oracle.kinds import SIMPLE, Expression, Family, Trust, quote_name
from tests.oracle.scalars import Scalars, Scope

MOST_ROWS = 6000
MOST_CROSSED = 1500
_ASOF_FAMILIES = (Family.INTEGER, Family.DATE, Family.TIMESTAMP, Family.TIMESTAMPTZ, Family.DECIMAL)


@dataclass(frozen=True)
class Member:
    """A store in a FROM clause.

    Attributes:
        store: Its name.
        key: The columns of its key, under its alias.
    """

    store: str
    key: tuple[Expression, ...]


@dataclass(frozen=True)
class Relation:
    """What a FROM clause gives.

    Attributes:
        sql: Its text.
        columns: Its columns, as they are written.
        total: Columns that no two rows have in common; empty where rows may be equal.
        keys: Columns of stores' keys.
        rows: How many rows there may be, roughly.
        is_merged: A join with USING made one column of two, or a comma stands in it: no star, and no more
            joins.
        ties: Conditions of its joins that stand in WHERE.
        members: Stores of which every row holds one.
        equal: Columns that are equal in every row in which the second is not NULL.
    """

    sql: str
    columns: tuple[Expression, ...]
    total: tuple[Expression, ...]
    keys: tuple[Expression, ...] = ()
    rows: int = 0
    is_merged: bool = False
    ties: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    equal: tuple[tuple[Expression, Expression], ...] = ()


@dataclass(frozen=True)
class Joins:
    """Joins relations.

    Attributes:
        random: Where chance comes from.
        used: Features that were used; added to.
        outer: Columns of queries around the FROM clause.
    """

    random: Random
    used: set[str]
    outer: tuple[Expression, ...] = ()

    def join(self, left: Relation, right: Relation) -> Relation | None:
        """A join of some kind; None if these two do not fit the kind that chance says."""
        kinds: tuple[tuple[int, Callable[[Relation, Relation], Relation | None]], ...] = (
            (9, self._equal),
            (4, self._join_using),
            (3, self._half),
            (1, self._cross_join),
            (1, self._inequality_join),
            (2, self._comma),
            (2, self._nearest),
        )
        make = self.random.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])[0]
        return make(left, right)

    def equalities(self, left: Sequence[Expression], right: Relation, count: int) -> list[str]:
        """Conditions that tie columns of a family, keys above all."""
        pairs = self.pairs(left, right, count)
        return list(dict.fromkeys(f"{one.sql} = {other.sql}" for one, other in pairs))

    def pairs(
        self, left: Sequence[Expression], right: Relation, count: int
    ) -> list[tuple[Expression, Expression]]:
        """Columns of a family on both sides, keys above all."""
        found = []
        for _ in range(count):
            there = right.keys if right.keys and self.random.random() < 0.6 else right.columns
            target = self.random.choice(there)
            fitting = [column for column in left if _fits(column, target)]
            named = [column for column in fitting if column.name == target.name]
            if named and self.random.random() < 0.6:
                fitting = named
            if fitting:
                found.append((self.random.choice(fitting), target))
        return found

    def _condition(
        self, left: Relation, right: Relation
    ) -> tuple[str, tuple[tuple[Expression, Expression], ...]] | None:
        """A condition of a join, and the columns that it ties."""
        pairs = self.pairs(left.columns, right, self.random.choice((1, 1, 1, 2)))
        if not pairs:
            return None
        parts = list(dict.fromkeys(f"{one.sql} = {other.sql}" for one, other in pairs))
        if self.random.random() < 0.2:
            scalars = Scalars(self.random, Scope((*left.columns, *right.columns), self.outer), used=self.used)
            parts.append(Conditions(scalars).make(1))
        return " AND ".join(parts), tuple(pairs)

    def _equal(self, left: Relation, right: Relation) -> Relation | None:
        found = self._condition(left, right)
        if found is None:
            return None
        condition, pairs = found
        kind = self.random.choice(
            ("JOIN", "JOIN", "INNER JOIN", "LEFT JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN")
        )
        self.used.add(kind.lower().replace("inner ", ""))
        joined = self._both(left, right, f"{left.sql} {kind} {right.sql} ON {condition}")
        if kind in {"RIGHT JOIN", "FULL JOIN"}:
            pairs = tuple((other, one) for one, other in pairs) if kind == "RIGHT JOIN" else ()
        return replace(joined, members=_members(kind, left, right), equal=(*joined.equal, *pairs))

    def _both(self, left: Relation, right: Relation, sql: str, rows: int | None = None) -> Relation:
        total = (*left.total, *right.total) if left.total and right.total else ()
        count = max(left.rows, right.rows, left.rows * right.rows // 6) if rows is None else rows
        return Relation(
            sql,
            (*left.columns, *right.columns),
            total,
            (*left.keys, *right.keys),
            count,
            left.is_merged or right.is_merged,
            members=(*left.members, *right.members),
            equal=(*left.equal, *right.equal),
        )

    def _join_using(self, left: Relation, right: Relation) -> Relation | None:
        """USING and NATURAL: columns of one name become one."""
        shared = [
            column
            for column in left.columns
            if column.name
            and any(_fits(column, other) and column.name == other.name for other in right.columns)
        ]
        names = {column.name for column in left.columns} & {column.name for column in right.columns}
        once = [column for column in shared if sum(other.name == column.name for other in left.columns) == 1]
        if not once:
            return None
        kind = self.random.choice(("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if {column.name for column in once} == names and self.random.random() < 0.2:
            self.used.add("natural join")
            chosen, sql = once, f"{left.sql} NATURAL {kind} {right.sql}"
        else:
            self.used.add("using")
            chosen = self.random.sample(once, self.random.randrange(1, min(2, len(once)) + 1))
            listed = ", ".join(quote_name(column.name) for column in chosen)
            sql = f"{left.sql} {kind} {right.sql} USING ({listed})"
        ties = {column.name for column in chosen}
        merged = [replace(column, sql=quote_name(column.name), kind="") for column in chosen]
        joined = self._both(left, right, sql)
        others = tuple(column for column in joined.columns if column.name not in ties)
        return replace(
            joined, columns=(*merged, *others), is_merged=True, members=_members(kind, left, right)
        )

    def _half(self, left: Relation, right: Relation) -> Relation | None:
        found = self._condition(left, right)
        if found is None:
            return None
        kind = self.random.choice(("SEMI", "ANTI"))
        self.used.add(f"{kind.lower()} join")
        return replace(left, sql=f"{left.sql} {kind} JOIN {right.sql} ON {found[0]}")

    def _cross_join(self, left: Relation, right: Relation) -> Relation | None:
        if left.rows * right.rows > MOST_CROSSED:
            return None
        self.used.add("cross join")
        return self._both(left, right, f"{left.sql} CROSS JOIN {right.sql}", left.rows * right.rows)

    def _inequality_join(self, left: Relation, right: Relation) -> Relation | None:
        if left.rows * right.rows > MOST_ROWS:
            return None
        pairs = [
            (one, other)
            for one in left.columns
            for other in right.columns
            if _fits(one, other) and one.family is not Family.BOOLEAN
        ]
        if not pairs:
            return None
        one, other = self.random.choice(pairs)
        self.used.add("non-equi join")
        kind, operator = self.random.choice(("JOIN", "LEFT JOIN")), self.random.choice(("<", "<=", ">", "<>"))
        joined = self._both(
            left,
            right,
            f"{left.sql} {kind} {right.sql} ON {one.sql} {operator} {other.sql}",
            left.rows * right.rows,
        )
        return replace(joined, members=_members(kind, left, right))

    def _comma(self, left: Relation, right: Relation) -> Relation | None:
        """A join whose condition stands in WHERE."""
        pairs = self.pairs(left.columns, right, self.random.choice((0, 1, 1, 2)))
        if not pairs and left.rows * right.rows > MOST_CROSSED:
            return None
        self.used.add("comma join")
        joined = self._both(left, right, f"{left.sql}, {right.sql}")
        ties = dict.fromkeys(f"{one.sql} = {other.sql}" for one, other in pairs)
        return replace(joined, is_merged=True, ties=tuple(ties), equal=(*joined.equal, *pairs))

    def _nearest(self, left: Relation, right: Relation) -> Relation | None:
        """ASOF: determined if the equalities and the inequality cover a key of the right side."""
        if not right.total or right.total[-1].family not in _ASOF_FAMILIES or left.is_merged:
            return None
        parts = []
        for place, target in enumerate(right.total):
            fitting = [column for column in left.columns if _fits(column, target)]
            if not fitting:
                return None
            last = place == len(right.total) - 1
            operator = self.random.choice((">=", ">", "<=", "<")) if last else "="
            parts.append(f"{self.random.choice(fitting).sql} {operator} {target.sql}")
        kind = self.random.choice(("ASOF JOIN", "ASOF LEFT JOIN"))
        self.used.add("asof join")
        joined = self._both(left, right, f"{left.sql} {kind} {right.sql} ON {' AND '.join(parts)}", left.rows)
        return replace(joined, total=left.total, members=_members(kind, left, right))


def _members(kind: str, left: Relation, right: Relation) -> tuple[Member, ...]:
    """Stores of which every row of a join holds one."""
    return (
        *(() if kind in {"RIGHT JOIN", "FULL JOIN"} else left.members),
        *(right.members if kind in {"JOIN", "INNER JOIN", "RIGHT JOIN", "ASOF JOIN"} else ()),
    )


def _fits(one: Expression, other: Expression) -> bool:
    return one.family is other.family and one.family in SIMPLE and max(one.trust, other.trust) < Trust.CLOSE
