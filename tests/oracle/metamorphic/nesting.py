"""A statement inside another one that hands its rows on."""

from __future__ import annotations

from collections.abc import Sequence

from tests.oracle.conditions import Conditions
from tests.oracle.kinds import SIMPLE, Expression, Trust
from tests.oracle.metamorphic.relation import Pair, Relation, Subject
from tests.oracle.scalars import Scalars, Scope


def _as_cte(subject: Subject) -> Pair:
    hint = subject.random.choice(("", "", "MATERIALIZED ", "NOT MATERIALIZED "))
    return Pair(subject.variant(f"WITH whole AS {hint}({subject.source.text}) SELECT * FROM whole"))


def _as_derived_table(subject: Subject) -> Pair:
    return Pair(subject.variant(f"SELECT * FROM ({subject.source.text}) AS whole"))


def _beside_what_is_gathered(subject: Subject) -> Pair:
    """The statement around it has no plan, and so the query is split on its own."""
    if subject.random.random() < 0.3:
        return Pair(
            subject.variant(
                f"WITH whole AS ({subject.source.text}) "
                "SELECT whole.* FROM whole, LATERAL (SELECT 1 WHERE (SELECT count(*) FROM whole) > 0) AS one"
            )
        )
    return Pair(
        subject.variant(f"SELECT whole.* FROM ({subject.source.text}) AS whole, LATERAL (SELECT 1) AS one")
    )


def _nested_twice(subject: Subject) -> Pair:
    inner = f"SELECT inner_rows.* FROM ({subject.source.text}) AS inner_rows"
    if subject.random.random() < 0.5:
        return Pair(subject.variant(f"WITH whole AS ({inner}) SELECT * FROM (SELECT * FROM whole) AS again"))
    return Pair(subject.variant(f"SELECT * FROM ({inner}) AS whole"))


def _with_where_true(subject: Subject) -> Pair | None:
    form = subject.source.query.form
    if form is not None and subject.source.text.endswith(form.text()) and subject.random.random() < 0.5:
        return Pair(subject.variant(subject.source.with_clause + form.text("TRUE")))
    return Pair(subject.variant(f"SELECT * FROM ({subject.source.text}) AS whole WHERE TRUE"))


def _condition_pushed(subject: Subject) -> Pair | None:
    """A condition on an output, and the same condition inside."""
    query = subject.source.query
    if query.form is None or query.is_limited:
        return None
    columns = [
        (place, column)
        for place, column in enumerate(query.columns)
        if place in query.form.picked
        and column.name
        and column.family in SIMPLE
        and column.trust <= Trust.EQUAL
        and "SELECT" not in column.sql
        and _is_certain(column.name, [*query.columns[:place], *query.columns[place + 1 :]])
    ]
    keyed = [each for each in columns if each[0] in query.keys]
    if keyed and subject.random.random() < 0.7:
        columns = keyed
    if not columns:
        return None
    _, column = subject.random.choice(columns)
    condition = condition_on(subject, column)
    inside = subject.source.with_clause + query.form.text(condition)
    outside = condition.replace(column.sql, column.column_under("whole", column.name).sql)
    text = f"SELECT * FROM ({subject.source.text}) AS whole WHERE {outside}"
    if subject.random.random() < 0.3:
        text = f"WITH whole AS ({subject.source.text}) SELECT * FROM whole WHERE {outside}"
    return Pair(subject.variant(text), subject.variant(inside))


def _is_certain(name: str, others: Sequence[Expression]) -> bool:
    """Whether a name can mean no other output; those without a name of the text's are called as they read."""
    return all(
        other.name.lower() != name.lower() if other.name else name.lower() not in other.sql.lower()
        for other in others
    )


def condition_on(subject: Subject, column: Expression) -> str:
    """A condition on one column, by comparisons alone: of what is equal they all say the same."""
    scalars = Scalars(subject.random, Scope((column,)))
    if subject.random.random() < 0.1:
        return f"{column.sql} IS {subject.random.choice(('', 'NOT '))}NULL"
    return Conditions(scalars, None, (column,)).about_key()


AS_CTE = Relation("as a common table expression", _as_cte)
AS_DERIVED_TABLE = Relation("as a derived table", _as_derived_table)
BESIDE_WHAT_IS_GATHERED = Relation("beside what is gathered", _beside_what_is_gathered)
NESTED_TWICE = Relation("nested twice", _nested_twice)
WITH_WHERE_TRUE = Relation("with WHERE TRUE", _with_where_true)
CONDITION_PUSHED = Relation("condition outside and inside", _condition_pushed)
