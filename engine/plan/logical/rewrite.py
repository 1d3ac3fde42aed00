"""What a rewrite of a logical plan is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sqlglot import exp

from engine.plan.logical.column_types import ColumnTypes
from engine.plan.logical.plan import LogicalPlan


@dataclass(frozen=True)
class Draft:
    """A plan while it is rewritten: nobody else holds its trees, so that they may change in place.

    Attributes:
        plan: The plan.
        types: Types of its columns.
    """

    plan: LogicalPlan
    types: ColumnTypes


@dataclass(frozen=True)
class SelectRewrite:
    """Betters one SELECT, and the queries that it reads. SELECTs come from the outside in.

    Attributes:
        name: Its name.
        apply: Changes the SELECT.
    """

    name: str
    apply: Callable[[Draft, exp.Select], None]


@dataclass(frozen=True)
class CteRewrite:
    """Betters a common table expression by what those that read it need. They come before it.

    Attributes:
        name: Its name.
        apply: Changes the common table expression of a name.
    """

    name: str
    apply: Callable[[Draft, str], None]


@dataclass(frozen=True)
class PlanRewrite:
    """Betters a whole plan.

    Attributes:
        name: Its name.
        apply: Changes the plan.
    """

    name: str
    apply: Callable[[Draft], None]


Rewrite = CteRewrite | SelectRewrite | PlanRewrite
