"""The format of the fixture files: queries with one golden answer each.

    -- Songs of one genre.
    SELECT …
    ----
    song_id BIGINT, title VARCHAR
    1, 'Song 001'

A blank line ends an answer. Rows are in the order of the query if it ends in ORDER BY, else sorted by their
text.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from engine.errors import InvalidInput
from engine.model.sql_types import sql_type

DIRECTORY = Path(__file__).parent / "fixtures"
_ORDERED = re.compile(r"ORDER BY [^()]*$", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Fixture:
    """One query and its answer.

    Attributes:
        file: Name of its file without the ending.
        title: What it shows.
        sql: The query.
        answer: The header and the rows, as lines.
    """

    file: str
    title: str
    sql: str
    answer: tuple[str, ...]

    @property
    def is_ordered(self) -> bool:
        """Whether the query says in which order rows come."""
        return _ORDERED.search(self.sql) is not None


def read(path: Path) -> list[Fixture]:
    """The fixtures of a file."""
    found = []
    for block in re.split(r"\n\s*\n(?=-- )", path.read_text().strip()):
        head, _, answer = block.partition("\n----\n")
        title, _, sql = head.partition("\n")
        found.append(
            Fixture(
                path.stem,
                title.removeprefix("-- ").rstrip("."),
                sql.strip(),
                tuple(answer.rstrip("\n").split("\n")) if answer else (),
            )
        )
    return found


def read_all() -> list[Fixture]:
    """The fixtures of all files."""
    return [fixture for path in sorted(DIRECTORY.glob("*.sql")) for fixture in read(path)]


def write(path: Path, fixtures: Iterable[Fixture]) -> None:
    """Write a file that `read` reads."""
    path.write_text(
        "\n\n".join(f"-- {each.title}.\n{each.sql}\n----\n" + "\n".join(each.answer) for each in fixtures)
        + "\n"
    )


def answer_of(table: pa.Table, *, is_ordered: bool) -> tuple[str, ...]:
    """A table as the lines of an answer."""
    header = ", ".join(f"{field.name} {_type(field.type)}" for field in table.schema)
    rows = [
        ", ".join(text(value) for value in row)
        for row in zip(*(column.to_pylist() for column in table.columns), strict=True)
    ]
    return (header, *(rows if is_ordered else sorted(rows)))


def _type(kind: pa.DataType) -> str:
    try:
        return sql_type(kind)
    except InvalidInput:
        return str(kind)


def text(value: Any) -> str:
    """A value as text that tells values apart which print alike."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''").replace("\n", "\\n") + "'"
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).isoformat(" ") if value.tzinfo is not None else value.isoformat(" ")
    if isinstance(value, dt.date | dt.time):
        return value.isoformat()
    if isinstance(value, float):
        return float.__repr__(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{name}: {text(item)}" for name, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        opening, closing = "()" if isinstance(value, tuple) else "[]"
        return opening + ", ".join(text(item) for item in value) + closing
    return str(value)
