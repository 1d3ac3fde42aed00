"""Which columns are equal in all rows that matter, as conditions say."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.trees import location_text, unwrap


class Equalities:
    """Classes of equal expressions.

    Only expressions of one and the same known type are put together: `=` between types compares converted
    values, which is not transitive.

    Args:
        conditions: Conditions that hold for every row that matters.
        types: Known types, by text.
    """

    def __init__(self, conditions: Iterable[exp.Expr], types: Mapping[str, pa.DataType]) -> None:
        self._parents: dict[str, str] = {}
        self._types = types
        self.add(conditions)

    def add(self, conditions: Iterable[exp.Expr]) -> None:
        """Take in more conditions."""
        for condition in conditions:
            pair = equal_pair(condition)
            if pair is None:
                continue
            arrow_type = self._types.get(pair[0])
            if arrow_type is not None and arrow_type == self._types.get(pair[1]):
                self._parents[self._root(pair[0])] = self._root(pair[1])

    def copy(self) -> Equalities:
        """The same classes, to be added to."""
        found = Equalities((), self._types)
        found._parents.update(self._parents)
        return found

    def _root(self, name: str) -> str:
        while name in self._parents and self._parents[name] != name:
            name = self._parents[name]
        return name

    def are_equal(self, first: str, second: str) -> bool:
        """Whether two expressions are equal."""
        return self._root(first) == self._root(second)

    def members(self, name: str) -> frozenset[str]:
        """The expressions that equal one, itself among them."""
        root = self._root(name)
        return frozenset({name, root, *(known for known in self._parents if self._root(known) == root)})

    def is_compared(self, name: str) -> bool:
        """Whether a condition says that an expression equals another, so that it is not NULL."""
        return len(self.members(name)) > 1


def equal_tables(conditions: Iterable[exp.Expr]) -> set[str]:
    """The tables whose columns conditions compare with each other; these are not NULL where they are true."""
    sides = (
        unwrap(condition.args[side])
        for condition in conditions
        if equal_pair(condition)
        for side in ("this", "expression")
    )
    return {side.table for side in sides if isinstance(side, exp.Column)}


def equal_pair(condition: exp.Expr) -> tuple[str, str] | None:
    """The texts of the two sides of an equality of columns; None for any other condition."""
    if type(condition) is not exp.EQ:
        return None
    left, right = location_text(condition.this), location_text(condition.args["expression"])
    return None if left is None or right is None else (left, right)
