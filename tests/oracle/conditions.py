"""Random conditions, as WHERE, HAVING, QUALIFY and ON have them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.oracle.kinds import NESTED, SIMPLE, Expression, Family, Trust, text_literal
from tests.oracle.scalars import Scalars

COMPARISONS = ("=", "=", "=", "<>", "<", "<=", ">", ">=")
ORDERS = ("<", "<=", ">", ">=")
PATTERNS = ("%", "a%", "%a", "%a%", "_", "__", "", "a_b", "Z%", "%é%", "%日%", "%''%", "100\\%", "x%y")


class Subqueries(Protocol):
    """Makes queries inside conditions; they may read what the condition reads."""

    def scalar(self, family: Family) -> Expression | None:
        """A query of one value of a family, in parentheses."""

    def column(self, family: Family) -> str | None:
        """A query of one column of a family, in parentheses."""

    def rows(self) -> str | None:
        """A query of any rows, in parentheses."""


@dataclass(frozen=True)
class Conditions:
    """Makes conditions.

    Attributes:
        scalars: Makes their operands.
        subqueries: Makes queries in them; None for none.
        key: Columns that conditions are most often about.
    """

    scalars: Scalars
    subqueries: Subqueries | None = None
    key: tuple[Expression, ...] = ()

    def make(self, depth: int = 2) -> str:
        """A condition."""
        random = self.scalars.random
        if depth > 0 and random.random() < 0.35:
            parts = [self.make(depth - 1) for _ in range(random.choice((2, 2, 3)))]
            return "(" + f" {random.choice(('AND', 'OR'))} ".join(parts) + ")"
        if depth > 0 and random.random() < 0.1:
            return f"(NOT {self.make(depth - 1)})"
        if self.key and random.random() < 0.25:
            return self.about_key()
        if self.subqueries is not None and random.random() < 0.12:
            found = self._subquery(self.subqueries)
            if found is not None:
                return found
        return self._plain(depth)

    def about_key(self) -> str:
        """What the router can make use of, or nearly; there are keys."""
        random = self.scalars.random
        column = random.choice(self.key)
        match random.randrange(6):
            case 0 | 1:
                return f"{column.sql} = {self.scalars.sample(column)}"
            case 2:
                return self._in_list_of(column)
            case 3 if len(self.key) > 1:
                return self._row_value(random.sample(self.key, 2))
            case 4:
                return (
                    f"({column.sql} = {self.scalars.sample(column)} OR {column.sql} = "
                    f"{self.scalars.sample(column)})"
                )
            case _:
                return f"{column.sql} {random.choice(COMPARISONS)} {self.scalars.sample(column)}"

    def _row_value(self, columns: Sequence[Expression]) -> str:
        random = self.scalars.random
        self.scalars.used.add("row value")
        left = f"({', '.join(column.sql for column in columns)})"
        if random.random() < 0.3:
            return f"{left} = {self._row_of(columns)}"
        if random.random() < 0.4 and "row order" not in self.scalars.used:
            # One a statement: the engine fails where two are bounds of one row (TUPLE has no BETWEEN).
            self.scalars.used.add("row order")
            sides = [left, self._row_of(columns)]
            if random.random() < 0.3:
                sides.reverse()
            return f" {random.choice(ORDERS)} ".join(sides)
        rows = ", ".join(self._row_of(columns) for _ in range(random.randrange(1, 4)))
        return f"{left} IN ({random.choice(('', '', 'VALUES '))}{rows})"

    def _row_of(self, columns: Sequence[Expression]) -> str:
        return f"({', '.join(map(self._part_of_row, columns))})"

    def _part_of_row(self, column: Expression) -> str:
        random, value = self.scalars.random, self.scalars.sample(column)
        if random.random() < 0.15:
            return "NULL"
        typed = re.fullmatch(r"(?:DATE|TIMESTAMP|TIMESTAMPTZ) ('[^']*')", value)
        return typed[1] if typed is not None and random.random() < 0.3 else value

    def _rows_of_columns(self, depth: int) -> str | None:
        columns = {column.sql: column for column in (self._any_column(), self._any_column()) if column}
        return self._row_value(list(columns.values())) if len(columns) == 2 else None

    def _in_list_of(self, column: Expression) -> str:
        random = self.scalars.random
        values = [self.scalars.sample(column) for _ in range(random.choice((1, 2, 3, 5)))]
        if random.random() < 0.15:
            values.append("NULL")
        self.scalars.used.add("in list")
        negation, listed = random.choice(("", "", "", "NOT ")), ", ".join(values)
        if random.random() < 0.1:
            return f"{column.sql} {negation}IN [{listed}]"
        return f"{column.sql} {negation}IN ({listed})"

    def _plain(self, depth: int) -> str:
        random = self.scalars.random
        choices: tuple[Callable[[int], str | None], ...] = (
            self._comparison,
            self._comparison,
            self._comparison,
            self._in_condition,
            self._between_condition,
            self._null,
            self._like,
            self._columns,
            self._columns,
            self._distinct_from,
            self._boolean,
            self._expression,
            self._nested_comparison,
            self._rows_of_columns,
        )
        for _ in range(5):
            found = random.choice(choices)(depth)
            if found is not None:
                return found
        return random.choice(("TRUE", "FALSE", "NULL IS NULL"))

    def _any_column(self) -> Expression | None:
        found = self.scalars.scope.readable()
        if self.scalars.scope.outer and self.scalars.random.random() < 0.2:
            return self.scalars.column(self.scalars.random.choice(SIMPLE))
        return self.scalars.random.choice(found) if found else None

    def _comparison(self, depth: int) -> str | None:
        column = self._any_column()
        if column is None:
            return None
        sides = [column.sql, self.scalars.sample(column)]
        if self.scalars.random.random() < 0.1:
            sides.reverse()
        return f"{sides[0]} {self.scalars.random.choice(COMPARISONS)} {sides[1]}"

    def _in_condition(self, depth: int) -> str | None:
        column = self._any_column()
        return None if column is None else self._in_list_of(column)

    def _between_condition(self, depth: int) -> str | None:
        column = self._any_column()
        if column is None or column.family is Family.BOOLEAN:
            return None
        negation = self.scalars.random.choice(("", "", "NOT "))
        return (
            f"{column.sql} {negation}BETWEEN {self.scalars.sample(column)} AND {self.scalars.sample(column)}"
        )

    def _null(self, depth: int) -> str | None:
        columns = self.scalars.scope.columns
        if not columns:
            return None
        return f"{self.scalars.random.choice(columns).sql} IS {self.scalars.random.choice(('', 'NOT '))}NULL"

    def _like(self, depth: int) -> str | None:
        column = self.scalars.column(Family.TEXT)
        if column is None:
            return None
        random = self.scalars.random
        self.scalars.used.add("like")
        if random.random() < 0.15:
            return (
                f"{random.choice(('starts_with', 'contains', 'ends_with'))}({column.sql}, "
                f"{text_literal(random.choice(('a', 'b', '', 'Z')))})"
            )
        return (
            f"{column.sql} {random.choice(('LIKE', 'LIKE', 'NOT LIKE', 'ILIKE'))} '{random.choice(PATTERNS)}'"
        )

    def _columns(self, depth: int) -> str | None:
        left = self._any_column()
        if left is None:
            return None
        right = self.scalars.expression(left.family, 1)
        return f"{left.sql} {self.scalars.random.choice(COMPARISONS)} {right.sql}"

    def _distinct_from(self, depth: int) -> str | None:
        left = self._any_column()
        if left is None:
            return None
        right = (
            self.scalars.sample(left)
            if self.scalars.random.random() < 0.5
            else self.scalars.leaf(left.family).sql
        )
        return f"{left.sql} IS {self.scalars.random.choice(('', 'NOT '))}DISTINCT FROM {right}"

    def _boolean(self, depth: int) -> str | None:
        column = self.scalars.column(Family.BOOLEAN)
        return (
            None
            if column is None
            else self.scalars.random.choice(
                (column.sql, f"(NOT {column.sql})", f"({column.sql} IS NOT TRUE)")
            )
        )

    def _expression(self, depth: int) -> str | None:
        left = self.scalars.any(2)
        right = self.scalars.expression(left.family, 1)
        return f"{left.sql} {self.scalars.random.choice(COMPARISONS)} {right.sql}"

    def _nested_comparison(self, depth: int) -> str | None:
        """Lists, structs and maps, for equality only: the engine does not know BETWEEN of them."""
        random = self.scalars.random
        columns = [
            column for column in self.scalars.scope.columns if column.family in NESTED and column.samples
        ]
        if not columns:
            return None
        column = random.choice(columns)
        self.scalars.used.add("nested value")
        match random.randrange(4):
            case 0:
                return self._in_list_of(column)
            case 1:
                negation = random.choice(("", "NOT "))
                return f"{column.sql} IS {negation}DISTINCT FROM {self.scalars.sample(column)}"
            case _:
                return f"{column.sql} {random.choice(('=', '=', '<>'))} {self.scalars.sample(column)}"

    def _subquery(self, subqueries: Subqueries) -> str | None:
        random = self.scalars.random
        if random.random() < 0.35:
            rows = subqueries.rows()
            self.scalars.used.add("exists")
            return None if rows is None else f"{random.choice(('', '', 'NOT '))}EXISTS {rows}"
        column = self._any_column()
        if column is None or column.trust > Trust.EQUAL:
            return None
        kind = random.randrange(4)
        if kind == 0:
            value = subqueries.scalar(column.family)
            self.scalars.used.add("scalar subquery")
            return None if value is None else f"{column.sql} {random.choice(COMPARISONS)} {value.sql}"
        rows = subqueries.column(column.family)
        if rows is None:
            return None
        if kind == 1:
            self.scalars.used.add("any, all")
            return (
                f"{column.sql} {random.choice(('=', '<>', '<', '>='))} {random.choice(('ANY', 'ALL'))} {rows}"
            )
        self.scalars.used.add("in subquery")
        return f"{column.sql} {random.choice(('', '', 'NOT '))}IN {rows}"
