"""The columns of partial rows, and the table that a merge reads them from."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from engine.plan.logical.trees import column, named_output, select_from, table, text

OUTPUT_PREFIXES = ("__key_", "__value_", "__row_", "__kind", "__out_", "__sort_")
"""Columns of partial rows are named with these; a SELECT with an output of such a name is not split."""
_KIND = "__kind"


class NotSplitError(Exception):
    """A SELECT has something in it that no rule proves right in parts."""


@dataclass(frozen=True)
class GatheredRows:
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
        self._values: dict[str, exp.Expr] = {}
        self._lists: dict[str, exp.Expr] = {}

    @property
    def keys(self) -> tuple[exp.Expr, ...]:
        """The expressions that partial rows are grouped by."""
        return tuple(self._keys)

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

    def value(self, aggregate: exp.Expr) -> exp.Column:
        """The column of an aggregate that every host computes.

        Args:
            aggregate: A call over the SELECT's rows.

        Returns:
            The column in the merge; NULL in rows that were gathered.
        """
        return column(self._part, f"__value_{_index_of(self._values, aggregate)}")

    def rows(self, gathered: exp.Expr) -> GatheredRows:
        """The rows of a list that every host makes.

        Args:
            gathered: A call over the SELECT's rows that gives a list.

        Returns:
            The rows in the merge.
        """
        number = _index_of(self._lists, gathered)
        number_of_list = exp.Literal.number(number + 1)
        return GatheredRows(
            exp.EQ(this=column(self._part, _KIND), expression=number_of_list),
            column(self._part, f"__row_{number}"),
        )

    def outputs(self) -> list[exp.Expr]:
        """What the partial SELECT gives: keys, values and lists; never nothing."""
        found: list[exp.Expr] = [
            named_output(key.copy(), f"__key_{number}") for number, key in enumerate(self._keys)
        ]
        found += [
            named_output(value, f"__value_{number}") for number, value in enumerate(self._values.values())
        ]
        found += [named_output(value, f"__row_{number}") for number, value in enumerate(self._lists.values())]
        return found or [named_output(exp.Count(this=exp.Star(), big_int=True), "__value_0")]

    def source(self) -> exp.Expr:
        """What the merge reads: the partial rows, and each element of their lists as a row of its own."""
        if not self._lists:
            return table(self._part, self._part)
        keys = [
            named_output(column(self._part, f"__key_{number}"), f"__key_{number}")
            for number in range(len(self._keys))
        ]
        values = [
            named_output(column(self._part, f"__value_{number}"), f"__value_{number}")
            for number in range(len(self._values))
        ]
        made: exp.Query = self._kind(0, [*keys, *values])
        for number in range(len(self._lists)):
            element = named_output(exp.Explode(this=column(self._part, f"__row_{number}")), f"__row_{number}")
            rows = self._kind(number + 1, [*(key.copy() for key in keys), element])
            made = exp.Union(this=made, expression=rows, distinct=False, by_name=True)
        return exp.Subquery(this=made, alias=exp.TableAlias(this=exp.to_identifier(self._part, quoted=True)))

    def _kind(self, kind: int, outputs: list[exp.Expr]) -> exp.Select:
        return select_from(
            [named_output(exp.Literal.number(kind), _KIND), *outputs], table(self._part, self._part)
        )


def _index_of(known: dict[str, exp.Expr], expression: exp.Expr) -> int:
    """The place of an expression among those that are known; it becomes one if it is not."""
    written = text(expression)
    known.setdefault(written, expression)
    return list(known).index(written)
