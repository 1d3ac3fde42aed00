"""Random window functions whose value does not depend on the order of rows that tie."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.oracle.aggregates import Aggregates
from tests.oracle.kinds import LOOSE, SIMPLE, Expression, Family, Trust
from tests.oracle.scalars import Scalars

_DIRECTIONS = ("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST")


@dataclass(frozen=True)
class Windows:
    """Makes window functions.

    Attributes:
        scalars: Makes their arguments.
        total: Columns that no two rows have in common; empty where rows may be equal.
        keys: Columns of stores' keys, which partitions are most often made by.
    """

    scalars: Scalars
    total: tuple[Expression, ...]
    keys: tuple[Expression, ...]

    def make(self) -> Expression:
        """A window function with its OVER clause."""
        random = self.scalars.random
        self.scalars.used.add("window")
        kind = random.randrange(5)
        if kind == 0:
            return self._rank()
        if kind in (1, 2):
            return self._aggregate()
        return self._place() or self._rank()

    def rank(self) -> Expression:
        """A number of a row in its window, for QUALIFY."""
        return self._place(numbers=True) or self._rank(numbers=True)

    def _rank(self, *, numbers: bool = False) -> Expression:
        """Functions of the order alone: rows that tie get the same value."""
        random = self.scalars.random
        name = random.choice(
            ("rank", "dense_rank") if numbers else ("rank", "dense_rank", "percent_rank", "cume_dist")
        )
        order = self._order(self._some(2) or list(self.total))
        if not order:
            return Expression("count(*) OVER ()", Family.INTEGER)
        family = Family.INTEGER if "rank" in name and "percent" not in name else Family.FLOAT
        return Expression(
            f"{name}() OVER ({self._partition()}{order})", family, is_tame=family is Family.INTEGER
        )

    def _aggregate(self) -> Expression:
        """Aggregates of the partition, or of all rows up to those that tie with a row."""
        aggregate = Aggregates(self.scalars).make(windowed=True)
        random = self.scalars.random
        order, frame = "", ""
        kind = random.randrange(4)
        total = self._total_order()
        if kind == 0 and total:
            order, frame = (
                total,
                " ROWS BETWEEN "
                + random.choice(
                    (
                        "2 PRECEDING AND CURRENT ROW",
                        "UNBOUNDED PRECEDING AND 1 FOLLOWING",
                        "1 PRECEDING AND 1 FOLLOWING",
                    )
                ),
            )
        elif kind == 1 and "DISTINCT" not in aggregate.sql:
            order = self._order(self._some(1))
        trust = Trust.EQUAL if aggregate.family in LOOSE else Trust.EXACT
        return replace(
            aggregate.loosen(trust), sql=f"{aggregate.sql} OVER ({self._partition()}{order}{frame})"
        )

    def _place(self, *, numbers: bool = False) -> Expression | None:
        """Functions of a row's place, over a total order."""
        order = self._total_order()
        if not order:
            return None
        random = self.scalars.random
        over = f"OVER ({self._partition()}{order})"
        name = (
            "row_number"
            if numbers
            else random.choice(
                ("row_number", "ntile", "lag", "lead", "first_value", "last_value", "nth_value")
            )
        )
        if name == "row_number":
            return Expression(f"row_number() {over}", Family.INTEGER)
        if name == "ntile":
            return Expression(f"ntile({random.choice((2, 3))}) {over}", Family.INTEGER)
        value = self.scalars.any(1)
        arguments = {
            "lag": random.choice(("", ", 2")),
            "lead": random.choice(("", ", 1")),
            "nth_value": ", 2",
        }.get(name, "")
        nulls = random.choice(("", "", " IGNORE NULLS"))
        trust = Trust.EQUAL if value.family in LOOSE else Trust.EXACT
        return replace(
            value.loosen(trust), sql=f"{name}({value.sql}{arguments}{nulls}) {over}", kind="", name=""
        )

    def _some(self, most: int) -> list[Expression]:
        columns = self.scalars.scope.readable()
        return self.scalars.random.sample(
            columns, min(len(columns), self.scalars.random.randrange(1, most + 1))
        )

    def _partition(self) -> str:
        random = self.scalars.random
        if random.random() < 0.3:
            return ""
        columns = [random.choice(self.keys)] if self.keys and random.random() < 0.6 else self._some(2)
        return f"PARTITION BY {', '.join(column.sql for column in columns)} " if columns else ""

    def _order(self, columns: list[Expression]) -> str:
        if not columns:
            return ""
        return "ORDER BY " + ", ".join(
            column.sql + self.scalars.random.choice(_DIRECTIONS) for column in columns
        )

    def _total_order(self) -> str:
        """An order in which no two rows tie, or only rows that are equal in all that can be read."""
        columns = self.scalars.scope.columns
        if not self.total and any(
            column.family not in SIMPLE or column.trust is Trust.CLOSE for column in columns
        ):
            return ""
        return self._order([*self._some(1), *(self.total or columns)])
