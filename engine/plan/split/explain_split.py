"""The text of a split statement. Stable: the same statement gives the same text."""

from __future__ import annotations

from sqlglot import exp

from engine.plan.split.nodes import Fragment, SplitPlan
from engine.sql.engine_dialect import EngineDialect


def explain_split(plan: SplitPlan) -> list[str]:
    """The lines of EXPLAIN.

    Args:
        plan: How a statement is split.

    Returns:
        Lines without line ends: the rules, each fragment with the stores that it reads, the merge, and what
        is gathered since its query cannot be split.
    """
    lines = [f"split: {', '.join(plan.rules) or 'nothing to split'}"]
    for fragment in plan.fragments:
        lines += _fragment(fragment)
    lines.append(
        "merge: " + ("rows of all hosts" if plan.merge is None else plan.merge.sql(dialect=EngineDialect))
    )
    lines += [f"gathered: {each}" for each in plan.gathered]
    return lines


def _fragment(fragment: Fragment) -> list[str]:
    where = "coordinator" if fragment.is_local else "every host"
    lines = [f"fragment: {fragment.name} on {where}, {fragment.rule}"]
    if fragment.references:
        lines.append(
            "  stores: "
            f"{', '.join(dict.fromkeys(reference.definition.name for reference in fragment.references))}"
        )
    if fragment.inputs:
        lines.append(f"  inputs: {', '.join(fragment.inputs)}")
    lines.append(f"  sql: {store_sql(fragment)}")
    return lines


def store_sql(fragment: Fragment) -> str:
    """A fragment as SQL that reads stores by their names."""
    names = {reference.scan: reference.definition.name for reference in fragment.references}
    tree = fragment.tree.copy()
    for table in tree.find_all(exp.Table):
        if table.name in names:
            table.set("this", exp.to_identifier(names[table.name], quoted=True))
    return str(tree.sql(dialect=EngineDialect))
