"""Random members of FROM clauses that are no plain stores: PIVOT and UNPIVOT, positional joins, UNNEST,
VALUES, ranges, recursive queries.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from tests.oracle.kinds import SIMPLE, Expression, Family, quote_name
from tests.oracle.relations import Relation

LEVELS = 3
"""How deep recursive queries go."""
_PIVOTED = (Family.TEXT, Family.INTEGER, Family.BOOLEAN, Family.DATE)
_FOLLOWED = (Family.TEXT, Family.INTEGER, Family.BOOLEAN, Family.DATE, Family.DECIMAL)


@dataclass(frozen=True)
class Sources:
    """Makes members of FROM clauses.

    Attributes:
        random: Where chance comes from.
        used: Features that were used; added to.
        name: Makes a name that is not taken, from a prefix.
        store: Makes a store under an alias of its own.
    """

    random: Random
    used: set[str]
    name: Callable[[str], str]
    store: Callable[[], Relation]

    def any(self) -> Relation | None:
        """A member of some kind; None if the store that chance took does not fit it."""
        return self.random.choice(
            (self._values, self._pivot, self._unpivot, self._unnested_list, self._range)
        )()

    def unnest(self, left: Relation) -> Relation | None:
        """Each row as often as a list of it has elements."""
        lists = [column for column in left.columns if element_family(column) is not None]
        if not lists:
            return None
        column, alias = self.random.choice(lists), self.name("u")
        family = element_family(column)
        assert family is not None
        self.used.add("unnest")
        joined = self.random.choice(
            (
                ", UNNEST({0}) AS {1}(e)",
                " CROSS JOIN UNNEST({0}) AS {1}(e)",
                " LEFT JOIN UNNEST({0}) AS {1}(e) ON TRUE",
            )
        )
        element = Expression(f"{alias}.e", family, is_tame=False, name="e")
        return replace(
            left,
            sql=left.sql + joined.format(column.sql, alias),
            columns=(*left.columns, element),
            total=(),
            rows=left.rows * 2,
            is_merged=True,
        )

    def positional(self) -> Relation:
        """The first rows of two stores side by side, the second ones, and so on, each in the order of its
        key.
        """
        self.used.add("positional join")
        left, right = self._positional_rows(self.store()), self._positional_rows(self.store())
        columns = (*left.columns, *right.columns)
        return Relation(
            f"{left.sql} POSITIONAL JOIN {right.sql}",
            columns,
            (*left.total, *right.total),
            (),
            max(left.rows, right.rows),
        )

    def _positional_rows(self, store: Relation) -> Relation:
        alias = self.name("p")
        text = ", ".join(column.sql for column in store.columns)
        order = ", ".join(column.sql for column in store.total)
        columns = tuple(column.column_under(alias, column.name) for column in store.columns)
        total = tuple(column.column_under(alias, column.name) for column in store.total)
        return Relation(
            f"(SELECT {text} FROM {store.sql} ORDER BY {order}) AS {alias}", columns, total, (), store.rows
        )

    def recursive(self) -> tuple[str, tuple[Expression, ...]]:
        """A query that may stand in WITH RECURSIVE, with `{0}` for its own name; and its columns."""
        self.used.add("recursive")
        first = self.store()
        followed = [column for column in first.columns if column.family in _FOLLOWED]
        if not followed or self.random.random() < 0.2:
            return f"SELECT 0 AS n UNION ALL SELECT n + 1 FROM {{0}} WHERE n < {LEVELS}", (
                Expression("", Family.INTEGER, name="n"),
            )
        start = self.random.choice(followed)
        columns = (Expression("", Family.INTEGER, name="n"), replace(start, sql="", name="v", kind=""))
        base = f"SELECT 0 AS n, {start.sql} AS v FROM {first.sql}"
        if self.random.random() < 0.3:
            return (
                (
                    f"{base} {self.random.choice(('UNION', 'UNION ALL'))} SELECT n + 1, v FROM {{0}} WHERE "
                    f"n < {LEVELS}"
                ),
                columns,
            )
        second = self.store()
        alike = [column for column in second.columns if column.kind == start.kind]
        if not alike:
            return f"{base} UNION SELECT n + 1, v FROM {{0}} WHERE n < {LEVELS}", columns
        tie, value = self.random.choice(alike), self.random.choice(alike)
        step = (
            f"SELECT r.n + 1, {value.sql} FROM {{0}} AS r JOIN {second.sql} ON {tie.sql} = r.v WHERE r.n "
            f"< {LEVELS}"
        )
        return f"{base} UNION {step}", (
            columns[0],
            replace(columns[1], is_tame=start.is_tame and value.is_tame),
        )

    def _values(self) -> Relation:
        alias = self.name("w")
        rows = ", ".join(
            f"({place}, {text})"
            for place, text in enumerate(("'a'", "'b'", "NULL", "'ab'")[: self.random.randrange(1, 5)])
        )
        self.used.add("values")
        columns = (
            Expression(f"{alias}.n", Family.INTEGER, name="n"),
            Expression(f"{alias}.s", Family.TEXT, name="s"),
        )
        return Relation(f"(VALUES {rows}) AS {alias}(n, s)", columns, columns[:1], (), 4)

    def _unnested_list(self) -> Relation:
        alias = self.name("u")
        self.used.add("unnest")
        column = Expression(f"{alias}.e", Family.INTEGER, name="e")
        return Relation(
            f"UNNEST([0, 1, {self.random.choice(('1', 'NULL', '7'))}]) AS {alias}(e)", (column,), (), (), 3
        )

    def _range(self) -> Relation:
        alias = self.name("r")
        self.used.add("range")
        column = Expression(f"{alias}.i", Family.INTEGER, name="i")
        return Relation(
            (
                f"{self.random.choice(('range', 'generate_series'))}(0, {self.random.choice((3, 12))}) AS "
                f"{alias}(i)"
            ),
            (column,),
            (column,),
            (),
            12,
        )

    def _pivot(self) -> Relation | None:
        """Groups by one column, with a column for each of some values of another."""
        store = self.store()
        on = self._one(store.columns, _PIVOTED, ())
        group = None if on is None else self._one(store.columns, SIMPLE, (on,))
        if on is None or group is None or group.family is Family.FLOAT:
            return None
        chosen = list(dict.fromkeys(on.samples))
        values = self.random.sample(chosen, min(len(chosen), 3))
        summed = self._one(store.columns, (Family.INTEGER, Family.DECIMAL), (on, group))
        aggregate, family, argument = "count(*)", Family.INTEGER, on
        if summed is not None and summed.is_tame and self.random.random() < 0.7:
            aggregate, family, argument = (
                self.random.choice(("sum(v)", "min(v)", "max(v)", "count(v)")),
                summed.family,
                summed,
            )
            family = Family.INTEGER if aggregate == "count(v)" else family
        if not values:
            return None
        self.used.add("pivot")
        alias = self.name("p")
        names = [f"c{place}" for place in range(len(values))]
        columns = (
            group.column_under(alias, "g"),
            *(Expression(f"{alias}.{name}", family, name=name) for name in names),
        )
        inner = f"SELECT {group.sql} AS g, {on.sql} AS o, {argument.sql} AS v FROM {store.sql}"
        if self.random.random() < 0.5:
            order = self.random.choice(("", " ORDER BY g"))
            text = f"(PIVOT ({inner}) ON o IN ({', '.join(values)}) USING {aggregate} GROUP BY g{order})"
        else:
            text = f"(SELECT * FROM ({inner}) PIVOT ({aggregate} FOR o IN ({', '.join(values)}) GROUP BY g))"
        return Relation(f"{text} AS {alias}(g, {', '.join(names)})", columns, columns[:1], (), store.rows)

    def _unpivot(self) -> Relation | None:
        """A row for each of some columns of a row."""
        store = self.store()
        numbers = [
            column
            for column in store.columns
            if column.kind in {"BIGINT", "INTEGER", "SMALLINT", "TINYINT", "UTINYINT"}
        ]
        if not numbers:
            return None
        self.used.add("unpivot")
        alias = self.name("p")
        chosen = self.random.sample(numbers, min(2, len(numbers)))
        keys = [column for column in store.total if column.name not in {"n", "v"}]
        listed = [
            *(f"{column.sql} AS {quote_name(column.name)}" for column in keys),
            *(f"CAST({c.sql} AS BIGINT) AS x{p}" for p, c in enumerate(chosen)),
        ]
        nulls = self.random.choice(("", " INCLUDE NULLS"))
        inner = (
            f"FROM (SELECT {', '.join(listed)} FROM {store.sql}) UNPIVOT{nulls} (v FOR n IN "
            f"({', '.join(f'x{p}' for p in range(len(chosen)))}))"
        )
        found = tuple(column.column_under(alias, column.name) for column in keys)
        name = Expression(f"{alias}.n", Family.TEXT, name="n")
        value = Expression(
            f"{alias}.v", Family.INTEGER, name="v", is_tame=all(column.is_tame for column in chosen)
        )
        total = (*found, name) if len(keys) == len(store.total) else ()
        return Relation(f"({inner}) AS {alias}", (*found, name, value), total, (), 2 * store.rows)

    def _one(
        self, columns: Sequence[Expression], families: Sequence[Family], but: Sequence[Expression]
    ) -> Expression | None:
        found = [column for column in columns if column.family in families and column not in but]
        return self.random.choice(found) if found else None


def element_family(column: Expression) -> Family | None:
    """The family of a list's elements, where it is known."""
    return {"BIGINT[]": Family.INTEGER, "VARCHAR[]": Family.TEXT}.get(column.kind)
