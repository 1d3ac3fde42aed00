"""Semi-join reduction: a big side sends only those rows that can have a partner among rows that are known
already.

A conjunct `mine = theirs` must hold in every row that a SELECT's WHERE lets through, so a row of the side of
`mine` matters only if its value is among those of `theirs`. Where the rows of the other side are gathered
first and are few, they go to every host with the fragment of the big side, as one more condition `mine IN
(SELECT theirs …)`. For a correlated subquery the known rows are those of the SELECT around it: a row whose
value equals that of no row around is let through for none of them. NULLs equal nothing, under `=` and under
IN alike. Both columns must be of one known type, so that both compare alike. The condition itself stays where
it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from sqlglot import exp

from engine.plan.logical.trees import column, named_output, select_from, table, text, unwrap


@dataclass(frozen=True)
class Donor:
    """Rows that are known, and few.

    Attributes:
        part: Name of their table.
        names: Its columns, by the alias and name of the columns that they were.
        alias: Alias under which the SELECT reads them now.
        types: Types of columns, by text.
        bytes: How much they may be.
    """

    part: str
    names: Mapping[tuple[str, str], str]
    alias: str
    types: Mapping[str, pa.DataType]
    bytes: float


def reductions(
    where: Sequence[exp.Expr],
    aliases: Collection[str],
    donors: Sequence[Donor],
    types: Mapping[str, pa.DataType],
) -> list[exp.Expr]:
    """Conditions that rows of some tables must meet to have partners among known rows.

    Args:
        where: The conjuncts of WHERE.
        aliases: The tables.
        donors: The known rows.
        types: Types of columns, by text.

    Returns:
        At most one condition for each of the known tables.
    """
    found = []
    for donor in donors:
        pairs: dict[str, tuple[exp.Column, str]] = {}
        for condition in where:
            pair = _pair(condition, aliases, donor, types)
            if pair is not None:
                pairs.setdefault(text(pair[0]), pair)
        if pairs:
            found.append(_membership(list(pairs.values()), donor))
    return found


def _pair(
    condition: exp.Expr, aliases: Collection[str], donor: Donor, types: Mapping[str, pa.DataType]
) -> tuple[exp.Column, str] | None:
    """A column of the tables and the output of the donor that a condition says are equal."""
    if type(condition) is not exp.EQ:
        return None
    sides = unwrap(condition.this), unwrap(condition.args["expression"])
    for mine, theirs in (sides, sides[::-1]):
        if (
            not isinstance(mine, exp.Column)
            or not isinstance(theirs, exp.Column)
            or mine.table not in aliases
        ):
            continue
        arrow_type = types.get(text(mine))
        original = (
            next((key for key, name in donor.names.items() if name == theirs.name), None)
            if theirs.table == donor.alias
            else None
        )
        if (
            original is not None
            and arrow_type is not None
            and donor.types.get(text(column(*original))) == arrow_type
        ):
            return mine, theirs.name
    return None


def _membership(pairs: Sequence[tuple[exp.Column, str]], donor: Donor) -> exp.Expr:
    columns: list[exp.Expr] = [mine.copy() for mine, _ in pairs]
    # The alias is not one of the statement's, and stands for nothing outside of these brackets.
    known = select_from(
        [named_output(column(donor.part, name), name) for _, name in pairs], table(donor.part, donor.part)
    )
    left = columns[0] if len(columns) == 1 else exp.Tuple(expressions=columns)
    return exp.In(this=left, query=exp.Subquery(this=known))
