"""A condition is true, false or NULL: the rows of these three kinds are all rows."""

from __future__ import annotations

from tests.oracle.conditions import Conditions
from tests.oracle.kinds import LOOSE, SIMPLE, Expression, Family, Trust
from tests.oracle.metamorphic.relation import Pair, Relation, Subject, select_list
from tests.oracle.scalars import Scalars, Scope
from tests.oracle.selects import Form

MOST_OUTPUTS = 4


def _thirds(subject: Subject, form: Form) -> tuple[str, str, str]:
    columns, keys = form.relation.columns, form.relation.keys
    condition = Conditions(Scalars(subject.random, Scope(columns)), None, keys).make(1)
    return f"({condition})", f"(NOT ({condition}))", f"(({condition}) IS NULL)"


def _rows(subject: Subject) -> Pair | None:
    query = subject.source.query
    form = query.form
    if form is None:
        return None
    if form.adds_up and not query.is_limited:
        parts = [form.text(third) for third in _thirds(subject, form)]
        subject.random.shuffle(parts)
        return Pair(subject.variant(subject.source.with_clause + " UNION ALL ".join(parts)))
    columns = subject.columns(form)
    if not columns:
        return None
    head = select_list(columns)
    parts = [form.select(third, head=head) for third in _thirds(subject, form)]
    trusts = [column.trust for column in columns]
    return Pair(
        subject.statement(" UNION ALL ".join(parts), trusts),
        subject.statement(form.select(head=head), trusts),
    )


def _sums(subject: Subject) -> Pair | None:
    """Aggregates that add up, over the rows that the query reads."""
    form = subject.source.query.form
    if form is None:
        return None
    random = subject.random
    columns = [c for c in form.relation.columns if c.family in SIMPLE and c.trust <= Trust.EQUAL]
    found = [("count(*)", "CAST(sum({}) AS BIGINT)", Trust.EXACT)]
    chosen = random.sample(columns, min(len(columns), random.randrange(1, MOST_OUTPUTS)))
    found += [_aggregate(subject, column) for column in chosen]
    groups = _groups(subject, form, columns)
    listed = [
        *(f"{column.sql} AS g{place}" for place, column in enumerate(groups)),
        *(f"{inner} AS a{place}" for place, (inner, _, _) in enumerate(found)),
    ]
    clause = f" GROUP BY {', '.join(column.sql for column in groups)}" if groups else ""
    head = f"SELECT {', '.join(listed)}"
    parts = [form.select(third, head=head) + clause for third in _thirds(subject, form)]
    outer = [
        *(f"g{place}" for place in range(len(groups))),
        *(f"{again.format(f'a{place}')} AS a{place}" for place, (_, again, _) in enumerate(found)),
    ]
    text = f"SELECT {', '.join(outer)} FROM ({' UNION ALL '.join(parts)}) AS thirds"
    if groups:
        text += f" GROUP BY {', '.join(f'g{place}' for place in range(len(groups)))}"
    trusts = [
        *(Trust.EQUAL if column.family in LOOSE else Trust.EXACT for column in groups),
        *(trust for _, _, trust in found),
    ]
    base = form.select(head=head) + clause
    return Pair(subject.statement(text, trusts), subject.statement(base, trusts))


def _groups(subject: Subject, form: Form, columns: list[Expression]) -> list[Expression]:
    random = subject.random
    keys = [key for key in form.relation.keys if key.trust <= Trust.EQUAL and key.family in SIMPLE]
    chosen = keys if keys and random.random() < 0.5 else columns
    return random.sample(chosen, min(len(chosen), random.choice((0, 1, 1, 2))))


def _aggregate(subject: Subject, column: Expression) -> tuple[str, str, Trust]:
    """An aggregate, how its parts are put together, and how surely it is determined."""
    trust = Trust.EQUAL if column.family in LOOSE else Trust.EXACT
    if column.is_tame and column.family in {Family.INTEGER, Family.DECIMAL} and subject.random.random() < 0.5:
        # A DECIMAL of few digits has a sum of another type than that of its sums.
        return f"CAST(sum({column.sql}) AS DECIMAL(38,10))", "CAST(sum({}) AS DECIMAL(38,10))", Trust.EXACT
    if column.is_tame and column.family is Family.FLOAT and subject.random.random() < 0.5:
        return f"sum({column.sql})", "sum({})", Trust.CLOSE
    name = subject.random.choice(("min", "max", "count"))
    if name == "count":
        return f"count({column.sql})", "CAST(sum({}) AS BIGINT)", Trust.EXACT
    return f"{name}({column.sql})", f"{name}({{}})", trust


ROWS_IN_THREE = Relation("rows in three parts", _rows)
SUMS_IN_THREE = Relation("aggregates in three parts", _sums)
