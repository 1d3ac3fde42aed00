"""What a metamorphic relation is: another way to ask, and how the two answers must agree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

import pyarrow as pa

from tests.oracle.comparison import difference
from tests.oracle.datasets import Dataset
from tests.oracle.kinds import SIMPLE, Expression, Trust
from tests.oracle.queries import Generated, Source
from tests.oracle.selects import Form


class Agreement(Enum):
    """How two answers agree."""

    ROWS = "the same rows"
    ORDERED = "the same rows, in the same order"
    ORDERED_OR_REFUSED = "the same rows, in the same order, or a refusal"
    ANSWERED = "there is an answer"


@dataclass(frozen=True)
class Subject:
    """A query that is to be asked in another way.

    Attributes:
        query: The query.
        source: What it was made of.
        dataset: The stores.
        random: Where chance comes from.
    """

    query: Generated
    source: Source
    dataset: Dataset
    random: Random

    def columns(self, form: Form, most: int = 4) -> list[Expression]:
        """Some of the columns that a form reads and that are determined, those of keys among them."""
        found = [
            column
            for column in (*form.relation.columns, *form.relation.keys)
            if column.family in SIMPLE and column.trust <= Trust.EQUAL
        ]
        return self.random.sample(found, min(len(found), self.random.randrange(1, most + 1)))

    def variant(self, text: str) -> Generated:
        """A statement with the outputs of the query, of its parts, in any order."""
        sql, parameters = self.source.statement(text)
        return replace(self.query, sql=sql, parameters=parameters, ordered=(), source=None)

    def statement(self, text: str, trusts: Sequence[Trust]) -> Generated:
        """A statement with other outputs, which all have names, of parts of the query.

        Args:
            text: What stands behind the query's WITH clause.
            trusts: How surely each output is determined.
        """
        sql, parameters = self.source.statement(self.source.with_clause + text)
        return Generated(
            sql, parameters, tuple(trusts), frozenset(range(len(trusts))), (), self.query.features
        )


def select_list(columns: Sequence[Expression]) -> str:
    """SELECT with some columns under names of their own."""
    return "SELECT " + ", ".join(f"{column.sql} AS c{place}" for place, column in enumerate(columns))


@dataclass(frozen=True)
class Pair:
    """Two statements whose answers must agree.

    Attributes:
        variant: The other way to ask.
        base: What it is compared with; None for the query itself.
        agreement: How the answers agree.
        before: What is asked just before the variant, whatever the answer.
    """

    variant: Generated
    base: Generated | None = None
    agreement: Agreement = Agreement.ROWS
    before: tuple[Generated, ...] = ()

    def disagreement(self, query: Generated, expected: pa.Table, found: pa.Table) -> str | None:
        """How the variant's answer disagrees with that of the base; None if it does not.

        Args:
            query: The query itself.
            expected: The base's answer.
            found: The variant's.
        """
        base = self.base or query
        if self.agreement is Agreement.ANSWERED:
            return None if found.num_rows else "there is no row"
        if len(expected.schema) != len(found.schema):
            return f"{len(found.schema)} columns instead of {len(expected.schema)}"
        # The engine names an expression by its text, which stands elsewhere now, and a name that
        # is there twice has a number in a table.
        taken = Counter(name.lower() for name in expected.schema.names)
        named = {
            place
            for place in base.named & self.variant.named
            if taken[expected.schema.names[place].lower()] == 1
        }
        names = [
            name if place in named else f"column {place}" for place, name in enumerate(found.schema.names)
        ]
        wanted = [
            name if place in named else f"column {place}" for place, name in enumerate(expected.schema.names)
        ]
        ordered = () if self.agreement is Agreement.ROWS else base.ordered
        return difference(expected.rename_columns(wanted), found.rename_columns(names), base.trusts, ordered)


@dataclass(frozen=True)
class Relation:
    """A metamorphic relation.

    Attributes:
        name: Its name.
        pair: Makes two statements of a query whose answers must agree; None where it does not apply.
    """

    name: str
    pair: Callable[[Subject], Pair | None]
