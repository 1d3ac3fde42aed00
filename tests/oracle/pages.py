"""Random small statements over one store, as people page through it: along its key, over ranges and prefixes,
by lists of keys, with simple conditions and a LIMIT; sums of such rows; and single keys with little besides.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.oracle.kinds import Expression, Family, quote_name
from tests.oracle.relations import Relation
from tests.oracle.selects import Query

BOUNDS = (">", ">=", "<", "<=")
LIMITS = ("", " LIMIT 0", " LIMIT 1", " LIMIT 3", " LIMIT 20")
OFFSETS = ("", "", " OFFSET 1", " OFFSET 25")
_EXACT = (Family.INTEGER, Family.TEXT, Family.DATE, Family.TIMESTAMP)


def page_query(
    random: Random, used: set[str], store: Relation, sample: Callable[[Expression], str]
) -> Query | None:
    """A page, a range or a list of rows of a store, or what they come to.

    Args:
        random: Where chance comes from.
        used: Features that were used; added to.
        store: The store.
        sample: A literal to compare a column with.

    Returns:
        The query; None where the store has no columns that can be read so.
    """
    conditions, pinned = _conditions(random, store, sample)
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    if random.random() < 0.2 and conditions:
        return _summary(random, used, store, where)
    total = list(store.total)
    others = [column for column in store.columns if column.sql not in [each.sql for each in total]]
    columns = (*total, *random.sample(others, min(len(others), random.randrange(4))))
    text = f"SELECT {', '.join(column.sql for column in columns)} FROM {store.sql}{where}"
    if random.random() < 0.25:
        used.add("range, list or prefix")
        return Query(text, columns, tuple(range(len(total))), store.rows, is_limited=True)
    used.add("page along the key")
    first = random.randrange(pinned + 1)
    direction = random.choice(("", " ASC", " DESC", " DESC NULLS FIRST"))
    named = total[min(first, len(total) - 1) :]
    order = ", ".join(
        f"{column.sql if random.random() < 0.5 else quote_name(column.name)}{direction}" for column in named
    )
    limit, offset = random.choice(LIMITS), random.choice(OFFSETS)
    places = tuple(range(len(total)))
    return Query(
        f"{text} ORDER BY {order}{limit}{offset}",
        columns,
        places,
        store.rows,
        is_limited=True,
        ordered=places[total.index(named[0]) :],
    )


def key_query(random: Random, used: set[str], store: Relation, sample: Callable[[Expression], str]) -> Query:
    """The row of one key, or none; arguments as those of `page_query`. What it asks for besides is little, so
    that a plan which knows nothing but the key would give another answer.
    """
    used.add("one key")
    total = list(store.total)
    conditions = [f"{column.sql} = {sample(column)}" for column in total]
    if random.random() < 0.2:
        conditions[-1] = f"{total[-1].sql} IN ({sample(total[-1])})"
    others = [column for column in store.columns if column.sql not in [each.sql for each in total]]
    tested = random.sample(others, min(len(others), random.choice((0, 1, 1, 2))))
    conditions += [f"{column.sql} IS {random.choice(('', 'NOT '))}NULL" for column in tested]
    random.shuffle(conditions)
    columns = (*total, *random.sample(others, min(len(others), random.randrange(4))))
    order = random.choice(("", "", f" ORDER BY {total[0].sql}"))
    rest = random.choice(("", "", random.choice(LIMITS) + random.choice(OFFSETS)))
    text = (
        f"SELECT {', '.join(column.sql for column in columns)} FROM {store.sql} "
        f"WHERE {' AND '.join(conditions)}{order}{rest}"
    )
    return Query(text, columns, tuple(range(len(total))), store.rows, is_limited=True)


def _conditions(
    random: Random, store: Relation, sample: Callable[[Expression], str]
) -> tuple[list[str], int]:
    """Conditions of a WHERE, and how many leading columns of the key they give one value each."""
    pinned = random.choice((0, 0, *range(len(store.total))))
    found = [f"{column.sql} = {sample(column)}" for column in store.total[:pinned]]
    behind = store.total[pinned]
    match random.randrange(5):
        case 0:
            found.append(f"{behind.sql} {random.choice(BOUNDS)} {sample(behind)}")
        case 1:
            found.append(f"{behind.sql} BETWEEN {sample(behind)} AND {sample(behind)}")
        case 2:
            members = ", ".join(sample(behind) for _ in range(random.choice((1, 3, 12))))
            found.append(f"{behind.sql} IN ({members})")
        case _:
            pass
    others = [column for column in store.columns if column.family in _EXACT or column.family is Family.FLOAT]
    for column in random.sample(others, min(len(others), random.choice((0, 0, 1, 2)))):
        match random.randrange(4):
            case 0:
                found.append(f"{column.sql} IS {random.choice(('', 'NOT '))}NULL")
            case 1:
                found.append(f"{column.sql} IN ({sample(column)}, {sample(column)})")
            case _:
                found.append(f"{column.sql} {random.choice(('=', *BOUNDS))} {sample(column)}")
    return found, pinned


def _summary(random: Random, used: set[str], store: Relation, where: str) -> Query | None:
    """Aggregates of the rows that conditions leave."""
    columns = [column for column in store.columns if column.family in _EXACT]
    if not columns:
        return None
    used.add("summary")
    texts, outputs = ["count(*) AS many"], [Expression("many", Family.INTEGER, name="many")]
    for place, column in enumerate(random.sample(columns, min(len(columns), 3))):
        kinds = ("count", "min", "max", *(("sum",) if column.family is Family.INTEGER else ()))
        kind = random.choice(kinds)
        family = Family.INTEGER if kind in ("count", "sum") else column.family
        texts.append(f"{kind}({column.sql}) AS s{place}")
        outputs.append(Expression(f"s{place}", family, name=f"s{place}"))
    return Query(f"SELECT {', '.join(texts)} FROM {store.sql}{where}", tuple(outputs), (), 1, is_limited=True)
