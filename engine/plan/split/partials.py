"""The columns of partial rows, and the table that a merge reads them from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.logical.trees import column, named_output, select_from, table, text

OUTPUT_PREFIXES = ("__key_", "__distinct_", "__value_", "__row_", "__kind", "__out_", "__sort_")
"""Columns of partial rows are named with these; a SELECT with an output of such a name is not split."""
_KIND = "__kind"


class NotSplitError(Exception):
    """A SELECT has something in it that no rule proves right in parts."""


@dataclass(frozen=True)
class ListedRows:
    """Rows that hosts sent inside a list, one row of the merge each.

    Attributes:
        condition: Holds for these rows of the merge, and for no others.
        value: The list's element.
    """

    condition: exp.Expr
    value: exp.Expr


class PartialRows:
    """Collects what every host computes for each group; columns are shared between aggregates that ask for
    the same.

    Args:
        part: Name of the table that holds all hosts' partial rows.
    """

    def __init__(self, part: str) -> None:
        self._part = part
        self._keys: list[exp.Expr] = []
        self._distinct: dict[str, exp.Expr] = {}
        self._values: dict[str, exp.Expr] = {}
        self._lists: dict[str, exp.Expr] = {}
        self._list_values: list[int] = []

    @property
    def group(self) -> exp.Group | None:
        """How hosts group their rows; None if each makes one row of all.

        Where only the different values of an expression matter, it is one more key: a host sends a row for
        each of them, with what it computes of the rows that have it, and the merge puts these rows together.
        Several such expressions have a grouping set each, and are NULL in the rows of the others.
        """
        found = [key.copy() for key in self._keys]
        different = self._distinct_values()
        if len(different) > 1:
            sets = [exp.Tuple(expressions=[each]) for each in different]
            found.append(exp.GroupingSets(expressions=sets))
        else:
            found += different
        return exp.Group(expressions=found) if found else None

    def key(self, expression: exp.Expr) -> exp.Column:
        """The column of an expression that rows are grouped by; it becomes one if it is not.

        Args:
            expression: An expression over the SELECT's rows.

        Returns:
            The column in the merge.
        """
        found = next((number for number, known in enumerate(self._keys) if known == expression), None)
        if found is None:
            found = len(self._keys)
            self._keys.append(expression)
        return column(self._part, f"__key_{found}")

    def known_key(self, expression: exp.Expr) -> exp.Column | None:
        """The column of an expression if rows are grouped by it."""
        return (
            self.key(expression)
            if any(type(known) is type(expression) and known == expression for known in self._keys)
            else None
        )

    def distinct_value(self, expression: exp.Expr) -> exp.Column:
        """The column of an expression of whose values each matters once, and NULL not at all.

        Args:
            expression: An expression over the SELECT's rows, with a column in it.

        Returns:
            The column in the merge; rows of a group have each of its values, some of them several times.
        """
        key = self.known_key(expression)
        return key or column(self._part, f"__distinct_{_index_of(self._distinct, expression)}")

    def value(self, aggregate: exp.Expr) -> exp.Column:
        """The column of an aggregate that every host computes.

        Args:
            aggregate: A call over the SELECT's rows.

        Returns:
            The column in the merge; NULL in rows that were gathered.
        """
        return column(self._part, f"__value_{_index_of(self._values, aggregate)}")

    def rows(self, gathered: exp.Expr, values: int = 0) -> ListedRows:
        """The rows of a list that every host makes.

        Args:
            gathered: A call over the SELECT's rows that gives a list.
            values: Of how many values an element is, if there is one for each row; 0: there are fewer.

        Returns:
            The rows in the merge.
        """
        number = _index_of(self._lists, gathered)
        if number == len(self._list_values):
            self._list_values.append(values)
        number_of_list = exp.Literal.number(number + 1)
        return ListedRows(
            exp.EQ(this=column(self._part, _KIND), expression=number_of_list),
            column(self._part, f"__row_{number}"),
        )

    @property
    def has_all_rows(self) -> bool:
        """Whether lists have an element for each row, and as many values as there are columns that all of
        this is made of: then they are no less than the rows.
        """
        if not self._list_values or not all(self._list_values):
            return False
        there = _columns((*self._keys, *self._lists.values()))
        others = _columns((*self._distinct.values(), *self._values.values()))
        return others <= there and len(there) <= len(self._keys) + sum(self._list_values)

    def outputs(self) -> list[exp.Expr]:
        """What the partial SELECT gives: keys, values and lists; never nothing."""
        kinds = {
            "__key": [key.copy() for key in self._keys],
            "__distinct": self._distinct_values(),
            "__value": [self._said_once(value) for value in self._values.values()],
            "__row": [self._said_once(value) for value in self._lists.values()],
        }
        found: list[exp.Expr] = [
            named_output(each, f"{kind}_{number}")
            for kind, columns in kinds.items()
            for number, each in enumerate(columns)
        ]
        return found or [named_output(exp.Count(this=exp.Star(), big_int=True), "__value_0")]

    def _distinct_values(self) -> list[exp.Expr]:
        """The expressions of which the different values matter. Several are each made unlike all others: to
        the engine `q` and `(q)` are one, and their grouping sets the same set twice.
        """
        found = [each.copy() for each in self._distinct.values()]
        if len(found) < 2:
            return found
        marks = [exp.Literal.number(number) for number in range(len(found))]
        return [
            exp.Case(this=mark, ifs=[exp.If(this=mark.copy(), true=each)])
            for mark, each in zip(marks, found, strict=True)
        ]

    def _said_once(self, aggregate: exp.Expr) -> exp.Expr:
        """An aggregate in the rows of the first grouping set, and NULL in those of others."""
        if len(self._distinct) < 2:
            return aggregate
        first, *_ = self._distinct_values()
        is_first = exp.EQ(this=exp.Grouping(expressions=[first]), expression=exp.Literal.number(0))
        return exp.Case(ifs=[exp.If(this=is_first, true=aggregate)])

    def source(self) -> exp.Expr:
        """What the merge reads: the partial rows, and each element of their lists as a row of its own."""
        if not self._lists:
            return table(self._part, self._part)
        keys = [
            named_output(column(self._part, f"__key_{number}"), f"__key_{number}")
            for number in range(len(self._keys))
        ]
        others = [
            named_output(column(self._part, name), name)
            for kind, count in (("__distinct", len(self._distinct)), ("__value", len(self._values)))
            for name in (f"{kind}_{number}" for number in range(count))
        ]
        made: exp.Query = self._kind(0, [*keys, *others])
        for number in range(len(self._lists)):
            element = named_output(exp.Explode(this=column(self._part, f"__row_{number}")), f"__row_{number}")
            rows = self._kind(number + 1, [*(key.copy() for key in keys), element])
            made = exp.Union(this=made, expression=rows, distinct=False, by_name=True)
        return exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(self._part, quoted=True)))

    def _kind(self, kind: int, outputs: list[exp.Expr]) -> exp.Select:
        return select_from(
            [named_output(exp.Literal.number(kind), _KIND), *outputs], table(self._part, self._part)
        )


def _columns(expressions: Iterable[exp.Expr]) -> set[str]:
    return {text(found) for each in expressions for found in each.find_all(exp.Column)}


def _index_of(known: dict[str, exp.Expr], expression: exp.Expr) -> int:
    """The place of an expression among those that are known; it becomes one if it is not."""
    written = text(expression)
    known.setdefault(written, expression)
    return list(known).index(written)
