"""What is said twice: a join with a store on its own key, a condition on a column that equals another."""

from __future__ import annotations

from dataclasses import replace

from tests.oracle.kinds import Expression, Family, quote_name
from tests.oracle.metamorphic.nesting import condition_on
from tests.oracle.metamorphic.relation import Pair, Relation, Subject, select_list
from tests.oracle.relations import Member

ALIAS = "same_store"


def _redundant_join(subject: Subject) -> Pair | None:
    """Rows of a store that have a partner of their own key in it: all, one each."""
    query = subject.source.query
    form = query.form
    if (
        form is None
        or not form.relation.members
        or not subject.source.text.startswith(subject.source.with_clause + form.text())
    ):
        return None
    random = subject.random
    member = random.choice(form.relation.members)
    store, keys, ties = _same_store(subject, member)
    there = [other.sql for _, other in keys]
    rest = subject.source.text[len(subject.source.with_clause + form.text()) :]
    kinds = ["EXISTS", "IN", "SEMI JOIN"]
    if not form.relation.is_merged and not form.head.endswith("*"):
        kinds += ["JOIN", "JOIN", "LEFT JOIN"]
    if form.relation.sql.count(", ") and form.relation.is_merged:
        kinds.remove("SEMI JOIN")  # it would join the last table of the commas alone
    kind = random.choice(kinds)
    if kind == "EXISTS":
        text = form.text(f"EXISTS (SELECT 1 FROM {store} WHERE {ties})")
    elif kind == "IN":
        listed, found = (", ".join(each) for each in ([one.sql for one, _ in keys], there))
        rows = (f"({listed})", f"({found})") if len(keys) > 1 else (listed, found)
        text = form.text(f"{rows[0]} IN (SELECT {rows[1]} FROM {store})")
    else:
        text = form.text(source=f"{form.relation.sql} {kind} {store} ON {ties}")
    return Pair(subject.variant(subject.source.with_clause + text + rest))


def _closed_equality(subject: Subject) -> Pair | None:
    """`t.k = u.k`, and a condition on one of them with and without the same on the other."""
    form = subject.source.query.form
    if form is None:
        return None
    source = form.relation.sql
    pairs = [(one, other) for one, other in form.relation.equal if _are_alike(one, other)]
    can_join = bool(form.relation.members) and not form.relation.is_merged
    if can_join and (not pairs or subject.random.random() < 0.5):
        store, keys, ties = _same_store(subject, subject.random.choice(form.relation.members))
        source = f"{source} {subject.random.choice(('JOIN', 'JOIN', 'LEFT JOIN'))} {store} ON {ties}"
        pairs = [*keys, *((other, one) for one, other in keys)]
    columns = subject.columns(form)
    if not pairs or not columns:
        return None
    one, other = subject.random.choice(pairs)
    if not other.samples:
        return None
    # Where the second is not NULL, the first equals it.
    condition = f"{other.sql} = {subject.random.choice(other.samples)}"
    if subject.random.random() < 0.3:
        condition = condition_on(subject, other)
        if "IS NULL" in condition:
            return None
    also = condition.replace(other.sql, one.sql)
    head, trusts = select_list(columns), [column.trust for column in columns]
    conditions = [condition, also]
    subject.random.shuffle(conditions)
    base = form.select(condition, source=source, head=head)
    text = form.select(*conditions, source=source, head=head)
    return Pair(subject.statement(text, trusts), subject.statement(base, trusts))


def _same_store(subject: Subject, member: Member) -> tuple[str, list[tuple[Expression, Expression]], str]:
    """A store once more, the columns of its key beside those of the first, and what ties them."""
    definition = next(
        store.definition for store in subject.dataset.stores if store.definition.name == member.store
    )
    there = [
        (column, replace(column, sql=f"{ALIAS}.{quote_name(name)}"))
        for column, name in zip(member.key, definition.key, strict=True)
    ]
    ties = " AND ".join(f"{one.sql} = {other.sql}" for one, other in there)
    return f"{quote_name(member.store)} AS {ALIAS}", there, ties


def _are_alike(one: Expression, other: Expression) -> bool:
    """Whether a condition on one says the same of the other: text and bytes, whole numbers of any width."""
    return bool(other.samples) and (
        one.kind == other.kind != "" or one.family is other.family is Family.INTEGER
    )


REDUNDANT_JOIN = Relation("redundant join on the key", _redundant_join)
CLOSED_EQUALITY = Relation("condition on both sides of an equality", _closed_equality)
