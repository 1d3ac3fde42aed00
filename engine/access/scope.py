"""What of the stores a principal may see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

import pyarrow as pa

from engine.access.claims import Claim
from engine.model.schema import StoreDefinition, StoreName

PRINCIPAL_CLAIM = "principal"
"""The claim that every principal has: its name."""


@dataclass(frozen=True)
class Grant:
    """Some stores, or a part of each, that a role may read.

    Attributes:
        stores: Names of stores; `*` in one stands for any characters.
        columns: Names of columns, likewise; what matches none does not exist.
        rows: An SQL condition on the columns of a store, which rows meet that exist; empty for all rows. It
            may call `claim('name')`.
    """

    stores: tuple[str, ...]
    columns: tuple[str, ...] = ("*",)
    rows: str = ""


@dataclass(frozen=True)
class StoreScope:
    """What of one store exists for somebody.

    Attributes:
        columns: Patterns of columns: each column matches one of each set.
        conditions: Rows meet one of these conditions; an empty one is met by all.
    """

    columns: tuple[tuple[str, ...], ...]
    conditions: tuple[str, ...]

    @property
    def has_all_rows(self) -> bool:
        """Whether no row is hidden."""
        return "" in self.conditions

    def is_visible(self, column: str) -> bool:
        """Whether a column exists."""
        return all(any(_matches(pattern, column) for pattern in patterns) for patterns in self.columns)


@dataclass(frozen=True)
class Scope:
    """What exists for somebody. Equal scopes see the same, so that they share plans and answers.

    Attributes:
        grants: What may be read.
        claims: Values of the claims that conditions call, by name, sorted; those that it does not have are
            not there.
        claim_types: Names of the types of these: true and 1 are equal, and not the same claim.
    """

    grants: tuple[Grant, ...]
    claims: tuple[tuple[str, Claim], ...] = ()
    claim_types: tuple[str, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "claim_types", tuple(type(value).__name__ for _, value in self.claims))

    def of_store(self, name: StoreName) -> StoreScope | None:
        """What of a store exists; None if the store does not.

        Of a store that several grants name rows exist that meet the condition of one of them, and the columns
        that are in all of them: so whatever is seen, one grant allows.

        Args:
            name: The store.
        """
        found = [grant for grant in self.grants if any(_matches(pattern, name) for pattern in grant.stores)]
        if not found:
            return None
        return StoreScope(
            tuple(dict.fromkeys(grant.columns for grant in found)),
            tuple(dict.fromkeys(grant.rows for grant in found)),
        )

    def visible_definition(self, definition: StoreDefinition) -> StoreDefinition | None:
        """A store as it exists for somebody.

        Args:
            definition: The store as it is.

        Returns:
            The store without the columns that are hidden; None where it does not exist: also where a column
            is hidden that identifies rows, or that its kind or its retention names, since without it the
            store would not mean anything.
        """
        visible = self.of_store(definition.name)
        if visible is None:
            return None
        hidden = {name for name in definition.schema.names if not visible.is_visible(name)}
        if not hidden:
            return definition
        needed = {*definition.key, *_texts(definition.behaviour.to_document())}
        if not hidden.isdisjoint(needed):
            return None
        return replace(
            definition,
            schema=_remaining_schema(definition.schema, hidden),
            row_schema=_remaining_schema(definition.row_schema, hidden),
        )


def scope_of(grants: Iterable[Grant], name: str, claims: Mapping[str, Claim]) -> Scope:
    """What exists for a principal.

    Args:
        grants: Those of its roles.
        name: The principal's name.
        claims: Its claims.
    """
    given = tuple(dict.fromkeys(grants))
    all_claims = {**claims, PRINCIPAL_CLAIM: name}
    called = {claim for grant in given for claim in called_claims(grant.rows)}
    return Scope(given, tuple(sorted((each, all_claims[each]) for each in called if each in all_claims)))


def called_claims(condition: str) -> frozenset[str]:
    """Names of claims that a condition may call: at least those that it does.

    Args:
        condition: As `Grant.rows`.
    """
    return frozenset(re.findall(r"claim\s*\(\s*'((?:[^']|'')*)'\s*\)", condition, re.IGNORECASE))


@lru_cache(maxsize=10_000)
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, pattern.split("*"))), re.DOTALL)


def _matches(pattern: str, name: str) -> bool:
    return pattern in ("*", name) or ("*" in pattern and _pattern(pattern).fullmatch(name) is not None)


def _texts(document: object) -> Iterator[str]:
    """All texts in a JSON document, whatever they are for."""
    if isinstance(document, str):
        yield document
    elif isinstance(document, dict):
        for value in document.values():
            yield from _texts(value)
    elif isinstance(document, list | tuple):
        for value in document:
            yield from _texts(value)


def _remaining_schema(schema: pa.Schema, hidden: set[str]) -> pa.Schema:
    return pa.schema([field for field in schema if field.name not in hidden])
