"""Random queries over collated columns: what is equal, and which row is first, follows from a type that does
not travel with values.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from tests.oracle.kinds import Expression, Family, text_literal
from tests.oracle.relations import Relation
from tests.oracle.selects import Query
from tests.oracle.values import WORDS

COLLATIONS = {
    "NOCASE": "lower({})",
    "NOACCENT": "strip_accents({})",
    "NOCASE.NOACCENT": "lower(strip_accents({}))",
}
"""Each with the function that gives equal values one and the same text."""
MANY = (Expression("many", Family.INTEGER, name="many"),)


@dataclass(frozen=True)
class _Collated:
    """A query with a collated column `n`, and the key of the store that it reads.

    Attributes:
        sql: The query.
        keys: Names of the columns of the key.
        columns: These columns.
        folded: `n` as a text that is the same for equal values.
        fold: How any text is made such a text.
        collation: Its collation.
        store: The store.
    """

    sql: str
    keys: Sequence[str]
    columns: tuple[Expression, ...]
    folded: str
    fold: str
    collation: str
    store: Relation


def collated_query(
    random: Random,
    used: set[str],
    store: Callable[[], Relation],
    condition: Callable[[Relation], str],
    *,
    folds: bool = False,
) -> Query | None:
    """A query over a collated column of a derived table or a common table expression.

    Args:
        random: Where chance comes from.
        used: Features that were used; added to.
        store: Makes a store under an alias of its own.
        condition: Makes a condition on a store's rows.
        folds: All texts are folded already, so that the collation says nothing.

    Returns:
        The query; None if the stores that chance took have no texts.
    """
    found, other = _collated_query(random, store(), condition, folds=folds), store()
    others = [column.sql for column in other.columns if column.family is Family.TEXT]
    if found is None or not others:
        return None
    used.add("collation")
    rows, body = ("z", found.sql) if random.random() < 0.3 else (f"({found.sql})", None)
    other_text = random.choice(others)
    word, other_word = (text_literal(random.choice(WORDS)) for _ in range(2))
    if folds:
        other_text, word, other_word = map(found.fold.format, (other_text, word, other_word))
    bounds = [word, other_word]
    bounds[random.randrange(2)] += f" COLLATE {found.collation}"
    others_rows = f"(SELECT {other_text} FROM {other.sql})"
    keys = ", ".join(f"d.{key}" for key in found.keys)
    most = random.choice(("min", "max"))
    texts: tuple[tuple[str, tuple[Expression, ...]], ...] = (
        (
            f"SELECT {found.folded} AS x, count(*) AS many FROM {rows} AS d GROUP BY n, {found.folded}",
            (_text("x"), *MANY),
        ),
        (f"SELECT count(DISTINCT n) AS many FROM {rows} AS d", MANY),
        (f"SELECT count(*) AS many FROM (SELECT DISTINCT n FROM {rows} AS d) AS e", MANY),
        (f"SELECT count(*) AS many FROM {rows} AS d JOIN {other.sql} ON d.n = {other_text}", MANY),
        (
            (
                f"SELECT count(*) AS many FROM {rows} AS d {random.choice(('SEMI', 'ANTI', 'LEFT'))} JOIN "
                f"{other.sql} ON d.n = {other_text}"
            ),
            MANY,
        ),
        (
            f"SELECT count(*) AS many FROM {rows} AS d WHERE n {random.choice(('', 'NOT '))}IN {others_rows}",
            MANY,
        ),
        (
            (
                f"SELECT count(*) AS many FROM {rows} AS d WHERE EXISTS (SELECT 1 FROM {other.sql} WHERE "
                f"{other_text} = d.n)"
            ),
            MANY,
        ),
        (
            (
                f"SELECT count(*) AS many FROM (SELECT n FROM {rows} AS d "
                f"{random.choice(('UNION', 'EXCEPT', 'INTERSECT'))} {others_rows}) AS e"
            ),
            MANY,
        ),
        (f"SELECT {keys}, count(*) OVER (PARTITION BY n) AS many FROM {rows} AS d", (*found.columns, *MANY)),
        (
            f"SELECT {keys}, rank() OVER (ORDER BY n, {keys}) AS many FROM {rows} AS d",
            (*found.columns, *MANY),
        ),
        (
            (
                f"SELECT {keys} FROM {rows} AS d ORDER BY n {random.choice(('', 'DESC'))}, {keys} LIMIT "
                f"{random.choice((1, 3, 10))}"
            ),
            found.columns,
        ),
        (
            f"SELECT count(*) AS many FROM {rows} AS d WHERE n {random.choice(('=', '<', '>=', '<>'))} {word}",
            MANY,
        ),
        (
            (
                f"SELECT count(*) AS many FROM {other.sql} WHERE {other_text} {random.choice(('', 'NOT '))}"
                f"BETWEEN {bounds[0]} AND {bounds[1]}"
            ),
            MANY,
        ),
        (f"SELECT {found.folded.replace('(n)', f'({most}(n))')} AS x FROM {rows} AS d", (_text("x"),)),
    )
    text, columns = random.choice(texts)
    return Query(
        text if body is None else f"WITH z AS ({body}) {text}", columns, (), found.store.rows, is_limited=True
    )


def _text(name: str) -> Expression:
    return Expression(name, Family.TEXT, name=name)


def _collated_query(
    random: Random, store: Relation, condition: Callable[[Relation], str], *, folds: bool
) -> _Collated | None:
    texts = [column for column in store.columns if column.family is Family.TEXT]
    if not texts or any(column.family is Family.FLOAT for column in store.total):
        return None
    names = [f"k{place}" for place in range(len(store.total))]
    listed = ", ".join(f"{column.sql} AS {name}" for column, name in zip(store.total, names, strict=True))
    collation, folded = random.choice(list(COLLATIONS.items()))
    where = f" WHERE {condition(store)}" if random.random() < 0.4 else ""
    columns = tuple(column.column_under("d", name) for column, name in zip(store.total, names, strict=True))
    text = random.choice(texts).sql
    if folds:
        text = folded.format(text)
    sql = f"SELECT {listed}, {text} COLLATE {collation} AS n FROM {store.sql}{where}"
    return _Collated(sql, names, columns, folded.format("n"), folded, collation, store)
