"""Random statements that read one common table expression several times, each reader with conditions of its
own on the same columns.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from tests.oracle.kinds import Expression, Family
from tests.oracle.relations import Relation
from tests.oracle.selects import Query

_FAMILIES = (Family.INTEGER, Family.TEXT, Family.DATE, Family.TIMESTAMP)
_OPERATORS = ("=", "=", ">", ">=", "<", "<=", "<>")


def shared_query(
    random: Random, used: set[str], stores: Callable[[], Relation], sample: Callable[[Expression], str]
) -> Query | None:
    """Readers of one common table expression, put together or joined.

    Args:
        random: Where chance comes from.
        used: Features that were used; added to.
        stores: Gives some store.
        sample: A literal to compare a column with.

    Returns:
        The query; None where the store has no columns that can be read so.
    """
    store = stores()
    columns = [column for column in store.columns if column.family in _FAMILIES]
    if not columns:
        return None
    used.add("shared cte")
    read = random.sample(columns, min(len(columns), 3))
    outputs = ", ".join(f"{column.sql} AS c{place}" for place, column in enumerate(read))
    names = ", ".join(f"c{place}" for place in range(len(read)))
    body = random.choice(
        (
            f"SELECT {outputs} FROM {store.sql}",
            f"SELECT DISTINCT {outputs} FROM {store.sql}",
            f"SELECT {outputs} FROM {store.sql} UNION ALL SELECT {outputs} FROM {store.sql}",
            f"SELECT {names} FROM (SELECT {outputs} FROM {store.sql}) AS inside GROUP BY {names}",
            f"SELECT {outputs} FROM {store.sql} LIMIT 100000",
        )
    )

    named = tuple(
        Expression(f"c{place}", column.family, name=f"c{place}") for place, column in enumerate(read)
    )
    if random.random() < 0.5:
        readers = " UNION ALL ".join(
            f"SELECT {', '.join(f'{alias}.c{place}' for place in range(len(read)))} FROM z AS {alias} "
            f"WHERE {_condition(random, alias, read, sample)}"
            for alias in ("x", "y", "v")[: random.choice((2, 2, 3))]
        )
        return Query(f"WITH z AS ({body}) {readers}", named, (), 3 * store.rows, is_limited=True)
    wanted = [_condition(random, alias, read, sample) for alias in ("x", "y")]
    kind = random.choice(("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"))
    text = (
        f"WITH z AS ({body}) SELECT {', '.join(f'x.c{place}' for place in range(len(read)))} "
        f"FROM z AS x {kind} z AS y ON x.c0 = y.c0 AND {wanted[1]} WHERE {wanted[0]}"
    )
    return Query(text, named, (), store.rows, is_limited=True)


def _condition(
    random: Random, alias: str, columns: Sequence[Expression], sample: Callable[[Expression], str]
) -> str:
    """What one reader asks of some of the columns."""
    found = []
    for place, column in enumerate(columns):
        name = f"{alias}.c{place}"
        match random.randrange(6):
            case 0 | 1:
                pass
            case 2:
                found.append(f"{name} IN ({sample(column)}, {sample(column)})")
            case 3:
                found.append(f"({name} = {sample(column)} OR {name} > {sample(column)})")
            case _:
                found.append(f"{name} {random.choice(_OPERATORS)} {sample(column)}")
    return " AND ".join(found) or "true"
