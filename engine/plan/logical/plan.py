"""The logical plan of a statement."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
from sqlglot import exp

from engine.sql.bind import StoreReference


@dataclass(frozen=True)
class LogicalPlan:
    """A statement with nothing left to be guessed.

    Attributes:
        tree: The query, without WITH.
        ctes: Common table expressions by the names that the trees have for them; each after those that it
            reads.
        references: The store references by the names of their scans.
        lists: Columns of the long literal lists that the trees read.
        aliases: Every alias of a table in any of the trees.
        has_volatile: Whether anything in the trees is volatile.
    """

    tree: exp.Query
    ctes: Mapping[str, exp.Query]
    references: Mapping[str, StoreReference]
    aliases: set[str]
    has_volatile: bool
    lists: Mapping[str, pa.Schema] = field(default_factory=dict)

    @property
    def queries(self) -> tuple[exp.Query, ...]:
        """The tree and the common table expressions; each before those that it reads."""
        return (self.tree, *reversed(list(self.ctes.values())))

    def copy(self) -> LogicalPlan:
        """The same plan, whose trees nobody else holds."""
        return LogicalPlan(
            self.tree.copy(),
            {name: query.copy() for name, query in self.ctes.items()},
            self.references,
            set(self.aliases),
            self.has_volatile,
            self.lists,
        )
