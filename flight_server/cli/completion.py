"""What could come next in an SQL text: keywords, stores, columns."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from engine.model.sql_types import quote_identifier

KEYWORDS = (
    *(
        "SELECT",
        "DISTINCT",
        "FROM",
        "WHERE",
        "GROUP BY",
        "HAVING",
        "ORDER BY",
        "LIMIT",
        "OFFSET",
        "QUALIFY",
        "WITH",
        "AS",
        "VALUES",
        "UNION ALL",
    ),
    *(
        "JOIN",
        "LEFT JOIN",
        "USING",
        "ON",
        "AND",
        "OR",
        "NOT",
        "IN",
        "BETWEEN",
        "LIKE",
        "ILIKE",
        "IS NULL",
        "IS NOT NULL",
        "EXISTS",
    ),
    *(
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "ASC",
        "DESC",
        "NULLS LAST",
        "OVER",
        "PARTITION BY",
        "CAST",
        "INTERVAL",
        "TRUE",
        "FALSE",
        "NULL",
    ),
    *(
        "SHOW STORES",
        "SHOW HOSTS",
        "DESCRIBE",
        "EXPLAIN",
        "count(*)",
        "count(",
        "sum(",
        "avg(",
        "min(",
        "max(",
        "row_number()",
        "coalesce(",
        "date_trunc(",
        "now()",
    ),
)
COMMANDS = ("\\d", "\\l", "\\i", "\\x", "\\timing", "\\limit", "\\?", "\\help", "\\q")
_WORD = re.compile(r'(?:(?P<qualifier>"(?:[^"]|"")+"|\w+)\.)?(?P<word>"(?:[^"]|"")*"?|\w*)\Z')
_NAME = r'("(?:[^"]|"")+"|\w+)'
_SOURCE = re.compile(rf"\b(?:from|join)\s+{_NAME}(?:\s+(?:as\s+)?{_NAME})?", re.IGNORECASE)
_STORE_WANTED = re.compile(r"(?:\b(?:from|join|describe|desc)\s+|^\s*\\d\s+)\Z", re.IGNORECASE)
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True)
class Catalog:
    """The names that a host knows.

    Attributes:
        columns: Store name to its columns, each with its SQL type.
    """

    columns: Mapping[str, Sequence[tuple[str, str]]] = field(default_factory=dict)


@dataclass(frozen=True)
class Completion:
    """One way to go on.

    Attributes:
        text: What replaces the last `replaces` characters.
        replaces: How many characters before the cursor it replaces.
        description: What it is, for the eye: `store`, a column's type, or nothing.
    """

    text: str
    replaces: int
    description: str = ""


def quote_if_needed(name: str) -> str:
    """A name as SQL has it: in double quotes unless it is a plain one."""
    return name if _PLAIN_NAME.match(name) else quote_identifier(name)


def completions(before: str, whole: str, catalog: Catalog) -> Iterator[Completion]:
    """What could come next.

    Args:
        before: The text up to the cursor.
        whole: The whole text; its FROM and JOIN parts say which columns matter, wherever the cursor is.
        catalog: The names that the host knows.

    Yields:
        Stores after FROM, JOIN and DESCRIBE; the columns of a store or alias after its dot; otherwise the
        columns of the stores in the text, then stores, then keywords. Only names that start with the word at
        the cursor.
    """
    if re.fullmatch(r"\s*\\\w*", before):
        yield from _completions_of(((command, "") for command in COMMANDS), before.lstrip())
        return
    found = _WORD.search(before)
    if found is None:
        return
    word, sources = found["word"], _sources(whole, catalog)
    if found["qualifier"]:
        yield from _completions_of(
            _quote_names(catalog.columns.get(sources.get(_store_key(found["qualifier"]), ""), ())), word
        )
    elif _STORE_WANTED.search(before[: found.start()]):
        yield from _completions_of(_stores(catalog), word)
    elif word:
        known = (column for store in dict.fromkeys(sources.values()) for column in catalog.columns[store])
        yield from _completions_of(_quote_names(known), word)
        yield from _completions_of(_stores(catalog), word)
        yield from _completions_of(((keyword, "") for keyword in KEYWORDS), word)


def _sources(sql: str, catalog: Catalog) -> dict[str, str]:
    """Alias, or name, in lower case to the store that it stands for."""
    stores = {store.lower(): store for store in catalog.columns}
    sources: dict[str, str] = {}
    for found in _SOURCE.finditer(sql):
        store = stores.get(_store_key(found[1]))
        if store is not None:
            sources[_store_key(found[1])] = store
            if found[2]:
                sources[_store_key(found[2])] = store
    return sources


def _store_key(name: str) -> str:
    return (name[1:-1].replace('""', '"') if name.startswith('"') else name).lower()


def _stores(catalog: Catalog) -> Iterator[tuple[str, str]]:
    return ((quote_if_needed(store), "store") for store in sorted(catalog.columns))


def _quote_names(columns: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    return ((quote_if_needed(name), description) for name, description in columns)


def _completions_of(candidates: Iterable[tuple[str, str]], word: str) -> Iterator[Completion]:
    typed = word.lstrip('"').lower()
    for text, description in dict.fromkeys(candidates):
        if text.lstrip('"').lower().startswith(typed) and text != word:
            yield Completion(text, len(word), description)
