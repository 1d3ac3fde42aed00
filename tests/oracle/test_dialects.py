"""Statements in other dialects: three hosts answer what the same question in DuckDB's dialect says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from engine.service import Session
from tests.oracle.plain_duckdb import PlainDuckDB
from tests.oracle.systems import cluster_in
from tests.oracle.written import DIRECTORY, written_dataset
from tests.support.seeds import seeded_random

_PAIR = re.compile(r"^## (\w+)\n(.*?)\n=>\n(.*?)(?=\n\s*\n## |\s*\Z)", re.DOTALL | re.MULTILINE)
PAIRS = _PAIR.findall((DIRECTORY / "dialects.txt").read_text())
"""Dialect, statement, and what it means in DuckDB's."""
_LINE_COMMENTS = {"bigquery": "# {}\n", "clickhouse": "# {}\n", "mysql": "# {}\n", "snowflake": "// {}\n"}
_WORDS = (
    "AS OF EPOCH 1",
    "AS OF TIMESTAMP '2020-01-01'",
    "it's",
    "?",
    '"',
    "`",
    "/",
    "$$",
    "don't ?",
    "\\",
    "--",
    ";",
)
_PLACES = re.compile(r"(?= (?:FROM|WHERE) )|\Z")


def with_comment(dialect: str, statement: str, seed: int) -> str:
    """A statement with a comment of its dialect before a FROM or WHERE, or at its end: it means the same."""
    chosen = seeded_random(seed)
    words = " ".join(chosen.choice(_WORDS) for _ in range(4))
    forms = ["-- {}\n", "/* {} */", *([_LINE_COMMENTS[dialect]] if dialect in _LINE_COMMENTS else [])]
    comment = chosen.choice(forms).format(words)
    place = chosen.choice([found.start() for found in _PLACES.finditer(statement)])
    return f"{statement[:place]} {comment} {statement[place:]}"


def values(rows: pa.Table) -> Sequence[Sequence[str]]:
    """What rows have, whatever columns are called, and whatever kind of number it is."""
    return [[repr(plain(value)) for value in column.to_pylist()] for column in rows.columns]


def plain(value: Any) -> Any:
    if isinstance(value, list):
        return [plain(each) for each in value]
    # A zero has no sign.
    return round(float(value), 9) + 0.0 if isinstance(value, int | float | Decimal) else value


def test_other_dialects_mean_what_they_say() -> None:
    dataset = written_dataset(1)
    oracle, differences = PlainDuckDB(dataset.live), []
    with cluster_in(dataset) as cluster:
        service = next(iter(cluster.services.values()))
        for seed, (dialect, written, meaning) in enumerate(PAIRS):
            statement = with_comment(dialect, written, seed)
            found = service.execute(statement, session=Session(dialect=dialect)).read_all()
            if values(found) != values(oracle.answer(meaning)):
                differences.append(f"{dialect}: {statement}")
    assert len(PAIRS) > 200
    assert not differences, "\n".join(differences)
