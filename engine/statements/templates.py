"""Texts that differ in nothing but values share a statement: one with parameters in place of the values.

Not every literal is a mere value. `LIMIT 10`, `ORDER BY 1`, `INTERVAL '1' HOUR` and `substring(s, 2)` shape
the plan, the types or the columns' names. So a literal becomes a parameter only where a plain column of a
store is compared with it, in WHERE or ON, outside what gives a column its name; all others stay in the text.
The parameter has the column's type, and the literal must be exactly a value of that type
(`engine.plan.values`): then the comparison is the one that the engine would make.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter

import pyarrow as pa

from engine.errors import LivestateError
from engine.model.schema import NamedStores
from engine.plan.value_places import value_places
from engine.plan.values import UNKNOWN, Constant, exact_integers, exact_value
from engine.sql.bind import bind
from engine.sql.literals import MIN_LIST_LENGTH, Template, ends_in_limit, lift, template_of
from engine.sql.parse import parse
from engine.sql.parsed_statement import StatementClass
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed

_TEMPLATE_BYTES = 500
"""What is known of a template, besides its text."""


@dataclass(frozen=True)
class ParametrizedText:
    """A text with parameters in place of values.

    Attributes:
        text: The text.
        values: The values of the parameters.
        is_likely: Whether no literal is left in it, but that of a `LIMIT` at its end: as in what
            `engine.sql.literals.likely_template` gives.
    """

    text: str
    values: tuple[pa.Scalar, ...]
    is_likely: bool


@dataclass(frozen=True)
class _Values:
    """Which literals of a template are values.

    Attributes:
        types: For each literal, the type of the column that it is compared with; None where it is no value.
        stores: The stores that the template reads, by their names in it.
    """

    types: tuple[pa.DataType | None, ...]
    stores: NamedStores

    def is_current(self, tables: NamedStores) -> bool:
        """Whether names still mean these stores."""
        return all(
            tables.get(name) is definition or tables.get(name) == definition
            for name, definition in self.stores.items()
        )


class Templates:
    """Finds the values in texts. Safe for threads.

    Args:
        limits: How many templates to keep.
    """

    def __init__(self, limits: CacheLimits) -> None:
        self._known: LeastRecentlyUsed[_Values] = LeastRecentlyUsed(limits)

    def parametrize(self, text: str, tables: NamedStores) -> ParametrizedText | None:
        """A text with parameters in place of its values.

        Args:
            text: A text in DuckDB's dialect without parameters.
            tables: The store that each name means.

        Returns:
            The text; None where it has no values, or none that can be told apart.
        """
        template = template_of(text)
        # Longer lists are read faster where they are lifted out (`engine.sql.literals.lift`).
        if template is None or len(template.values) >= MIN_LIST_LENGTH:
            return None
        values = self._known.get(template.text)
        if values is None or not values.is_current(tables):
            values = _values_of(template, tables)
            self._known.put(template.text, values, _TEMPLATE_BYTES + 2 * len(template.text))
        return _parametrize(template, values.types)


def _parametrize(template: Template, types: Sequence[pa.DataType | None]) -> ParametrizedText | None:
    values = _exact_values(template.values, types)
    if not values:
        return None
    parts, number = [template.parts[0]], 0
    for arrow_type, written, behind in zip(types, template.written, template.parts[1:], strict=True):
        number += arrow_type is not None
        parts += (written if arrow_type is None else f" ${number} ", behind)
    left = len(types) - number
    is_likely = not left or (left == 1 and types[-1] is None and ends_in_limit(template))
    return ParametrizedText("".join(parts), values, is_likely)


def _exact_values(
    literals: Sequence[int | str], types: Sequence[pa.DataType | None]
) -> tuple[pa.Scalar, ...] | None:
    """The literals that are values, as values of their types; None where one is not exactly such a value."""
    values: list[pa.Scalar] = []
    for arrow_type, run in groupby(zip(types, literals, strict=True), key=itemgetter(0)):
        if arrow_type is None:
            continue
        found = [literal for _, literal in run]
        if len(found) > 1 and pa.types.is_integer(arrow_type):
            exact = exact_integers(found, arrow_type)
            if exact is None:
                return None
            values += exact
            continue
        for literal in found:
            one = exact_value(Constant(literal, literal=True), arrow_type)
            if one is UNKNOWN or one is None:
                return None
            values.append(one)
    return tuple(values)


def _values_of(template: Template, tables: NamedStores) -> _Values:
    """The values of a template; none where it is no plain query."""
    nothing = _Values((None,) * len(template.values), {})
    try:
        lifted = lift(template.text, "duckdb", lists=False)
        parsed = parse(lifted, "duckdb")
        if parsed.statement_class is not StatementClass.QUERY:
            return nothing
        bound = bind(parsed, (), tables)
    except (LivestateError, RecursionError):
        return nothing
    places = value_places(bound)
    return _Values(tuple(places.get(number) for number in range(1, len(template.values) + 1)), bound.tables)
