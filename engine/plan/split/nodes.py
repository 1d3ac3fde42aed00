"""The words of splitting: fragments, and what is made of their rows."""

from __future__ import annotations

from dataclasses import dataclass

from sqlglot import exp

from engine.sql.bind import StoreReference


@dataclass(frozen=True)
class Fragment:
    """What every host that holds some of its partitions runs, over those partitions alone.

    Attributes:
        name: Table that its rows are to the fragments after it and to the merge: all hosts' rows together.
        tree: The query, reading scans (as `BoundStatement.tree` does), `inputs` and lifted lists. Never
            changed.
        references: The references whose scans it reads, or whose rows are the same, each partition of which
            is read on one host only. Without any, it runs once, at the coordinator, over its inputs.
        inputs: Fragments before it whose rows are sent with it to wherever it runs; broadcast sides of joins.
        rule: Why it may run on each host alone: name of the rule, such as `co-partitioned` or `gather`.
    """

    name: str
    tree: exp.Query
    references: tuple[StoreReference, ...]
    inputs: tuple[str, ...] = ()
    rule: str = "gather"

    @property
    def is_local(self) -> bool:
        """Whether it runs once, at the coordinator, because it reads no store."""
        return not self.references


@dataclass(frozen=True)
class SplitPlan:
    """How a statement is answered by several hosts.

    Attributes:
        rules: Names of the rules that made it, in the order of the fragments, then of the merge; for EXPLAIN.
        fragments: In an order in which every fragment comes after its inputs.
        merge: The statement of the coordinator over fragments' tables (and lifted lists), whose columns are
            the statement's by place, not always by name; None: the rows of the last fragment, in any order,
            are the answer.
        gathered: For each reference that is gathered because its query cannot be split, why; for EXPLAIN.
    """

    rules: tuple[str, ...]
    fragments: tuple[Fragment, ...]
    merge: exp.Expr | None
    gathered: tuple[str, ...] = ()


@dataclass(frozen=True)
class SelectSplit:
    """One SELECT in two phases.

    Attributes:
        partial: Runs on every host over its part of the rows of the SELECT's FROM clause. Its outputs have
            aliases of their own.
        merge: Gives the SELECT's own result, in names and order, from the table that holds all partial rows.
        rule: Name of the rule.
    """

    partial: exp.Select
    merge: exp.Query
    rule: str
