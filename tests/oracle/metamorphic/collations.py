"""A collation says nothing where all values are folded already."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from dataclasses import replace

from tests.oracle.collated import COLLATIONS, collated_query
from tests.oracle.conditions import Conditions
from tests.oracle.kinds import Family, quote_name
from tests.oracle.metamorphic.relation import Pair, Relation, Subject, select_list
from tests.oracle.queries import Generated, store_under
from tests.oracle.scalars import Scalars, Scope

TRIES = 8
"""How often stores are drawn until there are some with texts."""
_COLLATE = re.compile(" COLLATE [A-Z.]+")


def _outputs(subject: Subject) -> Pair | None:
    """Texts that are only handed on."""
    collation = subject.random.choice(list(COLLATIONS))
    columns = subject.source.query.columns
    named = Counter(column.name.lower() for column in columns)
    texts = [
        quote_name(column.name)
        for column in columns
        if column.family is Family.TEXT and column.name and named[column.name.lower()] == 1
    ]
    if texts and all(column.name for column in columns):
        replaced = ", ".join(f"{name} COLLATE {collation} AS {name}" for name in texts)
        return Pair(subject.variant(f"SELECT * REPLACE ({replaced}) FROM ({subject.source.text}) AS whole"))
    form = subject.source.query.form
    if form is None:
        return None
    read = [column for column in form.relation.columns if column.family is Family.TEXT]
    if not read:
        return None
    chosen = [subject.random.choice(read), *subject.columns(form, 2)]
    collated = [
        replace(column, sql=f"{column.sql} COLLATE {collation}") if column.family is Family.TEXT else column
        for column in chosen
    ]
    trusts = [column.trust for column in chosen]
    base, variant = (form.select(head=select_list(each)) for each in (chosen, collated))
    return Pair(subject.statement(variant, trusts), subject.statement(base, trusts))


def _folded_texts(subject: Subject) -> Pair | None:
    """Folded texts, with the collation that folds them and without one."""
    random = subject.random
    aliases = (f"t{number}" for number in itertools.count(1))
    tries = (
        collated_query(
            random,
            set(),
            lambda: store_under(next(aliases), random, subject.dataset),
            lambda relation: Conditions(Scalars(random, Scope(relation.columns)), None, relation.keys).make(
                1
            ),
            folds=True,
        )
        for _ in range(TRIES)
    )
    query = next((each for each in tries if each is not None), None)
    if query is None:
        return None
    trusts = tuple(column.trust for column in query.columns)
    plain = Generated(
        _COLLATE.sub("", query.sql), (), trusts, frozenset(range(len(trusts))), (), frozenset({"collation"})
    )
    return Pair(replace(plain, sql=query.sql), plain)


COLLATED_OUTPUTS = Relation("collated outputs", _outputs)
FOLDED_AND_COLLATED = Relation("folded texts with their collation", _folded_texts)
