"""Statements that were made ready, kept for texts that come again."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa

from engine.deadline import Deadline
from engine.model.schema import NamedStores
from engine.plan.statement import ReadyStatement
from engine.sql.literals import LiftedText, lift
from engine.sql.versions import NO_MOMENTS, Moments
from engine.statements.column_names import ColumnNames
from engine.statements.deep_stack import ready_statement, work_on_text
from engine.statements.least_recently_used import CacheLimits, LeastRecentlyUsed, statement_bytes

MAX_CACHED_LENGTH = 20_000
"""Longer texts are not kept."""
MAX_LIFTED_AT_ONCE = 256 << 10
"""Characters of a text whose lists are found in no time: a million take 0.2 s."""


@dataclass(frozen=True)
class ReadyText:
    """A text whose statement is ready.

    Attributes:
        text: The text.
        statement: The statement.
        lists: This text's own literal lists, and the tables of the catalog that it reads.
        moments: For which moments it reads versioned stores.
    """

    text: str
    statement: ReadyStatement
    lists: Mapping[str, pa.RecordBatch]
    moments: Moments = NO_MOMENTS

    @property
    def catalog_rows(self) -> Mapping[str, pa.RecordBatch]:
        """The tables of the catalog that it reads."""
        return {name: self.lists[name] for name in self.statement.bound.catalog_tables}


class StatementCache:
    """Makes statements ready, and keeps them for texts that come again.

    Texts that differ only in long literal lists share a statement. Lookups of one row are found by their
    template, too, and lookups of the rows of a list by what is before the list.

    Args:
        limits: How many statements to keep.
        names: Knows the names of their columns.
    """

    def __init__(self, limits: CacheLimits, names: ColumnNames) -> None:
        self._names = names
        self._texts: LeastRecentlyUsed[ReadyStatement] = LeastRecentlyUsed(limits)
        self._lookups: LeastRecentlyUsed[ReadyStatement] = LeastRecentlyUsed(limits)
        self._list_lookups: LeastRecentlyUsed[ReadyStatement] = LeastRecentlyUsed(limits)

    def ready_text(
        self,
        text: str,
        dialect: str,
        tables: NamedStores,
        deadline: Deadline,
        moments: Moments = NO_MOMENTS,
        shapes: Hashable = (),
        user: str = "",
    ) -> ReadyText:
        """The statement of a text.

        Args:
            text: What the user wrote.
            dialect: Its dialect.
            tables: The store that each name means.
            deadline: When the statement must end.
            moments: For which moments it reads versioned stores.
            shapes: What tells `tables` from what names mean now; empty where they are that.
            user: The name of whoever asks.

        Returns:
            The statement, and the lists of this text.

        Raises:
            LivestateError: As `ready_statement`.
        """
        known = self.known_statement(text, dialect, tables) if moments == NO_MOMENTS and not shapes else None
        if known is not None:
            return ReadyText(text, known, _catalog_rows(known, tables, user))
        if len(text) > MAX_LIFTED_AT_ONCE:
            lifted = work_on_text(text, partial(lift, text, dialect), deadline)
        else:
            lifted = lift(text, dialect)
        lists = {entry.name: entry.rows for entry in lifted.lists}
        kept = self._find_or_make(lifted, dialect, tables, (moments, shapes), deadline)
        if lists and not kept.has_fitting_lists:
            lifted, lists = lift(text, dialect, lists=False), {}
            kept = self._find_or_make(lifted, dialect, tables, (moments, shapes), deadline)
        return ReadyText(text, kept, {**lists, **_catalog_rows(kept, tables, user)}, moments)

    def known_statement(self, text: str, dialect: str, tables: NamedStores) -> ReadyStatement | None:
        """The statement of a text without long lists, if it is ready already."""
        if len(text) > MAX_CACHED_LENGTH:
            return None
        found = self._texts.get((text, dialect))
        return found if found is not None and found.is_current(tables) else None

    def _find_or_make(
        self,
        lifted: LiftedText,
        dialect: str,
        tables: NamedStores,
        apart: tuple[Moments, Hashable],
        deadline: Deadline,
    ) -> ReadyStatement:
        list_types = tuple(
            tuple(str(arrow_type) for arrow_type in entry.rows.schema.types) for entry in lifted.lists
        )
        # Texts with lists share what is made of the text without them; others are found before anything is
        # lifted.
        key: tuple[Hashable, ...] = (
            (lifted.source.text, dialect, list_types) if list_types else (lifted.source.original, dialect)
        )
        moments, _ = apart
        if apart != (NO_MOMENTS, ()):
            key = (*key, apart)
        found = self._texts.get(key)
        if found is not None and found.is_current(tables):
            return found
        made = ready_statement(lifted, dialect, tables, deadline, moments=moments)
        made = replace(made, names=self._names.names_of(made.bound, dialect, deadline))
        # What DESCRIBE says of a store is not told by references; a query without any means the same whatever
        # stores there are.
        if len(lifted.source.text) <= MAX_CACHED_LENGTH and made.bound.tree is not None:
            self._texts.put(key, made, statement_bytes(lifted.source.text))
        return made

    def known_lookup(self, template: str, tables: NamedStores) -> ReadyStatement | None:
        """The lookup of one row that all short texts of a template share, if it is known."""
        found = self._lookups.get(template)
        return found if found is not None and found.is_current(tables) else None

    def learn_lookup(self, template: str, statement: ReadyStatement) -> None:
        """Keep the statement of a template, if it is a lookup of one row.

        Args:
            template: Text of the template, with a parameter for each literal.
            statement: Its statement.
        """
        if statement.key_lookup is not None and self._lookups.get(template) is not statement:
            self._lookups.put(template, statement, statement_bytes(template))

    def known_list_lookup(self, head: str, tables: NamedStores) -> ReadyStatement | None:
        """The lookup of rows by a list of keys that all texts share which differ in that list alone, if it is
        known.

        Args:
            head: What is before the list.
            tables: The store that each name means.
        """
        found = self._list_lookups.get(head)
        return found if found is not None and found.is_current(tables) else None

    def learn_list_lookup(self, head: str, statement: ReadyStatement) -> None:
        """Keep the statement of a text that is a lookup of rows by the list at its end.

        Args:
            head: What is before the list.
            statement: The statement.
        """
        if len(head) <= MAX_CACHED_LENGTH:
            nbytes = statement_bytes(statement.bound.source.text) + len(head)
            self._list_lookups.put(head, statement, nbytes)


def _catalog_rows(statement: ReadyStatement, tables: NamedStores, user: str) -> Mapping[str, pa.RecordBatch]:
    """The tables of the catalog that a statement reads, by the names that it has for them."""
    return {name: table.batch(tables, user) for name, table in statement.bound.catalog_tables.items()}
